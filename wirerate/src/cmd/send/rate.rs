//! The requested speed: a packet rate, a bit rate on the wire or an interval, and the mean time
//! between frames that it gives.

use super::args::Args;
use crate::outcome::Failure;
use crate::units::{BitRate, FrameRate, Nanos, Pps, human_bps, human_duration, human_pps};
use engine::Ramp;
use packet::{Config, wire_len};
use std::fmt;

/// Picoseconds in a second. Whole nanoseconds would be 0.3 % off at 14.88 Mpps.
const SECOND_PS: u128 = 1_000_000_000_000;

/// The requested speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as possible.
    LineRate,
    /// Bits per second on the wire.
    BitRate(BitRate),
    /// Frames per second.
    PacketRate(Pps),
    /// A rate that is no whole number of frames per second.
    Fine(FrameRate),
    /// Time from frame to frame.
    Interval(Nanos),
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
}

/// A rate is missed if more than this share of the frames is missing,
const MISSED_SHARE: f64 = 0.01;
/// and if they would take more than this time: less is a matter of when the run was stopped.
const MISSED_S: f64 = 0.010;

impl Asked {
    /// The share of the rate that `sent` frames in `duration_ns` reached. The first frame is sent
    /// at once, so one frame more than the time allows is no faster.
    pub fn reached(&self, sent: u64, duration_ns: u64) -> f64 {
        let (due, sent) = (self.due(duration_ns), sent as f64);
        match due + (sent - due).clamp(0.0, 1.0) {
            due if due > 0.0 => sent / due,
            _ => 1.0,
        }
    }

    /// True if `sent` frames in `duration_ns` are too few.
    pub fn is_missed(&self, sent: u64, duration_ns: u64) -> bool {
        let due = self.due(duration_ns);
        let missing = due - sent as f64;
        missing > due * MISSED_SHARE && missing / self.pps > MISSED_S
    }

    fn due(&self, duration_ns: u64) -> f64 {
        match self.ramp {
            Some(ramp) => ramp.frames(duration_ns) as f64,
            None => self.pps * duration_ns as f64 / 1e9,
        }
    }
}

impl Rate {
    /// The one of `args`.
    ///
    /// # Errors
    /// Bad usage for a rate of zero.
    pub fn of(args: &Args) -> Result<Self, Failure> {
        let zero = |option: &str| {
            Failure::usage(format!("send at {option} 0"), "no frame would be sent")
                .try_this(format!("leave {option} out to send as fast as possible"))
        };
        if let Some(ramp) = args.ramp {
            return Ok(Self::Ramp(ramp));
        }
        match (args.rate, args.pps, args.delay) {
            (Some(BitRate(0)), ..) => Err(zero("--rate")),
            (_, Some(FrameRate(0)), _) => Err(zero("--pps")),
            (Some(rate), ..) => Ok(Self::BitRate(rate)),
            (_, Some(rate), _) => Ok(match rate.whole_pps() {
                Some(pps) => Self::PacketRate(pps),
                None => Self::Fine(rate),
            }),
            (.., Some(Nanos(0))) | (None, None, None) => Ok(Self::LineRate),
            (.., Some(delay)) => Ok(Self::Interval(delay)),
        }
    }

    /// The rate to compare the reached one with; `None` for as fast as possible.
    pub fn asked(&self, config: &Config) -> Option<Asked> {
        let pps = |pps: f64| Some(Asked { pps, wire_bps: None, ramp: None });
        match *self {
            Self::LineRate => None,
            Self::Interval(delay) => pps(1e9 / delay.0 as f64),
            Self::PacketRate(rate) => pps(rate.0 as f64),
            Self::Fine(rate) => pps(rate.pps()),
            Self::Ramp(ramp) => Some(Asked { pps: mean_pps(&ramp), wire_bps: None, ramp: Some(ramp) }),
            Self::BitRate(rate) => {
                let (bytes, frames) = mean_wire_len(config);
                let wire_bps = rate.0 as f64;
                Some(Asked {
                    pps: wire_bps * frames as f64 / (bytes * 8) as f64,
                    wire_bps: Some(wire_bps),
                    ramp: None,
                })
            }
        }
    }

