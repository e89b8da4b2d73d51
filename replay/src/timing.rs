//! When each frame is due, in nanoseconds after the first frame.
//!
//! All sums are integers over the whole run, so a rate does not drift over hours.

use packet::wire_len;

/// A clock that is set back further than this was stepped; a shorter step back is packets out of
/// order.
const REORDER_NS_MAX: u64 = 1_000_000_000;
const PS_PER_NS: u128 = 1000;
const NS_PER_S: u128 = 1_000_000_000;

/// How the due times come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingRule {
    /// The gaps of the file, divided by `times` / `per`.
    Original {
        /// Numerator of the speed.
        times: u64,
        /// Denominator of the speed.
        per: u64,
    },
    /// As fast as possible: every frame is due at once.
    Top,
    /// One frame per this number of picoseconds.
    Interval {
        /// The interval.
        interval_ps: u64,
    },
    /// Bits per second on the wire, with preamble, FCS and gap.
    WireRate {
        /// The rate.
        bps: u64,
    },
}

/// When a frame is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds after the first frame.
    pub ns: u64,
    /// The time of the record was before that of an earlier record.
    pub is_backwards: bool,
}

/// The due times of one run.
#[derive(Clone, Debug)]
pub struct Timing {
    rule: TimingRule,
    gap_ns_max: Option<u64>,
    loop_gap_ns: u64,
    /// Time of the last record, the latest so far.
    last_ns: Option<u64>,
    /// Sum of the gaps of the file so far.
    file_ns: u128,
    /// Sum of the gaps between loops.
    added_ns: u128,
    frames: u128,
    wire_bits: u128,
}

impl Timing {
    /// `gap_ns_max` shortens longer gaps of the file; `loop_gap_ns` is the gap between two loops.
    ///
    /// # Panics
    /// With a speed or rate of zero.
    pub fn new(rule: TimingRule, gap_ns_max: Option<u64>, loop_gap_ns: u64) -> Self {
        let is_zero = match rule {
            TimingRule::Original { times, per } => times == 0 || per == 0,
            TimingRule::WireRate { bps } => bps == 0,
            TimingRule::Top | TimingRule::Interval { .. } => false,
        };
        assert!(!is_zero, "{rule:?} never sends");
        Self {
            rule,
            gap_ns_max,
            loop_gap_ns,
            last_ns: None,
            file_ns: 0,
            added_ns: 0,
            frames: 0,
            wire_bits: 0,
        }
    }

    /// When the next frame is due, which is `frame_len` bytes long and has the time `time_ns` in
    /// the file.
    pub fn next(&mut self, time_ns: u64, frame_len: u32) -> Due {
        let (gap_ns, is_backwards) = self.gap(time_ns);
        self.file_ns += u128::from(self.gap_ns_max.map_or(gap_ns, |gap_ns_max| gap_ns.min(gap_ns_max)));
        let paced_ns = match self.rule {
            TimingRule::Original { times, per } => self.file_ns * u128::from(per) / u128::from(times),
            TimingRule::Top => 0,
            TimingRule::Interval { interval_ps } => self.frames * u128::from(interval_ps) / PS_PER_NS,
            TimingRule::WireRate { bps } => self.wire_bits * NS_PER_S / u128::from(bps),
        };
        self.frames += 1;
        self.wire_bits += u128::from(wire_len(frame_len)) * 8;
        Due { ns: u64::try_from(paced_ns + self.added_ns).unwrap_or(u64::MAX), is_backwards }
    }

    /// The next record begins the file again.
    pub fn next_loop(&mut self) {
        self.last_ns = None;
        self.added_ns += u128::from(self.loop_gap_ns);
    }

    fn gap(&mut self, time_ns: u64) -> (u64, bool) {
        let last_ns = *self.last_ns.get_or_insert(time_ns);
        if time_ns >= last_ns {
            self.last_ns = Some(time_ns);
            return (time_ns - last_ns, false);
        }
        // Packets out of order: the next gap counts from the latest of them. A clock that was set
        // back: it counts from here.
        if last_ns - time_ns > REORDER_NS_MAX {
            self.last_ns = Some(time_ns);
        }
        (0, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timing: &mut Timing, times_ns: &[u64]) -> Vec<u64> {
        times_ns.iter().map(|time_ns| timing.next(*time_ns, 60).ns).collect()
    }

    fn original(times: u64, per: u64) -> TimingRule {
        TimingRule::Original { times, per }
    }

    #[test]
    fn the_gaps_of_the_file_are_kept_or_scaled() {
        let file = [1000, 1010, 1030, 1035];
        assert_eq!(due(&mut Timing::new(original(1, 1), None, 0), &file), [0, 10, 30, 35]);
        assert_eq!(due(&mut Timing::new(original(2, 1), None, 0), &file), [0, 5, 15, 17]);
        assert_eq!(due(&mut Timing::new(original(1, 2), None, 0), &file), [0, 20, 60, 70]);
        assert_eq!(due(&mut Timing::new(original(1, 1), Some(12), 0), &file), [0, 10, 22, 27]);
        assert_eq!(due(&mut Timing::new(TimingRule::Top, None, 0), &file), [0, 0, 0, 0]);
    }

    #[test]
    fn loops_follow_with_their_gap() {
        let mut timing = Timing::new(original(2, 1), None, 7);
        assert_eq!(due(&mut timing, &[100, 120]), [0, 10]);
        timing.next_loop();
        assert_eq!(due(&mut timing, &[100, 120]), [17, 27]);
    }

    #[test]
    fn times_that_run_backwards_do_not_wait_and_are_counted() {
        let mut timing = Timing::new(original(1, 1), None, 0);
        let dues: Vec<Due> = [100, 90, 110].into_iter().map(|time_ns| timing.next(time_ns, 60)).collect();
        assert_eq!(dues.iter().map(|due| due.ns).collect::<Vec<_>>(), [0, 0, 10]);
        assert_eq!(dues.iter().map(|due| due.is_backwards).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_clock_set_back_by_an_hour_does_not_send_an_hour_at_once() {
        let hour = 3_600_000_000_000;
        let mut timing = Timing::new(original(1, 1), None, 0);
        assert_eq!(due(&mut timing, &[hour, 5, 15]), [0, 0, 10]);
    }

    #[test]
    fn a_rate_does_not_drift_over_ten_hours() {
        let mut timing = Timing::new(TimingRule::Interval { interval_ps: 67_200 }, None, 0);
        timing.frames = 535_714_285_714;
        assert_eq!(timing.next(0, 60).ns, 35_999_999_999_980);
        let mut timing = Timing::new(TimingRule::WireRate { bps: 1_000_000_000 }, None, 0);
        let dues: Vec<u64> = [60, 1514, 60].into_iter().map(|len| timing.next(0, len).ns).collect();
        assert_eq!(dues, [0, 672, 672 + 12_304]);
    }
}
