//! The program: arguments, terminal, reports, signals, exit codes.
//!
//! Each subcommand has a module under `cmd`. They share the modules here: [`units`] parses and
//! prints quantities, [`other_tools`] and [`bad_usage`] answer words that no command has,
//! [`outcome`] turns errors into text and exit codes, [`capture_files`] reads pcap and pcapng
//! files, [`edit_args`] are the options that edit their packets, [`stop`] handles Ctrl-C,
//! [`signal_counts`] SIGUSR1 and SIGUSR2, [`term`] shows progress, [`out`] writes the data,
//! [`row_printer`] prints a line of numbers per second, [`monitor`] serves the counters, [`tui`]
//! shows them on a full screen, [`web`] on a page, [`events`] holds the rows for programs that
//! follow a command, [`expectations`] splits the checks of `--expect`, [`run_control`] and
//! [`run_orders`] change a run that sends, [`start_at`] is the time that a run may have to start
//! at, [`groups`] are the commands that a build may leave out, `hub_access` connects to the hub of
//! a fleet, [`path_words`] sorts the options of commands that take those of `send` as well,
//! [`waiting_read`] reads inputs that may have to be waited for, `advice` has what to try about
//! errors of the other crates.
//!
//! Features of cargo leave groups of commands out: the modules below and `cmd` have them. A build
//! with less has code that only the commands left out use.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "the groups that use it are left out"))]

pub mod active_window;
mod advice;
pub mod bad_usage;
pub mod capture_files;
pub mod cmd;
pub mod completions;
pub mod connection_args;
pub mod connections;
pub mod device_patterns;
pub mod doctor;
pub mod edit_args;
pub mod events;
pub mod expectations;
#[cfg(feature = "fleet")]
pub mod fleets;
pub mod groups;
#[cfg_attr(not(feature = "otg"), path = "no_hub.rs")]
mod hub_access;
pub mod json_error;
pub mod log;
pub mod mgcap;
pub mod monitor;
pub mod other_tools;
pub mod out;
pub mod outcome;
pub mod path_words;
#[cfg(feature = "otg")]
pub mod ports;
pub mod rate_options;
pub mod raw_terminal;
pub mod receiver;
pub mod row_printer;
pub mod run_control;
pub mod run_orders;
pub mod runs;
pub mod rx_args;
pub mod rx_stats;
pub mod seed;
pub mod sender;
mod shell;
pub mod short_help;
pub mod signal_counts;
pub mod start_at;
pub mod stop;
pub mod term;
#[cfg(feature = "report")]
pub mod trials;
#[cfg(feature = "live")]
pub mod tui;
pub mod units;
pub mod waiting_read;
#[cfg(feature = "live")]
pub mod web;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use outcome::Failure;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// Generates, captures and measures packets at the speed of the kernel.
#[derive(Debug, Parser)]
#[command(
    name = "wirerate",
    version,
    long_version = concat!(
        env!("CARGO_PKG_VERSION"), "
profile ", env!("WIRERATE_PROFILE"), "
features ", env!("WIRERATE_FEATURES")
    ),
    about,
    max_term_width = 100,
    disable_help_subcommand = true,
    args_override_self = true,
    after_help = "Exit codes: 0 success; 1 completed with loss, a missed rate or a failed check, or stopped before its \
                  end; 2 usage error; 3 refused by the host or the device."
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

/// Names under which the program is one of its commands: `make install` makes links of these names
/// to it.
pub const SMALL_NAMES: [&str; 5] = ["mgdump", "mgcap", "mgcap_hwtstamp_config", "trafgen", "tcpreplay"];

/// The arguments as they would be without the small name that the program was called by.
fn spelled_out(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let called = args.first().and_then(|name| Path::new(name).file_name()).map(OsStr::to_owned);
    if let Some(called) = called.filter(|called| SMALL_NAMES.iter().any(|name| *name == called)) {
        args.splice(..1, [OsString::from("wirerate"), called]);
    }
    args
}

/// Runs the program with `args` (the first is its own name) and says how it ended.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = other_tools::translated(spelled_out(args));
    let ended = match Cli::try_parse_from(&args) {
        Ok(cli) if cli.command.owns_signals() => cli.command.run(&stop::Stop::default()),
        Ok(cli) => stop::Stop::on_signals_of(cli.command.becomes_other_user())
            .and_then(|stop| {
                let (prints, keeps_rights) = (cli.command.prints_counts(), cli.command.becomes_other_user());
                signal_counts::start(prints, keeps_rights).map(|()| stop)
            })
            .map_err(Failure::from)
            .and_then(|stop| cli.command.run(&stop)),
        Err(asked) => explain(&asked, &args),
    };
    outcome::print_failure(&ended);
    let code = outcome::code(&ended);
    if let Some(failure) = ended.as_ref().err().filter(|_| code != 0) {
        json_error::print(failure, code, &args);
    }
    ExitCode::from(code)
}

/// Help and version are answers; everything else clap found is bad usage.
fn explain(asked: &clap::Error, args: &[OsString]) -> Result<outcome::Outcome, Failure> {
    match asked.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let page = short_help::page(args).unwrap_or_else(|| asked.render().to_string());
            out::text(&page)?;
            Ok(outcome::Outcome::Done)
        }
        _ => Err(groups::left_out_command(args).unwrap_or_else(|| bad_usage::explain(asked, args))),
    }
}

/// Arguments of a command, from the words behind its name.
#[cfg(test)]
pub(crate) fn args_of<A: clap::Args>(words: &str) -> Result<A, clap::Error> {
    let words = ["wirerate"].into_iter().chain(words.split_whitespace());
    A::from_arg_matches(&A::augment_args(clap::Command::new("wirerate")).try_get_matches_from(words)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_names_are_commands() {
        let spelled = |words: &str| {
            let words = words.split(' ').map(OsString::from);
            spelled_out(words).join(OsStr::new(" ")).into_string().expect("plain words")
        };
        for (called, meant) in [
            ("mgdump lo", "wirerate mgdump lo"),
            ("/usr/local/bin/mgcap start dev lo", "wirerate mgcap start dev lo"),
            ("./mgcap_hwtstamp_config eth1 1", "wirerate mgcap_hwtstamp_config eth1 1"),
            ("/usr/bin/wirerate mgdump lo", "/usr/bin/wirerate mgdump lo"),
            ("tcpreplay -i lo a.pcap", "wirerate tcpreplay -i lo a.pcap"),
            ("mgdump2 lo", "mgdump2 lo"),
            ("trafgen -i a.cfg", "wirerate trafgen -i a.cfg"),
        ] {
            assert_eq!(spelled(called), meant);
        }
        for name in SMALL_NAMES {
            assert!(parser().find_subcommand(name).is_some(), "{name}");
        }
    }
}
