//! `replay` at one end, `capture --mode drop` or a counter at the other: the frames of the file
//! arrive as they are, in order, and each packet of the file is in the report.

use crate::faults::FaultyLab;
use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, in_netns, run, until, wirerate_run, wirerate_start};
use crate::send::{csv_header, number};
use crate::{Case, TestResult, case};
use bpf::abi::Faults;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const CASES: &[Case] = &[
    case("replay::frames_arrive_as_they_are_and_in_order", &[], same_bytes_in_order),
    case("replay::gaps_of_the_file_are_kept_by_both_engines", &[], gaps_are_kept)
        .with_lock("measures gaps between frames"),
    case("replay::loops_count_and_duration_end_the_run", &[], loops_and_limits),
    case("replay::flows_of_a_run_are_counted_as_in_a_dry_run", &[], flows),
    case("replay::frames_over_the_mtu_are_refused_with_their_count", &[], over_the_mtu),
    case("replay::an_mtu_beyond_the_longest_live_frame_hinders_no_other_frame", &[], longest_live_frame),
    case("replay::two_devices_get_their_shares", &[], two_devices),
    case("replay::devices_in_two_namespaces_send_in_the_order_of_the_file", &[], two_namespaces),
    case("replay::ten_files_arrive_byte_for_byte", &[], ten_files),
    case("replay::frames_of_several_protocols_leave_by_the_skb_engine", &["python3"], skb_protocols),
    case("replay::ctrl_c_ends_it_and_counts_are_exact", &[], ctrl_c),
    case("replay::ctrl_c_takes_effect_within_ten_milliseconds", &[], prompt_stop)
        .with_lock("measures the time of a stop"),
    case("replay::sigusr1_pauses_it_and_sigcont_resumes_it", &[], pause),
    case("replay::verify_finds_lost_repeated_swapped_and_changed_frames", &[], verify_finds_faults),
    case("replay::verify_is_content_with_each_frame_once_and_in_order", &[], verify_is_content),
    case("replay::rows_count_the_frames_of_each_second", &[], rows_per_second),
    case("replay::several_cpus_keep_the_order_within_flows", &[], several_cpus),
    case("replay::loops_without_the_files_have_the_counts_of_the_dry_run", &[], loops_by_the_engine),
    case("replay::ctl_pauses_resumes_and_changes_the_speed", &[], ctl_commands),
    case("replay::tcp_super_frames_become_segments", &[], super_frames),
    case("replay::memory_does_not_grow_with_the_file", &[], memory),
    case("replay::a_device_that_goes_down_is_named", &[], device_goes_down),
    case("replay::the_first_frame_is_in_time", &[], first_frame_in_time)
        .with_lock("measures when the first frame arrives"),
    case("replay::a_device_that_is_removed_is_named", &[], device_is_removed),
];

