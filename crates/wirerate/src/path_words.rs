//! Options of `send` among those of `measure`, `search` and `rfc2544`, which take both; and those
//! of `connect` among those of `search --connections`.
//!
//! The parsers of these commands have the other options behind `--`. So the words are sorted before
//! they are parsed. Where both have an option of one name, it is that of the command.

use clap::{Arg, Command};
use std::ffi::{OsStr, OsString};

/// Commands that send on a path between two devices.
pub const COMMANDS: [&str; 3] = ["measure", "search", "rfc2544"];
/// Options of both that are those of `send`: `measure` tells its receiver their value.
const OF_SEND: [(&str, &str); 1] = [("measure", "flows")];

/// The option of `search` that takes the options of `connect` instead of those of `send`.
const CONNECTIONS: &str = "--connections";

/// `args` with the options of `send` (or `connect`) behind `--`. The first two words are the names
/// of the program and of the command.
pub fn sorted(args: Vec<OsString>) -> Vec<OsString> {
    let Some(name) = args.get(1).and_then(|name| name.to_str()).filter(|name| COMMANDS.contains(name)) else {
        return args;
    };
    let is_connections =
        |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some(CONNECTIONS));
    let other = if name == "search" && args.iter().any(is_connections) { "connect" } else { "send" };
    let parser = crate::parser_of(&[name, other]);
    let (Some(own), Some(send)) = (parser.find_subcommand(name), parser.find_subcommand(other)) else {
        return args;
    };
    let end = args.iter().position(|word| word == "--").unwrap_or(args.len());
    let (mut kept, mut moved) = (args[..2].to_vec(), Vec::new());
    let mut words = args[2..end].iter();
    while let Some(word) = words.next() {
        let is_own = |arg: &&Arg| arg.get_long().is_none_or(|long| !OF_SEND.contains(&(name, long)));
        let (found, to) = match option(own, word).filter(is_own) {
            Some(found) => (Some(found), &mut kept),
            None => match option(send, word) {
                Some(found) => (Some(found), &mut moved),
                None => (None, &mut kept),
            },
        };
        to.push(word.clone());
        if found.is_some_and(|found| takes_next_word(found, word)) {
            to.extend(words.next().cloned());
        }
    }
    moved.extend(args.get(end + 1..).unwrap_or_default().iter().cloned());
    if !moved.is_empty() {
        kept.push("--".into());
    }
    kept.extend(moved);
    kept
}

/// The option of `command` that `word` begins with.
fn option<'a>(command: &'a Command, word: &OsStr) -> Option<&'a Arg> {
    let word = word.to_str()?;
    let is_it = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            let aliases = arg.get_all_aliases().unwrap_or_default();
            !name.is_empty() && (arg.get_long() == Some(name) || aliases.contains(&name))
        }
        None => {
            let short = word.strip_prefix('-').and_then(|letters| letters.chars().next());
            short.is_some() && arg.get_short() == short
        }
    };
    command.get_arguments().find(is_it)
}

/// True if the value of `option`, which `word` names, is the next word.
fn takes_next_word(option: &Arg, word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let is_joined = if word.starts_with("--") { word.contains('=') } else { word.chars().count() > 2 };
    option.get_action().takes_values() && !option.is_require_equals_set() && !is_joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_send_may_stand_anywhere() {
        for (words, expected) in [
            ("send e0 --dst 10.0.0.1", "send e0 --dst 10.0.0.1"),
            ("measure --tx a --rx b", "measure --tx a --rx b"),
            ("measure --tx a --rx b -- --dst 10.0.0.1", "measure --tx a --rx b -- --dst 10.0.0.1"),
            (
                "measure --dst 10.0.0.1 --tx a -c 5 --rx b -J -t 1s --expect lost=0",
                "measure --tx a --rx b -J --expect lost=0 -- --dst 10.0.0.1 -c 5 -t 1s",
            ),
            (
                "measure --tx a --rx b --allow-default-route -- --dst 10.0.0.2",
                "measure --tx a --rx b -- --allow-default-route --dst 10.0.0.2",
            ),
            (
                "measure --tx a --rx b --run 5 --flows 9 --dst=10.0.0.2 -c5 -p 80",
                "measure --tx a --rx b --run 5 -- --flows 9 --dst=10.0.0.2 -c5 -p 80",
            ),
            (
                "search --tx a --rx b -t 5m --flows 1,2 --dst 10.0.0.1 --quiet",
                "search --tx a --rx b -t 5m --flows 1,2 --quiet -- --dst 10.0.0.1",
            ),
            (
                "search --connections --src 10.0.1.0/24 --tx a --dst 10.0.0.1:80 --get / --quiet",
                "search --connections --tx a --quiet -- --src 10.0.1.0/24 --dst 10.0.0.1:80 --get /",
            ),
            (
                "search --tx a --connections=held --cps 5k --max-connections 9",
                "search --tx a --connections=held --max-connections 9 -- --cps 5k",
            ),
            ("rfc2544 --tcp --tx a --rx b --quick", "rfc2544 --tx a --rx b --quick -- --tcp"),
            ("measure --tx a --rx b --no-such 5", "measure --tx a --rx b --no-such 5"),
            ("measure a b --dst 10.0.0.1", "measure a b -- --dst 10.0.0.1"),
        ] {
            let split = |text: &str| {
                ["wirerate"].into_iter().chain(text.split(' ')).map(OsString::from).collect::<Vec<_>>()
            };
            assert_eq!(sorted(split(words)), split(expected), "{words}");
        }
    }
}
