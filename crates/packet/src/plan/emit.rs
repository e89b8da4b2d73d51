//! Frames from a plan: advancing the cursor and writing the bytes.
//!
//! The order of the steps, and so of the random numbers, is that of pktgen (specification 6.3) and
//! of the BPF programs (`plan.h`): flow, fields in order, queue, next packet. A differential test
//! compares the bytes: change both.

use super::spec::entropy;
use super::{Field, FieldMode, FrameFacts, PacketOrder, PacketPlan, Plan, Walk};
use crate::flow_sa::FlowAssociations;
use crate::wire::{FrameClock, WallTime};
use crate::{Cursor, Flow, SignatureLevel, Slot};
use std::net::Ipv4Addr;

impl Plan {
    /// Writes the next frame to the start of `out` and returns its length in bytes without FCS.
    ///
    /// 0 is a frame that must not be sent: there is no security association for it, as for a flow
    /// that another plan opened.
    ///
    /// `now_ns` is the time by [`Plan::clock`], for frames that carry it; it is not used when the
    /// last frame is repeated.
    ///
    /// # Panics
    /// Without packets, and when `out` is shorter than the frame; [`Plan::frame_len_max`] bytes are
    /// always enough.
    pub fn emit(&self, cursor: &mut Cursor, now_ns: u64, out: &mut [u8]) -> usize {
        if cursor.repeats_left == 0 {
            self.build(cursor, now_ns);
            if let Some(ipsec) = &self.ipsec {
                ipsec.take_sequence(&self.packets[cursor.packet], cursor);
            }
        }
        cursor.repeats_left -= 1;
        cursor.seq_num = cursor.seq_num.wrapping_add(1);
        self.write(cursor, out)
    }

    /// True for a plan of one packet whose fields depend on nothing but their own state, as most
    /// plans are.
    pub fn is_plain(&self) -> bool {
        let is_plain = |field: &Field| {
            let needs_others =
                matches!(field.mode, FieldMode::Mix(_) | FieldMode::Length(_) | FieldMode::Entropy { .. });
            field.hold == 1 && !needs_others
        };
        self.packets.len() == 1
            && self.packets[0].fields.iter().all(is_plain)
            && self.repeats == 1
            && self.flows.count == 0
            && self.signature.level < SignatureLevel::Full
            && self.ipsec.is_none()
            && !self.size_moves()
    }

    /// [`Plan::emit`] in one pass over the fields, which takes half the time, for a plan that
    /// [`Plan::is_plain`] and a cursor whose last frame is not repeated.
    pub fn emit_plain(&self, cursor: &mut Cursor, now_ns: u64, out: &mut [u8]) -> usize {
        let packet = &self.packets[0];
        let facts = self.facts(cursor, now_ns);
        let frame_len = self.clear_len(packet, cursor);
        let frame = start_frame(packet, frame_len, out);
        for (field, slot) in packet.fields.iter().zip(&packet.slots) {
            let value = field.mode.next(&mut cursor.states[*slot], &mut cursor.rng, &facts);
            cursor.values[*slot] = value;
            field.write(frame, value);
        }
        packet.sums.iter().for_each(|sum| sum.write(frame));
        self.step_queue(cursor);
        cursor.number = cursor.number.wrapping_add(1);
        cursor.seq_num = cursor.seq_num.wrapping_add(1);
        frame_len
    }

    /// Advances the cursor as [`Plan::emit`] does with the time zero, without an IPsec sequence
    /// number: to find the cursor of an earlier frame.
    pub fn skip(&self, cursor: &mut Cursor) {
        if cursor.repeats_left == 0 {
            self.build(cursor, 0);
        }
        cursor.repeats_left -= 1;
        cursor.seq_num = cursor.seq_num.wrapping_add(1);
    }

    /// Reads the times of a frame of this plan back into the cursor that repeats it.
    pub fn read_times(&self, cursor: &mut Cursor, frame: &[u8]) {
        let packet = &self.packets[cursor.packet];
        for (field, slot) in packet.fields.iter().zip(&packet.slots) {
            if field.mode.clock().is_some() && field.offset + field.width <= frame.len() {
                cursor.values[*slot] = field.read(frame);
            }
        }
    }