/// UDP over IPv4 with lengths from 60 to 1514, from two clients and two servers.
pub(crate) fn frame(number: u64) -> Vec<u8> {
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
pub(crate) fn file(lab: &Lab, count: u64, gap_ns: u64) -> PathBuf {
    file_of(lab, count, gap_ns, frame)
}

pub(crate) fn file_of(lab: &Lab, count: u64, gap_ns: u64, frame: impl Fn(u64) -> Vec<u8>) -> PathBuf {
    file_of_type(lab, pcapng::LINK_TYPE_ETHERNET, count, gap_ns, frame)
}

pub(crate) fn file_of_type(
    lab: &Lab,
    link_type: u16,
    count: u64,
    gap_ns: u64,
    frame: impl Fn(u64) -> Vec<u8>,
) -> PathBuf {
    let path = lab.file("frames.pcap");
    let header = pcapng::pcap::Header { link_type, ..pcapng::pcap::Header::default() };
    let mut writer = pcapng::pcap::Writer::new(Vec::new(), &header).unwrap();
    for number in 0..count {
        let (data, time_ns) = (frame(number), 1_700_000_000_000_000_000 + number * gap_ns);
        let frame_len = data.len() as u32;
        writer.record(&pcapng::pcap::Record { time_ns, frame_len, data: &data }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

/// The report of a replay. Checks what is true of each: every packet has one fate, and each loop
/// has all packets of the file.
#[track_caller]
pub(crate) fn report(outcome: &Outcome) -> Value {
    let report: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", outcome.stdout, outcome.stderr));
    let fates = ["sent", "not_wanted", "cut", "too_long", "link_type", "damaged", "after_end", "errors"];
    let sum: u64 = fates.iter().map(|fate| number(&report, fate)).sum();
    let (read, loops) = (number(&report, "read"), number(&report, "loops"));
    assert_eq!(read + number(&report, "segments"), sum, "{report}");
    let file = std::fs::read(report["files"][0].as_str().expect("a name")).unwrap();
    let mut reader = pcapng::pcap::Reader::new(&file[..]).unwrap();
    let mut packets = 0;
    while reader.next_record().unwrap().is_some() {
        packets += 1;
    }
    assert!((loops * packets..=(loops + 1) * packets).contains(&read), "{packets} packets: {report}");
    report
}

pub(crate) fn command(lab: &Lab, path: &Path, words: &str) -> String {
    format!("replay {TX_DEV} {} --netns {} --json {words}", path.display(), lab.tx_netns)
}

#[track_caller]
pub(crate) fn replay(lab: &Lab, path: &Path, words: &str) -> Value {
    report(&wirerate_run(&command(lab, path, words)).expect_code(0))
}

/// Bytes and times of the packets of a capture, in order of the file.
pub(crate) fn captured(path: &Path) -> Vec<(u64, Vec<u8>)> {
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

/// Captures the frames of a replay; `act` returns how many it sent.
#[track_caller]
fn capture(lab: &Lab, act: impl FnOnce() -> u64) -> Vec<(u64, Vec<u8>)> {
    let path = lab.file("seen.pcapng");
    let words = format!("--mode drop --snaplen 2048 --ring 8MiB -w {}", path.display());
    let capture = wirerate_start(&format!("capture {RX_DEV} --netns {} --json {words}", lab.rx_netns));
    until("an XDP program is on the device", || lab.has_xdp());
    let before = lab.received();
    let count = act();
    assert_eq!(lab.received_at_last(before + count), before + count);
    capture.signal(Signal::SIGINT);
    capture.wait(TIME_LIMIT).expect_code(0);
    let frames = captured(&path);
    assert_eq!(frames.len() as u64, count);
    frames
}

fn same_bytes_in_order() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 3000, 10_000);
    let expected: Vec<Vec<u8>> = (0..3000).map(frame).collect();
    for words in [
        "--pps 20k --engine xdp",
        "--speed 1 --engine xdp",
        "--pps 20k --engine skb",
        "--pps 20k --engine af_packet",
    ] {
        let seen = capture(&lab, || {
            let outcome = wirerate_run(&command(&lab, &path, words));
            let report = report(&outcome);
            // A receiver that gets its CPU too late finds its queue full. The report counts these
            // frames, and the exit code is 1 then.
            let (sent, errors) = (number(&report, "sent"), number(&report, "errors"));
            assert_eq!(sent + errors, 3000, "{words}: {report}");
            assert_eq!(outcome.code, Some(i32::from(errors > 0)), "{words}: {report}");
            sent
        });
        assert!(seen.len() > 1000, "{words}: {}", seen.len());
        let mut left = expected.iter();
        for (place, (_, bytes)) in seen.iter().enumerate() {
            assert!(left.any(|frame| frame == bytes), "{words}: frame {place} is another one, or late");
        }
    }
    Ok(())
}

fn gaps_are_kept() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 40, 5_000_000);
    for engine in ["xdp", "skb", "af_packet"] {
        let mut late_ns = 0;
        let seen = capture(&lab, || {
            let report = replay(&lab, &path, &format!("--speed 0.5 --engine {engine}"));
            assert_eq!(report["engine"], engine);
            let latest = report["gap_error"]["histogram"].as_array().and_then(|octaves| octaves.last());
            late_ns = number(latest.expect("frames with times"), "below_ns");
            40
        });
        // A busy machine makes frames late, the first one as well, never early.
        let whole_ns = seen[39].0 - seen[0].0;
        assert!(whole_ns + late_ns >= 389_000_000, "{engine}: {whole_ns} ns, up to {late_ns} ns late");
    }
    Ok(())
}

/// A replay that starts its clock before its threads are ready sends its first frame late, and all
/// others in time.
fn first_frame_in_time() -> TestResult {
    const GAP_NS: u64 = 30_000_000;
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 2, GAP_NS);
    for engine in ["xdp", "skb", "af_packet"] {
        // A busy machine makes either frame late, but not in each of many runs.
        let errors_ns = (0..20).map(|_| {
            let seen = capture(&lab, || {
                let report = replay(&lab, &path, &format!("--engine {engine}"));
                assert_eq!(report["engine"], engine);
                2
            });
            (seen[1].0 - seen[0].0).abs_diff(GAP_NS)
        });
        let mut all_ns = Vec::new();
        let is_exact = errors_ns.inspect(|error_ns| all_ns.push(*error_ns)).any(|ns| ns < 1_000_000);
        assert!(is_exact, "{engine}: the gap is wrong by {all_ns:?} ns");
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

fn flows() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    // Each frame has a source port of its own, and they come from two hosts.
    let fields = ["flows", "has_more_flows", "addresses", "protocols", "top_talkers"];
    let of = |report: &Value| fields.map(|field| report[field].clone());
    let dry = replay(&lab, &path, "--dry-run");
    let bytes: usize = (0..100).map(|number| frame(number).len()).sum();
    let udp = serde_json::json!([{ "name": "UDP", "flows": 100, "packets": 100, "bytes": bytes }]);
    assert_eq!((&dry["flows"], &dry["addresses"], &dry["protocols"]), (&100.into(), &2.into(), &udp));
    let sent: u64 = dry["top_talkers"].as_array().unwrap().iter().map(|talker| number(talker, "bytes")).sum();
    assert_eq!(sent, bytes as u64);
    for words in ["--engine xdp", "--engine xdp --speed top --loop 20", "--engine af_packet --loop 3"] {
        let report = report(&wirerate_run(&command(&lab, &path, words)));
        assert_eq!(of(&report), of(&dry), "{words}");
        assert!(report["flows_ps"].as_f64().unwrap() > 0.0, "{words}: {report}");
    }
    let report = replay(&lab, &path, "--loop 3 --each-loop src-port+=1000 --engine af_packet");
    assert_eq!(number(&report, "flows"), 300);
    let text = wirerate_run(&format!("replay {TX_DEV} {} --dry-run", path.display())).stdout;
    assert!(text.contains("UDP: 100 flows, 100 frames") && text.contains("talker"), "{text}");
    Ok(())
}

fn over_the_mtu() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 40, 1000);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", TX_DEV, "mtu", "1000"]);
    let long = (0..40).filter(|number| frame(*number).len() > 1014).count() as u64;
    for engine in ["xdp", "skb", "af_packet"] {
        let outcome = wirerate_run(&command(&lab, &path, &format!("--engine {engine}"))).expect_code(1);
        let report = report(&outcome);
        assert_eq!((number(&report, "too_long"), number(&report, "sent")), (long, 40 - long), "{engine}");
    }
    let report = report(&wirerate_run(&command(&lab, &path, "--long fail")).expect_code(1));
    assert_eq!(report["end"], "packet");
    let words = format!("replay {TX_DEV} {} --netns {}", path.display(), lab.tx_netns);
    let text = wirerate_run(&words).expect_code(1).stdout;
    let row = format!("too long  {long}  longer than the device accepts");
    let rows: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(rows.contains(&row.split_whitespace().collect::<Vec<_>>().join(" ")), "{row:?} in {text}");
    Ok(())
}

