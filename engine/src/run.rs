//! One run: a plan on an engine until its count, its end or a stop, at its pace.
//!
//! A run is moved on in small steps, so that a thread can serve several and every one of them stops within
//! 10 ms. Waiting is left to the caller.

use crate::backoff::RingBackoff;
use crate::clock::Clock;
use crate::engine::{Burst, Engine, Errors};
use crate::inter_packet_gaps::InterPacketGaps;
use crate::pacer::{CatchUp, Lateness, Pace, Pacer};
use crate::{EngineError, EngineKind};
use packet::Cursor;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long one burst of a run alone is meant to take: short enough to stop and to look at the clock, long enough that
/// the cost of a call does not show.
pub(crate) const BURST_NS: u64 = 2_000_000;
/// Frames of the first burst, when nothing is known of the engine's speed.
const BURST_FIRST: u32 = 64;
const BURST_MAX: u32 = 1 << 20;
/// A burst may be this many times as long as the one before.
const BURST_GROWTH: u32 = 4;
/// Frames that share a reading of the clock when they go out back to back: 0.4 µs at 20 Mpps, and the header
/// holds whole microseconds.
const CLOCK_SHARING: u32 = 8;
/// Frames of a pace share a reading when they are due within half of the header's microsecond.
const CLOCK_SHARED_NS: u64 = 500;
/// A device that accepts nothing for this long ends the run.
const STALL_NS: u64 = 2_000_000_000;

/// When a run ends and how fast it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Frames to be sent, 0 for no end. Frames that meet an error do not count.
    pub count: u64,
    /// How long, 0 for no end.
    pub duration_ns: u64,
    /// How fast.
    pub pace: Pace,
    /// How fast when it is late.
    pub catch_up: CatchUp,
}

/// Why a run ended.
#[derive(Debug)]
pub enum End {
    /// All frames were sent.
    Count,
    /// Its time was over.
    Duration,
    /// It was told to.
    Stopped,
    /// It could not go on.
    Failed(EngineError),
}

/// What others may see of a run while it goes on.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    errors: AtomicU64,
    frame_bytes: AtomicU64,
}

impl Progress {
    /// Frames accepted by the driver so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Frames not accepted so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// Lengths of all frames offered so far, in bytes without FCS.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes.load(Relaxed)
    }

    pub(crate) fn set(&self, total: &Burst) {
        self.sent.store(total.sent, Relaxed);
        self.errors.store(total.errors.total(), Relaxed);
        self.frame_bytes.store(total.frame_bytes, Relaxed);
    }
}

/// What a run did.
#[derive(Debug)]
pub struct RunReport {
    /// Why it ended.
    pub end: End,
    /// The engine; `None` when none could be built.
    pub engine: Option<EngineKind>,
    /// Frames and their fates.
    pub total: Burst,
    /// `CLOCK_MONOTONIC` when it began.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` when it ended.
    pub stopped_ns: u64,
    /// Time spent waiting for the next deadline.
    pub idle_ns: u64,
    /// InterPacketGaps between frames; only of a paced run.
    pub gaps: Option<InterPacketGaps>,
    /// What a user should know of how the frames went out.
    pub note: Option<String>,
    /// How far it was behind its pace.
    pub lateness: Lateness,
    /// Where a next run would go on.
    pub cursor: Cursor,
    /// When its next frame would have been due; `None` when it never began.
    pub next_ns: Option<u64>,
}

impl RunReport {
    /// Of a run that never began.
    pub fn failed(error: EngineError, now_ns: u64, cursor: Cursor) -> Self {
        Self {
            end: End::Failed(error),
            engine: None,
            total: Burst::default(),
            started_ns: now_ns,
            stopped_ns: now_ns,
            idle_ns: 0,
            gaps: None,
            note: None,
            lateness: Lateness::default(),
            cursor,
            next_ns: None,
        }
    }

    /// How long it took.
    pub fn elapsed_ns(&self) -> u64 {
        self.stopped_ns - self.started_ns
    }
}

/// What a step did.
#[derive(Debug)]
pub enum Step {
    /// Frames were offered; look again.
    Sent,
    /// The same, and the device has all it can hold: nothing is gained by asking again before so many nanoseconds.
    Full(u64),
    /// Nothing is due before this time.
    WaitUntil(u64),
    /// The run is over.
    Ended(End),
}

