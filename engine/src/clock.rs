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
        let sleep_ns = (left_ns - margin_ns).min(SLEEP_MAX_NS);
        std::thread::sleep(Duration::from_nanos(sleep_ns));
        return SystemClock.now_ns() - (now_ns + sleep_ns);
    }
    while SystemClock.now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
    0
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
