//! Conversion of plans and cursors to the types of the BPF programs, and back.

use crate::EngineError;
use crate::engine_kind::EngineKind;
use bpf::abi::{self, FieldKind as Kind, FieldMode as Mode, PlanFlag as Flag, SumOpKind as Sum};
use bpf::{PlanProgram, State};
use packet::plan::{
    ENTROPY_BITS, ENTROPY_MIN, Field, FieldMode, Imix, PacketOrder, PacketPlan, SumKind, SumPlan, SumSource,
};
use packet::{Cursor, Flow, Plan, Rng, SignatureLevel, Walk};
use std::collections::BTreeMap;

/// Bytes of the template that each frame gets anew, because a receiver may have changed them: the
/// headers, with a tunnel.
const TEMPLATE_LEN_MAX: usize = abi::TEMPLATE_MAX;

/// The number that is added to [`ENTROPY_MIN`] has the highest of 64 mixed bits.
const ENTROPY_SHIFT: u64 = (u64::BITS - ENTROPY_BITS) as u64;

/// The program for one device, or its receive path (`receive`), that starts at `cursor`.
///
/// # Errors
/// What the program cannot do.
pub(crate) fn program(
    plan: &Plan,
    cursor: &Cursor,
    ifindex: u32,
    receive: bool,
) -> Result<PlanProgram, EngineError> {
    let mut lists = Lists::default();
    for packet in plan.packets() {
        lists.add(plan, packet)?;
    }
    let state_count = state_count(plan);
    let held_count = if plan.holds() { state_count } else { 0 };
    let Lists { packets, fields, ops, values, touched_len, .. } = lists;
    if state_count > abi::STATES_MAX {
        return Err(unable(format!("{state_count} moving fields: at most {}", abi::STATES_MAX)));
    }
    let is_unrolled =
        packets.len() == 1 && fields.len() <= abi::FIELDS_UNROLLED && ops.len() <= abi::SUM_OPS_UNROLLED;
    let mut words = abi::Plan { ifindex, ..rules(plan) };
    words.flags |= flags(plan, cursor) | if receive { Flag::WR_PLAN_RECEIVE.0 } else { 0 };
    if !is_unrolled {
        if plan.length.is_some() {
            // In maps, a frame is as long as its template.
            let (found, most) = (fields.len(), abi::FIELDS_UNROLLED);
            return Err(unable(format!("frames with {found} fields that change: at most {most}")));
        }
        words.flags |= Flag::WR_PLAN_IN_MAPS.0;
        return Ok(PlanProgram { plan: words, packets, fields, ops, values, state_count, held_count });
    }
    let template = plan.template();
    let template_len = template.len().min(TEMPLATE_LEN_MAX);
    words.template[..template_len].copy_from_slice(&template[..template_len]);
    words.template_len = template_len as u32;
    words.touched_len = touched_len.max(template_len) as u32;
    words.field_count = fields.len() as u32;
    words.op_count = ops.len() as u32;
    words.fields[..fields.len()].copy_from_slice(&fields);
    words.ops[..ops.len()].copy_from_slice(&ops);
    let (packets, fields, ops) = (Vec::new(), Vec::new(), Vec::new());
    Ok(PlanProgram { plan: words, packets, fields, ops, values, state_count, held_count })
}

/// True if the skb program can build the frames of a program.
pub(crate) fn is_for_skb(program: &PlanProgram) -> bool {
    program.plan.flags & Flag::WR_PLAN_IN_MAPS.0 == 0
}

/// The states of all fields, each once: those of an only packet in the order of its fields.
fn state_count(plan: &Plan) -> usize {
    match plan.packets() {
        [only] => only.slots.len(),
        all => all.iter().filter_map(|packet| packet.slots.last()).max().map_or(0, |last| last + 1),
    }
}

/// The place in [`Cursor::states`] of each state of the program.
fn slots(plan: &Plan) -> Vec<usize> {
    match plan.packets() {
        [only] => only.slots.clone(),
        _ => (0..state_count(plan)).collect(),
    }
}

