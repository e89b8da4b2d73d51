//! `receive.bpf.c`, run by `BPF_PROG_RUN` on made-up frames, against `measure::Meter`. Needs
//! CAP_BPF.

mod common;

use bpf::sys::{ProgRun, prog_run};
use bpf::{Receiver, ReceiverParams, SinkVerdict};
use common::{XDP_DROP, XDP_PASS, XDP_TX, check_loads_soon, may_load};
use measure::{AnnouncedEnd, Arrival, FullFields, Mark, Meter, MeterOptions, Signature, TagPart, Totals};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

const PARAMS: ReceiverParams = ReceiverParams {
    verdict: SinkVerdict::Drop,
    reflect_as: None,
    flow_count: 1,
    stream_count: 64,
    carried_flows: 0,
    is_shared: false,
    has_details: true,
    has_tags: false,
    has_wide_window: false,
    stamps_of: None,
    has_test_clock: true,
    counts_up: false,
};
const WALL_OFFSET_NS: u64 = 1_800_000_000_000_000_000;
const START_S: u32 = 1_800_000_000;
/// The clock of the device: it gains 2^-12 seconds per second, and is ahead of CLOCK_MONOTONIC.
const CLOCK_AT_NS: i64 = 60_000_000_000;
const CLOCK_OFFSET_NS: i64 = -55_000_000_000;
const CLOCK_DRIFT: i64 = -(1 << 20);
/// Some frames of the tests are late.
const DEADLINE_NS: u64 = 1_000_000;

/// The program in the kernel and the meter in Rust, which receive the same frames.
struct Pair {
    receiver: Receiver,
    meter: Meter,
    has_details: bool,
    time_ns: u64,
    /// Times of the device instead, by its clock.
    is_hardware: bool,
}

impl Pair {
    fn new(params: ReceiverParams, run: Option<u16>, stamp_shift: u32) -> Self {
        let receiver = Receiver::load(&params).expect("the program loads");
        receiver.set_run(run);
        receiver.set_stamp_shift(stamp_shift);
        receiver.set_wall_offset_ns(WALL_OFFSET_NS);
        receiver.set_deadline_ns(Some(DEADLINE_NS));
        receiver.set_clock_line(CLOCK_AT_NS, CLOCK_OFFSET_NS, CLOCK_DRIFT);
        let ReceiverParams { flow_count, stream_count, carried_flows, has_details, has_wide_window, .. } =
            params;
        let meter = Meter::new(MeterOptions {
            flow_count,
            stream_count,
            run,
            stamp_shift,
            carried_flows,
            deadline_ns: Some(DEADLINE_NS),
            has_wide_window,
        });
        Self { receiver, meter, has_details, time_ns: 5_000_000_000, is_hardware: false }
    }

    fn receive(&mut self, frame: &[u8]) {
        self.receive_by(None, frame);
    }

    fn receive_by(&mut self, program: Option<BorrowedFd<'_>>, frame: &[u8]) {
        let hardware_ns = if self.is_hardware { hardware_ns(self.time_ns) } else { 0 };
        self.receiver.set_test_time(self.time_ns, hardware_ns);
        let mut run = ProgRun { data_in: frame, ..Default::default() };
        let program = program.unwrap_or_else(|| self.receiver.as_fd());
        let verdict = prog_run(program, &mut run).expect("the program runs").return_value;
        let passed = |totals: &Totals| totals.others.foreign + totals.others.icmp_errors;
        let foreign = passed(self.meter.totals());
        let (time_ns, is_hardware) = (self.time_ns, self.is_hardware);
        let arrival = Arrival { time_ns, wall_offset_ns: WALL_OFFSET_NS, is_hardware, ..Arrival::default() };
        self.meter.receive(frame, arrival);
        let is_foreign = passed(self.meter.totals()) > foreign;
        assert_eq!(verdict, if is_foreign { XDP_PASS } else { XDP_DROP }, "foreign: {is_foreign}");
    }

