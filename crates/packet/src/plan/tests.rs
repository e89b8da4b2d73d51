//! Prepared checksums give what a pass over the frame gives, whatever fields overlap.

use super::*;
use crate::{Config, Rng};

/// A frame as the definition says: fields, then each checksum over the whole of its range. A field
/// that holds its values takes a new one in the first of each group of frames; `values` has those
/// of the frame before.
fn defined(
    spec: &FrameSpec,
    (states, values): (&mut [u64], &mut [u64]),
    rng: &mut Rng,
    number: u64,
    now_ns: u64,
) -> Vec<u8> {
    let mut frame = spec.template.clone();
    for (index, (field, state)) in spec.fields.iter().zip(states).enumerate() {
        let facts = FrameFacts { number, now_ns, ..FrameFacts::default() };
        let value = match &field.mode {
            FieldMode::Entropy { keys } => spec::entropy(keys.iter().map(|key| values[*key])),
            _ if !number.is_multiple_of(field.hold.into()) => values[index],
            mode => mode.next(state, rng, &facts),
        };
        values[index] = value;
        field.write(&mut frame, value);
    }
    spec.checksums.iter().for_each(|checksum| checksum.write(&mut frame));
    frame
}

#[test]
fn sums_of_contributions_are_sums_of_whole_frames() {
    for seed in 0..3000 {
        let rng = &mut Rng(seed);
        let spec = sample::frame_spec(rng, 200);
        let plan = Plan::of_specs(std::slice::from_ref(&spec), PacketOrder::RoundRobin);
        let mut cursor = plan.start();
        let (mut states, mut values) = (cursor.states.clone(), cursor.values.clone());
        let mut right = Rng(seed);
        cursor.rng = right;
        let mut out = vec![0xee; plan.frame_len_max() as usize];
        for frame in 0..5 {
            let now_ns = (seed << 32).wrapping_mul(frame + 1);
            let len = plan.emit(&mut cursor, now_ns, &mut out);
            assert_eq!(
                out[..len],
                defined(&spec, (&mut states, &mut values), &mut right, frame, now_ns),
                "seed {seed} frame {frame}: {spec:?}"
            );
        }
    }
}

#[test]
fn skipped_frames_leave_the_cursor_where_emitted_ones_do() {
    for seed in 0..200 {
        let rng = &mut Rng(seed);
        let order = if seed % 2 == 0 { PacketOrder::RoundRobin } else { PacketOrder::Random };
        let plan = Plan::of_specs(&sample::frame_specs(rng, 4, 100), order);
        let plan = Plan { repeats: 1 + seed as u32 % 3, ..plan };
        let mut cursor = Cursor { rng: Rng(seed), ..plan.start() };
        let (mut other, mut out) = (cursor.clone(), vec![0; plan.frame_len_max() as usize]);
        for _ in 0..20 {
            plan.emit(&mut cursor, 0, &mut out);
            plan.skip(&mut other);
        }
        assert_eq!(cursor, other);
    }
}

/// Frame for frame and cursor for cursor, plans of packets and of pktgen's configurations.
#[test]
fn a_plain_plan_gives_the_same_frames_in_one_pass() {
    let mut plain_count = 0;
    for seed in 0..2000 {
        let rng = &mut Rng(seed);
        let (plan, cursor) = if seed % 2 == 0 {
            let plan = Plan::of_specs(&sample::frame_specs(rng, 2, 100), PacketOrder::RoundRobin);
            let cursor = plan.start();
            (plan, cursor)
        } else {
            let (config, facts) = (crate::sample::config(rng, 200), crate::sample::facts());
            let config =
                Config { flows: 0, clone_skb: 0, burst: 1, max_pkt_size: config.min_pkt_size, ..config };
            let mut cursor = Cursor::default();
            cursor.start(&config, &facts, seed);
            (Plan::new(&config, &facts, &cursor).unwrap(), cursor)
        };
        if !plan.is_plain() {
            continue;
        }
        plain_count += 1;
        let (mut cursor, mut other) = (cursor.clone(), cursor);
        let mut frames = [0xee; 2].map(|byte| vec![byte; plan.frame_len_max() as usize]);
        for frame in 0..10 {
            let now_ns = (seed << 40).wrapping_mul(frame);
            let len = plan.emit(&mut cursor, now_ns, &mut frames[0]);
            assert_eq!(plan.emit_plain(&mut other, now_ns, &mut frames[1]), len);
            assert_eq!(frames[0][..len], frames[1][..len], "seed {seed} frame {frame}");
            assert_eq!(cursor, other, "seed {seed} frame {frame}");
        }
    }
    assert!(plain_count > 200, "{plain_count} of 2000 plans are plain");
}

