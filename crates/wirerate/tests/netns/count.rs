//! `wirerate count` and `wirerate sink`: every frame is counted once, and goes on or does not.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Running, TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Tests of the counting commands.
pub(crate) const CASES: &[Case] = &[
    case("count::counts_every_frame_and_lets_it_go_on", &[], counts_every_frame_and_lets_it_go_on),
    case("count::sink_counts_every_frame_and_ends_it", &[], sink_counts_every_frame_and_ends_it),
    case("count::prints_a_line_each_second", &[], prints_a_line_each_second),
    case("count::names_the_program_that_has_the_device", &[], names_the_program_that_has_the_device),
    case("count::takes_jumbo_frames_in_pieces", &["bash"], takes_jumbo_frames_in_pieces),
    case("count::a_filter_tells_the_senders_frames_from_others", &[], a_filter_tells_frames_apart),
    case("count::is_promiscuous_until_it_is_killed", &[], is_promiscuous_until_it_is_killed),
    case("count::ends_when_the_device_goes", &[], ends_when_the_device_goes),
];

fn start(lab: &Lab, words: &str) -> Running {
    let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
    let running = wirerate_start(&format!("{command} {RX_DEV} --netns {} {rest}", lab.rx_netns));
    running.until_it_says("frames of rx0 (XDP, native)");
    running
}

fn send(lab: &Lab, count: u32, more: &str) {
    let before = lab.received();
    let sent = wirerate_run(&format!(
        "send {TX_DEV} --netns {} --dst 198.18.0.2 --count {count} {more}",
        lab.tx_netns
    ));
    sent.expect_code(0);
    assert_eq!(lab.received_at_last(before + u64::from(count)), before + u64::from(count));
}

/// Frames that reached the receiver's IP layer.
fn seen_by_host(lab: &Lab) -> u64 {
    let text = run(&["ip", "netns", "exec", &lab.rx_netns, "cat", "/proc/net/snmp"]);
    let row = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).expect("the numbers of Ip");
    row.split(' ').nth(3).expect("InReceives").parse().expect("a number")
}

#[track_caller]
fn report(text: &str) -> serde_json::Value {
    let last = text.lines().last().expect("there is a report");
    let report: serde_json::Value = serde_json::from_str(last).expect("one line of JSON");
    assert_eq!(report["schema"], "wirerate.count/1", "{text}");
    let cpus = report["cpus"].as_array().expect("CPUs");
    let sum: u64 = cpus.iter().map(|cpu| cpu["received"].as_u64().expect("a number")).sum();
    assert_eq!(report["received"].as_u64(), Some(sum), "{report}");
    report
}

fn counts_every_frame_and_lets_it_go_on() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let before = seen_by_host(&lab);
    let running = start(&lab, "count --count 5000 --json");
    send(&lab, 5000, "--size 60");
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!((report["received"].as_u64(), report["received_bytes"].as_u64()), (Some(5000), Some(300_000)));
    assert_eq!(report["mode"], "mirror");
    until("the host has them all", || seen_by_host(&lab) - before == 5000);
    assert!(!lab.has_xdp());
    Ok(())
}

fn sink_counts_every_frame_and_ends_it() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let before = seen_by_host(&lab);
    let running = start(&lab, "sink --json");
    send(&lab, 100_000, "--size 60");
    running.signal(Signal::SIGINT);
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!(report["received"].as_u64(), Some(100_000));
    assert_eq!(report["mode"], "drop");
    assert_eq!(seen_by_host(&lab), before);
    assert!(!lab.has_xdp());
    Ok(())
}

fn prints_a_line_each_second() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = start(&lab, "count --every-second");
    send(&lab, 1000, "");
    running.until_it_prints("time           received          pps          bit/s\n");
    running.until_it_prints("  1,000        0 pps        0 bit/s\n");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert!(outcome.elapsed > Duration::from_secs(1));
    let unasked = start(&lab, "count --duration 1100ms").wait(TIME_LIMIT).expect_code(0);
    assert!(
        unasked.elapsed >= Duration::from_millis(1100) && !unasked.stdout.contains("time "),
        "{}",
        unasked.stdout
    );
    let line = start(&lab, "count --duration 1100ms --json").wait(TIME_LIMIT).expect_code(0).stdout;
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(outcome.stdout.contains("rx0 in "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(": 1,000 frames received in "), "{}", outcome.stdout);
    Ok(())
}

