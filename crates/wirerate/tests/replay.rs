//! `wirerate replay --dry-run` on odd files, compared with `tests/golden/replay_odd_files.txt`, and
//! the frames that it writes.

mod compress;

use compress::{gzip, lz4, xz};
use packet::Rng;
use pcapng::{Interface, Packet, Section, Writer, pcap};
use replay::sample::{self, Ends};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::Folder;

const FRAMES: u64 = 200;
const START_NS: u64 = 1_700_000_000_000_000_000;
const GAP_NS: u64 = 1_000_000;
/// Addresses of the made header, as the arguments below give them.
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// An IPv4 packet of UDP of 86 bytes.
fn ip(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.udp(1000 + number as u16, 53).write(&mut out, &[number as u8; 58]).unwrap();
    out
}

fn frame(number: u64) -> Vec<u8> {
    [&MACS[..], &[8, 0], &ip(number)].concat()
}

/// A pcap file of one link type; `record` gives original length and bytes.
fn pcap_of(link_type: u16, record: impl Fn(u64) -> (u32, Vec<u8>)) -> Vec<u8> {
    let header = pcap::Header { link_type, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
    for number in 0..FRAMES {
        let (frame_len, data) = record(number);
        let time_ns = START_NS + number * GAP_NS;
        writer.record(&pcap::Record { time_ns, frame_len, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

fn with_header(link_type: u16, header: &[u8]) -> Vec<u8> {
    pcap_of(link_type, |number| {
        let data = [header, &ip(number)].concat();
        (data.len() as u32, data)
    })
}

/// A pcapng file whose interfaces take turns.
fn pcapng_of(link_types: &[u16]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    for link_type in link_types {
        writer.add_interface(&Interface { link_type: *link_type, ..Interface::default() }).unwrap();
    }
    for number in 0..FRAMES {
        let interface = number as u32 % link_types.len() as u32;
        let data = if link_types[interface as usize] == 1 { frame(number) } else { ip(number) };
        let time_ns = START_NS + number * GAP_NS;
        let (frame_len, data) = (data.len() as u32, &data[..]);
        writer.packet(&Packet { interface, time_ns, frame_len, data, ..Packet::default() }).unwrap();
    }
    writer.finish().unwrap()
}

/// Runs the program in `folder` without a device.
fn replay(folder: &Path, args: &[&str]) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(["replay", "no-device", "--dry-run", "--dst-mac", "02:00:00:00:00:02"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test starts");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    testkit::check_json_lines(&text);
    (text, output.status.code().expect("it was not killed"))
}

/// The frames that a dry run of `args` writes, with interface and time after the first.
fn written(folder: &Path, args: &[&str]) -> Vec<(u32, u64, Vec<u8>)> {
    let (said, code) = replay(folder, &[args, &["--write", "out.pcapng"]].concat());
    assert_eq!(code, 0, "{said}");
    let file = std::fs::read(folder.join("out.pcapng")).unwrap();
    let mut reader = pcapng::Reader::new(&file[..]);
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let pcapng::Block::Packet(packet) = block {
            frames.push((packet.interface, packet.time_ns - START_NS, packet.data.to_vec()));
        }
    }
    frames
}

fn expected() -> Vec<Vec<u8>> {
    (0..FRAMES).map(frame).collect()
}

#[test]
fn odd_files_are_played_or_named_with_their_exit_code() {
    let folder = Folder::new("odd");
    let whole = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..]].concat();
    let sll2 = [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..]].concat();
    let mut damaged = whole[..24 + 5 * 116].to_vec();
    damaged.extend([1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 60, 0, 0, 0]);
    damaged.extend([7; 3000]);
    let backwards = {
        let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default()).unwrap();
        for number in 0..FRAMES {
            let (time_ns, data) = (START_NS - number * GAP_NS, frame(number));
            let frame_len = data.len() as u32;
            writer.record(&pcap::Record { time_ns, frame_len, data: &data }).unwrap();
        }
        writer.finish().unwrap()
    };
    let long = |number: u64| (9000, [frame(number), vec![0; 8900]].concat());
    let files: [(&str, Vec<u8>); 21] = [
        ("one-interface.pcapng", pcapng_of(&[1])),
        ("two-link-types.pcapng", pcapng_of(&[1, 101])),
        ("gzip.pcap.gz", gzip(&whole)),
        ("zstd.pcap.zst", zstd::stream::encode_all(&whole[..], 1).unwrap()),
        ("xz.pcap.xz", xz(&whole)),
        ("lz4.pcap.lz4", lz4(&whole)),
        ("bzip2.pcap.bz2", b"BZh91AY".to_vec()),
        ("cut-at-96.pcap", pcap_of(1, |number| (1000, frame(number)[..96].to_vec()))),
        ("ends-inside-a-frame.pcap", whole[..whole.len() - 50].to_vec()),
        ("damaged-length.pcap", damaged),
        ("raw-ip.pcap", with_header(101, &[])),
        ("sll.pcap", with_header(113, &sll)),
        ("sll2.pcap", with_header(276, &sll2)),
        ("null.pcap", with_header(0, &[2, 0, 0, 0])),
        ("loop.pcap", with_header(108, &[0, 0, 0, 2])),
        ("radiotap.pcap", with_header(127, &[0, 0, 8, 0, 0, 0, 0, 0])),
        ("ppp.pcap", with_header(9, &[])),
        ("nine-thousand.pcap", pcap_of(1, long)),
        ("twenty-bytes.pcap", pcap_of(1, |number| (20, frame(number)[..20].to_vec()))),
        ("backwards.pcap", backwards),
        ("not-a-capture.pcap", vec![7; 100]),
    ];
    let mut text = String::new();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
        let (said, code) = replay(&folder, &[name]);
        text += &format!("$ wirerate replay no-device --dry-run {name}\n{said}exit code {code}\n\n");
    }
    for words in [
        "--strict one-interface.pcapng",
        "--strict ends-inside-a-frame.pcap",
        "--cut short cut-at-96.pcap",
        "--cut skip cut-at-96.pcap",
        "--cut fail cut-at-96.pcap",
        "--other no-device-2 --split auto raw-ip.pcap",
    ] {
        let (said, code) = replay(&folder, &words.split(' ').collect::<Vec<_>>());
        text += &format!("$ wirerate replay no-device --dry-run {words}\n{said}exit code {code}\n\n");
    }
    testkit::golden("replay_odd_files.txt", &text);
}

