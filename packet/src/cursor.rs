//! How far a run has come: what the next frame starts from.
//!
//! These are pktgen's `cur_*` fields. `start` sets most of them back, some live as long as the device instance
//! (the IP id, the flow table, the random source), and a few commands move one at once.

use crate::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

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
    /// Flow of the last frame.
    pub flow_index: u32,
    /// Flows opened since `start`.
    pub flows_started: u32,
    /// The flow table; grows to as many entries as there are flows.
    pub flows: Vec<Flow>,
    /// Frames of each IMIX size sent since `start`.
    pub imix_counts: Vec<u64>,
    /// Times the frame built last is still to go out unchanged (`clone_skb`, `burst`).
    pub repeats_left: u32,
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
            flow_index: 0,
            flows_started: 0,
            flows: Vec::new(),
            imix_counts: Vec::new(),
            repeats_left: 0,
            rng: Rng::default(),
        }
    }
}