    /// Compares everything. The CPU of a test run is any, so CPUs and moves are left out.
    fn check(&self) {
        let totals = self.receiver.totals();
        let expected = self.meter.totals();
        assert_eq!((totals.frames, totals.frame_bytes), (expected.frames, expected.frame_bytes));
        assert_eq!(totals.received, expected.received, "received");
        assert_eq!(
            (totals.others.stale, totals.others.foreign, totals.others.damaged, totals.with_flow),
            (expected.others.stale, expected.others.foreign, expected.others.damaged, expected.with_flow)
        );
        assert_eq!(
            (totals.others.icmp_errors, totals.icmp_error),
            (expected.others.icmp_errors, expected.icmp_error),
            "ICMP errors"
        );
        assert_eq!(
            (totals.stamped, totals.unusual.negative, totals.late, totals.hardware_time),
            (expected.stamped, expected.unusual.negative, expected.late, expected.hardware_time)
        );
        assert_eq!((totals.held, totals.held_max), (expected.held, expected.held_max), "held");
        assert_eq!(totals.lowest_inverted, expected.lowest_inverted, "lowest");
        assert_eq!(totals.ipdv_max, expected.ipdv_max, "highest IPDV");
        assert_eq!(totals.after_gap, expected.after_gap, "after a gap");
        assert_eq!(totals.ipdv_min_inverted, expected.ipdv_min_inverted, "lowest IPDV");
        assert_eq!(self.receiver.histogram(), self.meter.histogram());
        for (index, mut found) in self.receiver.lines().enumerate() {
            // The meter was told of no CPU, whose number is in the highest 16 bits.
            found.unique_cpu &= (1 << 48) - 1;
            assert_eq!(found, self.meter.line(index), "line {index}");
            let detail = self.receiver.detail(index);
            assert_eq!(detail, self.has_details.then(|| self.meter.detail(index)), "detail {index}");
        }
    }
}

/// The time of the device at which CLOCK_MONOTONIC is `time_ns`, which is found by trying.
fn hardware_ns(time_ns: u64) -> u64 {
    let monotonic_ns =
        |device_ns: i64| device_ns + CLOCK_OFFSET_NS + (((device_ns - CLOCK_AT_NS) * CLOCK_DRIFT) >> 32);
    let time_ns = time_ns.cast_signed();
    let mut device_ns = time_ns - CLOCK_OFFSET_NS;
    while monotonic_ns(device_ns) != time_ns {
        device_ns += time_ns - monotonic_ns(device_ns);
    }
    device_ns.cast_unsigned()
}

fn front(signature: &Signature, at: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; at];
    let mut bytes = vec![0; len];
    signature.emit(&mut bytes);
    frame.extend(bytes);
    frame
}

fn signature(seq_num: u32) -> Signature {
    Signature { seq_num, sec: START_S + 4, usec: 999_000, ..Signature::default() }
}

/// Every receiver and each trial of a search loads two programs: once they took 310 ms.
#[test]
fn each_form_loads_soon() {
    testkit::needs!(may_load());
    for bits in 0..1 << 6 {
        let is = |bit: u32| bits & 1 << bit != 0;
        let params = ReceiverParams {
            is_shared: is(0),
            has_details: is(1),
            has_tags: is(2),
            has_wide_window: is(3),
            has_test_clock: is(4),
            reflect_as: is(5).then_some([2, 0, 0, 0, 0, 1]),
            ..PARAMS
        };
        let receiver = Receiver::load(&params).expect("the program loads");
        check_loads_soon(receiver.as_fd(), &params);
        let frags = receiver.frags_program();
        frags.into_iter().for_each(|program| check_loads_soon(program, &params));
    }
}

