//! One run: a plan on an engine until its count, its end or a stop, at its pace.
//!
//! A run proceeds in small steps, so that a thread can serve several and each stops within 10 ms.
//! The caller waits.

use crate::backoff::RingBackoff;
use crate::clock::Clock;
use crate::engine::{Burst, Engine, Errors};
use crate::inter_packet_gaps::InterPacketGaps;
use crate::link_state::{Interruptions, LINK_LOOK_NS, LinkState};
use crate::pacer::{CatchUp, Lateness, Pace, Pacer};
use crate::progress::Progress;
use crate::timed_calls::{CALL_NS_MAX, LEAD_FIRST_NS, LEAD_NS, WAIT_NS_MAX};
use crate::{EngineError, EngineKind};
use host::CpuUse;
use packet::Cursor;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// Target duration of a burst of a single run: short enough to stop and to read the clock, long
/// enough that the cost of a call is negligible.
pub(crate) const BURST_NS: u64 = 2_000_000;
/// Frames of the first burst, before the speed of the engine is known.
const BURST_FIRST: u32 = 64;
const BURST_MAX: u32 = 1 << 20;
/// Maximum growth of a burst over the previous one.
const BURST_GROWTH: u32 = 4;
/// Frames that share a clock reading when sent back to back: 0.4 µs at 20 Mpps; the header has
/// microseconds.
const CLOCK_SHARING: u32 = 8;
/// Paced frames share a clock reading if they are due within half a microsecond.
const CLOCK_SHARED_NS: u64 = 500;
/// With this many frames overdue, they go in batches; a call of single frames catches up with less.
const OVERDUE_BATCH_MIN: u64 = 64;
/// Frames with these gaps wait inside a call. With shorter ones they go in batches: single frames
/// take about half of this time. With longer ones, a frame would wait longer than a call may
/// ([`WAIT_NS_MAX`]).
const TIMED_GAPS_NS: RangeInclusive<u64> = 300..=WAIT_NS_MAX;
/// A device that accepts nothing for this time ends the run.
const STALL_NS: u64 = 2_000_000_000;

/// Beginning, end and rate of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Frames to send, 0 for no limit. Frames with errors do not count.
    pub count: u64,
    /// Duration, 0 for no limit.
    pub duration_ns: u64,
    /// Rate.
    pub pace: Pace,
    /// Rate while it is late.
    pub catch_up: CatchUp,
    /// Time from the start of all runs to the first frame of this one; its duration begins there.
    pub start_delay_ns: u64,
    /// Schedule and duration start when the first frame has left, so that a late one does not make
    /// the others follow in a burst.
    pub starts_with_first_frame: bool,
    /// The thread spins while it waits, instead of sleeping first. So do all runs of that thread.
    pub spins: bool,
    /// While the device is down or without carrier, due frames count as errors, and sending goes on
    /// when the link is back. Otherwise such a device ends the run.
    pub keep_going: bool,
}

/// Why a run ended.
#[derive(Debug)]
pub enum End {
    /// All frames were sent.
    Count,
    /// Its time is over.
    Duration,
    /// It was stopped.
    Stopped,
    /// It failed.
    Failed(EngineError),
}

/// Result of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Why it ended.
    pub end: End,
    /// The engine; `None` if none could be built.
    pub engine: Option<EngineKind>,
    /// Counts of frames.
    pub total: Burst,
    /// `CLOCK_MONOTONIC` at its start.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` at its end.
    pub stopped_ns: u64,
    /// From the time at which the first frame was due until the call that sent it returned; `None`
    /// if no frame was sent.
    pub first_late_ns: Option<u64>,
    /// Time spent waiting for the next deadline.
    pub idle_ns: u64,
    /// Inter-packet gaps; only of a paced run.
    pub gaps: Option<InterPacketGaps>,
    /// Something about the run that the report should mention.
    pub note: Option<String>,
    /// How late it was.
    pub lateness: Lateness,
    /// How often and how long the link was down.
    pub interruptions: Interruptions,
    /// What kept its thread from the CPU. A thread with several runs has it from the first one on.
    pub cpu: CpuUse,
    /// State of the next frame.
    pub cursor: Cursor,
    /// When the next frame was due; `None` if it never started.
    pub next_ns: Option<u64>,
}

impl RunReport {
    /// Of a run that never started.
    pub fn failed(error: EngineError, now_ns: u64, cursor: Cursor) -> Self {
        Self {
            end: End::Failed(error),
            engine: None,
            total: Burst::default(),
            started_ns: now_ns,
            stopped_ns: now_ns,
            first_late_ns: None,
            idle_ns: 0,
            gaps: None,
            note: None,
            lateness: Lateness::default(),
            interruptions: Interruptions::default(),
            cpu: CpuUse::default(),
            cursor,
            next_ns: None,
        }
    }

