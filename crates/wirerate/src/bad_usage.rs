//! Errors of the argument parser in wirerate's form: one line, and what to try.

use crate::completions::{device_of, named_netns};
use crate::other_tools;
use crate::path_words;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use program::outcome::Failure;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

/// The failure for arguments that clap rejects. `args` are those of the process.
pub fn explain(error: &clap::Error, args: &[OsString]) -> Failure {
    let command = command(args);
    let help = match &command {
        Some(command) => format!("wirerate {command} --help"),
        None => "wirerate --help".to_owned(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, command.as_deref().unwrap_or_default(), &help, args),
        ErrorKind::InvalidSubcommand => no_command(error, &help),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Failure::usage_text(error.render().to_string())
        }
        ErrorKind::MissingRequiredArgument if needs_file(error, command.as_deref()) => {
            without_file().try_this(format!("wirerate {} -w frames.pcapng", words(&args[1..]).join(" ")))
        }
        ErrorKind::MissingRequiredArgument if command.as_deref() == Some("replay") && lacks_names(error) => {
            let (why, name) = match args.get(2).and_then(|word| word.to_str()) {
                Some(file) if Path::new(file).is_file() => ("no device is named", format!("DEV {file}")),
                Some(device) if !device.starts_with('-') => ("no file is named", format!("{device} FILE")),
                _ => ("a device and a file must be given", "DEV FILE".to_owned()),
            };
            Failure::usage("run replay", why).try_this(format!("wirerate replay {name}"))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = contexts(error, ContextKind::InvalidArg).join(" and ");
            let act = command.map_or_else(|| "run wirerate".to_owned(), |command| format!("run {command}"));
            Failure::usage(act, format!("{missing} must be given")).try_this(help)
        }
        ErrorKind::ValueValidation if is_time_option_of_tcpdump(error) => {
            let option = format!("-t{}", context(error, ContextKind::InvalidValue));
            let print = format!("`wirerate capture DEV -w - | tcpdump -n {option} -r -`");
            Failure::usage(
                format!("print times ({option})"),
                "wirerate counts frames or writes them to a file",
            )
            .try_this(with_device(&print, args))
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
    crate::parser_of(&[]).find_subcommand(word).map(|found| found.get_name().to_owned())
}

/// Options about files were given without `--write`.
pub fn without_file() -> Failure {
    Failure::usage("write files", "options about files need the name of one")
}

/// True if options about files were given without `--write`.
fn needs_file(error: &clap::Error, command: Option<&str>) -> bool {
    let missing = contexts(error, ContextKind::InvalidArg);
    command == Some("capture") && missing.iter().any(|missing| missing.starts_with("--write"))
}

/// True if a word without an option is missing; otherwise an option lacks another one.
fn lacks_names(error: &clap::Error) -> bool {
    contexts(error, ContextKind::InvalidArg).iter().any(|missing| !missing.starts_with('-'))
}

fn words(args: &[OsString]) -> Vec<String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// `advice` with the device of the line, and its namespace, instead of `DEV`.
fn with_device(advice: &str, args: &[OsString]) -> String {
    let words = words(args);
    let Some(device) = device_of(&words) else { return advice.to_owned() };
    let (first, rest) = match advice.split_once(" DEV") {
        Some((first, rest)) if first.contains("wirerate ") => (first, rest),
        _ => return advice.replace("DEV", &device),
    };
    let netns = named_netns(&words).map(|netns| format!(" --netns {netns}")).unwrap_or_default();
    format!("{first} {device}{netns}{rest}")
}

/// The answer to devices without an option: `measure`, `search` and `rfc2544` have options for
/// them.
fn of_a_path(command: &str, word: &str, args: &[OsString]) -> Option<Failure> {
    if !path_words::COMMANDS.contains(&command) {
        return None;
    }
    let words = words(args);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if !word.starts_with('-') {
        let rx = words.iter().skip_while(|other| **other != word).nth(1).filter(|rx| !rx.starts_with('-'))?;
        let why = "the devices are named by options";
        let line = format!("wirerate {command} --tx {word} --rx {rx} --dst 198.18.0.2");
        return Some(Failure::usage(format!("use {word} with {command}"), why).try_this(line));
    }
    None
}

fn unknown(error: &clap::Error, command: &str, help: &str, args: &[OsString]) -> Failure {
    let word = context(error, ContextKind::InvalidArg);
    let with = if command.is_empty() { String::new() } else { format!(" with {command}") };
    let act = format!("use {word}{with}");
    if let Some(foreign_word) = other_tools::answer(command, &word) {
        let tries = foreign_word.tries.iter().map(|advice| with_device(advice, args));
        return tries.fold(Failure::usage(act, foreign_word.why), Failure::try_this);
    }
    if let Some(failure) = of_a_path(command, &word, args) {
        return failure;
    }
    if command == "receive" && !word.starts_with('-') {
        let why = "receive measures all frames with a signature, and has no filter";
        return Failure::usage(act, why).try_this(with_device("wirerate count DEV udp port 9", args));
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
    if let Some(tries) = other_tools::command_answer(&word) {
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
    let text = text.split("\n\n").filter(|part| !is_extra(part)).collect::<Vec<_>>().join("\n");
    in_plain_words(text.trim_end())
}

/// The parser's message without words of Rust: `5000 is not in 0..=4095`.
fn in_plain_words(message: &str) -> String {
    let range = |text: &str| {
        let (first, last) = text.split_once("..")?;
        let (last, is_end_in) = last.strip_prefix('=').map_or((last, false), |last| (last, true));
        let first = first.parse::<i128>().ok()?;
        match (last.parse::<i128>(), is_end_in) {
            (Ok(last), true) => Some(format!("from {first} to {last}")),
            (Ok(last), false) => Some(format!("from {first} to {}", last - 1)),
            (Err(_), _) if last.is_empty() => Some(format!("{first} or more")),
            (Err(_), _) => None,
        }
    };
    let words = message.split(' ').map(|word| range(word).unwrap_or_else(|| word.to_owned()));
    let text = words.collect::<Vec<_>>().join(" ").replace(" is not in from ", " is not from ");
    [
        ("invalid digit found in string", "it is not a whole number"),
        ("cannot parse integer from empty string", "it is not a whole number"),
        ("number too large to fit in target type", "the number is too large"),
    ]
    .into_iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_words_of_rust() {
        for (message, plain) in [
            ("invalid value: 5000 is not in 0..=4095", "invalid value: 5000 is not from 0 to 4095"),
            ("0 is not in 1..2147483648", "0 is not from 1 to 2147483647"),
            ("0 is not in 1..", "0 is not in 1 or more"),
            ("'x': invalid digit found in string", "'x': it is not a whole number"),
            ("1k..1M/30s and a..b stay", "1k..1M/30s and a..b stay"),
        ] {
            assert_eq!(in_plain_words(message), plain);
        }
    }

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