    /// Mean time from frame to frame in picoseconds, 0 for as fast as possible.
    pub fn interval_ps(&self, config: &Config) -> u64 {
        let ps = match *self {
            Self::LineRate => 0,
            Self::Interval(delay) => u128::from(delay.0) * 1000,
            Self::PacketRate(pps) => SECOND_PS / u128::from(pps.0),
            Self::Fine(rate) => SECOND_PS * 1_000_000 / u128::from(rate.0),
            Self::Ramp(ramp) => (SECOND_PS as f64 / mean_pps(&ramp)) as u128,
            Self::BitRate(rate) => {
                let (bytes, frames) = mean_wire_len(config);
                bytes * 8 * SECOND_PS / (frames * u128::from(rate.0))
            }
        };
        u64::try_from(ps).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineRate => write!(f, "as fast as possible"),
            Self::BitRate(rate) => write!(f, "{} on the wire", human_bps(rate.0 as f64)),
            Self::PacketRate(pps) => write!(f, "{}", human_pps(pps.0 as f64)),
            Self::Fine(rate) => write!(f, "{}", human_pps(rate.pps())),
            Self::Interval(delay) => write!(f, "a frame each {delay}"),
            Self::Ramp(ramp) => {
                let [from, to] = [ramp.from_pps, ramp.to_pps].map(|pps| human_pps(pps.get() as f64));
                write!(f, "{from} to {to} over {}", human_duration(ramp.over_ns()))
            }
        }
    }
}

/// Mean rate over all steps.
fn mean_pps(ramp: &Ramp) -> f64 {
    match ramp.steps.get() {
        1 => ramp.to_pps.get() as f64,
        _ => (ramp.from_pps.get() as f64 + ramp.to_pps.get() as f64) / 2.0,
    }
}

/// Mean length on the wire as a fraction: (bytes, frames).
fn mean_wire_len(config: &Config) -> (u128, u128) {
    let (min, max) = (config.min_pkt_size, config.max_pkt_size);
    if min < max {
        // pktgen excludes the end of a random range, not of a counted one.
        let last = max - u32::from(config.flags.has(packet::Flags::TXSIZE_RND));
        let bytes = (min..=last).map(|size| u128::from(wire_len(size))).sum();
        return (bytes, u128::from(last - min + 1));
    }
    if config.imix.is_empty() {
        return (u128::from(wire_len(min)), 1);
    }
    let weights = |of: fn(u32) -> u32| {
        config.imix.iter().map(|entry| u128::from(of(entry.size)) * u128::from(entry.weight)).sum()
    };
    (weights(wire_len), weights(|_| 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Flags, ImixEntry};

    fn sizes(min: u32, max: u32) -> Config {
        Config { min_pkt_size: min, max_pkt_size: max, ..Config::default() }
    }

    #[test]
    fn a_gigabit_of_shortest_frames_is_one_each_672_ns() {
        let gigabit = Rate::BitRate(BitRate(1_000_000_000));
        assert_eq!(gigabit.interval_ps(&sizes(60, 60)), 672_000);
        assert_eq!(Rate::PacketRate(Pps(14_880_952)).interval_ps(&sizes(60, 60)), 67_200);
        assert_eq!(Rate::Fine(FrameRate(500_000)).interval_ps(&sizes(60, 60)), 2_000_000_000_000);
        assert_eq!(Rate::Interval(Nanos(10)).interval_ps(&sizes(60, 60)), 10_000);
        assert_eq!(Rate::LineRate.interval_ps(&sizes(60, 60)), 0);
    }

    #[test]
    fn a_rate_is_missed_by_more_than_a_hundredth_and_ten_milliseconds() {
        let asked = Asked { pps: 1000.0, wire_bps: None, ramp: None };
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
        let gigabit = Rate::BitRate(BitRate(672_000)).asked(&sizes(60, 60));
        assert_eq!(gigabit, Some(Asked { pps: 1000.0, wire_bps: Some(672_000.0), ramp: None }));
        assert_eq!(Rate::LineRate.asked(&sizes(60, 60)), None);
    }

    #[test]
    fn a_ramp_asks_for_the_frames_until_its_end() {
        let asked = Rate::Ramp(crate::units::ramp("1k..3k/2s/3").unwrap()).asked(&sizes(60, 60)).unwrap();
        assert_eq!((asked.pps, asked.due(2_000_000_000)), (2000.0, 4000.0));
        assert!(
            !asked.is_missed(1330, 1_000_000_000 * 2 / 3 * 2) || asked.reached(1330, 1_000_000_000) < 1.0
        );
    }

    #[test]
    fn mixed_lengths_count_with_their_mean() {
        let gigabit = Rate::BitRate(BitRate(1_000_000_000));
        assert_eq!(gigabit.interval_ps(&sizes(60, 62)), 85 * 8 * 1000);
        let mut drawn = sizes(60, 63);
        drawn.flags.set(Flags::TXSIZE_RND, true);
        assert_eq!(gigabit.interval_ps(&drawn), 85 * 8 * 1000);
        let entry = |size, weight| ImixEntry { size, weight };
        let mix = Config { imix: vec![entry(60, 3), entry(1514, 1)], ..sizes(60, 60) };
        assert_eq!(gigabit.interval_ps(&mix), (3 * 84 + 1538) * 8 * 1000 / 4);
    }
}
