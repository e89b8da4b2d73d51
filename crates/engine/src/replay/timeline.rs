//! Due times on the clock: pauses and changes of the speed move the frames that are left.

use crate::clock::Clock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The speed of a run as it was asked for.
pub const SPEED_ONE: u64 = 1_000_000;
/// Interval of checks whether a pause is over: the signal may interrupt any thread.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// What other threads ask of a run while it sends.
#[derive(Debug)]
pub struct ReplayControl {
    pause: Arc<AtomicUsize>,
    speed: AtomicU64,
}

impl ReplayControl {
    /// `pause` is not 0 while no frame is to be sent; signal handlers set it.
    pub fn new(pause: Arc<AtomicUsize>) -> Self {
        Self { pause, speed: AtomicU64::new(SPEED_ONE) }
    }

    /// Begins or ends a pause.
    pub fn set_paused(&self, is_paused: bool) {
        self.pause.store(usize::from(is_paused), Ordering::Relaxed);
    }

    /// True during a pause.
    pub fn is_paused(&self) -> bool {
        self.pause.load(Ordering::Relaxed) != 0
    }

    /// Sends the frames that are left faster than their due times, in millionths: [`SPEED_ONE`] is
    /// the speed at the start.
    ///
    /// # Panics
    /// With a speed of zero.
    pub fn set_speed(&self, millionths: u64) {
        assert!(millionths > 0, "no frame would be sent");
        self.speed.store(millionths, Ordering::Relaxed);
    }

    /// The speed in millionths, as [`Self::set_speed`] set it.
    pub fn speed(&self) -> u64 {
        self.speed.load(Ordering::Relaxed)
    }

    fn wanted(&self) -> Wanted {
        Wanted { is_paused: self.is_paused(), speed: self.speed() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    is_paused: bool,
    speed: u64,
}

/// A pause, its end, or another speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayChange {
    /// Time since the first frame was due.
    pub elapsed_ns: u64,
    /// No frame was sent from then on.
    pub is_paused: bool,
    /// The speed from then on, in millionths.
    pub speed: u64,
}

/// When frames are due, until the next change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// At this time of the clock ...
    at_ns: u64,
    /// ... frames are due that have this due time.
    due_ns: u64,
    wanted: Wanted,
    /// Since when it is paused.
    paused_ns: Option<u64>,
    pub(super) pauses: u64,
    pub(super) pause_sum_ns: u64,
}

impl Timeline {
    fn new(start_ns: u64) -> Self {
        let wanted = Wanted { is_paused: false, speed: SPEED_ONE };
        Self { at_ns: start_ns, due_ns: 0, wanted, paused_ns: None, pauses: 0, pause_sum_ns: 0 }
    }

    /// The time of the clock at which a frame is due.
    pub(super) fn clock_ns(&self, due_ns: u64) -> u64 {
        let after = |ns: u64| scaled(ns, SPEED_ONE, self.wanted.speed);
        match due_ns.checked_sub(self.due_ns) {
            Some(later_ns) => self.at_ns.saturating_add(after(later_ns)),
            None => self.at_ns.saturating_sub(after(self.due_ns - due_ns)),
        }
    }

    /// Nanoseconds of the clock for one of due times, as a fraction of 2^`bits`.
    pub(super) fn scale(&self, bits: u32) -> u64 {
        scaled(1 << bits, SPEED_ONE, self.wanted.speed)
    }

    /// Takes over what is wanted from `now_ns` on.
    fn set(&mut self, wanted: Wanted, now_ns: u64) {
        if self.paused_ns.is_some() && !wanted.is_paused {
            let paused_ns = now_ns.saturating_sub(self.paused_ns.take().unwrap_or(now_ns));
            self.pause_sum_ns += paused_ns;
            self.at_ns += paused_ns;
        }
        if wanted.speed != self.wanted.speed {
            // Frames that are due by now keep their times.
            let until_ns = self.paused_ns.unwrap_or(now_ns).max(self.at_ns);
            self.due_ns += scaled(until_ns - self.at_ns, self.wanted.speed, SPEED_ONE);
            self.at_ns = until_ns;
        }
        if self.paused_ns.is_none() && wanted.is_paused {
            self.paused_ns = Some(now_ns);
            self.pauses += 1;
        }
        self.wanted = wanted;
    }
}

/// `value` * `times` / `per`.
fn scaled(value: u64, times: u64, per: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(times) / u128::from(per)).unwrap_or(u64::MAX)
}

/// A timeline and how it came about.
#[derive(Debug)]
struct ChangedTimeline {
    start_ns: u64,
    timeline: Timeline,
    changes: Vec<ReplayChange>,
}

impl ChangedTimeline {
    fn new(start_ns: u64) -> Self {
        Self { start_ns, timeline: Timeline::new(start_ns), changes: Vec::new() }
    }
}

/// The timeline of all threads of a run.
#[derive(Debug)]
pub(super) struct SharedTimeline {
    control: Arc<ReplayControl>,
    timeline: Mutex<ChangedTimeline>,
    is_started: AtomicBool,
    /// Grows with each change.
    version: AtomicU64,
}

impl SharedTimeline {
    pub(super) fn new(control: Arc<ReplayControl>) -> Self {
        let timeline = Mutex::new(ChangedTimeline::new(0));
        Self { control, timeline, is_started: AtomicBool::new(false), version: AtomicU64::new(0) }
    }

