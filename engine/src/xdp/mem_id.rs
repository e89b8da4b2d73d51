//! Throttle for calls of live frames, each of which takes a memory id.
//!
//! The machine has 65,534 ids (`MEM_ID_MAX` of net/core/xdp.c). A call returns its id at its end if
//! all pages are back by then; otherwise the kernel retries after one second. So single frames at
//! 100 kpps whose pages return late use up all ids in less than a second.

use crate::EngineError;
use crate::clock::Clock;
use std::time::Duration;

/// Minimum interval between calls if pages return late: 40,000 ids per second.
const GAP_NS: u64 = 25_000;
/// The interval after ids ran out, to leave some to other processes.
const GAP_CAREFUL_NS: u64 = 50_000;
/// Pause when there is no id.
const PAUSE: Duration = Duration::from_millis(1);
/// Timeout without ids: twice the second after which the kernel retries. Shorter than the time
/// after which a run counts as stalled.
const TIMEOUT_NS: u64 = 1_900_000_000;

/// Throttle of one engine.
#[derive(Debug)]
pub(crate) struct MemIdThrottle {
    gap_ns: u64,
    next_ns: u64,
    /// Time since which there is no id.
    without_ns: Option<u64>,
}

impl MemIdThrottle {
    /// `is_prompt`: pages usually return within the call, as with a veth.
    pub(crate) fn new(is_prompt: bool) -> Self {
        Self { gap_ns: if is_prompt { 0 } else { GAP_NS }, next_ns: 0, without_ns: None }
    }

    /// Waits until the next call is allowed; returns the time.
    pub(crate) fn wait(&mut self, clock: &dyn Clock) -> u64 {
        clock.wait_until(self.next_ns);
        let now_ns = clock.now_ns();
        self.next_ns = now_ns + self.gap_ns;
        now_ns
    }

    /// A call succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.without_ns = None;
    }

    /// There was no id. Pauses, and doubles the interval.
    ///
    /// # Errors
    /// After the timeout.
    pub(crate) fn exhausted(&mut self, clock: &dyn Clock, ifname: &str) -> Result<(), EngineError> {
        self.gap_ns = GAP_CAREFUL_NS;
        let now_ns = clock.now_ns();
        if now_ns - *self.without_ns.get_or_insert(now_ns) > TIMEOUT_NS {
            return Err(EngineError::NoXdpMemory { ifname: ifname.to_owned() });
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::fake::FakeClock;

    /// Calls in one second if each takes a microsecond.
    fn calls_in_a_second(calls: &mut MemIdThrottle) -> u64 {
        let clock = FakeClock::default();
        let mut count = 0;
        while clock.now_ns() < 1_000_000_000 {
            calls.wait(&clock);
            clock.0.set(clock.0.get() + 1_000);
            count += 1;
        }
        count
    }

    #[test]
    fn numbers_last_for_the_second_that_the_kernel_waits() {
        assert_eq!(calls_in_a_second(&mut MemIdThrottle::new(true)), 1_000_000, "these come back at once");
        let mut late = MemIdThrottle::new(false);
        assert_eq!(calls_in_a_second(&mut late), 40_001);
        late.exhausted(&FakeClock::default(), "tx0").expect("they come back");
        late.next_ns = 0;
        assert_eq!(calls_in_a_second(&mut late), 20_001);
    }

    #[test]
    fn a_machine_without_numbers_is_waited_for_and_then_said() {
        let (clock, mut calls) = (FakeClock::default(), MemIdThrottle::new(true));
        calls.exhausted(&clock, "tx0").expect("they come back");
        assert_eq!(calls.gap_ns, GAP_CAREFUL_NS);
        clock.0.set(clock.0.get() + TIMEOUT_NS);
        calls.exhausted(&clock, "tx0").expect("still in time");
        calls.succeeded();
        clock.0.set(clock.0.get() + TIMEOUT_NS);
        calls.exhausted(&clock, "tx0").expect("counted from the last success");
        clock.0.set(clock.0.get() + TIMEOUT_NS + 1);
        assert!(calls.exhausted(&clock, "tx0").is_err());
    }
}
