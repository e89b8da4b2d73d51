//! `send --streams`: several streams on one device, counted one by one.

use crate::lab::{Lab, Peer, RX_MAC, TX_DEV};
use crate::program::{Running, TIME_LIMIT, until, wirerate};
use crate::readers::on_the_wire;
use crate::send::{number, report};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::path::Path;

/// Tests of streams.
pub(crate) const CASES: &[Case] = &[
    case(
        "streams::every_engine_sends_the_frames_of_each_stream",
        &["dumpcap", "editcap"],
        every_engine_sends_the_frames_of_each_stream,
    ),
    case("streams::sixty_four_streams_are_counted_one_by_one", &[], sixty_four_streams)
        .with_lock("uses all slots of the XDP dispatcher"),
    case("streams::af_xdp_has_a_stream_per_queue", &[], af_xdp_has_a_stream_per_queue),
    case("streams::twenty_slow_senders_share_two_cpus", &[], twenty_slow_senders_share_two_cpus)
        .with_lock("measures rates"),
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

/// More than the kernel's XDP dispatcher has slots for: they share a program, which is attached.
fn sixty_four_streams() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let file = lab.file("streams.json");
    let stream = |count: &dyn Fn(u64) -> u64, index: u64| {
        let (host, count) = (index + 2, count(index));
        let more = if index.is_multiple_of(3) { ", \"tcp\": true, \"size\": \"60-90\"" } else { "" };
        format!(r#"{{"dst": "198.18.0.{host}", "dst-mac": "02:00:00:00:00:02", "count": {count}{more}}}"#)
    };
    let streams = |count: &dyn Fn(u64) -> u64| {
        let streams: Vec<String> = (0..64).map(|index| stream(count, index)).collect();
        std::fs::write(&file, format!("[{}]", streams.join(",")))
    };
    streams(&|index| 100 + index)?;
    let report = send(&lab, &file, &["--engine", "xdp"]).wait(TIME_LIMIT).expect_code(0).stdout;
    assert_eq!(numbers(&report, "sent"), (100..164).collect::<Vec<u64>>(), "{report}");
    let first: u64 = (100..164).sum();
    assert_eq!(lab.received_at_last(first), first);
    streams(&|_| 0)?;
    let running = send(&lab, &file, &["--engine", "xdp", "--threads", "1"]);
    until("many frames arrive", || lab.received() > 100_000);
    assert_eq!(attached_programs(running.id())?, 1, "one for all streams");
    running.signal(Signal::SIGINT);
    let report = running.wait(TIME_LIMIT).expect_code(0).stdout;
    let sent = numbers(&report, "sent");
    assert!(sent.len() == 64 && sent.iter().all(|sent| *sent > 0), "{report}");
    let all = first + sent.iter().sum::<u64>();
    assert_eq!(lab.received_at_last(all), all, "{report}");
    Ok(())
}

/// XDP programs that a process has attached, to any device.
fn attached_programs(id: u32) -> Result<usize, Box<dyn std::error::Error>> {
    let mut count = 0;
    for file in std::fs::read_dir(format!("/proc/{id}/fdinfo"))? {
        // A descriptor may be closed meanwhile.
        let text = std::fs::read_to_string(file?.path()).unwrap_or_default();
        count += usize::from(text.lines().any(|line| line == "link_type:\txdp"));
    }
    Ok(count)
}

/// A sender that spun until its next frame would keep the others from their CPU.
fn twenty_slow_senders_share_two_cpus() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let start = |number: usize| {
        let cpu = (number % 2).to_string();
        let mut command = wirerate();
        command.args(["send", TX_DEV, "--netns", &lab.tx_netns, "--json", "--dst", "198.18.0.2"]);
        command.args(["--dst-mac", RX_MAC, "--pps", "200", "--count", "600", "--cpus", &cpu]);
        Running::start(command)
    };
    let senders: Vec<_> = (0..20).map(start).collect();
    let mut busy = 0.0;
    for sender in senders {
        // Exit code 0: the rate was reached.
        let report = report(&sender.wait(TIME_LIMIT).expect_code(0));
        assert_eq!((number(&report, "sent"), number(&report, "errors")), (600, 0), "{report}");
        busy += report["cpus_busy"].as_f64().expect("a number");
    }
    // They need about half a CPU; if they spun, they would take both.
    assert!(busy < 1.2, "20 senders kept {busy:.2} of 2 CPUs busy");
    assert_eq!(lab.received_at_last(12_000), 12_000);
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