    /// Advances all fields for the next `repeats` frames.
    fn build(&self, cursor: &mut Cursor, now_ns: u64) {
        let packet = &self.packets[cursor.next_packet];
        cursor.packet = cursor.next_packet;
        let flow = self.pick_flow(cursor);
        let mut frame = self.facts(cursor, now_ns);
        self.count_in_flow(cursor, &mut frame);
        for (index, (field, slot)) in packet.fields.iter().zip(&packet.slots).enumerate() {
            let value = match &field.mode {
                _ if flow.is_some() && self.flows.field == Some(index) => {
                    self.flow_value(cursor, flow, field, *slot, &frame)
                }
                FieldMode::Mix(mix) => {
                    let entry = mix.entry(cursor.rng.next_u32());
                    cursor.imix_counts[entry] += 1;
                    cursor.states[*slot] = mix.sizes[entry].into();
                    cursor.states[*slot]
                }
                FieldMode::Length(more) => u64::from(self.payload_len(cursor) + more),
                FieldMode::Entropy { keys } => {
                    entropy(keys.iter().map(|key| cursor.values[packet.slots[*key]]))
                }
                _ => next_value(field, *slot, cursor, &frame),
            };
            cursor.values[*slot] = value;
        }
        self.step_queue(cursor);
        if let Some(flow) = flow {
            cursor.flows[flow].count += 1;
        }
        self.choose_packet(cursor);
        cursor.number = cursor.number.wrapping_add(1);
        cursor.repeats_left = self.repeats;
        if let Some(ipsec) = &self.ipsec {
            ipsec.draw_iv(packet, cursor);
        }
    }

    /// What fields take their values from; the flow is not known yet.
    fn facts(&self, cursor: &Cursor, now_ns: u64) -> FrameFacts {
        let wall = match self.clock {
            Some(FrameClock::Wall) => WallTime::from_ns(now_ns),
            _ => WallTime::default(),
        };
        let (number, seq_num) = (cursor.number, cursor.seq_num);
        FrameFacts { number, seq_num, now_ns, wall, flow: 0, flow_number: 0 }
    }

    fn choose_packet(&self, cursor: &mut Cursor) {
        cursor.next_packet = match self.order {
            _ if self.packets.len() == 1 => 0,
            PacketOrder::RoundRobin => (cursor.next_packet + 1) % self.packets.len(),
            PacketOrder::Random => cursor.rng.below(self.packets.len() as u32) as usize,
        };
    }

    /// The flow of the next frame; closes it first when it has had its frames.
    fn pick_flow(&self, cursor: &mut Cursor) -> Option<usize> {
        if self.flows.count == 0 {
            return None;
        }
        if self.flows.is_sequential {
            let current = &mut cursor.flows[cursor.flow_index as usize];
            if current.count >= self.flows.len {
                *current = Flow { count: 0, is_open: false, ..*current };
                cursor.flow_index = (cursor.flow_index + 1) % self.flows.count;
            }
        } else {
            cursor.flow_index = cursor.rng.below(self.flows.count);
            let drawn = &mut cursor.flows[cursor.flow_index as usize];
            if drawn.count > self.flows.len {
                *drawn = Flow { count: 0, is_open: false, ..*drawn };
            }
        }
        Some(cursor.flow_index as usize)
    }

    /// The value that a field has in a flow: that of its first frame.
    fn flow_value(
        &self,
        cursor: &mut Cursor,
        flow: Option<usize>,
        field: &Field,
        slot: usize,
        frame: &FrameFacts,
    ) -> u64 {
        let index = flow.unwrap_or(0);
        if cursor.flows[index].is_open {
            cursor.states[slot] = cursor.flows[index].value;
            return cursor.flows[index].value;
        }
        let value = next_value(field, slot, cursor, frame);
        cursor.flows[index] = Flow { value, is_open: true, ..cursor.flows[index] };
        cursor.flows_started = cursor.flows_started.wrapping_add(1);
        if let Some(source) = cursor.flow_sources.get_mut(index) {
            *source = Ipv4Addr::from(cursor.states[Slot::SRC_V4.0] as u32);
        }
        value
    }

