//! Packets without a time, times that jump, and gaps between files.

use super::readers::{START_NS, frame, input, replay, wirerate};
use pcapng::{Block, Interface, NoTime, Packet, Reader, Section, Writer, pcap};
use serde_json::json;
use testkit::Folder;

const MS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A pcap file with packets at these times.
fn pcap_at(times_ns: &[u64]) -> Vec<u8> {
    let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default()).unwrap();
    for (number, time_ns) in (0..).zip(times_ns) {
        writer.record(&pcap::Record { time_ns: *time_ns, frame_len: 60, data: &frame(number) }).unwrap();
    }
    writer.finish().unwrap()
}

/// Notes of a replay but the first one, which is about the device.
fn notes(report: &serde_json::Value) -> Vec<&str> {
    report["notes"].as_array().unwrap().iter().skip(1).map(|note| note.as_str().unwrap()).collect()
}

#[test]
fn a_packet_without_a_time_or_of_another_time_does_not_stop_a_replay() {
    let folder = Folder::new("jumps");
    for (name, duration_ns) in
        [("spb_mixed.pcapng", MS), ("spbmix.pcapng", 2 * MS), ("tzero.pcap", 2 * MS), ("tback.pcap", 2 * MS)]
    {
        input(&folder, name);
        let report = replay(&folder, &[name]).json();
        assert_eq!(report["duration_ns"], duration_ns, "{name}: {report}");
    }
}

#[test]
fn a_long_pause_is_announced_and_can_be_shortened() {
    let folder = Folder::new("pause");
    std::fs::write(folder.join("p.pcap"), pcap_at(&[START_NS, START_NS + HOUR_NS])).unwrap();
    let report = replay(&folder, &["p.pcap"]).json();
    assert_eq!(report["duration_ns"], HOUR_NS);
    assert_eq!(notes(&report), ["the file pauses for 3,600 s at packet 2; --max-gap 1s shortens it"]);
    let report = replay(&folder, &["p.pcap", "--max-gap", "1s"]).json();
    assert_eq!((&report["duration_ns"], notes(&report).len()), (&json!(1_000_000_000), 0));
}

#[test]
fn files_far_apart_follow_at_once_and_rotated_files_keep_their_gap() {
    let folder = Folder::new("gaps");
    for (name, second) in [("first", 0), ("rotated", 50), ("later", 7_200), ("earlier", 10)] {
        let start_ns = START_NS + second * 1_000_000_000;
        std::fs::write(folder.join(name), pcap_at(&[start_ns, start_ns + MS])).unwrap();
    }
    let report = replay(&folder, &["first", "rotated"]).json();
    assert_eq!((&report["duration_ns"], notes(&report).len()), (&json!(50_000 * MS + MS), 0));
    let report = replay(&folder, &["first", "later"]).json();
    assert_eq!(report["duration_ns"], 2 * MS);
    assert!(notes(&report)[0].contains("later begins"), "{report}");
    let report = replay(&folder, &["first", "later", "--keep-gaps"]).json();
    assert_eq!(report["duration_ns"], 7_200_000 * MS + MS);
    let report = replay(&folder, &["first", "later", "--loop", "2", "--each-loop", "src+=1"]).json();
    assert_eq!(report["duration_ns"], 4 * MS);
    // The wrong order is sent at once, and named by all; --sort puts it right.
    let report = replay(&folder, &["rotated", "earlier", "first"]).json();
    assert_eq!(report["duration_ns"], 3 * MS);
    for words in [&["analyze"][..], &["export", "-o", "out"]] {
        let files = ["rotated", "earlier", "first"];
        let said = wirerate(&folder, &[words, &files].concat());
        assert!(said.stderr.contains("earlier begins"), "{said:?}");
        assert!(said.stderr.contains("--sort orders the files by their first packets"), "{said:?}");
        let sorted = [words, &files, &["--sort", "--run", "sorted"][..if words.len() > 1 { 3 } else { 1 }]];
        let said = wirerate(&folder, &sorted.concat());
        assert!(!said.stderr.contains("begins") && said.code == 0, "{said:?}");
    }
    let report = replay(&folder, &["rotated", "earlier", "first", "--sort"]).json();
    assert_eq!(report["duration_ns"], 50_000 * MS + MS);
}

/// Interface, time and bytes of each packet of a pcapng file.
fn read(file: &[u8]) -> Vec<(Option<u64>, u32, Vec<u8>)> {
    let mut reader = Reader::new(file);
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let Block::Packet(packet) = block {
            let time_ns = packet.no_time.is_none().then_some(packet.time_ns);
            packets.push((time_ns, packet.frame_len, packet.data.to_vec()));
        }
    }
    packets
}

#[test]
fn packets_without_a_time_go_through_parquet_and_back() {
    let folder = Folder::new("no-time");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&Interface { snaplen: 40, ..Interface::default() }).unwrap();
    writer.add_interface(&Interface { name: Some("eth1".to_owned()), ..Interface::default() }).unwrap();
    let data = frame(1);
    let no_time = Some(NoTime::NotRecorded);
    for number in 0..20 {
        let (time_ns, interface) = (START_NS + number * MS, number as u32 % 2);
        let timed = Packet { interface, time_ns, frame_len: 60, data: &data, ..Packet::default() };
        writer.packet(&timed).unwrap();
        writer.packet(&Packet { frame_len: 60, data: &data[..40], no_time, ..Packet::default() }).unwrap();
    }
    let file = writer.finish().unwrap();
    std::fs::write(folder.join("f.pcapng"), &file).unwrap();
    assert_eq!(wirerate(&folder, &["export", "f.pcapng", "-o", "set"]).code, 0);
    assert_eq!(wirerate(&folder, &["export", "set", "--to", "pcapng", "-o", "back.pcapng"]).code, 0);
    let back = std::fs::read(folder.join("back.pcapng")).unwrap();
    let (mut found, mut expected) = (read(&back), read(&file));
    assert_eq!(found.iter().filter(|packet| packet.0.is_none()).count(), 20);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // A time before 1970 is no time in the data set.
    input(&folder, "tsoffset.pcapng");
    let said = wirerate(&folder, &["export", "tsoffset.pcapng", "-o", "set"]);
    assert!(said.stderr.contains("1 packet with a time before 1970 or after 2554"), "{said:?}");
    let back = ["export", "set/run=tsoffset", "--to", "pcapng", "-o", "back.pcapng"];
    assert_eq!(wirerate(&folder, &back).code, 0);
    let back = read(&std::fs::read(folder.join("back.pcapng")).unwrap());
    assert_eq!((back.len(), back[0].0), (1, None));
}
