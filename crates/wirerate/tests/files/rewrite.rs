//! `wirerate rewrite`: the file around the packets, whose edits crate `replay` tests.

use super::readers::{Ran, START_NS, wirerate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcapng::{
    Block, ByteOrder, Custom, Interface, Name, Names, NoTime, Packet, PacketFlags, RawOption, Section,
    Statistics, Unknown, Writer, pcap,
};
use replay::sample::{Ends, frames};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::Folder;

/// Option of an interface: the length of its frame check sequences.
const IF_FCSLEN: u16 = 13;

/// A frame of UDP to port 53.
fn frame() -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.udp(1000, 53).write(&mut frame, &[7; 33]).unwrap();
    frame
}

fn pcap_of(link_type: u16, fcs_bits: u16, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let header = pcap::Header { link_type, fcs_bits, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
    for (frame_len, data) in records {
        writer.record(&pcap::Record { time_ns: START_NS, frame_len: *frame_len, data }).unwrap();
    }
    writer.finish().unwrap()
}

/// Link type, original length and bytes of each packet of a pcap file.
fn records_of(path: &Path) -> (pcap::Header, Vec<(u32, Vec<u8>)>) {
    let bytes = std::fs::read(path).unwrap();
    let reader = pcap::Reader::new(&bytes[..]).unwrap();
    let header = *reader.header();
    (header, reader.map(|record| record.map(|record| (record.frame_len, record.data)).unwrap()).collect())
}

fn blocks(path: &Path) -> Vec<Block<pcapng::PacketBuf>> {
    let bytes = std::fs::read(path).unwrap();
    pcapng::Reader::new(&bytes[..]).map(Result::unwrap).collect()
}

#[test]
fn what_a_pcapng_file_has_beside_packets_stays() {
    let folder = Folder::new("rewrite-pcapng");
    let mut writer =
        Writer::new(Vec::new(), &Section { comment: Some("a".into()), ..Section::default() }).unwrap();
    let fcs = vec![RawOption { code: IF_FCSLEN, value: vec![4] }];
    let mut interfaces =
        ["one", "two"].map(|name| Interface { name: Some(name.to_owned()), ..Interface::default() });
    interfaces[1].other = fcs;
    interfaces.iter().for_each(|interface| {
        writer.add_interface(interface).unwrap();
    });
    let data = frame();
    let with_fcs = [&data[..], &[1, 2, 3, 4]].concat();
    let packet = Packet {
        time_ns: START_NS,
        frame_len: data.len() as u32,
        data: &data,
        flags: Some(PacketFlags::OUTBOUND),
        comment: Some("the first"),
        queue: Some(3),
        xdp_verdict: Some(2),
        ..Packet::default()
    };
    writer.packet(&packet).unwrap();
    let frame_len = with_fcs.len() as u32;
    let second = Packet { interface: 1, data: &with_fcs, frame_len, comment: None, ..packet };
    writer.packet(&second).unwrap();
    // Cut, with two of the four bytes of its frame check sequence.
    writer.packet(&Packet { data: &with_fcs[..with_fcs.len() - 2], ..second }).unwrap();
    writer.section(&Section::default()).unwrap();
    writer.add_interface(&interfaces[0]).unwrap();
    writer.packet(&Packet { time_ns: START_NS + 1, ..packet }).unwrap();
    std::fs::write(folder.join("a.pcapng"), writer.finish().unwrap()).unwrap();

    let run = wirerate(&folder, &["rewrite", "a.pcapng", "-o", "b.pcapng", "--set", "ttl=9"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (before, after) = (blocks(&folder.join("a.pcapng")), blocks(&folder.join("b.pcapng")));
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        match (before, after) {
            (Block::Packet(before), Block::Packet(after)) => {
                assert_eq!(after.data[22], 9);
                assert_eq!((after.data.len(), after.frame_len as usize), (data.len(), data.len()));
                assert_eq!((after.time_ns, &after.comment), (before.time_ns, &before.comment));
                assert_eq!((after.flags, after.queue), (before.flags, before.queue));
                assert_eq!(after.xdp_verdict, Some(2));
            }
            (Block::Interface(before), Block::Interface(after)) => {
                assert_eq!(after, &Interface { other: Vec::new(), ..before.clone() });
            }
            (before, after) => assert_eq!(before, after),
        }
    }
    let keep = ["rewrite", "a.pcapng", "-o", "c.pcapng", "--fcs", "keep"];
    assert_eq!(wirerate(&folder, &keep).code, 0);
    assert_eq!(blocks(&folder.join("c.pcapng")), before);
}

#[test]
fn packets_without_an_ethernet_header_get_one() {
    let folder = Folder::new("rewrite-link");
    let whole = frame();
    let packet = whole[14..].to_vec();
    let len = packet.len() as u32;
    std::fs::write(folder.join("raw.pcap"), pcap_of(101, 0, &[(len + 50, packet.clone())])).unwrap();
    let to_mac = ["rewrite", "raw.pcap", "-o", "b.pcap", "--dst-mac", "02:00:00:00:00:02"];
    assert_eq!(wirerate(&folder, &to_mac).code, 0);
    let (header, found) = records_of(&folder.join("b.pcap"));
    let expected = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], &packet[..]].concat();
    assert_eq!((header.link_type, found), (1, vec![(len + 64, expected)]));
    assert_eq!(wirerate(&folder, &["rewrite", "raw.pcap", "-o", "c.pcap", "--set", "ttl=9"]).code, 0);
    let (header, found) = records_of(&folder.join("c.pcap"));
    assert_eq!((header.link_type, found[0].0, found[0].1[8]), (101, len + 50, 9));
    // A pcap file has one link type.
    std::fs::write(folder.join("ether.pcap"), pcap_of(1, 0, &[(75, whole)])).unwrap();
    let run = wirerate(&folder, &["rewrite", "raw.pcap", "ether.pcap", "-o", "d.pcap"]);
    assert!(run.code == 3 && run.stderr.contains("try: -o FILE.pcapng"), "{}", run.stderr);
    assert!(!folder.join("d.pcap").exists());
    assert_eq!(wirerate(&folder, &["rewrite", "raw.pcap", "ether.pcap", "-o", "d.pcapng"]).code, 0);
    let kinds: Vec<&str> = blocks(&folder.join("d.pcapng")).iter().map(kind).collect();
    assert_eq!(kinds, ["section", "interface", "packet", "section", "interface", "packet"]);
}

