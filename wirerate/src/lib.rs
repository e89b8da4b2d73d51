//! The program: arguments, terminal, reports, signals, exit codes.
//!
//! Each subcommand has a file under `cmd`. What a subcommand wants from the person or owes them goes through
//! the rooms here: [`units`] reads and prints quantities, [`outcome`] turns errors into text and exit codes,
//! [`stop`] hears Ctrl-C, [`term`] shows progress, [`out`] writes the data. Bytes of a frame are unknown here.
#![forbid(unsafe_code)]

pub mod cmd;
#[cfg(test)]
mod golden;
pub mod log;
pub mod out;
pub mod outcome;
pub mod stop;
pub mod term;
pub mod units;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use outcome::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

/// Generates, captures and measures packets at the speed of the kernel.
#[derive(Debug, Parser)]
#[command(
    name = "wirerate",
    version,
    about,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 ran but the answer is no, 2 bad usage, 3 host or device refused."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: cmd::Command,
}

/// The argument parser, for help, man page and completion.
pub fn parser() -> clap::Command {
    Cli::command()
}

/// Runs the program with `args` (the first is its own name) and says how it ended.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ended = match Cli::try_parse_from(args) {
        Ok(cli) if cli.command.owns_signals() => cli.command.run(&stop::Stop::default()),
        Ok(cli) => stop::Stop::on_signals().map_err(Failure::from).and_then(|stop| cli.command.run(&stop)),
        Err(asked) => explain(&asked),
    };
    outcome::exit_code(ended)
}

/// Help and version are answers; everything else clap found is bad usage.
fn explain(asked: &clap::Error) -> Result<outcome::Outcome, Failure> {
    let text = asked.render().to_string();
    match asked.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            out::text(&text)?;
            Ok(outcome::Outcome::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(Failure::usage_text(text)),
        _ => Err(Failure::usage_text(text.replacen("error: ", "wirerate: ", 1))),
    }
}