    /// Due times count from `start_ns` of the clock.
    pub(super) fn start(&self, start_ns: u64) {
        *self.lock() = ChangedTimeline::new(start_ns);
        self.is_started.store(true, Ordering::Release);
    }

    /// True once the start is known.
    pub(super) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }

    /// The timeline as it is now. A pause that goes on counts up to `now_ns`.
    pub(super) fn at_end(&self, now_ns: u64) -> Timeline {
        let mut timeline = self.lock().timeline;
        let wanted = Wanted { is_paused: false, ..timeline.wanted };
        timeline.set(wanted, now_ns);
        timeline
    }

    /// All changes since the start.
    pub(super) fn changes(&self) -> Vec<ReplayChange> {
        self.lock().changes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ChangedTimeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, now_ns: u64) {
        let mut shared = self.lock();
        // Under the lock: a thread that comes late does not bring back what is no longer wanted.
        let wanted = self.control.wanted();
        if wanted != shared.timeline.wanted {
            shared.timeline.set(wanted, now_ns);
            let Wanted { is_paused, speed } = wanted;
            let elapsed_ns = now_ns.saturating_sub(shared.start_ns);
            shared.changes.push(ReplayChange { elapsed_ns, is_paused, speed });
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// The timeline as one thread sees it.
#[derive(Debug)]
pub(super) struct OwnTimeline<'a> {
    shared: &'a SharedTimeline,
    version: u64,
    timeline: Timeline,
}

impl<'a> OwnTimeline<'a> {
    pub(super) fn new(shared: &'a SharedTimeline) -> Self {
        let version = shared.version.load(Ordering::Acquire);
        Self { shared, version, timeline: shared.lock().timeline }
    }

    /// The timeline from `now_ns` on.
    pub(super) fn now(&mut self, now_ns: u64) -> &Timeline {
        loop {
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.version {
                (self.version, self.timeline) = (version, self.shared.lock().timeline);
            }
            if self.shared.control.wanted() == self.timeline.wanted {
                return &self.timeline;
            }
            self.shared.apply(now_ns);
        }
    }

    /// Waits while the run is paused, or until a stop comes. True if it was paused.
    pub(super) fn wait_for_resume(&mut self, clock: &impl Clock, stop: &AtomicBool) -> bool {
        let mut was_paused = false;
        while self.now(clock.now_ns()).paused_ns.is_some() && !stop.load(Ordering::Relaxed) {
            was_paused = true;
            std::thread::sleep(PAUSE_POLL);
        }
        was_paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(is_paused: bool, speed: u64) -> Wanted {
        Wanted { is_paused, speed }
    }

    #[test]
    fn a_pause_moves_the_frames_that_are_left() {
        let mut timeline = Timeline::new(1000);
        assert_eq!(timeline.clock_ns(500), 1500);
        timeline.set(wanted(true, SPEED_ONE), 1200);
        timeline.set(wanted(false, SPEED_ONE), 1700);
        assert_eq!((timeline.clock_ns(500), timeline.pauses, timeline.pause_sum_ns), (2000, 1, 500));
        timeline.set(wanted(false, SPEED_ONE), 1800);
        assert_eq!(timeline.pauses, 1);
    }

    #[test]
    fn a_speed_counts_from_its_moment_on() {
        let mut timeline = Timeline::new(1000);
        timeline.set(wanted(false, 2 * SPEED_ONE), 1400);
        // 400 at the old speed, then 600 in half of the time.
        assert_eq!(timeline.clock_ns(1000), 1700);
        assert_eq!(timeline.scale(20), 1 << 19);
        timeline.set(wanted(false, SPEED_ONE / 2), 1600);
        assert_eq!(timeline.clock_ns(1000), 2000);
        // What was due before keeps its order.
        assert!(timeline.clock_ns(300) < timeline.clock_ns(400));
        timeline.set(wanted(true, SPEED_ONE), 1800);
        timeline.set(wanted(true, 4 * SPEED_ONE), 2800);
        timeline.set(wanted(false, 4 * SPEED_ONE), 3800);
        assert_eq!(timeline.clock_ns(1000), 3825);
    }

    #[test]
    fn hours_are_exact() {
        let mut timeline = Timeline::new(0);
        timeline.set(wanted(false, 3 * SPEED_ONE), 0);
        let day_ns = 86_400_000_000_000;
        assert_eq!(timeline.clock_ns(3 * day_ns), day_ns);
    }

    #[test]
    fn all_threads_see_one_timeline() {
        let control = Arc::new(ReplayControl::new(Arc::default()));
        let shared = SharedTimeline::new(Arc::clone(&control));
        assert!(!shared.is_started());
        shared.start(1000);
        let (mut one, mut other) = (OwnTimeline::new(&shared), OwnTimeline::new(&shared));
        control.set_paused(true);
        assert!(one.now(1100).paused_ns.is_some());
        control.set_paused(false);
        assert_eq!(other.now(1300).clock_ns(0), 1200);
        assert_eq!(one.now(5000).clock_ns(0), 1200);
        control.set_paused(true);
        one.now(6000);
        assert_eq!((shared.at_end(6500).pauses, shared.at_end(6500).pause_sum_ns), (2, 700));
        let times =
            shared.changes().iter().map(|change| (change.elapsed_ns, change.is_paused)).collect::<Vec<_>>();
        assert_eq!(times, [(100, true), (300, false), (5000, true)]);
    }
}
