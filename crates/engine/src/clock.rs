//! Clocks: of the machine, or of a test.

use packet::{FrameClock, Plan};
use std::cell::Cell;
use std::time::Duration;

/// The time source of a run.
pub trait Clock {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Nanoseconds since 1970.
    fn wall_ns(&self) -> u64;

    /// The time that the next frame of `plan` carries.
    fn of_frame(&self, plan: &Plan) -> u64 {
        match plan.clock() {
            FrameClock::Wall => self.wall_ns(),
            FrameClock::Monotonic => self.now_ns(),
        }
    }

    /// Waits until `deadline_ns` of the monotonic clock, or less if that is far away: the caller
    /// calls again.
    fn wait_until(&self, deadline_ns: u64);

    /// Yields the CPU for about `rest_ns`.
    fn rest(&self, rest_ns: u64);
}

/// The clocks of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Sleeps are late. So a waiting thread wakes up this long before the deadline at least, and spins.
const MARGIN_MIN_NS: u64 = 20_000;
/// And this long at most: with a frame each millisecond, spinning takes an eighth of a CPU.
/// Wake-ups that are later still wait for another program on the CPU, which needs it.
const MARGIN_MAX_NS: u64 = 125_000;
/// The margin before the first sleep.
const MARGIN_FIRST_NS: u64 = 100_000;
/// The margin before a start that was measured for: processors take up to this long to leave a deep
/// sleep.
const MARGIN_MEASURED_MIN_NS: u64 = 300_000;
/// And this long at most.
const MARGIN_MEASURED_MAX_NS: u64 = 4_000_000;
/// Sleeps of such a measurement, and the length of each.
const MEASURED_SLEEPS: usize = 8;
const MEASURED_SLEEP_NS: u64 = 100_000;
/// No sleep of it begins later than this before the start.
const MEASURED_BEFORE_NS: u64 = 2_500_000;
/// After a sleep that ended in time, the margin falls by this fraction of what was not needed,
const DECAY: u64 = 64;
/// and after one that ended later, it rises by this fraction of what was missing.
const RISE: u64 = 4;
/// Longest sleep, so that a stop takes effect within 10 ms.
const SLEEP_MAX_NS: u64 = 4_000_000;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        host::monotonic_ns()
    }

    fn wall_ns(&self) -> u64 {
        host::realtime_ns()
    }

    fn wait_until(&self, deadline_ns: u64) {
        wait(deadline_ns, MARGIN_MIN_NS);
    }

    fn rest(&self, rest_ns: u64) {
        std::thread::sleep(Duration::from_nanos(rest_ns));
    }
}

/// The clocks of the machine, with a wake-up margin that adapts to the lateness of sleeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct HybridClock {
    margin: Cell<SpinMargin>,
    spins: Cell<bool>,
}

impl HybridClock {
    /// Whether waits spin from their beginning.
    pub(crate) fn set_spinning(&self, spins: bool) {
        self.spins.set(spins);
    }

    /// Sets the margin before a start at `start_ns`, some milliseconds away, by the lateness that
    /// most sleeps have now. A thread that spins for longer keeps threads of its CPU, which start
    /// at the same time, from sending.
    pub(crate) fn measure_before(&self, start_ns: u64) {
        let mut lates_ns = [0; MEASURED_SLEEPS];
        for late_ns in &mut lates_ns {
            if SystemClock.now_ns() + MEASURED_BEFORE_NS > start_ns {
                return;
            }
            *late_ns = sleep(MEASURED_SLEEP_NS);
        }
        self.margin.set(SpinMargin::measured(lates_ns));
    }
}

impl Clock for HybridClock {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns()
    }

    fn wall_ns(&self) -> u64 {
        SystemClock.wall_ns()
    }

    fn wait_until(&self, deadline_ns: u64) {
        if self.spins.get() {
            spin(deadline_ns.min(self.now_ns() + SLEEP_MAX_NS));
            return;
        }
        let margin = self.margin.get();
        if let Some(late_ns) = wait(deadline_ns, margin.0) {
            self.margin.set(margin.after(late_ns));
        }
    }

    fn rest(&self, rest_ns: u64) {
        SystemClock.rest(rest_ns);
    }
}

/// Sleeps until `margin_ns` before the deadline or for the longest sleep, or spins until the
/// deadline. Returns how late a sleep ended; `None` if there was none.
fn wait(deadline_ns: u64, margin_ns: u64) -> Option<u64> {
    let now_ns = SystemClock.now_ns();
    let left_ns = deadline_ns.saturating_sub(now_ns);
    if left_ns > margin_ns {
        return Some(sleep((left_ns - margin_ns).min(SLEEP_MAX_NS)));
    }
    spin(deadline_ns);
    None
}

