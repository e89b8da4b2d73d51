//! `wirerate send`: the receiver's counters decide what was sent, dumpcap sees which bytes came.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV};
use crate::program::{
    Outcome, Running, TIME_LIMIT, in_netns, run, until, wirerate, wirerate_run, wirerate_start,
};
use crate::readers::{Frame, frames, on_the_wire, tshark};
use crate::{Case, TestResult, case};
use facts::SendErrors;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Tests of `wirerate send`.
pub(crate) const CASES: &[Case] = &[
    case("send::the_receiver_counts_exactly_what_was_asked_for", &[], exact_counts),
    case("send::ten_million_and_one_frames_arrive", &["clang"], ten_million_and_one),
    case("send::several_threads_share_a_count", &[], threads_share_a_count),
    case("send::frames_on_the_wire_are_those_of_the_dry_run", &["dumpcap", "editcap"], same_bytes_as_dry_run),
    case(
        "send::ranges_are_on_the_wire_in_order_with_right_checksums",
        &["dumpcap", "editcap", "tshark"],
        ranges,
    ),
    case("send::frames_of_a_flow_come_in_a_row", &["dumpcap", "editcap"], flows_in_rows),
    case("send::the_mac_of_the_neighbour_is_found", &["dumpcap", "editcap"], neighbour_is_found),
    case("send::an_unknown_neighbour_is_refused_with_what_to_type", &[], unknown_neighbour),
    case("send::a_peer_without_xdp_or_gro_is_refused_by_xdp_and_served_by_skb", &[], deaf_peer),
    case(
        "send::every_engine_sends_exactly_its_count_and_the_same_bytes",
        &["dumpcap", "editcap"],
        every_engine,
    ),
    case("send::a_peer_that_goes_deaf_on_the_way_costs_errors_not_silence", &[], peer_goes_deaf),
    case("send::fewer_capabilities_choose_the_next_engine", &["setpriv"], fewer_capabilities),
    case("send::without_sys_admin_a_peer_in_another_namespace_is_no_obstacle", &["setpriv"], no_sys_admin),
    case("send::a_missing_device_and_a_missing_namespace_are_named", &[], missing_device),
    case("send::a_link_that_is_down_is_refused", &[], link_down),
    case("send::a_link_that_goes_down_ends_the_run_with_a_report", &[], link_goes_down),
    case("send::without_its_association_nothing_is_sent_in_clear", &[], no_association),
    case("send::a_node_that_is_not_there_is_refused", &[], no_such_node),
    case("send::a_wrong_mac_is_bad_usage", &[], wrong_mac),
    case("send::frames_for_a_stranger_arrive_and_are_counted", &[], mac_of_a_stranger),
    case("send::the_device_of_the_hosts_default_route_is_refused", &["unshare"], default_route),
    case(
        "send::the_device_beneath_that_of_the_hosts_default_route_is_refused",
        &["unshare"],
        beneath_default_route,
    ),
    case("send::a_tun_without_a_reader_is_refused_and_doctor_says_what_sends_there", &[], without_ethernet),
    case(
        "send::two_af_xdp_threads_have_a_queue_each_and_the_failure_of_either_ends_the_run",
        &[],
        af_xdp_threads,
    ),
    case("send::ctrl_c_at_any_moment_loses_nothing_uncounted", &[], ctrl_c),
    case("send::a_duration_ends_the_run", &[], duration),
    case("send::a_pace_is_kept_and_lateness_does_not_add_up", &["chrt"], pace)
        .with_lock("measures the times of frames"),
    case("send::a_paced_run_that_was_stopped_catches_up_at_twice_its_pace_and_says_so", &[], stopped)
        .with_lock("measures the times of frames"),
    case("send::a_rate_out_of_reach_is_said_and_is_exit_code_1", &[], out_of_reach),
    case("send::rows_report_and_csv_have_the_same_numbers", &[], rows),
    case("send::quiet_prints_the_report_and_nothing_else", &[], quiet),
    case("send::a_full_queue_costs_retries_and_no_frame", &["tc"], full_queue),
    case("send::frames_lost_behind_the_stack_are_noted", &["tc"], lost_behind_the_stack),
    case("send::a_full_ring_costs_retries_and_no_error", &[], full_ring),
    case("send::goes_on_when_the_link_is_back", &[], goes_on_when_the_link_is_back),
];

/// The words that name device, namespace and receiver, and `words`.
pub(crate) fn sending(lab: &Lab, words: &str) -> String {
    let to = if words.contains("--dst ") { "" } else { "--dst 198.18.0.2" };
    format!("send {TX_DEV} --netns {} --dst-mac {RX_MAC} --json {to} {words}", lab.tx_netns)
}

