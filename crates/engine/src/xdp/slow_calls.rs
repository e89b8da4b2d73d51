//! Detection of calls that wait for the XDP dispatcher, by their duration and the sleeps of the
//! thread.
//!
//! The dispatcher has 48 slots. A program that was attached while none was free works at full speed
//! until another process frees one. From then on each call takes the free slot and returns it,
//! which is two RCU grace periods (about 24 ms each). Attaching the program again takes the slot
//! permanently.

use nix::sys::resource::{UsageWho, getrusage};

/// Longer calls may have waited; bursts are sized for 2 ms.
const SLOW_NS: u64 = 5_000_000;
/// This number of slow calls that take most of the time is not a coincidence.
const SLOW_CALLS: u32 = 8;
/// A call that waits for the dispatcher sleeps twice. An interrupted call does not sleep.
const SLEEPS_PER_CALL: u64 = 2;

/// Slow calls of a thread that together take most of its time.
#[derive(Debug, Default)]
pub(super) struct SlowCalls {
    count: u32,
    /// Start of the first one.
    since_ns: u64,
    /// Total duration.
    total_ns: u64,
    /// Sleeps of the thread up to the end of the first one.
    sleeps: u64,
}

impl SlowCalls {
    /// Adds a call. True if the calls of this thread wait for the dispatcher. `sleeps` returns how
    /// often the calling thread has slept.
    pub(super) fn add(&mut self, started_ns: u64, ended_ns: u64, sleeps: impl FnOnce() -> u64) -> bool {
        let took_ns = ended_ns - started_ns;
        if took_ns < SLOW_NS {
            // Calls with a single frame do not use the dispatcher, so there are short calls in
            // between.
            return false;
        }
        let now = sleeps();
        if self.count == 0 || started_ns - self.since_ns > 2 * self.total_ns {
            *self = Self { count: 0, since_ns: started_ns, total_ns: 0, sleeps: now };
        }
        self.count += 1;
        self.total_ns += took_ns;
        // The first one does not count: its sleeps are unknown.
        if self.count <= SLOW_CALLS {
            return false;
        }
        self.count = 0;
        now - self.sleeps >= SLEEPS_PER_CALL * u64::from(SLOW_CALLS)
    }
}

/// Voluntary context switches of the calling thread.
pub(super) fn sleeps_of_this_thread() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results for calls of that duration, with that number of sleeps each and a pause in between.
    fn verdicts(took_ns: u64, sleeps_per_call: u64, pause_ns: u64) -> Vec<bool> {
        let mut slow = SlowCalls::default();
        let call = |number: u64| {
            let started_ns = number * (took_ns + pause_ns);
            slow.add(started_ns, started_ns + took_ns, || 1_000 + number * sleeps_per_call)
        };
        (1..100).map(call).collect()
    }

    #[test]
    fn nine_calls_that_sleep_twice_wait_for_the_dispatcher() {
        for pause_ns in [0, 20_000_000] {
            let found = verdicts(48_000_000, 2, pause_ns);
            assert_eq!(found.iter().position(|is_waiting| *is_waiting), Some(8));
        }
    }

    #[test]
    fn calls_that_are_interrupted_or_short_or_rare_do_not() {
        let none = |found: Vec<bool>| found.iter().all(|is_waiting| !is_waiting);
        assert!(none(verdicts(48_000_000, 0, 0)), "a busy machine");
        assert!(none(verdicts(2_000_000, 2, 0)), "bursts of the usual length");
        assert!(none(verdicts(6_000_000, 2, 900_000_000)), "a late call now and then");
    }

    #[test]
    fn this_thread_is_seen_to_sleep() {
        let before = sleeps_of_this_thread();
        (0..3).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        assert!(sleeps_of_this_thread() >= before + 3);
    }
}
