//! What the user orders on a screen or a page, carried out on the run that sends.

use crate::console::Console;
use crate::run_control::{NewRate, RunControl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use packet::Rate;
use std::sync::Arc;
use units::{BitRate, FrameRate};

/// Commands that set the rates of their trials themselves.
const SELF_PACED: [&str; 2] = ["search", "rfc2544"];

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// Pause.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Pause, or go on after a pause.
    TogglePause,
    /// Send faster or slower by this many percent.
    ChangeRate(i32),
    /// Send at the rate that this text names.
    SetRate(String),
    /// End the run.
    Stop,
}

/// Carries out an order for `command`, which has this console. Returns the line that says what was
/// done.
///
/// # Errors
/// The line that says why it was not.
pub fn carry_out(order: &RunOrder, command: &str, console: &Console) -> Result<String, String> {
    let control = || control_of(command, console.control());
    match order {
        // As Ctrl-C: a second one ends the program at once.
        RunOrder::Stop => match kill(Pid::this(), Signal::SIGINT) {
            Ok(()) => Ok("stopping".to_owned()),
            Err(why) => Err(format!("cannot stop: {why}")),
        },
        RunOrder::Pause => Ok(control()?.set_pause(true)),
        RunOrder::Resume => Ok(control()?.set_pause(false)),
        RunOrder::TogglePause => {
            let control = control()?;
            Ok(control.set_pause(!control.is_paused()))
        }
        RunOrder::ChangeRate(percent) => control()?.set_rate(changed(*percent)),
        RunOrder::SetRate(text) => {
            let control = control()?;
            control.set_rate(rate(text)?)
        }
    }
}

/// True if an order can pause `command` and change its rate.
pub(crate) fn can_change_rate(command: &str, console: &Console) -> bool {
    control_of(command, console.control()).is_ok()
}

fn control_of(command: &str, present: Option<Arc<dyn RunControl>>) -> Result<Arc<dyn RunControl>, String> {
    if SELF_PACED.contains(&command) {
        return Err(format!("{command} sets the rates itself; it can be stopped"));
    }
    present.ok_or_else(|| "nothing is being sent here".to_owned())
}

fn changed(percent: i32) -> NewRate {
    NewRate::Times(1.0 + f64::from(percent) / 100.0)
}

/// `1.5M` is a packet rate, `2Gbit` is a bit rate, and `+10%` changes the present one.
fn rate(text: &str) -> Result<NewRate, String> {
    // Without a sign, a percentage could mean one of the present rate.
    let percent = text.trim().strip_suffix('%').filter(|percent| percent.starts_with(['+', '-']));
    let percent = percent.and_then(|percent| percent.parse::<i32>().ok());
    let given = match (text.trim().parse::<FrameRate>(), text.trim().parse::<BitRate>(), percent) {
        (.., Some(percent)) => (percent > -100).then(|| changed(percent)),
        (Ok(FrameRate(micropps)), ..) => Rate::from_micropps(micropps).map(NewRate::Of),
        (Err(_), Ok(BitRate(bps)), _) => Rate::from_wire_bps(bps).map(NewRate::Of),
        _ => None,
    };
    given.ok_or_else(|| {
        format!("\"{text}\" is not a rate, such as 1.5M (frames per second), 2Gbit (on the wire) or +10%")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_rate_is_one_of_frames_or_bits() {
        assert_eq!(rate("1.5M"), Ok(NewRate::Of(Rate::from_pps(1_500_000).unwrap())));
        assert_eq!(rate(" 2000 "), Ok(NewRate::Of(Rate::from_pps(2000).unwrap())));
        assert_eq!(rate("0.5"), Ok(NewRate::Of(Rate::from_micropps(500_000).unwrap())));
        assert_eq!(rate("2Gbit"), Ok(NewRate::Of(Rate::from_wire_bps(2_000_000_000).unwrap())));
        assert_eq!(rate("+50%"), Ok(NewRate::Times(1.5)));
        assert_eq!(rate("-50%"), Ok(NewRate::Times(0.5)));
        for wrong in ["", "0", "fast", "-1", "0Gbit", "-100%", "%", "50%"] {
            assert!(rate(wrong).unwrap_err().contains("is not a rate"), "{wrong}");
        }
    }

    #[test]
    fn a_command_without_a_sender_says_so() {
        let why = |command| control_of(command, None).err().expect("nothing is sent");
        assert!(why("capture").contains("nothing is being sent"));
        assert!(why("receive").contains("nothing is being sent"));
        assert!(why("search").contains("sets the rates itself"));
    }
}