/// Sends with `words` added and expects exit code 0; the report.
#[track_caller]
fn send(lab: &Lab, words: &str) -> Value {
    report(&wirerate_run(&sending(lab, words)).expect_code(0))
}

/// The report that a run printed. Checks what is true of each: every frame offered is sent or an
/// error.
#[track_caller]
pub(crate) fn report(outcome: &Outcome) -> Value {
    let report: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|error| panic!("{error}\nstdout:\n{}\nstderr:\n{}", outcome.stdout, outcome.stderr));
    let causes: u64 =
        report["error_causes"].as_array().expect("a list").iter().map(|c| number(c, "count")).sum();
    assert_eq!(number(&report, "offered"), number(&report, "sent") + number(&report, "errors"), "{report}");
    assert_eq!(number(&report, "errors"), causes, "{report}");
    report
}

/// A whole number of a report.
#[track_caller]
pub(crate) fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// Asserts that a run of `sent` frames, and nothing else, has come to the receiver since it counted
/// `before`.
#[track_caller]
fn assert_arrived(lab: &Lab, before: u64, sent: u64) {
    assert_eq!(lab.received_at_last(before + sent) - before, sent, "frames at the receiver");
}

fn exact_counts() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for count in [1, 2, 63, 64, 65, 1000] {
        let before = lab.received();
        let report = send(&lab, &format!("--count {count}"));
        assert_eq!((number(&report, "offered"), number(&report, "sent")), (count, count));
        assert_arrived(&lab, before, count);
    }
    Ok(())
}

fn ten_million_and_one() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let report = send(&lab, "--count 10000001");
    assert_eq!(number(&report, "sent"), 10_000_001);
    assert_arrived(&lab, 0, 10_000_001);
    Ok(())
}

fn threads_share_a_count() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let report = send(&lab, "--count 100001 --threads 2");
    let threads = report["threads"].as_array().expect("a list");
    assert_eq!(threads.len(), 2);
    assert_eq!(threads.iter().map(|thread| number(thread, "sent")).sum::<u64>(), 100_001);
    assert_ne!(threads[0]["cpu"], threads[1]["cpu"]);
    assert_arrived(&lab, 0, 100_001);
    Ok(())
}

/// The second thread of the second run finds its queue taken. With no end to the run, only that can
/// end it.
fn af_xdp_threads() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let report = send(&lab, "--count 1000 --cpus 1,0 --engine af_xdp");
    assert_eq!(number(&report, "sent"), 1000);
    assert_arrived(&lab, 0, 1000);
    let owner = wirerate_start(&sending(&lab, "--count 0 --pps 100 --cpus 1 --queues 0 --engine af_xdp"));
    until("the queue is taken", || lab.received() > 1000);
    let second = sending(&lab, "--count 0 --pps 1000 --cpus 1,0 --engine af_xdp");
    wirerate_run(&second).says(&["queue 0", "busy"]);
    wirerate_run(&sending(&lab, "--cpus 1,0 --engine af_xdp --queues 0-3"))
        .expect_code(2)
        .says(&["a queue takes one thread", "--queues cpu"]);
    owner.signal(Signal::SIGINT);
    owner.wait(TIME_LIMIT).expect_paced();
    Ok(())
}

/// The bytes that `words` make, by way of a dry run.
fn planned(lab: &Lab, frame_count: usize, words: &str) -> Vec<Vec<u8>> {
    let path = lab.file("plan.pcapng");
    let shown = path.display();
    wirerate_run(&sending(lab, &format!("{words} --dry-run={frame_count} --write {shown}"))).expect_code(0);
    bytes(frames(&path))
}

fn bytes(frames: Vec<Frame>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|frame| frame.bytes).collect()
}

fn same_bytes_as_dry_run() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for words in [
        "--size 60",
        "--size 60-1514 --random size,udp-src --udp-src 1000-40000 --csum",
        "--src 10.0.0.1-10.0.0.7 --udp-dst 20-29 --src-mac 02:00:00:00:01:00-02:00:00:00:01:05 --csum",
        "--dst 198.18.0.0/16 --random dst --vlan 100 --svlan 200",
        "--dst fd00::/112 --src fd00::1 --size 78-200 --csum",
        "--imix 60:7,594:4,1514:1 --tos 0x10",
        "--mpls 16,17,18 --random mpls --udp-src 5-9 --clone 4",
    ] {
        let words = format!("{words} --no-timestamp --seed 11 --count 300");
        let seen = bytes(on_the_wire(&lab, 300, || {
            send(&lab, &words);
        }));
        let planned = planned(&lab, 300, &words);
        assert_eq!(seen.len(), planned.len(), "{words}");
        for (number, (seen, planned)) in seen.iter().zip(&planned).enumerate() {
            assert_eq!(seen, planned, "frame {} of {words}", number + 1);
        }
    }
    Ok(())
}