#[test]
fn every_form_of_a_file_gives_the_frames_in_order_with_their_times() {
    let folder = Folder::new("forms");
    let whole = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    let sll = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0];
    for (name, bytes) in [
        ("plain", whole.clone()),
        ("gzip", gzip(&whole)),
        ("xz", xz(&whole)),
        ("pcapng", pcapng_of(&[1, 101])),
        ("raw", with_header(101, &[])),
        ("sll", with_header(113, &sll)),
        ("null", with_header(108, &[0, 0, 0, 2])),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
        let frames = written(&folder, &[name, "--src-mac", "02:00:00:00:00:01"]);
        for (number, (found, expected)) in frames.iter().zip(expected()).enumerate() {
            assert_eq!(found.1, number as u64 * GAP_NS, "{name}");
            assert_eq!(found.2, expected, "{name}, frame {number}");
        }
        assert_eq!(frames.len() as u64, FRAMES, "{name}");
    }
}

#[test]
fn loops_merging_selection_and_two_devices_keep_the_count_of_packets() {
    let folder = Folder::new("loops");
    let whole = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    std::fs::write(folder.join("a"), &whole).unwrap();
    std::fs::write(folder.join("b"), &whole).unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let (said, code) = replay(&folder, &[args, &["--json"]].concat());
        assert_eq!(code, 0, "{said}");
        serde_json::from_str(&said).unwrap()
    };
    let read = |report: &serde_json::Value| -> u64 {
        let fates = ["sent", "not_wanted", "cut", "too_long", "link_type", "damaged", "after_end", "errors"];
        let sum = fates.iter().map(|fate| report[fate].as_u64().unwrap()).sum();
        assert_eq!(report["read"].as_u64(), Some(sum), "{report}");
        sum
    };

    let report = json(&["a", "--loop", "3", "--packets", "1-10", "--loop-gap", "1ms"]);
    assert_eq!((read(&report), report["sent"].as_u64()), (600, Some(30)));
    assert_eq!(report["duration_ns"].as_u64(), Some(3 * 9 * GAP_NS + 2 * 1_000_000));
    let report = json(&["a", "b", "--count", "300"]);
    assert_eq!((read(&report), report["loops"].as_u64()), (300, Some(0)));
    let report = json(&["a", "--duration", "50ms"]);
    assert_eq!((report["sent"].as_u64(), report["after_end"].as_u64()), (Some(50), Some(1)));
    for (words, duration_ns) in [
        (&["--speed", "0.5"][..], (FRAMES - 1) * GAP_NS * 2),
        (&["--speed", "2"], (FRAMES - 1) * GAP_NS / 2),
        (&["--speed", "10"], (FRAMES - 1) * GAP_NS / 10),
        (&["--pps", "1k", "--loop", "3"], (3 * FRAMES - 1) * 1_000_000),
        (&["--loop", "3", "--loop-gap", "7ms"], 3 * (FRAMES - 1) * GAP_NS + 2 * 7_000_000),
    ] {
        let report = json(&[&["a"], words].concat());
        assert_eq!(report["duration_ns"].as_u64(), Some(duration_ns), "{words:?}");
    }

    let frames = written(&folder, &["a", "b", "--merge"]);
    let times: Vec<u64> = frames.iter().map(|(_, time_ns, _)| *time_ns).collect();
    let twice: Vec<u64> = (0..FRAMES).flat_map(|number| [number * GAP_NS; 2]).collect();
    assert_eq!(times, twice);

    let both = pcap_of(1, |number| {
        let mut data = frame(number);
        if number % 2 == 1 {
            // The answer: addresses and ports change places.
            let header = data[26..38].to_vec();
            data[26..38]
                .copy_from_slice(&[&header[4..8], &header[..4], &header[10..], &header[8..10]].concat());
        }
        (data.len() as u32, data)
    });
    std::fs::write(folder.join("both"), both).unwrap();
    let two = ["both", "--other", "no-device-2", "--split", "auto"];
    let ports: Vec<u32> = written(&folder, &two).iter().map(|(interface, ..)| *interface).collect();
    assert_eq!(ports, (0..FRAMES as u32).map(|number| number % 2).collect::<Vec<_>>());
    let (said, code) = replay(&folder, &["-", "--other", "no-device-2", "--split", "auto"]);
    assert!(code == 2 && said.contains("it cannot be read again"), "{said}");

    let two = ["a", "--other", "no-device-2", "--split", "sources=10.0.0.0/8"];
    assert!(written(&folder, &two).iter().all(|(interface, ..)| *interface == 0));
    let two = ["a", "--other", "no-device-2", "--split", "sources=192.0.2.0/24"];
    assert!(written(&folder, &two).iter().all(|(interface, ..)| *interface == 1));
}

