//! The frame check sequence that a file declares is not part of the frames.

use super::readers::{START_NS, frame, input, packets, replay, wirerate};
use pcapng::pcap;
use testkit::Folder;

#[test]
fn a_declared_frame_check_sequence_is_not_sent_and_is_kept_by_export() {
    let folder = Folder::new("fcs");
    for (name, count) in [("fcs2.pcap", 1), ("fcs.pcapng", 2), ("epbfcs.pcapng", 2)] {
        input(&folder, name);
        assert_eq!(packets(&folder, name), (count, 0), "{name}");
        let report = replay(&folder, &[name]).json();
        assert_eq!(report["frame_bytes"], 60 * count, "{name}: {report}");
        assert!(report["notes"].to_string().contains("with a frame check sequence"), "{name}: {report}");
        let kept = replay(&folder, &[name, "--fcs", "keep"]).json();
        assert_eq!(kept["frame_bytes"], 64 * count, "{name}: {kept}");
        assert!(!kept["notes"].to_string().contains("frame check"), "it is not removed: {kept}");
        let set = format!("exported-{name}");
        assert_eq!(wirerate(&folder, &["export", &set, "--to", "pcapng", "-o", "back.pcapng"]).code, 0);
        let back = std::fs::read(folder.join("back.pcapng")).unwrap();
        let lens = pcapng::Reader::new(&back[..]).filter_map(|block| match block.unwrap() {
            pcapng::Block::Packet(packet) => Some(packet.data.len()),
            _ => None,
        });
        assert_eq!(lens.collect::<Vec<_>>(), vec![64; count as usize], "{name}");
        assert_eq!(replay(&folder, &["back.pcapng"]).json()["frame_bytes"], 60 * count, "{name}");
    }
}

/// Such a packet lost all its bytes.
#[test]
fn a_packet_not_longer_than_the_sequence_keeps_its_bytes() {
    let folder = Folder::new("fcs-long");
    // 30 bytes: 15 words of 16 bits.
    let header = pcap::Header { fcs_bits: 0xf400, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
    let data = frame(1);
    for len in [30, 29, 14, 31, 60] {
        let data = &data[..len];
        writer.record(&pcap::Record { time_ns: START_NS, frame_len: len as u32, data }).unwrap();
    }
    std::fs::write(folder.join("f.pcap"), writer.finish().unwrap()).unwrap();
    let report = wirerate(&folder, &["info", "-J", "f.pcap"]).json();
    assert_eq!(report["bytes"], 30 + 29 + 14 + 1 + 30, "{report}");
    let note = "3 packets not longer than the frame check sequence that the file declares";
    assert!(report["notes"].to_string().contains(note), "{report}");
    let report = wirerate(&folder, &["rewrite", "f.pcap", "-o", "out.pcap", "-J"]).json();
    assert_eq!(report["written"], 5, "{report}");
    let out = std::fs::read(folder.join("out.pcap")).unwrap();
    let mut out = pcap::Reader::new(&out[..]).unwrap();
    let mut lens = Vec::new();
    while let Some(record) = out.next_record().unwrap() {
        lens.push(record.data.len());
    }
    assert_eq!(lens, [30, 29, 14, 1, 30]);
}

#[test]
fn a_cut_packet_loses_only_the_bytes_of_the_sequence_that_it_has() {
    let folder = Folder::new("fcs-cut");
    let header = pcap::Header { fcs_bits: 0x2400, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
    let data = [&frame(1)[..], &[9; 4]].concat();
    for (frame_len, captured_len) in [(64, 64), (64, 62), (64, 40), (0, 64)] {
        let data = &data[..captured_len];
        writer.record(&pcap::Record { time_ns: START_NS, frame_len, data }).unwrap();
    }
    std::fs::write(folder.join("f.pcap"), writer.finish().unwrap()).unwrap();
    let out = ["--cut", "skip", "--write", "out.pcapng", "f.pcap"];
    let report = replay(&folder, &out).json();
    assert_eq!((&report["sent"], &report["cut"]), (&3.into(), &1.into()), "{report}");
    let sent = std::fs::read(folder.join("out.pcapng")).unwrap();
    let mut sent = pcapng::Reader::new(&sent[..]).filter_map(|block| match block.unwrap() {
        pcapng::Block::Packet(packet) => Some(packet.data),
        _ => None,
    });
    assert!(sent.all(|sent| sent == frame(1)));
}
