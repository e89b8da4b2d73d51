//! The state of a run between two frames.
//!
//! The states of a plan of pktgen's are pktgen's `cur_*` fields, at fixed places. `start` resets
//! most of them. The IP id, the flow table and the random source live as long as the device
//! instance. A few commands change a field at once.

use crate::ipsec::{Associations, SeqAndIv};
use crate::{Config, DeviceFacts, Flags, Rng};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// The place of a state of pktgen's frames in [`Cursor::states`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(crate) usize);

impl Slot {
    /// IPv4 identification of the next frame built; counts builds since `add_device`.
    pub const IP_ID: Self = Self(0);
    /// Requested length of the last frame, in bytes without FCS.
    pub const FRAME_SIZE: Self = Self(1);
    /// Offset in the source MACs.
    pub const SRC_MAC_OFFSET: Self = Self(2);
    /// Offset in the destination MACs.
    pub const DST_MAC_OFFSET: Self = Self(3);
    /// Last IPv4 source.
    pub const SRC_V4: Self = Self(4);
    /// Last IPv4 destination.
    pub const DST_V4: Self = Self(5);
    /// Upper half of the last IPv6 destination.
    pub const DST_V6_HIGH: Self = Self(6);
    /// Its lower half.
    pub const DST_V6_LOW: Self = Self(7);
    /// Last UDP source port.
    pub const UDP_SRC: Self = Self(8);
    /// Last UDP destination port.
    pub const UDP_DST: Self = Self(9);
    /// VLAN id of the last frame.
    pub const VLAN: Self = Self(10);
    /// Outer VLAN id of the last frame.
    pub const SVLAN: Self = Self(11);
    /// Length of the IP packet.
    pub(crate) const IP_LEN: Self = Self(12);
    /// Length of the UDP datagram.
    pub(crate) const UDP_LEN: Self = Self(13);
    /// The signature: sequence number, seconds, microseconds, nanoseconds, flow, number in it.
    pub(crate) const SIGNATURE: [Self; 6] = [Self(14), Self(15), Self(16), Self(17), Self(18), Self(19)];
    /// Lower half of the last IPv6 source.
    pub(crate) const SRC_V6_LOW: Self = Self(20);
    /// Addresses and ports.
    pub(crate) const ADDRESSES: [Self; 9] = [
        Self::SRC_MAC_OFFSET,
        Self::DST_MAC_OFFSET,
        Self::SRC_V4,
        Self::DST_V4,
        Self::DST_V6_HIGH,
        Self::DST_V6_LOW,
        Self::UDP_SRC,
        Self::UDP_DST,
        Self::SRC_V6_LOW,
    ];
    /// The first MPLS label; the others follow.
    const MPLS: usize = 21;
    /// All of them.
    const COUNT: usize = Self::MPLS + crate::MPLS_LABELS_MAX;

    /// An MPLS label of the last frame, as in the setting (bit 0x100 marks a random one).
    pub const fn mpls(index: usize) -> Self {
        Self(Self::MPLS + index)
    }
}

/// One entry of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// What its frames have in the field of [`crate::plan::FlowRule::field`], while it is open.
    pub value: u64,
    /// Frames built in it; repeats do not count.
    pub count: u32,
    /// True from its first frame until it is closed.
    pub is_open: bool,
    /// Number of its next frame, counted since `start`; used by full signatures.
    pub number: u64,
}

