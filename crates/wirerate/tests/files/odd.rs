//! Files of `inputs/`, of one oddity each: packets, damaged places and exit code.

use super::compress::gzip;
use super::readers::{START_NS, frame, input, packets, pcap_of, replay, wirerate};
use pcapng::{ByteOrder, Interface, Packet, Section};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use testkit::{Folder, has_program};

#[test]
fn all_commands_read_the_same_packets_of_odd_files() {
    let folder = Folder::new("odd-files");
    for (name, count, code, kinds) in [
        ("block_len_not4.pcapng", 1, 0, json!({})),
        ("epb_opt_overrun.pcapng", 2, 1, json!({ "options": 1 })),
        ("isb_unknown_if.pcapng", 1, 1, json!({ "statistics": 1 })),
        ("nrb_broken.pcapng", 1, 1, json!({ "names": 1 })),
        ("pb_drops.pcapng", 4, 0, json!({})),
        ("pcap_ixia_hw_le.pcap", 3, 0, json!({})),
        ("pcap_kuznetsov_le.pcap", 3, 0, json!({})),
        ("pcap_v543_le.pcap", 1, 0, json!({})),
        ("spb_mixed.pcapng", 3, 0, json!({})),
        ("tsoffset.pcapng", 1, 0, json!({})),
        ("ifname_odd.pcapng", 7, 0, json!({})),
    ] {
        input(&folder, name);
        assert_eq!(packets(&folder, name), (count, code), "{name}");
        let report = replay(&folder, &[name]).json();
        assert_eq!(report["damages"]["kinds"], kinds, "{name}");
        assert_eq!((&report["sent"], &report["damaged"]), (&json!(count), &json!(0)), "{name}");
    }
}

/// Whatever is in a file, no command finds more or fewer packets than the others.
#[test]
fn all_commands_agree_on_every_file_of_the_tests() {
    let folder = Folder::new("all-files");
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/inputs");
    let mut names: Vec<String> = std::fs::read_dir(inputs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 19, "{names:?}");
    for name in names {
        input(&folder, &name);
        let (count, _) = packets(&folder, &name);
        assert!(count > 0, "{name} has packets");
    }
}

/// Sections of both byte orders, and more interfaces than 16 bits count.
#[test]
fn sections_and_interfaces_are_read_whatever_their_order_and_number() {
    let folder = Folder::new("many-sections");
    let data = frame(1);
    let mut file = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big, ByteOrder::Big, ByteOrder::Little] {
        Section::default().emit_as(order, &mut file);
        Interface::default().emit_as(order, &mut file);
        let packet = Packet { time_ns: START_NS, frame_len: 60, data: &data, ..Packet::default() };
        packet.emit_as(order, &mut file);
    }
    std::fs::write(folder.join("orders.pcapng"), &file).unwrap();
    assert_eq!(packets(&folder, "orders.pcapng"), (4, 0));
    let mut file = Vec::new();
    Section::default().emit(&mut file);
    (0..100_000).for_each(|_| Interface::default().emit(&mut file));
    let packet = Packet { interface: 99_999, frame_len: 60, data: &data, ..Packet::default() };
    packet.emit(&mut file);
    std::fs::write(folder.join("interfaces.pcapng"), &file).unwrap();
    assert_eq!(packets(&folder, "interfaces.pcapng"), (1, 0));
}

#[test]
fn files_that_mergecap_merged_are_read() {
    if !has_program("mergecap") {
        return testkit::skip("mergecap is not installed");
    }
    let folder = Folder::new("merged");
    std::fs::write(folder.join("a.pcap"), pcap_of(300)).unwrap();
    for name in ["ifname_odd.pcapng", "pb_drops.pcapng", "fcs.pcapng"] {
        input(&folder, name);
    }
    let files = ["a.pcap", "ifname_odd.pcapng", "pb_drops.pcapng", "fcs.pcapng"];
    let sum: u64 = files.iter().map(|file| packets(&folder, file).0).sum();
    // One interface for all, or one for each of each file; one file behind the other, or by time.
    for (number, options) in [&["-I", "all"][..], &["-I", "none"], &["-a"]].into_iter().enumerate() {
        let merged = format!("merged-{number}.pcapng");
        let words = [options, &["-w", &merged], &files].concat();
        let run = Command::new("mergecap").args(words).current_dir(&*folder).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(packets(&folder, &merged), (sum, 0), "mergecap {options:?}");
    }
}

