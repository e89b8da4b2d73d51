//! `--flows N`: exactly N flows, by addresses and ports.
//!
//! Fields with a range are all incremented together, so the frames go through as many flows as the
//! least common multiple of the lengths of the ranges. So each length is a divisor of N.
//!
//! `--flow-len L` holds the values of all addresses and ports for L frames: frame i is of flow
//! (i / L) % N. Over a range of N or more IPv4 destinations it is pktgen's flow table instead.

use super::job::{RandomField, SendJob};
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
fn is_flow_table(job: &SendJob, flows: u32) -> bool {
    let is_random = job.is_random(RandomField::Dst);
    let is_enough = match job.dst {
        Some(Addresses::V6(_)) => false,
        _ if is_random => true,
        Some(dst) => !dst.is_one() && address_count(dst) >= flows.into() && flows <= FLOWS_MAX,
        None => false,
    };
    job.flow_len.is_some() && !job.has_packet_options() && is_enough
}

/// `job` with ranges of addresses and ports that make `--flows N` flows. Source ports vary first,
/// then destination ports; addresses only within ranges of the user. The flows of pktgen's flow
/// table stay as they are; `flows` is `None` for all others.
///
/// # Errors
/// Bad usage if there are fewer combinations, or no N of them; for random fields.
pub fn spread(job: &SendJob) -> Result<Cow<'_, SendJob>, Failure> {
    let Some(flows) = job.flows.filter(|flows| !is_flow_table(job, *flows)).map(u64::from) else {
        return Ok(Cow::Borrowed(job));
    };
    check(job, flows)?;
    let has_ports = !job.arp && job.icmp.is_none();
    let port = |given: Option<Interval<u16>>, is_reserve| match given {
        Some(range) => FlowField { values: port_count(range), is_reserve: false },
        None if has_ports => FlowField { values: port_count(PORTS), is_reserve },
        None => FlowField { values: 1, is_reserve: false },
    };
    let address =
        |range: Option<Addresses>| FlowField { values: range.map_or(1, address_count), is_reserve: false };
    let is_tunnel = job.is_tunnel();
    let (src, dst) = if is_tunnel { (job.inner_src, job.inner_dst) } else { (job.src, job.dst) };
    let fields = [port(job.udp_src, false), port(job.udp_dst, true), address(src), address(dst)];
    let Some([src_ports, dst_ports, sources, targets]) = lengths(flows, fields) else {
        return Err(impossible(flows, fields));
    };
    let mut spread = job.clone();
    // The ranges make the flows from here on.
    spread.flows = None;
    let first = |given: Option<Interval<u16>>| given.unwrap_or(PORTS).first;
    if has_ports {
        spread.udp_src = Some(ports_from(first(job.udp_src), src_ports));
        if job.udp_dst.is_some() || dst_ports > 1 {
            spread.udp_dst = Some(ports_from(first(job.udp_dst), dst_ports));
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

fn check(job: &SendJob, flows: u64) -> Result<(), Failure> {
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
    if let Some((_, name)) = FIELDS.iter().find(|(field, _)| job.is_random(*field)) {
        let why = "random fields make no exact number of flows";
        let failure = Failure::usage(act(&format!("--random {name}")), why);
        let without = format!("--flows {flows}, without --random {name}");
        return Err(match *name {
            "flow" if !job.has_packet_options() => {
                let flow_len = job.flow_len.unwrap_or(1);
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

    #[test]
    fn divisors_are_complete() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(97), [1, 97]);
    }
}
