//! What can follow the words typed so far, found by walking the argument parser.

use clap::{Arg, Command, ValueHint};
use host::{Netns, Stack};

/// Commands whose frames have the options of `send`.
const TAKE_OPTIONS_OF_SEND: [&str; 3] = ["measure", "search", "rfc2544"];
/// Options of `send` that searches refuse (`refuse_own` of `trials`): each trial sets them.
const SET_BY_A_SEARCH: [&str; 10] = [
    "--count",
    "--duration",
    "--runs",
    "--rate",
    "--pps",
    "--delay",
    "--ramp",
    "--arrivals",
    "--dry-run",
    "--streams",
];

/// The candidates for the last of `words`; the first is the name of the program.
pub(super) fn of(parser: &Command, words: &[String]) -> Vec<String> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let place = CursorPosition::after(parser, before);
    let found = match (&place.option, typed.split_once('=')) {
        (Some(option), _) => values(option, &place, words),
        (None, Some((name, _))) if name.starts_with("--") => {
            let option = place.option_named(name);
            let values = option.map(|option| values(option, &place, words)).unwrap_or_default();
            values
                .into_iter()
                .map(|value| if value.starts_with(':') { value } else { format!("{name}={value}") })
                .collect()
        }
        _ if typed.starts_with('-') && place.has_options() => place.options(),
        _ => words_of(&place, words),
    };
    found.into_iter().filter(|word| word.starts_with(':') || word.starts_with(typed.as_str())).collect()
}

/// Where the next word stands.
struct CursorPosition<'a> {
    parser: &'a Command,
    command: &'a Command,
    /// The option whose value it is.
    option: Option<&'a Arg>,
    /// Positional words of the command so far, and the index of the first.
    positionals: usize,
    first_positional: usize,
    /// `--` has been typed.
    is_after_options: bool,
}

impl<'a> CursorPosition<'a> {
    fn after(parser: &'a Command, words: &[String]) -> Self {
        let mut place = Self {
            parser,
            command: parser,
            option: None,
            positionals: 0,
            first_positional: words.len(),
            is_after_options: false,
        };
        for (index, word) in words.iter().enumerate().skip(1) {
            place.step(index, word);
        }
        place
    }

    fn step(&mut self, index: usize, word: &str) {
        if self.option.take().is_some() {
            return;
        }
        if word == "--" && !self.is_after_options {
            self.is_after_options = true;
        } else if word.starts_with('-') && word.len() > 1 && self.has_options() && !self.is_trailing() {
            let option = self.option_named(word);
            self.option = option.filter(|option| takes_value(option) && !option.is_require_equals_set());
        } else if let Some(command) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = command;
        } else {
            if self.positionals == 0 {
                self.first_positional = index;
            }
            self.positionals += 1;
        }
    }

    /// The positional argument that the next word belongs to.
    fn positional(&self) -> Option<&'a Arg> {
        let mut all: Vec<_> = self.command.get_positionals().collect();
        all.sort_by_key(|arg| arg.get_index());
        let last = all
            .last()
            .copied()
            .filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
        all.get(self.positionals).copied().or(last)
    }

    /// `send`, if the command takes its options, too, also behind `--`.
    fn send(&self) -> Option<&'a Command> {
        let takes_them = TAKE_OPTIONS_OF_SEND.contains(&self.command.get_name());
        takes_them.then(|| self.parser.find_subcommand("send"))?
    }

    /// Words that begin with a dash are options.
    fn has_options(&self) -> bool {
        !self.is_after_options || self.send().is_some()
    }

    fn own(&self) -> Option<&'a Command> {
        (!self.is_after_options).then_some(self.command)
    }

    fn option_named(&self, word: &str) -> Option<&'a Arg> {
        self.own().into_iter().chain(self.send()).find_map(|command| option_named(command, word))
    }

    fn options(&self) -> Vec<String> {
        let own = self.own().map(options).unwrap_or_default();
        let of_send = self.send().map(options).unwrap_or_default();
        let name = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        let known: Vec<String> = own.iter().map(|line| name(line)).collect();
        let is_refused = |name: &str| self.command.get_name() != "measure" && SET_BY_A_SEARCH.contains(&name);
        let more = of_send.into_iter().filter(|line| {
            let name = name(line);
            !known.contains(&name) && !is_refused(&name)
        });
        own.into_iter().chain(more).collect()
    }

    /// All that follows belongs to a command of the user's.
    fn is_trailing(&self) -> bool {
        self.positionals > 0 && self.command.get_positionals().any(Arg::is_trailing_var_arg_set)
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.takes_values())
}

