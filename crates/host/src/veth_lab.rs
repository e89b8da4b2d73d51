//! Two namespaces connected by a veth pair, for demos, tests and benchmarks.
//!
//! A [`Lab`] is removed when it is dropped. The names of its namespaces contain the PID of their
//! creator, so that the next program removes those of a killed one ([`Lab::sweep`]).

use crate::{FEATURE_GRO, HostError, Link, Netns, Stack, VethEnd};
use packet::MacAddr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PREFIX: &str = "wirerate-";
/// Timeout for a new pair to come up, which takes a few milliseconds.
const UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabOptions {
    /// Transmit queues, and receive queues, of each end.
    pub queues: u32,
    /// Largest layer 3 packet of each end, in bytes.
    pub mtu: u32,
    /// GRO at the receiver. With it, or with an XDP program on [`Lab::rx`], the sender's end
    /// accepts XDP frames.
    pub rx_gro: bool,
    /// IPv6 addresses on both ends. The kernel then sends some frames of its own (multicast
    /// reports); without them every frame on the wire is the user's.
    pub ipv6: bool,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self { queues: 4, mtu: 1500, rx_gro: false, ipv6: false }
    }
}

/// One end of the pair.
#[derive(Debug)]
pub struct LabEnd {
    /// Its namespace, as `ip netns` lists it.
    pub netns_name: String,
    /// The stack of its namespace.
    pub stack: Stack,
    /// Name of the device.
    pub ifname: &'static str,
    /// Index of the device.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IPv4 address, in a network of 24 bits (RFC 2544).
    pub v4: Ipv4Addr,
    /// Its IPv6 address, in a network of 64 bits (RFC 5180), if requested.
    pub v6: Option<Ipv6Addr>,
}

impl LabEnd {
    /// The namespace.
    pub fn netns(&self) -> &Netns {
        self.stack.netns()
    }

    /// The device with its counters, as of now.
    pub fn link(&self) -> Result<Link, HostError> {
        self.stack.link(self.index)
    }
}

/// Two namespaces, a veth pair, addresses and neighbours, everything up. Dropping it removes them.
#[derive(Debug)]
pub struct Lab {
    /// The sender's end: `tx0`, 198.18.0.1, 2001:2::1, 02:00:00:00:00:01.
    pub tx: LabEnd,
    /// The receiver's end: `rx0`, 198.18.0.2, 2001:2::2, 02:00:00:00:00:02.
    pub rx: LabEnd,
    names: [OwnedName; 2],
}

/// Settings of an end before it is created.
struct Design {
    ifname: &'static str,
    mac: MacAddr,
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    link_local: Ipv6Addr,
}

const fn design(ifname: &'static str, number: u8) -> Design {
    Design {
        ifname,
        mac: MacAddr([2, 0, 0, 0, 0, number]),
        v4: Ipv4Addr::new(198, 18, 0, number),
        v6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, number as u16),
        link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number as u16),
    }
}

const TX: Design = design("tx0", 1);
const RX: Design = design("rx0", 2);

impl Lab {
    /// Removes leftovers of dead programs, then creates a lab.
    pub fn new(options: &LabOptions) -> Result<Self, HostError> {
        Self::sweep()?;
        let base = new_base()?;
        let names = [OwnedName::create(format!("{base}-tx"))?, OwnedName::create(format!("{base}-rx"))?];
        let [tx, rx] = [names[0].stack(options)?, names[1].stack(options)?];
        let end = |design: &Design| VethEnd {
            name: design.ifname,
            mac: Some(design.mac),
            queues: options.queues,
            mtu: Some(options.mtu),
        };
        tx.create_veth(&end(&TX), &end(&RX), rx.netns())?;
        configure(&tx, &TX, &RX, options)?;
        configure(&rx, &RX, &TX, options)?;
        rx.set_feature(RX.ifname, FEATURE_GRO, options.rx_gro)?;
        tx.wait_running(TX.ifname, UP_TIMEOUT)?;
        rx.wait_running(RX.ifname, UP_TIMEOUT)?;
        let [tx, rx] = [(tx, &TX, &names[0]), (rx, &RX, &names[1])]
            .map(|(stack, design, name)| finish(stack, design, &name.0, options));
        Ok(Self { tx: tx?, rx: rx?, names })
    }

    /// Removes it now and returns errors, unlike dropping it.
    pub fn remove(mut self) -> Result<(), HostError> {
        self.names.iter_mut().try_for_each(OwnedName::remove)
    }