#[test]
fn each_branch_counts_as_the_meter_does() {
    testkit::needs!(may_load());
    let mut pair = Pair::new(PARAMS, Some(7), 0);
    let full = |flow, number, run| Some(FullFields { flow, number, run });
    // The front: every level, behind headers of every length, and cut anywhere.
    for len in [16, 17, 18, 19, 20, 31, 32, 40] {
        for at in [14, 42, 46, 66, 252, 254] {
            let signature = Signature { full: full(3, 9, 7), stream: 2, nanos: 999, ..signature(5) };
            pair.receive(&front(&signature, at, len));
        }
    }
    let whole = front(&signature(6), 42, 18);
    (14..whole.len()).for_each(|len| pair.receive(&whole[..len]));
    // Values that no sender writes.
    pair.receive(&front(&Signature { usec: 1_000_000, ..signature(1) }, 42, 18));
    pair.receive(&front(&Signature { nanos: 1000, ..signature(1) }, 42, 18));
    // Another run, another flow, no time, a time in the future.
    for run in [6, 7, 8] {
        pair.receive(&front(&Signature { full: full(3, 1 << 33, run), ..signature(1) }, 42, 32));
    }
    pair.receive(&front(&Signature { full: full(64, 1, 7), ..signature(1) }, 42, 32));
    pair.receive(&front(&Signature { sec: 0, usec: 0, ..signature(2) }, 42, 18));
    pair.receive(&front(&Signature { sec: START_S + 9, ..signature(3) }, 42, 18));
    // In order, overtaken, twice, below the window; windows full and emptied.
    for seq_num in [10, 11, 14, 13, 12, 12, 15, 78, 14, 15, 200, 137, 136, 400, 400] {
        pair.time_ns += 1000 * u64::from(seq_num % 7);
        pair.receive(&front(&signature(seq_num), 42, 18));
    }
    // Latencies in every power of two, and beyond the histogram and the line.
    let late = pair.meter.totals().late;
    for bit in 0..40 {
        pair.time_ns = 4_999_000_000 + (1 << bit);
        pair.receive(&front(&signature(500 + bit), 42, 18));
    }
    // From 2^20 ns on.
    assert_eq!(pair.meter.totals().late, late + 20);
    for (number, latency_ns) in [(600, DEADLINE_NS), (601, DEADLINE_NS + 1)] {
        pair.time_ns = 4_999_000_000 + latency_ns;
        pair.receive(&front(&signature(number), 42, 18));
    }
    assert_eq!(pair.meter.totals().late, late + 21);
    pair.check();
}

#[test]
fn icmp_errors_count_as_the_meter_does() {
    testkit::needs!(may_load());
    let mut pair = Pair::new(PARAMS, Some(7), 0);
    let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]];
    let ipv4 = [0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1];
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 8, 58, 64];
    ipv6.extend((1..=32).map(|byte| byte * 7));
    let mut number = 0;
    for tags in tags {
        for (ether_type, packet) in [([8, 0], &ipv4[..]), ([0x86, 0xdd], &ipv6[..])] {
            for icmp in [[0, 0], [3, 3], [5, 1], [8, 0], [11, 0], [12, 2], [13, 0], [1, 4], [128, 0]] {
                let mut frame = [&[2; 12][..], tags, &ether_type, packet, &icmp, &[0; 20]].concat();
                // What is quoted, behind headers of an even length.
                number += 1;
                let mut bytes = vec![0; 32];
                signature(number).emit(&mut bytes);
                frame.extend(&bytes);
                pair.receive(&frame);
                // Another protocol, a fragment, a header that is too short.
                for (at, value) in [(9, 17), (7, 8), (0, 0x44)] {
                    let mut other = frame.clone();
                    other[14 + tags.len() + at] = value;
                    pair.receive(&other);
                }
            }
        }
    }
    assert!(pair.meter.totals().others.icmp_errors > 20, "{:?}", pair.meter.totals());
    pair.check();
}