    /// Sets flow and number of the next built frame, which only full signatures have.
    fn count_in_flow(&self, cursor: &mut Cursor, frame: &mut FrameFacts) {
        if self.signature.level < SignatureLevel::Full {
            return;
        }
        let (flow, number) = match cursor.flows.get_mut(cursor.flow_index as usize) {
            Some(flow) if self.flows.count > 0 => {
                flow.number += 1;
                (cursor.flow_index, flow.number - 1)
            }
            _ => {
                let at = (cursor.slot, cursor.round + u64::from(cursor.in_row));
                cursor.in_row += 1;
                if cursor.in_row >= self.signature.flow_len {
                    (cursor.in_row, cursor.slot) = (0, cursor.slot + 1);
                }
                if cursor.slot >= self.signature.flow_count {
                    (cursor.slot, cursor.round) = (0, cursor.round + u64::from(self.signature.flow_len));
                }
                at
            }
        };
        frame.flow = self.signature.flow_first.wrapping_add(flow);
        frame.flow_number = number;
    }

    /// A queue that is not in the range (as on a fresh device) is followed by the first one of the
    /// range.
    fn step_queue(&self, cursor: &mut Cursor) {
        let super::Range { walk, min, max } = self.queue;
        let current = u32::from(cursor.queue);
        let next = match walk {
            Walk::Fixed => min,
            Walk::Random => min + cursor.rng.below(max - min + 1),
            Walk::Count if !cursor.queue_started || current < min || current >= max => min,
            Walk::Count => current + 1,
        };
        cursor.queue_started = true;
        cursor.queue = if max < u32::from(self.queue_count) {
            next as u16
        } else {
            (next % u32::from(self.queue_count)) as u16
        };
    }

    /// Bytes of the payload of the frame of the cursor.
    fn payload_len(&self, cursor: &Cursor) -> u32 {
        let Some(length) = &self.length else { return 0 };
        let size = cursor.states[length.slot] as u32;
        let protection =
            self.ipsec.as_ref().and_then(|ipsec| ipsec.current(&self.packets[cursor.packet], cursor));
        length.payload_len(size.saturating_sub(protection.map_or(0, |one| one.header_len() as u32)))
    }

    /// Writes the frame of the cursor.
    fn write(&self, cursor: &Cursor, out: &mut [u8]) -> usize {
        match &self.ipsec {
            None => self.write_clear(cursor, out),
            Some(associations) => self.write_protected(associations, cursor, out),
        }
    }

    /// Writes the frame of the cursor, protected by IPsec; 0 when it has no association.
    fn write_protected(&self, associations: &FlowAssociations, cursor: &Cursor, out: &mut [u8]) -> usize {
        let packet = &self.packets[cursor.packet];
        let Some(association) = associations.current(packet, cursor) else { return 0 };
        let clear_len = self.write_clear(cursor, out);
        associations.protect(association, cursor, out, clear_len)
    }

    fn write_clear(&self, cursor: &Cursor, out: &mut [u8]) -> usize {
        let packet = &self.packets[cursor.packet];
        let frame_len = self.clear_len(packet, cursor);
        let frame = start_frame(packet, frame_len, out);
        for (field, slot) in packet.fields.iter().zip(&packet.slots) {
            field.write(frame, cursor.values[*slot]);
        }
        packet.sums.iter().for_each(|sum| sum.write(frame));
        frame_len
    }

    /// Bytes of the frame of the cursor, before it is protected by IPsec.
    fn clear_len(&self, packet: &PacketPlan, cursor: &Cursor) -> usize {
        match &self.length {
            None => packet.template.len(),
            Some(length) => (length.headers_len + self.payload_len(cursor)) as usize,
        }
    }
}

/// Writes the template and the zeros behind it; returns the bytes of the template.
fn start_frame<'a>(packet: &PacketPlan, frame_len: usize, out: &'a mut [u8]) -> &'a mut [u8] {
    let (start, zeros) = out[..frame_len].split_at_mut(packet.template.len());
    start.copy_from_slice(&packet.template);
    if !zeros.is_empty() {
        zeros.fill(0);
    }
    start
}

/// The value of a field in a frame, which is the last one as long as the field holds it.
#[inline]
fn next_value(field: &Field, slot: usize, cursor: &mut Cursor, frame: &FrameFacts) -> u64 {
    if field.hold > 1 {
        if cursor.held[slot] > 0 {
            cursor.held[slot] -= 1;
            return cursor.values[slot];
        }
        cursor.held[slot] = field.hold - 1;
    }
    field.mode.next(&mut cursor.states[slot], &mut cursor.rng, frame)
}