fn kind(block: &Block<pcapng::PacketBuf>) -> &'static str {
    match block {
        Block::Section(_) => "section",
        Block::Interface(_) => "interface",
        Block::Packet(_) => "packet",
        Block::Names(_) => "names",
        Block::Statistics(_) => "statistics",
        Block::Custom(_) => "custom",
        Block::Unknown(_) => "unknown",
        _ => "other",
    }
}

fn option(code: u16, value: &[u8]) -> RawOption {
    RawOption { code, value: value.to_vec() }
}

/// A rewrite of `input` to `output`.
fn rewrite(folder: &Path, input: &str, output: &str, words: &[&str]) -> Ran {
    wirerate(folder, &[&["rewrite", input, "-o", output], words].concat())
}

/// A file with something of all that pcapng has.
fn write_full_pcapng(path: &Path, order: ByteOrder) {
    let section = Section { comment: Some("of 10.0.0.1".into()), ..Section::default() };
    let mut writer = Writer::with_order(Vec::new(), &section, order).unwrap();
    let other = [option(4, &[10, 0, 0, 1, 255, 0, 0, 0]), option(7, &[2; 8]), option(10, &[1, 0, 0, 0])];
    let interface = Interface {
        name: Some("eth0".to_owned()),
        mac: Some([2; 6]),
        filter: Some("host 10.0.0.1".to_owned()),
        other: other.to_vec(),
        ..Interface::default()
    };
    writer.add_interface(&interface).unwrap();
    let name = Name { address: [10, 0, 0, 1].into(), names: vec!["host".to_owned()] };
    writer.names(&Names { entries: vec![name], ..Names::default() }).unwrap();
    for may_copy in [true, false] {
        writer.custom(&Custom { enterprise: 7, may_copy, data: b"data".to_vec() }).unwrap();
    }
    let secrets = [&0x544c_534b_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), b"keys"].concat();
    for (block_type, body) in [(9, b"FROM=10.0.0.1 aaa".to_vec()), (10, secrets), (0x999, vec![1, 2, 3, 4])] {
        writer.unknown(&Unknown { block_type, body }).unwrap();
    }
    let data = frame();
    let packet = Packet {
        time_ns: START_NS,
        frame_len: data.len() as u32,
        data: &data,
        flags: Some(PacketFlags::INBOUND),
        packet_id: Some(99),
        drop_count: Some(10),
        comment: Some("to 10.0.0.2"),
        other: &[option(3, &[2, 1, 2, 3, 4]), option(19372, &[0, 0, 0, 9, 1])],
        ..Packet::default()
    };
    writer.packet(&packet).unwrap();
    writer.statistics(&Statistics { time_ns: START_NS, received: Some(1), ..Statistics::default() }).unwrap();
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