/// The rules of a plan that are numbers.
fn rules(plan: &Plan) -> abi::Plan {
    let length = plan.length.unwrap_or_default();
    let mut words = abi::Plan {
        frame_len_max: plan.frame_len_max(),
        packet_count: plan.packets().len() as u32,
        repeats: plan.repeats,
        headers_len: length.headers_len,
        fixed_len: length.fixed_len,
        payload_min: length.payload_min,
        queue_min: plan.queue.min,
        queue_max: plan.queue.max,
        queue_count: u32::from(plan.queue_count),
        flow_count: plan.flows.count,
        flow_len: plan.flows.len,
        signature_flows: plan.signature.flow_count,
        signature_flow_first: plan.signature.flow_first,
        signature_flow_len: plan.signature.flow_len,
        ..abi::zeroed()
    };
    for (index, field) in plan.packets().iter().take(1).flat_map(|packet| packet.fields.iter().enumerate()) {
        match &field.mode {
            FieldMode::Mix(mix) => set_mix(&mut words, mix),
            FieldMode::Pools(pools) => {
                (words.pool_start, words.pool_count) =
                    (pools.map(|(start, _)| start), pools.map(|(_, count)| count));
            }
            _ => {}
        }
        if is_size(plan, &plan.packets()[0], index) {
            words.size_field = index as u32;
        }
    }
    words
}

fn set_mix(words: &mut abi::Plan, mix: &Imix) {
    words.imix_count = mix.sizes.len() as u32;
    words.imix_size[..mix.sizes.len()].copy_from_slice(&mix.sizes);
    words.imix_last[..mix.last.len()].copy_from_slice(&mix.last);
}

/// The fields that the value of a field depends on; a packet has one such field at most.
fn keys(field: &Field) -> Vec<usize> {
    if let FieldMode::Entropy { keys } = &field.mode { keys.to_vec() } else { Vec::new() }
}

/// True if field `index` of a packet has the size of the frame.
fn is_size(plan: &Plan, packet: &PacketPlan, index: usize) -> bool {
    plan.length.is_some_and(|length| packet.slots[index] == length.slot)
}

fn flags(plan: &Plan, cursor: &Cursor) -> u32 {
    let fields = || plan.packets().iter().flat_map(|packet| &packet.fields);
    let has_wall_time = |field: &Field| {
        use FieldMode::{WallMicros, WallNanos, WallSeconds};
        matches!(field.mode, WallSeconds | WallMicros | WallNanos { .. })
    };
    let bits = [
        (plan.order() == PacketOrder::Random, Flag::WR_PLAN_RANDOM_ORDER),
        (fields().any(|field| field.mode == FieldMode::Time), Flag::WR_PLAN_TIME),
        (fields().any(has_wall_time), Flag::WR_PLAN_WALL_TIME),
        // Also for a repetition of a frame that another program built.
        (plan.repeats > 1 || cursor.repeats_left > 0, Flag::WR_PLAN_REPEATS),
        (plan.flows.count > 0, Flag::WR_PLAN_FLOWS),
        (plan.flows.is_sequential, Flag::WR_PLAN_FLOW_SEQ),
        (plan.size_moves() && plan.length.is_some(), Flag::WR_PLAN_SIZE_MOVES),
        (plan.signature.level == SignatureLevel::Full, Flag::WR_PLAN_FULL_SIGNATURE),
        (plan.queue.walk != Walk::Fixed, Flag::WR_PLAN_QUEUE_MOVES),
        (plan.queue.walk == Walk::Random, Flag::WR_PLAN_QUEUE_RANDOM),
        (plan.holds() || plan.signature.flow_len > 1, Flag::WR_PLAN_HOLDS),
    ];
    bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit.0).sum()
}

fn unable(what: String) -> EngineError {
    EngineError::unable(EngineKind::Xdp, what)
}

/// The packets so far.
#[derive(Default)]
struct Lists {
    packets: Vec<abi::Packet>,
    fields: Vec<abi::Field>,
    ops: Vec<abi::SumOp>,
    values: Vec<u64>,
    /// Where the list of values of a state begins.
    values_at: BTreeMap<usize, u32>,
    /// End of the bytes that fields and checksums write.
    touched_len: usize,
}

