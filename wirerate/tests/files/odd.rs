//! Files of `inputs/`, of one oddity each: packets, damaged places and exit code.

use super::readers::{input, packets, replay, wirerate};
use serde_json::json;
use testkit::Folder;

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
    assert!(said.contains("999,996 more damaged places (statistics 1000001 in all)"), "{said}");
}