    /// Duration; 0 if it was stopped before its first frame was due.
    pub fn elapsed_ns(&self) -> u64 {
        self.stopped_ns.saturating_sub(self.started_ns)
    }
}

/// Result of a step.
#[derive(Debug)]
pub enum Step {
    /// Frames were offered; step again.
    Sent,
    /// Frames were offered and the device is full: back off for this number of nanoseconds.
    Full(u64),
    /// Nothing is due before this time.
    WaitUntil(u64),
    /// The run is over.
    Ended(End),
}

/// When the next step of a run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    due_ns: u64,
    catches_up: bool,
}

impl Wake {
    /// The time, as of now. A run that catches up is late for all that is due at its faster rate:
    /// as the first in order, with a frame every few microseconds, it would keep the thread for
    /// itself.
    pub(crate) fn at_ns(self, now_ns: u64) -> u64 {
        if self.catches_up && self.due_ns <= now_ns { 0 } else { self.due_ns }
    }
}

/// A run in progress.
pub struct Run {
    engine: Box<dyn Engine>,
    limits: Limits,
    pacer: Pacer,
    total: Burst,
    started_ns: u64,
    /// When the first frame was due.
    due_ns: u64,
    first_late_ns: Option<u64>,
    idle_ns: u64,
    gaps: Option<InterPacketGaps>,
    burst_frames: u32,
    /// Target duration of a burst.
    turn_ns: u64,
    /// The thread has no other run.
    is_alone: bool,
    /// Frames wait inside calls of the engine until they are due, if the run is alone.
    is_timed: bool,
    /// Times of the frames of a timed call: due, and sent.
    call_due_ns: Vec<u64>,
    call_sent_ns: Vec<u64>,
    backoff: RingBackoff,
    /// Time since which the device accepts nothing; `None` while it accepts.
    stuck_ns: Option<u64>,
    /// Something that the report should mention beside what the engine says.
    note: Option<&'static str>,
    /// For [`Limits::keep_going`].
    link: LinkState,
}

impl Run {
    /// Starts now, or after the delay of its limits.
    pub fn new(mut engine: Box<dyn Engine>, limits: Limits, now_ns: u64) -> Self {
        let start_ns = now_ns.saturating_add(limits.start_delay_ns);
        let is_paced = limits.pace != Pace::Unpaced;
        engine.set_clock_sharing(clock_sharing(limits.pace));
        engine.set_gap_ns(limits.pace.mean_gap_ns(0));
        let is_timed = can_be_timed(engine.as_mut(), limits.pace);
        Self {
            engine,
            limits,
            pacer: Pacer::new(limits.pace, start_ns).with_catch_up(limits.catch_up),
            total: Burst::default(),
            started_ns: start_ns,
            due_ns: start_ns,
            first_late_ns: None,
            idle_ns: 0,
            gaps: is_paced.then(InterPacketGaps::new),
            burst_frames: BURST_FIRST,
            turn_ns: BURST_NS,
            is_alone: false,
            is_timed,
            call_due_ns: Vec::new(),
            call_sent_ns: Vec::new(),
            backoff: RingBackoff::default(),
            stuck_ns: None,
            note: None,
            link: LinkState::new(start_ns),
        }
    }

    /// The current engine.
    pub(crate) fn engine_kind(&self) -> EngineKind {
        self.engine.kind()
    }

    /// When the next frame is due.
    pub fn next_ns(&self) -> u64 {
        self.pacer.next_ns()
    }

    /// When the next step is due: a frame, the end, or at once if it is unpaced or has sent its
    /// count. It changes with each step, and with other limits.
    pub(crate) fn wake(&self) -> Wake {
        let is_complete = self.limits.count != 0 && self.total.sent >= self.limits.count;
        let has_begun = self.limits.start_delay_ns == 0 || self.total.offered() > 0;
        if is_complete || self.limits.pace == Pace::Unpaced && has_begun {
            return Wake { due_ns: 0, catches_up: false };
        }
        let due_ns = self.next_ns().max(self.engine.next_call_ns()).min(self.end_ns());
        Wake { due_ns, catches_up: self.pacer.catches_up() }
    }

    /// Sets the target duration of bursts.
    pub(crate) fn set_turn_ns(&mut self, turn_ns: u64) {
        let frames = u64::from(self.burst_frames) * turn_ns / self.turn_ns;
        self.burst_frames = (frames as u32).clamp(1, BURST_MAX);
        self.turn_ns = turn_ns;
    }