/// Interface addresses, filters, comments and journals stayed in files that may be published.
#[test]
fn anonymized_files_have_nothing_that_may_hold_an_address() {
    let folder = Folder::new("rewrite-hide");
    write_full_pcapng(&folder.join("a.pcapng"), ByteOrder::Little);
    let run = rewrite(&folder, "a.pcapng", "b.pcapng", &["--anonymize", "k"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let found = blocks(&folder.join("b.pcapng"));
    let kinds: Vec<&str> = found.iter().map(kind).collect();
    assert_eq!(kinds, ["section", "interface", "packet", "statistics"]);
    let [Block::Section(section), Block::Interface(interface), Block::Packet(packet), _] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((&section.comment, &packet.comment), (&None, &None));
    let kept = Interface {
        name: Some("eth0".to_owned()),
        other: vec![option(10, &[1, 0, 0, 0])],
        ..Interface::default()
    };
    assert_eq!((interface, &packet.other[..]), (&kept, &[][..]));
    for note in
        ["names of addresses", "2 comments left out", "4 blocks left out", "1 block left out, which is not"]
    {
        assert!(run.stderr.contains(note), "{note}: {}", run.stderr);
    }
    // Other edits of addresses keep comments and blocks, but no addresses of interfaces.
    for words in [["--map-mac", "02:00:00:00:00:01=02:00:00:00:00:09"], ["--set", "dst=10.0.0.9"]] {
        assert_eq!(rewrite(&folder, "a.pcapng", "b.pcapng", &words).code, 0);
        let found = blocks(&folder.join("b.pcapng"));
        let Some(Block::Interface(found)) = found.get(1) else { panic!("{found:?}") };
        assert_eq!(found, &kept, "{words:?}");
    }
}

#[test]
fn options_of_packets_are_those_of_their_bytes() {
    let folder = Folder::new("rewrite-options");
    write_full_pcapng(&folder.join("a.pcapng"), ByteOrder::Little);
    let packets = |words: &[&str]| {
        let run = rewrite(&folder, "a.pcapng", "b.pcapng", words);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let packets = blocks(&folder.join("b.pcapng")).into_iter();
        packets
            .filter_map(|block| if let Block::Packet(packet) = block { Some(packet) } else { None })
            .collect()
    };
    let hash = [option(3, &[2, 1, 2, 3, 4])];
    let same: Vec<pcapng::PacketBuf> = packets(&[]);
    assert_eq!(same[0].other, hash, "a custom option that is not to be copied");
    assert!(packets(&["--set", "ttl=9"])[0].other.is_empty(), "the hash was that of other bytes");
    let parts = packets(&["--mtu", "68", "--long", "fragment-df"]);
    let once = |packet: &pcapng::PacketBuf| (packet.drop_count, packet.packet_id, packet.comment.is_some());
    let found: Vec<_> = parts.iter().map(once).collect();
    assert_eq!(found, [(Some(10), Some(99), true)], "it is no longer than that");
    let mut long = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64).udp(1, 2);
    builder.write(&mut long, &[7; 3000]).unwrap();
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&Interface::default()).unwrap();
    let frame_len = long.len() as u32;
    let packet = Packet { data: &long, frame_len, time_ns: START_NS, ..same[0].as_packet() };
    writer.packet(&packet).unwrap();
    std::fs::write(folder.join("a.pcapng"), writer.finish().unwrap()).unwrap();
    let parts = packets(&["--mtu", "1500", "--long", "fragment"]);
    let found: Vec<_> = parts.iter().map(once).collect();
    assert_eq!(found, [(Some(10), Some(99), true), (None, None, false), (None, None, false)]);
    assert!(parts.iter().all(|part| part.flags == Some(PacketFlags::INBOUND) && part.other.is_empty()));
}

