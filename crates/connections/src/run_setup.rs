//! From the arguments to a run: addresses, limits, pace, and what must not be done.

use super::Args;
use super::request::Conversation;
use crate::args::{CONNECTIONS_MAX, Target, check_targets, count_of, targets_text};
use anyhow::anyhow;
use connect::ServerRange;
use engine::{ConnectKind, ConnectRequest, Pace};
use packet::{Arrivals, Config};
use program::outcome::Failure;
use program::rate_options::frame_rate;
use sender::device::TxDevice;
use sender::next_hop::{self, NextHopMac};
use std::net::IpAddr;
use units::{Addresses, Interval, Nanos, human_count};

/// Entries of the table at least, so that a port rests for a while before it is used again.
const ENTRIES_MIN: u128 = 1 << 16;
/// Connections at all times without an option.
const OPEN_DEFAULT: u64 = 64;
const TIMEOUT_NS: u64 = 30_000_000_000;
const DATAGRAM_TIMEOUT_NS: u64 = 5_000_000_000;
/// Times of connections wrap after 18 minutes.
const TIMEOUT_MAX_NS: u64 = 300_000_000_000;
/// New connections per second to servers behind a router, without `--allow-routed`.
const ROUTED_MAX_CPS: f64 = 100_000.0;
const FIRST_PORT: u16 = 1024;

/// A run that is ready to start.
#[derive(Debug)]
pub struct Setup {
    /// What the engine is asked for.
    pub request: ConnectRequest,
    /// Of each range of servers whose MAC address was not given.
    pub next_hops: Vec<NextHopMac>,
    /// Connections that can be open at a time with these addresses and ports.
    pub possible: u128,
}

impl Setup {
    /// Finds the device, and turns the options into a run.
    ///
    /// # Errors
    /// Bad usage, or refused by the host or the device.
    pub fn of(args: &Args) -> Result<Self, Failure> {
        let act = || format!("connect by {}", args.device);
        let device =
            TxDevice::find(args.netns.as_deref(), &args.device).map_err(|why| Failure::host(act(), why))?;
        if !args.allow_default_route {
            device.spare_default_route()?;
        }
        device.check_state(true)?;
        check_targets(&args.dst)?;
        check_sources(args, &device)?;
        let conversation = Conversation::of(args, device.link.mtu)?;
        let timeout_ns = timeout(args, conversation.kind)?;
        let addresses = addresses(args, timeout_ns)?;
        let per_client = args.open_per_client.map_or(u128::MAX, u128::from);
        let possible = addresses.connections().min(per_client.saturating_mul(addresses.client_count.into()));
        let open_max = open_max(args);
        if open_max == 0 {
            return Err(
                Failure::usage("keep 0 connections open", "none would ever be opened").try_this("--open 1")
            );
        }
        if u128::from(open_max) > possible && open_max != u64::MAX {
            let limit = args.open_per_client.map_or("", |_| " with --open-per-client");
            let why = format!("these addresses and ports allow {}{limit}", human_count(possible as u64));
            return Err(Failure::usage(format!("keep {} connections open", human_count(open_max)), why)
                .try_this("more addresses in --src, such as a prefix of 20 bits, or more ports in --dst"));
        }
        let (next_hops, next_hop_macs) = next_hops(args, &device)?;
        check_routed(args, &device)?;
        let own_mac = device
            .link
            .mac
            .ok_or_else(|| Failure::refused(act(), anyhow!("{} has no MAC address", device.link.name)))?;
        let request = ConnectRequest {
            netns: device.netns,
            ifname: device.link.name,
            own_mac: own_mac.0,
            next_hop_macs,
            vlan: args.vlan.map_or(0, |vlan| vlan.0),
            addresses,
            settings: conversation.settings,
            kind: conversation.kind,
            answer_check: conversation.answer_check,
            request: conversation.request,
            pace: pace(args)?,
            open_max,
            open_per_client: args.open_per_client,
            group_by: args.group_by.map(|group| group.0),
            count: args.count.or(args.hold).map(|count| count.0),
            duration_ns: args.duration.map(|duration| duration.0),
            ask_pace: args.ask_rate.map(|rate| frame_rate(rate).map(Pace::Constant)).transpose()?,
            timeout_ns,
            xdp: args.xdp.choice(),
            cpu: args.cpu,
        };
        Ok(Self { request, next_hops, possible })
    }
}