impl Lists {
    fn add(&mut self, plan: &Plan, packet: &PacketPlan) -> Result<(), EngineError> {
        let len = packet.template.len();
        if len > abi::PREBUILT_LEN_MAX {
            return Err(unable(format!("frames of {len} bytes: they must fit into one page")));
        }
        let mut words = abi::Packet {
            frame_len: len as u32,
            field_first: self.fields.len() as u32,
            field_count: packet.fields.len() as u32,
            op_first: self.ops.len() as u32,
            state_first: packet.slots.first().copied().unwrap_or(0) as u32,
            ..abi::zeroed()
        };
        words.bytes[..len].copy_from_slice(&packet.template);
        let keys: Vec<usize> = packet.fields.iter().flat_map(keys).collect();
        for (index, field) in packet.fields.iter().enumerate() {
            self.touched_len = self.touched_len.max(field.offset + field.width);
            let mut words = self.field(field, packet.slots[index]);
            if is_size(plan, packet, index) {
                words.kind |= Kind::WR_KIND_SIZE.0;
            }
            if field.hold > 1 {
                words.kind |= Kind::WR_KIND_HOLD.0;
                words.hold = field.hold;
            }
            if keys.contains(&index) {
                words.kind |= Kind::WR_KIND_KEY.0;
            }
            if plan.flows.count > 0 && plan.flows.field == Some(index) {
                words.kind |= Kind::WR_KIND_FLOW.0;
            }
            self.fields.push(words);
        }
        for sum in &packet.sums {
            self.touched_len = self.touched_len.max(sum.checksum.place().end);
            self.ops.extend(sum.sources.iter().map(add_op));
            self.ops.push(finish_op(sum)?);
        }
        words.op_count = self.ops.len() as u32 - words.op_first;
        self.packets.push(words);
        Ok(())
    }

    fn field(&mut self, field: &Field, state: usize) -> abi::Field {
        let words =
            abi::Field { mask: field.mask, offset: field.offset as u32, shift: field.shift, ..abi::zeroed() };
        let width = field.width;
        let is_whole = match width {
            0 => true,
            2 | 4..=6 | 8 => field.mask == u64::MAX >> (64 - 8 * width),
            _ => false,
        };
        let bits = if is_whole && field.shift == 0 { 0 } else { Kind::WR_KIND_BITS.0 };
        let kind = bits | (width as u32) << Kind::WR_KIND_WIDTH_SHIFT.0;
        let of = |mode: Mode, min, max, step, wrap| abi::Field {
            kind: kind | mode.0,
            min,
            max,
            step,
            wrap,
            ..words
        };
        let plain = |mode: Mode| of(mode, 0, 0, 0, 0);
        match field.mode {
            FieldMode::Increment { min, max, step, wrap, .. } => of(Mode::WR_FIELD_UP, min, max, step, wrap),
            FieldMode::Decrement { min, max, step, .. } => of(Mode::WR_FIELD_DOWN, min, max, step, 0),
            FieldMode::Random { min, max } => {
                of(Mode::WR_FIELD_RANDOM, min, (max - min).wrapping_add(1), 0, 0)
            }
            FieldMode::Number => plain(Mode::WR_FIELD_NUMBER),
            FieldMode::Time => plain(Mode::WR_FIELD_TIME),
            FieldMode::Values { ref values, repeat_from } => {
                let values_at = *self.values_at.entry(state).or_insert_with(|| {
                    self.values.extend(values.iter());
                    (self.values.len() - values.len()) as u32
                });
                abi::Field {
                    values_at,
                    values_count: values.len() as u32,
                    ..of(Mode::WR_FIELD_VALUES, 0, 0, repeat_from as u64, 0)
                }
            }
            FieldMode::Kept => plain(Mode::WR_FIELD_KEPT),
            FieldMode::Step { min, max } => of(Mode::WR_FIELD_STEP, min, max, 0, 0),
            FieldMode::Offset { base, count } => of(Mode::WR_FIELD_OFFSET, base, count, 0, 0),
            FieldMode::RandomOffset { base, count } => of(Mode::WR_FIELD_RANDOM_OFFSET, base, count, 0, 0),
            FieldMode::Bits { is_long, set, allowed } => {
                of(Mode::WR_FIELD_BITS, set, allowed, u64::from(is_long), 0)
            }
            FieldMode::Pools(_) => plain(Mode::WR_FIELD_POOLS),
            FieldMode::Mix(_) => plain(Mode::WR_FIELD_MIX),
            FieldMode::Length(more) => of(Mode::WR_FIELD_LENGTH, u64::from(more), 0, 0, 0),
            FieldMode::Sequence => plain(Mode::WR_FIELD_SEQUENCE),
            FieldMode::WallSeconds => plain(Mode::WR_FIELD_WALL_SECONDS),
            FieldMode::WallMicros => plain(Mode::WR_FIELD_WALL_MICROS),
            FieldMode::WallNanos { bits } => of(Mode::WR_FIELD_WALL_NANOS, u64::from(bits), 0, 0, 0),
            FieldMode::Flow => plain(Mode::WR_FIELD_FLOW),
            FieldMode::FlowNumber => plain(Mode::WR_FIELD_FLOW_NUMBER),
            FieldMode::Entropy { .. } => of(Mode::WR_FIELD_ENTROPY, ENTROPY_MIN, 0, ENTROPY_SHIFT, 0),
        }
    }
}

