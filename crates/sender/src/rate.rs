//! The requested rate of a run: what its options say, and the rate to compare the reached one with.

use super::device::TxDevice;
use super::job::SendJob;
use engine::Ramp;
use packet::{Arrivals, Config, Rate, wire_len};
use program::outcome::Failure;
use program::rate_options::{frame_rate, rate_on_line, unknown_speed};
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use units::{Nanos, WireRate, human_bps, human_duration, human_pps};

/// The requested rate of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedRate {
    /// As fast as possible.
    LineRate,
    /// A rate, and how frames are distributed in time around it.
    Constant {
        /// The rate.
        rate: Rate,
        /// The arrival process.
        arrivals: Arrivals,
    },
    /// Groups of frames that are sent at once.
    Groups {
        /// Frames of a group.
        frames: NonZeroU32,
        /// Nanoseconds from the start of a group to the start of the next.
        interval_ns: u64,
    },
    /// Frames per second that change over time.
    Ramp(Ramp),
}

/// The rate of a paced run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Frames per second.
    pub pps: f64,
    /// Bits per second on the wire, if these were given.
    pub wire_bps: Option<f64>,
    /// The change of the rate, whose mean is `pps`.
    pub ramp: Option<Ramp>,
    /// Frames that are due at one instant.
    pub group: u32,
    /// The gaps are random, so the number of frames in a time is random, too.
    pub is_random: bool,
}

/// A run missed its rate if more than this share of its frames was not sent in time, and sending
/// them takes longer than [`MISSED_S`].
const MISSED_SHARE: f64 = 0.01;
/// Frames that take less than this time at the asked rate are not missed, in seconds: their number
/// depends on the instant at which the run was stopped.
const MISSED_S: f64 = 0.010;
/// Standard deviations by which a random number of frames may be below its mean.
const CHANCE_SIGMAS: f64 = 4.0;

/// How many of `due` frames of a Poisson process may not have come, by chance.
pub fn missing_by_chance(due: f64) -> f64 {
    // The variance of the process is its mean.
    CHANCE_SIGMAS * due.sqrt()
}

impl Asked {
    /// The share of the rate that `sent` frames in `duration_ns` reached. The first frame or burst
    /// is sent at once, so one more than the time allows is no faster.
    pub fn reached(&self, sent: u64, duration_ns: u64) -> f64 {
        let (due, sent) = (self.due(duration_ns), sent as f64);
        match due + (sent - due).clamp(0.0, self.group.into()) {
            due if due > 0.0 => sent / due,
            _ => 1.0,
        }
    }

    /// The time that `sent` frames fill, in nanoseconds: `duration_ns`, and the gap behind the last
    /// frame or burst, for which a run does not wait.
    pub fn filled_ns(&self, sent: u64, duration_ns: u64) -> u64 {
        if self.ramp.is_some() || self.is_random {
            return duration_ns;
        }
        let ns = |frames: f64| (frames / self.pps * 1e9) as u64;
        let gap_ns = ns(self.group.into());
        ns(sent as f64).clamp(duration_ns, duration_ns.saturating_add(gap_ns))
    }

    /// True if `sent` frames in `duration_ns` are too few.
    pub fn is_missed(&self, sent: u64, duration_ns: u64) -> bool {
        let due = self.due(duration_ns);
        let missing = due - sent as f64;
        let by_chance = if self.is_random { missing_by_chance(due) } else { 0.0 };
        missing > due * MISSED_SHARE + by_chance && missing / self.pps > MISSED_S
    }

    fn due(&self, duration_ns: u64) -> f64 {
        match self.ramp {
            Some(ramp) => ramp.frames(duration_ns) as f64,
            None => self.pps * duration_ns as f64 / 1e9,
        }
    }
}

impl RequestedRate {
    /// The rate of `job`.
    ///
    /// # Errors
    /// Bad usage for a rate of zero, and for arrivals without a rate; refused for a share of a line
    /// whose speed is not known.
    pub fn of(job: &SendJob) -> Result<Self, Failure> {
        let given = match (job.ramp, job.rate, job.pps, job.delay) {
            (Some(ramp), ..) => return Self::ramp(ramp, job.arrivals),
            (_, Some(rate), ..) => Some(wire_rate(rate, job)?),
            (_, _, Some(rate), _) => Some(frame_rate(rate)?),
            (.., delay) => delay.and_then(|Nanos(delay_ns)| Rate::from_interval_ns(delay_ns)),
        };
        Self::with_arrivals(given, job.arrivals.unwrap_or_default())
    }

