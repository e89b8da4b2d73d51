//! Deadlines of a paced run: absolute, so that lateness is made up and the mean rate stays exact.
//! After a longer stop a run catches up at a limited rate.
//!
//! Pure arithmetic on nanoseconds; the run waits.

use crate::ramp::Ramp;
use packet::NEVER_NS;
use std::num::{NonZeroU32, NonZeroU64};

/// Bytes on the wire beside the frame: FCS 4, preamble and start 8, gap 12.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// From this rate on, whole frames per second are within 0.1 %.
const EXACT_PPS: f64 = 1000.0;

/// Rate of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as possible.
    #[default]
    Unpaced,
    /// Interval between frames.
    Delay {
        /// Nanoseconds.
        delay_ns: u64,
    },
    /// Interval between bursts.
    BurstDelay {
        /// Nanoseconds.
        delay_ns: u64,
        /// Frames per burst.
        burst: NonZeroU32,
    },
    /// Bursts of frames at a rate.
    Bursts {
        /// Frames per burst.
        frames: NonZeroU32,
        /// Frames per second within a burst.
        rate_pps: NonZeroU64,
        /// Time from the last frame of a burst to the first of the next.
        gap_ns: u64,
    },
    /// Frames per second.
    FrameRate {
        /// Frames per second, more than 0.
        rate_pps: u64,
    },
    /// A rate that is no whole number of frames per second.
    FineRate {
        /// Frames per million seconds, more than 0.
        rate_micropps: u64,
    },
    /// Frames per second that change over time.
    Ramp(Ramp),
    /// Bits per second on the wire, with FCS, preamble and gap.
    WireRate {
        /// Bits per second, more than 0.
        rate_bps: u64,
    },
    /// Send nothing.
    Never,
}

impl Pace {
    /// pktgen's `delay`: 0 for unpaced, [`NEVER_NS`] for never.
    pub fn from_delay_ns(delay_ns: u64) -> Self {
        match delay_ns {
            0 => Self::Unpaced,
            NEVER_NS => Self::Never,
            delay_ns => Self::Delay { delay_ns },
        }
    }

    /// Interval between deadlines for the shortest frames; 0 without deadlines.
    pub(crate) fn gap_ns(self) -> u64 {
        match self {
            Self::Unpaced | Self::Never => 0,
            Self::Delay { delay_ns } | Self::BurstDelay { delay_ns, .. } => delay_ns,
            Self::Bursts { rate_pps, .. } => scaled(1, rate_pps.get()) as u64,
            Self::FrameRate { rate_pps } => scaled(1, rate_pps) as u64,
            Self::FineRate { rate_micropps } => scaled_fine(1, rate_micropps) as u64,
            Self::Ramp(ramp) => scaled(1, ramp.highest_pps()) as u64,
            Self::WireRate { rate_bps } => scaled(8 * u64::from(packet::wire_len(0)), rate_bps) as u64,
        }
    }

    /// The gap between any two frames, if it is always the same.
    pub fn uniform_gap_ns(self) -> Option<u64> {
        match self {
            Self::Delay { .. } | Self::FrameRate { .. } | Self::FineRate { .. } => Some(self.gap_ns()),
            _ => None,
        }
    }

    /// The rate in frames per second, if it is always the same.
    pub fn frames_per_second(self) -> Option<f64> {
        match self {
            Self::Delay { delay_ns } => Some(1e9 / delay_ns as f64),
            Self::FrameRate { rate_pps } => Some(rate_pps as f64),
            Self::FineRate { rate_micropps } => Some(rate_micropps as f64 / 1e6),
            _ => None,
        }
    }