#[test]
fn marks_at_the_end_count_as_the_meter_does() {
    testkit::needs!(may_load());
    for (stamp_shift, has_details) in [(0, true), (0, false), (2, true), (2, false)] {
        let mut pair = Pair::new(ReceiverParams { has_details, ..PARAMS }, Some(2), stamp_shift);
        for (seq_num, run, behind) in
            [(0, 2, 0), (1, 2, 4), (2, 2, 5), (4, 2, 0), (3, 2, 0), (3, 2, 0), (5, 3, 0), (u32::MAX, 2, 0)]
        {
            pair.time_ns += 900;
            let mark = Mark { flow: 9, run, seq_num, time_ns: pair.time_ns - u64::from(seq_num % 50) * 100 };
            let mut frame = vec![0x5a; 60];
            frame.extend(mark.emit());
            frame.resize(frame.len() + behind, 0);
            pair.receive(&frame);
        }
        let mark = Mark { flow: 64, run: 2, seq_num: 9, time_ns: pair.time_ns + 40 };
        for flow in [63, 64] {
            pair.receive(&[&[0x5a; 14][..], &Mark { flow, ..mark }.emit()].concat());
        }
        // A frame without a time has no latency.
        let stamped = pair.meter.totals().stamped;
        pair.receive(&[&[0x5a; 14][..], &Mark { time_ns: 0, flow: 8, ..mark }.emit()].concat());
        assert_eq!(pair.meter.totals().stamped, stamped);
        pair.check();
    }
}

/// The parts are 12 bits from byte 1 on, 32 bits from the middle of byte 60 on, where the mark is,
/// and the last bit of byte 1.
#[test]
fn frames_are_counted_by_the_values_of_their_parts() {
    testkit::needs!(may_load());
    let mut pair = Pair::new(ReceiverParams { has_tags: true, ..PARAMS }, Some(2), 0);
    let part = |bit, bits| TagPart { bit, bits };
    pair.receiver.set_tag(Some(9), &[part(8, 12), part(484, 32), part(15, 1)]);
    pair.receiver.set_tag(None, &[part(0, 3)]);
    let first_ns = pair.time_ns + 10;
    for (seq_num, (value, flow)) in (0..).zip([(0xabc, 9), (0xabd, 9), (0xabc, 9), (0xabc, 8)]) {
        pair.time_ns += 10;
        let mut frame = vec![0xff; 60];
        (frame[1], frame[2]) = ((value >> 4) as u8, (value << 4) as u8);
        frame.extend(Mark { flow, run: 2, seq_num, time_ns: pair.time_ns - 100 - u64::from(seq_num) }.emit());
        pair.receive(&frame);
    }
    // Shorter than the parts.
    pair.receive(&[0x20; 20]);
    pair.receive(&Mark { flow: 9, run: 2, seq_num: 4, time_ns: 0 }.emit());
    let mut tagged = pair.receiver.tagged();
    tagged.sort_by_key(|tagged| (tagged.line, tagged.values));
    let seen: Vec<_> =
        tagged.iter().map(|tagged| (tagged.line, tagged.values, tagged.counts.frames)).collect();
    // The mark begins with 0x57524f54, and the flow 9.
    let inside = 0x7524_f540;
    let expected = [
        (None, [1, 0, 0, 0], 1),
        (None, [2, 0, 0, 0], 1),
        (None, [7, 0, 0, 0], 4),
        (Some(9), [0xabc, inside, 1, 0], 2),
        (Some(9), [0xabd, inside, 1, 0], 1),
    ];
    assert_eq!(seen, expected);
    let counts = &tagged[3].counts;
    assert_eq!((counts.frame_bytes, counts.first_ns, counts.last_ns), (156, first_ns, first_ns + 20));
    assert_eq!((counts.stamped, counts.latency_sum_ns), (2, 202));
    assert_eq!((counts.latency_min_ns, counts.latency_max_ns), (100, 102));
    pair.receiver.forget_tagged(&BTreeSet::from([Some(9)]));
    let mut frame = vec![0xff; 60];
    frame.extend(Mark { flow: 9, run: 2, seq_num: 5, time_ns: 0 }.emit());
    pair.receive(&frame);
    assert!(pair.receiver.tagged().iter().all(|tagged| tagged.line.is_none()));
    pair.receiver.set_tag(None, &[]);
    pair.receive(&[0x20; 20]);
    assert_eq!(pair.receiver.tagged().iter().map(|tagged| tagged.counts.frames).sum::<u64>(), 7);
    pair.check();
}

