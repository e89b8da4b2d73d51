//! `wirerate serve`: the control files on a directory, for everyone, until it is stopped.

use super::exec::plant;
use crate::log;
use crate::outcome::{Failure, Outcome};
use ctlfs::serve::{DEFAULT_MOUNT, Serve};
use std::path::PathBuf;

/// Arguments of `wirerate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs in the foreground and tells systemd when it is ready (Type=notify). SIGTERM ends all runs, lets \
writers have their answers, and unmounts.")]
pub struct Args {
    /// Where to mount the control files; made if it is missing
    #[arg(long, value_name = "DIR", default_value = DEFAULT_MOUNT)]
    mount: PathBuf,
    /// Network namespace of the devices, as in `ip netns`
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Make every frame and send none
    #[arg(long)]
    dry_run: bool,
}

/// Serves until a signal.
///
/// # Errors
/// When the directory is taken, cannot be mounted on, or is unmounted by somebody else.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    log::to_stderr(log::Level::INFO);
    let serve = Serve { mount: args.mount.clone(), netns: args.netns.clone() };
    ctlfs::serve::run(&serve, || plant(args.dry_run)).map(|()| Outcome::Done).map_err(|error| {
        let advice = error.advice();
        let failure = Failure::refused(format!("serve {}", args.mount.display()), error);
        advice.into_iter().fold(failure, Failure::try_this)
    })
}
