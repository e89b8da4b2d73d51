//! `wirerate rewrite`: the file around the packets, whose edits crate `replay` tests.

use super::readers::{START_NS, wirerate};
use pcapng::{Block, Interface, Packet, PacketFlags, RawOption, Section, Writer, pcap};
use replay::sample::{Ends, frames};
use std::path::Path;
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
        _ => "other",
    }
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