/// The program adds numbers in the order of memory. Such a sum has its bytes exchanged, on a
/// machine with the low byte first.
fn add_op(source: &SumSource) -> abi::SumOp {
    let mask = match source.width {
        4 => u32::from_be(source.mask),
        2 => u32::from(u16::from_be(source.mask as u16)),
        _ => source.mask,
    };
    let bits = [
        (source.width == 4, Sum::WR_SUM_WORD),
        (source.width == 2, Sum::WR_SUM_HALF),
        (source.mask != u32::MAX >> (32 - 8 * source.width), Sum::WR_SUM_BITS),
        (source.is_odd, Sum::WR_SUM_ODD),
    ];
    let kind = bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit.0).sum();
    abi::SumOp { kind, offset: source.offset as u32, mask, base: 0 }
}

fn finish_op(sum: &SumPlan) -> Result<abi::SumOp, EngineError> {
    let kind = match sum.checksum.kind {
        SumKind::Internet => Sum::WR_SUM_WRITE.0,
        SumKind::Udp => Sum::WR_SUM_WRITE.0 | Sum::WR_SUM_UDP.0,
        SumKind::Crc32c => {
            return Err(unable(
                "the CRC32c of SCTP in frames that change: BPF would take too long".to_owned(),
            ));
        }
    };
    let base = u32::from(u16::from_be(sum.base));
    Ok(abi::SumOp { kind, offset: sum.checksum.offset as u32, mask: 0, base })
}

/// Sets the cursor of a program before its first frame; frame counters start at 0, and the clock is
/// read at the first frame.
pub(crate) fn set_cursor(state: &State, plan: &Plan, cursor: &Cursor) {
    state.set_cursor(&words(cursor, plan));
    let field_state =
        |slot: usize| abi::FieldState { state: cursor.states[slot], value: cursor.values[slot] };
    let states: Vec<abi::FieldState> = slots(plan).into_iter().map(field_state).collect();
    state.set_field_states(&states);
    if plan.holds() {
        let held: Vec<u64> = slots(plan).into_iter().map(|slot| cursor.held[slot].into()).collect();
        state.set_held(&held);
    }
    let flow = |flow: &Flow| abi::Flow {
        value: flow.value,
        number: flow.number,
        count: flow.count,
        is_open: u32::from(flow.is_open),
    };
    let flows: Vec<abi::Flow> = cursor.flows.iter().take(plan.flows.count as usize).map(flow).collect();
    state.set_flows(&flows);
}

