//! When each frame is due, in nanoseconds after the first frame.
//!
//! All sums are integers over the whole run, so a rate does not drift over hours.

use packet::{Arrivals, PoissonProcess, Rate, wire_len};

/// A clock that is set back further than this was stepped; a shorter step back is packets out of
/// order.
const REORDER_NS_MAX: u64 = 1_000_000_000;
/// The gap between two files is kept up to this, as between the files of a rotated capture.
pub const FILE_GAP_NS_MAX: u64 = 60_000_000_000;

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
    /// A rate, and how frames are distributed in time around it.
    Rate {
        /// The rate.
        rate: Rate,
        /// The arrival process.
        arrivals: Arrivals,
    },
}

/// When a frame is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds after the first frame.
    pub ns: u64,
    /// The time of the record was before that of an earlier record.
    pub is_backwards: bool,
    /// The pause of the file before this frame, as long as it is waited for: 0 without
    /// [`TimingRule::Original`].
    pub pause_ns: u64,
    /// The record begins a file, and follows the file before it without this gap, in nanoseconds;
    /// negative if the file begins before that one ends.
    pub left_out_ns: Option<i128>,
}

/// The latest record so far.
#[derive(Clone, Copy, Debug)]
struct Latest {
    time_ns: u64,
    /// Sum of the gaps up to it.
    file_ns: u128,
}

/// The due times of one run.
#[derive(Clone, Debug)]
pub struct Timing {
    rule: TimingRule,
    gap_ns_max: Option<u64>,
    loop_gap_ns: u64,
    latest: Option<Latest>,
    /// Time of the last record, while the clock of the file is set back.
    set_back_ns: Option<u64>,
    /// The next record begins a file; whether any gap before it is kept.
    file_begins: Option<bool>,
    /// Sum of the gaps of the file so far.
    file_ns: u128,
    /// Sum of the gaps between loops.
    added_ns: u128,
    /// Frames of the present burst, or of the run, and their bits on the wire.
    frames: u64,
    wire_bits: u64,
    /// Sum of the bursts and the gaps before the present burst.
    bursts_ns: u128,
    poisson: PoissonProcess,
}

impl Timing {
    /// `gap_ns_max` shortens longer gaps of the file; `loop_gap_ns` is the gap between two loops.
    ///
    /// # Panics
    /// With a speed of zero.
    pub fn new(rule: TimingRule, gap_ns_max: Option<u64>, loop_gap_ns: u64) -> Self {
        let is_zero = match rule {
            TimingRule::Original { times, per } => times == 0 || per == 0,
            TimingRule::Top | TimingRule::Rate { .. } => false,
        };
        let seed = match rule {
            TimingRule::Rate { arrivals: Arrivals::Poisson { seed }, .. } => seed.unwrap_or(0),
            _ => 0,
        };
        assert!(!is_zero, "{rule:?} never sends");
        Self {
            rule,
            gap_ns_max,
            loop_gap_ns,
            latest: None,
            set_back_ns: None,
            file_begins: None,
            file_ns: 0,
            added_ns: 0,
            frames: 0,
            wire_bits: 0,
            bursts_ns: 0,
            poisson: PoissonProcess::new(seed),
        }
    }

    /// How the due times come about.
    pub fn rule(&self) -> TimingRule {
        self.rule
    }

    /// When the next frame is due, which is `frame_len` bytes long and has the time `time_ns` in
    /// the file. A frame without a time is due with the frame before it.
    #[inline]
    pub fn next(&mut self, time_ns: Option<u64>, frame_len: u32) -> Due {
        let before_ns = self.file_ns;
        let (is_backwards, left_out_ns) = time_ns.map_or((false, None), |time_ns| self.pass(time_ns));
        let (paced_ns, pause_ns) = match self.rule {
            // Without a division, which is slow for 128 bits.
            TimingRule::Original { times, per } if times == per => (self.file_ns, self.file_ns - before_ns),
            TimingRule::Original { times, per } => {
                let scaled = |file_ns: u128| file_ns * u128::from(per) / u128::from(times);
                (scaled(self.file_ns), scaled(self.file_ns) - scaled(before_ns))
            }
            TimingRule::Top => (0, 0),
            TimingRule::Rate { rate, arrivals } => (self.pass_frame(rate, arrivals, wire_len(frame_len)), 0),
        };
        let of_u128 = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        let ns = of_u128(paced_ns + self.added_ns);
        Due { ns, is_backwards, pause_ns: of_u128(pause_ns), left_out_ns }
    }