fn names_the_program_that_has_the_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let first = start(&lab, "sink");
    for (command, more) in [("count", ""), ("sink", ""), ("capture", "--source xdp")] {
        let words = format!("{command} {RX_DEV} --netns {} {more}", lab.rx_netns);
        let second = wirerate_run(&words).expect_code(3);
        second
            .says(&["rx0 already runs the XDP program wr_sink (id ", "\n  try: end the `wirerate count` or"]);
    }
    first.signal(Signal::SIGTERM);
    first.wait(TIME_LIMIT).expect_code(0);
    wirerate_run("count no-such-dev")
        .expect_code(3)
        .says(&["cannot count on no-such-dev: there is no device"]);
    Ok(())
}

/// Neighbour discovery was counted: 10,001 of 10,000 frames arrived.
fn a_filter_tells_frames_apart() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let before = seen_by_host(&lab);
    let running = start(&lab, "sink --json udp dst port 9");
    send(&lab, 300, "--udp-dst 10");
    send(&lab, 200, "");
    until("the host has the others", || seen_by_host(&lab) - before == 300);
    running.signal(Signal::SIGINT);
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!((report["received"].as_u64(), report["filter"].as_str()), (Some(200), Some("udp dst port 9")));
    assert!(report["filtered"].as_u64() >= Some(300), "{report}");
    Ok(())
}

/// Programs that want the device to be promiscuous.
fn promiscuity(lab: &Lab) -> String {
    let text = run(&["ip", "-n", &lab.rx_netns, "-d", "link", "show", "dev", RX_DEV]);
    let after = text.split("promiscuity ").nth(1).expect("ip shows it");
    after.split(' ').next().unwrap_or_default().to_owned()
}

/// A capture on a mirror port missed all frames for other addresses.
fn is_promiscuous_until_it_is_killed() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (words, how) in [
        ("count", Signal::SIGINT),
        ("sink", Signal::SIGKILL),
        ("capture", Signal::SIGINT),
        ("capture --source tpacket", Signal::SIGKILL),
    ] {
        assert_eq!(promiscuity(&lab), "0", "before {words}");
        let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
        let running = wirerate_start(&format!("{command} {RX_DEV} --netns {} {rest}", lab.rx_netns));
        running.until_it_says("rx0 (");
        assert_eq!(promiscuity(&lab), "1", "{words}");
        running.signal(how);
        until("it is over", || promiscuity(&lab) == "0");
        drop(running);
        let running = wirerate_start(&format!("{command} {RX_DEV} --netns {} -p {rest}", lab.rx_netns));
        running.until_it_says("rx0 (");
        assert_eq!(promiscuity(&lab), "0", "{words} -p");
        running.signal(Signal::SIGINT);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert!(outcome.stdout.contains("mode, not promiscuous"), "{}", outcome.stdout);
    }
    Ok(())
}

/// Above one page a veth takes only programs that know frames in pieces.
fn takes_jumbo_frames_in_pieces() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (netns, dev) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        run(&["ip", "-n", netns, "link", "set", "dev", dev, "mtu", "9000"]);
    }
    let running = start(&lab, "count --count 3 --json");
    let big = "for i in 1 2 3; do dd if=/dev/zero bs=8000 count=1 status=none > /dev/udp/198.18.0.2/9; done";
    run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", big]);
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!(report["received_bytes"].as_u64(), Some(3 * (8000 + 8 + 20 + 14)));
    Ok(())
}

fn ends_when_the_device_goes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = start(&lab, "count");
    run(&["ip", "-n", &lab.rx_netns, "link", "delete", RX_DEV]);
    running.wait(TIME_LIMIT).expect_code(1).says(&["rx0 went away"]);
    Ok(())
}
