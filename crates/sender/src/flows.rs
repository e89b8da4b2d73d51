//! `--flows N`: exactly N flows, by addresses and ports.
//!
//! Fields with a range are all incremented together, so the frames go through as many flows as the
//! least common multiple of the lengths of the ranges. So each length is a divisor of N.
//!
//! `--flow-len L` holds the values of all addresses and ports for L frames: frame i is of flow
//! (i / L) % N. Over a range of N or more IPv4 destinations it is pktgen's flow table instead.

use super::args::{Args, RandomField};
use packet::FLOWS_MAX;
use program::outcome::Failure;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use units::{Addresses, Interval, quantity_of};

/// Ports of flows, unless the user gives others.
const PORTS: Interval<u16> = Interval { first: 1024, last: 65_023 };

/// A field of a flow: its values, and whether it may vary where the user gave one value only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowField {
    /// Number of values.
    values: u64,
    /// True if it stays at one value where the others are enough.
    is_reserve: bool,
}

/// True if `--flows N --flow-len L` are pktgen's flow table, in which each flow is a destination:
/// for pktgen's frames to N or more IPv4 addresses, or to random ones.
fn is_flow_table(args: &Args, flows: u32) -> bool {
    let is_random = args.is_random(RandomField::Dst);
    let is_enough = match args.dst {
        Some(Addresses::V6(_)) => false,
        _ if is_random => true,
        Some(dst) => !dst.is_one() && address_count(dst) >= flows.into() && flows <= FLOWS_MAX,
        None => false,
    };
    args.flow_len.is_some() && !args.has_packet_options() && is_enough
}

/// `args` with ranges of addresses and ports that make `--flows N` flows. Source ports vary first,
/// then destination ports; addresses only within ranges of the user. The flows of pktgen's flow
/// table stay as they are; `flows` is `None` for all others.
///
/// # Errors
/// Bad usage if there are fewer combinations, or no N of them; for random fields.
pub fn spread(args: &Args) -> Result<Cow<'_, Args>, Failure> {
    let Some(flows) = args.flows.filter(|flows| !is_flow_table(args, *flows)).map(u64::from) else {
        return Ok(Cow::Borrowed(args));
    };
    check(args, flows)?;
    let has_ports = !args.arp && args.icmp.is_none();
    let port = |given: Option<Interval<u16>>, is_reserve| match given {
        Some(range) => FlowField { values: port_count(range), is_reserve: false },
        None if has_ports => FlowField { values: port_count(PORTS), is_reserve },
        None => FlowField { values: 1, is_reserve: false },
    };
    let address =
        |range: Option<Addresses>| FlowField { values: range.map_or(1, address_count), is_reserve: false };
    let is_tunnel = args.is_tunnel();
    let (src, dst) = if is_tunnel { (args.inner_src, args.inner_dst) } else { (args.src, args.dst) };
    let fields = [port(args.udp_src, false), port(args.udp_dst, true), address(src), address(dst)];
    let Some([src_ports, dst_ports, sources, targets]) = lengths(flows, fields) else {
        return Err(impossible(flows, fields));
    };
    let mut spread = args.clone();
    // The ranges make the flows from here on.
    spread.flows = None;
    let first = |given: Option<Interval<u16>>| given.unwrap_or(PORTS).first;
    if has_ports {
        spread.udp_src = Some(ports_from(first(args.udp_src), src_ports));
        if args.udp_dst.is_some() || dst_ports > 1 {
            spread.udp_dst = Some(ports_from(first(args.udp_dst), dst_ports));
        }
    }
    let (src, dst) =
        (src.map(|range| addresses_from(range, sources)), dst.map(|range| addresses_from(range, targets)));
    match is_tunnel {
        true => (spread.inner_src, spread.inner_dst) = (src, dst),
        false => (spread.src, spread.dst) = (src, dst),
    }
    Ok(Cow::Owned(spread))
}

fn check(args: &Args, flows: u64) -> Result<(), Failure> {
    const FIELDS: [(RandomField, &str); 7] = [
        (RandomField::Dst, "dst"),
        (RandomField::Src, "src"),
        (RandomField::UdpDst, "udp-dst"),
        (RandomField::UdpSrc, "udp-src"),
        (RandomField::InnerDst, "inner-dst"),
        (RandomField::InnerSrc, "inner-src"),
        (RandomField::Flow, "flow"),
    ];
    let act = |other: &str| format!("use --flows {flows} with {other}");
    if let Some((_, name)) = FIELDS.iter().find(|(field, _)| args.is_random(*field)) {
        let why = "random fields make no exact number of flows";
        let failure = Failure::usage(act(&format!("--random {name}")), why);
        let without = format!("--flows {flows}, without --random {name}");
        return Err(match *name {
            "flow" if !args.has_packet_options() => {
                let flow_len = args.flow_len.unwrap_or(1);
                let table = format!("--dst 198.18.0.0/16 --flows {flows} --flow-len {flow_len}");
                failure.try_this(format!("{table} (each flow is a destination)")).try_this(without)
            }
            _ => failure.try_this(without),
        });
    }
    Ok(())
}

