//! Whole frames through the receiver in Rust: kinds of frames, runs, wraps, sums.

use measure::{
    Arrival, Figures, FullFields, HEADER_LEN, Loss, Mark, Meter, MeterOptions, SHORT_LEN, Signature,
    flow_rows, keep_flows,
};
use std::collections::BTreeSet;

const START_S: u32 = 1_800_000_000;

fn frame(signature: &Signature, len: usize) -> Vec<u8> {
    let mut frame = vec![0; 42 + len.max(18)];
    signature.emit(&mut frame[42..42 + len]);
    frame
}

/// A frame that takes `latency_ns` and leaves one microsecond after the one with the number before.
fn timed(seq_num: u32, latency_ns: u64) -> (Signature, Arrival) {
    let sent_ns = u64::from(seq_num % 1_000_000) * 1000;
    let signature =
        Signature { seq_num, sec: START_S, usec: (sent_ns / 1000) as u32, ..Signature::default() };
    let wall_offset_ns = u64::from(START_S) * 1_000_000_000;
    (signature, Arrival { time_ns: sent_ns + latency_ns, wall_offset_ns, ..Arrival::default() })
}

fn figures(meter: &Meter) -> Figures {
    let figures = Figures::new(meter.options(), meter.lines(), meter.totals(), meter.histogram());
    assert_eq!(figures.broken, Vec::<String>::new());
    figures
}

#[test]
fn each_frame_is_counted_as_one_kind() {
    let mut meter = Meter::new(MeterOptions { run: Some(7), ..MeterOptions::default() });
    let full = |flow, run| Some(FullFields { flow, number: 0, run });
    let (plain, arrival) = timed(0, 500);
    meter.receive(&frame(&Signature { full: full(3, 7), ..plain }, 32), arrival);
    meter.receive(&frame(&Signature { full: full(3, 6), ..plain }, 32), arrival);
    meter.receive(&frame(&Signature { full: full(64, 7), ..plain }, 32), arrival);
    meter.receive(&frame(&Signature { usec: 1_000_000, ..plain }, HEADER_LEN), arrival);
    meter.receive(&[0; 60], arrival);
    meter.receive(&[], arrival);
    let totals = figures(&meter).totals;
    assert_eq!((totals.frames, totals.received), (6, 1));
    assert_eq!((totals.others.stale, totals.others.damaged, totals.others.foreign), (1, 2, 2));
}

#[test]
fn numbers_that_start_before_the_wrap_are_not_lost() {
    for flow_count in [1, 3, 1000] {
        let mut meter = Meter::new(MeterOptions { flow_count, ..MeterOptions::default() });
        let start = u32::MAX - 999;
        for number in 0..3000 {
            let (signature, arrival) = timed(start.wrapping_add(number), 1000);
            meter.receive(&frame(&signature, HEADER_LEN), arrival);
        }
        let figures = figures(&meter);
        assert_eq!((figures.unique, figures.reordered, figures.missing), (3000, 0, 0), "{flow_count}");
        assert_eq!(figures.flows, u64::from(flow_count));
    }
}

#[test]
fn loss_of_every_hundredth_frame_is_found_in_its_flow() {
    let mut meter = Meter::new(MeterOptions { flow_count: 8, ..MeterOptions::default() });
    for number in 0..10_000 {
        let (signature, arrival) = timed(number, 2000);
        if number % 100 != 99 {
            meter.receive(&frame(&signature, SHORT_LEN), arrival);
        }
    }
    let figures = figures(&meter);
    assert_eq!(Loss::new(10_000, figures.unique, figures.too_old).lost_max, 100);
    assert_eq!(figures.missing, 99, "the last frame shows no gap");
    let lost: Vec<u64> = flow_rows(meter.options(), meter.lines(), meter.totals())
        .map(|(_, flow)| 1250 - flow.figures.unique)
        .collect();
    assert_eq!(lost, [0, 0, 0, 50, 0, 0, 0, 50]);
    let missing: Vec<u64> =
        flow_rows(meter.options(), meter.lines(), meter.totals()).map(|(_, flow)| flow.missing).collect();
    assert_eq!(missing, [0, 0, 0, 50, 0, 0, 0, 49], "as for all flows");
}