/// `--flow-len` was for destinations in IPv4 only. Frame i is of flow (i / 3) % 4 by every engine,
/// also in several lengths and when the frames of a call wait for their times.
fn flows_in_rows() -> TestResult {
    const FRAMES: usize = 60;
    let lab = Lab::new(Peer::Gro);
    let ports = |frames: &[Vec<u8>], at: usize| -> Vec<u16> {
        frames.iter().map(|frame| u16::from_be_bytes([frame[at], frame[at + 1]])).collect()
    };
    // GRO keeps the first frames of a TCP flow back, but no SYN.
    for (port_at, words) in [
        (34, "--csum"),
        (34, "--signature full --size 80-90 --src 10.0.0.1-10.0.0.2 --pps 20k"),
        (54, "--dst fd00::2 --src fd00::1-fd00::4 --csum"),
        (34, "--tcp --syn"),
        (54, "--tcp --syn --dst fd00::2 --src fd00::1 --imix 90:7,594:4,1514:1"),
        (84, "--vxlan 42 --size 120 --inner-dst 10.0.0.1-10.0.0.4"),
    ] {
        let words = format!("{words} --flows 4 --flow-len 3 --no-timestamp --seed 5 --count {FRAMES}");
        let planned = planned(&lab, FRAMES, &words);
        for engine in ["xdp", "skb", "af_packet", "af_xdp"] {
            let seen = bytes(on_the_wire(&lab, FRAMES, || {
                wirerate_run(&sending(&lab, &format!("{words} --engine {engine}"))).expect_paced();
            }));
            let ports = ports(&seen, port_at);
            let is_in_row = |frame: usize| ports[frame] == ports[frame / 3 * 3 % 12];
            assert!((0..FRAMES).all(is_in_row), "{engine} {words}: {ports:?}");
            let flows: BTreeSet<u16> = ports[..12].iter().copied().collect();
            assert_eq!(flows.len(), 4, "{engine} {words}: {ports:?}");
            assert!(seen == planned, "{engine} {words}");
        }
    }
    // Each of two threads goes through all flows.
    let words = "--flows 4 --flow-len 3 --threads 2 --count 24";
    let seen = bytes(on_the_wire(&lab, 24, || {
        send(&lab, words);
    }));
    let ports = ports(&seen, 34);
    assert!((1024..1028).all(|port| ports.iter().filter(|seen| **seen == port).count() == 6), "{ports:?}");
    Ok(())
}

fn ranges() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = "--src 10.0.0.1-10.0.0.2 --udp-src 7-7 --udp-dst 20-22 --size 60-63 --csum --count 8";
    on_the_wire(&lab, 8, || {
        send(&lab, words);
    });
    let fields = ["ip.src", "udp.srcport", "udp.dstport", "frame.len", "pktgen.seqnum"];
    let seen = tshark(
        &lab.file("wire.pcapng"),
        "ip.checksum.status == Good and udp.checksum.status == Good",
        &fields,
    );
    let expected = [
        "10.0.0.2 7 21 61 1",
        "10.0.0.1 7 22 62 2",
        "10.0.0.2 7 20 63 3",
        "10.0.0.1 7 21 60 4",
        "10.0.0.2 7 22 61 5",
        "10.0.0.1 7 20 62 6",
        "10.0.0.2 7 21 63 7",
        "10.0.0.1 7 22 60 8",
    ];
    assert_eq!(seen, expected);
    Ok(())
}

fn neighbour_is_found() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let seen = on_the_wire(&lab, 3, || {
        let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count 3", lab.tx_netns);
        wirerate_run(&words).expect_code(0);
    });
    let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    assert!(seen.iter().all(|frame| frame.bytes.starts_with(&header)), "{seen:02x?}");
    Ok(())
}

fn unknown_neighbour() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.99 --count 3", lab.tx_netns);
    let outcome = wirerate_run(&words);
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome:?}");
    outcome.says(&["198.18.0.99", "try:", "--dst-mac"]);
    Ok(())
}

fn deaf_peer() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let outcome = wirerate_run(&sending(&lab, "--engine xdp --count 1000")).expect_code(3);
    outcome.says(&[TX_DEV, "try:", "gro on"]);
    assert_eq!(lab.received(), 0);
    let outcome = wirerate_run(&sending(&lab, "--count 1000")).expect_code(0);
    let report = report(&outcome);
    assert_eq!(report["engine"]["name"], "skb", "{report}");
    assert!(report["engine"]["why"].to_string().contains("not xdp: "), "{report}");
    assert_arrived(&lab, 0, 1000);
    Ok(())
}

