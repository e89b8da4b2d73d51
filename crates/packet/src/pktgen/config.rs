//! The settings of one device instance, in pktgen's terms and limits.
//!
//! Plain data: nothing is checked here beyond what a type can hold. `Plan::new` checks and
//! interprets it; the `command` crate reads and prints it as text.

use crate::wire::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, TAG_LEN, UDP_LEN};
use crate::{MacAddr, SignatureSetting};
use std::net::{Ipv4Addr, Ipv6Addr};

/// EtherType of a VLAN tag (IEEE 802.1Q).
const ETHERTYPE_VLAN: u16 = 0x8100;

/// pktgen's time to live and hop limit.
const HOP_LIMIT: u8 = 32;

/// `delay_ns` of a device that never sends (pktgen: `delay 2147483647`).
pub const NEVER_NS: u64 = u64::MAX;

/// pktgen's per-device flags, with the values of Linux 7.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

#[expect(missing_docs, reason = "the names are pktgen's own; section 5 of the specification explains each")]
impl Flags {
    pub const IPV6: Self = Self(0x1);
    pub const IPSRC_RND: Self = Self(0x2);
    pub const IPDST_RND: Self = Self(0x4);
    pub const TXSIZE_RND: Self = Self(0x8);
    pub const UDPSRC_RND: Self = Self(0x10);
    pub const UDPDST_RND: Self = Self(0x20);
    pub const UDPCSUM: Self = Self(0x40);
    pub const NO_TIMESTAMP: Self = Self(0x80);
    pub const MPLS_RND: Self = Self(0x100);
    pub const QUEUE_MAP_RND: Self = Self(0x200);
    pub const QUEUE_MAP_CPU: Self = Self(0x400);
    pub const FLOW_SEQ: Self = Self(0x800);
    pub const IPSEC: Self = Self(0x1000);
    pub const MACSRC_RND: Self = Self(0x2000);
    pub const MACDST_RND: Self = Self(0x4000);
    pub const VID_RND: Self = Self(0x8000);
    pub const SVID_RND: Self = Self(0x10000);
    pub const NODE: Self = Self(0x20000);
    pub const SHARED: Self = Self(0x40000);

    /// True when every bit of `other` is set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears every bit of `other`.
    pub fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }
}

/// Where frames enter the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XmitMode {
    /// Directly to the driver, bypassing qdisc and packet taps.
    #[default]
    StartXmit,
    /// Through the qdisc.
    QueueXmit,
    /// Into the receive path of the device, as if received from the wire.
    NetifReceive,
}

/// One size of an internet mix and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImixEntry {
    /// Frame length in bytes, without FCS.
    pub size: u32,
    /// Share of this size, relative to the sum of all weights; at least 1.
    pub weight: u64,
}

