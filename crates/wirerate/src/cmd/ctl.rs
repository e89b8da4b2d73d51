//! `wirerate ctl DEV COMMAND`: commands to a running capture or replay.

use capture::control::{self, ControlCommand, ControlError};
use host::Netns;
use program::out;
use program::outcome::{Failure, Outcome};

/// Arguments of `wirerate ctl`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device of the capture or replay: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// To a capture: `mode mirror`, `mode drop`, `stats` (one line of JSON,
    /// docs/json.md), `rotate` (begin the next file now), `save` (of --keep), `stop`;
    /// to a replay: `pause`, `resume`, `speed X` (times the speed that it began with)
    #[arg(value_name = "COMMAND", required = true)]
    pub command: Vec<String>,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

/// Sends the command and prints the answer.
///
/// # Errors
/// Bad usage for an unknown command; refused if no capture runs there or if it rejects the command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let act = || format!("send `{}` to {}", args.command.join(" "), args.device);
    let command: ControlCommand =
        args.command.join(" ").parse().map_err(|why| reversed(args, Failure::usage(act(), why)))?;
    let netns = args.netns.as_deref().map_or_else(Netns::current, Netns::named);
    let netns = netns.map_err(|why| Failure::host(act(), why))?;
    let answer = control::send(&netns, &args.device, command);
    let answer = answer.map_err(|why| failure(args, act(), command, why))?;
    if !answer.is_empty() {
        out::text(&format!("{answer}\n"))?;
    }
    Ok(Outcome::Done)
}

/// `refused`, with the command to use if the device and the command changed places.
fn reversed(args: &Args, refused: Failure) -> Failure {
    let (device, words) = match &args.command[..] {
        [device] => (device, args.device.clone()),
        [value, device] if ["mode", "speed"].contains(&args.device.as_str()) => {
            (device, format!("{} {value}", args.device))
        }
        _ => return refused.try_this("wirerate ctl --help"),
    };
    let netns = args.netns.iter().map(|netns| format!(" --netns {netns}")).collect::<String>();
    match words.parse::<ControlCommand>() {
        Ok(_) => refused.try_this(format!("wirerate ctl {device} {words}{netns}")),
        Err(_) => refused.try_this("wirerate ctl --help"),
    }
}

fn failure(args: &Args, act: String, command: ControlCommand, why: ControlError) -> Failure {
    let is_not_running = matches!(why, ControlError::NotRunning { .. });
    let is_denied = matches!(why, ControlError::Denied { .. });
    let failure = Failure::refused(act, why);
    if is_denied {
        return failure.try_this("the same as root, or as the user who started it");
    }
    match &args.netns {
        _ if !is_not_running => failure,
        None => failure.try_this("--netns NAME if the device is in another namespace"),
        Some(_) => failure.try_this(format!("ls {}", command.target().folder().display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `wirerate ctl stats eth0` had no answer.
    #[test]
    fn a_device_behind_its_command_is_answered_with_the_line_to_use() {
        for (words, to_try) in [
            ("stats eth0", "wirerate ctl eth0 stats"),
            ("mode drop eth0", "wirerate ctl eth0 mode drop"),
            ("eth0 halt", "wirerate ctl --help"),
            ("pause eth0", "wirerate ctl eth0 pause"),
            ("speed 2 eth0", "wirerate ctl eth0 speed 2"),
            ("eth0 mode", "wirerate ctl --help"),
        ] {
            let mut words = words.split(' ').map(str::to_owned);
            let device = words.next().expect("a word");
            let args = Args { device, command: words.collect(), netns: None };
            let refused = run(&args).expect_err("no command").to_string();
            assert!(refused.ends_with(&format!("  try: {to_try}\n")), "{refused}");
        }
    }
}