#[test]
fn an_announced_end_is_noted_and_not_counted() {
    testkit::needs!(may_load());
    let mut pair = Pair::new(PARAMS, Some(7), 0);
    let mut known = None;
    // That of another run is not taken, that without a run is.
    for (run, sent, at) in [(Some(6), 1, 42), (Some(7), u64::MAX - 1, 46), (None, 5, 252), (Some(8), 9, 14)] {
        pair.receive(&[&vec![0x5a; at][..], &AnnouncedEnd { run, sent }.emit()].concat());
        known = if run.is_none_or(|run| run == 7) { Some(sent) } else { known };
        assert_eq!((pair.receiver.announced(), pair.meter.announced()), (known, known), "{run:?}");
    }
    let end = AnnouncedEnd { run: None, sent: 11 }.emit();
    (0..end.len()).for_each(|len| pair.receive(&[&[0x5a; 42][..], &end[..len]].concat()));
    pair.receive(&front(&signature(3), 42, 18));
    assert_eq!(pair.receiver.announced(), Some(5));
    pair.check();
}

#[test]
fn long_frames_in_pieces_are_measured() {
    testkit::needs!(may_load());
    let mut pair = Pair::new(PARAMS, None, 0);
    let program = pair.receiver.frags_program().expect("this kernel supports multi-buffer");
    let program = program.try_clone_to_owned().expect("descriptors are left");
    for (seq_num, len) in (0..).zip([60, 9014, 60_000]) {
        let mut frame = front(&signature(seq_num), 42, 18);
        frame.resize(len, 0x5a);
        pair.receive_by(Some(program.as_fd()), &frame);
        let mark = Mark { flow: 9, run: 2, seq_num, time_ns: pair.time_ns - 40 };
        frame[42] = 0;
        frame[len - 18..].copy_from_slice(&mark.emit());
        pair.receive_by(Some(program.as_fd()), &frame);
    }
    assert_eq!(pair.meter.totals().received, 6);
    pair.check();
}

#[test]
fn the_verdict_can_leave_the_frames_to_the_host() {
    testkit::needs!(may_load());
    let receiver = Receiver::load(&ReceiverParams { verdict: SinkVerdict::Pass, ..PARAMS });
    let receiver = receiver.expect("the program loads");
    for frame in [front(&signature(1), 42, 18), vec![0; 60]] {
        let mut run = ProgRun { data_in: &frame, ..Default::default() };
        let ran = prog_run(receiver.as_fd(), &mut run).expect("the program runs");
        assert_eq!(ran.return_value, XDP_PASS);
    }
    assert_eq!(receiver.received_per_cpu().sum::<u64>(), 1);
}

#[test]
fn repeated_runs_can_count_up() {
    testkit::needs!(may_load());
    let params = ReceiverParams { counts_up: true, flow_count: 100, stream_count: 1, ..PARAMS };
    let receiver = Receiver::load(&params).expect("the program loads");
    let frame = front(&signature(7), 42, 18);
    let mut run = ProgRun { data_in: &frame, repeat: 1000, ..Default::default() };
    prog_run(receiver.as_fd(), &mut run).expect("the program runs");
    assert!(receiver.lines().all(|line| (line.unique(), line.duplicate, line.reordered) == (10, 0, 0)));
}