/// The next hop of each range of servers, as far as it was looked for, and its MAC address.
fn next_hops(args: &Args, device: &TxDevice) -> Result<(Vec<NextHopMac>, Vec<[u8; 6]>), Failure> {
    let (mut hops, mut macs) = (Vec::new(), Vec::new());
    for target in &args.dst {
        let mut config = Config { dst_mac: args.dst_mac.unwrap_or_default(), ..Config::default() };
        hops.extend(next_hop::fill_in(device, &mut config, &target.addresses, true)?);
        macs.push(config.dst_mac.0);
    }
    Ok((hops, macs))
}

fn open_max(args: &Args) -> u64 {
    let default = if args.cps.is_some() { u64::MAX } else { OPEN_DEFAULT };
    args.open.or(args.hold).map_or(default, |count| count.0)
}

fn pace(args: &Args) -> Result<Pace, Failure> {
    let Some(cps) = args.cps else { return Ok(Pace::Unpaced) };
    let rate = frame_rate(cps)?;
    match args.arrivals.unwrap_or_default() {
        Arrivals::Bursts { .. } => Err(Failure::usage(
            "open connections in bursts",
            "arrivals of connections are constant or poisson",
        )
        .try_this("--arrivals poisson")),
        arrivals => Ok(Pace::with_arrivals(rate, arrivals, program::seed::fresh_seed())),
    }
}

fn timeout(args: &Args, kind: ConnectKind) -> Result<u64, Failure> {
    let default = if kind == ConnectKind::Tcp { TIMEOUT_NS } else { DATAGRAM_TIMEOUT_NS };
    let timeout_ns = args.timeout.map_or(default, |Nanos(timeout_ns)| timeout_ns);
    if timeout_ns > TIMEOUT_MAX_NS || timeout_ns == 0 {
        let act = format!("wait {} s without progress", timeout_ns as f64 / 1e9);
        return Err(
            Failure::usage(act, "the timeout is above 0 and at most 5 minutes").try_this("--timeout 60s")
        );
    }
    Ok(timeout_ns)
}

/// Addresses of the host belong to its own connections: it would answer the server with resets.
fn check_sources(args: &Args, device: &TxDevice) -> Result<(), Failure> {
    if args.src.is_v6() != args.dst[0].addresses.is_v6() {
        return Err(Failure::usage(
            format!("connect from {} to {}", args.src, targets_text(&args.dst)),
            "the addresses are of different versions of IP",
        )
        .try_this("addresses of one version in --src and --dst"));
    }
    if args.use_host_address {
        return Ok(());
    }
    let act = || format!("connect from {}", args.src);
    let links = device.stack.links().map_err(|why| Failure::host(act(), why))?;
    for link in links {
        let own = device.stack.addresses(&link).map_err(|why| Failure::host(act(), why))?;
        if let Some(address) = own.iter().find(|address| holds(&args.src, address.ip)) {
            let why = anyhow!(
                "{} is an address of {} on this host, which would answer the server with resets",
                address.ip,
                link.name
            );
            return Err(Failure::refused(act(), why)
                .try_this("addresses in --src that no host has")
                .try_this("--use-host-address if the host's answers are dropped"));
        }
    }
    Ok(())
}

fn holds(addresses: &Addresses, ip: IpAddr) -> bool {
    match (addresses, ip) {
        (Addresses::V4(Interval { first, last }), IpAddr::V4(ip)) => (*first..=*last).contains(&ip),
        (Addresses::V6(Interval { first, last }), IpAddr::V6(ip)) => (*first..=*last).contains(&ip),
        _ => false,
    }
}

/// SYNs that can be sent in a second before the servers have answered one.
fn unanswered_cps(args: &Args) -> f64 {
    args.cps.map_or(open_max(args) as f64, |cps| cps.pps())
}