    /// The same kind of rate, `times` as high; `None` without a constant rate.
    pub fn scaled(self, times: f64) -> Option<Self> {
        let whole = |rate: f64| (rate.round() as u64).max(1);
        match self {
            // As a rate, because a delay of a few nanoseconds is too coarse.
            Self::Delay { delay_ns } if times * 1e9 / delay_ns as f64 >= EXACT_PPS => {
                Some(Self::FrameRate { rate_pps: whole(times * 1e9 / delay_ns as f64) })
            }
            Self::Delay { delay_ns } => Some(Self::Delay { delay_ns: whole(delay_ns as f64 / times) }),
            Self::FrameRate { rate_pps } => {
                Some(Self::FrameRate { rate_pps: whole(rate_pps as f64 * times) })
            }
            Self::WireRate { rate_bps } => Some(Self::WireRate { rate_bps: whole(rate_bps as f64 * times) }),
            _ => None,
        }
    }

    /// Like [`Self::from_delay_ns`], for transmit calls of `burst` frames: pktgen waits once per
    /// call.
    pub fn from_call_delay_ns(delay_ns: u64, burst: u32) -> Self {
        match (Self::from_delay_ns(delay_ns), NonZeroU32::new(burst)) {
            (Self::Delay { delay_ns }, Some(burst)) if burst.get() > 1 => {
                Self::BurstDelay { delay_ns, burst }
            }
            (pace, _) => pace,
        }
    }
}

/// Rate at which a run catches up that is more than 10 ms late. Smaller delays are made up at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// As fast as possible, like pktgen.
    #[default]
    Unlimited,
    /// At most this multiple of its rate. At 1 it never catches up: the schedule is shifted.
    Times(NonZeroU32),
}

/// Lateness of a run, as far as it was more than 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Number of times.
    pub times: u64,
    /// Maximum.
    pub longest_ns: u64,
    /// Frames sent while catching up.
    pub frames: u64,
    /// Time that was never made up.
    pub given_up_ns: u64,
}

/// Lateness up to this is normal for an operating system.
const LATE_NS: u64 = 10_000_000;

/// Deadlines of one run.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    pace: Pace,
    catch_up: CatchUp,
    start_ns: u64,
    frames: u64,
    wire_bits: u64,
    /// While it catches up.
    lag: Option<Lag>,
    lateness: Lateness,
}

/// The schedule of a run that catches up has its own clock: `schedule_ns` at `real_ns`, and faster
/// afterwards.
#[derive(Clone, Copy, Debug)]
struct Lag {
    real_ns: u64,
    schedule_ns: u64,
}

impl Pacer {
    /// The first frame is due at `start_ns`.
    pub fn new(pace: Pace, start_ns: u64) -> Self {
        let (catch_up, lateness) = Default::default();
        Self { pace, catch_up, start_ns, frames: 0, wire_bits: 0, lag: None, lateness }
    }

    /// Sets the catch-up rate.
    #[must_use]
    pub fn with_catch_up(self, catch_up: CatchUp) -> Self {
        Self { catch_up, lag: None, ..self }
    }

    /// The schedule starts at `start_ns`; frames that were sent keep their places in it.
    pub(crate) fn start_at(&mut self, start_ns: u64) {
        (self.start_ns, self.lag) = (start_ns, None);
    }

    /// Changes the rate. The next frame is due as before, or one gap of the new rate from now if
    /// that is sooner; at once if there was no rate.
    pub fn change(&mut self, pace: Pace, now_ns: u64) {
        let due_ns = match self.pace {
            Pace::Unpaced | Pace::Never => now_ns,
            _ => self.next_ns().clamp(now_ns, now_ns.saturating_add(pace.gap_ns())),
        };
        let (catch_up, lateness) = (self.catch_up, self.lateness);
        *self = Self { catch_up, lateness, ..Self::new(pace, due_ns) };
    }

    /// When the next frame is due; `u64::MAX` for never.
    pub fn next_ns(&self) -> u64 {
        let scheduled_ns = self.scheduled_ns();
        match (self.lag, self.catch_up) {
            (Some(lag), CatchUp::Times(times)) => {
                let left_ns = scheduled_ns.saturating_sub(lag.schedule_ns).div_ceil(u64::from(times.get()));
                scheduled_ns.max(lag.real_ns.saturating_add(left_ns))
            }
            _ => scheduled_ns,
        }
    }

