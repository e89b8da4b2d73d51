//! Throttle for calls of live frames, each of which takes a memory id.
//!
//! The machine has 65,534 ids (`MEM_ID_MAX` of net/core/xdp.c). A call returns its id at its end if
//! all pages are back by then; otherwise the kernel retries after one second. So single frames at
//! 100 kpps whose pages return late use up all ids in less than a second. Long before, the kernel's
//! search for each late id in the list of all of them takes a whole CPU: 20 % of one at 10,000
//! calls per second, all of it from about 20,000 on (measured in 2026 with Linux 6.18).

use crate::EngineError;
use crate::clock::Clock;
use std::time::Duration;

/// Minimum interval between calls if pages return late: 40,000 ids per second.
const GAP_NS: u64 = 25_000;
/// The interval after ids ran out, to leave some to other processes.
const GAP_CAREFUL_NS: u64 = 50_000;
/// The interval of a paced run: 2,000 calls per second, which cost about 1 % of a CPU when all
/// pages return late. Whether they will is not known: frames may wait in a queue behind the
/// device.
const GAP_PACED_NS: u64 = 500_000;
/// Runs with longer gaps than this between their frames make one call for each.
pub(super) const CALL_PER_FRAME_NS: u64 = 100_000;
/// Pause when there is no id.
const PAUSE: Duration = Duration::from_millis(1);
/// Timeout without ids: twice the second after which the kernel retries. Shorter than the time
/// after which a run counts as stalled.
const TIMEOUT_NS: u64 = 1_900_000_000;

/// Throttle of one engine.
#[derive(Debug)]
pub(crate) struct MemIdThrottle {
    /// The interval of a run that is paced.
    paced_gap_ns: u64,
    gap_ns: u64,
    next_ns: u64,
    /// Time since which there is no id.
    without_ns: Option<u64>,
}

impl MemIdThrottle {
    /// `is_prompt`: pages usually return within the call, as with a veth.
    pub(crate) fn new(is_prompt: bool) -> Self {
        let gap_ns = if is_prompt { 0 } else { GAP_NS };
        Self { paced_gap_ns: 0, gap_ns, next_ns: 0, without_ns: None }
    }

    /// Sets the mean time between frames of the run; 0 for as fast as possible.
    pub(crate) fn set_frame_gap(&mut self, frame_gap_ns: u64) {
        let is_grouped = (1..=CALL_PER_FRAME_NS).contains(&frame_gap_ns);
        self.paced_gap_ns = if is_grouped { GAP_PACED_NS } else { 0 };
    }

    /// When a paced run may make its next call; 0 for at any time.
    pub(crate) fn next_paced_ns(&self) -> u64 {
        if self.paced_gap_ns > 0 { self.next_ns } else { 0 }
    }

    /// Waits until the next call is allowed; returns the time.
    pub(crate) fn wait(&mut self, clock: &dyn Clock) -> u64 {
        clock.wait_until(self.next_ns);
        let now_ns = clock.now_ns();
        self.next_ns = now_ns + self.gap_ns.max(self.paced_gap_ns);
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
    fn paced_frames_share_2000_calls_per_second() {
        for (frame_gap_ns, calls) in [(0, 1_000_000), (1_000, 2_001), (100_000, 2_001), (100_001, 1_000_000)]
        {
            let mut throttle = MemIdThrottle::new(true);
            throttle.set_frame_gap(frame_gap_ns);
            assert_eq!(calls_in_a_second(&mut throttle), calls, "a frame each {frame_gap_ns} ns");
        }
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