fn check_routed(args: &Args, device: &TxDevice) -> Result<(), Failure> {
    let cps = unanswered_cps(args);
    if cps <= ROUTED_MAX_CPS || args.allow_routed {
        return Ok(());
    }
    let act = || format!("open {cps:.0} connections per second");
    let failed = |why| Failure::host(act(), why);
    for first in args.dst.iter().map(|target| target.addresses.first()) {
        // Without a route, the MAC address that was given leads to the server.
        let has_route = device.stack.has_route(&device.link, first).map_err(failed)?;
        if !has_route || device.stack.next_hop(&device.link, first).map_err(failed)?.ip == first {
            continue;
        }
        let why =
            anyhow!("{first} is behind a router, and more than 100,000 could flood a network of others");
        return Err(Failure::refused(act(), why)
            .try_this("--cps 100k")
            .try_this("--allow-routed if the network is yours"));
    }
    Ok(())
}

/// The addresses, with as many client ports as are needed.
fn addresses(args: &Args, timeout_ns: u64) -> Result<connect::Addresses, Failure> {
    let own_ports = args.src_port.unwrap_or(Interval { first: FIRST_PORT, last: u16::MAX });
    let mut all = connect::Addresses {
        client: args.src.first(),
        client_count: count_of("--src", &args.src)?,
        client_port: own_ports.first,
        client_port_count: 1,
        servers: args.dst.iter().map(server).collect::<Result<_, _>>()?,
    };
    let of_a_port = all.connections();
    if of_a_port > CONNECTIONS_MAX {
        let why = format!(
            "{of_a_port} pairs of addresses and server ports need more memory than the 1 GiB for {} connections",
            human_count(CONNECTIONS_MAX as u64)
        );
        let act = format!("connect from {} to {}", args.src, targets_text(&args.dst));
        return Err(Failure::usage(act, why).try_this("fewer addresses in --src"));
    }
    let per_timeout = args.cps.map_or(0.0, |cps| cps.pps() * (timeout_ns as f64 / 1e9 + 2.0));
    let open = args.open.or(args.hold).map_or(0, |count| u128::from(count.0));
    let needed = match args.src_port {
        Some(_) => CONNECTIONS_MAX,
        None => (per_timeout as u128).max(if args.hold.is_some() { open } else { 2 * open }).max(ENTRIES_MIN),
    };
    let wanted = needed.div_ceil(of_a_port).min(CONNECTIONS_MAX / of_a_port);
    all.client_port_count = (wanted as u32).clamp(1, port_count(&own_ports));
    Ok(all)
}

fn server(target: &Target) -> Result<ServerRange, Failure> {
    Ok(ServerRange {
        address: target.addresses.first(),
        address_count: count_of("--dst", &target.addresses)?,
        port: target.ports.first,
        port_count: port_count(&target.ports),
    })
}

fn port_count(ports: &Interval<u16>) -> u32 {
    u32::from(ports.last - ports.first) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn addresses_of(words: &str) -> Result<connect::Addresses, Failure> {
        let words = format!("c0 --dst 198.18.0.2:80 {words}");
        addresses(&args_of::<Args>(&words).expect("good words"), TIMEOUT_NS)
    }

    #[test]
    fn as_many_ports_are_used_as_are_needed() {
        let ports = |words: &str| addresses_of(words).unwrap().client_port_count;
        assert_eq!(ports("--src 198.18.64.1"), 64_512);
        assert_eq!(ports("--src 198.18.64.0/24"), 256, "65,536 connections");
        assert_eq!(ports("--src 198.18.64.0/24 --hold 200k"), 782);
        assert_eq!(ports("--src 198.18.64.0/24 --cps 20k"), 2_500, "those of a timeout");
        assert_eq!(ports("--src 198.18.64.1 --src-port 2000-2009"), 10);
        assert_eq!(ports("--src 198.16.0.0/14"), 1);
        assert_eq!(ports("--src 198.18.64.0/24 --dst 198.18.0.4:80-82"), 64, "of four servers");
        assert!(addresses_of("--src 198.0.0.0/7").is_err(), "33 million addresses");
    }

    #[test]
    fn without_a_rate_all_connections_may_be_sent_before_an_answer() {
        let cps = |words: &str| {
            let words = format!("c0 --dst 198.18.0.2:80 --src 198.18.64.0/20 {words}");
            unanswered_cps(&args_of::<Args>(&words).expect("good words"))
        };
        assert_eq!(cps(""), 64.0);
        assert_eq!(cps("--open 200k"), 200_000.0);
        assert_eq!(cps("--hold 200k"), 200_000.0);
        assert_eq!(cps("--hold 200k --cps 5k"), 5_000.0);
    }
}
