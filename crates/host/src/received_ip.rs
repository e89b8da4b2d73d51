//! What the IP stack of a namespace did with received packets, and the settings by which it drops
//! packets for their addresses.

use crate::{HostError, KernelError, Netns};
use std::fs;
use std::io;

/// Packets that the IP stack of a namespace has received, from all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedIp {
    /// Delivered to a protocol of this host, such as UDP.
    pub delivered: u64,
    /// Forwarded.
    pub forwarded: u64,
    /// IPv4 packets that `rp_filter` dropped for their source.
    pub rp_filtered: u64,
}

impl ReceivedIp {
    /// The counts of a namespace now.
    ///
    /// # Errors
    /// When the kernel refuses to show them.
    pub fn of(netns: &Netns) -> Result<Self, HostError> {
        // /proc/net belongs to the namespace of the main thread.
        let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        let texts = netns.run(|| Ok::<_, io::Error>((read("snmp")?, read("netstat")?, read("snmp6"))))?;
        let refused = |error| HostError::refused("read", "the counters of IP")(KernelError::io(&error));
        let (snmp, netstat, snmp6) = texts.map_err(refused)?;
        // Without IPv6 there is no such file.
        let snmp6 = snmp6.unwrap_or_default();
        let ipv4 = |name| in_pair_of_lines(&snmp, "Ip", name);
        let ipv6 = |name| in_lines(&snmp6, name);
        Ok(Self {
            delivered: ipv4("InDelivers") + ipv6("Ip6InDelivers"),
            forwarded: ipv4("ForwDatagrams") + ipv6("Ip6OutForwDatagrams"),
            rp_filtered: in_pair_of_lines(&netstat, "TcpExt", "IPReversePathFilter"),
        })
    }

    /// The packets since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            delivered: self.delivered.saturating_sub(before.delivered),
            forwarded: self.forwarded.saturating_sub(before.forwarded),
            rp_filtered: self.rp_filtered.saturating_sub(before.rp_filtered),
        }
    }
}

/// A count of a file in which one line has names and the next one numbers, both behind `group`.
fn in_pair_of_lines(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(": "));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let place = names.split(' ').position(|word| word == name);
    place.and_then(|place| numbers.split(' ').nth(place)?.parse().ok()).unwrap_or(0)
}

/// A count of a file with a name and a number per line.
fn in_lines(text: &str, name: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let number = pairs.find(|(word, _)| *word == name).map(|(_, number)| number.trim());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A setting by which the stack drops IPv4 packets for their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressCheck {
    /// Sources that are addresses of this host are dropped.
    AcceptLocal,
    /// Packets from and to 127.0.0.0/8 are dropped.
    RouteLocalnet,
    /// Sources without a route back by this device (1) or at all (2) are dropped.
    RpFilter,
}

impl AddressCheck {
    /// All of them.
    const ALL: [Self; 3] = [Self::AcceptLocal, Self::RouteLocalnet, Self::RpFilter];

    /// The last word of the setting under `/proc/sys/net/ipv4/conf/DEV`.
    pub fn key(self) -> &'static str {
        match self {
            Self::AcceptLocal => "accept_local",
            Self::RouteLocalnet => "route_localnet",
            Self::RpFilter => "rp_filter",
        }
    }

    /// The packets that it drops, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::AcceptLocal => "sources that are addresses of this host",
            Self::RouteLocalnet => "addresses of 127.0.0.0/8",
            Self::RpFilter => "sources without a route back",
        }
    }

    /// The `sysctl` command by which `ifname` accepts such packets.
    pub fn command(self, ifname: &str) -> String {
        // sysctl takes the dots of a name as slashes.
        let (ifname, key) = (ifname.replace('.', "/"), self.key());
        match self {
            // The larger one of both counts.
            Self::RpFilter => {
                format!("sysctl -w net.ipv4.conf.all.{key}=0 net.ipv4.conf.{ifname}.{key}=0")
            }
            _ => format!("sysctl -w net.ipv4.conf.{ifname}.{key}=1"),
        }
    }

    /// Those that drop packets which `ifname` receives now.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn in_force(netns: &Netns, ifname: &str) -> Result<Vec<Self>, HostError> {
        let value = |place: &str, key: &str| {
            let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{place}/{key}"));
            text.ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0)
        };
        netns.run(|| {
            let is_set = |check: Self| value("all", check.key()).max(value(ifname, check.key())) > 0;
            Self::ALL.into_iter().filter(|check| is_set(*check) == (*check == Self::RpFilter)).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_names() {
        let snmp = "Ip: Forwarding DefaultTTL InReceives InDelivers\nIp: 1 64 12 9\nIcmp: InMsgs\nIcmp: 3\n";
        assert_eq!(in_pair_of_lines(snmp, "Ip", "InDelivers"), 9);
        assert_eq!(in_pair_of_lines(snmp, "Icmp", "InMsgs"), 3);
        assert_eq!(in_pair_of_lines(snmp, "Udp", "InMsgs"), 0);
        let snmp6 = "Ip6InReceives                   \t5\nIp6InDelivers                   \t4\n";
        assert_eq!(in_lines(snmp6, "Ip6InDelivers"), 4);
    }

    #[test]
    fn commands_name_the_device() {
        let command = |check: AddressCheck| check.command("eth0.5");
        assert_eq!(command(AddressCheck::AcceptLocal), "sysctl -w net.ipv4.conf.eth0/5.accept_local=1");
        let both = "sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0/5.rp_filter=0";
        assert_eq!(command(AddressCheck::RpFilter), both);
    }
}