    /// Whether the thread has no other run, which a waiting call would delay.
    pub(crate) fn set_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Counts of frames so far.
    pub fn total(&self) -> &Burst {
        &self.total
    }

    /// Start time.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Time spent waiting so far.
    pub fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    /// State of the next frame.
    pub fn cursor(&self) -> Cursor {
        self.engine.cursor()
    }

    /// The next frame is due at `next_ns`, on the clock of the run that it continues.
    pub(crate) fn goes_on_at(&mut self, next_ns: u64) {
        self.limits.starts_with_first_frame = false;
        if self.limits.pace != Pace::Never {
            self.pacer = Pacer::new(self.limits.pace, next_ns).with_catch_up(self.limits.catch_up);
        }
    }

    /// It started at `started_ns`, with another engine.
    pub(crate) fn backdate(&mut self, started_ns: u64) {
        self.limits.starts_with_first_frame = false;
        (self.started_ns, self.due_ns) = (started_ns, started_ns);
    }

    /// The caller has waited for this run.
    pub fn waited(&mut self, wait_ns: u64) {
        self.idle_ns += wait_ns;
    }

    /// Continues with other limits.
    pub fn set_limits(&mut self, limits: Limits, now_ns: u64) {
        if limits.pace != self.limits.pace {
            let is_paced = limits.pace != Pace::Unpaced;
            self.engine.set_clock_sharing(clock_sharing(limits.pace));
            self.engine.set_gap_ns(limits.pace.mean_gap_ns(0));
            self.is_timed = can_be_timed(self.engine.as_mut(), limits.pace);
            self.pacer.change(limits.pace, now_ns);
            self.gaps = self.gaps.take().or_else(|| is_paced.then(InterPacketGaps::new));
            // It would belong to neither rate, and after a pause it would be the pause.
            self.gaps.iter_mut().for_each(InterPacketGaps::skip_next);
        }
        self.limits = limits;
    }

    /// The report of the run mentions this.
    pub(crate) fn set_note(&mut self, note: &'static str) {
        self.note = Some(note);
    }

    /// Sends what is due, if anything, and returns what to do next.
    pub fn step(&mut self, clock: &dyn Clock, progress: &Progress) -> Step {
        let now_ns = clock.now_ns();
        if let Some(end) = self.end(now_ns) {
            return Step::Ended(end);
        }
        if self.limits.starts_with_first_frame && self.total.sent == 0 && now_ns > self.started_ns {
            self.start_at(now_ns);
        }
        if self.link.is_down() {
            match self.is_link_back(now_ns, progress) {
                Ok(true) => {}
                Ok(false) => return Step::WaitUntil((now_ns + LINK_LOOK_NS).min(self.end_ns())),
                Err(error) => return Step::Ended(End::Failed(error)),
            }
        }
        if self.is_alone {
            self.pacer.end_catching_up(now_ns);
        }
        let due = self.pacer.due(now_ns);
        let budget = self.budget(due);
        let is_overdue = due >= OVERDUE_BATCH_MIN;
        let is_timed = self.is_timed && self.is_alone && !is_overdue && !self.pacer.catches_up();
        let next_call_ns = self.engine.next_call_ns();
        let called = match budget {
            _ if next_call_ns > now_ns => Err(next_call_ns.min(self.end_ns())),
            _ if is_timed => self.timed_call(now_ns),
            Some(budget) => Ok(self.engine.send_burst(budget)),
            None => Err(self.next_ns().min(self.end_ns())),
        };
        match called {
            Err(deadline_ns) => Step::WaitUntil(deadline_ns),
            Ok(Err(error)) => self.fail(error, clock.now_ns()),
            Ok(Ok(burst)) => {
                let end_ns = clock.now_ns();
                if burst.sent > 0 {
                    self.link.note_sent(end_ns);
                }
                let is_first = self.total.sent == 0 && burst.sent > 0;
                let gap_ns = self.limits.pace.uniform_gap_ns();
                self.count(&burst, now_ns);
                if is_timed {
                    self.count_timed(&burst, now_ns, gap_ns, progress);
                } else {
                    let gaps = self.count_at_once(&burst, now_ns, end_ns);
                    gap_ns.iter().for_each(|gap_ns| progress.add_gaps(&gaps, *gap_ns));
                }
                if is_first {
                    self.first_late_ns = Some(end_ns.saturating_sub(self.due_ns));
                }
                if is_first && self.limits.starts_with_first_frame {
                    self.start_at(end_ns);
                }
                progress.set(&self.total);
                match self.trouble(&burst.errors, end_ns) {
                    Some(error) => self.fail(error, end_ns),
                    None => self.rest(&burst, end_ns),
                }
            }
        }
    }