fn every_engine() -> TestResult {
    let words = "--size 60-300 --random size,udp-src --udp-src 1000-40000 --csum --no-timestamp --seed 12 --count 300";
    for engine in ["xdp", "skb", "af_packet", "af_xdp"] {
        let lab = Lab::new(Peer::Gro);
        let words = format!("{words} --engine {engine}");
        let seen = bytes(on_the_wire(&lab, 300, || {
            assert_eq!(send(&lab, &words)["engine"]["name"], engine);
        }));
        assert_arrived(&lab, 0, 300);
        assert_eq!(seen, planned(&lab, 300, &words), "{engine}");
    }
    Ok(())
}

fn peer_goes_deaf() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let sender = start(&lab, "--engine xdp --pps 20000 --count 100000");
    lab.set_gro(false);
    let outcome = sender.wait(TIME_LIMIT);
    assert!(matches!(outcome.code, Some(1 | 3)), "{outcome:?}");
    let report = report(&outcome);
    assert!(number(&report, "sent") > 0 && number(&report, "errors") > 0, "{report}");
    assert_arrived(&lab, 0, number(&report, "sent"));
    Ok(())
}

/// Starts an endless or long run and waits until frames arrive.
#[track_caller]
fn start(lab: &Lab, words: &str) -> Running {
    let sender = wirerate_start(&sending(lab, words));
    crate::program::until("the first frame arrives", || lab.received() > 0);
    sender
}

/// Each engine with exactly the capabilities that docs/when-it-does-not-work.md names, and what is
/// sent with one less.
fn fewer_capabilities() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let send = |capabilities: &str| {
        let mut command = in_netns(&lab.tx_netns, "setpriv");
        let bounding = format!("--bounding-set=-all{capabilities}");
        command.args([&bounding, "--inh-caps=-all"]).arg(wirerate().get_program());
        command.args([
            "send",
            TX_DEV,
            "--dst",
            "198.18.0.2",
            "--dst-mac",
            RX_MAC,
            "--count",
            "100",
            "--json",
        ]);
        Running::start(command).wait(TIME_LIMIT)
    };
    let engines = [
        ("xdp", ",+sys_admin,+bpf,+net_admin,+perfmon"),
        ("skb", ",+bpf,+net_admin"),
        ("af_packet", ",+bpf,+net_raw"),
        ("af_packet", ",+net_raw"),
    ];
    for (number, (engine, capabilities)) in (1..).zip(engines) {
        let report = report(&send(capabilities).expect_code(0));
        assert_eq!(report["engine"]["name"], engine, "{capabilities}: {report}");
        assert_eq!(lab.received_at_last(100 * number), 100 * number, "{capabilities}");
    }
    send("").expect_code(3).says(&[
        "no engine can send this",
        "try: run it as root",
        "CAP_PERFMON",
        "CAP_NET_RAW",
    ]);
    Ok(())
}

/// The peer's namespace cannot be entered to ask for its GRO; that was an error of every engine.
fn no_sys_admin() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let send = |netns: &str| {
        let mut command = in_netns(&lab.tx_netns, "setpriv");
        let bounding = "--bounding-set=-all,+bpf,+net_admin,+net_raw,+perfmon";
        command.args([bounding, "--inh-caps=-all"]).arg(wirerate().get_program());
        command.args(["send", TX_DEV, "--dst", "198.18.0.2", "--count", "100", "--json"]);
        command.args(netns.split_whitespace());
        Running::start(command).wait(TIME_LIMIT)
    };
    let report = report(&send("").expect_code(0));
    assert_eq!(report["engine"]["name"], "skb", "{report}");
    assert_arrived(&lab, 0, 100);
    let other = format!("--netns {}", lab.rx_netns);
    send(&other).expect_code(3).says(&["cannot enter namespace", "try: run as root", "CAP_SYS_ADMIN"]);
    Ok(())
}

fn missing_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.tx_netns;
    let to = format!("--dst-mac {RX_MAC} --count 1");
    wirerate_run(&format!("send nosuch0 --netns {netns} {to}"))
        .expect_code(3)
        .says(&["nosuch0", &format!("try: `ip -n {netns} link`")]);
    wirerate_run(&format!("send {TX_DEV} --netns nosuchns {to}")).expect_code(3).says(&["nosuchns"]);
    Ok(())
}

fn link_down() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "down"]);
    wirerate_run(&sending(&lab, "--count 10")).expect_code(3).says(&[TX_DEV, "down", "try:"]);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "up"]);
    // The peer's end down takes the carrier away, which is another thing to say.
    run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "down"]);
    wirerate_run(&sending(&lab, "--count 10")).expect_code(3).says(&[TX_DEV, "try:"]);
    assert_eq!(lab.received(), 0);
    Ok(())
}

