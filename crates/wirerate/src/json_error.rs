//! Errors of commands with `--json`: a line of JSON on standard output, beside the text on standard
//! error.

use facts::{Described, Document};
use program::out;
use program::outcome::Failure;
use serde::Serialize;
use std::ffi::OsString;

/// A command that could not run.
pub const ERROR: Document =
    Document::of::<ErrorLine<'static>>("wirerate.error/1", "A command that could not run, with --json");

/// What the line says.
#[derive(Debug, Serialize, Described)]
struct ErrorLine<'a> {
    /// What could not be done, such as `send on eth0`; `null` if the command line could not be
    /// read.
    what: Option<&'a str>,
    /// The reason.
    why: String,
    /// What to try.
    #[serde(rename = "try")]
    tries: &'a [String],
    /// Exit code of the command: 1 too late to start, 2 usage error, 3 refused by the host or the
    /// device.
    exit_code: u8,
}

/// Prints `failure` as a line of JSON, if `args` ask for JSON and the command has printed no
/// report. The line goes to standard error if standard output is that of the packets.
pub fn print(failure: &Failure, exit_code: u8, args: &[OsString]) {
    if failure.has_report() || !asks_for_json(args) {
        return;
    }
    let line = ErrorLine { what: failure.what(), why: failure.why(), tries: failure.tries(), exit_code };
    let line = out::json_line(&ERROR, &line);
    if writes_packets(args) {
        eprint!("{line}");
    } else {
        // Nothing is left to be done if it cannot be printed.
        let _ = out::text(&line);
    }
}

/// True if an option of the command in `args` asks for JSON.
fn asks_for_json(args: &[OsString]) -> bool {
    let Some(name) = args.get(1).and_then(|name| name.to_str()) else { return false };
    let parser = crate::parser_of(&[name]);
    let Some(command) = parser.find_subcommand(name) else { return false };
    let Some(json) = command.get_arguments().find(|option| option.get_id() == "json") else {
        // Commands below this one, such as `otg run`.
        return options(args).any(|word| word == "--json");
    };
    let is_flag = |letter: char| {
        let of_letter = |option: &&clap::Arg| option.get_short() == Some(letter);
        command.get_arguments().find(of_letter).is_some_and(|option| !option.get_action().takes_values())
    };
    options(args).any(|word| match (word.strip_prefix('-'), json.get_short()) {
        (Some("-json"), _) => true,
        (Some(letters), Some(short)) if !letters.starts_with('-') => {
            letters.chars().take_while(|letter| is_flag(*letter)).any(|letter| letter == short)
        }
        _ => false,
    })
}

/// True if packets or a data set go to standard output.
fn writes_packets(args: &[OsString]) -> bool {
    let words: Vec<&str> = options(args).collect();
    words.windows(2).any(|pair| ["-w", "--write", "-o", "--output"].contains(&pair[0]) && pair[1] == "-")
        || words.iter().any(|word| ["-w-", "--write=-", "-o-", "--output=-"].contains(word))
}

fn options(args: &[OsString]) -> impl Iterator<Item = &str> {
    args.iter().skip(2).filter_map(|word| word.to_str()).take_while(|word| *word != "--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_the_option_of_the_command() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "wirerate send eth0 --json",
            "wirerate send eth0 -J",
            "wirerate send eth0 -qJ -c 5",
            "wirerate otg run x.json --json",
        ] {
            assert!(asks_for_json(&words(line)), "{line}");
        }
        for line in [
            "wirerate send eth0",
            "wirerate send eth0 --payload --json=5",
            "wirerate trafgen -J -o eth0",
            "wirerate mgdump eth0 -- --json",
            "wirerate send eth0 -cJ",
            "wirerate",
        ] {
            assert!(!asks_for_json(&words(line)), "{line}");
        }
        assert!(writes_packets(&words("wirerate capture eth0 --json -w -")));
        assert!(writes_packets(&words("wirerate export a --json --to pcapng --output=-")));
        assert!(!writes_packets(&words("wirerate replay eth0 - --json --dry-run --write a")));
    }
}
