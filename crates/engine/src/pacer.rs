//! Deadlines of a paced run: absolute, so that lateness is made up and the mean rate stays exact.
//! After a longer stop a run catches up at a limited rate.
//!
//! Pure arithmetic on nanoseconds; the run waits.

use crate::ramp::Ramp;
use packet::{Arrivals, NEVER_NS, PoissonProcess, Rate};
use std::num::{NonZeroU32, NonZeroU64};

/// Bytes on the wire beside the frame: FCS 4, preamble and start 8, gap 12.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

const PS_PER_NS: u64 = 1000;

/// Due times of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as possible.
    #[default]
    Unpaced,
    /// A constant rate.
    Constant(Rate),
    /// Frames per second that change over time.
    Ramp(Ramp),
    /// A rate with random gaps.
    Poisson {
        /// The mean rate.
        rate: Rate,
        /// The seed of the gaps.
        seed: u64,
    },
    /// Groups of frames.
    Bursts {
        /// Frames of a group.
        frames: NonZeroU32,
        /// The rate within a group; `None` for all at once.
        rate: Option<Rate>,
        /// Picoseconds from the first frame of a group to the first of the next.
        interval_ps: NonZeroU64,
    },
    /// Send nothing.
    Never,
}

impl Pace {
    /// pktgen's `delay`: 0 for unpaced, [`NEVER_NS`] for never.
    pub fn from_delay_ns(delay_ns: u64) -> Self {
        match delay_ns {
            NEVER_NS => Self::Never,
            delay_ns => Rate::from_interval_ns(delay_ns).map_or(Self::Unpaced, Self::Constant),
        }
    }

    /// `pps` frames per second; [`Self::Never`] for 0.
    pub fn from_pps(pps: u64) -> Self {
        Rate::from_pps(pps).map_or(Self::Never, Self::Constant)
    }

    /// `bps` bits per second on the wire; [`Self::Never`] for 0.
    pub fn from_wire_bps(bps: u64) -> Self {
        Rate::from_wire_bps(bps).map_or(Self::Never, Self::Constant)
    }

    /// pktgen's `delay` for transmit calls of `burst` frames: pktgen waits once per call.
    pub fn from_call_delay_ns(delay_ns: u64, burst: u32) -> Self {
        let interval_ps = NonZeroU64::new(delay_ns.saturating_mul(PS_PER_NS));
        match (Self::from_delay_ns(delay_ns), NonZeroU32::new(burst), interval_ps) {
            (Self::Constant(_), Some(frames), Some(interval_ps)) if burst > 1 => {
                Self::Bursts { frames, rate: None, interval_ps }
            }
            (pace, ..) => pace,
        }
    }

    /// Frames at `rate` that arrive as `arrivals`, in a run with the seed `run_seed`. Bursts need a
    /// rate of frames ([`Rate::in_frames`]).
    pub fn with_arrivals(rate: Rate, arrivals: Arrivals, run_seed: u64) -> Self {
        match arrivals {
            Arrivals::Constant => Self::Constant(rate),
            Arrivals::Poisson { seed } => Self::Poisson { rate, seed: seed.unwrap_or(run_seed) },
            Arrivals::Bursts { frames, gap_ns: None } => {
                let interval_ns = rate.time_of(frames.get().into(), 0);
                Self::bursts(frames, None, interval_ns)
            }
            Arrivals::Bursts { frames, gap_ns: Some(gap_ns) } => Self::bursts_with_gap(frames, rate, gap_ns),
        }
    }

    /// Groups of frames at `rate`, with `gap_ns` from the last frame of a group to the first of the
    /// next.
    pub fn bursts_with_gap(frames: NonZeroU32, rate: Rate, gap_ns: u64) -> Self {
        let burst_ns = rate.time_of(u64::from(frames.get()) - 1, 0);
        Self::bursts(frames, Some(rate), burst_ns + u128::from(gap_ns))
    }

    /// Groups of frames that are sent at once, each `interval_ns` after the one before.
    pub fn bursts_at_once(frames: NonZeroU32, interval_ns: u64) -> Self {
        Self::bursts(frames, None, interval_ns.into())
    }

