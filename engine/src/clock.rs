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
const MARGIN_MIN_NS: u64 = 100_000;
/// And this long at most.
const MARGIN_MAX_NS: u64 = 4_000_000;
/// The margin before the first sleep.
const MARGIN_FIRST_NS: u64 = 2_000_000;
/// The margin before a start that was measured for: processors take up to this long to leave a deep
/// sleep.
const MARGIN_MEASURED_MIN_NS: u64 = 300_000;
/// Sleeps of such a measurement, and the length of each.
const MEASURED_SLEEPS: usize = 8;
const MEASURED_SLEEP_NS: u64 = 100_000;
/// No sleep of it begins later than this before the start.
const MEASURED_BEFORE_NS: u64 = 2_500_000;
/// The margin decays by this fraction with each wait.
const DECAY: u64 = 8_192;
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

/// Like [`SystemClock`], with a margin that adapts to the lateness of sleeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct HybridClock {
    margin: Cell<SpinMargin>,
}

impl HybridClock {
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
        let margin = self.margin.get();
        let late_ns = wait(deadline_ns, margin.0);
        self.margin.set(margin.after(late_ns));
    }

    fn rest(&self, rest_ns: u64) {
        SystemClock.rest(rest_ns);
    }
}

/// Sleeps until `margin_ns` before the deadline or for the longest sleep, or spins until the
/// deadline. Returns how late a sleep ended.
fn wait(deadline_ns: u64, margin_ns: u64) -> u64 {
    let now_ns = SystemClock.now_ns();
    let left_ns = deadline_ns.saturating_sub(now_ns);
    if left_ns > margin_ns {
        return sleep((left_ns - margin_ns).min(SLEEP_MAX_NS));
    }
    while SystemClock.now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
    0
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
        Self((2 * lates_ns[MEASURED_SLEEPS / 2]).clamp(MARGIN_MEASURED_MIN_NS, MARGIN_MAX_NS))
    }

    /// The margin after a sleep that ended `late_ns` late.
    fn after(self, late_ns: u64) -> Self {
        let kept_ns = self.0 - self.0 / DECAY;
        Self(kept_ns.max(late_ns).clamp(MARGIN_MIN_NS, MARGIN_MAX_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_sleep_in_a_thousand_is_remembered_until_the_next() {
        let mut margin = SpinMargin(MARGIN_MIN_NS);
        assert_eq!(margin.after(70_000), margin, "what spinning covers changes nothing");
        for _ in 0..10 {
            margin = margin.after(1_500_000);
            for _ in 0..1_000 {
                margin = margin.after(60_000);
                assert!(margin.0 > 1_300_000, "{margin:?}");
            }
        }
        for _ in 0..30_000 {
            margin = margin.after(0);
        }
        assert_eq!(margin, SpinMargin(MARGIN_MIN_NS), "sleeps that end in time are trusted again");
        assert_eq!(margin.after(u64::MAX), SpinMargin(MARGIN_MAX_NS));
    }

    #[test]
    fn trust_in_sleeps_is_earned() {
        let mut margin = SpinMargin::default();
        for _ in 0..1_000 {
            margin = margin.after(50_000);
        }
        assert!(margin.0 > 1_700_000, "{margin:?}");
        (0..25_000).for_each(|_| margin = margin.after(50_000));
        assert_eq!(margin, SpinMargin(MARGIN_MIN_NS));
    }

    #[test]
    fn a_start_that_is_near_has_the_margin_that_sleeps_need_now() {
        let measured =
            |late_ns| SpinMargin::measured([0, late_ns, 0, late_ns, late_ns, 0, u64::MAX, late_ns]);
        assert_eq!(measured(60_000), SpinMargin(MARGIN_MEASURED_MIN_NS));
        assert_eq!(measured(400_000), SpinMargin(800_000));
        assert_eq!(measured(9_000_000), SpinMargin(MARGIN_MAX_NS));
        let clock = HybridClock::default();
        let from_ns = clock.now_ns();
        clock.measure_before(from_ns + MEASURED_BEFORE_NS - 1);
        assert_eq!(clock.margin.get(), SpinMargin::default(), "there is no time to measure");
        clock.measure_before(from_ns + 60_000_000_000);
        assert!(clock.now_ns() >= from_ns + MEASURED_SLEEPS as u64 * MEASURED_SLEEP_NS);
        let measured = clock.margin.get().0;
        assert!((MARGIN_MEASURED_MIN_NS..=MARGIN_MAX_NS).contains(&measured), "{measured}");
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
