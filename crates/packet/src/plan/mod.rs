//! Plans: any frame, as a template with fields that change and checksums that follow them.
//!
//! [`FrameSpec`] describes one packet. [`Plan`] prepares a list of them: a checksum is its constant
//! part, computed once, and the bytes that a frame adds to it. pktgen's settings become a plan in
//! `pktgen`. [`Plan::emit`] and the BPF programs (`crates/bpf/src/bpf/plan.h`) write the same
//! frames.

mod emit;
mod mark;
mod packet_plan;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod spec;
mod sums;
#[cfg(test)]
mod tests;

pub use mark::{FrameMark, MARK_LEN, MarkCount};
pub use packet_plan::PacketPlan;
pub use spec::{
    ChecksumField, ENTROPY_BITS, ENTROPY_MIN, Field, FieldMode, FrameFacts, FrameSpec, Imix, PseudoHeader,
    SumKind, read_bits, write_bits,
};
pub use sums::{SumPlan, SumSource};

use crate::flow_sa::FlowAssociations;
use crate::ipsec::Associations;
use crate::pktgen::Layout;
use crate::wire::{FRAME_LEN_MAX, FrameClock};
use crate::{Config, Cursor, DeviceFacts, PlanError, SignatureSetting};
use std::sync::Arc;

/// Which packet is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// One after the other, then from the first again.
    #[default]
    RoundRobin,
    /// The first packet, then any.
    Random,
}

/// How a number changes from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// Constant.
    #[default]
    Fixed,
    /// Incremented, back to the start after the end.
    Count,
    /// Random.
    Random,
}

/// A number and its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// How it changes.
    pub walk: Walk,
    /// First or only value.
    pub min: u32,
    /// Last value.
    pub max: u32,
}

/// The length of frames whose payload is as long as a size says: zeros follow the template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthRule {
    /// Bytes in front of the payload.
    pub headers_len: u32,
    /// Part of a size that is not payload.
    pub fixed_len: u32,
    /// Least bytes of the payload.
    pub payload_min: u32,
    /// The greatest size.
    pub size_max: u32,
    /// The place of the size in [`Cursor::states`].
    pub slot: usize,
}

impl LengthRule {
    /// Bytes of the payload of a frame of this size.
    #[inline]
    pub fn payload_len(&self, size: u32) -> u32 {
        size.saturating_sub(self.fixed_len).max(self.payload_min)
    }

    /// Bytes of a frame of this size.
    #[inline]
    pub fn frame_len(&self, size: u32) -> u32 {
        self.headers_len + self.payload_len(size)
    }
}

/// A table of flows: frames of a flow have one value in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// Number of flows, 0 for none; [`Cursor::flows`] has as many entries.
    pub count: u32,
    /// Frames of one flow.
    pub len: u32,
    /// Flows come one after the other instead of at random.
    pub is_sequential: bool,
    /// The field that keeps its value in a flow; `None` if none does.
    pub field: Option<usize>,
}

/// The frames of a run on one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub(crate) packets: Vec<PacketPlan>,
    pub(crate) order: PacketOrder,
    /// The lengths of the frames; `None` if each is as long as its template.
    pub length: Option<LengthRule>,
    /// The flow table.
    pub flows: FlowRule,
    /// Times each frame is sent; at least 1.
    pub repeats: u32,
    /// Transmit queues, `max` included.
    pub queue: Range,
    /// Queues of the device; at least 1.
    pub queue_count: u16,
    /// The signature at the start of the UDP payload of pktgen's frames.
    pub signature: SignatureSetting,
    /// Places of the headers of pktgen's frames.
    pub layout: Layout,
    /// The security associations of the frames; `None` for frames in clear.
    pub ipsec: Option<FlowAssociations>,
    /// The clock whose time the frames carry; `None` if they carry none.
    pub(crate) clock: Option<FrameClock>,
}

impl Plan {
    /// Prepares packets. Without packets, it yields no frames.
    pub fn of_specs(specs: &[FrameSpec], order: PacketOrder) -> Self {
        Self::of_packet_lengths(specs, specs.len(), order)
    }

    /// Prepares packets that are one flow in different lengths: they share the states of their
    /// fields. So a field counts the frames of the plan, whatever their lengths.
    ///
    /// # Panics
    /// When packets differ in the modes or the hold of their fields.
    pub fn of_lengths(specs: &[FrameSpec], order: PacketOrder) -> Self {
        Self::of_packet_lengths(specs, 1, order)
    }

    /// Prepares `packet_count` packets in several lengths: all packets in the first length, then in
    /// the next one. A packet has the same states in all lengths.
    ///
    /// # Panics
    /// When the lengths of a packet differ in the modes or the hold of their fields.
    pub fn of_packet_lengths(specs: &[FrameSpec], packet_count: usize, order: PacketOrder) -> Self {
        let modes = |spec: &FrameSpec| {
            spec.fields.iter().map(|field| (field.mode.clone(), field.hold)).collect::<Vec<_>>()
        };
        let first: Vec<_> = specs.iter().take(packet_count).map(modes).collect();
        let mut field_count = 0;
        let first_slot = first.iter().map(|modes| {
            field_count += modes.len();
            field_count - modes.len()
        });
        let first_slot: Vec<usize> = first_slot.collect();
        let prepare = |(index, spec): (usize, &FrameSpec)| {
            let number = index % packet_count;
            assert_eq!(modes(spec), first[number], "packets that share their states have the same fields");
            PacketPlan {
                template: spec.first_template(),
                fields: spec.fields.clone(),
                slots: (first_slot[number]..).take(spec.fields.len()).collect(),
                // Nothing moves the checksums of a packet without fields: its template has them.
                sums: if spec.fields.is_empty() { Vec::new() } else { SumPlan::of(spec) },
            }
        };
        let packets = specs.iter().enumerate().map(prepare).collect();
        Self { packets, order, repeats: 1, queue_count: 1, ..Self::default() }.with_clock()
    }

