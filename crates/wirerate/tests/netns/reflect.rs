//! `wirerate reflect`: round trips between a sender and a device that sends the frames back.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Running, TIME_LIMIT, run, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Tests of the reflector.
pub(crate) const CASES: &[Case] = &[
    case("reflect::round_trips_are_measured_by_the_sender", &[], round_trips_are_measured),
    case("reflect::frames_that_the_peer_drops_are_not_sent", &[], dropped_frames_are_not_sent),
    case("reflect::without_a_reflector_icmp_errors_are_no_round_trips", &[], no_reflector),
    case("reflect::a_missing_device_is_refused", &[], missing_device),
];

fn reflect(lab: &Lab, more: &str) -> Running {
    let running = wirerate_start(&format!("reflect {RX_DEV} --netns {} --json {more}", lab.rx_netns));
    running.until_it_says("reflecting frames of rx0 (XDP, native)");
    running
}

#[track_caller]
fn report(text: &str) -> Value {
    let report: Value = serde_json::from_str(text.lines().last().expect("a report")).expect("JSON");
    assert_eq!(report["broken"].as_array().map(Vec::len), Some(0), "{report}");
    report
}

/// Each level of the signature; the sender and the reflector count the same.
fn round_trips_are_measured() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let tx = &lab.tx_netns;
    for (frames, flows) in [("--size 74 --udp-dst 1-8 --udp-checksum", 8), ("--size 64 --vlan 5", 1)] {
        let reflector = reflect(&lab, "--round-trip 1s --sent 20k");
        let words = format!(
            "measure --tx {TX_DEV}@{tx} --rx {TX_DEV}@{tx} --json --expect lost=0 -- \
             --dst 198.18.0.2 --count 20k --pps 100k --engine xdp {frames}"
        );
        let back = report(&wirerate_run(&words).expect_paced().stdout);
        reflector.signal(Signal::SIGINT);
        let there = report(&reflector.wait(TIME_LIMIT).expect_code(0).stdout);
        for report in [&there, &back] {
            for (name, count) in [("unique", 20_000), ("duplicate", 0), ("reordered", 0), ("flows", flows)] {
                assert_eq!(report[name], count, "{name}: {report}");
            }
            assert_eq!((&report["loss"]["lost_max"], &report["stamped"]), (&0.into(), &20_000.into()));
        }
        assert_eq!((&there["mode"], &back["is_round_trip"]), (&"reflect".into(), &true.into()));
        assert_eq!(there["reflected"]["frames"], 20_000);
        assert_eq!(there["reflected"]["not_sent"], 0);
        // One host has one clock: the way there is a part of the round trip, as far as the
        // stamps, which several frames share, tell.
        let forward_ns = there["reflected"]["forward_min_ns"].as_i64().expect("frames have times");
        let round_trip_ns = back["latency"]["min_ns"].as_i64().expect("frames have times");
        assert!((-1000..=round_trip_ns + 1000).contains(&forward_ns), "{forward_ns}, {round_trip_ns}");
        let bounds = there["reflected"]["clock_ahead_ns"].as_array().expect("a round trip was given");
        assert_eq!(bounds[..], [Value::from(forward_ns - 1_000_000_000), Value::from(forward_ns)]);
    }
    assert!(!lab.has_xdp());
    Ok(())
}

/// The host at the other end answers with ICMP errors that quote the frames.
fn no_reflector() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let tx = &lab.tx_netns;
    let words = format!(
        "measure --tx {TX_DEV}@{tx} --rx {TX_DEV}@{tx} --dst 198.18.0.2 --src 198.18.0.1 --count 3 --pps 10"
    );
    let outcome = wirerate_run(&words).expect_code(1);
    for words in [
        "unique       0  0 flows",
        "icmp errors  3  port unreachable, from 198.18.0.2: start `wirerate reflect` at that host",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("round trip"), "{}", outcome.stdout);
    Ok(())
}

/// A veth peer without NAPI drops all that XDP sends, and the reflector says so.
fn dropped_frames_are_not_sent() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let tx = &lab.tx_netns;
    run(&["ip", "netns", "exec", tx, "ethtool", "-K", TX_DEV, "gro", "off"]);
    let reflector = reflect(&lab, "--count 1000");
    wirerate_run(&format!(
        "send {TX_DEV} --netns {tx} --dst 198.18.0.2 --count 1000 --pps 10k --catch-up 1 --engine af_packet"
    ));
    let report = report(&reflector.wait(TIME_LIMIT).expect_code(1).stdout);
    assert_eq!((&report["unique"], &report["reflected"]["frames"]), (&1000.into(), &1000.into()));
    assert_eq!(report["reflected"]["not_sent"], 1000);
    Ok(())
}

fn missing_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let rx = &lab.rx_netns;
    wirerate_run(&format!("reflect no-dev --netns {rx}")).expect_code(3).says(&["there is no device no-dev"]);
    Ok(())
}