#[test]
fn a_rewritten_file_has_the_checksums_that_tcprewrite_would_write() {
    let folder = Folder::new("rewrite");
    let whole = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    std::fs::write(folder.join("a"), whole).unwrap();
    let frames = written(
        &folder,
        &[
            "a",
            "--loop",
            "2",
            "--map-ip",
            "10.0.0.0/8=198.18.0.0/16",
            "--set",
            "ttl=9",
            "--set",
            "vlan=7",
            "--map-port",
            "53=5353",
            "--each-loop",
            "src+=256",
        ],
    );
    assert_eq!(frames.len() as u64, 2 * FRAMES);
    for (number, (_, _, bytes)) in frames.iter().enumerate() {
        let packet = etherparse::SlicedPacket::from_ethernet(bytes).unwrap();
        let Some(etherparse::NetSlice::Ipv4(ip)) = packet.net else { panic!("{bytes:?}") };
        let Some(etherparse::TransportSlice::Udp(udp)) = packet.transport else { panic!("{bytes:?}") };
        let header = ip.header().to_header();
        assert_eq!(header.source, [198, 18, u8::from(number as u64 >= FRAMES), 1]);
        assert_eq!((header.destination, header.time_to_live), ([198, 18, 0, 2], 9));
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(udp.destination_port(), 5353);
        let expected = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
        assert_eq!(udp.checksum(), expected, "frame {number}");
        assert_eq!(bytes[12..16], [0x81, 0, 0, 7]);
    }
}