/// 3,520 bytes are accepted by no kernel or by older ones; it depends on its version.
fn longest_live_frame() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    for (netns, device) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        run(&["ip", "-n", netns, "link", "set", "dev", device, "mtu", "3506"]);
    }
    let padded = |number: u64| {
        let mut frame = frame(number);
        frame.resize([60, 3300, 3520][number as usize % 3], 0);
        frame
    };
    let path = file_of(&lab, 30, 1000, padded);
    let outcome = wirerate_run(&command(&lab, &path, "--engine xdp"));
    let report = report(&outcome);
    let (sent, too_long) = (number(&report, "sent"), number(&report, "too_long"));
    assert!((sent, too_long) == (30, 0) || (sent, too_long) == (20, 10), "{report}");
    let has_note = report["notes"].to_string().contains("bytes: --engine af_packet sends more");
    assert_eq!((has_note, outcome.code), (too_long > 0, Some(i32::from(too_long > 0))), "{report}");
    Ok(())
}

/// A second pair in the sender's namespace: `tx1`, and `rx1` with GRO.
pub(crate) fn add_second_pair(lab: &Lab) {
    let link = ["link", "add", "tx1", "type", "veth", "peer", "name", "rx1"];
    run(&[&["ip", "-n", &lab.tx_netns][..], &link].concat());
    for name in ["tx1", "rx1"] {
        run(&["ip", "-n", &lab.tx_netns, "link", "set", "dev", name, "up"]);
    }
    run(&["ip", "netns", "exec", &lab.tx_netns, "ethtool", "-K", "rx1", "gro", "on"]);
}