/// All settings of one device instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames to send, 0 for no end.
    pub count: u64,
    /// Shortest frame in bytes without FCS; 0 until set or started, then the default of the IP
    /// version.
    pub min_pkt_size: u32,
    /// Longest frame in bytes without FCS.
    pub max_pkt_size: u32,
    /// Internet mix; used while `min_pkt_size >= max_pkt_size`.
    pub imix: Vec<ImixEntry>,
    /// Page fragments that hold the payload; 0 or less for none, 17 at most are used.
    pub frags: i32,
    /// Time between the starts of two frames; 0 for as fast as possible, [`NEVER_NS`] for never.
    pub delay_ns: u64,
    /// Times each frame is sent; 0 means 1.
    pub clone_skb: i32,
    /// Frames per transmit call.
    pub burst: u32,
    /// Where frames enter the kernel.
    pub xmit_mode: XmitMode,
    /// Number of flows; 0 for none, 65,536 at most.
    pub flows: u32,
    /// Frames in one flow.
    pub flow_len: u32,
    /// Frames in a row with the same addresses and ports, apart from the flow table; at least 1.
    /// pktgen has no such setting.
    pub hold: u32,
    /// First transmit queue.
    pub queue_map_min: u16,
    /// Last transmit queue.
    pub queue_map_max: u16,
    /// `skb->priority` of each frame.
    pub skb_priority: u32,
    /// NUMA node for the memory of the frames; negative for "not set".
    pub node: i32,
    /// First or only IPv4 destination; `None` for 0.0.0.0.
    pub dst_min: Option<Ipv4Addr>,
    /// Last IPv4 destination; `None` for only one.
    pub dst_max: Option<Ipv4Addr>,
    /// First or only IPv4 source; `None` for the device's own address.
    pub src_min: Option<Ipv4Addr>,
    /// Last IPv4 source; `None` for only one.
    pub src_max: Option<Ipv4Addr>,
    /// IPv6 source; `::` for the device's link-local address.
    pub src6: Ipv6Addr,
    /// IPv6 destination.
    pub dst6: Ipv6Addr,
    /// Bits set in every random IPv6 destination; `::` for no random destinations.
    pub dst6_min: Ipv6Addr,
    /// Bits allowed in a random IPv6 destination.
    pub dst6_max: Ipv6Addr,
    /// Last IPv6 destination of a range that is counted or drawn: it differs from `dst6` in the
    /// last eight bytes. pktgen has no such range.
    pub dst6_last: Option<Ipv6Addr>,
    /// Last IPv6 source, as `dst6_last`.
    pub src6_last: Option<Ipv6Addr>,
    /// All ranges include their ends. pktgen excludes those of port ranges and of random ranges.
    pub are_ends_included: bool,
    /// Source MAC; zero for the device's own.
    pub src_mac: MacAddr,
    /// Destination MAC.
    pub dst_mac: MacAddr,
    /// Source MACs to count through from `src_mac`; 0 or 1 for just that one.
    pub src_mac_count: u32,
    /// Destination MACs to count through from `dst_mac`.
    pub dst_mac_count: u32,
    /// First UDP source port.
    pub udp_src_min: u16,
    /// End of the UDP source ports. If it is larger than the first, it is not used itself, unless
    /// `are_ends_included`.
    pub udp_src_max: u16,
    /// First UDP destination port.
    pub udp_dst_min: u16,
    /// End of the UDP destination ports, as `udp_src_max`.
    pub udp_dst_max: u16,
    /// MPLS label stack entries, outermost first, as written (bit 0x100 marks a random label).
    pub mpls: Vec<u32>,
    /// VLAN id 0 to 4095, `None` for untagged.
    pub vlan_id: Option<u16>,
    /// EtherType of the VLAN tag; pktgen's is 0x8100.
    pub vlan_type: u16,
    /// VLAN priority 0 to 7.
    pub vlan_p: u8,
    /// VLAN drop eligible bit.
    pub vlan_cfi: u8,
    /// Outer VLAN id 0 to 4095, `None` for no outer tag.
    pub svlan_id: Option<u16>,
    /// EtherType of the outer VLAN tag; pktgen's is 0x8100, that of IEEE 802.1ad is 0x88a8.
    pub svlan_type: u16,
    /// Outer VLAN priority 0 to 7.
    pub svlan_p: u8,
    /// Outer VLAN drop eligible bit.
    pub svlan_cfi: u8,
    /// Time to live or hop limit; pktgen's is 32.
    pub ttl: u8,
    /// IPv4 type of service.
    pub tos: u8,
    /// IPv6 traffic class.
    pub traffic_class: u8,
    /// Security association for IPSEC; 0 to look one up by addresses.
    pub spi: u32,
    /// pktgen's flags.
    pub flags: Flags,
    /// Seed of all random values; `None` for a new one per run.
    pub seed: Option<u64>,
    /// What the frames carry for a receiver; pktgen's header unless set.
    pub signature: SignatureSetting,
}

impl Config {
    /// Changes settings as `start` does: sizes that were never set get the default of the IP
    /// version, the largest size is at least the smallest, and queues are limited to those of the
    /// device.
    pub fn prepare(&mut self, facts: &DeviceFacts) {
        if self.min_pkt_size == 0 {
            self.min_pkt_size = self.default_size();
        }
        self.max_pkt_size = self.max_pkt_size.max(self.min_pkt_size);
        let last_queue = facts.tx_queues.max(1) - 1;
        self.queue_map_min = self.queue_map_min.min(last_queue);
        self.queue_map_max = self.queue_map_max.min(last_queue);
    }