    /// The plan for a device, and the cursor before its first frame.
    pub fn on(self, facts: &DeviceFacts) -> (Self, Cursor) {
        let cursor = self.start();
        (Self { queue_count: facts.tx_queues.max(1), ..self }, cursor)
    }

    /// Finds out which clock the fields read.
    pub(crate) fn with_clock(mut self) -> Self {
        let mut clocks =
            self.packets.iter().flat_map(|packet| &packet.fields).filter_map(|field| field.mode.clock());
        self.clock = clocks.next();
        self
    }

    /// [`Cursor::held`] before the first frame, for this number of states.
    fn none_held(&self, state_count: usize) -> Vec<u32> {
        vec![0; if self.holds() { state_count } else { 0 }]
    }

    /// True if fields keep a value for several frames.
    pub fn holds(&self) -> bool {
        self.packets.iter().flat_map(|packet| &packet.fields).any(|field| field.hold > 1)
    }

    /// The packets, in order.
    pub fn packets(&self) -> &[PacketPlan] {
        &self.packets
    }

    /// Which packet is next.
    pub fn order(&self) -> PacketOrder {
        self.order
    }

    /// The start of a frame: the template of the first packet.
    pub fn template(&self) -> &[u8] {
        self.packets.first().map_or(&[], |packet| &packet.template)
    }

    /// True if all frames have a VLAN tag, for which a device accepts four bytes beyond its MTU.
    pub fn is_tagged(&self) -> bool {
        let is_tagged = |packet: &PacketPlan| {
            let ether_type = packet.template.get(12..14);
            let is_tag = |bytes: &[u8]| [[0x81, 0], [0x88, 0xa8]].contains(&[bytes[0], bytes[1]]);
            self.layout.vlan != 0 || self.layout.svlan != 0 || ether_type.is_some_and(is_tag)
        };
        self.packets.iter().all(is_tagged)
    }

    /// The clock whose time the frames carry, if they carry one.
    pub fn clock(&self) -> FrameClock {
        self.clock.unwrap_or(FrameClock::Monotonic)
    }

    /// True if the frames carry the time.
    pub fn has_time(&self) -> bool {
        self.clock.is_some()
    }

    /// The longest possible frame, in bytes without FCS.
    pub fn frame_len_max(&self) -> u32 {
        self.packet_lens().max().unwrap_or(0)
    }

    /// The longest possible frame of each packet, in bytes without FCS.
    pub fn packet_lens(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().enumerate().map(|(index, packet)| {
            let clear_len = |header_len: u32| match &self.length {
                None => packet.template.len() as u32,
                Some(length) => length.frame_len(length.size_max.saturating_sub(header_len)),
            };
            match &self.ipsec {
                None => clear_len(0),
                Some(ipsec) => ipsec.frame_len_max(index, clear_len),
            }
        })
    }

    /// The same frames with IPsec, if the settings of a run ask for it: what stands behind their
    /// outermost IPv4 header is protected.
    ///
    /// # Errors
    /// [`PlanError`] for a packet that cannot be protected, frames without a security association,
    /// and frames that become too long.
    pub fn protected(self, config: &Config, associations: &Arc<Associations>) -> Result<Self, PlanError> {
        if !config.asks_for_ipsec() {
            return Ok(self);
        }
        let ipsec = FlowAssociations::of_packets(config.spi, associations, &self.packets)?;
        let plan = Self { ipsec: Some(ipsec), ..self };
        plan.check_lengths().map(|()| plan)
    }

    /// # Errors
    /// [`PlanError::TooLong`] for frames that IPsec makes too long.
    pub(crate) fn check_lengths(&self) -> Result<(), PlanError> {
        match self.frame_len_max() {
            frame_len if frame_len > FRAME_LEN_MAX => Err(PlanError::TooLong { frame_len }),
            _ => Ok(()),
        }
    }

    /// True when the length differs from frame to frame; that of frames with IPsec depends on their
    /// association.
    pub fn size_moves(&self) -> bool {
        let longest = self.frame_len_max() as usize;
        match &self.length {
            None => self.packets.iter().any(|packet| packet.template.len() != longest),
            Some(length) => self.ipsec.is_some() || self.packets[0].slots.contains(&length.slot),
        }
    }

    /// The state before the first frame of a plan that was made of packets.
    pub fn start(&self) -> Cursor {
        let mut states = Vec::new();
        for packet in &self.packets {
            for (field, slot) in packet.fields.iter().zip(&packet.slots) {
                // Later packets that share the states of the first one add none.
                if *slot == states.len() {
                    states.push(field.mode.start());
                }
            }
        }
        let values = vec![0; states.len()];
        Cursor { seq_num: 1, values, held: self.none_held(states.len()), states, ..Cursor::default() }
    }
}