    /// When a frame with `wire_len` bytes on the wire is due at this rate; counts the frame.
    fn pass_frame(&mut self, rate: Rate, arrivals: Arrivals, wire_len: u32) -> u128 {
        if let Arrivals::Poisson { .. } = arrivals {
            let due_ns = self.poisson.next_ns();
            self.poisson.advance(rate.gap_of(wire_len));
            return due_ns;
        }
        let in_burst_ns = rate.time_of(self.frames, self.wire_bits);
        let due_ns = match arrivals {
            Arrivals::Bursts { gap_ns: None, .. } => self.bursts_ns,
            _ => self.bursts_ns + in_burst_ns,
        };
        self.frames += 1;
        self.wire_bits += u64::from(wire_len) * 8;
        if let Arrivals::Bursts { frames, gap_ns } = arrivals
            && self.frames == u64::from(frames.get())
        {
            self.bursts_ns += match gap_ns {
                Some(gap_ns) => in_burst_ns + u128::from(gap_ns),
                None => rate.time_of(self.frames, self.wire_bits),
            };
            (self.frames, self.wire_bits) = (0, 0);
        }
        due_ns
    }

    /// The next record begins the file again.
    pub fn next_loop(&mut self) {
        (self.latest, self.set_back_ns, self.file_begins) = (None, None, None);
        self.added_ns += u128::from(self.loop_gap_ns);
    }

    /// The next record begins another file. The gap before it is kept up to [`FILE_GAP_NS_MAX`], or
    /// at any length.
    pub fn next_file(&mut self, keeps_gap: bool) {
        self.file_begins = Some(keeps_gap);
    }