fn option_named<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => word
            .strip_prefix('-')
            .is_some_and(|short| arg.get_short().is_some_and(|own| short == own.to_string())),
    };
    command.get_arguments().find(is_it)
}

fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let long = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg)));
    long.map(|(word, arg)| with_help(&word, arg.get_help())).collect()
}

fn with_help(word: &str, help: Option<&clap::builder::StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    format!("{word}\t{}", help.lines().next().unwrap_or_default())
}

/// Subcommands, or values of the next positional argument.
fn words_of(place: &CursorPosition<'_>, words: &[String]) -> Vec<String> {
    if place.command.has_subcommands() {
        return subcommands(place.command);
    }
    match place.positional() {
        Some(arg) if arg.get_id() == "words" && place.command.get_name() == "mgcap" => orders(words),
        Some(arg) => values(arg, place, words),
        None => Vec::new(),
    }
}

fn subcommands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| with_help(command.get_name(), command.get_about())).collect()
}

/// `mgcap start dev DEV`: the device follows `dev`.
fn orders(words: &[String]) -> Vec<String> {
    let before = words.len().checked_sub(2).and_then(|index| words.get(index)).map_or("", String::as_str);
    let next: &[&str] = match before {
        "dev" => return devices(words),
        "start" | "stop" | "set" | "show" => &["dev"],
        "mode" => &["mirror", "drop"],
        "mgcap" => &["start", "stop", "set", "show", "help"],
        _ => &["mode"],
    };
    next.iter().map(ToString::to_string).collect()
}

fn values(arg: &Arg, place: &CursorPosition<'_>, words: &[String]) -> Vec<String> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| with_help(value.get_name(), value.get_help())).collect();
    }
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    match (place.command.get_name(), arg.get_id().as_str(), name) {
        (_, "netns", _) => Netns::names().unwrap_or_default(),
        ("help", "command", _) => with_root(subcommands)
            .into_iter()
            .chain(["commands\tThe commands of pktgen's control files".to_owned()])
            .collect(),
        ("help", "word", _) => pktgen_words(),
        ("man", "command", _) => with_root(subcommands),
        ("ctl", "command", _) => ctl_words(words),
        ("exec", "command", _) => vec![format!(":command {}", place.first_positional)],
        (_, _, name) if name.starts_with("DEV") => devices(words),
        (_, _, name) => hint(arg.get_value_hint(), name),
    }
}

fn ctl_words(words: &[String]) -> Vec<String> {
    let before = words.len().checked_sub(2).and_then(|index| words.get(index)).map_or("", String::as_str);
    let next: &[&str] = if before == "mode" { &["mirror", "drop"] } else { &["mode", "stats", "stop"] };
    next.iter().map(ToString::to_string).collect()
}

fn with_root(list: fn(&Command) -> Vec<String>) -> Vec<String> {
    list(&crate::parser())
}

fn pktgen_words() -> Vec<String> {
    let own = ["add_device", "rem_device_all", "start", "stop", "reset"].into_iter();
    let mut words: Vec<String> = own.chain(command::device_words()).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}

fn hint(hint: ValueHint, name: &str) -> Vec<String> {
    let own = match hint {
        ValueHint::DirPath => Some(":dirs"),
        ValueHint::FilePath | ValueHint::AnyPath => Some(":files"),
        _ if name == "DIR" => Some(":dirs"),
        _ if name.starts_with("FILE") || name.starts_with("CFG") => Some(":files"),
        _ => None,
    };
    own.into_iter().map(str::to_owned).collect()
}

