//! `wirerate exec -- CMD`: a command that finds pktgen's control files at `/proc/net/pktgen`.

use ctlfs::Tree;
use ctlfs::control::Control;
use ctlfs::exec::{Exec, ExecError};
use engine::{EngineError, EngineKind};
use program::advice;
use program::device_files::Captures;
use program::log;
use program::outcome::{Failure, Outcome};
use std::ffi::OsString;
use std::sync::Arc;

/// Arguments of `wirerate exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every script for the kernel's pktgen runs unchanged: the control files are at /proc/net/pktgen for \
CMD and its children, and `modprobe pktgen` succeeds. So does `ip mgcap start dev DEV`, which captures to \
/dev/mgcap/DEV. Nothing of it is seen outside, or remains. What a device sent is printed at the end \
when the script has not read it.

The control files exist as long as CMD runs. To type commands, keep a shell in it; another terminal joins it:

  wirerate exec --name lab -- bash
  wirerate exec --join lab -- sh -c 'echo stop > /proc/net/pktgen/pgctrl'

`wirerate serve` keeps them until it is stopped.

Exit code: that of CMD, 128 and the signal number when a signal ended it; 127 when there is no such \
command, 126 when it cannot be run.")]
pub struct Args {
    /// Network namespace of the command and its devices, as in `ip netns`
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Name of this run, for --join
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Run the command beside that of a running `exec`, with its control files: the name of the
    /// run, or a process inside
    #[arg(long, value_name = "NAME|PID", conflicts_with_all = ["netns", "name", "dry_run"])]
    join: Option<String>,
    /// Make every frame and send none
    #[arg(long)]
    dry_run: bool,
    /// Do not print the writes that are refused, which are printed with their reason
    #[arg(short, long, conflicts_with = "join")]
    quiet: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command and ends as it ends.
///
/// # Errors
/// When the control tree cannot be set up.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    log::to_stderr(log::Level::WARN, !args.quiet);
    let (program, rest) = args.command.split_first().expect("clap asks for one word at least");
    if let Some(target) = &args.join {
        return ctlfs::join(target, program, rest).map(Outcome::Status).or_else(fail);
    }
    let exec = Exec {
        netns: args.netns.clone(),
        name: args.name.clone(),
        program: program.clone(),
        args: rest.to_vec(),
    };
    let captures = Arc::new(Captures::default());
    let dry_run = args.dry_run;
    let build = move || -> Result<Arc<dyn Tree>, EngineError> {
        Ok(Arc::new(Control::here(dry_run.then_some(EngineKind::Mem), advice::for_engine_here, |_| {})?))
    };
    match ctlfs::exec::run_with(&exec, build, Some(captures)) {
        Ok(ended) => {
            ended.unread.iter().for_each(|line| program::note!("{line}"));
            Ok(Outcome::Status(ended.status))
        }
        Err(error) => fail(error),
    }
}

/// A name that is no process number and fits a mount table.
fn name(text: &str) -> Result<String, &'static str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.chars().all(is_plain) && text.chars().any(|letter| !letter.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("a name has letters, digits, `-`, `_` and `.`, and is not a number")
    }
}

/// A command that cannot be run is told apart by its exit code, as in a shell.
fn fail(error: ExecError) -> Result<Outcome, Failure> {
    let (status, advice) = (error.shell_status(), advice::for_exec(&error));
    let failure = match error {
        ExecError::Spawn { program, source } => {
            Failure::refused(format!("run {}", program.display()), source)
        }
        error @ (ExecError::NotRunning { .. } | ExecError::Join { .. }) => Failure::refused("join", error),
        error => Failure::refused("set up the control files for CMD", error),
    };
    let failure = advice.into_iter().fold(failure, Failure::try_this);
    match status {
        Some(status) => {
            eprint!("{failure}");
            Ok(Outcome::Status(status))
        }
        None => Err(failure),
    }
}