/// `--dst-mac` and `--src-mac` were ignored without a word for captures of Ethernet.
#[test]
fn mac_options_set_the_addresses_of_every_frame() {
    let folder = Folder::new("macs");
    let of_ethernet = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    std::fs::write(folder.join("ethernet"), of_ethernet).unwrap();
    std::fs::write(folder.join("raw"), with_header(101, &[])).unwrap();
    std::fs::write(folder.join("mixed"), pcapng_of(&[1, 101])).unwrap();
    let [dst, src] = ["02:aa:00:00:00:0a", "02:bb:00:00:00:0b"];
    for file in ["ethernet", "raw", "mixed"] {
        // Later options override those of `replay`.
        for (options, expected) in [
            (&["--dst-mac", dst, "--src-mac", src][..], [[2, 0xaa, 0, 0, 0, 10], [2, 0xbb, 0, 0, 0, 11]]),
            (&["--dst-mac", dst][..], [[2, 0xaa, 0, 0, 0, 10], [2, 0, 0, 0, 0, 1]]),
            (&["--src-mac", src][..], [[2, 0, 0, 0, 0, 2], [2, 0xbb, 0, 0, 0, 11]]),
            (
                &["--dst-mac", dst, "--set", "dst-mac=02:aa:00:00:00:0a"][..],
                [[2, 0xaa, 0, 0, 0, 10], [2, 0, 0, 0, 0, 1]],
            ),
        ] {
            let frames = written(&folder, &[&[file], options].concat());
            assert_eq!(frames.len() as u64, FRAMES, "{file} {options:?}");
            for (number, (_, _, bytes)) in frames.iter().enumerate() {
                assert_eq!(bytes[..12], expected.concat(), "{file} {options:?}");
                assert_eq!(bytes[14..], ip(number as u64), "{file} {options:?}");
            }
        }
    }
    let (said, code) = replay(&folder, &["ethernet", "--set", "dst-mac=02:00:00:00:00:07"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("both set the same address") && said.contains("\n  try: --dst-mac "), "{said}");
}

#[test]
fn one_file_for_each_device_is_merged_by_time() {
    let folder = Folder::new("split-file");
    let record = |number: u64| (100, frame(number));
    std::fs::write(folder.join("first"), pcap_of(1, record)).unwrap();
    // The second file begins half a gap later.
    let mut later = pcap_of(1, |number| record(number + 1000));
    for header in (0..FRAMES as usize).map(|number| 24 + number * 116 + 4) {
        let place: &mut [u8; 4] = later[header..].first_chunk_mut().unwrap();
        *place = (u32::from_le_bytes(*place) + GAP_NS as u32 / 2).to_le_bytes();
    }
    std::fs::write(folder.join("second"), later).unwrap();
    let words = ["first", "second", "--other", "no-other", "--split", "file"];
    let frames = written(&folder, &words);
    assert_eq!(frames.len() as u64, 2 * FRAMES);
    for (place, (interface, _, bytes)) in frames.iter().enumerate() {
        let (number, is_second) = (place as u64 / 2, place % 2);
        assert_eq!(*interface as usize, is_second, "{place}");
        assert_eq!(*bytes, frame(number + 1000 * is_second as u64), "{place}");
    }
    let (said, code) = replay(&folder, &["first", "--other", "no-other", "--split", "file"]);
    assert!(code == 2 && said.contains("\n  try: FILE1 FILE2 "), "{said}");
}

#[test]
fn a_filter_selects_packets_and_times_count_from_the_first_of_the_file() {
    let folder = Folder::new("filter");
    std::fs::write(folder.join("a"), pcapng_of(&[1, 101])).unwrap();
    let (said, code) = replay(&folder, &["a", "--filter", "udp prot 5"]);
    if said.contains("neither is here") {
        return testkit::skip(format_args!("needs libpcap: {said}"));
    }
    assert_eq!(code, 2, "{said}");
    for (words, sent) in [
        (&["udp src port 1005 or greater 200", "--loop", "2"][..], 2),
        (&["udp src port 1005 or udp src port 1009", "--from", "6ms"], 1),
        (&["tcp"], 0),
    ] {
        let (said, code) = replay(&folder, &[&["a", "--json", "--filter"], words].concat());
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, report["sent"].as_u64()), (0, Some(sent)), "{words:?}: {said}");
        let (read, loops) = (report["read"].as_u64().unwrap(), report["loops"].as_u64().unwrap());
        assert_eq!((read, read - sent), (loops * FRAMES, report["not_wanted"].as_u64().unwrap()));
    }
}