    /// Frames at `rate`, or as fast as possible, that arrive as `arrivals`.
    ///
    /// # Errors
    /// Bad usage for arrivals that need a rate.
    pub fn with_arrivals(rate: Option<Rate>, arrivals: Arrivals) -> Result<Self, Failure> {
        match (rate, arrivals) {
            (Some(rate), arrivals) => Ok(Self::Constant { rate, arrivals }),
            (None, Arrivals::Constant) => Ok(Self::LineRate),
            (None, Arrivals::Bursts { frames, gap_ns: Some(gap_ns) }) => {
                Ok(Self::Groups { frames, interval_ns: gap_ns.max(1) })
            }
            (None, Arrivals::Bursts { frames, gap_ns: None }) => Err(Failure::usage(
                format!("send in bursts of {frames} frames"),
                "the time between two bursts is not known without a rate",
            )
            .try_this("--pps 10k, or another rate")
            .try_this(format!("--arrivals burst:{frames},1ms"))),
            (None, Arrivals::Poisson { .. }) => Err(Failure::usage(
                "send with the gaps of a Poisson process",
                "their mean is not known without a rate",
            )
            .try_this("--pps 10k, or another rate")),
        }
    }

    fn ramp(ramp: Ramp, arrivals: Option<Arrivals>) -> Result<Self, Failure> {
        match arrivals.unwrap_or_default() {
            Arrivals::Constant => Ok(Self::Ramp(ramp)),
            _ => Err(Failure::usage("use --ramp with --arrivals", "the gaps of a ramp follow its rate")
                .try_this("leave --arrivals out")),
        }
    }

    /// The rate to compare the reached one with; `None` for as fast as possible.
    pub fn asked(&self, config: &Config) -> Option<Asked> {
        let is_random = matches!(self, Self::Constant { arrivals: Arrivals::Poisson { .. }, .. });
        let base = Asked { pps: 0.0, wire_bps: None, ramp: None, group: self.group(), is_random };
        let pps = |pps: f64| Some(Asked { pps, ..base });
        match *self {
            Self::LineRate => None,
            Self::Constant { rate, arrivals: Arrivals::Bursts { frames, gap_ns: Some(gap_ns) } } => {
                let burst_s = (f64::from(frames.get()) - 1.0) / mean_pps_of(rate, config);
                pps(f64::from(frames.get()) / (burst_s + gap_ns as f64 / 1e9))
            }
            Self::Constant { rate, .. } => {
                Some(Asked { pps: mean_pps_of(rate, config), wire_bps: rate.wire_bps(), ..base })
            }
            Self::Groups { frames, interval_ns } => pps(f64::from(frames.get()) * 1e9 / interval_ns as f64),
            Self::Ramp(ramp) => Some(Asked { pps: ramp.mean_pps(), ramp: Some(ramp), ..base }),
        }
    }

    /// Frames that are due at one instant.
    fn group(&self) -> u32 {
        match *self {
            Self::Constant { arrivals: Arrivals::Bursts { frames, .. }, .. }
            | Self::Groups { frames, .. } => frames.get(),
            _ => 1,
        }
    }

    /// Mean time from frame to frame in picoseconds, 0 for as fast as possible.
    pub fn interval_ps(&self, config: &Config) -> u64 {
        match *self {
            Self::Constant { rate, arrivals: Arrivals::Constant } if rate.pps().is_some() => rate.gap_of(0),
            _ => self.asked(config).map_or(0, |asked| (1e12 / asked.pps) as u64),
        }
    }

    /// The rate with bursts in frames per second, if it has bursts: they need the time of a frame.
    #[must_use]
    pub fn for_lengths(self, config: &Config) -> Self {
        match self {
            Self::Constant { rate, arrivals: arrivals @ Arrivals::Bursts { .. } } => {
                let (bytes, frames) = mean_wire_len(config);
                Self::Constant { rate: rate.in_frames(bytes, frames), arrivals }
            }
            rate => rate,
        }
    }
}

/// Frames per second of `rate`.
fn mean_pps_of(rate: Rate, config: &Config) -> f64 {
    rate.pps().unwrap_or_else(|| {
        let (bytes, frames) = mean_wire_len(config);
        rate.wire_bps().unwrap_or(0.0) * frames as f64 / (bytes * 8) as f64
    })
}