fn link_goes_down() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let sender = start(&lab, "--count 0");
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "down"]);
    let outcome = sender.wait(TIME_LIMIT);
    let report = report(&outcome);
    assert_eq!(report["end"], "device_gone", "{report}");
    assert_arrived(&lab, 0, number(&report, "sent"));
    Ok(())
}

fn no_association() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (words, missing) in [
        ("--ipsec --spi 0x100", "256"),
        ("--ipsec --flows 8", "198.18.0.2"),
        ("--tcp --ipsec --spi 0x100", "256"),
        ("--vxlan 42 --ipsec", "198.18.0.2"),
    ] {
        let refused = wirerate_run(&sending(&lab, words)).expect_code(3);
        refused.says(&["no security association", missing, "ip xfrm state add"]);
    }
    let frame = "--frame {eth(),arp()} --ipsec --spi 0x100";
    let refused = wirerate_run(&format!("send {TX_DEV} --netns {} {frame}", lab.tx_netns)).expect_code(2);
    refused.says(&["IPSEC needs an IPv4 header", "packet 1 has none"]);
    assert_eq!(lab.received_at_last(0), 0);
    Ok(())
}

fn no_such_node() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let refused = wirerate_run(&sending(&lab, "--node 1023")).expect_code(3);
    refused.says(&["node 1023", "this machine has node"]);
    assert_eq!(lab.received_at_last(0), 0);
    Ok(())
}

fn wrong_mac() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for wrong in ["02:00:00:00:00", "02:00:00:00:00:0g", "198.18.0.2"] {
        let words = format!("send {TX_DEV} --netns {} --dst-mac {wrong} --count 1", lab.tx_netns);
        wirerate_run(&words).expect_code(2).says(&["--dst-mac", wrong]);
    }
    assert_eq!(lab.received(), 0);
    Ok(())
}

fn mac_of_a_stranger() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!("send {TX_DEV} --netns {} --dst-mac 02:00:00:00:00:99 --count 500", lab.tx_netns);
    wirerate_run(&words).expect_code(0);
    assert_arrived(&lab, 0, 500);
    Ok(())
}

/// `wirerate words` where process 1 is in `netns`, as if it were the namespace of the host.
fn run_on_host(netns: &str, words: &str) -> Outcome {
    let mut command = in_netns(netns, "unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(wirerate().get_program());
    command.args(words.split_whitespace());
    Running::start(command).wait(TIME_LIMIT)
}

fn default_route() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.tx_netns, "route", "add", "default", "via", "198.18.0.2"]);
    let reflect = format!("reflect {TX_DEV}@{} --duration 1ms", lab.tx_netns);
    for (words, frames) in [(&reflect, 0), (&sending(&lab, "--count 10"), 10)] {
        let refused = run_on_host(&lab.tx_netns, words).expect_code(3);
        refused.says(&["it carries the default route of this host", "\n  try: --allow-default-route"]);
        assert_arrived(&lab, 0, 0);
        // A default route of a lab is not that of the host.
        run_on_host(&lab.rx_netns, words).expect_code(0);
        assert_arrived(&lab, 0, frames);
        run_on_host(&lab.tx_netns, &format!("{words} --allow-default-route")).expect_code(0);
        assert_arrived(&lab, 0, 2 * frames);
    }
    Ok(())
}

/// As a port of a bridge, below a macvlan, and as a port of a bridge below a macvlan.
fn beneath_default_route() -> TestResult {
    for above in [
        &["link add top type bridge", "link set tx0 master top"][..],
        &["link add top link tx0 type macvlan"],
        &[
            "link add port type bridge",
            "link set tx0 master port",
            "link set port up",
            "link add top link port type macvlan",
        ],
    ] {
        let lab = Lab::new(Peer::Gro);
        let ip = |words: &str| {
            let words = words.split(' ');
            run(&["ip", "-n", &lab.tx_netns].into_iter().chain(words).collect::<Vec<_>>());
        };
        above.iter().for_each(|words| ip(words));
        send(&lab, "--count 1");
        ip("link set top up");
        ip("addr add 198.18.9.1/24 dev top");
        ip("route add default via 198.18.9.2");
        let words = sending(&lab, "--count 10");
        run_on_host(&lab.tx_netns, &words).expect_code(3).says(&[TX_DEV, "default route"]);
        run_on_host(&lab.rx_netns, &words).expect_code(0);
        let said = run_on_host(&lab.tx_netns, &format!("doctor {TX_DEV}")).expect_code(0);
        assert!(said.stdout.contains("default route"), "{above:?}: {}", said.stdout);
    }
    Ok(())
}