fn two_devices() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    add_second_pair(&lab);
    for engine in ["xdp", "af_packet"] {
        let before = lab.received();
        let words = format!("--other tx1 --split sources=10.0.0.0/24 --engine {engine}");
        let report = replay(&lab, &path, &words);
        assert_eq!((number(&report, "sent"), number(&report, "sent_other")), (100, 50), "{report}");
        assert_eq!(lab.received_at_last(before + 50), before + 50);
    }
    Ok(())
}

/// Captures at both devices of the receiver's namespace and replays; the payloads' numbers by time.
pub(crate) fn seen_by_both(lab: &Lab, path: &Path, count: u64, words: &str, source: &str) -> Vec<Vec<u8>> {
    let seen = lab.file("seen.pcapng");
    let capture = wirerate_start(&format!(
        "capture {RX_DEV} back0 --netns {} {source} --count {count} -w {} --json",
        lab.rx_netns,
        seen.display()
    ));
    capture.until_it_says("capturing");
    let report = replay(lab, path, words);
    assert_eq!((number(&report, "sent"), number(&report, "sent_other")), (count, count / 2), "{report}");
    capture.wait(TIME_LIMIT).expect_code(0);
    let mut frames = captured(&seen);
    frames.sort_by_key(|(time_ns, _)| *time_ns);
    frames.into_iter().map(|(_, bytes)| bytes).collect()
}

fn two_namespaces() -> TestResult {
    const COUNT: u64 = 100;
    let lab = Lab::new(Peer::Deaf);
    run(&["ip", "-n", &lab.rx_netns, "link", "add", "other0", "type", "veth", "peer", "name", "back0"]);
    for name in ["other0", "back0"] {
        let sysctl = format!("net.ipv6.conf.{name}.disable_ipv6=1");
        run(&["ip", "netns", "exec", &lab.rx_netns, "sysctl", "-qw", &sysctl]);
        run(&["ip", "-n", &lab.rx_netns, "link", "set", "dev", name, "up"]);
    }
    let path = file(&lab, COUNT, 1_000_000);
    let expected: Vec<Vec<u8>> = (0..COUNT).map(frame).collect();
    let words = format!("--other other0@{} --split sources=10.0.0.0/24", lab.rx_netns);
    // The stack stamps frames of both devices when they are sent. XDP programs stamp them when the
    // softirq of each device runs, which a busy CPU may delay: some run must be without delay.
    for (engine, source, attempts) in [("af_packet", "--source tpacket", 1), ("xdp", "--mode drop", 10)] {
        let words = format!("{words} --engine {engine}");
        let mut seen = Vec::new();
        for _ in 0..attempts {
            seen = seen_by_both(&lab, &path, COUNT, &words, source);
            if seen == expected {
                break;
            }
        }
        assert!(seen == expected, "{engine}: the order differs");
    }
    let refused = wirerate_run(&command(&lab, &path, &format!("{words} --engine skb"))).expect_code(3);
    refused.says(&["does not support devices in two namespaces"]);
    Ok(())
}

