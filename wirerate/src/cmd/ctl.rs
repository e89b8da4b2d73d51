//! `wirerate ctl DEV COMMAND`: commands to a running capture.

use crate::out;
use crate::outcome::{Failure, Outcome};
use capture::control::{self, Command, ControlError};
use host::Netns;

/// Arguments of `wirerate ctl`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device of the capture
    #[arg(value_name = "DEV")]
    pub device: String,
    /// `mode mirror`, `mode drop`, `stats` (one line of JSON, docs/json.md) or `stop`
    #[arg(value_name = "COMMAND", required = true)]
    pub command: Vec<String>,
    /// Network namespace of the device
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

/// Sends the command and prints the answer.
///
/// # Errors
/// Bad usage for an unknown command; refused if no capture runs there or if it rejects the command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let act = || format!("send `{}` to the capture on {}", args.command.join(" "), args.device);
    let command: Command = args.command.join(" ").parse().map_err(|why| Failure::usage(act(), why))?;
    let netns = args.netns.as_deref().map_or_else(Netns::current, Netns::named);
    let netns = netns.map_err(|why| Failure::host(act(), why))?;
    let answer = control::send(&netns, &args.device, command).map_err(|why| failure(args, act(), why))?;
    if !answer.is_empty() {
        out::text(&format!("{answer}\n"))?;
    }
    Ok(Outcome::Done)
}

fn failure(args: &Args, act: String, why: ControlError) -> Failure {
    let has_no_capture = matches!(why, ControlError::NoCapture { .. });
    let is_denied = matches!(why, ControlError::Denied { .. });
    let failure = Failure::refused(act, why);
    if is_denied {
        return failure.try_this("the same as root, or as the user who started the capture");
    }
    match &args.netns {
        _ if !has_no_capture => failure,
        None => failure.try_this("--netns NAME if the device is in another namespace"),
        Some(_) => failure.try_this(format!("ls {}", control::FOLDER)),
    }
}
