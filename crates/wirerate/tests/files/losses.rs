//! Losses that a capture records are not those of the network.

use super::readers::{START_NS, frame, input, wirerate};
use pcapng::{Interface, Packet, Section, Statistics, Writer};
use serde_json::{Value, json};
use testkit::Folder;

/// A frame with a signature of pktgen and this number.
fn signed(number: u32) -> Vec<u8> {
    let mut payload = [0xbe, 0x9b, 0xe9, 0x55].to_vec();
    payload.extend(number.to_be_bytes());
    payload.extend([0x65, 0x53, 0xf1, 0, 0, 0, 0, 1]);
    payload.resize(20, 0);
    let mut out = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = builder.ipv4([198, 18, 0, 1], [198, 18, 0, 2], 64).udp(9, 9);
    builder.write(&mut out, &payload).unwrap();
    out
}

fn analyze(folder: &Folder, args: &[&str]) -> Value {
    wirerate(folder, &[&["analyze", "f.pcapng", "--json"], args].concat()).json()
}

#[test]
fn lost_frames_are_divided_between_network_and_capture() {
    let folder = Folder::new("lost");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&Interface::default()).unwrap();
    for (number, drop_count) in [(1, None), (8, Some(4))] {
        let data = signed(number);
        let time_ns = START_NS + u64::from(number);
        let frame_len = data.len() as u32;
        writer.packet(&Packet { time_ns, frame_len, data: &data, drop_count, ..Packet::default() }).unwrap();
    }
    // Lost behind the last frame of the flow.
    let (time_ns, data) = (START_NS + 5_000_000_000, frame(0));
    let late = Packet { time_ns, frame_len: 60, data: &data, drop_count: Some(1), ..Packet::default() };
    writer.packet(&late).unwrap();
    std::fs::write(folder.join("f.pcapng"), writer.finish().unwrap()).unwrap();
    let report = analyze(&folder, &["--sent", "8", "--flows-out", "flows.jsonl"]);
    assert_eq!((&report["loss"]["lost_max"], &report["lost_by_capture"]), (&json!(6), &json!(5)));
    let flow = std::fs::read_to_string(folder.join("flows.jsonl")).unwrap();
    let flow: Value = serde_json::from_str(&flow).unwrap();
    assert_eq!((&flow["missing"], &flow["lost_by_capture"]), (&report["missing"], &json!(4)));
    assert_eq!(report["lost_ring"], Value::Null);
    let text = wirerate(&folder, &["analyze", "f.pcapng", "--sent", "8"]).stdout;
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).map(str::to_owned);
    assert!(row("network").is_some_and(|row| row.contains(" 1 ")), "{text}");
    assert!(row("capture").is_some_and(|row| row.contains(" 5 ")), "{text}");
}

#[test]
fn statistics_and_the_drop_counts_of_old_blocks_count() {
    let folder = Folder::new("lost-old");
    input(&folder, "pb_drops.pcapng");
    std::fs::rename(folder.join("pb_drops.pcapng"), folder.join("f.pcapng")).unwrap();
    assert_eq!(analyze(&folder, &[])["lost_by_capture"], 12);
    // Three sections, each of a capture of its own.
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    for number in 0..3 {
        if number > 0 {
            writer.section(&Section::default()).unwrap();
        }
        writer.add_interface(&Interface::default()).unwrap();
        let data = frame(number);
        let packet = Packet { time_ns: START_NS + number, frame_len: 60, data: &data, ..Packet::default() };
        writer.packet(&packet).unwrap();
        let (nic, os) = (Some(3), Some(4));
        let statistics = Statistics { dropped_by_interface: nic, dropped_by_os: os, ..Statistics::default() };
        writer.statistics(&statistics).unwrap();
    }
    std::fs::write(folder.join("f.pcapng"), writer.finish().unwrap()).unwrap();
    assert_eq!(analyze(&folder, &[])["lost_by_capture"], 21);
    let export = ["export", "f.pcapng", "-o", "set", "--json"];
    assert_eq!(wirerate(&folder, &export).json()["lost"], 21);
    // Of the chosen interface.
    assert_eq!(analyze(&folder, &["--interface", "1"])["lost_by_capture"], Value::Null);
    let pcap = super::readers::pcap_of(3);
    std::fs::write(folder.join("f.pcapng"), pcap).unwrap();
    assert_eq!(analyze(&folder, &[])["lost_by_capture"], Value::Null, "pcap says nothing about losses");
}
