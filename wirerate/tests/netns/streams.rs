//! `send --streams`: several streams on one device, counted one by one.

use crate::lab::{Lab, Peer, TX_DEV};
use crate::program::{Running, TIME_LIMIT, wirerate};
use crate::readers::on_the_wire;
use crate::{Case, TestResult, case};
use std::path::Path;

/// Tests of streams.
pub(crate) const CASES: &[Case] = &[
    case(
        "streams::every_engine_sends_the_frames_of_each_stream",
        &["dumpcap", "editcap"],
        every_engine_sends_the_frames_of_each_stream,
    ),
    case("streams::sixty_four_streams_are_counted_one_by_one", &[], sixty_four_streams),
    case("streams::af_xdp_has_a_stream_per_queue", &[], af_xdp_has_a_stream_per_queue),
];

/// Frames of 100, 200 and 300 bytes; the last two begin later and come in bursts.
const STREAMS: &str = r#"{"streams": [
    {"name": "a", "pps": "10k", "count": 300,
     "frame": "{ eth(da=02:00:00:00:00:02), ipv4(sa=drnd(), da=198.18.0.2), udp(dp=7), fill(1, 58) }"},
    {"name": "b", "dst": "198.18.0.2", "dst-mac": "02:00:00:00:00:02", "size": 200, "count": 120, "start": "5ms",
     "burst": 4, "gap": "1ms"},
    {"name": "c", "dst": "198.18.0.2", "dst-mac": "02:00:00:00:00:02", "size": 300, "count": 90, "start": "2ms",
     "pps": "20k", "burst": 8, "gap": "1ms"}]}"#;

fn send(lab: &Lab, file: &Path, words: &[&str]) -> Running {
    let mut command = wirerate();
    command.args(["send", TX_DEV, "--netns", &lab.tx_netns, "--json", "--streams"]).arg(file).args(words);
    Running::start(command)
}

/// The number behind each `"KEY":` in the streams of a report.
fn numbers(report: &str, key: &str) -> Vec<u64> {
    let streams = report.split("\"streams\":").nth(1).expect("the report has streams");
    let key = format!("\"{key}\":");
    let after = streams.split(&key).skip(1);
    after.map(|text| text.split([',', '}']).next().unwrap().parse().unwrap()).collect()
}

fn every_engine_sends_the_frames_of_each_stream() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("streams.json");
    std::fs::write(&file, STREAMS)?;
    for engine in ["xdp", "skb", "af_packet"] {
        let seen = on_the_wire(&lab, 510, || {
            let report = send(&lab, &file, &["--engine", engine]).wait(TIME_LIMIT).expect_paced().stdout;
            assert_eq!(numbers(&report, "sent"), [300, 120, 90], "{engine}: {report}");
            assert_eq!(numbers(&report, "errors"), [0, 0, 0], "{engine}: {report}");
        });
        let of_len = |len: usize| seen.iter().filter(|frame| frame.bytes.len() == len).count();
        assert_eq!([100, 200, 300].map(of_len), [300, 120, 90], "{engine}");
        // Those of stream b are numbered in order: pktgen's header counts from 1.
        let of_b = seen.iter().filter(|frame| frame.bytes.len() == 200);
        let numbers: Vec<u32> =
            of_b.map(|frame| u32::from_be_bytes(frame.bytes[46..50].try_into().unwrap())).collect();
        assert_eq!(numbers, (1..=120).collect::<Vec<u32>>(), "{engine}");
    }
    Ok(())
}

/// More than the kernel's XDP dispatcher has slots for.
fn sixty_four_streams() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let file = lab.file("streams.json");
    let stream = |index: u64| {
        let count = 100 + index;
        format!(r#"{{"dst": "198.18.0.{}", "dst-mac": "02:00:00:00:00:02", "count": {count}}}"#, index + 2)
    };
    std::fs::write(&file, format!("[{}]", (0..64).map(stream).collect::<Vec<_>>().join(",")))?;
    let report = send(&lab, &file, &["--engine", "xdp"]).wait(TIME_LIMIT).expect_code(0).stdout;
    assert_eq!(numbers(&report, "sent"), (100..164).collect::<Vec<u64>>(), "{report}");
    Ok(())
}

/// A queue takes one socket.
fn af_xdp_has_a_stream_per_queue() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("streams.json");
    std::fs::write(&file, STREAMS)?;
    let report = send(&lab, &file, &["--engine", "af_xdp"]).wait(TIME_LIMIT).expect_paced().stdout;
    assert_eq!(numbers(&report, "sent"), [300, 120, 90], "{report}");
    let one = r#"{"dst": "198.18.0.2", "dst-mac": "02:00:00:00:00:02", "count": 9}"#;
    std::fs::write(&file, format!("[{}]", [one; 5].join(",")))?;
    let refused = send(&lab, &file, &["--engine", "af_xdp"]).wait(TIME_LIMIT).expect_code(3);
    refused.says(&["5 streams", "4 transmit queues", "try: --engine xdp"]);
    Ok(())
}