    /// Removes the namespaces of labs whose program is dead; returns their names.
    pub fn sweep() -> Result<Vec<String>, HostError> {
        let here = pid_namespace()?;
        let is_left = |name: &String| {
            // The PID of a program in another container is not meaningful here.
            Maker::of(name).is_some_and(|maker| maker.pid_namespace == here && !maker.is_alive())
        };
        let mut removed = Vec::new();
        for name in Netns::names()?.into_iter().filter(is_left) {
            match Netns::remove(&name) {
                Ok(()) => removed.push(name),
                Err(HostError::NoNetns { .. }) => {} // another program sweeps, too
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }
}

impl Stack {
    /// Waits until a device is running. A veth needs a moment after both ends are set up.
    pub fn wait_running(&self, ifname: &str, timeout: Duration) -> Result<(), HostError> {
        let is_running = || Ok(self.link(ifname)?.is_running().then_some(()));
        let waited = self.wait_for_link(timeout, is_running)?;
        waited.ok_or_else(|| HostError::NotRunning { object: self.object(ifname.into()) })
    }
}

fn configure(stack: &Stack, own: &Design, other: &Design, options: &LabOptions) -> Result<(), HostError> {
    stack.set_up("lo")?;
    stack.set_up(own.ifname)?;
    stack.add_address(own.ifname, own.v4.into(), 24)?;
    let mut neighbours: Vec<IpAddr> = vec![other.v4.into()];
    if options.ipv6 {
        stack.add_address(own.ifname, own.v6.into(), 64)?;
        stack.add_address(own.ifname, own.link_local.into(), 64)?;
        neighbours.extend([IpAddr::from(other.v6), other.link_local.into()]);
    }
    neighbours.into_iter().try_for_each(|ip| stack.add_neighbour(own.ifname, ip, other.mac))
}

fn finish(stack: Stack, design: &Design, name: &str, options: &LabOptions) -> Result<LabEnd, HostError> {
    let index = stack.link(design.ifname)?.index;
    Ok(LabEnd {
        netns_name: name.to_owned(),
        stack,
        ifname: design.ifname,
        index,
        mac: design.mac,
        v4: design.v4,
        v6: options.ipv6.then_some(design.v6),
    })
}

/// A named namespace that is removed on drop.
#[derive(Debug)]
struct OwnedName(String);

impl OwnedName {
    fn create(name: String) -> Result<Self, HostError> {
        Netns::create(&name)?;
        Ok(Self(name))
    }

    /// Before there are devices that could send.
    fn stack(&self, options: &LabOptions) -> Result<Stack, HostError> {
        let netns = Netns::named(&self.0)?;
        let settings: &[_] = if options.ipv6 {
            &[("default/addr_gen_mode", "1"), ("default/accept_ra", "0"), ("default/dad_transmits", "0")]
        } else {
            &[("default/disable_ipv6", "1"), ("all/disable_ipv6", "1")]
        };
        for (key, value) in settings {
            match netns.set_sysctl(&format!("ipv6/conf/{key}"), value) {
                // A kernel without IPv6 sends nothing.
                Err(error) if error.errno() == Some(libc::ENOENT) => {}
                other => other?,
            }
        }
        Stack::of(&netns)
    }

    fn remove(&mut self) -> Result<(), HostError> {
        match std::mem::take(&mut self.0).as_str() {
            "" => Ok(()),
            name => Netns::remove(name),
        }
    }
}

impl Drop for OwnedName {
    fn drop(&mut self) {
        // The next lab removes it.
        let _ = self.remove();
    }
}

/// The creator of a namespace, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    /// Inode of the PID namespace of `pid`.
    pid_namespace: u64,
    pid: u32,
    /// Start time in clock ticks since boot, in case the PID is reused.
    started_ticks: u64,
}

impl Maker {
    /// Parses the name of a lab's namespace; `None` for other names.
    fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let mut part = || parts.next();
        let maker = Self {
            pid_namespace: part()?.parse().ok()?,
            pid: part()?.parse().ok()?,
            started_ticks: part()?.parse().ok()?,
        };
        let _number: u32 = part()?.parse().ok()?;
        matches!((part()?, part()), ("tx" | "rx", None)).then_some(maker)
    }

    fn is_alive(self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        started_ticks(&stat) == Some(self.started_ticks)
    }
}

/// The name of a new lab, without its suffix.
fn new_base() -> Result<String, HostError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = "/proc/self/stat";
    let stat = fs::read_to_string(path).map_err(HostError::refused("read", path))?;
    let unreadable = || HostError::Unreadable { act: "read", object: path.to_owned(), why: stat.clone() };
    let started_ticks = started_ticks(&stat).ok_or_else(unreadable)?;
    let (number, pid) = (NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    Ok(format!("{PREFIX}{}-{pid}-{started_ticks}-{number}", pid_namespace()?))
}

fn pid_namespace() -> Result<u64, HostError> {
    let path = "/proc/self/ns/pid";
    Ok(fs::metadata(path).map_err(HostError::refused("read", path))?.ino())
}

/// Field 22 of `/proc/PID/stat`; `None` for zombies.
fn started_ticks(stat: &str) -> Option<u64> {
    // Field 2 is the name in parentheses, which may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| !["Z", "X", "x"].contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_maker_and_strangers_do_not() {
        let maker = Maker { pid_namespace: 4_026_531_836, pid: 12, started_ticks: 345 };
        assert_eq!(Maker::of("wirerate-4026531836-12-345-0-tx"), Some(maker));
        for stranger in [
            "",
            "wirerate-",
            "wirerate-lab",
            "wirerate-1-2-3-0",
            "wirerate-1-2-3-0-tx-x",
            "wirerate-1-2-3-0-ab",
            "other-1-2-3-0-tx",
            "wirerate-1-b-3-0-tx",
        ] {
            assert_eq!(Maker::of(stranger), None, "{stranger}");
        }
        let base = new_base().unwrap();
        assert!(Maker::of(&format!("{base}-rx")).unwrap().is_alive());
        assert_ne!(base, new_base().unwrap());
    }

    #[test]
    fn start_time_is_found_behind_any_name_and_the_dead_have_none() {
        let stat = |name: &str, state: &str| {
            let zeros = "0 ".repeat(18);
            format!("7 ({name}) {state} {zeros}4711 99")
        };
        assert_eq!(started_ticks(&stat("a) b (c", "S")), Some(4711));
        assert_eq!(started_ticks(&stat("sh", "Z")), None);
        assert_eq!(started_ticks("nonsense"), None);
    }

    #[test]
    fn a_reused_pid_is_not_the_maker() {
        let pid = std::process::id();
        let maker = Maker { pid_namespace: pid_namespace().unwrap(), pid, started_ticks: 1 };
        assert!(!maker.is_alive());
    }
}