/// The state from which the next frame is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence number of the next frame.
    pub seq_num: u32,
    /// Frames built so far; repeats do not count.
    pub number: u64,
    /// Index of the packet of the last frame.
    pub packet: usize,
    /// Index of the packet of the next frame built.
    pub next_packet: usize,
    /// The state of each field: its last or next value, an index, or nothing.
    pub states: Vec<u64>,
    /// The value of each field in the last frame, for its repeats.
    pub values: Vec<u64>,
    /// For each field, the next frames that have its last value; empty if no field holds values.
    pub held: Vec<u32>,
    /// IPv6 source.
    pub src_v6: Ipv6Addr,
    /// Last transmit queue.
    pub queue: u16,
    /// A queue was chosen since `add_device`; the first goes to the lower end of its range.
    pub queue_started: bool,
    /// Flow of the last frame.
    pub flow_index: u32,
    /// Flows opened since `start`.
    pub flows_started: u32,
    /// The flow table; grows to as many entries as there are flows.
    pub flows: Vec<Flow>,
    /// The source of each flow when it was opened, which determines its association; empty without
    /// IPSEC.
    pub flow_sources: Vec<Ipv4Addr>,
    /// The associations of a run with IPSEC, to be read from the kernel before [`Cursor::start`].
    pub associations: Arc<Associations>,
    /// Frames of each IMIX size sent since `start`.
    pub imix_counts: Vec<u64>,
    /// Labels of the MPLS stack.
    pub mpls_count: usize,
    /// IPsec sequence number and IV of the last frame built.
    pub numbers: SeqAndIv,
    /// Remaining repeats of the last frame (`clone_skb`, `burst`).
    pub repeats_left: u32,
    /// Flow of the next frame of a plan with full signatures and without flow table.
    pub slot: u32,
    /// Frames of that flow that were built in a row before it.
    pub in_row: u32,
    /// Number in that flow of the first of them.
    pub round: u64,
    /// Bytes of tags and labels that the frame sizes of this run include.
    pub overhead: u32,
    /// The source of all random values.
    pub rng: Rng,
}

impl Default for Cursor {
    /// The cursor of a device instance that never ran.
    fn default() -> Self {
        Self {
            seq_num: 0,
            number: 0,
            packet: 0,
            next_packet: 0,
            states: vec![0; Slot::COUNT],
            values: vec![0; Slot::COUNT],
            held: Vec::new(),
            src_v6: Ipv6Addr::UNSPECIFIED,
            queue: 0,
            queue_started: false,
            flow_index: 0,
            flows_started: 0,
            flows: Vec::new(),
            flow_sources: Vec::new(),
            associations: Arc::default(),
            imix_counts: Vec::new(),
            mpls_count: 0,
            numbers: SeqAndIv::default(),
            repeats_left: 0,
            slot: 0,
            in_row: 0,
            round: 0,
            overhead: 0,
            rng: Rng::default(),
        }
    }
}

impl Index<Slot> for Cursor {
    type Output = u64;

    fn index(&self, slot: Slot) -> &u64 {
        &self.states[slot.0]
    }
}

impl IndexMut<Slot> for Cursor {
    fn index_mut(&mut self, slot: Slot) -> &mut u64 {
        &mut self.states[slot.0]
    }
}

impl Cursor {
    /// The cursor of a device instance that never ran, with these IPv6 addresses.
    pub fn of_v6(src: Ipv6Addr, dst: Ipv6Addr) -> Self {
        let mut cursor = Self { src_v6: src, ..Self::default() };
        cursor.set_dst_v6(dst);
        cursor
    }

    /// Last IPv4 source.
    pub fn src_v4(&self) -> Ipv4Addr {
        Ipv4Addr::from(self[Slot::SRC_V4] as u32)
    }

    /// Last IPv4 destination.
    pub fn dst_v4(&self) -> Ipv4Addr {
        Ipv4Addr::from(self[Slot::DST_V4] as u32)
    }