    fn bursts(frames: NonZeroU32, rate: Option<Rate>, interval_ns: u128) -> Self {
        let interval_ps = u64::try_from(interval_ns * u128::from(PS_PER_NS)).unwrap_or(u64::MAX);
        Self::Bursts { frames, rate, interval_ps: NonZeroU64::new(interval_ps).unwrap_or(NonZeroU64::MIN) }
    }

    /// The rate, if it has a constant mean.
    pub fn rate(self) -> Option<Rate> {
        match self {
            Self::Constant(rate) | Self::Poisson { rate, .. } => Some(rate),
            _ => None,
        }
    }

    /// Interval between deadlines for the shortest frames; 0 without deadlines.
    pub(crate) fn gap_ns(self) -> u64 {
        self.gap_of(packet::wire_len(0))
    }

    /// Interval between deadlines for frames with `wire_len` bytes on the wire; 0 without
    /// deadlines. Rounded up.
    pub(crate) fn gap_of(self, wire_len: u32) -> u64 {
        let of_rate = |rate: Rate| rate.gap_of(wire_len).div_ceil(PS_PER_NS);
        match self {
            Self::Unpaced | Self::Never => 0,
            Self::Constant(rate) | Self::Poisson { rate, .. } => of_rate(rate),
            Self::Bursts { rate: Some(rate), .. } => of_rate(rate),
            Self::Bursts { rate: None, interval_ps, .. } => interval_ps.get().div_ceil(PS_PER_NS),
            Self::Ramp(ramp) => Rate::from_micropps(ramp.highest_micropps()).map_or(0, of_rate),
        }
    }

    /// Mean time between frames of at most `frame_len` bytes without FCS, as at the highest rate of
    /// the run; 0 for as fast as possible, and where the rate is not known yet. Rounded up.
    pub(crate) fn mean_gap_ns(self, frame_len: u32) -> u64 {
        match self {
            Self::Bursts { frames, interval_ps, .. } => {
                interval_ps.get().div_ceil(u64::from(frames.get()) * PS_PER_NS)
            }
            pace => pace.gap_of(packet::wire_len(frame_len)),
        }
    }

    /// The gap between any two frames, if it is always equal.
    pub fn uniform_gap_ns(self) -> Option<u64> {
        match self {
            Self::Constant(rate) if rate.pps().is_some() => Some(self.gap_ns()),
            _ => None,
        }
    }

    /// The mean rate in frames per second, if it is constant.
    pub fn frames_per_second(self) -> Option<f64> {
        self.rate().and_then(Rate::pps)
    }

    /// The mean rate in bits per second on the wire, if one was given.
    pub fn wire_bps(self) -> Option<f64> {
        self.rate().and_then(Rate::wire_bps)
    }

    /// `times` the rate with the arrivals of this one; `None` without a constant rate.
    pub fn scaled(self, times: f64) -> Option<Self> {
        match self {
            Self::Constant(rate) => Some(Self::Constant(rate.scaled(times))),
            Self::Poisson { rate, seed } => Some(Self::Poisson { rate: rate.scaled(times), seed }),
            _ => None,
        }
    }