/// The number of a flow that frames carry was in the column of the stream.
#[test]
fn a_flow_in_frames_is_no_stream() {
    for (flow_count, expected) in [(1, [(0, 5), (0, 40)]), (8, [(0, 5), (0, 40)])] {
        let options = MeterOptions { flow_count, carried_flows: 100, ..MeterOptions::default() };
        let mut meter = Meter::new(options);
        for flow in [5, 40] {
            let (plain, arrival) = timed(0, 500);
            let full = Some(FullFields { flow, number: 0, run: 7 });
            meter.receive(&frame(&Signature { full, ..plain }, 32), arrival);
        }
        let places = |meter: &Meter| -> Vec<(u32, u32)> {
            let flows = flow_rows(meter.options(), meter.lines(), meter.totals());
            flows.map(|(_, flow)| (flow.stream, flow.flow)).collect()
        };
        assert_eq!(places(&meter), expected, "{flow_count}");
        let mut scheduled = Meter::new(options);
        let (plain, arrival) = timed(3, 500);
        scheduled.receive(&frame(&Signature { stream: 2, ..plain }, SHORT_LEN), arrival);
        assert_eq!(places(&scheduled), [(2, 3 % flow_count)]);
    }
}

/// Frames of a flow that came to the wrong port made up for those that did not arrive.
#[test]
fn frames_of_flows_that_are_not_kept_are_foreign() {
    for (other_latency_ns, is_timed) in [(900, false), (0, true)] {
        let mut meter = Meter::new(MeterOptions { carried_flows: 100, ..MeterOptions::default() });
        for (flow, number) in [(5, 0), (5, 1), (40, 0), (40, 2), (40, 1), (40, 3)] {
            let (plain, arrival) = timed(number, if flow == 5 { 500 } else { other_latency_ns });
            let stamp = if flow == 40 && is_timed { (0, 0) } else { (plain.sec, plain.usec) };
            let full = Some(FullFields { flow, number: number.into(), run: 7 });
            let signature = Signature { full, sec: stamp.0, usec: stamp.1, ..plain };
            meter.receive(&frame(&signature, 32), arrival);
        }
        let (mut lines, mut totals) = (meter.lines().to_vec(), meter.totals().clone());
        let mut histogram = meter.histogram().to_vec();
        let kept = |flow: usize| BTreeSet::from([flow, 70]);
        keep_flows(&kept(5), &mut lines, &mut totals, &mut histogram);
        let figures = Figures::new(meter.options(), &lines, &totals, &histogram);
        assert_eq!(figures.broken, Vec::<String>::new());
        assert_eq!(
            (figures.totals.received, figures.totals.others.foreign, figures.totals.frames),
            (2, 4, 6)
        );
        assert_eq!((figures.unique, figures.flows, figures.reordered, figures.held_max), (2, 1, 0, 0));
        // The histogram does not say whose latencies it has.
        assert_eq!(figures.latency.is_some(), is_timed);
        let (mut lines, mut totals) = (meter.lines().to_vec(), meter.totals().clone());
        let mut histogram = meter.histogram().to_vec();
        keep_flows(&kept(40), &mut lines, &mut totals, &mut histogram);
        let figures = Figures::new(meter.options(), &lines, &totals, &histogram);
        assert_eq!(figures.broken, Vec::<String>::new());
        assert_eq!(
            (figures.unique, figures.reordered, figures.held_max, figures.totals.others.foreign),
            (4, 1, 1, 2)
        );
    }
}