fn port_count(ports: Interval<u16>) -> u64 {
    u64::from(ports.last) - u64::from(ports.first) + 1
}

fn address_count(addresses: Addresses) -> u64 {
    match addresses {
        Addresses::V4(range) => u64::from(range.last.to_bits()) - u64::from(range.first.to_bits()) + 1,
        Addresses::V6(range) => {
            u64::try_from(range.last.to_bits() - range.first.to_bits()).unwrap_or(u64::MAX).saturating_add(1)
        }
    }
}

/// `count` ports from `first` on.
fn ports_from(first: u16, count: u64) -> Interval<u16> {
    Interval { first, last: first + (count - 1) as u16 }
}

/// The first `count` of `range`.
fn addresses_from(range: Addresses, count: u64) -> Addresses {
    match range {
        Addresses::V4(range) => {
            let last = Ipv4Addr::from_bits(range.first.to_bits() + (count - 1) as u32);
            Addresses::V4(Interval { first: range.first, last })
        }
        Addresses::V6(range) => {
            let last = Ipv6Addr::from_bits(range.first.to_bits() + u128::from(count - 1));
            Addresses::V6(Interval { first: range.first, last })
        }
    }
}

/// A number of values of each field, whose least common multiple is `flows`; `None` if there are no
/// such numbers. The first field has as many as possible.
fn lengths(flows: u64, fields: [FlowField; 4]) -> Option<[u64; 4]> {
    let divisors = divisors(flows);
    let largest = |max: u64| *divisors.iter().rfind(|divisor| **divisor <= max).expect("1 is a divisor");
    let others = fields.map(|field| if field.is_reserve { 1 } else { largest(field.values) });
    for first in divisors.iter().rev().copied().filter(|divisor| *divisor <= fields[0].values) {
        let mut counts = [first, others[1], others[2], others[3]];
        let reached = counts.into_iter().fold(1, least_multiple);
        if reached == flows {
            return Some(counts);
        }
        // The smallest number whose least common multiple with the others is the number of flows.
        let reserve = fields.iter().position(|field| field.is_reserve)?;
        let missing = divisors.iter().find(|divisor| least_multiple(reached, **divisor) == flows)?;
        if *missing <= fields[reserve].values {
            counts[reserve] = *missing;
            return Some(counts);
        }
    }
    None
}

/// All divisors of `number`, in rising order.
fn divisors(number: u64) -> Vec<u64> {
    let small = (1..).take_while(|divisor| divisor * divisor <= number);
    let small: Vec<u64> = small.filter(|divisor| number.is_multiple_of(*divisor)).collect();
    let large = small.iter().rev().map(|divisor| number / divisor).filter(|large| large * large > number);
    let large: Vec<u64> = large.collect();
    [small, large].concat()
}

/// The greatest common divisor.
pub(super) fn greatest_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}

fn least_multiple(one: u64, other: u64) -> u64 {
    one / greatest_divisor(one, other) * other
}

fn impossible(flows: u64, fields: [FlowField; 4]) -> Failure {
    let most = fields.iter().fold(1u64, |most, field| most.saturating_mul(field.values));
    let act = format!("send {flows} flows");
    let nearest = (1..=flows.min(most)).rev().find(|count| lengths(*count, fields).is_some()).unwrap_or(1);
    let failure = match most < flows {
        true => Failure::usage(
            act,
            format!("the addresses and ports have {} only", quantity_of(most, "combination")),
        ),
        false => Failure::usage(
            act,
            "fields change together with each frame, and no lengths of their ranges make this number",
        ),
    };
    failure.try_this(format!("--flows {nearest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;
    use std::collections::HashSet;

    fn spread_of(words: &str) -> Result<Args, Failure> {
        let args: Args = args_of(&format!("veth0 --dst-mac 02:00:00:00:00:01 {words}")).unwrap();
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
            assert_ne!(args.udp_src.map(|ports| ports.first), Some(PORTS.first), "{words}");
        }
    }

    #[test]
    fn divisors_are_complete() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(97), [1, 97]);
    }
}