/// Loss, displacement, copies, several flows and streams, across the wrap.
#[test]
fn random_streams_give_the_lines_of_the_meter() {
    testkit::needs!(may_load());
    let fates = prop::collection::vec((0u32..100, 0u32..1000, 0u32..100, 0u64..3_000_000), 1..120);
    let shape = (
        prop::sample::select(vec![1u32, 3, 64]),
        prop::sample::select(vec![1u32, 2]),
        any::<bool>(),
        prop::sample::select(vec![0u32, 2]),
        any::<bool>(),
        prop::sample::select(vec![0u32, 7, u32::MAX - 40, u32::MAX / 2]),
        prop::sample::select(vec![0u32, 5, 100]),
        any::<bool>(),
    );
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() });
    let run = runner.run(
        &(shape, fates),
        |(
            (flow_count, stream_count, is_shared, shift, has_details, start, displaced, has_wide_window),
            fates,
        )| {
            let params = ReceiverParams {
                flow_count,
                stream_count,
                is_shared,
                has_details,
                has_wide_window,
                ..PARAMS
            };
            let mut pair = Pair::new(params, None, shift);
            let mut frames: Vec<(u32, u32, u64)> = Vec::new();
            for (number, (kept, late, copied, latency_ns)) in (0u32..).zip(fates) {
                let place = number * 1000 + late * displaced;
                if kept >= 5 {
                    frames.push((place, number, latency_ns));
                }
                if copied < 5 {
                    frames.push((place + late * 10, number, latency_ns / 2));
                }
            }
            frames.sort_unstable();
            for (_, number, latency_ns) in frames {
                let stream = (number % stream_count) as u8;
                let signature = Signature { stream, ..signature(start.wrapping_add(number / stream_count)) };
                pair.time_ns = 4_999_000_000 + latency_ns;
                pair.is_hardware = number % 3 == 0;
                pair.receive(&front(&signature, 42, 18));
            }
            pair.check();
            Ok(())
        },
    );
    run.unwrap();
}

const DST: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SRC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// What a reflector makes of a frame, and its answer.
fn reflected(receiver: &Receiver, frame: &[u8]) -> (Vec<u8>, u32) {
    let mut out = vec![0; frame.len()];
    let mut run = ProgRun { data_in: frame, data_out: &mut out, ..Default::default() };
    let ran = prog_run(receiver.as_fd(), &mut run).expect("the program runs");
    assert_eq!(ran.data_out_len as usize, frame.len());
    (out, ran.return_value)
}

/// A header with addresses `from` to `to`, and ports where it has them.
type Header = fn(from: u8, to: u8) -> Vec<u8>;

fn ipv4(options: usize, protocol: u8, fragment: u8, from: u8, to: u8) -> Vec<u8> {
    let len = 5 + options as u8;
    let mut header = vec![0x40 | len, 0, 0, 60, 0, 1, fragment >> 4, fragment, 64, protocol, 0, 0];
    header.extend([198, 18, 0, from, 198, 18, 0, to]);
    header.resize(usize::from(len) * 4, 1);
    header
}

fn ipv6(protocol: u8, from: u8, to: u8) -> Vec<u8> {
    let address = |last| [0xfd, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, last];
    [&[0x60, 0, 0, 0, 0, 20, protocol, 64][..], &address(from), &address(to)].concat()
}

fn ports(from: u8, to: u8) -> Vec<u8> {
    vec![1, from, 1, to, 0, 26, 0, 0]
}