    /// Ends the run, or waits for the link if that is what it waits for.
    fn fail(&mut self, error: EngineError, now_ns: u64) -> Step {
        if !self.limits.keep_going || !error.is_link_down() {
            return Step::Ended(End::Failed(error));
        }
        self.link.went_down();
        self.stuck_ns = None;
        self.gaps.iter_mut().for_each(InterPacketGaps::skip_next);
        Step::WaitUntil(now_ns)
    }

    /// True if the link is back. Frames that were due before count as errors.
    ///
    /// # Errors
    /// The device is gone.
    fn is_link_back(&mut self, now_ns: u64, progress: &Progress) -> Result<bool, EngineError> {
        let is_down = self.link.look(now_ns, || self.engine.link_trouble())?;
        if self.limits.pace != Pace::Unpaced {
            let left = match self.limits.count {
                0 => u64::MAX,
                count => count.saturating_sub(self.total.sent),
            };
            let due = self.pacer.due_in_full(now_ns).min(left);
            let mean_len = self.total.frame_bytes.checked_div(self.total.offered()).unwrap_or(0);
            self.pacer.sent(due, due * mean_len);
            self.total.errors.causes.no_carrier += due;
            self.total.frame_bytes += due * mean_len;
            progress.set(&self.total);
        }
        Ok(!is_down)
    }

    /// Moves the start of a run.
    fn start_at(&mut self, start_ns: u64) {
        self.pacer.start_at(start_ns);
        self.started_ns = start_ns;
    }

    /// The report of a run that has ended.
    pub fn into_report(mut self, end: End, now_ns: u64) -> RunReport {
        let unsent = self.engine.finish().min(self.total.sent);
        self.total.sent -= unsent;
        self.total.errors.causes.not_handed_over += unsent;
        let is_short = matches!(end, End::Duration | End::Stopped);
        RunReport {
            end,
            lateness: self.pacer.lateness(is_short.then_some(now_ns)),
            next_ns: Some(self.next_ns()).filter(|next_ns| *next_ns != u64::MAX),
            engine: Some(self.engine.kind()),
            total: self.total,
            interruptions: self.link.interruptions(),
            cpu: CpuUse::default(),
            started_ns: self.started_ns,
            stopped_ns: now_ns,
            first_late_ns: self.first_late_ns,
            idle_ns: self.idle_ns,
            gaps: self.gaps,
            note: self
                .engine
                .note()
                .into_iter()
                .chain(self.note.map(str::to_owned))
                .reduce(|notes, note| notes + "; " + &note),
            cursor: self.engine.cursor(),
        }
    }

    fn end(&self, now_ns: u64) -> Option<End> {
        if self.limits.count != 0 && self.total.sent >= self.limits.count {
            return Some(End::Count);
        }
        (now_ns >= self.end_ns()).then_some(End::Duration)
    }

    fn end_ns(&self) -> u64 {
        match self.limits.duration_ns {
            0 => u64::MAX,
            duration_ns => self.started_ns.saturating_add(duration_ns),
        }
    }

    /// Frames of the next burst: of those due, within the count, and not for too long.
    fn budget(&self, due: u64) -> Option<NonZeroU32> {
        let left = match self.limits.count {
            0 => u64::MAX,
            count => count - self.total.sent,
        };
        let frames = due.min(left).min(u64::from(self.burst_frames));
        NonZeroU32::new(frames as u32)
    }

    /// Sends the next frames at their times by a call that begins before the first is due, or
    /// returns when to begin it.
    fn timed_call(&mut self, now_ns: u64) -> Result<Result<Burst, EngineError>, u64> {
        // The first frame goes alone, so that its time is known.
        let is_first = self.total.offered() == 0;
        let knows_start = is_first && !self.limits.starts_with_first_frame;
        let lead_ns = if knows_start { LEAD_FIRST_NS } else { LEAD_NS };
        let (next_ns, end_ns) = (self.next_ns(), self.end_ns());
        let wake_ns = next_ns.saturating_sub(lead_ns).min(end_ns);
        if now_ns < wake_ns {
            return Err(wake_ns);
        }
        let engine = self.engine.timed().expect("the pace was checked with this engine");
        let left = match self.limits.count {
            0 => u64::MAX,
            count => count - self.total.sent,
        };
        let most = if is_first { 1 } else { left.min(engine.call_frames_max() as u64) };
        let call_end_ns = now_ns.max(next_ns).saturating_add(CALL_NS_MAX);
        let frame_len = engine.frame_len().unwrap_or(0);
        self.call_due_ns.clear();
        self.call_sent_ns.clear();
        self.pacer.upcoming(most as usize, call_end_ns.min(end_ns), frame_len, &mut self.call_due_ns);
        if self.call_due_ns.is_empty() {
            return Err(end_ns);
        }
        Ok(engine.send_at(&self.call_due_ns, &mut self.call_sent_ns))
    }