    /// Appends the times at which the next frames are due, at most `most` and before `end_ns`. All
    /// have `frame_len` bytes.
    pub(crate) fn upcoming(self, most: usize, end_ns: u64, frame_len: u32, due_ns: &mut Vec<u64>) {
        let mut ahead = self;
        while due_ns.len() < most && ahead.next_ns() < end_ns {
            due_ns.push(ahead.next_ns());
            ahead.sent(1, u64::from(frame_len));
        }
    }

    /// True while it catches up at a limited rate.
    pub(crate) fn catches_up(&self) -> bool {
        self.lag.is_some()
    }

    /// The lateness. `end_ns` is the end of a run that has not sent all frames.
    pub fn lateness(&self, end_ns: Option<u64>) -> Lateness {
        let behind_ns = end_ns.map_or(0, |end_ns| end_ns.saturating_sub(self.scheduled_ns()));
        let is_behind = self.pace != Pace::Unpaced && behind_ns > LATE_NS;
        let given_up_ns = self.lateness.given_up_ns + if is_behind { behind_ns } else { 0 };
        Lateness { given_up_ns, longest_ns: self.lateness.longest_ns.max(given_up_ns), ..self.lateness }
    }

    /// When the next frame is due without lateness.
    fn scheduled_ns(&self) -> u64 {
        match self.pace {
            Pace::Unpaced => self.start_ns,
            Pace::Never => u64::MAX,
            Pace::Delay { delay_ns } => self.after(u128::from(self.frames) * u128::from(delay_ns)),
            Pace::BurstDelay { delay_ns, burst } => {
                let bursts = self.frames / u64::from(burst.get());
                self.after(u128::from(bursts) * u128::from(delay_ns))
            }
            Pace::Bursts { frames, rate_pps, gap_ns } => {
                let in_burst = scaled(self.frames % u64::from(frames.get()), rate_pps.get());
                let bursts = u128::from(self.frames / u64::from(frames.get()));
                self.after(bursts * u128::from(burst_interval_ns(frames, rate_pps, gap_ns)) + in_burst)
            }
            Pace::FrameRate { rate_pps } => self.after(scaled(self.frames, rate_pps)),
            Pace::FineRate { rate_micropps } => self.after(scaled_fine(self.frames, rate_micropps)),
            Pace::Ramp(ramp) => self.after(ramp.time_of(self.frames)),
            Pace::WireRate { rate_bps } => self.after(scaled(self.wire_bits, rate_bps)),
        }
    }

    /// Frames that are due at `now_ns`; `u64::MAX` if unpaced.
    pub fn due(&mut self, now_ns: u64) -> u64 {
        if self.pace == Pace::Unpaced {
            return if now_ns < self.start_ns { 0 } else { u64::MAX };
        }
        let next_ns = self.scheduled_ns();
        if now_ns < next_ns {
            self.lag = None;
            return 0;
        }
        let is_late = self.lag.is_some() || now_ns - next_ns > LATE_NS;
        let now_ns = if is_late { self.limited(now_ns, next_ns) } else { now_ns };
        if now_ns < next_ns {
            return 0;
        }
        let elapsed_ns = u128::from(now_ns - self.start_ns);
        let until_now = |per_second: u64| (elapsed_ns * u128::from(per_second) / 1_000_000_000) as u64;
        match self.pace {
            Pace::Unpaced | Pace::Never => 0,
            Pace::Delay { delay_ns } => (elapsed_ns / u128::from(delay_ns)) as u64 + 1 - self.frames,
            Pace::BurstDelay { delay_ns, burst } => {
                let bursts = (elapsed_ns / u128::from(delay_ns)) as u64 + 1;
                bursts.saturating_mul(u64::from(burst.get())) - self.frames
            }
            Pace::Bursts { frames, rate_pps, gap_ns } => {
                let interval_ns = u128::from(burst_interval_ns(frames, rate_pps, gap_ns));
                let in_burst_ns = elapsed_ns % interval_ns;
                let in_burst = in_burst_ns * u128::from(rate_pps.get()) / 1_000_000_000 + 1;
                let (bursts, frames) = ((elapsed_ns / interval_ns) as u64, u64::from(frames.get()));
                bursts.saturating_mul(frames).saturating_add((in_burst as u64).min(frames)) - self.frames
            }
            Pace::FrameRate { rate_pps } => until_now(rate_pps) + 1 - self.frames,
            Pace::FineRate { rate_micropps } => {
                (elapsed_ns * u128::from(rate_micropps) / MILLION_SECONDS_NS) as u64 + 1 - self.frames
            }
            Pace::Ramp(ramp) => ramp.frames(elapsed_ns as u64) + 1 - self.frames,
            Pace::WireRate { rate_bps } => {
                let mean_bits = self.wire_bits.checked_div(self.frames).unwrap_or(0).max(84 * 8);
                (until_now(rate_bps) - self.wire_bits) / mean_bits + 1
            }
        }
    }