/// A million flows took 90 MB, whatever was received.
#[test]
fn lines_grow_with_the_flows_seen() {
    let options = MeterOptions { carried_flows: 1 << 20, ..MeterOptions::default() };
    let mut meter = Meter::new(options);
    assert_eq!(meter.lines(), []);
    let (plain, arrival) = timed(0, 500);
    let full = Some(FullFields { flow: 5, number: 0, run: 7 });
    meter.receive(&frame(&Signature { full, ..plain }, 32), arrival);
    assert_eq!((meter.lines().len(), meter.line(5).unique(), meter.line(6).unique()), (6, 1, 0));
    assert_eq!((meter.detail(5).frame_bytes, meter.detail(6).frame_bytes), (42 + 32, 0));
    let full = Some(FullFields { flow: 1 << 20, number: 0, run: 7 });
    meter.receive(&frame(&Signature { full, ..plain }, 32), arrival);
    assert_eq!((meter.lines().len(), meter.totals().others.damaged), (6, 1));
    assert_eq!((figures(&meter).unique, figures(&meter).missing), (1, 0));
}

#[test]
fn threads_with_ranges_of_their_own_are_measured_apart() {
    let mut meter = Meter::new(MeterOptions::default());
    for number in 0..1000 {
        for stream in 0..2 {
            let (signature, arrival) = timed(number + u32::from(stream) * 1000, 1000);
            meter.receive(&frame(&Signature { stream, ..signature }, SHORT_LEN), arrival);
        }
    }
    let figures = figures(&meter);
    assert_eq!((figures.unique, figures.too_old, figures.missing, figures.flows), (2000, 0, 0, 2));
}

#[test]
fn latency_has_the_percentiles_of_what_was_received() {
    let mut meter = Meter::new(MeterOptions::default());
    for number in 0..1000 {
        let (signature, arrival) = timed(number, 1_000_000 + u64::from(number % 2) * 160_000);
        meter.receive(&frame(&signature, HEADER_LEN), arrival);
    }
    let latency = figures(&meter).latency.expect("frames have times");
    assert_eq!((latency.stamped, latency.min_ns, latency.max_ns), (1000, 1_000_000, 1_160_000));
    assert_eq!(latency.mean_ns, 1_080_000);
    assert_eq!((latency.ipdv_min_ns, latency.ipdv_max_ns), (Some(-160_000), Some(160_000)));
    assert_eq!(latency.pdv_p999_ns, Some(160_000));
    let jitter_ns = latency.jitter_mean_ns.unwrap();
    assert!((jitter_ns - 160_000.0).abs() < 1600.0, "{jitter_ns}");
}

/// 5 ms more for every frame are 5 ms more in every figure.
#[test]
fn added_latency_moves_every_figure() {
    const ADDED_NS: u64 = 5_000_000;
    let latency = |added_ns: u64| {
        let mut meter = Meter::new(MeterOptions::default());
        for number in 0..10_000 {
            let (signature, arrival) = timed(number, 3000 + u64::from(number * 7919 % 1000) + added_ns);
            meter.receive(&frame(&signature, HEADER_LEN), arrival);
        }
        figures(&meter).latency.expect("frames have times")
    };
    let (plain, moved) = (latency(0), latency(ADDED_NS));
    assert_eq!(moved.min_ns, plain.min_ns + ADDED_NS);
    assert_eq!(moved.mean_ns, plain.mean_ns + ADDED_NS);
    assert_eq!(moved.max_ns, plain.max_ns + ADDED_NS);
    for (plain, moved) in plain.percentiles.iter().zip(&moved.percentiles) {
        let exact_ns = plain.latency_ns + ADDED_NS;
        let width_ns = exact_ns * 78 / 10_000;
        assert!(moved.latency_ns.abs_diff(exact_ns) <= width_ns, "{moved:?}, not {exact_ns}");
    }
}

/// Numbers of runs have 12 bits, so the run after 4095 is 0.
#[test]
fn frames_of_the_run_before_the_wrap_are_stale() {
    let mut meter = Meter::new(MeterOptions { run: Some(0), ..MeterOptions::default() });
    let receive = |meter: &mut Meter, run| {
        for number in 0..10 {
            let (plain, arrival) = timed(number, 500);
            let full = Some(FullFields { flow: 3, number: number.into(), run });
            meter.receive(&frame(&Signature { full, ..plain }, 32), arrival);
        }
        figures(meter)
    };
    let before = receive(&mut meter, 0);
    let after = receive(&mut meter, 0xfff);
    assert_eq!((after.totals.others.stale, after.unique, after.duplicate), (10, 10, 0));
    assert_eq!((after.too_old, after.missing, after.latency), (0, 0, before.latency));
}