/// No process has it open, so it has no carrier: the kernel would throw the packets away and count
/// them as sent.
fn without_ethernet() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.tx_netns, "tuntap", "add", "dev", "tun7", "mode", "tun"]);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "tun7", "up"]);
    let words = format!("send tun7 --netns {} --dst-mac {RX_MAC} --count 5", lab.tx_netns);
    wirerate_run(&words).expect_code(3).says(&["tun7", "no carrier"]);
    let said = wirerate_run(&format!("doctor tun7 --netns {}", lab.tx_netns)).expect_code(1);
    for words in ["af_packet does", "send gives it the IP packets of its frames"] {
        assert!(said.stdout.contains(words), "{words:?}: {}", said.stdout);
    }
    Ok(())
}

fn ctrl_c() -> TestResult {
    for (signal, after_ms) in [
        (Signal::SIGINT, 0),
        (Signal::SIGINT, 3),
        (Signal::SIGTERM, 41),
        (Signal::SIGINT, 170),
        (Signal::SIGTERM, 333),
    ] {
        let lab = Lab::new(Peer::Gro);
        let sender = start(&lab, "--count 0 --threads 2");
        std::thread::sleep(Duration::from_millis(after_ms));
        sender.signal(signal);
        let outcome = sender.wait(TIME_LIMIT).expect_code(0);
        let report = report(&outcome);
        assert_eq!(report["end"], "stopped", "{signal} after {after_ms} ms: {report}");
        assert_arrived(&lab, 0, number(&report, "sent"));
    }
    // A run with an end that it did not reach, counted or timed.
    for (words, says) in [("--count 100k", " of 100,000\n"), ("--duration 1h", " of 3600 s\n")] {
        let lab = Lab::new(Peer::Gro);
        let sender = wirerate_start(&sending(&lab, &format!("--pps 1k {words}")).replace("--json", ""));
        until("frames arrive", || lab.received() > 10);
        sender.signal(Signal::SIGINT);
        let told = sender.wait(TIME_LIMIT).expect_code(1).stdout;
        assert!(told.contains(", stopped after ") && told.contains(says), "{told}");
        let sender = start(&lab, &format!("--pps 1k {words}"));
        let before = lab.received();
        until("frames arrive", || lab.received() > before);
        sender.signal(Signal::SIGTERM);
        let report = report(&sender.wait(TIME_LIMIT).expect_code(1));
        assert_eq!(report["end"], "stopped", "{report}");
        let asked = (&report["asked_count"], &report["asked_duration_ns"]);
        let expected = match words {
            "--count 100k" => (Value::from(100_000), Value::Null),
            _ => (Value::Null, Value::from(3_600_000_000_000u64)),
        };
        assert_eq!(asked, (&expected.0, &expected.1), "{report}");
    }
    Ok(())
}

fn duration() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let report = send(&lab, "--duration 300ms");
    assert_eq!(report["end"], "duration");
    let duration_ms = number(&report, "duration_ns") / 1_000_000;
    assert!((295..10_000).contains(&duration_ms), "{duration_ms} ms");
    assert_arrived(&lab, 0, number(&report, "sent"));
    Ok(())
}

/// How late a run was at its end, beside what its frames take at that pace; it may never be early.
fn lateness_ns(lab: &Lab, words: &str, count: u64, interval_ns: u64) -> u64 {
    let words = sending(lab, &format!("{words} --count {count}"));
    // Before ordinary threads, of which this machine may have many. A run of 300 ms is not
    // throttled.
    let mut command = Command::new("chrt");
    command.args(["--fifo", "1"]).arg(wirerate().get_program()).args(words.split_whitespace());
    let report = report(&Running::start(command).wait(TIME_LIMIT).expect_paced());
    let due_ns = (count - 1) * interval_ns;
    let duration_ns = number(&report, "duration_ns");
    assert!(duration_ns >= due_ns, "{words}: {duration_ns} ns, too early");
    let gaps = &report["gaps"];
    let octaves = gaps["histogram"].as_array().expect("a list");
    assert_eq!(octaves.iter().map(|octave| number(octave, "count")).sum::<u64>(), count - 1, "{gaps}");
    assert!(number(gaps, "p50_ns") <= number(gaps, "p99_ns"), "{gaps}");
    duration_ns - due_ns
}

/// Deadlines are absolute, so a run that lost its CPU catches up: it is late only by what it lost
/// at its very end. That can be much when the hypervisor takes the CPU away, so one of several runs
/// has to be on time; a pace that drifts never is.
fn pace() -> TestResult {
    const ATTEMPTS: u32 = 20;
    let lab = Lab::new(Peer::Gro);
    for (words, count, interval_ns) in [
        ("--pps 1k", 301, 1_000_000),
        ("--pps 10k", 3_001, 100_000),
        ("--pps 100k", 30_001, 10_000),
        ("--delay 1ms", 301, 1_000_000),
        ("--rate 6.72Mbit", 3_001, 100_000),
        ("--pps 10k --engine skb", 3_001, 100_000),
        ("--pps 10k --engine af_packet", 3_001, 100_000),
        ("--pps 10k --engine af_xdp", 3_001, 100_000),
    ] {
        // A thousandth of the 300 ms that each of these takes.
        let is_on_time = (0..ATTEMPTS).any(|_| lateness_ns(&lab, words, count, interval_ns) <= 300_000);
        assert!(is_on_time, "{words}: late by more than 0.1 %, {ATTEMPTS} times");
    }
    Ok(())
}

