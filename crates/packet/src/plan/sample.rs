//! Random packets for tests: fields and checksums at any place, overlapping or not.

use super::{ChecksumField, Field, FieldMode, FrameSpec, PseudoHeader, SumKind};
use crate::Rng;

/// Up to `count_max` random packets of 14 to `len_max` bytes.
pub fn frame_specs(rng: &mut Rng, count_max: u32, len_max: usize) -> Vec<FrameSpec> {
    (0..1 + rng.below(count_max)).map(|_| frame_spec(rng, len_max)).collect()
}

/// A random packet in up to `count_max` lengths of 14 to `len_max` bytes: the same fields, at other
/// places.
pub fn lengths_of_one_packet(rng: &mut Rng, count_max: u32, len_max: usize) -> Vec<FrameSpec> {
    let first = frame_spec(rng, len_max);
    let mut specs = vec![first.clone()];
    for _ in 1..1 + rng.below(count_max) {
        let mut other = frame_spec(rng, len_max);
        let len = other.template.len();
        other.fields = first.fields.clone();
        for field in &mut other.fields {
            field.width = field.width.min(len);
            field.offset = below(rng, len - field.width + 1);
            field.mask &= u64::MAX >> (64 - 8 * field.width);
        }
        specs.push(other);
    }
    specs
}

/// A random packet of 14 to `len_max` bytes.
pub fn frame_spec(rng: &mut Rng, len_max: usize) -> FrameSpec {
    let len = 14 + below(rng, len_max - 13);
    let template = (0..len).map(|_| rng.next_u32() as u8).collect();
    let fields = (0..rng.below(6)).map(|_| field(rng, len)).collect::<Vec<_>>();
    let checksums = (0..rng.below(4)).filter_map(|_| checksum(rng, len)).collect();
    let mut fields = fields;
    if !fields.is_empty() && rng.below(4) == 0 {
        let keys = (0..fields.len()).filter(|_| rng.below(2) == 0).collect();
        let mode = FieldMode::Entropy { keys };
        fields.push(Field::whole(below(rng, len - 1), 2, mode));
    }
    FrameSpec { template, fields, checksums, ..FrameSpec::default() }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    rng.below(bound as u32) as usize
}

fn field(rng: &mut Rng, len: usize) -> Field {
    let width = 1 + below(rng, 8);
    let all = u64::MAX >> (64 - 8 * width);
    let mask = match rng.below(3) {
        0 => rng.next_u64() & all,
        _ => all,
    };
    let offset = below(rng, len - width + 1);
    let shift = if rng.below(4) == 0 { rng.below(8 * width as u32) } else { 0 };
    let hold = if rng.below(4) == 0 { 1 + rng.below(4) } else { 1 };
    Field { offset, width, mask, shift, mode: mode(rng, all), hold }
}

fn mode(rng: &mut Rng, all: u64) -> FieldMode {
    let [a, b] = [(); 2]
        .map(|()| if rng.below(3) == 0 { rng.next_u64() & all } else { u64::from(rng.below(12)) & all });
    let (min, max) = (a.min(b), a.max(b));
    let size = (max - min).saturating_add(1);
    let step = 1 + rng.next_u64() % size;
    let first = min + rng.next_u64() % size;
    match rng.below(6) {
        0 => {
            FieldMode::Increment { first, min, max, step, wrap: size.saturating_add(u64::from(rng.below(2))) }
        }
        1 => FieldMode::Decrement { first, min, max, step },
        2 => FieldMode::Random { min, max },
        3 => FieldMode::Number,
        4 => FieldMode::Time,
        _ => {
            let values: Vec<u64> = (0..1 + rng.below(5)).map(|_| rng.next_u64() & all).collect();
            FieldMode::Values { repeat_from: below(rng, values.len()), values: values.into() }
        }
    }
}

fn checksum(rng: &mut Rng, len: usize) -> Option<ChecksumField> {
    let start = below(rng, len);
    let end = start + 1 + below(rng, len - start);
    let protocol = rng.next_u32() as u8;
    let pseudo_header = match rng.below(4) {
        0 if len >= 20 => PseudoHeader::Ipv4 { header: below(rng, len - 19), protocol },
        1 if len >= 40 => PseudoHeader::Ipv6 { header: below(rng, len - 39), protocol },
        2 if len >= 16 => {
            let [src, dst] = [(); 2].map(|()| below(rng, len - 15));
            PseudoHeader::Routed { src, dst, protocol }
        }
        _ => PseudoHeader::None,
    };
    let kind = if rng.below(2) == 0 { SumKind::Internet } else { SumKind::Udp };
    Some(ChecksumField {
        offset: below(rng, len.checked_sub(1)?),
        start,
        end,
        pseudo_header,
        kind,
        is_wrong: rng.below(8) == 0,
    })
}
