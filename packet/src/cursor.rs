//! The state of a run between two frames.
//!
//! These are pktgen's `cur_*` fields. `start` resets most of them. The IP id, the flow table and
//! the random source live as long as the device instance. A few commands change a field at once.

use crate::general::GeneralCursor;
use crate::ipsec::{Associations, SeqAndIv};
use crate::{Config, DeviceFacts, Flags, Rng};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// One entry of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Its destination while it is open.
    pub dst_v4: u32,
    /// Frames sent in it.
    pub count: u32,
    /// True from its first frame until it is closed.
    pub is_open: bool,
    /// Number of its next frame, counted since `start`; used by full signatures.
    pub number: u64,
}

/// The fields of the last frame built that are not in the cursor; repeated while `repeats_left` is
/// not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameState {
    /// Its sequence number.
    pub seq_num: u32,
    /// Its IPv4 identification.
    pub ip_id: u16,
    /// Its offset in the source MACs.
    pub src_mac_offset: u32,
    /// Its offset in the destination MACs.
    pub dst_mac_offset: u32,
    /// Seconds of its time stamp.
    pub tv_sec: u32,
    /// Microseconds of its time stamp.
    pub tv_usec: u32,
    /// Nanoseconds beyond them.
    pub tv_nsec: u32,
    /// Its flow in a full signature.
    pub flow: u32,
    /// Its number in that flow.
    pub number: u64,
    /// Its IPsec sequence number and IV.
    pub numbers: SeqAndIv,
}

/// The state from which the next frame of a device instance is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence number of the next frame.
    pub seq_num: u32,
    /// IPv4 identification of the next frame built; counts builds since `add_device`.
    pub ip_id: u16,
    /// Requested length of the last frame, in bytes without FCS.
    pub frame_size: u32,
    /// Offset in the source MACs.
    pub src_mac_offset: u32,
    /// Offset in the destination MACs.
    pub dst_mac_offset: u32,
    /// Last IPv4 source.
    pub src_v4: Ipv4Addr,
    /// Last IPv4 destination.
    pub dst_v4: Ipv4Addr,
    /// IPv6 source.
    pub src_v6: Ipv6Addr,
    /// Last IPv6 destination.
    pub dst_v6: Ipv6Addr,
    /// Last UDP source port.
    pub udp_src: u16,
    /// Last UDP destination port.
    pub udp_dst: u16,
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
    /// VLAN id of the last frame.
    pub vlan_id: u16,
    /// Outer VLAN id of the last frame.
    pub svlan_id: u16,
    /// MPLS stack of the last frame, as in the setting (bit 0x100 marks a random one).
    pub mpls: Vec<u32>,
    /// The frame built last.
    pub built: FrameState,
    /// Remaining repeats of the last frame (`clone_skb`, `burst`).
    pub repeats_left: u32,
    /// Flow of the next frame of a plan with full signatures and without flow table.
    pub slot: u32,
    /// Its number in that flow.
    pub round: u64,
    /// Bytes of tags and labels that the frame sizes of this run include.
    pub overhead: u32,
    /// The source of all random values.
    pub rng: Rng,
    /// The state of a general plan.
    pub general: GeneralCursor,
}

impl Default for Cursor {
    /// The cursor of a device instance that never ran.
    fn default() -> Self {
        Self {
            seq_num: 0,
            ip_id: 0,
            frame_size: 0,
            src_mac_offset: 0,
            dst_mac_offset: 0,
            src_v4: Ipv4Addr::UNSPECIFIED,
            dst_v4: Ipv4Addr::UNSPECIFIED,
            src_v6: Ipv6Addr::UNSPECIFIED,
            dst_v6: Ipv6Addr::UNSPECIFIED,
            udp_src: 0,
            udp_dst: 0,
            queue: 0,
            queue_started: false,
            flow_index: 0,
            flows_started: 0,
            flows: Vec::new(),
            flow_sources: Vec::new(),
            associations: Arc::default(),
            imix_counts: Vec::new(),
            vlan_id: 0,
            svlan_id: 0,
            mpls: Vec::new(),
            built: FrameState::default(),
            repeats_left: 0,
            slot: 0,
            round: 0,
            overhead: 0,
            rng: Rng::default(),
            general: GeneralCursor::default(),
        }
    }
}

impl Cursor {
    /// Resets the counters of the run, and sets addresses, ports and size to their first values.
    ///
    /// The IP id, the flow table, the queue and random tags continue, as in pktgen. A seed in the
    /// configuration repeats the random values of an earlier run; without one, `fresh_seed` is
    /// used.
    pub fn start(&mut self, config: &Config, facts: &DeviceFacts, fresh_seed: u64) {
        self.rng = Rng(config.seed.unwrap_or(fresh_seed));
        self.seq_num = 1;
        self.frame_size = config.min_pkt_size;
        self.src_mac_offset = 0;
        self.dst_mac_offset = 0;
        self.udp_src = config.udp_src_min;
        self.udp_dst = config.udp_dst_min;
        self.flows_started = 0;
        self.repeats_left = 0;
        (self.slot, self.round) = (0, 0);
        self.flows.iter_mut().for_each(|flow| flow.number = 0);
        self.overhead = config.tags_len();
        self.imix_counts = vec![0; config.imix.len()];
        if config.flags.has(Flags::IPV6) {
            if self.src_v6.is_unspecified() {
                self.src_v6 = facts.v6_link_local.unwrap_or(Ipv6Addr::UNSPECIFIED);
            }
        } else {
            self.src_v4 = config.sources(facts).0;
            self.dst_v4 = config.dst_min.unwrap_or(Ipv4Addr::UNSPECIFIED);
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
        self.vlan_id = config.vlan_id.unwrap_or(0);
        self.svlan_id = config.svlan_id.unwrap_or(0);
        self.mpls.clone_from(&config.mpls);
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
        config.vlan_id = config.vlan_id.map(|_| self.vlan_id);
        config.svlan_id = config.svlan_id.map(|_| self.svlan_id);
        if config.mpls.len() == self.mpls.len() {
            config.mpls.clone_from(&self.mpls);
        }
    }
}