fn stopped() -> TestResult {
    const STOP: Duration = Duration::from_secs(1);
    let lab = Lab::new(Peer::Gro);
    // 1.5 s of schedule. After a second without CPU the rest takes 0.75 s at twice the pace.
    let sender = start(&lab, "--pps 20k --count 30000");
    until("it sends", || lab.received() > 100);
    sender.signal(Signal::SIGSTOP);
    std::thread::sleep(STOP);
    sender.signal(Signal::SIGCONT);
    // All frames were sent, but later than asked for.
    let report = report(&sender.wait(TIME_LIMIT).expect_code(1));
    assert_eq!(number(&report, "sent"), 30_000);
    assert_eq!(report["rate_missed"], true, "{report}");
    assert!(report["reached_percent"].as_f64().is_some_and(|percent| percent < 90.0), "{report}");
    assert!(number(&report, "duration_ns") >= 1_740_000_000, "faster than twice its pace: {report}");
    let late = &report["late"];
    assert!(number(late, "times") >= 1 && number(late, "longest_ns") >= 900_000_000, "{report}");
    assert!(number(late, "frames") > 10_000 && number(late, "given_up_ns") == 0, "{report}");
    Ok(())
}

fn out_of_reach() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let report = report(&wirerate_run(&sending(&lab, "--rate 10Tbit --duration 300ms")).expect_code(1));
    assert_eq!((&report["rate_missed"], &report["asked_wire_bps"]), (&true.into(), &1e13.into()), "{report}");
    let text = wirerate_run(&sending(&lab, "--rate 10Tbit --duration 300ms").replace("--json", ""));
    let text = text.expect_code(1).stdout;
    assert!(
        text.contains("asked") && text.contains("10.00 Tbit/s, reached") && text.contains("exit code is 1"),
        "{text}"
    );
    Ok(())
}

/// The columns of rows of `send` and `replay`.
pub(crate) fn csv_header() -> String {
    format!("time,elapsed_s,sent,rate_pps,wire_bps,errors,{}", SendErrors::NAMES.join(","))
}

/// The last row has the totals of the report, and each row a whole second of frames or less.
fn rows() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = sending(&lab, "--pps 1000 --duration 2500ms --every-second");
    let outcome = wirerate_run(&words).expect_paced();
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (report, rows) = lines.split_last().expect("there is a report");
    assert!(rows.len() >= 2 && rows.iter().all(|row| row["schema"] == "wirerate.send-second/2"), "{rows:?}");
    let last = rows.last().expect("there are rows");
    assert_eq!((number(last, "sent"), number(last, "errors")), (number(report, "sent"), 0));
    assert!(rows.windows(2).all(|pair| number(&pair[0], "sent") < number(&pair[1], "sent")), "{rows:?}");
    let outcome = wirerate_run(&words.replace("--json", "--csv"));
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], csv_header());
    let columns = lines[0].split(',').count();
    assert!(lines[1..].iter().all(|line| line.split(',').count() == columns), "{lines:?}");
    assert!(lines.len() >= 3, "{lines:?}");
    outcome.says(&["frames in", "engine"]);
    let text = wirerate_run(&words.replace("--json", "")).stdout;
    assert!(text.starts_with("time  ") && text.contains("pps") && text.contains("offered"), "{text}");
    Ok(())
}

fn quiet() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let quiet = wirerate_run(&sending(&lab, "-q -c 10").replace("--json", "")).expect_code(0);
    assert!(quiet.stdout.contains(": 10 frames in ") && quiet.stderr.is_empty(), "{quiet:?}");
    let report = send(&lab, "-q -c 10");
    assert!(report["start_time"].as_str().is_some_and(|time| time.ends_with('Z')), "{report}");
    assert_eq!(report["argv"][1], "send", "{report}");
    assert!(number(&report, "seed") < 1 << 53, "{report}");
    let one = wirerate_run(&sending(&lab, "-c 1").replace("--json", "")).expect_code(0).stdout;
    assert!(one.contains(": 1 frame in ") && one.lines().all(|line| line.chars().count() <= 160), "{one}");
    Ok(())
}

