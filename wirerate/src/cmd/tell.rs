//! `wirerate tell DEV ORDER`: the other end of a running capture's socket.

use crate::out;
use crate::outcome::{Failure, Outcome};
use capture::control::{self, Command, ControlError};
use host::Netns;

/// Arguments of `wirerate tell`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device that is captured on
    #[arg(value_name = "DEV")]
    pub device: String,
    /// `mode mirror`, `mode drop`, `stats` (one line of JSON, docs/json.md) or `stop`
    #[arg(value_name = "ORDER", required = true)]
    pub order: Vec<String>,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

/// Tells, and prints the answer.
///
/// # Errors
/// Bad usage for what is no order; refused when no capture runs there, or when it does not do it.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let act = || format!("tell the capture on {} to {}", args.device, args.order.join(" "));
    let order: Command = args.order.join(" ").parse().map_err(|why| Failure::usage(act(), why))?;
    let netns = args.netns.as_deref().map_or_else(Netns::current, Netns::named);
    let netns = netns.map_err(|why| Failure::host(act(), why))?;
    let answer = control::send(&netns, &args.device, order).map_err(|why| failure(args, act(), why))?;
    if !answer.is_empty() {
        out::text(&format!("{answer}\n"))?;
    }
    Ok(Outcome::Done)
}

fn failure(args: &Args, act: String, why: ControlError) -> Failure {
    let is_nobody = matches!(why, ControlError::NoCapture { .. });
    let is_denied = matches!(why, ControlError::Denied { .. });
    let failure = Failure::refused(act, why);
    if is_denied {
        return failure.try_this("the same as root, or as the user who started the capture");
    }
    match &args.netns {
        _ if !is_nobody => failure,
        None => failure.try_this("--netns NAME, when the device is in a namespace of its own"),
        Some(_) => failure.try_this(format!("ls {}", control::FOLDER)),
    }
}
