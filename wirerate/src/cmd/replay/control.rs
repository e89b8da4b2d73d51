//! Pauses and changes of the speed of a replay by keys or the web page, and the list of them for
//! the report.

use super::args::{Args, Speed};
use crate::run_control::{NewRate, RunControl};
use crate::units::{human_bps, human_duration, human_pps};
use capture::control::SPEEDS;
use engine::{ReplayChange, ReplayControl, SPEED_ONE};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A pause, its end, or another speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpeedChange {
    /// Time of the change, since the first frame.
    pub elapsed_ns: u64,
    /// True if the run was paused from then on.
    pub paused: bool,
    /// The speed from then on; 1 is that of the arguments.
    pub speed: f64,
}

impl From<ReplayChange> for SpeedChange {
    fn from(change: ReplayChange) -> Self {
        let ReplayChange { elapsed_ns, is_paused, speed } = change;
        Self { elapsed_ns, paused: is_paused, speed: speed as f64 / SPEED_ONE as f64 }
    }
}

impl fmt::Display for SpeedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = human_duration(self.elapsed_ns);
        if self.paused {
            write!(f, "paused from {since} on")
        } else {
            write!(f, "speed {} from {since} on", self.speed)
        }
    }
}

/// What the times of a run are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReplayPace {
    /// None: as fast as possible.
    Top,
    /// Those of the file.
    File,
    /// A number of frames per second.
    FrameRate(f64),
    /// A number of bits per second on the wire.
    WireRate(f64),
}

impl ReplayPace {
    fn of(args: &Args) -> Self {
        match (args.pps, args.delay, args.rate) {
            _ if !args.is_timed() || args.speed == Some(Speed::Top) => Self::Top,
            (Some(pps), ..) => Self::FrameRate(pps.0 as f64),
            (_, Some(delay), _) => Self::FrameRate(1e9 / delay.0 as f64),
            (.., Some(rate)) => Self::WireRate(rate.0 as f64),
            _ => Self::File,
        }
    }

    /// The speed for a new rate, while it is `present`.
    fn speed(self, rate: NewRate, present: f64) -> Result<f64, &'static str> {
        match (self, rate) {
            (Self::Top, _) => Err("it sends as fast as possible"),
            (_, NewRate::Times(times)) => Ok(present * times),
            (Self::FrameRate(pps), NewRate::FramesPerSecond(new)) => Ok(new as f64 / pps),
            (Self::WireRate(bps), NewRate::WireBits(new)) => Ok(new as f64 / bps),
            (Self::File, _) => Err("it has the times of the file; change its speed by percent, such as +10%"),
            (Self::FrameRate(_), NewRate::WireBits(_)) => {
                Err("it has a rate of frames per second, such as 1.5M")
            }
            (Self::WireRate(_), NewRate::FramesPerSecond(_)) => {
                Err("it has a rate of bits on the wire, such as 2Gbit")
            }
        }
    }
}

/// The controls of a replay by keys, beside signals and `wirerate ctl`.
#[derive(Debug)]
pub struct KeyControl {
    control: Arc<ReplayControl>,
    pace: ReplayPace,
}

impl KeyControl {
    /// Of the run with these arguments.
    pub fn new(args: &Args, control: Arc<ReplayControl>) -> Self {
        Self { control, pace: ReplayPace::of(args) }
    }
}

impl RunControl for KeyControl {
    fn set_pause(&self, is_paused: bool) -> String {
        self.control.set_paused(is_paused);
        if is_paused { "paused".to_owned() } else { "sending goes on".to_owned() }
    }

    fn set_rate(&self, rate: NewRate) -> Result<String, String> {
        let one = SPEED_ONE as f64;
        let speed = self.pace.speed(rate, self.control.speed() as f64 / one)?;
        let millionths = (speed * one).round() as u64;
        if !SPEEDS.contains(&millionths) {
            let [min, max] = [SPEEDS.start(), SPEEDS.end()].map(|speed| *speed as f64 / one);
            return Err(format!("a replay has {min} to {max} times the speed of its arguments"));
        }
        self.control.set_speed(millionths);
        Ok(match self.pace {
            ReplayPace::FrameRate(pps) => human_pps(pps * speed),
            ReplayPace::WireRate(bps) => format!("{} on the wire", human_bps(bps * speed)),
            ReplayPace::File | ReplayPace::Top => format!("speed {speed:.3}"),
        })
    }

    fn is_paused(&self) -> bool {
        self.control.is_paused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(pace: ReplayPace) -> KeyControl {
        KeyControl { control: Arc::new(ReplayControl::new(Arc::default())), pace }
    }

    #[test]
    fn a_new_rate_is_a_speed_of_the_frames_that_are_left() {
        let paced = control(ReplayPace::FrameRate(1000.0));
        assert_eq!(paced.set_rate(NewRate::FramesPerSecond(2500)), Ok("2.500 kpps".to_owned()));
        assert_eq!(paced.control.speed(), 2_500_000);
        assert_eq!(paced.set_rate(NewRate::Times(0.5)), Ok("1.250 kpps".to_owned()));
        assert!(paced.set_rate(NewRate::WireBits(1)).unwrap_err().contains("frames per second"));
        assert!(paced.set_rate(NewRate::FramesPerSecond(2_000_000)).unwrap_err().contains("0.001 to 1000"));
        assert_eq!(paced.control.speed(), 1_250_000, "a rate that is refused changes nothing");
        let file = control(ReplayPace::File);
        assert_eq!(file.set_rate(NewRate::Times(1.1)), Ok("speed 1.100".to_owned()));
        assert!(file.set_rate(NewRate::FramesPerSecond(7)).unwrap_err().contains("by percent"));
        assert!(control(ReplayPace::Top).set_rate(NewRate::Times(1.1)).is_err());
    }

    #[test]
    fn changes_name_their_time() {
        let text = |is_paused, speed| {
            SpeedChange::from(ReplayChange { elapsed_ns: 1_500_000_000, is_paused, speed }).to_string()
        };
        assert_eq!(text(false, 1_100_000), "speed 1.1 from 1.500 s on");
        assert!(text(true, SPEED_ONE).starts_with("paused from 1.500 s"));
    }
}
