//! The subcommands: one enum, one file each.

pub mod capture;
pub mod completions;
pub mod demo;
pub mod help;
pub mod man;
pub mod send;

use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;

/// What wirerate can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Generate frames and send them on a device
    Send(Box<send::Args>),
    /// Capture the frames that a device receives
    Capture(capture::Args),
    /// Send ten million frames between devices made for it, capture them, and account for each
    Demo(demo::Args),
    /// Explain wirerate or one of its commands
    Help(help::Args),
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions(completions::Args),
    /// Print the manual page
    #[command(hide = true)]
    Man(man::Args),
}

impl Command {
    /// Does it. `stop` is set by Ctrl-C.
    ///
    /// # Errors
    /// What could not be done, ready to be printed.
    pub fn run(self, stop: &Stop) -> Result<Outcome, Failure> {
        match self {
            Self::Send(args) => send::run(&args, stop),
            Self::Capture(args) => capture::run(&args, stop),
            Self::Demo(args) => demo::run(&args, stop),
            Self::Help(args) => help::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