/// A run in progress.
pub struct Run {
    engine: Box<dyn Engine>,
    terms: Terms,
    pacer: Pacer,
    total: Burst,
    started_ns: u64,
    idle_ns: u64,
    gaps: Option<InterPacketGaps>,
    burst_frames: u32,
    /// How long a burst is meant to take.
    turn_ns: u64,
    backoff: RingBackoff,
    /// When the device began to accept nothing; `None` while it accepts.
    stuck_ns: Option<u64>,
}

impl Run {
    /// Begins now.
    pub fn new(mut engine: Box<dyn Engine>, terms: Terms, now_ns: u64) -> Self {
        let is_paced = terms.pace != Pace::Unpaced;
        engine.set_clock_sharing(clock_sharing(terms.pace));
        Self {
            engine,
            terms,
            pacer: Pacer::new(terms.pace, now_ns).with_catch_up(terms.catch_up),
            total: Burst::default(),
            started_ns: now_ns,
            idle_ns: 0,
            gaps: is_paced.then(InterPacketGaps::new),
            burst_frames: BURST_FIRST,
            turn_ns: BURST_NS,
            backoff: RingBackoff::default(),
            stuck_ns: None,
        }
    }

    /// The engine at work.
    pub(crate) fn engine_kind(&self) -> EngineKind {
        self.engine.kind()
    }

    /// When the next frame is due.
    pub fn next_ns(&self) -> u64 {
        self.pacer.next_ns()
    }

    /// When it is due for a step: a frame, its end, or at once where it is not paced or has sent its count.
    pub(crate) fn wake_ns(&self) -> u64 {
        if self.terms.pace == Pace::Unpaced || self.terms.count != 0 && self.total.sent >= self.terms.count {
            return 0;
        }
        self.next_ns().min(self.end_ns())
    }

    /// How long its bursts are to take from now on.
    pub(crate) fn set_turn_ns(&mut self, turn_ns: u64) {
        let frames = u64::from(self.burst_frames) * turn_ns / self.turn_ns;
        self.burst_frames = (frames as u32).clamp(1, BURST_MAX);
        self.turn_ns = turn_ns;
    }

    /// Frames and their fates so far.
    pub fn total(&self) -> &Burst {
        &self.total
    }

    /// When it began.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Time spent waiting so far.
    pub fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    /// Where the next frame starts from.
    pub fn cursor(&self) -> Cursor {
        self.engine.cursor()
    }

    /// Its next frame is due at `next_ns`, on the clock of the run that it goes on with.
    pub(crate) fn goes_on_at(&mut self, next_ns: u64) {
        if self.terms.pace != Pace::Never {
            self.pacer = Pacer::new(self.terms.pace, next_ns).with_catch_up(self.terms.catch_up);
        }
    }

    /// It began at `started_ns`, with another engine.
    pub(crate) fn backdate(&mut self, started_ns: u64) {
        self.started_ns = started_ns;
    }

    /// The caller has waited for this run.
    pub fn waited(&mut self, wait_ns: u64) {
        self.idle_ns += wait_ns;
    }

    /// Goes on with other terms.
    pub fn change_terms(&mut self, terms: Terms, now_ns: u64) {
        if terms.pace != self.terms.pace {
            let is_paced = terms.pace != Pace::Unpaced;
            self.engine.set_clock_sharing(clock_sharing(terms.pace));
            self.pacer.change(terms.pace, now_ns);
            self.gaps = self.gaps.take().or_else(|| is_paced.then(InterPacketGaps::new));
        }
        self.terms = terms;
    }

    /// Sends what is due, if anything, and says what next.
    pub fn step(&mut self, clock: &dyn Clock, progress: &Progress) -> Step {
        let now_ns = clock.now_ns();
        if let Some(end) = self.end(now_ns) {
            return Step::Ended(end);
        }
        let Some(budget) = self.budget(now_ns) else {
            return Step::WaitUntil(self.next_ns().min(self.end_ns()));
        };
        match self.engine.send_burst(budget) {
            Err(error) => Step::Ended(End::Failed(error)),
            Ok(burst) => {
                let end_ns = clock.now_ns();
                self.count(&burst, now_ns, end_ns);
                progress.set(&self.total);
                match self.trouble(&burst.errors, end_ns) {
                    Some(error) => Step::Ended(End::Failed(error)),
                    None => self.rest(&burst, end_ns),
                }
            }
        }
    }