/// Options of `wirerate send` for the frames of ten files.
const KINDS: [&str; 10] = [
    "--dst 198.18.0.2 --imix 60:7,594:4,1514:1",
    "--dst fd00::2 --size 78-1514",
    "--dst 198.18.0.2 --vlan 7 --size 300",
    "--dst 198.18.0.2 --svlan 8 --vlan 7",
    "--dst 198.18.0.2 --mpls 16,17",
    "--dst 198.18.0.2 --tcp --syn",
    "--dst 198.18.0.2 --icmp echo",
    "--dst 198.18.0.2 --arp",
    "--dst 198.18.0.2 --vxlan 5",
    "--dst 198.18.0.2 --gre",
];

fn ten_files() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let engines = ["xdp", "skb", "af_packet"];
    for (place, kind) in KINDS.iter().enumerate() {
        let path = lab.file("kind.pcapng");
        let netns = &lab.tx_netns;
        wirerate_run(&format!(
            "send {TX_DEV} --netns {netns} --dst-mac 02:00:00:00:00:02 {kind} --dry-run=300 --write {}",
            path.display()
        ))
        .expect_code(0);
        let engine = engines[place % engines.len()];
        let words = format!("--pps 10k --engine {engine} --verify {RX_DEV}@{}", lab.rx_netns);
        let outcome = wirerate_run(&command(&lab, &path, &words)).expect_code(0);
        let report: Value = serde_json::from_str(outcome.stdout.trim()).expect("a report");
        let verify = &report["verify"];
        assert_eq!((number(&report, "sent"), number(verify, "identical")), (300, 300), "{kind}: {report}");
        assert_eq!((number(verify, "reordered"), number(verify, "unexpected")), (0, 0), "{kind}: {report}");
    }
    Ok(())
}

/// Prints the EtherType of each frame that leaves, and the protocol that the stack has for it.
const PROTOCOLS: &str = "
import socket, sys
ETH_P_ALL, OUTGOING = 3, 4
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
tap.bind(('tx0', ETH_P_ALL))
print('ready', file=sys.stderr, flush=True)
while True:
    data, (_, protocol, kind, *_) = tap.recvfrom(4096)
    if kind == OUTGOING:
        print(data[12:14].hex(), format(protocol, '04x'), flush=True)
";

/// The stack must see the protocol of each frame, not that of the first one of a call.
fn skb_protocols() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file_of(&lab, 60, 1000, |number| {
        let mut out = frame(number);
        let protocol: [u8; 2] = [[8, 0], [0x86, 0xdd], [8, 6]][number as usize / 2 % 3];
        out[12..14].copy_from_slice(&protocol);
        out
    });
    let mut script = in_netns(&lab.tx_netns, "python3");
    script.args(["-c", PROTOCOLS]);
    let script = Running::start(script);
    script.until_it_says("ready");
    let words = format!("--speed top --engine skb --verify {RX_DEV}@{}", lab.rx_netns);
    let report = replay(&lab, &path, &words);
    assert_eq!((&report["engine"], number(&report["verify"], "identical")), (&"skb".into(), 60), "{report}");
    until("all frames are seen", || script.printed().lines().count() >= 60);
    let expected =
        ["0800 0800\n", "86dd 86dd\n", "0806 0806\n"].map(|line| line.repeat(2)).concat().repeat(10);
    assert_eq!(script.printed(), expected);
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
        let report = report(&running.wait(TIME_LIMIT).expect_code(0));
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

