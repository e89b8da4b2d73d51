//! What the user wants, carried out on the run that sends.

use crate::run_control::{self, NewRate};
use crate::units::{BitRate, Pps};
use live::ScreenAction;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Commands that set the rates of their trials themselves.
const SELF_PACED: [&str; 2] = ["search", "rfc2544"];

/// Carries out `action` for `command`. Returns the line that says what was done.
pub(super) fn carry_out(action: &ScreenAction, command: &str) -> String {
    if *action == ScreenAction::Stop {
        // As Ctrl-C: a second one ends the program at once.
        return match kill(Pid::this(), Signal::SIGINT) {
            Ok(()) => "stopping".to_owned(),
            Err(why) => format!("cannot stop: {why}"),
        };
    }
    if SELF_PACED.contains(&command) {
        return format!("{command} sets the rates itself; s stops it");
    }
    let Some(control) = run_control::present() else {
        return "nothing is being sent here; space freezes the screen".to_owned();
    };
    let rate = match action {
        ScreenAction::TogglePause => return control.toggle_pause(),
        ScreenAction::ChangeRate(percent) => Ok(NewRate::Times(1.0 + f64::from(*percent) / 100.0)),
        ScreenAction::SetRate(text) => rate(text),
        ScreenAction::Stop => unreachable!("it has returned"),
    };
    rate.and_then(|rate| control.set_rate(rate)).unwrap_or_else(|why| why)
}

/// `1.5M` is a packet rate and `2Gbit` is a bit rate.
fn rate(text: &str) -> Result<NewRate, String> {
    match (text.trim().parse::<Pps>(), text.trim().parse::<BitRate>()) {
        (Ok(Pps(pps)), _) if pps > 0 => Ok(NewRate::FramesPerSecond(pps)),
        (Err(_), Ok(BitRate(bps))) if bps > 0 => Ok(NewRate::WireBits(bps)),
        _ => {
            Err(format!("\"{text}\" is not a rate, such as 1.5M (frames per second) or 2Gbit (on the wire)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_rate_is_one_of_frames_or_bits() {
        assert_eq!(rate("1.5M"), Ok(NewRate::FramesPerSecond(1_500_000)));
        assert_eq!(rate(" 2000 "), Ok(NewRate::FramesPerSecond(2000)));
        assert_eq!(rate("2Gbit"), Ok(NewRate::WireBits(2_000_000_000)));
        for wrong in ["", "0", "fast", "-1", "0Gbit"] {
            assert!(rate(wrong).unwrap_err().contains("is not a rate"), "{wrong}");
        }
    }

    #[test]
    fn a_command_without_a_sender_says_so() {
        assert!(carry_out(&ScreenAction::TogglePause, "capture").contains("nothing is being sent"));
        assert!(carry_out(&ScreenAction::ChangeRate(10), "search").contains("sets the rates itself"));
    }
}