#[test]
fn packets_of_several_lengths_share_the_states_of_their_fields() {
    let max = u64::from(u32::MAX);
    let mode = FieldMode::Increment { first: 0, min: 0, max, step: 1, wrap: max + 1 };
    let spec = |len: usize| FrameSpec {
        template: vec![0; len],
        fields: vec![Field::whole(len - 4, 4, mode.clone())],
        ..FrameSpec::default()
    };
    for order in [PacketOrder::RoundRobin, PacketOrder::Random] {
        let plan = Plan::of_lengths(&[spec(20), spec(40), spec(60)], order);
        let (mut cursor, mut out) = (plan.start(), vec![0; 60]);
        for frame in 0..100 {
            let len = plan.emit(&mut cursor, 0, &mut out);
            assert_eq!(read_bits(&out[len - 4..len]), frame);
        }
        assert_eq!(cursor.states, [100]);
    }
}

/// Each of them counts the frames of its packet, however they are mixed.
#[test]
fn a_field_keeps_its_value_for_as_many_frames_of_its_packet() {
    let counter = |first| FieldMode::Increment { first, min: first, max: first + 2, step: 1, wrap: 3 };
    let spec = |first, hold| FrameSpec {
        template: vec![0; 1],
        fields: vec![Field { hold, ..Field::whole(0, 1, counter(first)) }],
        ..FrameSpec::default()
    };
    let sent = |plan: &Plan| {
        let (mut cursor, mut out) = (plan.start(), [0]);
        let mut next = |_| {
            plan.emit(&mut cursor, 0, &mut out);
            out[0]
        };
        (0..12).map(&mut next).collect::<Vec<u8>>()
    };
    let one = Plan::of_specs(&[spec(0, 3)], PacketOrder::RoundRobin);
    assert_eq!(sent(&one), [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]);
    assert_eq!(sent(&Plan { repeats: 2, ..one }), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    let two = Plan::of_specs(&[spec(0, 3), spec(10, 2)], PacketOrder::RoundRobin);
    assert_eq!(sent(&two), [0, 10, 0, 10, 0, 11, 1, 11, 1, 12, 1, 12]);
    let shared = Plan::of_lengths(&[spec(0, 2), spec(0, 2)], PacketOrder::Random);
    assert_eq!(sent(&shared), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_frame_that_is_all_zero_has_the_checksum_of_zeros() {
    let checksum = ChecksumField {
        offset: 2,
        start: 0,
        end: 8,
        pseudo_header: PseudoHeader::None,
        kind: SumKind::Internet,
        is_wrong: false,
    };
    let spec = FrameSpec { template: vec![0; 8], checksums: vec![checksum], ..FrameSpec::default() };
    let [sum] = &SumPlan::of(&spec)[..] else { panic!("one checksum") };
    assert_eq!((sum.base, &sum.sources[..]), (0, &[][..]));
}

#[test]
fn constant_bytes_are_added_once_and_moving_ones_per_frame() {
    let mode = FieldMode::Random { min: 0, max: u64::MAX };
    let field = Field::whole(1, 6, mode);
    let checksum = ChecksumField {
        offset: 8,
        start: 0,
        end: 10,
        pseudo_header: PseudoHeader::None,
        kind: SumKind::Udp,
        is_wrong: false,
    };
    let (fields, checksums) = (vec![field], vec![checksum]);
    let spec = FrameSpec { template: vec![0x11; 10], fields, checksums, ..FrameSpec::default() };
    let [sum] = &SumPlan::of(&spec)[..] else { panic!("one checksum") };
    assert_eq!(sum.base, 0x1100 + 0x0011);
    let sources: Vec<_> = sum.sources.iter().map(|from| (from.offset, from.width, from.is_odd)).collect();
    assert_eq!(sources, [(1, 4, true), (5, 2, true)]);
}

#[test]
fn entropy_is_a_private_port_that_only_other_values_change() {
    let ports: std::collections::BTreeSet<u64> =
        (0..4096).map(|value| spec::entropy([value, 7].into_iter())).collect();
    assert!(ports.iter().all(|port| (49_152..=65_535).contains(port)));
    assert!(ports.len() > 3000, "{} ports for 4096 flows", ports.len());
    assert_eq!(spec::entropy([5, 7].into_iter()), spec::entropy([5, 7].into_iter()));
    assert_eq!(spec::entropy(std::iter::empty()), 49_152);
}