fn prompt_stop() -> TestResult {
    /// Frames of ten milliseconds.
    const FRAMES_MAX: u64 = 100;
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 1000, 100_000);
    for engine in ["xdp", "skb", "af_packet"] {
        // A busy CPU delays the signal and what follows from it: some run must be without delay.
        let mut most = Vec::new();
        while most.iter().all(|frames| *frames > FRAMES_MAX) {
            assert!(most.len() < 20, "{engine}: frames after the signal: {most:?}");
            let before = lab.received();
            let running = wirerate_start(&command(&lab, &path, &format!("--loop 0 --engine {engine}")));
            until("frames arrive", || lab.received() > before);
            let at_signal = lab.received();
            running.signal(Signal::SIGINT);
            let report = report(&running.wait(TIME_LIMIT));
            assert_eq!(report["end"], "stopped", "{engine}");
            most.push(before + number(&report, "sent") - at_signal);
        }
    }
    // A frame that is due in an hour.
    let path = file(&lab, 2, 3_600_000_000_000);
    for engine in ["xdp", "skb", "af_packet"] {
        let before = lab.received();
        let running = wirerate_start(&command(&lab, &path, &format!("--engine {engine}")));
        until("a frame arrives", || lab.received() > before);
        running.signal(Signal::SIGINT);
        // Its file is not finished.
        let report = report(&running.wait(TIME_LIMIT).expect_code(1));
        assert_eq!((number(&report, "sent"), number(&report, "after_end")), (1, 1), "{engine}: {report}");
    }
    Ok(())
}

/// A frame with pktgen's header and no UDP checksum. Numbers begin at 2, so that no fault of
/// [`FaultyLab`] makes a number that is not in the file.
fn numbered(number: u64) -> Vec<u8> {
    let mut out = frame(0)[..42].to_vec();
    out[16..18].copy_from_slice(&[0, 46]);
    out[38..42].copy_from_slice(&[0, 26, 0, 0]);
    let words = [0xbe9b_e955, number as u32 + 2, 10, 10];
    out.extend(words.iter().flat_map(|word: &u32| word.to_be_bytes()));
    out.resize(60, 0);
    out
}

fn verify_finds_faults() -> TestResult {
    let faults = Faults {
        lose_every: 300,
        swap_every: 200,
        repeat_every: 260,
        shift_every: 333,
        shift_usec: 1,
        ..Faults::default()
    };
    let faulty = FaultyLab::new(faults);
    let path = file_of(&faulty.lab, 1000, 1000, numbered);
    let words = format!("--pps 20k --verify back0@{}", faulty.lab.tx_netns);
    let outcome = wirerate_run(&command(&faulty.lab, &path, &words)).expect_code(1);
    let report = report(&outcome);
    let done = faulty.faults.counts();
    assert_eq!((done.received, done.lost, done.swapped, done.repeated, done.shifted), (1000, 3, 4, 3, 3));
    let counts = |name: &str| number(&report["verify"], name);
    // A frame that becomes a copy of the one before is missing as well.
    assert_eq!((counts("missing"), counts("duplicate")), (3 + 3, 3), "{report}");
    assert_eq!((counts("reordered"), counts("changed")), (2, 3), "{report}");
    assert_eq!((counts("sent"), counts("identical"), counts("unexpected")), (1000, 991, 0), "{report}");
    // Frame 258, with number 259, arrived twice.
    assert_eq!(counts("first_difference"), 258, "{report}");
    // The time in the payload was changed.
    let difference = report["verify"]["difference"].as_str().unwrap_or_default();
    assert!(difference.starts_with("frame ") && difference.contains("byte "), "{report}");
    Ok(())
}

fn verify_is_content() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file(&lab, 1000, 10_000);
    for words in ["--pps 20k --loop 2 --engine xdp", "--speed 2 --engine af_packet", "--pps 20k --count 700"]
    {
        let report = replay(&lab, &path, &format!("{words} --verify {RX_DEV}@{}", lab.rx_netns));
        let (sent, verify) = (number(&report, "sent"), &report["verify"]);
        assert_eq!((number(verify, "sent"), number(verify, "identical")), (sent, sent), "{words}: {report}");
        assert!(!lab.has_xdp(), "the receiver has ended");
    }
    let running = wirerate_start(&command(
        &lab,
        &path,
        &format!("--loop 0 --speed 1 --verify {RX_DEV}@{}", lab.rx_netns),
    ));
    let before = lab.received();
    until("frames arrive", || lab.received() > before + 100);
    running.signal(Signal::SIGINT);
    let report = report(&running.wait(TIME_LIMIT).expect_code(0));
    assert_eq!(report["verify"]["identical"], report["sent"], "frames that were not sent do not count");
    Ok(())
}

