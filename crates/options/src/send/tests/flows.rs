//! Options of `send`: flows.

use super::job_of;
use program::outcome::Failure;
use sender::SendJob;
use sender::flows::*;
use std::borrow::Cow;
use std::collections::HashSet;
use units::{Addresses, Interval};

fn address_count(range: Addresses) -> u64 {
    match range {
        Addresses::V4(range) => u64::from(range.last.to_bits() - range.first.to_bits()) + 1,
        Addresses::V6(range) => (range.last.to_bits() - range.first.to_bits()) as u64 + 1,
    }
}

fn port_count(ports: Interval<u16>) -> u64 {
    u64::from(ports.last - ports.first) + 1
}

fn spread_of(words: &str) -> Result<SendJob, Failure> {
    let args = job_of(format!("veth0 --dst-mac 02:00:00:00:00:01 {words}"));
    spread(&args).map(Cow::into_owned)
}

/// The different flows of enough frames.
fn count(words: &str) -> usize {
    let args = spread_of(words).unwrap_or_else(|why| panic!("{words}: {why}"));
    let [src, dst] = [args.src, args.dst].map(|range| range.map_or(1, address_count));
    let [src_ports, dst_ports] = [args.udp_src, args.udp_dst].map(|range| range.map_or(1, port_count));
    let flow = |n: u64| (n % src, n % dst, n % src_ports, n % dst_ports);
    (0..300_000).map(flow).collect::<HashSet<_>>().len()
}

/// `--flows 10000` made one flow, or as many as there are addresses.
#[test]
fn there_are_exactly_as_many_flows() {
    for (words, flows) in [
        ("--flows 1", 1),
        ("--dst 198.18.0.2 --flows 10000", 10_000),
        ("--dst 198.18.0.0/16 --flows 10000", 10_000),
        ("--dst 198.18.0.0/24 --flows 1000", 1000),
        ("--src 10.0.0.1-10.0.0.10 --flows 100", 100),
        ("--src 10.0.0.0/24 --flows 997", 997),
        ("--flows 64000", 64_000),
        ("--flows 100000", 100_000),
        ("--flows 65536 --src 10.0.0.0/16", 65_536),
        ("--udp-src 5000 --flows 77", 77),
        ("--udp-src 5000-5009 --flows 70", 70),
        ("--udp-dst 80 --flows 300", 300),
        ("--tcp --flows 300", 300),
        ("--icmp echo --src 10.0.0.0/24 --flows 200", 200),
        ("--flows 1000 --flow-len 3", 1000),
        ("--dst 198.18.0.0/24 --flows 1000 --flow-len 3", 1000),
        ("--dst fd00::/112 --flows 100 --flow-len 3", 100),
        ("--dst 198.18.0.0/16 --tcp --flows 100 --flow-len 3", 100),
        ("--dst 198.0.0.0/8 --flows 100000 --flow-len 3", 100_000),
    ] {
        assert_eq!(count(words), flows, "{words}");
    }
    let args = spread_of("--flows 1000").unwrap();
    assert_eq!(args.udp_src.unwrap().to_string(), "1024-2023");
    assert_eq!((args.udp_dst, args.src), (None, None));
    let held = spread_of("--flows 9 --flow-len 2 --dst 10.0.0.0/29").unwrap();
    assert_eq!((held.udp_src.unwrap().to_string().as_str(), held.flows), ("1024-1032", None));
    assert_eq!(held.flow_len, Some(2));
}

#[test]
fn fewer_combinations_are_bad_usage() {
    for (words, why) in [
        ("--udp-src 5 --udp-dst 6 --flows 2", "have 1 combination only\n  try: --flows 1\n"),
        ("--icmp echo --flows 2", "have 1 combination only"),
        ("--udp-src 1-10 --udp-dst 9 --flows 11", "have 10 combinations only\n  try: --flows 10\n"),
        ("--flows 65537", "no lengths of their ranges make this number\n  try: --flows 65535\n"),
        ("--flows 10 --random udp-src --udp-src 1-9", "without --random udp-src"),
        ("--flows 10 --random flow", "try: --dst 198.18.0.0/16 --flows 10 --flow-len 1 (each"),
        ("--flows 10 --flow-len 3 --random flow", "--flows 10 --flow-len 3 (each flow is a destination)"),
        (
            "--flows 10 --flow-len 3 --random flow --tcp",
            "make no exact number of flows\n  try: --flows 10, w",
        ),
        ("--flows 10 --flow-len 3 --random dst --dst fd00::/64", "without --random dst"),
    ] {
        let refusal = spread_of(words).unwrap_err().to_string();
        assert!(refusal.contains(why), "{words}: {refusal}");
    }
}

/// These frames are pktgen's, bit by bit.
#[test]
fn a_range_of_ipv4_destinations_is_the_flow_table() {
    for words in [
        "--flows 8 --flow-len 2 --dst 10.0.0.0/29",
        "--flows 8 --flow-len 2 --dst 10.0.0.0/24 --random flow --udp-src 5-9",
        "--flows 300 --flow-len 2 --dst 10.0.0.0/24 --random dst",
    ] {
        let args = spread_of(words).unwrap();
        assert_eq!((args.flows.is_some(), args.flow_len), (true, Some(2)), "{words}");
        assert_ne!(args.udp_src.map(|ports| ports.first), Some(1024), "{words}");
    }
}