#[test]
fn what_the_output_has_not_is_noted() {
    let folder = Folder::new("rewrite-lost");
    write_full_pcapng(&folder.join("a.pcapng"), ByteOrder::Little);
    let run = rewrite(&folder, "a.pcapng", "b.pcap", &[]);
    let note = "a pcap file has no place for 2 comments, 6 blocks, options of 1 packet";
    assert!(run.code == 0 && run.stderr.contains(note), "{}", run.stderr);
    // Secrets of a big-endian file are those of the output; other blocks cannot be.
    write_full_pcapng(&folder.join("big.pcapng"), ByteOrder::Big);
    let run = rewrite(&folder, "big.pcapng", "b.pcapng", &[]);
    assert!(
        run.code == 0 && run.stderr.contains("1 block of unknown types in another byte order left out"),
        "{}",
        run.stderr
    );
    let little = blocks(&folder.join("a.pcapng"));
    let kept = little.iter().filter(|block| {
        !matches!(
            block,
            Block::Unknown(Unknown { block_type: 0x999, .. }) | Block::Custom(Custom { may_copy: false, .. })
        )
    });
    let kept: Vec<_> = kept.map(kind).collect();
    let found = blocks(&folder.join("b.pcapng"));
    assert_eq!(found.iter().map(kind).collect::<Vec<_>>(), kept);
    assert!(found.contains(&little[6]), "{found:?}");
    assert_eq!(rewrite(&folder, "big.pcapng", "c.pcapng", &["--strict"]).code, 1);
    // A block that is too long.
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let picoseconds = [1, 0, 0, 0, 9, 0, 1, 0, 12, 0, 0, 0, 0, 0, 0, 0];
    writer.unknown(&Unknown { block_type: 10, body: vec![0; 17 << 20] }).unwrap();
    let mut bytes = writer.finish().unwrap();
    let interface =
        [&[1, 0, 0, 0, 28, 0, 0, 0][..], &[1, 0, 0, 0, 0, 0, 0, 0], &picoseconds[4..12], &[28, 0, 0, 0]];
    bytes.extend(interface.concat());
    std::fs::write(folder.join("long.pcapng"), &bytes).unwrap();
    let run = rewrite(&folder, "long.pcapng", "c.pcapng", &[]);
    for note in ["1 block of more than 16 MiB left out", "times finer than a nanosecond"] {
        assert!(run.code == 0 && run.stderr.contains(note), "{}", run.stderr);
    }
    std::fs::remove_file(folder.join("c.pcapng")).unwrap();
    let run = rewrite(&folder, "long.pcapng", "c.pcapng", &["--strict"]);
    assert!(run.code == 1 && run.stderr.contains("without --strict"), "{}", run.stderr);
    assert!(!folder.join("c.pcapng").exists());
}