fn rows_per_second() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    let words = "--loop 0 --pps 1k --duration 2200ms --every-second";
    let outcome = wirerate_run(&command(&lab, &path, words)).expect_code(0);
    let rows: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (report, rows) = rows.split_last().expect("lines");
    assert_eq!(report["schema"], "wirerate.replay/2");
    assert!(rows.len() >= 2, "{rows:?}");
    let sent: Vec<u64> = rows.iter().map(|row| number(row, "sent")).collect();
    assert!(sent.is_sorted() && sent.last() == report["sent"].as_u64().as_ref(), "{sent:?}, {report}");
    let words = format!("replay {TX_DEV} {} --netns {} --csv", path.display(), lab.tx_netns);
    let outcome = wirerate_run(&words).expect_code(0);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], csv_header());
    assert_eq!(lines.last().and_then(|line| line.split(',').nth(2)), Some("100"), "{lines:?}");
    Ok(())
}

/// UDP over IPv4 as [`frame`] makes it, of one of eight flows: source ports 1000 to 1007.
fn flow_frame(number: u64) -> Vec<u8> {
    let mut out = frame(number);
    out[34..36].copy_from_slice(&(1000 + number as u16 % 8).to_be_bytes());
    out
}

fn several_cpus() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = file_of(&lab, 2000, 20_000, flow_frame);
    let verify = format!("--threads 2 --verify {RX_DEV}@{}", lab.rx_netns);
    let report = replay(&lab, &path, &verify);
    assert_eq!(report["cpus"].as_array().map(Vec::len), Some(2), "{report}");
    assert_eq!((number(&report, "sent"), number(&report["verify"], "identical")), (2000, 2000), "{report}");
    // The receiver may lose frames at top speed, but no flow is out of order.
    let outcome = wirerate_run(&command(&lab, &path, &format!("--speed top --loop 5 {verify}")));
    let report = self::report(&outcome);
    assert_eq!((number(&report, "read"), number(&report, "loops")), (10_000, 5), "{report}");
    assert_eq!(
        (number(&report["verify"], "reordered"), number(&report["verify"], "changed")),
        (0, 0),
        "{report}"
    );
    assert!(report["notes"].to_string().contains("order kept within flows"), "{report}");
    let outcome = wirerate_run(&command(&lab, &path, "--threads 2 --engine af_packet")).expect_code(2);
    outcome.says(&["one thread", "try: --cpus"]);
    Ok(())
}

fn loops_by_the_engine() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    for words in ["--loop 7", "--loop 0 --count 1234", "--loop 2 --count 90", "--loop 3 --count 270"] {
        let words = format!("--speed top --packets 5-94 --engine xdp {words}");
        let before = lab.received();
        let live = report(&wirerate_run(&command(&lab, &path, &words)));
        let sent = number(&live, "sent");
        assert_eq!(lab.received_at_last(before + sent), before + sent, "{words}");
        let words = words.replace("--engine xdp", "--dry-run");
        let dry = report(&wirerate_run(&command(&lab, &path, &words)).expect_code(0));
        // A full ring of the driver is an error at top speed.
        assert_eq!(sent + number(&live, "errors"), number(&dry, "sent"), "{live}");
        for field in ["read", "loops", "not_wanted", "after_end"] {
            assert_eq!(live[field], dry[field], "{words}: {field}: {live}");
        }
    }
    Ok(())
}

