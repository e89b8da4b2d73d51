//! Conversion of general plans and their cursors to the types of the BPF program, and back.

use crate::EngineError;
use crate::engine_kind::EngineKind;
use bpf::{GeneralProgram, abi};
use packet::Cursor;
use packet::general::{
    Field, FieldMode, GeneralCursor, GeneralPlan, PacketOrder, PacketPlan, SumKind, SumPlan, SumSource,
};
use std::collections::BTreeMap;

/// Bytes of the template that each frame gets anew, because a receiver may have changed them: the
/// headers, with a tunnel.
const TEMPLATE_LEN_MAX: usize = abi::TEMPLATE_MAX;

/// The program for one device, or its receive path (`receive`).
///
/// # Errors
/// What the program cannot do.
pub(crate) fn program(
    plan: &GeneralPlan,
    ifindex: u32,
    receive: bool,
) -> Result<GeneralProgram, EngineError> {
    let mut lists = Lists::default();
    for packet in plan.packets() {
        lists.add(packet)?;
    }
    let state_count = plan.start().states.len();
    let Lists { packets, fields, ops, values, touched_len, .. } = lists;
    if state_count > abi::STATES_MAX {
        return Err(unable(format!("{state_count} moving fields: at most {}", abi::STATES_MAX)));
    }
    let is_unrolled =
        packets.len() == 1 && fields.len() <= abi::FIELDS_UNROLLED && ops.len() <= abi::SUM_OPS_UNROLLED;
    let bits = [
        (receive, abi::GeneralFlag::WR_GENERAL_RECEIVE),
        (plan.order() == PacketOrder::Random, abi::GeneralFlag::WR_GENERAL_RANDOM_ORDER),
        (!is_unrolled, abi::GeneralFlag::WR_GENERAL_IN_MAPS),
        (plan.has_time(), abi::GeneralFlag::WR_GENERAL_TIME),
    ];
    let mut words = abi::General {
        frame_len_max: plan.frame_len_max() as u32,
        ifindex,
        flags: bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit.0).sum(),
        packet_count: packets.len() as u32,
        ..abi::zeroed()
    };
    if !is_unrolled {
        return Ok(GeneralProgram { plan: words, packets, fields, ops, values, state_count });
    }
    let template = &plan.packets()[0].template;
    let template_len = template.len().min(TEMPLATE_LEN_MAX);
    words.template[..template_len].copy_from_slice(&template[..template_len]);
    words.template_len = template_len as u32;
    words.touched_len = touched_len.max(template_len) as u32;
    words.field_count = fields.len() as u32;
    words.op_count = ops.len() as u32;
    words.fields[..fields.len()].copy_from_slice(&fields);
    words.ops[..ops.len()].copy_from_slice(&ops);
    let none = (Vec::new(), Vec::new(), Vec::new());
    Ok(GeneralProgram { plan: words, packets: none.0, fields: none.1, ops: none.2, values, state_count })
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
    fn add(&mut self, packet: &PacketPlan) -> Result<(), EngineError> {
        let len = packet.template.len();
        if len > abi::PREBUILT_LEN_MAX {
            return Err(unable(format!("frames of {len} bytes: they must fit into one page")));
        }
        let mut words = abi::Packet {
            frame_len: len as u32,
            field_first: self.fields.len() as u32,
            field_count: packet.fields.len() as u32,
            op_first: self.ops.len() as u32,
            state_first: packet.first_state as u32,
            ..abi::zeroed()
        };
        words.bytes[..len].copy_from_slice(&packet.template);
        for (index, field) in packet.fields.iter().enumerate() {
            self.touched_len = self.touched_len.max(field.offset + field.width);
            let field = self.field(field, packet.first_state + index);
            self.fields.push(field);
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
        let words = abi::Field {
            mask: field.mask,
            offset: field.offset as u32,
            width: field.width as u32,
            shift: field.shift,
            ..abi::zeroed()
        };
        let mode = |mode: abi::FieldMode| mode.0;
        match field.mode {
            FieldMode::Increment { min, max, step, wrap, .. } => {
                abi::Field { mode: mode(abi::FieldMode::WR_FIELD_UP), min, max, step, wrap, ..words }
            }
            FieldMode::Decrement { min, max, step, .. } => {
                abi::Field { mode: mode(abi::FieldMode::WR_FIELD_DOWN), min, max, step, ..words }
            }
            FieldMode::Random { min, max } => {
                abi::Field { mode: mode(abi::FieldMode::WR_FIELD_RANDOM), min, max, ..words }
            }
            FieldMode::Number => abi::Field { mode: mode(abi::FieldMode::WR_FIELD_NUMBER), ..words },
            FieldMode::Time => abi::Field { mode: mode(abi::FieldMode::WR_FIELD_TIME), ..words },
            FieldMode::Values { ref values, repeat_from } => {
                let values_at = *self.values_at.entry(state).or_insert_with(|| {
                    self.values.extend(values.iter());
                    (self.values.len() - values.len()) as u32
                });
                abi::Field {
                    mode: mode(abi::FieldMode::WR_FIELD_VALUES),
                    values_at,
                    values_count: values.len() as u32,
                    repeat_from: repeat_from as u32,
                    ..words
                }
            }
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
    abi::SumOp {
        kind: abi::SumOpKind::WR_SUM_ADD.0,
        offset: source.offset as u32,
        width: source.width as u32,
        mask,
        is_odd: u32::from(source.is_odd),
        base: 0,
    }
}

fn finish_op(sum: &SumPlan) -> Result<abi::SumOp, EngineError> {
    let kind = match sum.checksum.kind {
        SumKind::Internet => abi::SumOpKind::WR_SUM_INTERNET,
        SumKind::Udp => abi::SumOpKind::WR_SUM_UDP,
        SumKind::Crc32c => {
            return Err(unable(
                "the CRC32c of SCTP in frames that change: BPF would take too long".to_owned(),
            ));
        }
    };
    Ok(abi::SumOp {
        kind: kind.0,
        offset: sum.checksum.offset as u32,
        width: 2,
        mask: 0xffff,
        is_odd: 0,
        base: u32::from(u16::from_be(sum.base)),
    })
}

/// The cursor for the program; frame counters start at 0.
pub(crate) fn cursor(cursor: &Cursor) -> abi::Cursor {
    abi::Cursor {
        rng: cursor.rng.0,
        seq_num: cursor.seq_num,
        next_packet: cursor.general.next_packet as u32,
        number: cursor.general.number,
        ..abi::zeroed()
    }
}

/// Updates the cursor from the program.
pub(crate) fn update(cursor: &mut Cursor, from: &abi::Cursor, states: Vec<u64>) {
    cursor.rng = packet::Rng(from.rng);
    cursor.seq_num = from.seq_num;
    let next_packet = from.next_packet as usize;
    cursor.general = GeneralCursor { next_packet, number: from.number, states };
}