/// The queue of a plan with one queue is set.
fn words(cursor: &Cursor, plan: &Plan) -> abi::Cursor {
    let has_one_queue = plan.queue.walk == Walk::Fixed;
    let mut words = abi::Cursor {
        rng: cursor.rng.0,
        number: cursor.number,
        round: cursor.round,
        clock_every: 1,
        seq_num: cursor.seq_num,
        packet: cursor.packet as u32,
        next_packet: cursor.next_packet as u32,
        queue: if has_one_queue { plan.queue.min } else { u32::from(cursor.queue) },
        queue_started: u32::from(cursor.queue_started || has_one_queue),
        flow_index: cursor.flow_index,
        flows_started: cursor.flows_started,
        repeats_left: cursor.repeats_left,
        slot: cursor.slot,
        in_row: cursor.in_row,
        ..abi::zeroed()
    };
    let counts = cursor.imix_counts.len().min(abi::IMIX_MAX);
    words.imix_counts[..counts].copy_from_slice(&cursor.imix_counts[..counts]);
    words
}

/// Updates the cursor from a program.
pub(crate) fn update(cursor: &mut Cursor, plan: &Plan, state: &State) {
    let from = state.cursor();
    cursor.rng = Rng(from.rng);
    cursor.number = from.number;
    cursor.round = from.round;
    cursor.seq_num = from.seq_num;
    (cursor.packet, cursor.next_packet) = (from.packet as usize, from.next_packet as usize);
    (cursor.queue, cursor.queue_started) = (from.queue as u16, from.queue_started != 0);
    (cursor.flow_index, cursor.flows_started) = (from.flow_index, from.flows_started);
    (cursor.repeats_left, cursor.slot, cursor.in_row) = (from.repeats_left, from.slot, from.in_row);
    cursor.imix_counts.iter_mut().zip(from.imix_counts).for_each(|(to, from)| *to = from);
    for (slot, from) in slots(plan).into_iter().zip(state.field_states()) {
        (cursor.states[slot], cursor.values[slot]) = (from.state, from.value);
    }
    if plan.holds() {
        for (slot, frames) in slots(plan).into_iter().zip(state.held()) {
            cursor.held[slot] = frames as u32;
        }
    }
    if plan.flows.count > 0 {
        let flow = |flow: abi::Flow| Flow {
            value: flow.value,
            count: flow.count,
            is_open: flow.is_open != 0,
            number: flow.number,
        };
        cursor.flows = state.flows().into_iter().map(flow).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Config, Flags, MPLS_LABELS_MAX, MPLS_RANDOM, SignatureSetting, sample};

    /// All that can change in a frame of pktgen, with this signature.
    fn everything_moves(level: SignatureLevel) -> (Plan, Cursor) {
        let v4 = |last| Some(std::net::Ipv4Addr::new(10, 0, 0, last));
        let mut config = Config {
            min_pkt_size: 200,
            max_pkt_size: 300,
            src_mac_count: 2,
            dst_mac_count: 2,
            ..Config::default()
        };
        (config.src_min, config.src_max, config.dst_min, config.dst_max) = (v4(1), v4(2), v4(3), v4(4));
        (config.udp_src_max, config.udp_dst_max) = (20, 20);
        (config.vlan_id, config.svlan_id) = (Some(5), Some(6));
        config.mpls = vec![MPLS_RANDOM; MPLS_LABELS_MAX];
        config.signature = SignatureSetting { level, ..SignatureSetting::default() };
        for flag in [Flags::MPLS_RND, Flags::VID_RND, Flags::SVID_RND] {
            config.flags.set(flag, true);
        }
        config.prepare(&sample::facts());
        let mut cursor = Cursor::default();
        cursor.start(&config, &sample::facts(), 1);
        (Plan::new(&config, &sample::facts(), &cursor).expect("a good configuration"), cursor)
    }

    #[test]
    fn frames_of_pktgen_with_too_many_fields_are_not_cut_to_their_headers() {
        let (plan, cursor) = everything_moves(SignatureLevel::Pktgen);
        let made = program(&plan, &cursor, 1, false).expect("31 fields");
        assert_eq!((made.plan.field_count, is_for_skb(&made)), (31, true));
        let (plan, cursor) = everything_moves(SignatureLevel::Full);
        let error = program(&plan, &cursor, 1, false).expect_err("34 fields").to_string();
        assert!(error.contains("34 fields that change: at most 32"), "{error}");
    }
}