    /// Passes the time before a record. Returns whether it is before an earlier one, and the gap
    /// that was left out before a file.
    ///
    /// A record from before is sent at once, and the next one is measured from the latest time. As
    /// long as the clock of the file is set back, gaps between records count nevertheless.
    fn pass(&mut self, time_ns: u64) -> (bool, Option<i128>) {
        let latest = *self.latest.get_or_insert(Latest { time_ns, file_ns: self.file_ns });
        let gap_ns_max = self.gap_ns_max.unwrap_or(u64::MAX);
        let keeps_gap = self.file_begins.take();
        let gap_ns = time_ns.checked_sub(latest.time_ns);
        let is_kept = keeps_gap.is_none_or(|all| gap_ns.is_some_and(|gap| all || gap <= FILE_GAP_NS_MAX));
        if !is_kept {
            self.set_back_ns = None;
            self.latest = Some(Latest { time_ns, file_ns: self.file_ns });
            return (false, Some(i128::from(time_ns) - i128::from(latest.time_ns)));
        }
        if let Some(gap_ns) = gap_ns {
            self.set_back_ns = None;
            self.file_ns = self.file_ns.max(latest.file_ns + u128::from(gap_ns.min(gap_ns_max)));
            self.latest = Some(Latest { time_ns, file_ns: self.file_ns });
            return (false, None);
        }
        if latest.time_ns - time_ns > REORDER_NS_MAX {
            let gap_ns = self.set_back_ns.map_or(0, |before_ns| time_ns.saturating_sub(before_ns));
            self.file_ns += u128::from(gap_ns.min(gap_ns_max));
            self.set_back_ns = Some(time_ns);
        }
        (true, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn constant(rate: Option<Rate>) -> TimingRule {
        TimingRule::Rate { rate: rate.expect("more than 0"), arrivals: Arrivals::Constant }
    }

    fn due(timing: &mut Timing, times_ns: &[u64]) -> Vec<u64> {
        times_ns.iter().map(|time_ns| timing.next(Some(*time_ns), 60).ns).collect()
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
        let dues: Vec<Due> =
            [100, 90, 110].into_iter().map(|time_ns| timing.next(Some(time_ns), 60)).collect();
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
    fn a_packet_of_another_time_is_sent_at_once_and_the_next_counts_from_the_latest_time() {
        const T: u64 = 1_700_000_000_000_000_000;
        const MS: u64 = 1_000_000;
        let hour = 3_600_000_000_000;
        let times = |file: &[u64]| due(&mut Timing::new(original(1, 1), None, 0), file);
        assert_eq!(times(&[T, 0, T + MS, T + 2 * MS]), [0, 0, MS, 2 * MS]);
        assert_eq!(times(&[T, T - hour, T + MS]), [0, 0, MS]);
        assert_eq!(times(&[T, T - hour, T - hour, T + MS]), [0, 0, 0, MS]);
        // A clock that was set back and then forward: its gaps are waited for once.
        assert_eq!(times(&[T, T - hour, T - hour + 5 * MS, T + 7 * MS]), [0, 0, 5 * MS, 7 * MS]);
        assert_eq!(times(&[T, T - hour, T - hour + 9 * MS, T + 7 * MS]), [0, 0, 9 * MS, 9 * MS]);
        // A clock that is set for the first time: the file itself has this gap.
        assert_eq!(times(&[0, T]), [0, T]);
    }

    #[test]
    fn a_frame_without_a_time_is_due_with_the_frame_before_it() {
        let mut timing = Timing::new(original(1, 1), None, 0);
        let times = [None, Some(100), None, Some(107), None];
        let dues: Vec<u64> = times.into_iter().map(|time_ns| timing.next(time_ns, 60).ns).collect();
        assert_eq!(dues, [0, 0, 0, 7, 7]);
        timing.next_loop();
        let dues: Vec<u64> = times.into_iter().map(|time_ns| timing.next(time_ns, 60).ns).collect();
        assert_eq!(dues, [7, 7, 7, 14, 14]);
    }

    #[test]
    fn the_gap_between_files_is_kept_up_to_a_minute() {
        let minute = FILE_GAP_NS_MAX;
        let files = |times_ns: &[u64], keeps_gap| {
            let mut timing = Timing::new(original(1, 1), None, 0);
            times_ns
                .iter()
                .map(|time_ns| {
                    timing.next_file(keeps_gap);
                    let due = timing.next(Some(*time_ns), 60);
                    (due.ns, due.left_out_ns)
                })
                .collect::<Vec<_>>()
        };
        let (later, earlier) = (2 * minute + 1, minute);
        assert_eq!(files(&[5, minute + 5], false), [(0, None), (minute, None)]);
        assert_eq!(files(&[0, minute + 1], false), [(0, None), (0, Some(i128::from(minute) + 1))]);
        assert_eq!(files(&[0, minute + 1], true), [(0, None), (minute + 1, None)]);
        assert_eq!(files(&[later, earlier], false), [(0, None), (0, Some(-i128::from(minute) - 1))]);
        assert_eq!(files(&[later, earlier], true)[1].0, 0);
    }

    #[test]
    fn a_pause_is_as_long_as_it_is_waited_for() {
        let pauses = |rule, gap_ns_max| {
            let mut timing = Timing::new(rule, gap_ns_max, 9);
            [0, 100].map(|time_ns| timing.next(Some(time_ns), 60).pause_ns)
        };
        assert_eq!(pauses(original(1, 1), None), [0, 100]);
        assert_eq!(pauses(original(4, 1), None), [0, 25]);
        assert_eq!(pauses(original(1, 1), Some(7)), [0, 7]);
        assert_eq!(pauses(TimingRule::Top, None), [0, 0]);
        assert_eq!(pauses(constant(Rate::from_interval_ps(5)), None), [0, 0]);
    }

    #[test]
    fn a_rate_does_not_drift_over_ten_hours() {
        let mut timing = Timing::new(constant(Rate::from_interval_ps(67_200)), None, 0);
        timing.frames = 535_714_285_714;
        assert_eq!(timing.next(Some(0), 60).ns, 35_999_999_999_981);
        let mut timing = Timing::new(constant(Rate::from_wire_bps(1_000_000_000)), None, 0);
        let dues: Vec<u64> = [60, 1514, 60].into_iter().map(|len| timing.next(Some(0), len).ns).collect();
        assert_eq!(dues, [0, 672, 672 + 12_304]);
    }

    #[test]
    fn arrivals_are_those_of_a_run_of_send() {
        let rate = Rate::from_pps(1_000_000).unwrap();
        let dues = |arrivals, frames: usize| {
            let mut timing = Timing::new(TimingRule::Rate { rate, arrivals }, None, 0);
            (0..frames).map(|_| timing.next(Some(0), 60).ns).collect::<Vec<u64>>()
        };
        let bursts = |gap_ns| Arrivals::Bursts { frames: NonZeroU32::new(3).unwrap(), gap_ns };
        assert_eq!(dues(bursts(None), 7), [0, 0, 0, 3000, 3000, 3000, 6000]);
        assert_eq!(dues(bursts(Some(10_000)), 7), [0, 1000, 2000, 12_000, 13_000, 14_000, 24_000]);
        let poisson = dues(Arrivals::Poisson { seed: Some(3) }, 100_000);
        let gaps: Vec<f64> = poisson.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02 && (variance.sqrt() / mean - 1.0).abs() < 0.02, "{mean}");
    }
}