/// The first packet was read as one with a longer header, or the file ended behind it.
#[test]
fn files_of_all_formats_of_editcap_are_read_or_named() {
    if !has_program("editcap") {
        return testkit::skip("editcap is not installed");
    }
    let folder = Folder::new("editcap");
    std::fs::write(folder.join("a.pcap"), pcap_of(20)).unwrap();
    let convert = |format: &str| {
        let words = ["-F", format, "a.pcap", format];
        let run = Command::new("editcap").args(words).current_dir(&*folder).output().unwrap();
        assert!(run.status.success(), "{format}: {}", String::from_utf8_lossy(&run.stderr));
    };
    for format in ["pcap", "nsecpcap", "pcapng", "modpcap", "nokiapcap", "rh6_1pcap", "suse6_3pcap"] {
        convert(format);
        assert_eq!(packets(&folder, format), (20, 0), "{format}");
    }
    for format in ["snoop", "nettl", "netmon1", "netmon2", "ngsniffer", "ngwsniffer_2_0", "visual", "5views"]
    {
        convert(format);
        let refused = wirerate(&folder, &["info", format]);
        assert_eq!(refused.code, 3, "{refused:?}");
        let advice = format!("  try: editcap -F pcapng {format} - | wirerate info -\n");
        assert!(refused.stderr.contains(&advice), "{refused:?}");
    }
}

#[test]
fn empty_files_and_folders_are_called_so() {
    let folder = Folder::new("empty");
    std::fs::write(folder.join("empty.pcap"), []).unwrap();
    std::fs::write(folder.join("empty.gz"), gzip(&[])).unwrap();
    // A skippable frame, and nothing behind it.
    std::fs::write(folder.join("empty.zst"), b"\x50\x2a\x4d\x18\x02\0\0\0ab").unwrap();
    std::fs::create_dir(folder.join("captures")).unwrap();
    for (name, words) in [
        ("empty.pcap", "it is empty\n"),
        ("empty.gz", "it is empty, inside gzip\n"),
        ("empty.zst", "it is empty, inside zstd or lz4\n"),
        ("captures", "  try: wirerate analyze captures/*, for all files of the folder\n"),
    ] {
        let refused = wirerate(&folder, &["analyze", name]);
        assert!(refused.code == 3 && refused.stderr.contains(words), "{refused:?}");
        assert_eq!(replay(&folder, &[name]).code, 3, "{name}");
    }
}

#[test]
fn damaged_places_beyond_a_hundred_are_counted() {
    let folder = Folder::new("many-damages");
    let file = input(&folder, "isb_unknown_if.pcapng");
    // Statistics of interface 9, which does not exist.
    let statistics: Vec<u8> = [5, 24, 9, 0, 0, 24_u32].iter().flat_map(|word| word.to_le_bytes()).collect();
    let many = [&file[..], &statistics.repeat(1_000_000)].concat();
    std::fs::write(folder.join("many.pcapng"), many).unwrap();
    let ran = replay(&folder, &["many.pcapng"]);
    let report = ran.json();
    assert_eq!((&report["read"], &report["damages"]["total"]), (&json!(1), &json!(1_000_001)));
    assert_eq!(report["damages"]["places"].as_array().unwrap().len(), 100);
    assert!(ran.stdout.len() < 100_000, "{} bytes", ran.stdout.len());
    let said = wirerate(&folder, &["export", "many.pcapng", "-o", "out"]).stderr;
    assert!(said.contains("999,901 more damaged places (statistics 1000001 in all)"), "{said}");
}
