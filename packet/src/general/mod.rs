//! General plans: any frame, as a template with fields that change and checksums that follow them.
//!
//! [`FrameSpec`] describes one packet. [`GeneralPlan`] prepares a list of them: a checksum is its
//! constant part, computed once, and the bytes that a frame adds to it. The same prepared numbers
//! drive [`GeneralPlan::emit`] and the BPF programs (`bpf/src/bpf/general.h`).

mod mark;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod spec;
mod sums;
#[cfg(test)]
mod tests;

pub use mark::{FrameMark, MARK_LEN, MarkCount};
pub use spec::{ChecksumField, Field, FieldMode, FrameSpec, PseudoHeader, SumKind, read_bits, write_bits};
pub use sums::{SumPlan, SumSource};

use crate::Rng;

/// Which packet is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// One after the other, then from the first again.
    #[default]
    RoundRobin,
    /// The first packet, then any.
    Random,
}

/// One packet, prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPlan {
    /// The bytes of the frame before fields and checksums are applied.
    pub template: Vec<u8>,
    /// Applied in order.
    pub fields: Vec<Field>,
    /// Computed in order after the fields.
    pub sums: Vec<SumPlan>,
    /// Index of the state of its first field. Packets that share their states have the same.
    pub first_state: usize,
}

/// The packets of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneralPlan {
    packets: Vec<PacketPlan>,
    order: PacketOrder,
    frame_len_max: usize,
}

/// The state of the next frame of a [`GeneralPlan`], beside its random numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneralCursor {
    /// Index of the next packet.
    pub next_packet: usize,
    /// Number of the next frame in the run.
    pub number: u32,
    /// The state of each field of each packet, or of each field that the packets share.
    pub states: Vec<u64>,
}

impl PacketPlan {
    /// True if a VLAN tag follows the MAC addresses.
    pub(crate) fn is_tagged(&self) -> bool {
        self.template
            .get(12..14)
            .is_some_and(|bytes| [[0x81, 0], [0x88, 0xa8]].contains(&[bytes[0], bytes[1]]))
    }
}

impl GeneralPlan {
    /// Prepares packets. Without packets, it yields no frames.
    pub fn new(specs: &[FrameSpec], order: PacketOrder) -> Self {
        Self::of_packet_lengths(specs, specs.len(), order)
    }

    /// Prepares packets that are one flow in different lengths: they share the states of their
    /// fields. So a field counts the frames of the plan, whatever their lengths.
    ///
    /// # Panics
    /// When packets differ in the modes of their fields.
    pub fn of_lengths(specs: &[FrameSpec], order: PacketOrder) -> Self {
        Self::of_packet_lengths(specs, 1, order)
    }

    /// Prepares `packet_count` packets in several lengths: all packets in the first length, then in
    /// the next one. A packet has the same states in all lengths.
    ///
    /// # Panics
    /// When the lengths of a packet differ in the modes of their fields.
    pub fn of_packet_lengths(specs: &[FrameSpec], packet_count: usize, order: PacketOrder) -> Self {
        let modes = |spec: &FrameSpec| spec.fields.iter().map(|field| field.mode.clone()).collect::<Vec<_>>();
        let first: Vec<_> = specs.iter().take(packet_count).map(modes).collect();
        let mut field_count = 0;
        let first_state = first.iter().map(|modes| {
            field_count += modes.len();
            field_count - modes.len()
        });
        let first_state: Vec<usize> = first_state.collect();
        let prepare = |(index, spec): (usize, &FrameSpec)| {
            let number = index % packet_count;
            assert_eq!(modes(spec), first[number], "packets that share their states have the same fields");
            PacketPlan {
                template: spec.first_template(),
                fields: spec.fields.clone(),
                // Nothing moves the checksums of a packet without fields: its template has them.
                sums: if spec.fields.is_empty() { Vec::new() } else { SumPlan::of(spec) },
                first_state: first_state[number],
            }
        };
        let packets: Vec<PacketPlan> = specs.iter().enumerate().map(prepare).collect();
        let frame_len_max = packets.iter().map(|packet| packet.template.len()).max().unwrap_or(0);
        Self { packets, order, frame_len_max }
    }

    /// The packets, in order.
    pub fn packets(&self) -> &[PacketPlan] {
        &self.packets
    }

    /// Which packet is next.
    pub fn order(&self) -> PacketOrder {
        self.order
    }

    /// The longest frame, in bytes without FCS.
    pub fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    /// True when packets have different lengths.
    pub fn size_moves(&self) -> bool {
        self.packets.iter().any(|packet| packet.template.len() != self.frame_len_max)
    }

    /// True if frames carry the time.
    pub fn has_time(&self) -> bool {
        self.packets.iter().flat_map(|packet| &packet.fields).any(|field| field.mode == FieldMode::Time)
    }

    /// The state before the first frame.
    pub fn start(&self) -> GeneralCursor {
        let mut states = Vec::new();
        for packet in &self.packets {
            // Later packets that share the states of the first one add none.
            if packet.first_state == states.len() {
                states.extend(packet.fields.iter().map(|field| field.mode.start()));
            }
        }
        GeneralCursor { next_packet: 0, number: 0, states }
    }

    /// Writes the next frame to the start of `out` and returns its length. `now_ns` is the time by
    /// `CLOCK_MONOTONIC`, for frames that carry it.
    ///
    /// # Panics
    /// Without packets, and when `out` is shorter than the frame.
    pub fn emit(&self, cursor: &mut GeneralCursor, rng: &mut Rng, now_ns: u64, out: &mut [u8]) -> usize {
        let packet = &self.packets[cursor.next_packet];
        let frame = &mut out[..packet.template.len()];
        frame.copy_from_slice(&packet.template);
        self.advance(cursor, rng, now_ns, |field, value| field.write(frame, value));
        for sum in &packet.sums {
            sum.write(frame);
        }
        frame.len()
    }

    /// Advances the cursor as [`Self::emit`] does.
    pub fn skip(&self, cursor: &mut GeneralCursor, rng: &mut Rng) {
        self.advance(cursor, rng, 0, |_, _| ());
    }

    /// Moves all fields of the next packet, then chooses the packet after it.
    fn advance(
        &self,
        cursor: &mut GeneralCursor,
        rng: &mut Rng,
        now_ns: u64,
        mut write: impl FnMut(&Field, u64),
    ) {
        let packet = &self.packets[cursor.next_packet];
        for (field, state) in packet.fields.iter().zip(&mut cursor.states[packet.first_state..]) {
            write(field, field.mode.next(state, rng, cursor.number, now_ns));
        }
        cursor.number = cursor.number.wrapping_add(1);
        cursor.next_packet = match self.order {
            _ if self.packets.len() == 1 => 0,
            PacketOrder::RoundRobin => (cursor.next_packet + 1) % self.packets.len(),
            PacketOrder::Random => rng.below(self.packets.len() as u32) as usize,
        };
    }
}
