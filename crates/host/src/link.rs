//! A network device as a plain value: a snapshot.

use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State, Stats64, XdpAttached,
};
use packet::MacAddr;

/// Counters of a device since its creation, by its driver (`rtnl_link_stats64`).
///
/// Bytes are frame lengths without FCS; XDP frames are counted by most drivers, not by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Received frames that were dropped, without memory or receiver.
    pub rx_dropped: u64,
    /// Frames dropped on transmit.
    pub tx_dropped: u64,
    /// Bad frames received.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames lost because the ring of the device was full.
    pub rx_missed: u64,
    /// Overruns by the driver: frames or events, with or without those of `rx_missed`.
    pub rx_fifo: u64,
}

impl LinkCounters {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets.wrapping_sub(earlier.rx_packets),
            tx_packets: self.tx_packets.wrapping_sub(earlier.tx_packets),
            rx_bytes: self.rx_bytes.wrapping_sub(earlier.rx_bytes),
            tx_bytes: self.tx_bytes.wrapping_sub(earlier.tx_bytes),
            rx_dropped: self.rx_dropped.wrapping_sub(earlier.rx_dropped),
            tx_dropped: self.tx_dropped.wrapping_sub(earlier.tx_dropped),
            rx_errors: self.rx_errors.wrapping_sub(earlier.rx_errors),
            tx_errors: self.tx_errors.wrapping_sub(earlier.tx_errors),
            rx_missed: self.rx_missed.wrapping_sub(earlier.rx_missed),
            rx_fifo: self.rx_fifo.wrapping_sub(earlier.rx_fifo),
        }
    }
}

impl From<&Stats64> for LinkCounters {
    fn from(stats: &Stats64) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
            rx_missed: stats.rx_missed_errors,
            rx_fifo: stats.rx_fifo_errors,
        }
    }
}

/// Link-layer header of a device (`ARPHRD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// An Ethernet header.
    Ethernet,
    /// An Ethernet header of zeros.
    Loopback,
    /// An IEEE 802.11 header, with or without radiotap (monitor mode).
    Wireless {
        /// True when radiotap comes first.
        radiotap: bool,
    },
    /// No header: frames begin with IP (tun, WireGuard).
    None,
    /// Another type, by its number.
    Other(u16),
}

impl From<u16> for LinkLayer {
    fn from(number: u16) -> Self {
        match number {
            libc::ARPHRD_ETHER => Self::Ethernet,
            libc::ARPHRD_LOOPBACK => Self::Loopback,
            libc::ARPHRD_IEEE80211 => Self::Wireless { radiotap: false },
            libc::ARPHRD_IEEE80211_RADIOTAP => Self::Wireless { radiotap: true },
            libc::ARPHRD_NONE => Self::None,
            other => Self::Other(other),
        }
    }
}

/// Related device: the peer of a veth, the lower device of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Index in its own namespace.
    pub index: u32,
    /// Number of its namespace in this one; `None` for the same namespace. See
    /// [`crate::Stack::number_of`].
    pub netns_number: Option<i32>,
}

/// Attach mode of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttachedXdpMode {
    /// By the driver, before an skb exists.
    Native,
    /// By the stack, on an skb: for any driver, slow.
    Generic,
    /// On the card.
    Offloaded,
    /// In several modes at once.
    Several,
}

/// The XDP program of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedXdp {
    /// Attach mode.
    pub mode: AttachedXdpMode,
    /// Its id, for `bpftool prog`.
    pub program_id: u32,
}

/// Parent device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// `pci`, `virtio`, `usb`, ...
    pub bus: String,
    /// Its name on the bus, such as `0000:01:00.0`.
    pub name: String,
}

/// A snapshot of a network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `ifindex`: its number in its namespace.
    pub index: u32,
    /// Its name in its namespace.
    pub name: String,
    /// Its Ethernet address, if it has one of six bytes.
    pub mac: Option<MacAddr>,
    /// Largest layer 3 packet in bytes.
    pub mtu: u32,
    /// `veth`, `tun`, `bridge`, ... as in `ip -d link`; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Link-layer header.
    pub layer: LinkLayer,
    /// Transmit queues, at least 1.
    pub tx_queues: u32,
    /// Receive queues, at least 1.
    pub rx_queues: u32,
    /// The queueing discipline at its root, such as `noqueue`, `mq` or `fq_codel`.
    pub qdisc: Option<String>,
    /// Peer or lower device, if any.
    pub peer: Option<Peer>,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// The XDP program on it.
    pub xdp: Option<AttachedXdp>,
    /// Parent device of hardware.
    pub parent: Option<Parent>,
    /// Counters.
    pub counters: LinkCounters,
    flags: u32,
    carrier: bool,
    dormant: bool,
}

impl Link {
    /// Set up (`ip link set up`).
    pub fn is_up(&self) -> bool {
        self.has(LinkFlags::Up)
    }

    /// Able to carry frames (`IFF_RUNNING`).
    pub fn is_running(&self) -> bool {
        self.has(LinkFlags::Running) && !self.dormant
    }

    /// Carrier, known only while it is up.
    pub fn has_carrier(&self) -> bool {
        self.carrier
    }

