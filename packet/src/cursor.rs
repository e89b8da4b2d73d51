//! How far a run has come: what the next frame starts from.
//!
//! These are pktgen's `cur_*` fields. `start` sets most of them back, some live as long as the device instance
//! (the IP id, the flow table, the random source), and a few commands move one at once.

use crate::ipsec::{Associations, Numbers};
use crate::{Config, DeviceFacts, Flags, Rng};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// One entry of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The destination that belongs to this flow while it is open.
    pub dst_v4: u32,
    /// Frames sent in it.
    pub count: u32,
    /// True from its first frame until it is closed.
    pub is_open: bool,
}

/// What the frame built last carries beside the cursor's own values; sent again while `repeats_left` lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Its sequence number.
    pub seq_num: u32,
    /// Its IPv4 identification.
    pub ip_id: u16,
    /// Its place in the source MACs.
    pub src_mac_offset: u32,
    /// Its place in the destination MACs.
    pub dst_mac_offset: u32,
    /// Seconds of its time stamp.
    pub tv_sec: u32,
    /// Microseconds of its time stamp.
    pub tv_usec: u32,
    /// What IPsec numbers it with.
    pub numbers: Numbers,
}

/// Where the next frame of a device instance starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence number of the next frame.
    pub seq_num: u32,
    /// IPv4 identification of the next frame built; counts builds since `add_device`.
    pub ip_id: u16,
    /// Length of the last frame as asked for, in bytes without FCS.
    pub frame_size: u32,
    /// Place in the source MACs.
    pub src_mac_offset: u32,
    /// Place in the destination MACs.
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
    /// The source that each flow was opened with, by which it found its association; empty without IPSEC.
    pub flow_sources: Vec<Ipv4Addr>,
    /// The associations that a run with IPSEC goes by: to be read from the kernel before [`Cursor::start`].
    pub associations: Arc<Associations>,
    /// Frames of each IMIX size sent since `start`.
    pub imix_counts: Vec<u64>,
    /// VLAN id of the last frame.
    pub vlan_id: u16,
    /// Outer VLAN id of the last frame.
    pub svlan_id: u16,
    /// MPLS stack of the last frame, in the words of the setting (bit 0x100 marks a random one).
    pub mpls: Vec<u32>,
    /// The frame built last.
    pub built: Built,
    /// Times the frame built last is still to go out unchanged (`clone_skb`, `burst`).
    pub repeats_left: u32,
    /// Bytes of tags and labels that the frame sizes of this run include.
    pub overhead: u32,
    /// The source of every random draw.
    pub rng: Rng,
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
            built: Built::default(),
            repeats_left: 0,
            overhead: 0,
            rng: Rng::default(),
        }
    }
}

impl Cursor {
    /// What `start` sets up: counters of the run to their beginning, addresses, ports and size to their first.
    ///
    /// The IP id, the flow table, the queue and randomised tags go on from where they were, as in pktgen. A
    /// seed in the configuration makes the run draw what it drew before; without one, `fresh_seed` is used.
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

    /// Takes over what a change of the settings means for a run that goes on: tables of the right size, tags
    /// and labels as set.
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

    /// Moves over the next `count` frames, all of them repeats of the one before: `count` is at most `repeats_left`.
    pub fn repeat(&mut self, count: u32) {
        self.repeats_left -= count;
        self.seq_num = self.seq_num.wrapping_add(count);
    }

    /// Ends the repeats of a frame that has gone out already, of `repeats` times; one that was built and found no room
    /// yet stays the next. To be called before what frames are changes.
    pub fn end_repeats(&mut self, repeats: u32) {
        if self.repeats_left < repeats {
            self.repeats_left = 0;
        }
    }

    /// Writes tags and labels that were drawn at random back into the settings, where pktgen shows them.
    pub fn write_back(&self, config: &mut Config) {
        config.vlan_id = config.vlan_id.map(|_| self.vlan_id);
        config.svlan_id = config.svlan_id.map(|_| self.svlan_id);
        if config.mpls.len() == self.mpls.len() {
            config.mpls.clone_from(&self.mpls);
        }
    }
}
