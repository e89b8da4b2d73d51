//! Errors of the argument parser in wirerate's form: one line, and what to try.

use crate::habits;
use crate::outcome::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::net::IpAddr;

/// The failure for arguments that clap rejects. `args` are those of the process.
pub fn explain(error: &clap::Error, args: &[OsString]) -> Failure {
    let command = command(args);
    let help = match &command {
        Some(command) => format!("wirerate {command} --help"),
        None => "wirerate --help".to_owned(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, command.as_deref().unwrap_or_default(), &help),
        ErrorKind::InvalidSubcommand => no_command(error, &help),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Failure::usage_text(error.render().to_string())
        }
        ErrorKind::ValueValidation if is_host_as_count(error) => {
            let host = context(error, ContextKind::InvalidValue);
            Failure::usage(format!("use -c {host}"), "-c is the number of frames, as in ping")
                .try_this(format!("--dst {host}"))
        }
        _ => Failure::usage_text(format!("wirerate: {}\n", message(error))).try_this(help),
    }
}

/// The command of a line, if it begins with one.
fn command(args: &[OsString]) -> Option<String> {
    let word = args.get(1)?.to_str()?;
    crate::parser().find_subcommand(word).map(|found| found.get_name().to_owned())
}

fn unknown(error: &clap::Error, command: &str, help: &str) -> Failure {
    let word = context(error, ContextKind::InvalidArg);
    let with = if command.is_empty() { String::new() } else { format!(" with {command}") };
    let act = format!("use {word}{with}");
    if let Some(habit) = habits::answer(command, &word) {
        return habit.tries.iter().fold(Failure::usage(act, habit.why), Failure::try_this);
    }
    let why = match word.starts_with('-') {
        true => "there is no such option",
        false => "only options follow here",
    };
    let failure = Failure::usage(act, why);
    match context(error, ContextKind::SuggestedArg) {
        similar if similar.is_empty() => failure.try_this(help),
        similar => failure.try_this(format!("{similar} (or `{help}` for all options)")),
    }
}

fn no_command(error: &clap::Error, help: &str) -> Failure {
    let word = context(error, ContextKind::InvalidSubcommand);
    let failure = Failure::usage(format!("run {word:?}"), "there is no such command");
    match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) if !similar.is_empty() => {
            similar.iter().fold(failure, |failure, name| failure.try_this(format!("wirerate {name} --help")))
        }
        _ => failure.try_this(help),
    }
}

/// `-c HOST`, as iperf3's users write it.
fn is_host_as_count(error: &clap::Error) -> bool {
    context(error, ContextKind::InvalidArg).starts_with("--count")
        && context(error, ContextKind::InvalidValue).parse::<IpAddr>().is_ok()
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// clap's message without the usage line, its tips and the hint at the help.
fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let is_extra = |part: &&str| {
        ["Usage:", "For more information", "  tip:"].iter().any(|start| part.starts_with(start))
    };
    text.split("\n\n").filter(|part| !is_extra(part)).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