/// A packet whose time is out of range lost its comment and its direction.
#[test]
fn packets_without_a_time_keep_their_options() {
    let folder = Folder::new("rewrite-no-time");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&Interface { time_offset_s: i64::MAX, ..Interface::default() }).unwrap();
    let mut bytes = writer.finish().unwrap();
    let (data, flags) = (frame(), Some(PacketFlags::INBOUND));
    let packet = Packet { frame_len: data.len() as u32, data: &data, ..Packet::default() };
    Packet { flags, comment: Some("c"), ..packet }.emit(&mut bytes);
    packet.emit(&mut bytes);
    std::fs::write(folder.join("a.pcapng"), &bytes).unwrap();
    let run = rewrite(&folder, "a.pcapng", "b.pcapng", &["--set", "ttl=9"]);
    assert!(run.code == 0 && run.stderr.contains("2 packets with a time before 1970"), "{}", run.stderr);
    let found = blocks(&folder.join("b.pcapng"));
    let [.., Block::Packet(first), Block::Packet(second)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.flags, first.comment.as_deref(), first.no_time), (flags, Some("c"), None));
    assert_eq!((second.flags, second.no_time), (None, Some(NoTime::NotRecorded)));
    // pcap has no packets without a time: those before the first time were silently of 1970.
    let run = rewrite(&folder, "a.pcapng", "b.pcap", &[]);
    for note in ["2 packets without a time got that of the packet before", "2 packets of these"] {
        assert!(run.code == 0 && run.stderr.contains(note), "{}", run.stderr);
    }
}

/// It declared a sequence of 4 bytes, or none.
#[test]
fn a_sequence_that_pcap_cannot_declare_is_refused() {
    let folder = Folder::new("rewrite-fcs");
    for fcs_len in [5, 32] {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        let other = vec![option(IF_FCSLEN, &[fcs_len])];
        writer.add_interface(&Interface { other, ..Interface::default() }).unwrap();
        let (data, frame_len) = (frame(), frame().len() as u32);
        writer.packet(&Packet { time_ns: START_NS, data: &data, frame_len, ..Packet::default() }).unwrap();
        std::fs::write(folder.join("a.pcapng"), writer.finish().unwrap()).unwrap();
        let run = rewrite(&folder, "a.pcapng", "b.pcap", &["--fcs", "keep"]);
        let why = format!("cannot declare a frame check sequence of {fcs_len} bytes");
        assert!(run.code == 3 && run.stderr.contains(&why), "{}", run.stderr);
        assert_eq!(rewrite(&folder, "a.pcapng", "b.pcap", &[]).code, 0);
    }
}

