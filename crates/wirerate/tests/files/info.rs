//! `wirerate info` on the files of the other tests.

use super::readers::{START_NS, input, pcap_of, wirerate};
use serde_json::{Value, json};
use testkit::Folder;

fn info(folder: &Folder, name: &str, code: i32) -> Value {
    let ran = wirerate(folder, &["info", "-J", name]);
    assert_eq!(ran.code, code, "{ran:?}");
    ran.json()
}

#[test]
fn a_file_is_described() {
    let folder = Folder::new("info");
    std::fs::write(folder.join("f.pcap.zst"), zstd::stream::encode_all(&pcap_of(1_001)[..], 1).unwrap())
        .unwrap();
    let report = info(&folder, "f.pcap.zst", 0);
    for (field, expected) in [
        ("format", json!("pcap")),
        ("compression", json!("zstd")),
        ("packets", json!(1_001)),
        ("bytes", json!(60 * 1_001)),
        ("first_ns", json!(START_NS)),
        ("duration_ns", json!(1_000_000)),
        ("link_types", json!({ "1": 1_001 })),
        ("lost_by_capture", Value::Null),
        ("protocols", json!([{ "name": "EtherType 0x88b5", "packets": 1_001, "bytes": 60 * 1_001 }])),
    ] {
        assert_eq!(report[field], expected, "{field}: {report}");
    }
    let text = wirerate(&folder, &["info", "f.pcap.zst"]).stdout;
    assert!(text.contains("pcap, compressed by zstd, "), "{text}");
    input(&folder, "pb_drops.pcapng");
    let report = info(&folder, "pb_drops.pcapng", 0);
    assert_eq!((&report["lost_by_capture"], &report["interfaces"][0]["lost"]), (&json!(12), &json!(12)));
    assert_eq!((&report["flows"], &report["packets"]), (&json!(1), &json!(4)), "{report}");
    input(&folder, "isb_unknown_if.pcapng");
    let report = info(&folder, "isb_unknown_if.pcapng", 1);
    assert_eq!((&report["packets"], &report["damages"]["total"]), (&json!(1), &json!(1)));
    input(&folder, "spb_mixed.pcapng");
    let report = info(&folder, "spb_mixed.pcapng", 0);
    assert_eq!((&report["packets"], &report["duration_ns"]), (&json!(3), &json!(1_000_000)));
    // Two of its packets have a time.
    assert_eq!(report["rate_pps"], 2_000.0, "{report}");
    let both = wirerate(&folder, &["info", "spb_mixed.pcapng", "missing", "pb_drops.pcapng"]);
    assert_eq!((both.code, both.stdout.matches("packets ").count()), (1, 2), "{both:?}");
}
