//! `replay` at one end, `capture --mode drop` or a counter at the other: the frames of the file
//! arrive as they are, in order, and each packet of the file is in the report.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::send::number;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const CASES: &[Case] = &[
    case("replay::frames_arrive_as_they_are_and_in_order", &[], same_bytes_in_order),
    case("replay::gaps_of_the_file_are_kept_by_both_engines", &[], gaps_are_kept),
    case("replay::loops_count_and_duration_end_the_run", &[], loops_and_limits),
    case("replay::frames_over_the_mtu_are_refused_with_their_count", &[], over_the_mtu),
    case("replay::two_devices_get_their_shares", &[], two_devices),
    case("replay::ctrl_c_ends_it_and_counts_are_exact", &[], ctrl_c),
    case("replay::sigusr1_pauses_it_and_sigcont_resumes_it", &[], pause),
    case("replay::a_device_that_goes_down_is_named", &[], device_goes_down),
];

/// UDP over IPv4 with lengths from 60 to 1514, from two clients and two servers.
fn frame(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let host = (number % 2) as u8;
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let payload: Vec<u8> = (0..18 + number * 37 % 1455).map(|at| (at + number) as u8).collect();
    builder
        .ipv4([10, 0, host, 1], [10, 0, 1 - host, 1], 64)
        .udp(number as u16, 9)
        .write(&mut out, &payload)
        .unwrap();
    out
}

/// A pcap file of frames that are `gap_ns` apart.
fn file(lab: &Lab, count: u64, gap_ns: u64) -> PathBuf {
    let path = lab.file("frames.pcap");
    let header = pcapng::pcap::Header::default();
    let mut writer = pcapng::pcap::Writer::new(Vec::new(), &header).unwrap();
    for number in 0..count {
        let (data, time_ns) = (frame(number), 1_700_000_000_000_000_000 + number * gap_ns);
        let frame_len = data.len() as u32;
        writer.record(&pcapng::pcap::Record { time_ns, frame_len, data: &data }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

/// The report of a replay. Checks what is true of each: every packet has one fate.
#[track_caller]
fn report(outcome: &Outcome) -> Value {
    let report: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", outcome.stdout, outcome.stderr));
    let fates = ["sent", "not_wanted", "cut", "too_long", "link_type", "damaged", "after_end", "errors"];
    let sum: u64 = fates.iter().map(|fate| number(&report, fate)).sum();
    assert_eq!(number(&report, "read"), sum, "{report}");
    report
}

fn command(lab: &Lab, path: &Path, words: &str) -> String {
    format!("replay {TX_DEV} {} --netns {} --json {words}", path.display(), lab.tx_netns)
}

#[track_caller]
fn replay(lab: &Lab, path: &Path, words: &str) -> Value {
    report(&wirerate_run(&command(lab, path, words)).expect_code(0))
}

/// Bytes and times of the packets of a capture, in order of the file.
fn captured(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let mut reader = pcapng::Reader::new(&file[..]);
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let pcapng::Block::Packet(packet) = block {
            frames.push((packet.time_ns, packet.data.to_vec()));
        }
    }
    frames
}

/// Captures `count` frames of a replay.
#[track_caller]
fn capture(lab: &Lab, count: u64, act: impl FnOnce()) -> Vec<(u64, Vec<u8>)> {
    let path = lab.file("seen.pcapng");
    let words = format!("--mode drop --snaplen 2048 -w {}", path.display());
    let capture = wirerate_start(&format!("capture {RX_DEV} --netns {} --json {words}", lab.rx_netns));
    until("an XDP program is on the device", || lab.has_xdp());
    let before = lab.received();
    act();
    assert_eq!(lab.received_at_last(before + count), before + count);
    capture.signal(Signal::SIGINT);
    capture.wait(TIME_LIMIT).expect_code(0);
    captured(&path)
}

fn same_bytes_in_order() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 3000, 10_000);
    let expected: Vec<Vec<u8>> = (0..3000).map(frame).collect();
    // At a rate that the ring of the receiver can take on a busy machine.
    for words in ["--pps 20k --engine xdp", "--speed 1 --engine xdp", "--pps 20k --engine af_packet"] {
        let seen = capture(&lab, 3000, || {
            let report = replay(&lab, &path, words);
            assert_eq!(number(&report, "sent"), 3000, "{words}: {report}");
        });
        assert_eq!(seen.len(), expected.len(), "{words}");
        for (place, ((_, bytes), expected)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!(bytes, expected, "{words}: frame {place}");
        }
    }
    Ok(())
}

fn gaps_are_kept() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 40, 5_000_000);
    for engine in ["xdp", "af_packet"] {
        let seen = capture(&lab, 40, || {
            let report = replay(&lab, &path, &format!("--speed 0.5 --engine {engine}"));
            assert_eq!(report["engine"], engine);
            // 195 ms with the gaps of the file; a busy machine may begin late.
            assert!(number(&report, "duration_ns") >= 250_000_000, "{report}");
        });
        // A busy machine makes frames late, never early: no frame may come before its time.
        let (first_ns, _) = seen[0];
        let latest_start_ns =
            seen.iter().enumerate().map(|(place, (ns, _))| ns - place as u64 * 10_000_000).min();
        let spread_ns = first_ns.abs_diff(latest_start_ns.unwrap_or(0));
        assert!(spread_ns < 200_000_000, "{engine}: the first frame was {spread_ns} ns late");
        let whole_ns = seen[39].0 - first_ns;
        assert!(whole_ns + spread_ns >= 389_000_000, "{engine}: {whole_ns} ns");
    }
    Ok(())
}