#[test]
fn each_loop_has_the_frames_and_the_counts_of_the_first() {
    let folder = Folder::new("loops-are-alike");
    let mixed = pcap_of(1, |number| match number % 4 {
        0 => (1000, frame(number)[..96].to_vec()),
        1 => (20, frame(number)[..20].to_vec()),
        2 => (5, vec![0; 5]),
        _ => (frame(number).len() as u32, frame(number)),
    });
    std::fs::write(folder.join("a"), mixed).unwrap();
    let run = |loops: &str, more: &[&str]| {
        let words = ["a", "--packets", "1-150", "--loop", loops, "--json", "--write", "out.pcapng"];
        let (said, _) = replay(&folder, &[&words[..], more].concat());
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        let file = std::fs::read(folder.join("out.pcapng")).unwrap();
        let mut reader = pcapng::Reader::new(&file[..]);
        let mut frames = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            if let pcapng::Block::Packet(packet) = block {
                frames.push(packet.data.to_vec());
            }
        }
        (report, frames)
    };
    let ((one, first), (three, all)) = (run("1", &[]), run("3", &[]));
    assert_eq!(all, vec![first; 3].concat());
    // Steps of each loop need the packets themselves: the files are read again.
    let (stepped, _) = run("3", &["--each-loop", "src+=1"]);
    for field in ["read", "sent", "not_wanted", "damaged", "padded_cut", "padded_short", "frame_bytes"] {
        let count = |report: &serde_json::Value| report[field].as_u64().unwrap();
        assert!(count(&one) > 0, "{field}: {one}");
        assert_eq!((count(&three), count(&stepped)), (3 * count(&one), 3 * count(&one)), "{field}");
    }
    assert_eq!(three["loops"], 3);
}

/// Options that change what becomes of a packet.
const FUZZED: [&str; 18] = [
    "--loop 3",
    "--loop 2 --each-loop src+=256 --each-loop vlan+=1",
    "--cut short",
    "--cut skip --long segment",
    "--long segment --loop 2",
    "--set vlan=7 --set dst=10.9.9.9 --set tos=4",
    "--set vlan=none --map-ip 10.0.0.0/8=198.18.0.0/16 --map-port 53=5353",
    "--merge --pps 1k",
    "--strict",
    "--other no-device-2 --split auto",
    "--other no-device-2 --split port --packets 2-9",
    "--from 1ms --to 9ms --rate 1Mbit --count 5",
    "--map-ip 10.0.0.0/8=198.18.0.0/16 --map-ip fd00::/16=fd01::/16 --map-port 1-65535=9",
    "--anonymize key --checksums fix --map-mac 02:00:00:00:00:01=02:00:00:00:00:09",
    "--cut shrink --checksums fix --set inner.ttl=9 --set ttl-=1 --set inner.dst-port=9",
    "--push-vlan 5 --push-vlan 6,type=0x88a8 --set inner-vlan=7 --pop-vlan=2 --set flow-label=3",
    "--long fragment-df --fcs strip --set inner.src=fd00::7 --set dscp=46",
    "--other no-device-2 --split auto --loop 2 --each-loop clients+=1 --cut short",
];
const LINK_TYPES: [u16; 9] = [0, 1, 9, 101, 105, 108, 113, 127, 276];

/// One file of packets of a few kinds, which is damaged and perhaps compressed.
fn damaged_file(rng: &mut Rng) -> Vec<u8> {
    let mut below = |end: usize| rng.below(end.max(1) as u32) as usize;
    let link_types = [LINK_TYPES[below(9)], LINK_TYPES[below(9)]];
    let head = vec![0; below(24)];
    let mut file = match below(4) {
        0 => pcapng_of(&link_types),
        1 => with_header(link_types[0], &head),
        _ => tunnels_and_quotes(below(2) == 0),
    };
    // Most of the packets are alike.
    file.truncate(below(file.len()));
    testkit::spoil(&mut file, &mut below);
    match below(8) {
        0 => gzip(&file),
        1 => lz4(&file),
        2 => zstd::stream::encode_all(&file[..], 1).unwrap(),
        3 => {
            let mut packed = lz4(&file);
            testkit::spoil(&mut packed, &mut below);
            packed
        }
        _ => file,
    }
}

