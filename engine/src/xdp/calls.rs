//! How often the kernel is called: for each run of live frames it needs a number for their memory.
//!
//! There are 65,534 such numbers for the whole machine (`MEM_ID_MAX` of net/core/xdp.c). A run gives its number back at
//! its end if all pages have come home by then; else the kernel looks again only after a second. So a sender of single
//! frames at 100 kpps, whose frames are still under way when the call returns, uses them all up in less than a second.

use crate::EngineError;
use crate::clock::Clock;
use std::time::Duration;

/// Between the starts of two calls where pages come home late: 40,000 numbers in the second that the kernel waits.
const GAP_NS: u64 = 25_000;
/// The same after numbers ran out, to leave some to others.
const GAP_CAREFUL_NS: u64 = 50_000;
/// Pause when there is no number.
const PAUSE: Duration = Duration::from_millis(1);
/// How long there may be none: the second that the kernel waits, and as much again for its work. Shorter than the time
/// after which a run counts as stalled.
const PATIENCE_NS: u64 = 1_900_000_000;

/// The calls of one engine.
#[derive(Debug)]
pub(super) struct Calls {
    gap_ns: u64,
    next_ns: u64,
    /// Since when there is no number.
    without_ns: Option<u64>,
}

impl Calls {
    /// `is_prompt`: frames usually come home within the call, as through a veth.
    pub(super) fn new(is_prompt: bool) -> Self {
        Self { gap_ns: if is_prompt { 0 } else { GAP_NS }, next_ns: 0, without_ns: None }
    }

    /// Waits until the next call may be made; the time then.
    pub(super) fn wait(&mut self, clock: &dyn Clock) -> u64 {
        clock.wait_until(self.next_ns);
        let now_ns = clock.now_ns();
        self.next_ns = now_ns + self.gap_ns;
        now_ns
    }

    /// A call was made.
    pub(super) fn went_well(&mut self) {
        self.without_ns = None;
    }

    /// There was no number. Pauses, and is more careful from now on.
    ///
    /// # Errors
    /// When there has been none for too long.
    pub(super) fn without_number(&mut self, clock: &dyn Clock, ifname: &str) -> Result<(), EngineError> {
        self.gap_ns = GAP_CAREFUL_NS;
        let now_ns = clock.now_ns();
        if now_ns - *self.without_ns.get_or_insert(now_ns) > PATIENCE_NS {
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

    /// Calls of a second when each takes a microsecond.
    fn calls_in_a_second(calls: &mut Calls) -> u64 {
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
        assert_eq!(calls_in_a_second(&mut Calls::new(true)), 1_000_000, "these come back at once");
        let mut late = Calls::new(false);
        assert_eq!(calls_in_a_second(&mut late), 40_001);
        late.without_number(&FakeClock::default(), "tx0").expect("they come back");
        late.next_ns = 0;
        assert_eq!(calls_in_a_second(&mut late), 20_001);
    }

    #[test]
    fn a_machine_without_numbers_is_waited_for_and_then_said() {
        let (clock, mut calls) = (FakeClock::default(), Calls::new(true));
        calls.without_number(&clock, "tx0").expect("they come back");
        assert_eq!(calls.gap_ns, GAP_CAREFUL_NS);
        clock.0.set(clock.0.get() + PATIENCE_NS);
        calls.without_number(&clock, "tx0").expect("still in time");
        calls.went_well();
        clock.0.set(clock.0.get() + PATIENCE_NS);
        calls.without_number(&clock, "tx0").expect("counted from the last success");
        clock.0.set(clock.0.get() + PATIENCE_NS + 1);
        assert!(calls.without_number(&clock, "tx0").is_err());
    }
}