    /// Time on the clock of the schedule for a late run, whose next frame was due at `next_ns`.
    fn limited(&mut self, now_ns: u64, next_ns: u64) -> u64 {
        let schedule_ns = self.lag.map_or(next_ns, |lag| match self.catch_up {
            CatchUp::Unlimited => now_ns,
            CatchUp::Times(times) => {
                let passed_ns = (now_ns - lag.real_ns).saturating_mul(u64::from(times.get()));
                lag.schedule_ns.saturating_add(passed_ns).min(now_ns)
            }
        });
        if self.lag.is_some() && schedule_ns.saturating_sub(next_ns) <= LATE_NS {
            return schedule_ns;
        }
        self.lateness.longest_ns = self.lateness.longest_ns.max(now_ns - next_ns);
        match self.catch_up {
            CatchUp::Unlimited => {
                self.lateness.times += u64::from(self.lag.is_none());
                self.lag = Some(Lag { real_ns: now_ns, schedule_ns: now_ns });
                now_ns
            }
            CatchUp::Times(NonZeroU32::MIN) => {
                self.lateness.times += 1;
                self.lateness.given_up_ns += now_ns - next_ns;
                self.start_ns += now_ns - next_ns;
                now_ns
            }
            CatchUp::Times(_) => {
                self.lateness.times += u64::from(self.lag.is_none());
                self.lag = Some(Lag { real_ns: now_ns, schedule_ns: next_ns });
                next_ns
            }
        }
    }

    /// Counts sent frames, with the sum of their lengths without FCS. Short frames are padded on
    /// the wire; in a mix with longer ones that is ignored, which is at most 2 of 84 bytes.
    pub fn sent(&mut self, frames: u64, frame_bytes: u64) {
        let least = frames * u64::from(packet::wire_len(0));
        self.frames += frames;
        self.lateness.frames += if self.lag.is_some() { frames } else { 0 };
        self.wire_bits += 8 * (frame_bytes + frames * WIRE_OVERHEAD_BYTES).max(least);
    }