fn loops_and_limits() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    for engine in ["xdp", "af_packet"] {
        let before = lab.received();
        let report = replay(&lab, &path, &format!("--loop 30 --speed 1 --loop-gap 1ms --engine {engine}"));
        let (sent, read) = (number(&report, "sent"), number(&report, "read"));
        assert_eq!((sent, read, number(&report, "loops")), (3000, 3000, 30));
        assert_eq!(lab.received_at_last(before + 3000), before + 3000);
        let report = replay(&lab, &path, &format!("--loop 0 --count 250 --pps 10k --engine {engine}"));
        assert_eq!((number(&report, "sent"), number(&report, "loops")), (250, 2));
        let report = replay(&lab, &path, &format!("--loop 0 --duration 100ms --pps 1k --engine {engine}"));
        assert!(number(&report, "sent") <= 100, "{report}");
    }
    let report = replay(&lab, &path, "--speed top --loop 200 --engine xdp --cpus 0");
    assert_eq!(number(&report, "sent") + number(&report, "errors"), 20_000);
    Ok(())
}

fn over_the_mtu() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 40, 1000);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", TX_DEV, "mtu", "1000"]);
    let long = (0..40).filter(|number| frame(*number).len() > 1014).count() as u64;
    for engine in ["xdp", "af_packet"] {
        let outcome = wirerate_run(&command(&lab, &path, &format!("--engine {engine}"))).expect_code(1);
        let report = report(&outcome);
        assert_eq!((number(&report, "too_long"), number(&report, "sent")), (long, 40 - long), "{engine}");
    }
    let report = report(&wirerate_run(&command(&lab, &path, "--long fail")).expect_code(1));
    assert_eq!(report["end"], "packet");
    Ok(())
}

fn two_devices() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    let link = ["link", "add", "tx1", "type", "veth", "peer", "name", "rx1"];
    run(&[&["ip", "-n", &lab.tx_netns][..], &link].concat());
    for name in ["tx1", "rx1"] {
        run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", name, "up"]);
    }
    run(&["ip", "netns", "exec", &lab.tx_netns, "ethtool", "-K", "rx1", "gro", "on"]);
    for engine in ["xdp", "af_packet"] {
        let before = lab.received();
        let words = format!("--other tx1 --split sources=10.0.0.0/24 --engine {engine}");
        let report = replay(&lab, &path, &words);
        assert_eq!((number(&report, "sent"), number(&report, "sent_other")), (100, 50), "{report}");
        assert_eq!(lab.received_at_last(before + 50), before + 50);
    }
    Ok(())
}

fn ctrl_c() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 1000, 1_000_000);
    for words in ["--loop 0", "--loop 0 --engine af_packet", "--loop 0 --speed top"] {
        let before = lab.received();
        let running = wirerate_start(&command(&lab, &path, words));
        until("frames arrive", || lab.received() > before);
        running.signal(Signal::SIGINT);
        let report = report(&running.wait(TIME_LIMIT));
        assert_eq!(report["end"], "stopped", "{words}");
        let sent = number(&report, "sent");
        assert_eq!(lab.received_at_last(before + sent), before + sent, "{words}");
    }
    Ok(())
}

fn pause() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 1000, 1_000_000);
    for words in ["--loop 0", "--loop 0 --engine af_packet", "--loop 0 --pps 10k"] {
        let before = lab.received();
        let running = wirerate_start(&command(&lab, &path, words));
        until("frames arrive", || lab.received() > before);
        running.signal(Signal::SIGUSR1);
        let mut last = 0;
        until("no frame arrives for half a second", || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            std::mem::replace(&mut last, lab.received()) == lab.received()
        });
        running.signal(Signal::SIGCONT);
        let paused = lab.received();
        until("frames arrive again", || lab.received() > paused);
        running.signal(Signal::SIGINT);
        let report = report(&running.wait(TIME_LIMIT));
        assert_eq!((&report["end"], number(&report, "pauses")), (&Value::from("stopped"), 1), "{words}");
        assert!(number(&report, "paused_ns") >= 300_000_000, "{words}: {report}");
        let sent = number(&report, "sent");
        assert_eq!(lab.received_at_last(before + sent), before + sent, "{words}");
    }
    Ok(())
}

fn device_goes_down() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 1000, 1_000_000);
    for engine in ["xdp", "af_packet"] {
        let before = lab.received();
        let running = wirerate_start(&command(&lab, &path, &format!("--loop 0 --engine {engine}")));
        until("frames arrive", || lab.received() > before);
        run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", TX_DEV, "down"]);
        let outcome = running.wait(TIME_LIMIT).expect_code(1);
        assert_eq!(report(&outcome)["end"], "failed", "{engine}");
        outcome.says(&["down"]);
        run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", TX_DEV, "up"]);
    }
    Ok(())
}