fn ctl_commands() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 100, 1000);
    let ctl = |words: &str| wirerate_run(&format!("ctl {TX_DEV} --netns {} {words}", lab.tx_netns));
    ctl("pause").expect_code(3).says(&["no replay runs on tx0 here"]);
    for engine in ["xdp", "af_packet"] {
        let before = lab.received();
        let words = format!("--loop 0 --pps 1k --count 60000 --engine {engine}");
        let running = wirerate_start(&command(&lab, &path, &words));
        until("frames arrive", || lab.received() > before);
        ctl("pause").expect_code(0);
        let mut last = 0;
        until("no frame arrives for half a second", || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            std::mem::replace(&mut last, lab.received()) == lab.received()
        });
        ctl("resume").expect_code(0);
        // A minute at the speed of the arguments.
        ctl("speed 200").expect_code(0);
        let report = report(&running.wait(TIME_LIMIT).expect_code(0));
        assert_eq!((number(&report, "sent"), number(&report, "pauses")), (60_000, 1), "{report}");
        assert!(number(&report, "duration_ns") < 30_000_000_000, "{report}");
    }
    let before = lab.received();
    let running = wirerate_start(&command(&lab, &path, "--loop 0 --speed top"));
    until("frames arrive", || lab.received() > before);
    ctl("speed 2").expect_code(3).says(&["it sends as fast as possible"]);
    ctl("stats").expect_code(3).says(&["no capture runs on tx0 here"]);
    running.signal(Signal::SIGINT);
    report(&running.wait(TIME_LIMIT));
    Ok(())
}

fn super_frames() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let super_frame = |number: u64| {
        let mut out = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let builder = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(80, 81, number as u32 * 9000, 100);
        builder.write(&mut out, &vec![number as u8; 9000]).unwrap();
        out
    };
    let path = file_of(&lab, 20, 1_000_000, super_frame);
    let report = report(&wirerate_run(&command(&lab, &path, "")).expect_code(1));
    assert_eq!((number(&report, "sent"), number(&report, "too_long")), (0, 20), "{report}");
    // 9,000 bytes are 6 full segments of 1,460 and one of 240.
    for words in ["--long segment --engine xdp", "--long segment --engine af_packet --loop 2"] {
        let report = replay(&lab, &path, &format!("{words} --verify {RX_DEV}@{}", lab.rx_netns));
        let packets = 20 * number(&report, "loops");
        assert_eq!((number(&report, "read"), number(&report, "sent")), (packets, packets * 7), "{report}");
        assert_eq!(number(&report, "segments"), packets * 6, "{report}");
    }
    Ok(())
}

fn memory() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    // Beyond what is kept in memory for further loops.
    let path = file_of(&lab, 60_000, 1000, |number| {
        let mut out = frame(number);
        out.resize(1514, 7);
        out
    });
    let before = lab.received();
    let running = wirerate_start(&command(&lab, &path, "--loop 0 --speed top"));
    until("the file was sent", || lab.received() > before + 60_000);
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    running.signal(Signal::SIGINT);
    report(&running.wait(TIME_LIMIT));
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel has it");
    let anonymous_kb: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    // The ring of 18 MiB is memory of the kernel.
    assert!(anonymous_kb < 40 << 10, "{anonymous_kb} KiB for a file of 92 MB");
    Ok(())
}

fn device_goes_down() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let path = file(&lab, 1000, 1_000_000);
    for engine in ["xdp", "skb", "af_packet"] {
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

fn device_is_removed() -> TestResult {
    for engine in ["xdp", "skb", "af_packet"] {
        let lab = Lab::new(Peer::Sink);
        let path = file(&lab, 1000, 1_000_000);
        let before = lab.received();
        let running = wirerate_start(&command(&lab, &path, &format!("--loop 0 --engine {engine}")));
        until("frames arrive", || lab.received() > before);
        run(&["ip", "-n", &lab.tx_netns, "link", "del", "dev", TX_DEV]);
        let outcome = running.wait(TIME_LIMIT).expect_code(1);
        assert_eq!(report(&outcome)["end"], "failed", "{engine}");
        outcome.says(&["is gone"]);
    }
    Ok(())
}