    fn after(&self, later_ns: u128) -> u64 {
        u64::try_from(u128::from(self.start_ns) + later_ns).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds from the start of a burst to the start of the next, at least 1.
fn burst_interval_ns(frames: NonZeroU32, rate_pps: NonZeroU64, gap_ns: u64) -> u64 {
    let burst_ns = scaled(u64::from(frames.get()) - 1, rate_pps.get());
    u64::try_from(burst_ns + u128::from(gap_ns)).unwrap_or(u64::MAX).max(1)
}

/// Nanoseconds in a million seconds.
const MILLION_SECONDS_NS: u128 = 1_000_000_000_000_000;

/// Nanoseconds for `frames` at so many per million seconds, rounded up so that no frame is early.
fn scaled_fine(frames: u64, rate_micropps: u64) -> u128 {
    (u128::from(frames) * MILLION_SECONDS_NS).div_ceil(u128::from(rate_micropps))
}

/// Nanoseconds for `units` at `per_second`, rounded up so that no frame is early.
fn scaled(units: u64, per_second: u64) -> u128 {
    (u128::from(units) * 1_000_000_000).div_ceil(u128::from(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_rate_is_exact_to_a_thousandth() {
        let ns = |delay_ns| Pace::Delay { delay_ns };
        assert_eq!(ns(67).scaled(1.1), Some(Pace::FrameRate { rate_pps: 16_417_910 }));
        assert_eq!(ns(2_000_000_000).scaled(2.0), Some(ns(1_000_000_000)));
        let rate = |rate_pps| Pace::FrameRate { rate_pps };
        assert_eq!((rate(1000).scaled(1.1), rate(1).scaled(0.1)), (Some(rate(1100)), Some(rate(1))));
        let wire = |rate_bps| Pace::WireRate { rate_bps };
        assert_eq!(wire(1_000_000).scaled(0.9), Some(wire(900_000)));
        assert_eq!((Pace::Unpaced.scaled(2.0), Pace::Never.scaled(2.0)), (None, None));
    }

    /// Sends what is due at each of `count` steps of `step_ns`, and returns the total.
    fn total(pace: Pace, step_ns: u64, count: u64, frame_len: u64) -> u64 {
        let mut pacer = Pacer::new(pace, 1000);
        let mut sum = 0;
        for look in 0..count {
            let due = pacer.due(1000 + look * step_ns);
            pacer.sent(due, due * frame_len);
            sum += due;
        }
        sum
    }

    #[test]
    fn the_mean_is_exact_however_late_one_looks() {
        for step_ns in [700, 1_000, 1_777, 50_000] {
            let looks = 1_000_000_000 / step_ns + 1;
            let sent = total(Pace::FrameRate { rate_pps: 3_000_000 }, step_ns, looks, 60);
            assert!((2_999_800..=3_000_001).contains(&sent), "{sent} at {step_ns}");
        }
    }

    /// Frame n is due n / rate seconds after the start, rounded up to whole nanoseconds.
    #[test]
    fn fractions_of_a_rate_are_exact_after_any_number_of_frames() {
        for (rate_micropps, frames, due_ns) in [
            (500_000, 3, 6_000_000_000),
            (1_234_500_000, 1_234_500, 1_000_000_000_000),
            (333_333, 333_333, 1_000_000_000_000_000),
            (1, 5, 5_000_000_000_000_000),
            (3_000_001, 1, 333_333_223),
        ] {
            let mut pacer = Pacer::new(Pace::FineRate { rate_micropps }, 0);
            pacer.sent(frames, frames * 60);
            assert_eq!(pacer.next_ns(), due_ns, "{rate_micropps}: {frames}");
            assert_eq!((pacer.due(due_ns - 1), pacer.due(due_ns)), (0, 1), "{rate_micropps}: {frames}");
        }
        let pace = Pace::FineRate { rate_micropps: 1_234_500_000 };
        assert_eq!((pace.frames_per_second(), pace.uniform_gap_ns()), (Some(1234.5), Some(810_045)));
        assert_eq!(total(pace, 1000, 2_000_001, 60), 2470);
    }

    #[test]
    fn wire_rate_counts_fcs_preamble_and_gap() {
        // 60 bytes are 84 on the wire: 1,488,095 frames per Gbit/s.
        let sent = total(Pace::WireRate { rate_bps: 1_000_000_000 }, 1000, 1_000_001, 60);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn frames_of_58_bytes_take_84_of_the_wire() {
        let sent = total(Pace::WireRate { rate_bps: 1_000_000_000 }, 1000, 1_000_001, 58);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn first_frame_at_once_and_the_next_after_one_delay() {
        let mut pacer = Pacer::new(Pace::Delay { delay_ns: 10 }, 100);
        assert_eq!((pacer.due(99), pacer.due(100), pacer.due(109), pacer.due(110)), (0, 1, 1, 2));
        pacer.sent(1, 60);
        assert_eq!((pacer.next_ns(), pacer.due(109), pacer.due(131)), (110, 0, 3));
    }

    /// What a real pktgen does: 16 frames in bursts of 8 take one delay.
    #[test]
    fn a_burst_waits_once_for_all_its_frames() {
        let mut pacer = Pacer::new(Pace::from_call_delay_ns(20, 8), 100);
        assert_eq!((pacer.due(99), pacer.due(100), pacer.due(119)), (0, 8, 8));
        pacer.sent(3, 180);
        assert_eq!((pacer.next_ns(), pacer.due(110)), (100, 5), "the rest of it is late already");
        pacer.sent(5, 300);
        assert_eq!((pacer.next_ns(), pacer.due(119), pacer.due(120), pacer.due(141)), (120, 0, 8, 16));
        assert_eq!(Pace::from_call_delay_ns(20, 1), Pace::Delay { delay_ns: 20 });
        assert_eq!(Pace::from_call_delay_ns(0, 8), Pace::Unpaced);
        assert_eq!(Pace::from_call_delay_ns(NEVER_NS, 8), Pace::Never);
    }

    #[test]
    fn the_gap_of_bursts_is_from_the_last_frame_to_the_first_of_the_next() {
        let (frames, rate_pps) = (NonZeroU32::new(3).unwrap(), NonZeroU64::new(100_000_000).unwrap());
        let mut pacer = Pacer::new(Pace::Bursts { frames, rate_pps, gap_ns: 100 }, 1000);
        let due_ns = [1000, 1010, 1020, 1120, 1130, 1140, 1240];
        for due_ns in due_ns {
            assert_eq!((pacer.next_ns(), pacer.due(due_ns - 1), pacer.due(due_ns)), (due_ns, 0, 1));
            pacer.sent(1, 60);
        }
        let mut late = Pacer::new(Pace::Bursts { frames, rate_pps, gap_ns: 100 }, 1000);
        assert_eq!((late.due(1119), late.due(1135), late.due(1241)), (3, 5, 7));
        assert_eq!(total(Pace::Bursts { frames, rate_pps, gap_ns: 980 }, 777, 100_000, 60), 233_100);
    }

    #[test]
    fn another_delay_moves_no_deadline_back_and_makes_none_due_at_once() {
        let mut pacer = Pacer::new(Pace::Delay { delay_ns: 1000 }, 0);
        pacer.sent(1, 60);
        for now_ns in [20, 40, 60] {
            pacer.change(Pace::Delay { delay_ns: 1000 + now_ns }, now_ns);
            assert_eq!((pacer.next_ns(), pacer.due(now_ns)), (1000, 0));
        }
        pacer.change(Pace::Delay { delay_ns: 10 }, 100);
        assert_eq!(pacer.next_ns(), 110);
        pacer.change(Pace::Never, 105);
        pacer.change(Pace::Delay { delay_ns: 50 }, 300);
        assert_eq!(pacer.next_ns(), 300);
    }

    /// Looks each 100 µs from `from_ns` to `to_ns`, and sends all that is due; the most of any
    /// millisecond.
    fn busiest(pacer: &mut Pacer, from_ns: u64, to_ns: u64) -> u64 {
        let (mut most, mut of_millisecond) = (0, 0);
        for now_ns in (from_ns..to_ns).step_by(100_000) {
            if now_ns % 1_000_000 == 0 {
                of_millisecond = 0;
            }
            let due = pacer.due(now_ns);
            assert!(due == 0 || pacer.next_ns() <= now_ns, "next_ns and due agree");
            pacer.sent(due, due * 60);
            assert!(pacer.due(now_ns) == 0 && pacer.next_ns() > now_ns, "next_ns and due agree");
            of_millisecond += due;
            most = most.max(of_millisecond);
        }
        most
    }

    const SECOND_NS: u64 = 1_000_000_000;
    /// 50 frames a millisecond.
    const FAST: Pace = Pace::FrameRate { rate_pps: 50_000 };

    fn times(times: u32) -> CatchUp {
        CatchUp::Times(NonZeroU32::new(times).expect("more than 0"))
    }

    #[test]
    fn a_run_that_was_stopped_for_20_seconds_sends_twice_its_pace_until_it_has_caught_up() {
        let paces = [FAST, Pace::Delay { delay_ns: 20_000 }, Pace::WireRate { rate_bps: 50_000 * 84 * 8 }];
        for pace in paces {
            let mut pacer = Pacer::new(pace, 0).with_catch_up(times(2));
            assert!((50..=51).contains(&busiest(&mut pacer, 0, SECOND_NS)), "{pace:?}");
            let caught_up_ns = 41 * SECOND_NS + 10_000_000;
            let most = busiest(&mut pacer, 21 * SECOND_NS, caught_up_ns);
            assert!((100..=102).contains(&most), "{pace:?}: {most}");
            assert!((50..=52).contains(&busiest(&mut pacer, caught_up_ns, 43 * SECOND_NS)), "{pace:?}");
            assert!((2_149_990..=2_150_000).contains(&pacer.frames), "{pace:?}: {}", pacer.frames);
            let late = pacer.lateness(None);
            assert!((1_999_900..=2_000_100).contains(&late.frames), "{late:?}");
            assert!(late.longest_ns.abs_diff(20 * SECOND_NS) < 1_000_000, "{late:?}");
            assert_eq!((late.times, late.given_up_ns), (1, 0));
        }
    }

    #[test]
    fn a_stop_while_it_catches_up_makes_no_burst_either() {
        let mut pacer = Pacer::new(FAST, 0).with_catch_up(times(3));
        busiest(&mut pacer, 5 * SECOND_NS, 6 * SECOND_NS);
        let most = busiest(&mut pacer, 9 * SECOND_NS, 20 * SECOND_NS);
        assert!((150..=152).contains(&most), "{most}");
        assert_eq!(pacer.frames, 999_996, "all that is due by the last look");
    }

    #[test]
    fn at_once_its_pace_the_schedule_begins_anew() {
        let mut pacer = Pacer::new(FAST, 0).with_catch_up(times(1));
        busiest(&mut pacer, 0, SECOND_NS);
        assert!((50..=51).contains(&busiest(&mut pacer, 21 * SECOND_NS, 22 * SECOND_NS)));
        let late = pacer.lateness(None);
        assert!(late.given_up_ns.abs_diff(20 * SECOND_NS) < 1_000_000, "{late:?}");
        assert_eq!((late.times, late.frames), (1, 0));
    }

    #[test]
    fn short_lateness_and_that_of_pktgen_are_caught_up_at_once() {
        for catch_up in [times(1), times(2), CatchUp::Unlimited] {
            let mut pacer = Pacer::new(FAST, 0).with_catch_up(catch_up);
            assert_eq!(pacer.due(9_999_999), 500);
            assert_eq!(pacer.lateness(None), Lateness::default());
        }
        let mut pacer = Pacer::new(FAST, 0);
        assert_eq!(pacer.due(20 * SECOND_NS), 1_000_001);
        pacer.sent(1_000_001, 60_000_060);
        assert_eq!((pacer.due(20 * SECOND_NS), pacer.lateness(None).frames), (0, 1_000_001));
    }

    #[test]
    fn what_is_missing_at_the_end_is_given_up() {
        let mut pacer = Pacer::new(FAST, 0).with_catch_up(times(2));
        busiest(&mut pacer, 10 * SECOND_NS, 15 * SECOND_NS);
        assert!(pacer.lateness(Some(15 * SECOND_NS)).given_up_ns.abs_diff(5 * SECOND_NS) < 1_000_000);
        assert_eq!(pacer.lateness(None).given_up_ns, 0);
        assert_eq!(Pacer::new(Pace::Unpaced, 0).lateness(Some(SECOND_NS)), Lateness::default());
    }

    #[test]
    fn never_is_never_and_unpaced_is_always() {
        assert_eq!(Pacer::new(Pace::from_delay_ns(NEVER_NS), 5).due(u64::MAX - 1), 0);
        assert_eq!(Pacer::new(Pace::from_delay_ns(0), 5).due(5), u64::MAX);
    }
}