/// Several inputs had the snaplen and the precision of the first one, and frame check sequences of
/// one file were declared for all.
#[test]
fn joined_files_have_a_header_for_all() {
    let folder = Folder::new("rewrite-joined");
    let of = |name: &str, fcs_len: u16, snaplen: u32| {
        let fcs_bits = if fcs_len > 0 { 0x400 | ((fcs_len / 2) << 12) } else { 0 };
        let precision = pcap::Precision::Microseconds;
        let header = pcap::Header { snaplen, fcs_bits, precision, ..pcap::Header::default() };
        let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
        writer.record(&pcap::Record { time_ns: START_NS, frame_len: 75, data: &frame() }).unwrap();
        std::fs::write(folder.join(name), writer.finish().unwrap()).unwrap();
    };
    of("cut.pcap", 0, 96);
    of("fcs.pcap", 4, 96);
    let header = |inputs: &[&str], output: &str, words: &[&str]| {
        let run = wirerate(&folder, &[&["rewrite"], inputs, &["-o", output], words].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        records_of(&folder.join(output)).0
    };
    let joined = header(&["cut.pcap", "fcs.pcap"], "b.pcap", &[]);
    assert_eq!((joined.snaplen, joined.precision), (262_144, pcap::Precision::Nanoseconds));
    let one = header(&["cut.pcap"], "b.pcap", &[]);
    assert_eq!((one.snaplen, one.precision), (96, pcap::Precision::Microseconds));
    let keep = ["--fcs", "keep"];
    for inputs in [["fcs.pcap", "cut.pcap"], ["cut.pcap", "fcs.pcap"]] {
        let run = wirerate(&folder, &[&["rewrite"], &inputs[..], &["-o", "c.pcap"], &keep].concat());
        assert!(run.code == 3 && run.stderr.contains("one frame check sequence"), "{}", run.stderr);
    }
    // The declaration goes from one format to the other and back.
    assert_eq!(rewrite(&folder, "fcs.pcap", "d.pcapng", &keep).code, 0);
    let found = blocks(&folder.join("d.pcapng"));
    let Some(Block::Interface(interface)) = found.get(1) else { panic!("{found:?}") };
    assert_eq!(interface.other, [option(IF_FCSLEN, &[4])]);
    assert_eq!(header(&["d.pcapng"], "e.pcap", &keep).fcs_bits, 0x2400);
}

/// A run that was interrupted or found damage took the place of its own input.
#[test]
fn a_run_that_does_not_end_well_leaves_the_files_as_they_were() {
    let folder = Folder::new("rewrite-in-place");
    let whole = pcap_of(1, 0, &[(75, frame()), (75, frame())]);
    let damaged = [&whole[..], &[7; 9]].concat();
    std::fs::write(folder.join("a.pcap"), &damaged).unwrap();
    let run = rewrite(&folder, "a.pcap", "a.pcap", &["--set", "ttl=9"]);
    assert!(run.code == 1 && run.stderr.contains("another name with -o"), "{}", run.stderr);
    assert_eq!(std::fs::read(folder.join("a.pcap")).unwrap(), damaged);
    assert_eq!(rewrite(&folder, "a.pcap", "b.pcap", &[]).code, 1);
    assert_eq!(records_of(&folder.join("b.pcap")).1.len(), 2, "another file has what could be read");
    // A link stays one, and its target keeps its mode.
    std::fs::write(folder.join("c.pcap"), &whole).unwrap();
    std::fs::set_permissions(folder.join("c.pcap"), std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("c.pcap", folder.join("link.pcap")).unwrap();
    assert_eq!(rewrite(&folder, "link.pcap", "link.pcap", &["--set", "ttl=9"]).code, 0);
    assert!(folder.join("link.pcap").is_symlink());
    assert_eq!(records_of(&folder.join("c.pcap")).1[0].1[22], 9);
    let mode = std::fs::metadata(folder.join("c.pcap")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A signal, while more packets may come.
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(["rewrite", "-", "-o", "d.pcap"])
        .current_dir(&*folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&whole).unwrap();
    // More than a pipe holds: it reads, and so it handles signals.
    input.write_all(&whole[24..].repeat(2_000)).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    // It ends with the first packet behind the signal; a closed pipe is no error here.
    while child.try_wait().unwrap().is_none() {
        let _ = input.write_all(&whole[24..]);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("d.pcap: stopped after "), "{text}");
    let left: Vec<_> = std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("d.pcap")), "{left:?}");
}

/// Files of other link types were copied with success, and options that changed nothing had no
/// note.
#[test]
fn what_no_edit_reaches_is_told() {
    let folder = Folder::new("rewrite-unread");
    std::fs::write(folder.join("ppp.pcap"), pcap_of(9, 0, &[(60, vec![0; 60])])).unwrap();
    let map = ["--map-ip", "10.0.0.0/8=11.0.0.0/8"];
    let run = rewrite(&folder, "ppp.pcap", "b.pcap", &map);
    assert_eq!(run.code, 0);
    for note in ["not edited 1 (unknown header 1)", "link type 9 (PPP)", "no packet that could be edited has"]
    {
        assert!(run.stderr.contains(note), "{note}: {}", run.stderr);
    }
    std::fs::remove_file(folder.join("b.pcap")).unwrap();
    for words in [&["--strict", map[0], map[1]][..], &["--anonymize", "k"]] {
        let run = rewrite(&folder, "ppp.pcap", "b.pcap", words);
        assert!(run.code == 1 && run.stderr.contains("try: "), "{}", run.stderr);
        assert!(!folder.join("b.pcap").exists());
    }
    std::fs::write(folder.join("a.pcap"), pcap_of(1, 0, &[(75, frame())])).unwrap();
    let tags = ["--pop-vlan=2", "--set", "vlan-prio=3", "--set", "inner-vlan=9", "--set", "inner.vlan=4"];
    let run = rewrite(&folder, "a.pcap", "b.pcap", &tags);
    for option in ["--pop-vlan", "--set vlan-prio=3", "--set inner-vlan=9", "--set inner.vlan=4"] {
        assert!(run.stderr.contains(&format!("{option}: no packet has the tag")), "{}", run.stderr);
    }
    let run = rewrite(&folder, "a.pcap", "b.pcap", &["--set", "vlan=7", "--push-vlan", "8"]);
    assert!(!run.stderr.contains("no packet"), "{}", run.stderr);
    std::fs::write(folder.join("raw.pcap"), pcap_of(101, 0, &[(61, frame()[14..].to_vec())])).unwrap();
    let run = rewrite(&folder, "raw.pcap", "b.pcap", &["--push-vlan", "8"]);
    assert!(run.stderr.contains("--push-vlan: no packet has an Ethernet header"), "{}", run.stderr);
}

#[test]
fn the_output_is_compressed_by_its_name_and_whole_or_not_there() {
    let folder = Folder::new("rewrite-output");
    let mut encrypted = frame();
    encrypted[23] = 50;
    std::fs::write(folder.join("a.pcap"), pcap_of(1, 0, &[(75, frame()), (75, encrypted)])).unwrap();
    for name in ["b.pcap", "b.pcap.gz", "b.pcapng.zst", "b.pcapng.lz4"] {
        assert_eq!(wirerate(&folder, &["rewrite", "a.pcap", "-o", name]).code, 0, "{name}");
        let info = wirerate(&folder, &["info", name, "--json"]).json();
        let compression = name.rsplit_once('.').map(|(_, end)| match end {
            "gz" => "gzip".into(),
            "zst" => "zstd".into(),
            "lz4" => "lz4".into(),
            _ => serde_json::Value::Null,
        });
        assert_eq!(
            (&info["packets"], Some(&info["compression"])),
            (&2.into(), compression.as_ref()),
            "{name}"
        );
    }
    let ports = ["rewrite", "a.pcap", "-o", "c.pcap", "--map-port", "53=54"];
    let run = wirerate(&folder, &[&ports[..], &["--json"]].concat());
    assert_eq!((run.code, &run.json()["not_edited"]["encrypted"]), (0, &1.into()));
    assert!(run.stderr.contains("packets not edited 1 (encrypted 1)"), "{}", run.stderr);
    std::fs::remove_file(folder.join("c.pcap")).unwrap();
    let run = wirerate(&folder, &[&ports[..], &["--strict"]].concat());
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("packet 2 cannot be edited") && run.stderr.contains("try: "),
        "{}",
        run.stderr
    );
    let left: Vec<_> = std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("c.pcap")), "{left:?}");
    let run = wirerate(&folder, &["rewrite", "a.pcap", "-o", "b.txt"]);
    assert!(run.code == 2 && run.stderr.contains("try: -o b.txt.pcapng"), "{}", run.stderr);
}

