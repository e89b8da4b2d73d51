//! The binary: arguments and commands.
//!
//! Each subcommand of the core has a module under `cmd`. Those of groups are in the crates
//! `export`, `fleets`, `mgcap`, `ports` and `trials`. `cmd` lists all. What several commands use is
//! in the modules here and in the crates `program`, `options`, `capture-files`, `sender`,
//! `receiver`, `connections` and `doctor`: [`other_tools`] and [`bad_usage`] answer words that no
//! command has, [`edit_args`] are the options that edit packets, [`path_words`] sorts the options
//! of commands that take those of `send` as well, and [`deferred`] leaves out the options of the
//! commands that a run does not need.
//!
//! Features of cargo leave groups of commands out: `cmd` has them. A build with less has code that
//! only the commands left out use.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "the groups that use it are left out"))]

pub mod bad_usage;
pub mod cmd;
pub mod completions;
pub mod deferred;
pub mod device_patterns;
pub mod edit_args;
pub mod json_error;
pub mod other_tools;
pub mod path_words;
pub mod rx_args;
pub mod short_help;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use program::outcome::{self, Failure};
use program::{groups, out, signal_counts, stop};
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
    let mut parser = Cli::command();
    parser.build();
    parser
}

/// The argument parser, with the options of these commands only.
fn parser_of(commands: &[&str]) -> clap::Command {
    let mut parser = Cli::command();
    for name in commands {
        if let Some(command) = parser.find_subcommand_mut(name) {
            command.build();
        }
    }
    parser
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
    let parsed = Cli::try_parse_from(&args);
    if parsed.as_ref().is_ok_and(|cli| cli.command.is_frugal()) {
        host::share_one_arena();
    }
    let ended = match parsed {
        Ok(cli) if cli.command.owns_signals() => cli.command.run(&stop::Stop::default()),
        Ok(cli) => stop::Stop::on_signals_of(cli.command.becomes_other_user())
            .and_then(|stop| {
                let (prints, keeps_rights) = (cli.command.prints_counts(), cli.command.becomes_other_user());
                signal_counts::start(stop.console(), prints, keeps_rights).map(|()| stop)
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use program::groups::{GROUPS, left_out_command};

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

    /// A command that takes any value for its options and arguments.
    fn lenient(command: &clap::Command) -> clap::Command {
        command.clone().mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.value_parser(clap::builder::ValueParser::os_string()),
            false => arg,
        })
    }

    /// What the parser says of these options of a command, with each argument that must be there.
    fn answer(command: &clap::Command, options: &[&clap::Arg]) -> Result<(), clap::Error> {
        let mut words = vec![OsString::from("it")];
        for option in options {
            let name = option.get_long().expect("a long name");
            let takes_value = option.get_action().takes_values();
            words.push(if takes_value { format!("--{name}=1").into() } else { format!("--{name}").into() });
        }
        let needed = command.get_positionals().filter(|arg| arg.is_required_set());
        words.extend(needed.map(|_| OsString::from("x")));
        command.clone().try_get_matches_from(words).map(drop)
    }

    /// True if the parser says that `option` needs `other`.
    fn needs(command: &clap::Command, option: &clap::Arg, other: &clap::Arg) -> bool {
        let Err(error) = answer(command, &[option]) else { return false };
        let name = format!("--{}", other.get_long().expect("a long name"));
        match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(needed)) if error.kind() == ErrorKind::MissingRequiredArgument => {
                needed.iter().any(|needed| needed.split([' ', '=', '[']).next() == Some(&name))
            }
            _ => false,
        }
    }

    /// The parser of the command line does not miss an option that another one needs if a third one
    /// excludes it: the first one would be ignored.
    #[test]
    fn no_option_is_taken_without_the_one_it_needs() {
        let mut ignored = Vec::new();
        for command in parser().get_subcommands().map(lenient) {
            let is_ours =
                |arg: &&clap::Arg| arg.get_long().is_some_and(|name| !["help", "version"].contains(&name));
            let options: Vec<&clap::Arg> = command.get_arguments().filter(is_ours).collect();
            for option in &options {
                for needed in options.iter().filter(|other| needs(&command, option, other)) {
                    let is_missed = |third: &&&clap::Arg| {
                        let is_other = ![option.get_id(), needed.get_id()].contains(&third.get_id());
                        is_other
                            && answer(&command, &[needed, third])
                                .is_err_and(|error| error.kind() == ErrorKind::ArgumentConflict)
                            && answer(&command, &[option, third]).is_ok()
                    };
                    let thirds: Vec<_> =
                        options.iter().filter(is_missed).map(|third| third.get_id().as_str()).collect();
                    if !thirds.is_empty() {
                        let [option, needed] = [option, needed].map(|arg| arg.get_id().as_str());
                        let command = command.get_name();
                        ignored.push(format!("{command}: {option} needs {needed}, which {thirds:?} exclude"));
                    }
                }
            }
        }
        assert!(ignored.is_empty(), "{ignored:#?}");
    }

    #[test]
    fn a_build_knows_which_commands_it_leaves_out() {
        let known: Vec<String> =
            crate::parser().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for (_, _, is_there, commands) in GROUPS {
            for command in commands {
                let args = ["wirerate", command, "--json"].map(OsString::from);
                assert_eq!(known.iter().any(|name| name == command), is_there, "{command}");
                assert_eq!(left_out_command(&args).is_none(), is_there, "{command}");
            }
        }
        assert!(left_out_command(&["wirerate", "send", "eth0"].map(OsString::from)).is_none());
        assert!(left_out_command(&[OsString::from("wirerate")]).is_none());
        let failure = left_out_command(&["wirerate", "bench", "--full"].map(OsString::from));
        assert!(failure.is_some_and(|failure| failure.to_string().contains("wirerate-bench")));
    }
}