    /// Last IPv6 destination.
    pub fn dst_v6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from(self[Slot::DST_V6_HIGH]) << 64 | u128::from(self[Slot::DST_V6_LOW]))
    }

    /// Sets the last IPv6 destination.
    pub fn set_dst_v6(&mut self, dst: Ipv6Addr) {
        let bits = dst.to_bits();
        (self[Slot::DST_V6_HIGH], self[Slot::DST_V6_LOW]) = ((bits >> 64) as u64, bits as u64);
    }

    /// Resets the counters of the run, and sets addresses, ports and size to their first values.
    ///
    /// The IP id, the flow table, the queue and random tags continue, as in pktgen. A seed in the
    /// configuration repeats the random values of an earlier run; without one, `fresh_seed` is
    /// used.
    pub fn start(&mut self, config: &Config, facts: &DeviceFacts, fresh_seed: u64) {
        self.rng = Rng(config.seed.unwrap_or(fresh_seed));
        (self.seq_num, self.number) = (1, 0);
        self[Slot::FRAME_SIZE] = config.min_pkt_size.into();
        self[Slot::SRC_MAC_OFFSET] = 0;
        self[Slot::DST_MAC_OFFSET] = 0;
        self[Slot::UDP_SRC] = config.udp_src_min.into();
        self[Slot::UDP_DST] = config.udp_dst_min.into();
        self.flows_started = 0;
        self.repeats_left = 0;
        (self.slot, self.in_row, self.round) = (0, 0, 0);
        self.held = vec![0; if config.hold > 1 { Slot::COUNT } else { 0 }];
        self.flows.iter_mut().for_each(|flow| flow.number = 0);
        self.overhead = config.tags_len();
        self.imix_counts = vec![0; config.imix.len()];
        if config.flags.has(Flags::IPV6) {
            if self.src_v6.is_unspecified() {
                self.src_v6 = facts.v6_link_local.unwrap_or(Ipv6Addr::UNSPECIFIED);
            }
            self[Slot::SRC_V6_LOW] = self.src_v6.to_bits() as u64;
        } else {
            self[Slot::SRC_V4] = config.sources(facts).0.to_bits().into();
            self[Slot::DST_V4] = config.dst_min.unwrap_or(Ipv4Addr::UNSPECIFIED).to_bits().into();
        }
        self.follow(config);
    }

    /// Applies a change of the settings to a running run: sizes of the tables, tags and labels.
    pub fn follow(&mut self, config: &Config) {
        self.flows.resize(config.flows as usize, Flow::default());
        let source_count = if config.asks_for_ipsec() { config.flows as usize } else { 0 };
        self.flow_sources.resize(source_count, Ipv4Addr::UNSPECIFIED);
        self.flow_index = if self.flow_index < config.flows { self.flow_index } else { 0 };
        self.imix_counts.resize(config.imix.len(), 0);
        self[Slot::VLAN] = config.vlan_id.unwrap_or(0).into();
        self[Slot::SVLAN] = config.svlan_id.unwrap_or(0).into();
        self.mpls_count = config.mpls.len();
        for (index, label) in config.mpls.iter().enumerate().take(crate::MPLS_LABELS_MAX) {
            self[Slot::mpls(index)] = (*label).into();
        }
    }

    /// Moves over the next `count` frames, all of them repeats of the one before: `count` is at
    /// most `repeats_left`.
    pub fn repeat(&mut self, count: u32) {
        self.repeats_left -= count;
        self.seq_num = self.seq_num.wrapping_add(count);
    }

    /// Ends the repeats of a frame that was sent at least once, of `repeats` in all. A frame that
    /// was built and not sent stays the next. To be called before the frames change.
    pub fn end_repeats(&mut self, repeats: u32) {
        if self.repeats_left < repeats {
            self.repeats_left = 0;
        }
    }

    /// Writes random tags and labels back into the settings, where pktgen shows them.
    pub fn write_back(&self, config: &mut Config) {
        config.vlan_id = config.vlan_id.map(|_| self[Slot::VLAN] as u16);
        config.svlan_id = config.svlan_id.map(|_| self[Slot::SVLAN] as u16);
        if config.mpls.len() == self.mpls_count {
            for (index, label) in config.mpls.iter_mut().enumerate().take(crate::MPLS_LABELS_MAX) {
                *label = self[Slot::mpls(index)] as u32;
            }
        }
    }
}
