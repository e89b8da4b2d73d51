//! Property test of streams: several runs on one thread, each with its own rate, count and start,
//! over an engine that rejects frames.

use crate::clock::fake::FakeClock;
use crate::engine::Burst;
use crate::engine::fake::FakeEngine;
use crate::worker::{TURN_MIN_NS, choose};
use crate::{CatchUp, Clock, Limits, Pace, Progress, Run, Step};
use packet::{PoissonProcess, Rate, Rng};
use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;

/// Time of one frame.
const FRAME_NS: u64 = 10;
/// Start of all streams.
const START_NS: u64 = 5_000_000;
/// Maximum lateness that the turns of all other streams explain.
const LATE_MAX_NS: u64 = 3_000_000;
const SEEDS: u64 = 120;

/// One stream and what is known about it.
struct Stream {
    run: Option<Run>,
    limits: Limits,
    progress: Progress,
    sent_ns: Rc<RefCell<Vec<u64>>>,
}

/// Up to 2 % of the time of the thread, or as fast as possible.
fn pace(rng: &mut Rng) -> Pace {
    let rate_pps = 1 + u64::from(rng.below(200_000));
    let frames = NonZeroU32::new(1 + rng.below(20)).expect("more than 0");
    let rate = |rate: Option<Rate>| rate.expect("more than 0");
    match rng.below(8) {
        0 => Pace::Unpaced,
        1 => Pace::from_delay_ns(5_000 + u64::from(rng.below(1_000_000))),
        2 => Pace::from_call_delay_ns(100_000 + u64::from(rng.below(1_000_000)), frames.get()),
        3 => Pace::from_wire_bps(rate_pps * 84 * 8),
        4 => Pace::from_pps(rate_pps),
        5 => {
            let micropps = rate_pps * 1_000_000 + u64::from(rng.below(1_000_000));
            Pace::Constant(rate(Rate::from_micropps(micropps)))
        }
        6 => Pace::Poisson { rate: rate(Rate::from_pps(rate_pps)), seed: rng.next_u64() },
        _ => {
            let gap_ns = u64::from(rng.below(3_000_000));
            Pace::bursts_with_gap(frames, rate(Rate::from_pps(rate_pps)), gap_ns)
        }
    }
}

/// When frame `index` is due after the start of the stream, by the definition of its pace.
fn due_ns(pace: Pace, index: u64) -> u64 {
    match pace {
        Pace::Unpaced | Pace::Never => 0,
        Pace::Constant(rate) => rate.time_of(index, index * 84 * 8) as u64,
        Pace::Poisson { rate, seed } => {
            let mut process = PoissonProcess::new(seed);
            (0..index).for_each(|_| process.advance(rate.gap_of(84)));
            process.next_ns() as u64
        }
        Pace::Bursts { frames, rate, interval_ps } => {
            let frames = u64::from(frames.get());
            let in_burst_ns = rate.map_or(0, |rate| rate.time_of(index % frames, 0) as u64);
            (index / frames * interval_ps.get()).div_ceil(1000) + in_burst_ns
        }
        Pace::Ramp(ramp) => ramp.time_of(index) as u64,
    }
}

/// A stream over an engine that rejects one frame in `rejects_each` and notes when it accepted each
/// of the others. `call_ns` is the time of a call beside its frames.
fn stream(limits: Limits, rejects_each: u64, call_ns: u64, clock: &Rc<FakeClock>) -> Stream {
    let sent_ns = Rc::<RefCell<Vec<u64>>>::default();
    let (clock, accepted_ns, mut offered) = (Rc::clone(clock), Rc::clone(&sent_ns), 0_u64);
    let engine = FakeEngine(move |budget: u32| {
        let mut burst = Burst { frame_bytes: 60 * u64::from(budget), ..Burst::default() };
        for _ in 0..budget {
            offered += 1;
            if offered.is_multiple_of(rejects_each) {
                burst.errors.ring_full += 1;
            } else {
                burst.sent += 1;
                accepted_ns.borrow_mut().push(clock.now_ns());
            }
        }
        clock.rest(call_ns + FRAME_NS * u64::from(budget));
        burst
    });
    let mut run = Run::new(Box::new(engine), limits, START_NS);
    run.set_turn_ns(TURN_MIN_NS);
    Stream { run: Some(run), limits, progress: Progress::default(), sent_ns }
}