/// A pcap file of packets in tunnels, ICMP errors and other packets with several headers.
fn tunnels_and_quotes(is_v6: bool) -> Vec<u8> {
    let [a, b, c, d]: [IpAddr; 4] = match is_v6 {
        true => ["fd00::1", "fd00::2", "fd02::3", "fd02::4"].map(|text| text.parse().unwrap()),
        false => ["10.0.0.1", "10.0.0.2", "10.9.0.3", "10.9.0.4"].map(|text| text.parse().unwrap()),
    };
    let frames = sample::frames(Ends { src: a, dst: b }, Ends { src: c, dst: d }, (1000, 53), &[7; 40]);
    pcap_of(1, |number| {
        let frame = &frames[number as usize % frames.len()];
        (frame.len() as u32, frame.clone())
    })
}

#[derive(clap::Parser)]
struct Called {
    #[command(flatten)]
    args: wirerate::cmd::replay::Args,
}

#[test]
fn fuzzed_files_become_frames_or_a_sentence() {
    let folder = Folder::new("replay-fuzz");
    testkit::fuzz!("fuzzed_files_become_frames_or_a_sentence", 3_000, |seed| {
        let rng = &mut Rng(seed);
        for name in ["a", "b"] {
            std::fs::write(folder.join(name), damaged_file(rng)).unwrap();
        }
        let words = FUZZED[rng.below(FUZZED.len() as u32) as usize];
        let files = ["a", "b"].map(|name| folder.file(name)).join(" ");
        let line = format!("replay no-device --dst-mac 02:00:00:00:00:02 --dry-run {words} {files}");
        let Called { args } = clap::Parser::try_parse_from(line.split(' ')).unwrap();
        match wirerate::cmd::replay::dry_run::run(&args, &program::stop::Stop::default()) {
            Ok(report) => {
                let packets_max = u64::from(u32::MAX);
                assert!(report.read <= packets_max && report.fates.sent <= report.read + report.segments);
                let shortest = report.fates.sent
                    * if words.contains("short") || words.contains("shrink") { 0 } else { 60 };
                assert!(report.frame_bytes >= shortest, "{line}: {report}");
                assert!(report.is_good() || report.to_string().lines().count() > 3, "{line}: {report}");
            }
            Err(failure) => {
                let text = failure.to_string();
                assert!(
                    text.starts_with("wirerate: cannot ") && text.contains("\n  try: "),
                    "{line}: {text}"
                );
            }
        }
    });
}

#[test]
fn each_form_of_a_rate_has_its_due_times() {
    let folder = Folder::new("rates");
    let whole = pcap_of(1, |number| (frame(number).len() as u32, frame(number)));
    std::fs::write(folder.join("a"), whole).unwrap();
    let times = |words: &[&str]| -> Vec<u64> {
        let words = [&["a", "--count", "4"], words].concat();
        written(&folder, &words).into_iter().map(|(_, time_ns, _)| time_ns).collect()
    };
    let s = 1_000_000_000;
    assert_eq!(times(&["--pps", "0.5"]), [0, 2 * s, 4 * s, 6 * s]);
    assert_eq!(times(&["--delay", "12us"]), [0, 12_000, 24_000, 36_000]);
    // A frame of 100 bytes has 124 on the wire.
    assert_eq!(times(&["--rate", "992Mbit"]), [0, 1000, 2000, 3000]);
    assert_eq!(times(&["--pps", "1k", "--arrivals", "burst:2"]), [0, 0, 2_000_000, 2_000_000]);
    assert_eq!(times(&["--pps", "1k", "--arrivals", "burst:2,5ms"]), [0, 1_000_000, 6_000_000, 7_000_000]);
    let (one, other) = (["--arrivals", "poisson:1"], ["--arrivals", "poisson:2"]);
    let poisson = |seed: &[&str; 2]| times(&[&["--pps", "1k"], &seed[..]].concat());
    assert_eq!(poisson(&one), poisson(&one), "a seed repeats the gaps");
    assert_ne!(poisson(&one), poisson(&other));
    for (words, says) in [
        (&["--arrivals", "poisson"][..], "needs a rate of frames or bits\n  try: --pps 10k"),
        (&["--pps", "0"], "no frame would be sent"),
        (&["--rate", "40%"], "the driver reports no speed of the device\n  try: --rate 4Gbit"),
    ] {
        let (said, code) = replay(&folder, &[&["a"], words].concat());
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(says), "{said}");
    }
}