/// The namespace that `--netns` names.
pub(crate) fn named_netns(words: &[String]) -> Option<&str> {
    let pairs = || words.iter().zip(words.iter().skip(1));
    let named = pairs().find(|(option, _)| *option == "--netns").map(|(_, name)| &**name);
    named.or_else(|| words.iter().find_map(|word| word.strip_prefix("--netns=")))
}

/// The device of a command line: the value of `-i`, or the first word that is no option.
pub(crate) fn device_of(words: &[String]) -> Option<String> {
    let parser = crate::parser();
    let is_interface = |option: &str| option == "-i" || option == "--interface";
    let named = words.iter().zip(words.iter().skip(1)).find(|(option, _)| is_interface(option));
    if let Some((_, device)) = named {
        return Some(device.clone());
    }
    let first = (2..=words.len()).find_map(|end| {
        let place = CursorPosition::after(&parser, &words[..end]);
        (place.positionals > 0).then_some(place.first_positional)
    })?;
    words.get(first).filter(|word| *word != "any").cloned()
}

/// The devices of the namespace that `--netns` names, or of this one. None where that is refused.
fn devices(words: &[String]) -> Vec<String> {
    let netns = match named_netns(words) {
        Some(name) => Netns::named(name),
        None => Netns::current(),
    };
    let links = netns.and_then(|netns| Stack::of(&netns)?.links()).unwrap_or_default();
    links.into_iter().map(|link| link.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let parser = crate::parser();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let word = |line: String| line.split('\t').next().unwrap_or_default().to_owned();
        of(&parser, &words).into_iter().map(word).collect()
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(complete("wirerate cap"), ["capture"]);
        assert_eq!(complete("wirerate help cap"), ["capture"]);
        assert_eq!(complete("wirerate help comm"), ["commands"]);
        assert_eq!(complete("wirerate help commands clone"), ["clone_skb"]);
        assert_eq!(complete("wirerate send lo --eng"), ["--engine"]);
        assert_eq!(complete("wirerate send lo --engine af_p"), ["af_packet"]);
        assert_eq!(complete("wirerate send --engine=sk"), ["--engine=skb"]);
        assert_eq!(complete("wirerate completions ba"), ["bash"]);
        let ports = ["--udp-dst", "--udp-src", "--udp-checksum"];
        assert_eq!(complete("wirerate measure --tx a --rx b --udp"), ports);
        assert_eq!(complete("wirerate measure --tx a --rx b -- --udp"), ports);
        assert_eq!(complete("wirerate measure --tx a --rx b -- --tx"), Vec::<String>::new());
        assert_eq!(complete("wirerate measure --tx a -- --engine af_p"), ["af_packet"]);
        assert_eq!(complete("wirerate ctl lo mode d"), ["drop"]);
        assert_eq!(complete("wirerate mgcap sta"), ["start"]);
    }

    #[test]
    fn the_device_of_a_line_is_found_among_its_words() {
        for (line, device) in [
            ("wirerate capture lab0 -Y udp", Some("lab0")),
            ("wirerate capture -w f.pcap --netns a lab0 udp", Some("lab0")),
            ("wirerate capture -i lab0 udp", Some("lab0")),
            ("wirerate send --count 5 lab0 -R", Some("lab0")),
            ("wirerate capture any -Y udp", None),
            ("wirerate capture -c 5", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(device_of(&words).as_deref(), device, "{line}");
        }
    }

    #[test]
    fn devices_are_those_of_this_namespace() {
        assert_eq!(complete("wirerate send lo"), ["lo"]);
        assert_eq!(complete("wirerate send --count 5 lo"), ["lo"]);
        assert_eq!(complete("wirerate mgcap start dev lo"), ["lo"]);
        assert_eq!(complete("wirerate send lo --count 5 lo"), Vec::<String>::new(), "there is one device");
    }

    #[test]
    fn files_and_commands_are_completed_by_the_shell() {
        assert_eq!(complete("wirerate capture lo -w x"), [":files"]);
        assert_eq!(complete("wirerate man --dir x"), [":dirs"]);
        assert_eq!(complete("wirerate exec -- ba"), [":command 3"]);
        assert_eq!(complete("wirerate exec --netns x -- bash -c"), [":command 5"]);
    }
}
