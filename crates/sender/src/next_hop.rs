//! The destination MAC address: which neighbour is asked for it, and what to try without an answer.
//!
//! Frames to a range have one MAC address, as in pktgen: that of the router, or of the first host
//! of the range that answers.

use super::config;
use super::device::TxDevice;
use super::job::SendJob;
use anyhow::anyhow;
use facts::Described;
use host::{Address, HostError};
use packet::{Config, MacAddr, XmitMode};
use program::outcome::Failure;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use units::{Addresses, Interval};

/// Hosts of a range that are asked, all at once.
const HOSTS_MAX: usize = 64;
/// Timeout for address resolution: two ARP requests.
const RESOLVE_TIMEOUT: Duration = Duration::from_millis(1500);
/// A MAC address for examples.
const EXAMPLE: &str = "02:00:00:00:00:01";

/// A MAC address and the neighbour that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct NextHopMac {
    /// IP address of a router, or of a destination on the link.
    pub ip: IpAddr,
    /// Its MAC address.
    #[fact(kind = Kind::Text)]
    #[serde(serialize_with = "as_text")]
    pub mac: MacAddr,
}

impl fmt::Display for NextHopMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.ip, self.mac)
    }
}

fn as_text<S: Serializer>(mac: &MacAddr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

/// Fills in the MAC address for the frames of `job`, unless the configuration has one, and returns
/// whose it is.
///
/// # Errors
/// Refused when it is unknown, with the command to set it.
pub fn of_job(job: &SendJob, device: &TxDevice, config: &mut Config) -> Result<Option<NextHopMac>, Failure> {
    if config.xmit_mode == XmitMode::NetifReceive && config.dst_mac.is_zero() {
        // The receive path drops frames for other MAC addresses.
        config.dst_mac = device.facts.mac;
    }
    fill_in(device, config, &config::destinations(job), true)
}

/// Fills in the MAC address of the next hop to `to`, unless the configuration has one, and returns
/// whose it is. `may_ask` allows ARP or ND requests.
///
/// # Errors
/// Refused when it is unknown, with the command to set it.
pub fn fill_in(
    device: &TxDevice,
    config: &mut Config,
    to: &Addresses,
    may_ask: bool,
) -> Result<Option<NextHopMac>, Failure> {
    // MAC addresses have no meaning on these devices.
    let has_none = device.link.is_loopback() || device.takes_ip_packets();
    if !config.dst_mac.is_zero() || has_none {
        return Ok(None);
    }
    let found = resolve(device, to, may_ask)?;
    config.dst_mac = found.mac;
    Ok(Some(found))
}

/// The MAC address for frames to `to`. `may_ask` allows ARP or ND requests; without it, only the
/// neighbour table counts.
///
/// # Errors
/// Refused without a host in the range, without a route, or without an answer.
fn resolve(device: &TxDevice, to: &Addresses, may_ask: bool) -> Result<NextHopMac, Failure> {
    let act = || format!("send to {to} on {}", device.link.name);
    let failed = |why| Failure::host(act(), why);
    let own = device.stack.addresses(&device.link).map_err(failed)?;
    let hosts = hosts(to, &own);
    if hosts.is_empty() {
        let why = anyhow!("{to} is the address of {} itself", device.link.name);
        return Err(Failure::refused(act(), why).try_this(given_mac()));
    }
    let routed = routed(device, &hosts).map_err(failed)?;
    let Some(first) = routed.first() else { return Err(no_route(device, act(), hosts[0])) };
    let hop = device.stack.next_hop(&device.link, *first).map_err(failed)?.ip;
    let asked = if hop == *first { routed } else { vec![hop] };
    let found = match may_ask {
        true => device.stack.resolve_first_neighbour(&device.link, &asked, RESOLVE_TIMEOUT),
        false => known(device, &asked),
    };
    match found.map_err(failed)? {
        Some((ip, mac)) => Ok(NextHopMac { mac, ip }),
        None => Err(no_answer(device, act(), &asked, to)),
    }
}

/// The first of `ips` in the neighbour table.
fn known(device: &TxDevice, ips: &[IpAddr]) -> Result<Option<(IpAddr, MacAddr)>, HostError> {
    for ip in ips {
        if let Some(mac) = device.stack.neighbour(&device.link, *ip)? {
            return Ok(Some((*ip, mac)));
        }
    }
    Ok(None)
}

/// Those of `hosts` that can be reached: by a route, as multicast or broadcast, or because the
/// neighbour table has them.
fn routed(device: &TxDevice, hosts: &[IpAddr]) -> Result<Vec<IpAddr>, HostError> {
    let mut routed = Vec::new();
    for ip in hosts {
        let needs_none = ip.is_multicast() || *ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        if needs_none
            || device.stack.has_route(&device.link, *ip)?
            || device.stack.neighbour(&device.link, *ip)?.is_some()
        {
            routed.push(*ip);
        }
    }
    Ok(routed)
}

/// The first addresses of `range` that other hosts may have: not those of the device, and in a
/// range not the network and broadcast addresses of its networks.
fn hosts(range: &Addresses, own: &[Address]) -> Vec<IpAddr> {
    let is_own = |ip: &IpAddr| own.iter().any(|address| address.ip == *ip);
    let is_edge = |ip: &IpAddr| own.iter().any(|address| is_edge(*ip, address));
    let all: Box<dyn Iterator<Item = IpAddr>> = match *range {
        Addresses::V4(Interval { first, last }) => {
            Box::new((first.to_bits()..=last.to_bits()).map(|bits| Ipv4Addr::from_bits(bits).into()))
        }
        Addresses::V6(Interval { first, last }) => {
            Box::new((first.to_bits()..=last.to_bits()).map(|bits| Ipv6Addr::from_bits(bits).into()))
        }
    };
    let is_range = !range.is_one();
    all.filter(|ip| !(is_own(ip) || is_range && is_edge(ip))).take(HOSTS_MAX).collect()
}

/// True for the first and the last address of an IPv4 network, and the first of an IPv6 network
/// (that of all routers).
fn is_edge(ip: IpAddr, address: &Address) -> bool {
    match (ip, address.ip) {
        (IpAddr::V4(ip), IpAddr::V4(own)) if address.prefix_len < 31 => {
            let hosts = u32::MAX >> address.prefix_len;
            let network = own.to_bits() & !hosts;
            ip.to_bits() == network || ip.to_bits() == network | hosts
        }
        (IpAddr::V6(ip), IpAddr::V6(own)) if address.prefix_len < 127 => {
            let hosts = u128::MAX >> address.prefix_len;
            ip.to_bits() == own.to_bits() & !hosts
        }
        _ => false,
    }
}

fn given_mac() -> String {
    format!("--dst-mac {EXAMPLE} (the MAC address of the receiver)")
}

fn no_route(device: &TxDevice, act: String, ip: IpAddr) -> Failure {
    let ifname = &device.link.name;
    let why = anyhow!("there is no route to {ip} by {ifname} in {}", device.netns);
    let add = device.command_place().ip(&format!("route add {ip} dev {ifname}"));
    Failure::refused(act, why)
        .try_this(format!("{add} (if {ip} is on the link)"))
        .try_this(given_mac() + ", which needs no route")
}

fn no_answer(device: &TxDevice, act: String, asked: &[IpAddr], to: &Addresses) -> Failure {
    let (ip, last) = (asked[0], asked[asked.len() - 1]);
    let protocol = if ip.is_ipv4() { "ARP" } else { "neighbour discovery" };
    let why = match asked.len() {
        1 => {
            let to = to.first();
            let role = if to == ip { String::new() } else { format!(" (the next hop to {to})") };
            anyhow!("the MAC address of {ip}{role} is unknown: it does not answer {protocol}")
        }
        count => anyhow!("none of {count} hosts, {ip} to {last}, answers {protocol}"),
    };
    let add = format!("neighbour replace {ip} lladdr {EXAMPLE} dev {}", device.link.name);
    Failure::refused(act, why).try_this(given_mac()).try_this(device.command_place().ip(&add))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(ip: &str, prefix_len: u8) -> Address {
        Address::new(ip.parse().unwrap(), prefix_len)
    }

    fn first_hosts(range: &str, own: &[Address]) -> Vec<String> {
        hosts(&range.parse().unwrap(), own).iter().take(2).map(ToString::to_string).collect()
    }

    #[test]
    fn the_network_and_the_own_address_are_not_asked_for_their_mac() {
        let own = [own("198.18.0.1", 24), own("fd00:18::1", 64)];
        for (range, expected) in [
            ("198.18.0.0/16", &["198.18.0.2", "198.18.0.3"][..]),
            ("198.18.0.1-198.18.0.5", &["198.18.0.2", "198.18.0.3"]),
            ("198.18.0.254-198.18.1.9", &["198.18.0.254", "198.18.1.0"]),
            ("fd00:18::/64", &["fd00:18::2", "fd00:18::3"]),
            ("fd00:99::/64", &["fd00:99::", "fd00:99::1"]),
            ("198.18.0.0", &["198.18.0.0"]),
            ("198.18.0.1", &[]),
        ] {
            assert_eq!(first_hosts(range, &own), expected, "{range}");
        }
        assert_eq!(hosts(&"10.0.0.0/8".parse().unwrap(), &own).len(), HOSTS_MAX);
    }
}