/// Headers from Ethernet's type on: each is reflected as if its arguments were swapped.
const HEADERS: [(&str, Header); 9] = [
    ("IPv4 and UDP", |from, to| [&[8, 0][..], &ipv4(0, 17, 0, from, to), &ports(from, to)].concat()),
    ("TCP behind options", |from, to| [&[8, 0][..], &ipv4(3, 6, 0, from, to), &ports(from, to)].concat()),
    ("a later fragment", |from, to| [&[8, 0][..], &ipv4(0, 17, 9, from, to), &ports(5, 6)].concat()),
    ("ICMP", |from, to| [&[8, 0][..], &ipv4(0, 1, 0, from, to), &ports(5, 6)].concat()),
    ("IPv6 and UDP", |from, to| [&[0x86, 0xdd][..], &ipv6(17, from, to), &ports(from, to)].concat()),
    ("IPv6 and ICMP", |from, to| [&[0x86, 0xdd][..], &ipv6(58, from, to), &[128, 0], &ports(5, 6)].concat()),
    ("a VLAN tag", |from, to| {
        [&[0x81, 0, 0, 5, 8, 0][..], &ipv4(0, 17, 0, from, to), &ports(from, to)].concat()
    }),
    ("two tags", |from, to| {
        let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd];
        [&tags[..], &ipv6(17, from, to), &ports(from, to)].concat()
    }),
    ("no IP", |_, _| vec![0x88, 0xb5]),
];

#[test]
fn a_reflector_swaps_addresses_and_ports_of_measured_frames() {
    testkit::needs!(may_load());
    let receiver = Receiver::load(&ReceiverParams { reflect_as: Some(OWN), ..PARAMS }).expect("it loads");
    receiver.set_wall_offset_ns(WALL_OFFSET_NS);
    receiver.set_test_time(5_000_000_000, 0);
    let mut payload = [0; 18];
    signature(1).emit(&mut payload);
    let mark = Mark { flow: 1, run: 2, seq_num: 3, time_ns: 4 }.emit();
    let end = AnnouncedEnd { run: None, sent: 2 }.emit();
    for (name, header) in HEADERS {
        for payload in [&payload[..], &mark[..], &end[..]] {
            let frame = [&DST[..], &SRC, &header(1, 2), payload].concat();
            let back = [&SRC[..], &DST, &header(2, 1), payload].concat();
            assert_eq!(reflected(&receiver, &frame), (back, XDP_TX), "{name}");
            // A group cannot be a source.
            let group = [1, 0, 0x5e, 0, 0, 1];
            let frame = [&group[..], &SRC, &header(1, 2), payload].concat();
            let back = [&SRC[..], &OWN, &header(2, 1), payload].concat();
            assert_eq!(reflected(&receiver, &frame), (back, XDP_TX), "{name} to a group");
        }
        let foreign = [&DST[..], &SRC, &header(1, 2), &[0; 32]].concat();
        assert_eq!(reflected(&receiver, &foreign), (foreign, XDP_PASS), "{name}");
    }
    // An IPv4 header shorter than 5 words is none: nothing in it is swapped.
    for words in 0..5 {
        let mut header = ipv4(0, 17, 0, 1, 2);
        header[0] = 0x40 | words;
        let rest = [&[8, 0][..], &header, &ports(1, 2), &payload].concat();
        let (frame, back) = ([&DST[..], &SRC, &rest].concat(), [&SRC[..], &DST, &rest].concat());
        assert_eq!(reflected(&receiver, &frame), (back, XDP_TX), "{words} words");
    }
    // A header that is cut by the signature is left as it is.
    for len in (0..20).step_by(2) {
        let frame = [&DST[..], &SRC, &[8, 0], &ipv4(0, 17, 0, 1, 2)[..len], &payload].concat();
        assert_eq!(reflected(&receiver, &frame).1, XDP_TX, "{len}");
    }
    // The clock of the receiver is 6 ms behind that of the sender in one frame.
    let ahead = Signature { sec: START_S + 5, usec: 6000, ..signature(2) };
    let mut payload = [0; 18];
    ahead.emit(&mut payload);
    reflected(&receiver, &[&DST[..], &SRC, &HEADERS[0].1(1, 2), &payload].concat());
    assert_eq!(receiver.totals().latency_min_ns(), Some(-6_000_000));
}
