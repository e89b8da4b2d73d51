//! Pauses and changes of the speed of a replay by keys or the web page, and the list of them for
//! the report.

use capture::control::SPEEDS;
use engine::{ReplayChange, ReplayControl, SPEED_ONE};
use facts::Described;
use program::run_control::{NewRate, RunControl};
use replay::TimingRule;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use units::{human_bps, human_duration, human_pps};

/// A pause, its end, or another speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
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

/// The speed for a new rate, while it is `present`.
fn speed_for(rule: TimingRule, rate: NewRate, present: f64) -> Result<f64, &'static str> {
    match (rule, rate) {
        (TimingRule::Top, _) => Err("it sends as fast as possible"),
        (_, NewRate::Times(times)) => Ok(present * times),
        (TimingRule::Original { .. }, _) => {
            Err("it has the times of the file; change its speed by percent, such as +10%")
        }
        (TimingRule::Rate { rate, .. }, NewRate::Of(new)) => match (rate.pps(), new.pps()) {
            (Some(pps), Some(new_pps)) => Ok(new_pps / pps),
            (None, None) => Ok(new.wire_bps().zip(rate.wire_bps()).map_or(1.0, |(new, old)| new / old)),
            (Some(_), None) => Err("it has a rate of frames per second, such as 1.5M"),
            (None, Some(_)) => Err("it has a rate of bits on the wire, such as 2Gbit"),
        },
    }
}

/// The controls of a replay by keys, beside signals and `wirerate ctl`.
#[derive(Debug)]
pub struct KeyControl {
    control: Arc<ReplayControl>,
    rule: TimingRule,
}

impl KeyControl {
    /// Of a run with this timing.
    pub fn new(rule: TimingRule, control: Arc<ReplayControl>) -> Self {
        Self { control, rule }
    }
}

impl RunControl for KeyControl {
    fn set_pause(&self, is_paused: bool) -> String {
        self.control.set_paused(is_paused);
        if is_paused { "paused".to_owned() } else { "sending goes on".to_owned() }
    }

    fn set_rate(&self, rate: NewRate) -> Result<String, String> {
        let one = SPEED_ONE as f64;
        let speed = speed_for(self.rule, rate, self.control.speed() as f64 / one)?;
        let millionths = (speed * one).round() as u64;
        if !SPEEDS.contains(&millionths) {
            let [min, max] = [SPEEDS.start(), SPEEDS.end()].map(|speed| *speed as f64 / one);
            return Err(format!("a replay has {min} to {max} times the speed of its arguments"));
        }
        self.control.set_speed(millionths);
        Ok(match self.rule {
            TimingRule::Rate { rate, .. } => match (rate.pps(), rate.wire_bps()) {
                (Some(pps), _) => human_pps(pps * speed),
                (None, bps) => format!("{} on the wire", human_bps(bps.unwrap_or(0.0) * speed)),
            },
            TimingRule::Original { .. } | TimingRule::Top => format!("speed {speed:.3}"),
        })
    }

    fn is_paused(&self) -> bool {
        self.control.is_paused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Arrivals, Rate};

    fn control(rule: TimingRule) -> KeyControl {
        KeyControl::new(rule, Arc::new(ReplayControl::new(Arc::default())))
    }

    #[test]
    fn a_new_rate_is_a_speed_of_the_frames_that_are_left() {
        let of = |rate: Option<Rate>| NewRate::Of(rate.unwrap());
        let rate = Rate::from_pps(1000).unwrap();
        let paced = control(TimingRule::Rate { rate, arrivals: Arrivals::Constant });
        assert_eq!(paced.set_rate(of(Rate::from_pps(2500))), Ok("2.500 kpps".to_owned()));
        assert_eq!(paced.control.speed(), 2_500_000);
        assert_eq!(paced.set_rate(NewRate::Times(0.5)), Ok("1.250 kpps".to_owned()));
        assert!(paced.set_rate(of(Rate::from_wire_bps(1))).unwrap_err().contains("frames per second"));
        assert!(paced.set_rate(of(Rate::from_pps(2_000_000))).unwrap_err().contains("0.001 to 1000"));
        assert_eq!(paced.control.speed(), 1_250_000, "a rate that is refused changes nothing");
        let file = control(TimingRule::Original { times: 1, per: 1 });
        assert_eq!(file.set_rate(NewRate::Times(1.1)), Ok("speed 1.100".to_owned()));
        assert!(file.set_rate(of(Rate::from_pps(7))).unwrap_err().contains("by percent"));
        assert!(control(TimingRule::Top).set_rate(NewRate::Times(1.1)).is_err());
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