fn spin(deadline_ns: u64) {
    while SystemClock.now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
}

/// Sleeps; returns how late the sleep ended.
fn sleep(sleep_ns: u64) -> u64 {
    let end_ns = SystemClock.now_ns() + sleep_ns;
    std::thread::sleep(Duration::from_nanos(sleep_ns));
    SystemClock.now_ns() - end_ns
}

/// How long before a deadline a thread wakes up, in nanoseconds: the lateness of its sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpinMargin(u64);

impl Default for SpinMargin {
    fn default() -> Self {
        Self(MARGIN_FIRST_NS)
    }
}

impl SpinMargin {
    /// The margin after sleeps that ended late by this: twice their median.
    fn measured(mut lates_ns: [u64; MEASURED_SLEEPS]) -> Self {
        lates_ns.sort_unstable();
        Self((2 * lates_ns[MEASURED_SLEEPS / 2]).clamp(MARGIN_MEASURED_MIN_NS, MARGIN_MEASURED_MAX_NS))
    }

    /// The margin after a sleep that ended `late_ns` late. It settles where about one sleep in
    /// twenty ends later.
    fn after(self, late_ns: u64) -> Self {
        let margin_ns = match late_ns.checked_sub(self.0) {
            Some(missing_ns) => self.0 + missing_ns.min(MARGIN_MAX_NS) / RISE,
            None => self.0 - (self.0 - late_ns) / DECAY,
        };
        Self(margin_ns.clamp(MARGIN_MIN_NS, MARGIN_MAX_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_what_nearly_all_sleeps_need() {
        let mut margin = SpinMargin::default();
        for wait in 0..10_000 {
            // 30 to 50 µs, and one in a thousand 1.5 ms.
            let late_ns = if wait % 1_000 == 500 { 1_500_000 } else { 30_000 + wait * 7_919 % 20_000 };
            margin = margin.after(late_ns);
        }
        assert!((42_000..60_000).contains(&margin.0), "{margin:?}");
        (0..1_000).for_each(|_| margin = margin.after(0));
        assert!(margin.0 <= MARGIN_MIN_NS + 100, "sleeps that end in time need no spinning: {margin:?}");
        (0..100).for_each(|_| margin = margin.after(u64::MAX));
        assert_eq!(margin, SpinMargin(MARGIN_MAX_NS), "a slow sender leaves the CPU to others");
    }

    #[test]
    fn a_start_that_is_near_has_the_margin_that_sleeps_need_now() {
        let measured =
            |late_ns| SpinMargin::measured([0, late_ns, 0, late_ns, late_ns, 0, u64::MAX, late_ns]);
        assert_eq!(measured(60_000), SpinMargin(MARGIN_MEASURED_MIN_NS));
        assert_eq!(measured(400_000), SpinMargin(800_000));
        assert_eq!(measured(9_000_000), SpinMargin(MARGIN_MEASURED_MAX_NS));
        let clock = HybridClock::default();
        let from_ns = clock.now_ns();
        clock.measure_before(from_ns + MEASURED_BEFORE_NS - 1);
        assert_eq!(clock.margin.get(), SpinMargin::default(), "there is no time to measure");
        clock.measure_before(from_ns + 60_000_000_000);
        assert!(clock.now_ns() >= from_ns + MEASURED_SLEEPS as u64 * MEASURED_SLEEP_NS);
        let measured = clock.margin.get().0;
        assert!((MARGIN_MEASURED_MIN_NS..=MARGIN_MEASURED_MAX_NS).contains(&measured), "{measured}");
    }

    #[test]
    fn no_wait_ends_late_and_long_waits_are_split() {
        let clock = HybridClock::default();
        for gap_ns in [1_000, 300_000, 9_000_000] {
            let from_ns = clock.now_ns();
            let mut waits = 0;
            while clock.now_ns() < from_ns + gap_ns {
                clock.wait_until(from_ns + gap_ns);
                waits += 1;
            }
            assert!(waits <= 1 + gap_ns.div_ceil(SLEEP_MAX_NS), "{waits} waits for {gap_ns} ns");
        }
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::Clock;
    use std::cell::Cell;

    /// A clock that a test advances; waiting advances it to the deadline.
    #[derive(Debug, Default)]
    pub(crate) struct FakeClock(pub(crate) Cell<u64>);

    impl Clock for FakeClock {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn wall_ns(&self) -> u64 {
            self.0.get()
        }

        fn wait_until(&self, deadline_ns: u64) {
            self.0.set(self.0.get().max(deadline_ns));
        }

        fn rest(&self, rest_ns: u64) {
            self.0.set(self.0.get() + rest_ns);
        }
    }
}