#[test]
fn cut_and_long_packets_have_what_the_options_say() {
    let folder = Folder::new("rewrite-lengths");
    let whole = frame();
    let len = whole.len() as u32;
    let cut = whole[..50].to_vec();
    std::fs::write(folder.join("a.pcap"), pcap_of(1, 0, &[(len, cut.clone())])).unwrap();
    let lens = |words: &[&str]| {
        let run =
            wirerate(&folder, &[&["rewrite", "a.pcap", "-o", "b.pcap", "--push-vlan", "7"], words].concat());
        assert!(run.code < 2, "{}", run.stderr);
        let (_, found) = records_of(&folder.join("b.pcap"));
        found.iter().map(|(frame_len, data)| (*frame_len, data.len())).collect::<Vec<_>>()
    };
    assert_eq!(lens(&[]), [(len + 4, 54)]);
    assert_eq!(lens(&["--cut", "pad"]), [(len + 4, whole.len() + 4)]);
    assert_eq!(lens(&["--cut", "shrink"]), [(54, 54)]);
    assert_eq!(lens(&["--cut", "skip"]), []);
    assert_eq!(lens(&["--fcs", "strip"]), [(len, 54)]);
    let mut long = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64).udp(1, 2);
    builder.write(&mut long, &[7; 3000]).unwrap();
    std::fs::write(folder.join("a.pcap"), pcap_of(1, 0, &[(long.len() as u32, long)])).unwrap();
    let fragments = lens(&["--mtu", "1280", "--long", "fragment"]);
    assert_eq!(fragments.len(), 3);
    assert!(fragments.iter().all(|(frame_len, len)| *frame_len as usize == *len && *len <= 1280 + 18));
    assert_eq!(lens(&["--mtu", "1280"]), []);
}