fn wire_rate(rate: WireRate, job: &SendJob) -> Result<Rate, Failure> {
    rate_on_line(rate, || {
        let act = format!("send {rate} of the line rate on {}", job.device);
        let device = TxDevice::find(job.netns.as_deref(), &job.device)
            .map_err(|why| Failure::host(act.clone(), why))?;
        device.line_bps().ok_or_else(|| unknown_speed(act))
    })
}

impl fmt::Display for RequestedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LineRate => write!(f, "as fast as possible"),
            Self::Constant { rate, arrivals } => {
                match (rate.interval_ns(), rate.wire_bps(), rate.pps()) {
                    (Some(interval_ns), ..) => write!(f, "a frame each {}", Nanos(interval_ns))?,
                    (_, Some(bps), _) => write!(f, "{} on the wire", human_bps(bps))?,
                    (.., pps) => write!(f, "{}", human_pps(pps.unwrap_or(0.0)))?,
                }
                match arrivals {
                    Arrivals::Constant => Ok(()),
                    Arrivals::Poisson { .. } => write!(f, ", Poisson arrivals"),
                    Arrivals::Bursts { frames, .. } => write!(f, ", in bursts of {frames} frames"),
                }
            }
            Self::Groups { frames, interval_ns } => write!(f, "{frames} frames each {}", Nanos(interval_ns)),
            Self::Ramp(ramp) => {
                let of = |micropps: NonZeroU64| human_pps(micropps.get() as f64 / 1e6);
                let [from, to] = [ramp.from_micropps, ramp.to_micropps].map(of);
                write!(f, "{from} to {to} over {}", human_duration(ramp.over_ns()))
            }
        }
    }
}