    /// The shortest useful frame, which `start` takes when no size was set: 58 bytes for IPv4, 78
    /// for IPv6.
    pub fn default_size(&self) -> u32 {
        let ip_len = if self.flags.has(Flags::IPV6) { IPV6_LEN } else { IPV4_LEN };
        (ETHERNET_LEN + ip_len + UDP_LEN + self.signature.level.byte_count()) as u32
    }

    /// Bytes of tags and labels in each frame.
    pub fn tags_len(&self) -> u32 {
        let tags = usize::from(self.vlan_id.is_some()) + usize::from(self.svlan_id.is_some());
        ((self.mpls.len() + tags) * TAG_LEN) as u32
    }

    /// The first or only IPv4 source and the last: the device's own address when none was set,
    /// 0.0.0.0 when it has none.
    pub(crate) fn sources(&self, facts: &DeviceFacts) -> (Ipv4Addr, Ipv4Addr) {
        let own = facts.v4.unwrap_or(Ipv4Addr::UNSPECIFIED);
        match self.src_min {
            None => (own, own),
            Some(first) => (first, self.src_max.unwrap_or(Ipv4Addr::UNSPECIFIED)),
        }
    }

    /// Frames that one transmit call of pktgen sends, all the same: `burst`, but 1 through a
    /// queueing discipline and without SHARED.
    pub fn frames_each_call(&self) -> u32 {
        match self.xmit_mode {
            XmitMode::StartXmit | XmitMode::NetifReceive if self.flags.has(Flags::SHARED) => {
                self.burst.max(1)
            }
            _ => 1,
        }
    }

    /// True when frames need security associations: [`crate::Cursor::associations`] must then be
    /// read from the kernel before a start. As in pktgen, only for IPv4 with flows.
    pub fn asks_for_ipsec(&self) -> bool {
        self.flags.has(Flags::IPSEC) && self.flows > 0 && !self.flags.has(Flags::IPV6)
    }
}

impl Default for Config {
    /// A device instance as `add_device` makes it (Linux 7.3).
    fn default() -> Self {
        Self {
            count: 1000,
            min_pkt_size: 0,
            max_pkt_size: 0,
            imix: Vec::new(),
            frags: 0,
            delay_ns: 0,
            clone_skb: 0,
            burst: 1,
            xmit_mode: XmitMode::StartXmit,
            flows: 0,
            flow_len: 0,
            hold: 1,
            queue_map_min: 0,
            queue_map_max: 0,
            skb_priority: 0,
            node: -1,
            dst_min: None,
            dst_max: None,
            src_min: None,
            src_max: None,
            src6: Ipv6Addr::UNSPECIFIED,
            dst6: Ipv6Addr::UNSPECIFIED,
            dst6_min: Ipv6Addr::UNSPECIFIED,
            dst6_max: Ipv6Addr::UNSPECIFIED,
            dst6_last: None,
            src6_last: None,
            are_ends_included: false,
            src_mac: MacAddr::ZERO,
            dst_mac: MacAddr::ZERO,
            src_mac_count: 0,
            dst_mac_count: 0,
            udp_src_min: 9,
            udp_src_max: 9,
            udp_dst_min: 9,
            udp_dst_max: 9,
            mpls: Vec::new(),
            vlan_id: None,
            vlan_type: ETHERTYPE_VLAN,
            vlan_p: 0,
            vlan_cfi: 0,
            svlan_id: None,
            svlan_type: ETHERTYPE_VLAN,
            svlan_p: 0,
            svlan_cfi: 0,
            ttl: HOP_LIMIT,
            tos: 0,
            traffic_class: 0,
            spi: 0,
            flags: Flags::SHARED,
            seed: None,
            signature: SignatureSetting::default(),
        }
    }
}

/// The facts about a device that a plan needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device's own address.
    pub mac: MacAddr,
    /// Its first IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its first usable IPv6 link-local address.
    pub v6_link_local: Option<Ipv6Addr>,
    /// Its transmit queues; at least 1.
    pub tx_queues: u16,
    /// CPU of the thread that sends (QUEUE_MAP_CPU).
    pub cpu: u32,
}