    /// The report of a run that has ended.
    pub fn into_report(mut self, end: End, now_ns: u64) -> RunReport {
        let unsent = self.engine.finish().min(self.total.sent);
        self.total.sent -= unsent;
        self.total.errors.not_handed_over += unsent;
        let is_short = matches!(end, End::Duration | End::Stopped);
        RunReport {
            end,
            lateness: self.pacer.lateness(is_short.then_some(now_ns)),
            next_ns: Some(self.next_ns()).filter(|next_ns| *next_ns != u64::MAX),
            engine: Some(self.engine.kind()),
            total: self.total,
            started_ns: self.started_ns,
            stopped_ns: now_ns,
            idle_ns: self.idle_ns,
            gaps: self.gaps,
            note: self.engine.note(),
            cursor: self.engine.cursor(),
        }
    }

    fn end(&self, now_ns: u64) -> Option<End> {
        if self.terms.count != 0 && self.total.sent >= self.terms.count {
            return Some(End::Count);
        }
        (now_ns >= self.end_ns()).then_some(End::Duration)
    }

    fn end_ns(&self) -> u64 {
        match self.terms.duration_ns {
            0 => u64::MAX,
            duration_ns => self.started_ns.saturating_add(duration_ns),
        }
    }

    /// Frames for the next burst: due, not beyond the count, and not for too long.
    fn budget(&mut self, now_ns: u64) -> Option<NonZeroU32> {
        let left = match self.terms.count {
            0 => u64::MAX,
            count => count - self.total.sent,
        };
        let frames = self.pacer.due(now_ns).min(left).min(u64::from(self.burst_frames));
        NonZeroU32::new(frames as u32)
    }

    /// What next after a burst. A paced run waits for its deadlines anyway.
    fn rest(&mut self, burst: &Burst, now_ns: u64) -> Step {
        if self.terms.pace != Pace::Unpaced || !self.engine.rests() {
            return Step::Sent;
        }
        match self.backoff.rest_ns(burst, now_ns) {
            0 => Step::Sent,
            rest_ns => Step::Full(rest_ns),
        }
    }

    fn count(&mut self, burst: &Burst, start_ns: u64, end_ns: u64) {
        self.total.add(burst);
        self.pacer.sent(burst.sent, sent_bytes(burst));
        let is_stuck = burst.sent == 0 && burst.errors.ring_full + burst.retries > 0;
        self.stuck_ns = is_stuck.then(|| self.stuck_ns.unwrap_or(start_ns));
        if let Some(gaps) = &mut self.gaps {
            gaps.burst(start_ns, end_ns, burst.sent);
        }
        let per_frame_ns = (end_ns - start_ns).max(1) / burst.offered().max(1);
        let fitting = (self.turn_ns / per_frame_ns.max(1)) as u32;
        // Frames that met a full ring may be lost: no more are made than there is room for.
        let roomy = match burst.errors.ring_full {
            0 => BURST_MAX,
            _ if !self.engine.rests() => BURST_MAX,
            _ => u32::try_from(2 * burst.sent).unwrap_or(BURST_MAX).max(BURST_FIRST),
        };
        let most = self.burst_frames.saturating_mul(BURST_GROWTH).min(BURST_MAX).min(roomy);
        self.burst_frames = fitting.clamp(1, most);
    }

    /// Whether errors end the run: more than a full ring does when the device explains it, a ring that stays
    /// full does after a while.
    fn trouble(&mut self, errors: &Errors, now_ns: u64) -> Option<EngineError> {
        if errors.is_serious() {
            return self.engine.explain(errors);
        }
        let is_stalled = self.stuck_ns.is_some_and(|stuck_ns| now_ns - stuck_ns >= STALL_NS);
        is_stalled.then(|| EngineError::Stalled {
            ifname: self.engine.device_name(),
            seconds: STALL_NS / 1_000_000_000,
        })
    }
}

