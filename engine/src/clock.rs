//! Time comes in as an argument: the machine's clocks, or a test's.

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

/// Below this the processor spins: a sleep is not exact enough, as in pktgen.
const SPIN_NS: u64 = 100_000;
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
        let left_ns = deadline_ns.saturating_sub(self.now_ns());
        if left_ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos((left_ns - SPIN_NS).min(SLEEP_MAX_NS)));
            return;
        }
        while self.now_ns() < deadline_ns {
            std::hint::spin_loop();
        }
    }

    fn rest(&self, rest_ns: u64) {
        std::thread::sleep(Duration::from_nanos(rest_ns));
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