fn full_queue() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // Space for a few frames, and half a second for all of them.
    let slow = "qdisc replace dev tx0 root tbf rate 800kbit burst 2000 limit 3000";
    run(&[&["ip", "netns", "exec", &lab.tx_netns, "tc"], slow.split(' ').collect::<Vec<_>>().as_slice()]
        .concat());
    for engine in ["skb", "af_packet"] {
        let before = lab.received();
        let report = send(&lab, &format!("--engine {engine} --xmit-mode queue_xmit --count 700"));
        assert_eq!((number(&report, "sent"), number(&report, "errors")), (700, 0), "{report}");
        assert!(number(&report, "retries") > 0, "{report}");
        assert_arrived(&lab, before, 700);
    }
    Ok(())
}

/// A filter behind the stack takes each second frame away, without an error.
fn lost_behind_the_stack() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = "--xmit-mode queue_xmit --count 20k --pps 20k --udp-src 1000-1001";
    let paced = |words: &str| report(&wirerate_run(&sending(&lab, words)).expect_paced());
    for engine in ["skb", "af_packet"] {
        let whole = paced(&format!("{words} --engine {engine}"));
        assert_eq!(number(&whole, "device_counted"), 20_000, "{whole}");
        assert!(!whole["notes"].to_string().contains("counted"), "{whole}");
    }
    let tc = |words: &str| {
        run(&["tc", "-n", &lab.tx_netns].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    };
    tc(&format!("qdisc add dev {TX_DEV} clsact"));
    let odd = "protocol ip u32 match ip sport 1001 0xffff action mirred egress redirect dev lo";
    tc(&format!("filter add dev {TX_DEV} egress {odd}"));
    for engine in ["skb", "af_packet"] {
        let before = lab.received();
        let report = paced(&format!("{words} --engine {engine}"));
        assert_eq!(
            (number(&report, "sent"), number(&report, "device_counted")),
            (20_000, 10_000),
            "{report}"
        );
        assert_arrived(&lab, before, 10_000);
        assert!(report["notes"].to_string().contains("of 20,000 frames that were accepted"), "{report}");
    }
    Ok(())
}

/// The peer empties its ring in a kernel thread, which is slower than the sender. All frames that
/// were asked for are sent, with exit code 0.
fn full_ring() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let threaded = format!("echo 1 > /sys/class/net/{RX_DEV}/threaded");
    run(&["ip", "netns", "exec", &lab.rx_netns, "sh", "-c", &threaded]);
    let before = lab.received();
    let report = send(&lab, "--engine xdp --count 100k");
    assert_eq!((number(&report, "sent"), number(&report, "errors")), (100_000, 0), "{report}");
    assert_eq!(number(&report, "offered"), 100_000, "{report}");
    assert_arrived(&lab, before, 100_000);
    let [retries, replaced] = ["retries", "replaced"].map(|name| number(&report, name));
    assert!(replaced > 0 && retries >= replaced, "{report}");
    let words = sending(&lab, "--engine xdp --count 100k").replace(" --json", "");
    let text = wirerate_run(&words).expect_code(0).stdout;
    assert!(text.contains("times the ring was full and the next frame took the place"), "{text}");
    Ok(())
}

/// The peer is down for half a second. Frames that were due count; the others are sent at their
/// times; sender and receiver say how long it took.
fn goes_on_when_the_link_is_back() -> TestResult {
    for engine in ["skb", "af_packet", "xdp"] {
        let lab = Lab::new(Peer::Gro);
        let link = |state: &str| run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, state]);
        let words = sending(&lab, &format!("--pps 1k -t 3s --engine {engine}"));
        let running = wirerate_start(&format!("{words} --keep-going"));
        until("it sends", || lab.received() > 100);
        link("down");
        std::thread::sleep(Duration::from_millis(500));
        link("up");
        let report = report(&running.wait(TIME_LIMIT).expect_code(1));
        let [offered, sent] = ["offered", "sent"].map(|name| number(&report, name));
        let causes = report["error_causes"].as_array().expect("a list");
        let no_carrier = causes.iter().find(|cause| cause["cause"] == "no_carrier").expect("no carrier");
        let no_carrier = number(no_carrier, "count");
        assert!((400..2_500).contains(&no_carrier), "{report}");
        assert!(sent > 300 && offered == sent + number(&report, "errors"), "{report}");
        let longest_ns = number(&report["interruptions"], "longest_ns");
        assert!((400_000_000..2_600_000_000).contains(&longest_ns), "{report}");
        assert_eq!(number(&report["interruptions"], "times"), 1, "{report}");
        // Without the option such a device ends the run.
        let running = wirerate_start(&words);
        let received = lab.received();
        until("it sends", || lab.received() > received + 100);
        link("down");
        assert_eq!(self::report(&running.wait(TIME_LIMIT).expect_code(1))["end"], "device_gone");
    }
    Ok(())
}