/// The checksum fields that tshark finds wrong, by the numbers of frames.
fn wrong_by_tshark(path: &Path) -> String {
    let protocols = ["ip", "tcp", "udp", "icmp", "icmpv6", "igmp", "sctp"];
    let wrong = protocols.map(|protocol| format!("{protocol}.checksum.status == 0")).join(" || ");
    let mut command = std::process::Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-Y", &wrong, "-T", "fields", "-e", "frame.number"]);
    for option in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        command.args(["-o", option]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("numbers")
}

/// Frames of all kinds, of both IP versions.
fn frames_of_all_kinds() -> Vec<Vec<u8>> {
    let ends = |src: &str, dst: &str| Ends { src: src.parse().unwrap(), dst: dst.parse().unwrap() };
    let v4 = (ends("10.1.0.1", "10.2.0.2"), ends("10.3.0.3", "10.4.0.4"));
    let v6 = (ends("fd00:1::1", "fd00:2::2"), ends("fd00:3::3", "fd00:4::4"));
    let of = |(ends, other)| frames(ends, other, (20_000, 9), b"the payload of a packet");
    of(v4).into_iter().chain(of(v6)).collect()
}

#[test]
fn tshark_finds_no_wrong_checksum_in_edited_frames() {
    let folder = Folder::new("rewrite-tshark");
    let frames = frames_of_all_kinds();
    let records: Vec<_> = frames.iter().map(|frame| (frame.len() as u32, frame.clone())).collect();
    // The last bytes of a packet are covered by each checksum around them.
    let spoiled = records.iter().map(|(frame_len, frame)| {
        let mut frame = frame.clone();
        *frame.last_mut().unwrap() ^= 0x5a;
        (*frame_len, frame)
    });
    std::fs::write(folder.join("right.pcap"), pcap_of(1, 0, &records)).unwrap();
    std::fs::write(folder.join("wrong.pcap"), pcap_of(1, 0, &spoiled.collect::<Vec<_>>())).unwrap();
    testkit::needs!(testkit::has_program("tshark"));
    assert_eq!(wrong_by_tshark(&folder.join("right.pcap")), "", "the frames are right before edits");
    assert_ne!(wrong_by_tshark(&folder.join("wrong.pcap")), "");
    let maps = ["--map-ip", "10.0.0.0/8=172.16.0.0/12", "--map-ip", "fd00::/16=fd77::/16"];
    let ports = ["--map-port", "20000-20100=30000-30100", "--map-mac", "02:00:00:00:00:01=02:00:00:00:00:99"];
    for (input, words) in [
        ("right.pcap", &maps[..]),
        ("right.pcap", &ports),
        ("right.pcap", &["--anonymize", "a key"]),
        ("right.pcap", &["--set", "inner.ttl=9", "--set", "dscp=46", "--set", "inner.dst-port=80"]),
        ("wrong.pcap", &["--checksums", "fix"]),
        ("wrong.pcap", &["--checksums", "fix", "--map-ip", "10.0.0.0/8=172.16.0.0/12"]),
    ] {
        let run = wirerate(&folder, &[&["rewrite", input, "-o", "out.pcap"], words].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let (_, edited) = records_of(&folder.join("out.pcap"));
        assert!(edited.iter().zip(&records).any(|(edited, before)| edited != before), "{words:?}");
        assert_eq!(wrong_by_tshark(&folder.join("out.pcap")), "", "{input} {words:?}");
    }
}
