//! The end of a measurement: late frames are waited for.

use std::time::Duration;

/// The wait ends after this even if frames still arrive.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The wait for late frames: until the first copy of each number has arrived, or no frame has for
/// the time `settle`.
#[derive(Debug)]
pub struct Drain {
    sent: u64,
    numbers: u64,
    settle: Duration,
    /// Frames received so far, and when the last one was noticed.
    last: Option<(u64, Duration)>,
}

impl Drain {
    /// After `sent` frames with so many different `numbers`.
    pub fn new(sent: u64, numbers: u64, settle: Duration) -> Self {
        Self { sent, numbers, settle, last: None }
    }

    /// True if it is over at `now`, after its start. `unique` counts first copies, which takes long
    /// with many flows: it is called only if enough frames have arrived, once for each new count.
    pub fn is_over(&mut self, received: u64, unique: impl FnOnce() -> u64, now: Duration) -> bool {
        let since = match self.last {
            Some((last, since)) if last == received => since,
            _ => {
                if received >= self.sent && unique() >= self.numbers {
                    return true;
                }
                self.last = Some((received, now));
                now
            }
        };
        now - since >= self.settle || now >= DRAIN_MAX.max(self.settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_millis(200);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn duplicates_do_not_end_the_wait_for_a_late_first_copy() {
        let mut drain = Drain::new(10, 10, SETTLE);
        assert!(!drain.is_over(10, || 9, ms(0)), "one of them is a duplicate");
        assert!(!drain.is_over(10, || panic!("nothing arrived"), ms(199)));
        assert!(drain.is_over(11, || 10, ms(199)));
    }

    #[test]
    fn copies_are_waited_for() {
        let mut drain = Drain::new(10, 5, SETTLE);
        assert!(!drain.is_over(9, || panic!("not all have arrived"), ms(0)));
        assert!(drain.is_over(10, || 5, ms(1)));
        assert!(Drain::new(0, 0, SETTLE).is_over(0, || 0, ms(0)), "nothing was sent");
    }

    #[test]
    fn without_a_frame_the_wait_ends_and_it_never_takes_long() {
        let mut drain = Drain::new(10, 10, SETTLE);
        assert!(!drain.is_over(8, || 8, ms(0)));
        assert!(!drain.is_over(9, || 9, ms(150)));
        assert!(!drain.is_over(9, || 9, ms(349)));
        assert!(drain.is_over(9, || 9, ms(350)));
        let mut endless = Drain::new(1_000_000, 1_000_000, SETTLE);
        assert!((0..20).all(|step| !endless.is_over(step, || step, ms(100 * step))));
        assert!(endless.is_over(20, || 20, ms(2000)));
    }
}
