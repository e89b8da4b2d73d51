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
        ErrorKind::MissingRequiredArgument => {
            let missing = contexts(error, ContextKind::InvalidArg).join(" and ");
            let act = command.map_or_else(|| "run wirerate".to_owned(), |command| format!("run {command}"));
            Failure::usage(act, format!("{missing} must be given")).try_this(help)
        }
        ErrorKind::ValueValidation if is_time_option_of_tcpdump(error) => {
            Failure::usage("print times (-tt)", "wirerate counts frames or writes them to a file")
                .try_this("`wirerate capture eth0 -w - | tcpdump -n -tttt -r -`")
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
        _ if command == "send" && word.parse::<IpAddr>().is_ok() => failure.try_this(format!("--dst {word}")),
        similar if is_similar(&word, &similar) => {
            failure.try_this(format!("{similar} (or `{help}` for all options)"))
        }
        _ => failure.try_this(help),
    }
}

/// True if `word` is probably `option` with a slip of the finger. clap's measure is looser: it
/// takes `--dscp` for `--udp`.
fn is_similar(word: &str, option: &str) -> bool {
    let [word, option] = [word, option].map(|text| text.trim_start_matches('-'));
    let is_start = word.len().min(option.len()) > 2 && (word.starts_with(option) || option.starts_with(word));
    !option.is_empty() && (is_start || edits(word, option) <= (word.len() / 3).max(1))
}

/// The number of letters to insert, delete, replace or swap with their neighbour to turn `from`
/// into `to`.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(letter != other);
            let is_swap = i > 0 && j > 0 && from[i - 1] == *other && to[j - 1] == *letter;
            let swapped = if is_swap { rows[i - 1][j - 1] + 1 } else { replaced };
            row.push(replaced.min(swapped).min(rows[i][j + 1] + 1).min(row[j] + 1));
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

fn no_command(error: &clap::Error, help: &str) -> Failure {
    let word = context(error, ContextKind::InvalidSubcommand);
    let failure = Failure::usage(format!("run {word:?}"), "there is no such command");
    if let Some(tries) = habits::command_answer(&word) {
        return tries.iter().fold(failure, Failure::try_this);
    }
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

/// `-tttt`, as tcpdump's users write it: `-t` takes a time here.
fn is_time_option_of_tcpdump(error: &clap::Error) -> bool {
    let value = context(error, ContextKind::InvalidValue);
    context(error, ContextKind::InvalidArg).starts_with("--duration")
        && !value.is_empty()
        && value.chars().all(|letter| letter == 't')
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    contexts(error, kind).into_iter().next().unwrap_or_default()
}

fn contexts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `--dscp` was answered with `--udp`, and `--syn` with `--json`.
    #[test]
    fn only_slips_of_the_finger_are_similar() {
        for (word, option) in
            [("--rat", "--rate"), ("--dts", "--dst"), ("--ratep", "--rate"), ("--xmit", "--xmit-mode")]
        {
            assert!(is_similar(word, option), "{word} {option}");
        }
        for (word, option) in [
            ("--dscp", "--udp"),
            ("--syn", "--json"),
            ("--file", "--flow-len"),
            ("--frame", "--rate"),
            ("-Z", ""),
        ] {
            assert!(!is_similar(word, option), "{word} {option}");
        }
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }
}