/// Mostly few streams, sometimes 64.
fn streams(rng: &mut Rng, clock: &Rc<FakeClock>) -> Vec<Stream> {
    let count = if rng.below(8) == 0 { 64 } else { 1 + rng.below(8) };
    let random = |_| {
        let limits = Limits {
            count: 1 + u64::from(rng.below(500)),
            pace: pace(rng),
            start_delay_ns: u64::from(rng.below(2)) * u64::from(rng.below(4_000_000)),
            ..Limits::default()
        };
        stream(limits, 2 + u64::from(rng.below(50)), 0, clock)
    };
    (0..count).map(random).collect()
}

/// Serves the streams as a worker does until all have ended.
fn serve(streams: &mut [Stream], clock: &FakeClock) {
    let mut next_turn = 0;
    loop {
        let active: Vec<usize> = (0..streams.len()).filter(|index| streams[*index].run.is_some()).collect();
        if active.is_empty() {
            return;
        }
        let wakes: Vec<u64> = active
            .iter()
            .filter_map(|index| Some(streams[*index].run.as_ref()?.wake().at_ns(clock.now_ns())))
            .collect();
        let place = choose(wakes.iter().copied(), next_turn, clock.now_ns());
        next_turn = place + 1;
        let stream = &mut streams[active[place]];
        let Some(run) = stream.run.as_mut() else { continue };
        match run.step(clock, &stream.progress) {
            Step::Sent => assert_eq!(stream.progress.sent(), stream.sent_ns.borrow().len() as u64),
            Step::Full(rest_ns) => clock.0.set(clock.now_ns() + rest_ns),
            Step::WaitUntil(deadline_ns) => {
                let first_ns = wakes.iter().copied().min();
                assert_eq!(Some(deadline_ns), first_ns, "no other stream is due before");
                assert!(deadline_ns > clock.now_ns());
                clock.0.set(deadline_ns);
            }
            Step::Ended(_) => stream.run = None,
        }
    }
}

#[test]
fn each_stream_has_its_own_rate_count_and_start_whatever_the_others_do() {
    for seed in 0..SEEDS {
        let clock = Rc::new(FakeClock::default());
        clock.0.set(START_NS);
        let mut streams = streams(&mut Rng(seed), &clock);
        serve(&mut streams, &clock);
        for (number, stream) in streams.iter().enumerate() {
            let sent_ns = stream.sent_ns.borrow();
            let is_at = format!("seed {seed}, stream {number}: {:?}", stream.limits);
            assert_eq!(
                (sent_ns.len() as u64, stream.progress.sent()),
                (stream.limits.count, sent_ns.len() as u64),
                "{is_at}"
            );
            let start_ns = START_NS + stream.limits.start_delay_ns;
            for (index, sent_ns) in (0..).zip(sent_ns.iter()) {
                let due_ns = start_ns + due_ns(stream.limits.pace, index);
                assert!(*sent_ns >= due_ns, "{is_at}: frame {index} is {} ns early", due_ns - sent_ns);
                let is_late = stream.limits.pace != Pace::Unpaced && sent_ns - due_ns > LATE_MAX_NS;
                assert!(!is_late, "{is_at}: frame {index} is {} ns late", sent_ns - due_ns);
            }
        }
    }
}

/// With a frame or two per call, each stream reached a tenth of its rate.
#[test]
fn late_streams_catch_up_in_turns_with_many_frames_per_call() {
    let clock = Rc::new(FakeClock::default());
    clock.0.set(START_NS);
    let limits = Limits {
        duration_ns: 2_000_000_000,
        pace: Pace::from_pps(100_000),
        catch_up: CatchUp::Times(NonZeroU32::new(2).expect("more than 0")),
        ..Limits::default()
    };
    let mut streams: Vec<Stream> = (0..8).map(|_| stream(limits, u64::MAX, 6_000, &clock)).collect();
    clock.0.set(START_NS + 200_000_000);
    serve(&mut streams, &clock);
    let sent: Vec<u64> = streams.iter().map(|stream| stream.progress.sent()).collect();
    assert!(sent.iter().all(|sent| *sent >= 199_000), "of 200,000 each: {sent:?}");
}