    /// The loopback device.
    pub fn is_loopback(&self) -> bool {
        self.has(LinkFlags::Loopback)
    }

    /// Promiscuous.
    pub fn is_promiscuous(&self) -> bool {
        self.has(LinkFlags::Promisc)
    }

    /// `kind` as in `ip -d link`.
    pub fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn has(&self, flag: LinkFlags) -> bool {
        self.flags & flag.bits() != 0
    }
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            kind: None,
            layer: u16::from(message.header.link_layer_type).into(),
            tx_queues: 1,
            rx_queues: 1,
            qdisc: None,
            peer: None,
            master: None,
            xdp: None,
            parent: None,
            counters: LinkCounters::default(),
            flags: flags.bits(),
            carrier: flags.contains(LinkFlags::LowerUp),
            dormant: flags.contains(LinkFlags::Dormant),
        };
        let (mut peer_index, mut netns_number) = (None, None);
        let (mut parent_bus, mut parent_name) = (None, None);
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = bytes.try_into().ok().map(MacAddr),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::LinkInfo(infos) => link.kind = infos.into_iter().find_map(kind),
                LinkAttribute::NumTxQueues(count) => link.tx_queues = count.max(1),
                LinkAttribute::NumRxQueues(count) => link.rx_queues = count.max(1),
                LinkAttribute::Qdisc(name) => link.qdisc = Some(name),
                LinkAttribute::Link(index) => peer_index = Some(index).filter(|index| *index != 0),
                LinkAttribute::LinkNetNsId(number) => netns_number = Some(number),
                LinkAttribute::Controller(index) => link.master = Some(index),
                LinkAttribute::Xdp(facts) => link.xdp = attached_xdp(&facts),
                LinkAttribute::ParentDevBusName(bus) => parent_bus = Some(bus),
                LinkAttribute::ParentDevName(name) => parent_name = Some(name),
                LinkAttribute::OperState(state) => link.dormant |= state == State::Dormant,
                LinkAttribute::Stats64(stats) => link.counters = LinkCounters::from(&stats),
                _ => {}
            }
        }
        link.peer = peer_index.map(|index| Peer { index, netns_number });
        link.parent = parent_bus.zip(parent_name).map(|(bus, name)| Parent { bus, name });
        link
    }
}

fn kind(info: LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

fn attached_xdp(facts: &[LinkXdp]) -> Option<AttachedXdp> {
    let mode = facts.iter().find_map(|fact| match fact {
        LinkXdp::Attached(XdpAttached::Driver) => Some(AttachedXdpMode::Native),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(AttachedXdpMode::Generic),
        LinkXdp::Attached(XdpAttached::Hardware) => Some(AttachedXdpMode::Offloaded),
        LinkXdp::Attached(XdpAttached::Multiple) => Some(AttachedXdpMode::Several),
        _ => None,
    })?;
    // With several programs there is no ProgId; that of the driver sees frames first.
    let id = |wanted: fn(&LinkXdp) -> Option<u32>| facts.iter().find_map(wanted);
    let program_id = id(|fact| if let LinkXdp::ProgId(id) = fact { Some(*id) } else { None })
        .or_else(|| id(|fact| if let LinkXdp::DrvProgId(id) = fact { Some(*id) } else { None }))
        .or_else(|| id(|fact| if let LinkXdp::SkbProgId(id) = fact { Some(*id) } else { None }))
        .unwrap_or(0);
    Some(AttachedXdp { mode, program_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_message_end_up_in_their_places() {
        let mut message = LinkMessage::default();
        message.header.index = 7;
        message.header.link_layer_type = libc::ARPHRD_ETHER.into();
        message.header.flags = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running | LinkFlags::Broadcast;
        message.attributes = vec![
            LinkAttribute::IfName("veth0".to_owned()),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 9]),
            LinkAttribute::Link(5),
            LinkAttribute::LinkNetNsId(3),
            LinkAttribute::NumTxQueues(4),
            LinkAttribute::Xdp(vec![LinkXdp::Attached(XdpAttached::Driver), LinkXdp::ProgId(41)]),
        ];
        let link = Link::from(message);
        assert_eq!((link.index, link.name.as_str(), link.tx_queues, link.rx_queues), (7, "veth0", 4, 1));
        assert_eq!(link.mac, Some(MacAddr([2, 0, 0, 0, 0, 9])));
        assert_eq!(link.peer, Some(Peer { index: 5, netns_number: Some(3) }));
        assert_eq!(link.xdp, Some(AttachedXdp { mode: AttachedXdpMode::Native, program_id: 41 }));
        assert_eq!(link.layer, LinkLayer::Ethernet);
        assert!(link.is_up() && link.is_running() && link.has_carrier());
        assert!(!link.is_loopback());
    }

    #[test]
    fn addresses_that_are_not_six_bytes_are_none() {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::Address(vec![1, 2, 3, 4])];
        assert_eq!(Link::from(message).mac, None);
    }

    #[test]
    fn counters_survive_a_wrap() {
        let earlier = LinkCounters { rx_packets: u64::MAX, ..LinkCounters::default() };
        let later = LinkCounters { rx_packets: 1, ..LinkCounters::default() };
        assert_eq!(later.since(&earlier).rx_packets, 2);
    }
}