    /// What to do after a burst. A paced run waits for its deadlines anyway.
    fn rest(&mut self, burst: &Burst, now_ns: u64) -> Step {
        if self.limits.pace != Pace::Unpaced || !self.engine.rests() {
            return Step::Sent;
        }
        match self.backoff.rest_ns(burst, now_ns) {
            0 => Step::Sent,
            rest_ns => Step::Full(rest_ns),
        }
    }

    /// Counts the frames of a call.
    fn count(&mut self, burst: &Burst, start_ns: u64) {
        self.total.add(burst);
        self.pacer.sent(burst.sent, burst.sent_bytes());
        let is_stuck = burst.sent == 0 && burst.errors.ring_full + burst.retries > 0;
        self.stuck_ns = is_stuck.then(|| self.stuck_ns.unwrap_or(start_ns));
    }

    /// Counts the gaps and waits of a timed call. Which of its frames met an error is unknown: the
    /// last ones count as those.
    fn count_timed(&mut self, burst: &Burst, start_ns: u64, gap_ns: Option<u64>, progress: &Progress) {
        let mut free_ns = start_ns;
        let times = self.call_due_ns.iter().zip(&self.call_sent_ns).take(burst.sent as usize);
        for (due_ns, sent_ns) in times {
            self.idle_ns += due_ns.saturating_sub(free_ns);
            free_ns = *sent_ns;
            let Some(gaps) = &mut self.gaps else { continue };
            let gaps = gaps.burst(*sent_ns, *sent_ns, 1);
            gap_ns.iter().for_each(|gap_ns| progress.add_gaps(&gaps, *gap_ns));
        }
    }

    /// Counts the gaps of frames that were sent at once, and sets the size of the next burst.
    /// Returns the gaps with their counts.
    fn count_at_once(&mut self, burst: &Burst, start_ns: u64, end_ns: u64) -> [(u64, u64); 2] {
        let gaps = self.gaps.as_mut().map(|gaps| gaps.burst(start_ns, end_ns, burst.sent));
        let per_frame_ns = (end_ns - start_ns).max(1) / burst.offered().max(1);
        let fitting = (self.turn_ns / per_frame_ns.max(1)) as u32;
        // Frames that meet a full ring may be lost, so bursts are limited.
        let roomy = match burst.errors.ring_full {
            0 => BURST_MAX,
            _ if !self.engine.rests() => BURST_MAX,
            _ => u32::try_from(2 * burst.sent).unwrap_or(BURST_MAX).max(BURST_FIRST),
        };
        let most = self.burst_frames.saturating_mul(BURST_GROWTH).min(BURST_MAX).min(roomy);
        self.burst_frames = fitting.clamp(1, most);
        gaps.unwrap_or_default()
    }