/// Mean length on the wire as a fraction: (bytes, frames).
fn mean_wire_len(config: &Config) -> (u64, u64) {
    let (min, max) = (config.min_pkt_size, config.max_pkt_size);
    if min < max {
        // pktgen excludes the end of a random range, not of a counted one.
        let is_excluded = config.flags.has(packet::Flags::TXSIZE_RND) && !config.are_ends_included;
        let last = max - u32::from(is_excluded);
        let bytes = (min..=last).map(|size| u64::from(wire_len(size))).sum();
        return (bytes, u64::from(last - min + 1));
    }
    if config.imix.is_empty() {
        return (u64::from(wire_len(min)), 1);
    }
    let weights = |of: fn(u32) -> u32| -> u128 {
        config.imix.iter().map(|entry| u128::from(of(entry.size)) * u128::from(entry.weight)).sum()
    };
    let (bytes, frames) = (weights(wire_len), weights(|_| 1));
    // Both in 64 bits: weights that large need no more digits.
    let shift = (u128::BITS - bytes.leading_zeros()).saturating_sub(u64::BITS);
    ((bytes >> shift) as u64, ((frames >> shift) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Flags, ImixEntry};

    fn sizes(min: u32, max: u32) -> Config {
        Config { min_pkt_size: min, max_pkt_size: max, ..Config::default() }
    }

    fn constant(rate: Option<Rate>) -> RequestedRate {
        RequestedRate::with_arrivals(rate, Arrivals::Constant).expect("it needs no rate")
    }

    #[test]
    fn a_gigabit_of_shortest_frames_is_one_each_672_ns() {
        let gigabit = constant(Rate::from_wire_bps(1_000_000_000));
        assert_eq!(gigabit.interval_ps(&sizes(60, 60)), 672_000);
        assert_eq!(constant(Rate::from_pps(14_880_952)).interval_ps(&sizes(60, 60)), 67_200);
        assert_eq!(constant(Rate::from_micropps(500_000)).interval_ps(&sizes(60, 60)), 2_000_000_000_000);
        assert_eq!(constant(Rate::from_interval_ns(10)).interval_ps(&sizes(60, 60)), 10_000);
        assert_eq!(constant(None).interval_ps(&sizes(60, 60)), 0);
    }

    #[test]
    fn the_gap_behind_the_last_frame_counts() {
        let asked = Asked { pps: 10.0, wire_bps: None, ramp: None, group: 1, is_random: false };
        let filled_ms = |sent, ms: u64| asked.filled_ns(sent, ms * 1_000_000) / 1_000_000;
        assert_eq!([filled_ms(1, 0), filled_ms(2, 100), filled_ms(100, 9_900)], [100, 200, 10_000]);
        // One that fell behind, and one that was too fast.
        assert_eq!([filled_ms(5, 2_000), filled_ms(30, 1_000)], [2_000, 1_100]);
    }

    #[test]
    fn arrivals_without_a_rate_have_no_mean() {
        let frames = NonZeroU32::new(32).unwrap();
        let without_rate = |arrivals| RequestedRate::with_arrivals(None, arrivals);
        assert!(without_rate(Arrivals::Poisson { seed: None }).is_err());
        assert!(without_rate(Arrivals::Bursts { frames, gap_ns: None }).is_err());
        let groups = without_rate(Arrivals::Bursts { frames, gap_ns: Some(1_000_000) }).unwrap();
        assert_eq!(groups.asked(&sizes(60, 60)).unwrap().pps, 32_000.0);
        assert_eq!(groups.to_string(), "32 frames each 1ms");
    }

    #[test]
    fn the_gap_between_bursts_lowers_the_mean_rate() {
        let frames = NonZeroU32::new(11).unwrap();
        let bursts = |gap_ns| {
            let arrivals = Arrivals::Bursts { frames, gap_ns };
            let rate = RequestedRate::with_arrivals(Rate::from_wire_bps(672_000), arrivals).unwrap();
            (rate.asked(&sizes(60, 60)).unwrap().pps, rate.for_lengths(&sizes(60, 60)).to_string())
        };
        assert_eq!(bursts(None), (1000.0, "1.000 kpps, in bursts of 11 frames".to_owned()));
        assert_eq!(bursts(Some(100_000_000)).0, 100.0);
    }

    #[test]
    fn a_rate_is_missed_by_more_than_a_hundredth_and_ten_milliseconds() {
        let asked = constant(Rate::from_pps(1000)).asked(&sizes(60, 60)).unwrap();
        for (sent, duration_ns, is_missed) in [
            (1000, 1_000_000_000, false),
            (1001, 1_000_000_000, false),
            (991, 1_000_000_000, false),
            (980, 1_000_000_000, true),
            (980, 10_000_000_000, true),
            (1, 9_000_000, false),
            (0, 20_000_000, true),
        ] {
            assert_eq!(asked.is_missed(sent, duration_ns), is_missed, "{sent} in {duration_ns} ns");
        }
        assert_eq!(asked.reached(250, 1_000_000_000), 0.25);
        let gigabit = constant(Rate::from_wire_bps(672_000)).asked(&sizes(60, 60));
        let gigabit = gigabit.unwrap();
        assert_eq!((gigabit.pps, gigabit.wire_bps), (1000.0, Some(672_000.0)));
        assert_eq!(RequestedRate::LineRate.asked(&sizes(60, 60)), None);
    }

    #[test]
    fn a_random_number_of_frames_is_missed_beyond_chance() {
        let poisson = RequestedRate::with_arrivals(Rate::from_pps(10_000), Arrivals::Poisson { seed: None });
        let asked = poisson.unwrap().asked(&sizes(60, 60)).unwrap();
        // 10,000 frames have a standard deviation of 100.
        for (sent, is_missed) in [(9_899, false), (9_510, false), (9_490, true), (10_300, false)] {
            assert_eq!(asked.is_missed(sent, 1_000_000_000), is_missed, "{sent}");
        }
    }

    #[test]
    fn a_ramp_asks_for_the_frames_until_its_end() {
        let asked = RequestedRate::Ramp(units::ramp("1k..3k/2s/3").unwrap()).asked(&sizes(60, 60)).unwrap();
        assert_eq!((asked.pps, asked.due(2_000_000_000)), (2000.0, 4000.0));
        assert!(
            !asked.is_missed(1330, 1_000_000_000 * 2 / 3 * 2) || asked.reached(1330, 1_000_000_000) < 1.0
        );
    }

    #[test]
    fn mixed_lengths_count_with_their_mean() {
        let gigabit = constant(Rate::from_wire_bps(1_000_000_000));
        assert_eq!(gigabit.interval_ps(&sizes(60, 62)), 85 * 8 * 1000);
        let mut drawn = sizes(60, 63);
        drawn.flags.set(Flags::TXSIZE_RND, true);
        assert_eq!(gigabit.interval_ps(&drawn), 85 * 8 * 1000);
        let entry = |size, weight| ImixEntry { size, weight };
        let mix = Config { imix: vec![entry(60, 3), entry(1514, 1)], ..sizes(60, 60) };
        assert_eq!(gigabit.interval_ps(&mix), (3 * 84 + 1538) * 8 * 1000 / 4);
    }
}
