//! `wirerate completions SHELL`: the completion script of a shell, made from the argument parser.

use crate::out;
use crate::outcome::{Failure, Outcome};
use clap_complete::Shell;

/// Arguments of `wirerate completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell to write for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When stdout is closed.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::parser(), "wirerate", &mut script);
    out::text(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