    /// Whether errors end the run: errors beside a full ring if the device explains them, or a ring
    /// that stays full for some time.
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

/// True if frames at this pace can wait inside calls of this engine: not those of bursts, which
/// belong together, nor those whose times depend on lengths that vary, nor those of a ramp, nor
/// those with random gaps, which may be longer than a call waits.
fn can_be_timed(engine: &mut dyn Engine, pace: Pace) -> bool {
    let Some(timed) = engine.timed() else { return false };
    let gap_ns = match pace {
        Pace::Constant(rate) if rate.pps().is_some() => pace.gap_ns(),
        Pace::Constant(_) => {
            timed.frame_len().map_or(0, |frame_len| pace.gap_of(packet::wire_len(frame_len)))
        }
        Pace::Unpaced | Pace::Never | Pace::Bursts { .. } | Pace::Ramp(_) | Pace::Poisson { .. } => 0,
    };
    TIMED_GAPS_NS.contains(&gap_ns)
}

/// How many frames share a clock reading. At 11 Mpps a reading per frame takes a third of its time.
fn clock_sharing(pace: Pace) -> u32 {
    match pace {
        Pace::Unpaced => CLOCK_SHARING,
        // The frames of a burst are sent together, but it may be the only one for some time.
        Pace::Never | Pace::Bursts { rate: None, .. } => 1,
        pace => (CLOCK_SHARED_NS / pace.gap_ns().max(1)).clamp(1, u64::from(CLOCK_SHARING)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimedEngine;
    use crate::clock::fake::FakeClock;
    use crate::engine::fake::FakeEngine;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// Runs an engine that takes 10 ns per frame. `accepts` tells for each frame if the ring has
    /// space. Returns the report, the offered frames, and the largest burst.
    fn finish(limits: Limits, accepts: fn(u64) -> bool) -> (RunReport, u64, u32) {
        let clock = Rc::new(FakeClock::default());
        let (offered, largest) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u32)));
        let (engine_clock, total, longest) = (Rc::clone(&clock), Rc::clone(&offered), Rc::clone(&largest));
        let engine = FakeEngine(move |budget: u32| {
            engine_clock.rest(10 * u64::from(budget));
            longest.set(budget.max(longest.get()));
            let mut burst = Burst { frame_bytes: 60 * u64::from(budget), ..Burst::default() };
            for _ in 0..budget {
                let is_sent = accepts(total.replace(total.get() + 1));
                burst.sent += u64::from(is_sent);
                burst.errors.ring_full += u64::from(!is_sent);
            }
            burst
        });
        let mut run = Run::new(Box::new(engine), limits, 0);
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
            let (report, offered, _) =
                finish(Limits { count, ..Limits::default() }, |number| number % 3 != 0);
            assert_eq!(report.total.sent, count);
            assert_eq!(report.total.offered(), offered);
            assert!(matches!(report.end, End::Count));
        }
    }

    #[test]
    fn frames_share_a_reading_of_the_clock_within_half_a_microsecond() {
        let of_rate = |rate_pps| clock_sharing(Pace::from_pps(rate_pps));
        assert_eq!([1_000, 1_000_000, 2_000_000, 10_000_000, 90_000_000].map(of_rate), [1, 1, 1, 5, 8]);
        assert_eq!(clock_sharing(Pace::from_delay_ns(100)), 5);
        assert_eq!(clock_sharing(Pace::from_wire_bps(10_000_000_000)), 7, "84 bytes take 67.2 ns");
        assert_eq!((clock_sharing(Pace::Unpaced), clock_sharing(Pace::Never)), (8, 1));
    }

    #[test]
    fn bursts_take_two_milliseconds_at_most() {
        let (_, _, largest) = finish(Limits { count: 10_000_000, ..Limits::default() }, |_| true);
        assert_eq!(largest, 200_000);
    }

    #[test]
    fn pace_is_kept_to_the_frame_and_the_time_is_over_in_time() {
        let pace = Pace::from_pps(1_000_000);
        let (report, ..) = finish(Limits { duration_ns: 1_000_000_000, pace, ..Limits::default() }, |_| true);
        assert_eq!(report.total.sent, 1_000_000);
        assert!(matches!(report.end, End::Duration));
        let gaps = report.gaps.expect("a paced run has gaps");
        assert!((990..1010).contains(&gaps.quantile_ns(0.5)), "{}", gaps.quantile_ns(0.5));
    }

    #[test]
    fn a_wire_rate_is_kept_however_many_frames_are_refused() {
        let pace = Pace::from_wire_bps(84 * 8 * 100_000);
        let limits = Limits { duration_ns: 1_000_000_000, pace, ..Limits::default() };
        for accepts in [|_| true, |number| number % 3 != 0] as [fn(u64) -> bool; 2] {
            let (report, ..) = finish(limits, accepts);
            assert!((99_990..=100_001).contains(&report.total.sent), "{}", report.total.sent);
        }
    }

    /// An engine that loses its CPU for 3 ms now and then, and one frame in 500 to a full ring.
    #[test]
    fn lateness_does_not_add_up() {
        for rate_pps in [1_000, 10_000, 99_999, 1_000_000, 5_000_000] {
            let clock = Rc::new(FakeClock::default());
            let stolen = stolen(Rc::clone(&clock));
            let limits = Limits { pace: Pace::from_pps(rate_pps), ..Limits::default() };
            let mut run = Run::new(Box::new(stolen), limits, 0);
            let progress = Progress::default();
            for second in 1..=3 {
                let until_ns = second * 1_000_000_000;
                while clock.now_ns() < until_ns {
                    if let Step::WaitUntil(deadline_ns) = run.step(&*clock, &progress) {
                        clock.wait_until(deadline_ns);
                    }
                }
                // Due at the last step, at most 3 ms ago.
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
            let pace = Pace::from_pps(rate_pps);
            let limits = Limits { count: 10_000, pace, ..Limits::default() };
            let (report, _, largest) = finish(limits, |_| true);
            assert_eq!(report.total.sent, 10_000);
            assert!((1..=largest_burst).contains(&largest), "{rate_pps}: bursts of {largest}");
        }
    }

    /// Takes 20 ns per frame and 1 µs per call; each 100th call is 3 ms late; one frame in 500
    /// meets a full ring.
    fn stolen(clock: Rc<FakeClock>) -> impl Engine {
        let mut calls = 0_u64;
        FakeEngine(move |budget: u32| {
            calls += 1;
            let pause_ns = if calls.is_multiple_of(100) { 3_000_000 } else { 0 };
            let frames = u64::from(budget);
            clock.rest(1_000 + 20 * frames + pause_ns);
            let ring_full = (frames / 500).min(frames - 1);
            let errors = Errors { ring_full, ..Errors::default() };
            Burst { sent: frames - ring_full, errors, frame_bytes: 60 * frames, ..Burst::default() }
        })
    }

    /// Its first call takes 28 ms, as the first frame of a cold engine on a busy machine.
    fn slow_start(clock: Rc<FakeClock>, budgets: Rc<RefCell<Vec<u32>>>) -> impl Engine {
        FakeEngine(move |budget: u32| {
            clock.rest(if budgets.borrow().is_empty() { 28_000_000 } else { 100 });
            budgets.borrow_mut().push(budget);
            let sent = u64::from(budget);
            Burst { sent, frame_bytes: 60 * sent, ..Burst::default() }
        })
    }

    #[test]
    fn a_late_first_frame_does_not_make_a_burst_of_the_others() {
        for starts_with_first_frame in [false, true] {
            let clock = Rc::new(FakeClock::default());
            let budgets = Rc::default();
            let engine = slow_start(Rc::clone(&clock), Rc::clone(&budgets));
            let pace = Pace::from_pps(10_000);
            let limits = Limits { count: 5000, pace, starts_with_first_frame, ..Limits::default() };
            let mut run = Run::new(Box::new(engine), limits, 0);
            clock.0.set(5_000_000);
            let progress = Progress::default();
            loop {
                match run.step(&*clock, &progress) {
                    Step::WaitUntil(deadline_ns) => clock.wait_until(deadline_ns),
                    Step::Ended(_) => break,
                    _ => {}
                }
            }
            let largest = budgets.borrow().iter().copied().max();
            assert_eq!(largest == Some(1), starts_with_first_frame, "{largest:?}");
            let took_ns = clock.now_ns() - run.started_ns();
            assert!((499_900_000..500_001_000).contains(&took_ns), "{took_ns}");
        }
    }

    /// A call takes 5 µs before its first frame, and each frame 200 ns once it is due. Each 50th
    /// call is 3 ms late.
    struct Waiting {
        clock: Rc<FakeClock>,
        calls: u64,
        frame_len: Option<u32>,
        /// When each frame was due, and when it was sent.
        times: Rc<std::cell::RefCell<Vec<(u64, u64)>>>,
        longest_ns: Rc<Cell<u64>>,
    }

    impl Engine for Waiting {
        fn kind(&self) -> EngineKind {
            EngineKind::Mem
        }

        fn device_name(&self) -> String {
            "waiting".to_owned()
        }

        fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
            let due_ns = vec![self.clock.now_ns(); budget.get() as usize];
            self.send_at(&due_ns, &mut Vec::new())
        }

        fn timed(&mut self) -> Option<&mut dyn TimedEngine> {
            Some(self)
        }

        fn cursor(&self) -> Cursor {
            Cursor::default()
        }
    }

    impl TimedEngine for Waiting {
        fn frame_len(&self) -> Option<u32> {
            self.frame_len
        }

        fn call_frames_max(&self) -> usize {
            128
        }

        fn send_at(&mut self, due_ns: &[u64], sent_ns: &mut Vec<u64>) -> Result<Burst, EngineError> {
            self.calls += 1;
            let (pass, begin_ns) = (|ns| self.clock.0.set(self.clock.0.get() + ns), self.clock.now_ns());
            pass(if self.calls.is_multiple_of(50) { 3_000_000 } else { 5_000 });
            for due_ns in due_ns {
                self.clock.wait_until(*due_ns);
                sent_ns.push(self.clock.now_ns());
                self.times.borrow_mut().push((*due_ns, self.clock.now_ns()));
                pass(200);
            }
            if !self.calls.is_multiple_of(50) {
                self.longest_ns.set(self.longest_ns.get().max(self.clock.now_ns() - begin_ns));
            }
            let sent = due_ns.len() as u64;
            Ok(Burst { sent, frame_bytes: 60 * sent, ..Burst::default() })
        }
    }

    /// The report, the times of all frames, and the duration of the longest call.
    fn finish_waiting(limits: Limits, frame_len: Option<u32>) -> (RunReport, Vec<(u64, u64)>, u64) {
        let clock = Rc::new(FakeClock::default());
        let (times, longest_ns) = (Rc::default(), Rc::default());
        let engine = Waiting {
            clock: Rc::clone(&clock),
            calls: 0,
            frame_len,
            times: Rc::clone(&times),
            longest_ns: Rc::clone(&longest_ns),
        };
        let mut run = Run::new(Box::new(engine), limits, 2_000_000);
        run.set_alone(true);
        let progress = Progress::default();
        loop {
            match run.step(&*clock, &progress) {
                Step::WaitUntil(deadline_ns) => clock.wait_until(deadline_ns),
                Step::Ended(end) => {
                    let report = run.into_report(end, clock.now_ns());
                    return (report, times.take(), longest_ns.get());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn frames_wait_inside_calls_until_they_are_due() {
        for rate_pps in [100_000, 1_000_000] {
            let pace = Pace::from_pps(rate_pps);
            let limits = Limits { count: 20_000, pace, ..Limits::default() };
            let (report, times, longest_ns) = finish_waiting(limits, Some(60));
            assert_eq!((report.total.sent, times.len()), (20_000, 20_000));
            // A call begins with up to 64 frames that are late, and the first one early.
            assert!(longest_ns <= LEAD_FIRST_NS + CALL_NS_MAX, "{rate_pps}: {longest_ns}");
            assert!(times.iter().all(|(due_ns, sent_ns)| sent_ns >= due_ns), "{rate_pps}");
            let exact = times.iter().filter(|(due_ns, sent_ns)| sent_ns == due_ns).count();
            // 49 calls of 1 ms are on time, then the frames of 3 ms are late.
            assert!(exact * 2 > times.len(), "{rate_pps}: {exact} of {} on time", times.len());
            let due_ns = |number: u64| 2_000_000 + (number * 1_000_000_000).div_ceil(rate_pps);
            assert_eq!(times.last().map(|(_, sent_ns)| *sent_ns), Some(due_ns(19_999)), "no drift");
            let gaps = report.gaps.as_ref().expect("a paced run has gaps");
            assert_eq!(gaps.count(), 19_999);
            assert!(gaps.quantile_ns(0.5).abs_diff(1_000_000_000 / rate_pps) * 50 < 1_000_000_000 / rate_pps);
        }
    }

    /// The slow batch made the next ones smaller than the number of frames that go in batches, and
    /// overdue frames went one by one until the end of the run.
    #[test]
    fn overdue_frames_go_in_batches_after_a_slow_batch() {
        let (clock, times) = (Rc::new(FakeClock::default()), Rc::<RefCell<Vec<_>>>::default());
        let engine = Waiting {
            clock: Rc::clone(&clock),
            calls: 49,
            frame_len: Some(60),
            times: Rc::clone(&times),
            longest_ns: Rc::default(),
        };
        let limits = Limits { pace: Pace::from_pps(1_000_000), ..Limits::default() };
        let mut run = Run::new(Box::new(engine), limits, 0);
        run.set_alone(true);
        clock.0.set(100_000);
        run.step(&*clock, &Progress::default());
        assert_eq!(times.borrow().len() as u32, BURST_FIRST);
        let batch_frames = run.burst_frames;
        assert!(u64::from(batch_frames) < OVERDUE_BATCH_MIN, "{batch_frames}");
        run.step(&*clock, &Progress::default());
        // A timed call would have 128.
        assert_eq!(times.borrow().len() as u32, BURST_FIRST + batch_frames);
    }

    #[test]
    fn frames_wait_inside_calls_only_if_their_times_are_known_and_apart() {
        let timed = |pace: Pace, frame_len| {
            let engine = &mut Waiting {
                clock: Rc::default(),
                calls: 0,
                frame_len,
                times: Rc::default(),
                longest_ns: Rc::default(),
            };
            can_be_timed(engine, pace)
        };
        let rate = Pace::from_wire_bps;
        assert!(timed(Pace::from_pps(3_000_000), None));
        assert!(!timed(Pace::from_pps(5_000_000), None));
        assert!(timed(Pace::from_pps(10_000), None));
        assert!(!timed(Pace::from_pps(9_999), None), "longer gaps");
        assert!(!timed(Pace::from_call_delay_ns(100_000, 8), Some(60)), "a burst stays together");
        assert!(timed(rate(10_000_000_000), Some(1514)) && !timed(rate(10_000_000_000), Some(60)));
        assert!(!timed(rate(1_000_000), None), "lengths vary");
        assert!(!timed(Pace::Unpaced, Some(60)));
    }

    #[test]
    fn a_ring_that_stays_full_ends_the_run_and_every_frame_is_counted() {
        let (report, offered, _) = finish(Limits::default(), |number| number < 100);
        assert!(matches!(report.end, End::Failed(EngineError::Stalled { seconds: 2, .. })));
        assert_eq!((report.total.sent, report.total.offered()), (100, offered));
    }
}