#[test]
fn frames_received_before_they_were_sent_have_no_latency_below_zero() {
    let mut meter = Meter::new(MeterOptions::default());
    let (signature, arrival) = timed(9, 0);
    meter.receive(&frame(&signature, HEADER_LEN), Arrival { time_ns: arrival.time_ns - 5000, ..arrival });
    let figures = figures(&meter);
    let latency = figures.latency.expect("a time");
    assert_eq!((figures.totals.unusual.negative, latency.min_ns, latency.pdv_p999_ns), (1, 0, None));
}

/// A flow keeps 32 bits of nanoseconds, 4.3 s; longer latencies were all that long.
#[test]
fn long_latencies_are_those_of_the_histogram() {
    for second in [5, 10, 60] {
        let mut meter = Meter::new(MeterOptions::default());
        for number in 0..100 {
            let (signature, arrival) = timed(number, second * 1_000_000_000 + u64::from(number % 2) * 1000);
            meter.receive(&frame(&signature, HEADER_LEN), arrival);
        }
        let latency = figures(&meter).latency.expect("times");
        let exact = second * 1_000_000_000;
        for ns in [latency.min_ns, latency.mean_ns, latency.max_ns, latency.at(50.0).expect("a row")] {
            assert!(ns.abs_diff(exact) <= exact * 78 / 10_000, "{ns} ns, not {second} s");
        }
        assert_eq!((latency.ipdv_min_ns, latency.ipdv_max_ns), (Some(-1000), Some(1000)));
        assert!(latency.jitter_mean_ns.is_some_and(|ns| (900.0..1000.0).contains(&ns)), "{latency:?}");
    }
    // Sender and receiver are hosts whose clocks have nothing in common.
    let mut meter = Meter::new(MeterOptions::default());
    let (signature, arrival) = timed(0, 3_600_000_000_000);
    meter.receive(&frame(&signature, HEADER_LEN), arrival);
    assert_eq!(figures(&meter).latency.expect("a time").pdv_p999_ns, None);
}

#[test]
fn frames_without_a_time_are_counted_and_not_timed() {
    let mut meter = Meter::new(MeterOptions::default());
    let signature = Signature { seq_num: 4, ..Signature::default() };
    meter.receive(&frame(&signature, HEADER_LEN), Arrival::default());
    let figures = figures(&meter);
    assert_eq!((figures.unique, figures.totals.stamped, figures.latency), (1, 0, None));
}

#[test]
fn marks_at_the_end_are_measured_by_the_clock_of_the_host() {
    let mut meter = Meter::new(MeterOptions { run: Some(2), ..MeterOptions::default() });
    for seq_num in [0, 1, 3, 2, 5] {
        let time_ns = (1 << 48) - 10 + u64::from(seq_num);
        let mark = Mark { flow: 9, run: 2, seq_num, time_ns: time_ns & ((1 << 48) - 1) };
        let mut frame = vec![0; 60];
        frame.extend(mark.emit());
        meter.receive(&frame, Arrival { time_ns: time_ns + 700, ..Arrival::default() });
    }
    let figures = figures(&meter);
    assert_eq!((figures.unique, figures.reordered, figures.missing, figures.held_max), (5, 1, 1, 1));
    assert_eq!(figures.latency.map(|latency| (latency.min_ns, latency.max_ns)), Some((700, 700)));
}

#[test]
fn one_in_eight_frames_is_timed_and_all_are_counted() {
    let mut meter = Meter::new(MeterOptions { stamp_shift: 3, ..MeterOptions::default() });
    for number in 0..8000 {
        let (signature, arrival) = timed(number, 3000);
        meter.receive(&frame(&signature, HEADER_LEN), arrival);
    }
    let figures = figures(&meter);
    let share = figures.latency.expect("some frames have times").stamped_share;
    assert_eq!(figures.unique, 8000);
    assert!((0.1..0.15).contains(&share), "{share}");
}