/// How many frames share a reading of the clock. At 11 Mpps a reading for each takes a third of a frame's time.
fn clock_sharing(pace: Pace) -> u32 {
    match pace {
        Pace::Unpaced => CLOCK_SHARING,
        // The frames of a burst go out together, but one may be all there is until the next.
        Pace::Never | Pace::BurstDelay { .. } => 1,
        pace => (CLOCK_SHARED_NS / pace.gap_ns().max(1)).clamp(1, u64::from(CLOCK_SHARING)) as u32,
    }
}

/// The part of the offered bytes that the frames which went out have, refused ones being as long as the others.
fn sent_bytes(burst: &Burst) -> u64 {
    let product = u128::from(burst.frame_bytes) * u128::from(burst.sent);
    (product / u128::from(burst.offered().max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::fake::FakeClock;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Takes 10 ns a frame, and refuses what its script says.
    struct Scripted {
        clock: Rc<FakeClock>,
        /// Of each frame in turn: accepted, or the ring was full.
        accepts: fn(u64) -> bool,
        offered: Rc<Cell<u64>>,
        largest: Rc<Cell<u32>>,
    }

    impl Engine for Scripted {
        fn kind(&self) -> EngineKind {
            EngineKind::Mem
        }

        fn device_name(&self) -> String {
            "script".to_owned()
        }

        fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
            self.clock.0.set(self.clock.0.get() + 10 * u64::from(budget.get()));
            self.largest.set(self.largest.get().max(budget.get()));
            let mut burst = Burst { frame_bytes: 60 * u64::from(budget.get()), ..Burst::default() };
            for _ in 0..budget.get() {
                let is_sent = (self.accepts)(self.offered.replace(self.offered.get() + 1));
                burst.sent += u64::from(is_sent);
                burst.errors.ring_full += u64::from(!is_sent);
            }
            Ok(burst)
        }

        fn explain(&mut self, _: &Errors) -> Option<EngineError> {
            None
        }

        fn cursor(&self) -> Cursor {
            Cursor::default()
        }
    }

    fn finish(terms: Terms, accepts: fn(u64) -> bool) -> (RunReport, u64, u32) {
        let clock = Rc::new(FakeClock::default());
        let (offered, largest) = (Rc::default(), Rc::default());
        let engine = Scripted {
            clock: Rc::clone(&clock),
            accepts,
            offered: Rc::clone(&offered),
            largest: Rc::clone(&largest),
        };
        let mut run = Run::new(Box::new(engine), terms, 0);
        let progress = Progress::default();
        loop {
            match run.step(&*clock, &progress) {
                Step::Sent => {}
                Step::Full(rest_ns) => clock.rest(rest_ns),
                Step::WaitUntil(deadline_ns) => clock.wait_until(deadline_ns),
                Step::Ended(end) => {
                    let now_ns = clock.now_ns();
                    return (run.into_report(end, now_ns), offered.get(), largest.get());
                }
            }
        }
    }

    #[test]
    fn exactly_count_frames_are_sent_whatever_was_refused() {
        for count in [1, 2, 63, 64, 65, 1000, 1_000_001] {
            let (report, offered, _) = finish(Terms { count, ..Terms::default() }, |number| number % 3 != 0);
            assert_eq!(report.total.sent, count);
            assert_eq!(report.total.offered(), offered);
            assert!(matches!(report.end, End::Count));
        }
    }

    #[test]
    fn frames_share_a_reading_of_the_clock_within_half_a_microsecond() {
        let of_rate = |rate_pps| clock_sharing(Pace::FrameRate { rate_pps });
        assert_eq!([1_000, 1_000_000, 2_000_000, 10_000_000, 90_000_000].map(of_rate), [1, 1, 1, 5, 8]);
        assert_eq!(clock_sharing(Pace::Delay { delay_ns: 100 }), 5);
        assert_eq!(clock_sharing(Pace::WireRate { rate_bps: 10_000_000_000 }), 7, "84 bytes take 67.2 ns");
        assert_eq!((clock_sharing(Pace::Unpaced), clock_sharing(Pace::Never)), (8, 1));
    }

    #[test]
    fn bursts_take_two_milliseconds_at_most() {
        let (_, _, largest) = finish(Terms { count: 10_000_000, ..Terms::default() }, |_| true);
        assert_eq!(largest, 200_000);
    }

    #[test]
    fn pace_is_kept_to_the_frame_and_the_time_is_over_in_time() {
        let pace = Pace::FrameRate { rate_pps: 1_000_000 };
        let (report, ..) = finish(Terms { duration_ns: 1_000_000_000, pace, ..Terms::default() }, |_| true);
        assert_eq!(report.total.sent, 1_000_000);
        assert!(matches!(report.end, End::Duration));
        let gaps = report.gaps.expect("a paced run has gaps");
        assert!((990..1010).contains(&gaps.quantile_ns(0.5)), "{}", gaps.quantile_ns(0.5));
    }

    #[test]
    fn a_wire_rate_is_kept_however_many_frames_are_refused() {
        let pace = Pace::WireRate { rate_bps: 84 * 8 * 100_000 };
        let terms = Terms { duration_ns: 1_000_000_000, pace, ..Terms::default() };
        for accepts in [|_| true, |number| number % 3 != 0] as [fn(u64) -> bool; 2] {
            let (report, ..) = finish(terms, accepts);
            assert!((99_990..=100_001).contains(&report.total.sent), "{}", report.total.sent);
        }
    }

    /// An engine that loses its CPU for 3 ms now and then, and one frame in 500 to a full ring.
    #[test]
    fn lateness_does_not_add_up() {
        for rate_pps in [1_000, 10_000, 99_999, 1_000_000, 5_000_000] {
            let clock = Rc::new(FakeClock::default());
            let stolen = Stolen { clock: Rc::clone(&clock), calls: 0 };
            let terms = Terms { pace: Pace::FrameRate { rate_pps }, ..Terms::default() };
            let mut run = Run::new(Box::new(stolen), terms, 0);
            let progress = Progress::default();
            for second in 1..=3 {
                let until_ns = second * 1_000_000_000;
                while clock.now_ns() < until_ns {
                    if let Step::WaitUntil(deadline_ns) = run.step(&*clock, &progress) {
                        clock.wait_until(deadline_ns);
                    }
                }
                // Due at the last look, which was 3 ms ago at most.
                let due = |ns: u64| ns * rate_pps / 1_000_000_000 + 1;
                let sent = run.total().sent;
                let expected = due(until_ns - 3_100_000) * 499 / 500..=due(clock.now_ns());
                assert!(expected.contains(&sent), "{rate_pps} a second, {second} s: {sent}");
            }
        }
    }

    #[test]
    fn on_time_each_frame_goes_alone_below_a_hundred_thousand_a_second() {
        for (rate_pps, largest_burst) in [(1_000, 1), (99_999, 1), (50_000_000, 64)] {
            let pace = Pace::FrameRate { rate_pps };
            let terms = Terms { count: 10_000, pace, ..Terms::default() };
            let (report, _, largest) = finish(terms, |_| true);
            assert_eq!(report.total.sent, 10_000);
            assert!((1..=largest_burst).contains(&largest), "{rate_pps}: bursts of {largest}");
        }
    }

    /// Takes 20 ns a frame and 1 µs a call; each 100th call comes 3 ms late; one frame in 500 finds no room.
    struct Stolen {
        clock: Rc<FakeClock>,
        calls: u64,
    }

    impl Engine for Stolen {
        fn kind(&self) -> EngineKind {
            EngineKind::Mem
        }

        fn device_name(&self) -> String {
            "stolen".to_owned()
        }

        fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
            self.calls += 1;
            let pause_ns = if self.calls.is_multiple_of(100) { 3_000_000 } else { 0 };
            let frames = u64::from(budget.get());
            self.clock.0.set(self.clock.0.get() + 1_000 + 20 * frames + pause_ns);
            let ring_full = (frames / 500).min(frames - 1);
            let errors = Errors { ring_full, ..Errors::default() };
            Ok(Burst { sent: frames - ring_full, errors, frame_bytes: 60 * frames, ..Burst::default() })
        }

        fn explain(&mut self, _: &Errors) -> Option<EngineError> {
            None
        }

        fn cursor(&self) -> Cursor {
            Cursor::default()
        }
    }

    #[test]
    fn a_ring_that_stays_full_ends_the_run_and_every_frame_is_counted() {
        let (report, offered, _) = finish(Terms::default(), |number| number < 100);
        assert!(matches!(report.end, End::Failed(EngineError::Stalled { seconds: 2, .. })));
        assert_eq!((report.total.sent, report.total.offered()), (100, offered));
    }
}