    /// `rate` with the arrivals of this one.
    #[must_use]
    pub fn with_rate(self, rate: Rate) -> Self {
        match self {
            Self::Poisson { seed, .. } => Self::Poisson { rate, seed },
            _ => Self::Constant(rate),
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
    /// Frames that were sent more than 10 ms late.
    pub frames: u64,
    /// Time that was never made up.
    pub given_up_ns: u64,
}

/// Lateness up to this is normal for an operating system.
const LATE_NS: u64 = 10_000_000;

/// A run that catches up is on schedule again with this lateness: a call of an engine takes as
/// long.
const ON_TIME_NS: u64 = 100_000;

/// Deadlines of one run.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    pace: Pace,
    catch_up: CatchUp,
    start_ns: u64,
    frames: u64,
    wire_bits: u64,
    /// The due times of [`Pace::Poisson`].
    poisson: PoissonProcess,
    /// While it catches up.
    lag: Option<Lag>,
    /// The frames that are due now are later than [`LATE_NS`].
    is_late: bool,
    lateness: Lateness,
}

/// [`Pacer::due`] looks at so many gaps of a Poisson process at most; more frames are due at the
/// next look.
const GAPS_MAX: u64 = 4096;

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
        let poisson = PoissonProcess::new(if let Pace::Poisson { seed, .. } = pace { seed } else { 0 });
        Self {
            pace,
            catch_up,
            start_ns,
            frames: 0,
            wire_bits: 0,
            poisson,
            lag: None,
            is_late: false,
            lateness,
        }
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
            Pace::Constant(rate) => self.after(rate.time_of(self.frames, self.wire_bits)),
            Pace::Poisson { .. } => self.after(self.poisson.next_ns()),
            Pace::Ramp(ramp) => self.after(ramp.time_of(self.frames)),
            Pace::Bursts { frames, rate, interval_ps } => {
                let bursts = u128::from(self.frames / u64::from(frames.get()));
                let in_burst = rate.map_or(0, |rate| rate.time_of(self.frames % u64::from(frames.get()), 0));
                let burst_ns = (bursts * u128::from(interval_ps.get())).div_ceil(PS_PER_NS.into());
                self.after(burst_ns + in_burst)
            }
        }
    }

    /// Frames that are due at `now_ns`; `u64::MAX` if unpaced.
    pub fn due(&mut self, now_ns: u64) -> u64 {
        if self.pace == Pace::Unpaced {
            return if now_ns < self.start_ns { 0 } else { u64::MAX };
        }
        let next_ns = self.scheduled_ns();
        self.is_late = now_ns > next_ns.saturating_add(LATE_NS);
        if now_ns < next_ns {
            self.lag = None;
            return 0;
        }
        let is_late = self.lag.is_some() || self.is_late;
        let now_ns = if is_late { self.limited(now_ns, next_ns) } else { now_ns };
        if now_ns < next_ns {
            return 0;
        }
        let elapsed_ns = now_ns - self.start_ns;
        match self.pace {
            Pace::Unpaced | Pace::Never => 0,
            Pace::Constant(rate) => rate.due(elapsed_ns, self.frames, self.wire_bits),
            Pace::Poisson { rate, .. } => {
                let gap_ps = rate.gap_of(self.mean_wire_len());
                let (mut ahead, mut due) = (self.poisson, 0);
                while due < GAPS_MAX && ahead.next_ns() <= u128::from(elapsed_ns) {
                    ahead.advance(gap_ps);
                    due += 1;
                }
                due
            }
            Pace::Ramp(ramp) => ramp.frames(elapsed_ns) + 1 - self.frames,
            Pace::Bursts { frames, rate, interval_ps } => {
                let elapsed_ps = u128::from(elapsed_ns) * u128::from(PS_PER_NS);
                let interval_ps = u128::from(interval_ps.get());
                let in_burst_ns = (elapsed_ps % interval_ps / u128::from(PS_PER_NS)) as u64;
                let (bursts, frames) = ((elapsed_ps / interval_ps) as u64, u64::from(frames.get()));
                let in_burst = rate.map_or(frames, |rate| rate.due(in_burst_ns, 0, 0).min(frames));
                bursts.saturating_mul(frames).saturating_add(in_burst).saturating_sub(self.frames)
            }
        }
    }

    /// Ends catching up if the run is on schedule but for the time of a call. Among several runs of
    /// a thread it goes on until no frame is due: each would take the thread with a frame per call.
    pub(crate) fn end_catching_up(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.scheduled_ns()) <= ON_TIME_NS {
            self.lag = None;
        }
    }

    /// Frames that are due at `now_ns` by the schedule, however late: for frames that will not be
    /// sent, and make no later frame late.
    pub(crate) fn due_in_full(&mut self, now_ns: u64) -> u64 {
        let (catch_up, lateness) = (self.catch_up, self.lateness);
        (self.catch_up, self.lag) = (CatchUp::Unlimited, None);
        let due = self.due(now_ns);
        (self.catch_up, self.lateness, self.lag, self.is_late) = (catch_up, lateness, None, false);
        due
    }

    /// Mean bytes on the wire of the frames sent; those of the shortest frame before the first.
    fn mean_wire_len(&self) -> u32 {
        let mean = (self.wire_bits / 8).checked_div(self.frames).unwrap_or(0);
        u32::try_from(mean).unwrap_or(u32::MAX).max(packet::wire_len(0))
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
        self.lateness.frames += if self.is_late { frames } else { 0 };
        let wire_bytes = (frame_bytes + frames * WIRE_OVERHEAD_BYTES).max(least);
        self.wire_bits += 8 * wire_bytes;
        if let Pace::Poisson { rate, .. } = self.pace {
            let wire_len = wire_bytes.checked_div(frames).unwrap_or(0);
            let gap_ps = rate.gap_of(u32::try_from(wire_len).unwrap_or(u32::MAX));
            (0..frames).for_each(|_| self.poisson.advance(gap_ps));
        }
    }

    fn after(&self, later_ns: u128) -> u64 {
        u64::try_from(u128::from(self.start_ns) + later_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine(micropps: u64) -> Pace {
        Pace::Constant(Rate::from_micropps(micropps).expect("more than 0"))
    }

    #[test]
    fn a_scaled_pace_keeps_its_arrivals() {
        let poisson = |rate| Pace::Poisson { rate, seed: 3 };
        let [slow, fast] = [1000, 1100].map(|pps| Rate::from_pps(pps).expect("more than 0"));
        assert_eq!(poisson(slow).scaled(1.1), Some(poisson(fast)));
        assert_eq!(poisson(slow).with_rate(fast), poisson(fast));
        assert_eq!(Pace::from_pps(1000).scaled(1.1), Some(Pace::from_pps(1100)));
        assert_eq!((Pace::Unpaced.scaled(2.0), Pace::Never.scaled(2.0)), (None, None));
    }

    #[test]
    fn poisson_frames_are_due_when_their_process_says_so() {
        let rate = Rate::from_pps(1_000_000).expect("more than 0");
        let mut pacer = Pacer::new(Pace::Poisson { rate, seed: 5 }, 1000);
        let mut process = PoissonProcess::new(5);
        for _ in 0..10_000 {
            let due_ns = 1000 + process.next_ns() as u64;
            assert_eq!((pacer.next_ns(), pacer.due(due_ns - 1)), (due_ns, 0));
            assert!(pacer.due(due_ns) >= 1);
            pacer.sent(1, 60);
            process.advance(1_000_000);
        }
        // A look at any time finds the frames that a look at each frame finds.
        let sent = total(Pace::Poisson { rate, seed: 5 }, 77_777, 1000, 60);
        let last_ns = u128::from(77_777u64 * 999);
        let (mut ahead, mut due) = (PoissonProcess::new(5), 0);
        while ahead.next_ns() <= last_ns {
            ahead.advance(1_000_000);
            due += 1;
        }
        assert_eq!(sent, due);
        assert!((sent as f64 / 77_700.0 - 1.0).abs() < 0.02, "{sent}");
    }

    #[test]
    fn bursts_without_a_gap_keep_the_mean_rate() {
        let (rate, frames) = (Rate::from_pps(1000).expect("more than 0"), NonZeroU32::new(10).unwrap());
        let pace = Pace::with_arrivals(rate, Arrivals::Bursts { frames, gap_ns: None }, 0);
        let mut pacer = Pacer::new(pace, 0);
        assert_eq!((pacer.due(0), pacer.due(9_999_999), pacer.due(10_000_000)), (10, 10, 20));
        assert_eq!(total(pace, 1_000_000, 1001, 60), 1010);
        let gap = Pace::with_arrivals(rate, Arrivals::Bursts { frames, gap_ns: Some(91_000_000) }, 0);
        assert_eq!(total(gap, 1_000_000, 1001, 60), 101, "10 frames each 9 + 91 ms");
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
            let sent = total(Pace::from_pps(3_000_000), step_ns, looks, 60);
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
            let mut pacer = Pacer::new(fine(rate_micropps), 0);
            pacer.sent(frames, frames * 60);
            assert_eq!(pacer.next_ns(), due_ns, "{rate_micropps}: {frames}");
            assert_eq!((pacer.due(due_ns - 1), pacer.due(due_ns)), (0, 1), "{rate_micropps}: {frames}");
        }
        let pace = fine(1_234_500_000);
        assert_eq!((pace.frames_per_second(), pace.uniform_gap_ns()), (Some(1234.5), Some(810_045)));
        assert_eq!(total(pace, 1000, 2_000_001, 60), 2470);
    }

    #[test]
    fn wire_rate_counts_fcs_preamble_and_gap() {
        // 60 bytes are 84 on the wire: 1,488,095 frames per Gbit/s.
        let sent = total(Pace::from_wire_bps(1_000_000_000), 1000, 1_000_001, 60);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn frames_of_58_bytes_take_84_of_the_wire() {
        let sent = total(Pace::from_wire_bps(1_000_000_000), 1000, 1_000_001, 58);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn first_frame_at_once_and_the_next_after_one_delay() {
        let mut pacer = Pacer::new(Pace::from_delay_ns(10), 100);
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
        assert_eq!(Pace::from_call_delay_ns(20, 1), Pace::from_delay_ns(20));
        assert_eq!(Pace::from_call_delay_ns(0, 8), Pace::Unpaced);
        assert_eq!(Pace::from_call_delay_ns(NEVER_NS, 8), Pace::Never);
    }

    #[test]
    fn the_gap_of_bursts_is_from_the_last_frame_to_the_first_of_the_next() {
        let bursts = |gap_ns| {
            let rate = Rate::from_pps(100_000_000).expect("more than 0");
            Pace::bursts_with_gap(NonZeroU32::new(3).unwrap(), rate, gap_ns)
        };
        let mut pacer = Pacer::new(bursts(100), 1000);
        let due_ns = [1000, 1010, 1020, 1120, 1130, 1140, 1240];
        for due_ns in due_ns {
            assert_eq!((pacer.next_ns(), pacer.due(due_ns - 1), pacer.due(due_ns)), (due_ns, 0, 1));
            pacer.sent(1, 60);
        }
        let mut late = Pacer::new(bursts(100), 1000);
        assert_eq!((late.due(1119), late.due(1135), late.due(1241)), (3, 5, 7));
        assert_eq!(total(bursts(980), 777, 100_000, 60), 233_100);
    }

    #[test]
    fn another_delay_moves_no_deadline_back_and_makes_none_due_at_once() {
        let mut pacer = Pacer::new(Pace::from_delay_ns(1000), 0);
        pacer.sent(1, 60);
        for now_ns in [20, 40, 60] {
            pacer.change(Pace::from_delay_ns(1000 + now_ns), now_ns);
            assert_eq!((pacer.next_ns(), pacer.due(now_ns)), (1000, 0));
        }
        pacer.change(Pace::from_delay_ns(10), 100);
        assert_eq!(pacer.next_ns(), 110);
        pacer.change(Pace::Never, 105);
        pacer.change(Pace::from_delay_ns(50), 300);
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
    /// Frames per second: 50 in a millisecond.
    const FAST_PPS: u64 = 50_000;

    fn times(times: u32) -> CatchUp {
        CatchUp::Times(NonZeroU32::new(times).expect("more than 0"))
    }

    #[test]
    fn a_run_that_was_stopped_for_20_seconds_sends_twice_its_pace_until_it_has_caught_up() {
        let paces =
            [Pace::from_pps(FAST_PPS), Pace::from_delay_ns(20_000), Pace::from_wire_bps(50_000 * 84 * 8)];
        for pace in paces {
            let mut pacer = Pacer::new(pace, 0).with_catch_up(times(2));
            assert!((50..=51).contains(&busiest(&mut pacer, 0, SECOND_NS)), "{pace:?}");
            let caught_up_ns = 41 * SECOND_NS + 10_000_000;
            let most = busiest(&mut pacer, 21 * SECOND_NS, caught_up_ns);
            assert!((100..=102).contains(&most), "{pace:?}: {most}");
            assert!((50..=52).contains(&busiest(&mut pacer, caught_up_ns, 43 * SECOND_NS)), "{pace:?}");
            assert!((2_149_990..=2_150_000).contains(&pacer.frames), "{pace:?}: {}", pacer.frames);
            let late = pacer.lateness(None);
            // The last 10 ms of the lag are no lateness.
            assert!((1_998_900..=1_999_100).contains(&late.frames), "{late:?}");
            assert!(late.longest_ns.abs_diff(20 * SECOND_NS) < 1_000_000, "{late:?}");
            assert_eq!((late.times, late.given_up_ns), (1, 0));
        }
    }

    #[test]
    fn a_stop_while_it_catches_up_makes_no_burst_either() {
        let mut pacer = Pacer::new(Pace::from_pps(FAST_PPS), 0).with_catch_up(times(3));
        busiest(&mut pacer, 5 * SECOND_NS, 6 * SECOND_NS);
        let most = busiest(&mut pacer, 9 * SECOND_NS, 20 * SECOND_NS);
        assert!((150..=152).contains(&most), "{most}");
        assert_eq!(pacer.frames, 999_996, "all that is due by the last look");
    }

    #[test]
    fn at_once_its_pace_the_schedule_begins_anew() {
        let mut pacer = Pacer::new(Pace::from_pps(FAST_PPS), 0).with_catch_up(times(1));
        busiest(&mut pacer, 0, SECOND_NS);
        assert!((50..=51).contains(&busiest(&mut pacer, 21 * SECOND_NS, 22 * SECOND_NS)));
        let late = pacer.lateness(None);
        assert!(late.given_up_ns.abs_diff(20 * SECOND_NS) < 1_000_000, "{late:?}");
        assert_eq!((late.times, late.frames), (1, 1), "the frame that was due first");
    }

    #[test]
    fn short_lateness_and_that_of_pktgen_are_caught_up_at_once() {
        for catch_up in [times(1), times(2), CatchUp::Unlimited] {
            let mut pacer = Pacer::new(Pace::from_pps(FAST_PPS), 0).with_catch_up(catch_up);
            assert_eq!(pacer.due(9_999_999), 500);
            assert_eq!(pacer.lateness(None), Lateness::default());
        }
        let mut pacer = Pacer::new(Pace::from_pps(FAST_PPS), 0);
        assert_eq!(pacer.due(20 * SECOND_NS), 1_000_001);
        pacer.sent(1_000_001, 60_000_060);
        assert_eq!((pacer.due(20 * SECOND_NS), pacer.lateness(None).frames), (0, 1_000_001));
    }

    #[test]
    fn frames_that_are_not_sent_make_no_other_late() {
        let mut pacer = Pacer::new(Pace::from_pps(1000), 0).with_catch_up(times(2));
        let due = pacer.due_in_full(5 * SECOND_NS);
        assert_eq!(due, 5001);
        pacer.sent(due, 60 * due);
        assert_eq!(pacer.due(5 * SECOND_NS + 2_000_000), 2, "as if nothing had been");
        assert_eq!(pacer.lateness(None), Lateness::default());
    }

    /// Each look comes 10 µs after the frames of the one before, so some are always due.
    #[test]
    fn catching_up_ends_when_the_schedule_is_reached() {
        let mut pacer = Pacer::new(Pace::from_pps(1_000_000), 0).with_catch_up(times(2));
        for now_ns in (15_000_000..2_000_000_000).step_by(10_000) {
            pacer.end_catching_up(now_ns);
            let due = pacer.due(now_ns);
            pacer.sent(due, 60 * due);
        }
        assert!(!pacer.catches_up());
        let late = pacer.lateness(None);
        assert!((5_000..=20_000).contains(&late.frames), "not the frames of two seconds: {late:?}");
        assert!(pacer.frames.abs_diff(1_999_990) <= 10, "{}", pacer.frames);
    }

    #[test]
    fn what_is_missing_at_the_end_is_given_up() {
        let mut pacer = Pacer::new(Pace::from_pps(FAST_PPS), 0).with_catch_up(times(2));
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
