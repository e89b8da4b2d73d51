//! Time comes in as an argument: the machine's clocks, or a test's.

use std::cell::Cell;
use std::time::Duration;

/// Where a run takes its time from.
pub trait Clock {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Nanoseconds since 1970.
    fn wall_ns(&self) -> u64;

    /// Waits until `deadline_ns` on the monotonic clock, or a little less when that is far away: the caller
    /// asks again.
    fn wait_until(&self, deadline_ns: u64);

    /// Leaves the processor to others for about `rest_ns`.
    fn rest(&self, rest_ns: u64);
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A sleep is not exact: a thread that waits wakes up so long before the deadline at least, and spins.
const EARLY_MIN_NS: u64 = 100_000;
/// And so long at most.
const EARLY_MAX_NS: u64 = 4_000_000;
/// So long while nobody knows yet how exact sleeps are.
const EARLY_FIRST_NS: u64 = 2_000_000;
/// A late wake-up is forgotten by one part in so many at each wait.
const FORGETS: u64 = 8_192;
/// A sleeping thread looks up at least this often, so that a stop takes effect within 10 ms.
const SLEEP_MAX_NS: u64 = 4_000_000;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        host::monotonic_ns()
    }

    fn wall_ns(&self) -> u64 {
        host::realtime_ns()
    }

    fn wait_until(&self, deadline_ns: u64) {
        wait(deadline_ns, EARLY_MIN_NS);
    }

    fn rest(&self, rest_ns: u64) {
        std::thread::sleep(Duration::from_nanos(rest_ns));
    }
}

/// As [`SystemClock`], of a thread that keeps deadlines: it sleeps as long as sleeps have proved to be exact, and spins the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct PunctualClock {
    early: Cell<Early>,
}

impl Clock for PunctualClock {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns()
    }

    fn wall_ns(&self) -> u64 {
        SystemClock.wall_ns()
    }

    fn wait_until(&self, deadline_ns: u64) {
        let early = self.early.get();
        let late_ns = wait(deadline_ns, early.0);
        self.early.set(early.after(late_ns));
    }

    fn rest(&self, rest_ns: u64) {
        SystemClock.rest(rest_ns);
    }
}

/// Sleeps until `early_ns` before the deadline or for the longest sleep, or spins until the deadline. Returns by how much a
/// sleep ended too late.
fn wait(deadline_ns: u64, early_ns: u64) -> u64 {
    let now_ns = SystemClock.now_ns();
    let left_ns = deadline_ns.saturating_sub(now_ns);
    if left_ns > early_ns {
        let sleep_ns = (left_ns - early_ns).min(SLEEP_MAX_NS);
        std::thread::sleep(Duration::from_nanos(sleep_ns));
        return SystemClock.now_ns() - (now_ns + sleep_ns);
    }
    while SystemClock.now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
    0
}

/// How long before a deadline a thread wakes up, in nanoseconds: as much as its sleeps have been late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Early(u64);

impl Default for Early {
    fn default() -> Self {
        Self(EARLY_FIRST_NS)
    }
}

impl Early {
    /// After a wait whose sleep ended `late_ns` too late.
    fn after(self, late_ns: u64) -> Self {
        let kept_ns = self.0 - self.0 / FORGETS;
        Self(kept_ns.max(late_ns).clamp(EARLY_MIN_NS, EARLY_MAX_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_sleep_in_a_thousand_is_remembered_until_the_next() {
        let mut early = Early(EARLY_MIN_NS);
        assert_eq!(early.after(70_000), early, "what spinning covers changes nothing");
        for _ in 0..10 {
            early = early.after(1_500_000);
            for _ in 0..1_000 {
                early = early.after(60_000);
                assert!(early.0 > 1_300_000, "{early:?}");
            }
        }
        for _ in 0..30_000 {
            early = early.after(0);
        }
        assert_eq!(early, Early(EARLY_MIN_NS), "sleeps that end in time are trusted again");
        assert_eq!(early.after(u64::MAX), Early(EARLY_MAX_NS));
    }

    #[test]
    fn trust_in_sleeps_is_earned() {
        let mut early = Early::default();
        for _ in 0..1_000 {
            early = early.after(50_000);
        }
        assert!(early.0 > 1_700_000, "{early:?}");
        (0..25_000).for_each(|_| early = early.after(50_000));
        assert_eq!(early, Early(EARLY_MIN_NS));
    }

    #[test]
    fn nobody_is_early_and_long_waits_are_asked_for_again() {
        let clock = PunctualClock::default();
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

    /// A clock that a test moves; waiting moves it to the deadline.
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
