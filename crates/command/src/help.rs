//! The tables as text: for `wirerate help commands`, the man page and shell completion.

use crate::{COMMANDS, FLAGS, FileKind, Spec};
use std::fmt::Write;

/// Column at which explanations begin.
const HELP_COLUMN: usize = 32;
const SECTIONS: [(FileKind, &str); 3] = [
    (FileKind::Pgctrl, "Control commands (file pgctrl)"),
    (FileKind::Thread, "Thread commands (files kpktgend_N)"),
    (FileKind::Device, "Device commands (files DEV[@NAME])"),
];
const FLAGS_TITLE: &str = "Flags (flag NAME, flag !NAME)";

fn commands(place: FileKind) -> impl Iterator<Item = &'static Spec> {
    COMMANDS.iter().filter(move |spec| spec.place == place)
}

fn usage(spec: &Spec) -> String {
    [spec.word, spec.takes.placeholder()].join(" ").trim_end().to_owned()
}

fn explained(help: &str, others: &[&str]) -> String {
    if others.is_empty() { help.to_owned() } else { format!("{help} (also: {})", others.join(", ")) }
}

fn flag_others(spec: &crate::FlagSpec) -> String {
    let opposite = spec.opposite.map_or(String::new(), |name| format!("; {name} is its opposite"));
    explained(&format!("{}{opposite}", spec.help), spec.aliases)
}

/// Each section with its (usage, explanation) pairs.
fn sections() -> Vec<(&'static str, Vec<(String, String)>)> {
    let row = |spec: &Spec| (usage(spec), explained(spec.help, spec.aliases));
    let mut all: Vec<_> = SECTIONS
        .iter()
        .map(|(place, title)| (*title, commands(*place).map(row).collect::<Vec<_>>()))
        .collect();
    all.push((FLAGS_TITLE, FLAGS.iter().map(|spec| (spec.name.to_owned(), flag_others(spec))).collect()));
    all
}

/// All commands and flags, for a terminal.
pub fn commands_text() -> String {
    let mut text = String::new();
    for (title, rows) in sections() {
        if !text.is_empty() {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}:");
        for (usage, help) in rows {
            let _ = writeln!(text, "  {usage:<width$}{help}", width = HELP_COLUMN - 2);
        }
    }
    text
}

/// All commands and flags as subsections of a man page.
pub fn commands_roff() -> String {
    let quoted = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let mut text = String::new();
    for (title, rows) in sections() {
        let _ = writeln!(text, ".SS {}", quoted(title));
        for (usage, help) in rows {
            // `\&` keeps a line from being read as a request, should it ever begin with a dot.
            let _ = writeln!(text, ".TP\n.B {}\n\\&{}", quoted(&usage), quoted(&help));
        }
    }
    text
}

/// The words of device files, aliases included.
pub fn device_words() -> impl Iterator<Item = &'static str> {
    commands(FileKind::Device).flat_map(|spec| std::iter::once(spec.word).chain(spec.aliases.iter().copied()))
}

/// The words that `flag` takes, without the `!` forms.
pub fn flag_words() -> impl Iterator<Item = &'static str> {
    FLAGS
        .iter()
        .flat_map(|spec| std::iter::once(spec.name).chain(spec.opposite).chain(spec.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Facts};

    #[test]
    fn every_word_is_in_both_texts() {
        let (text, roff) = (commands_text(), commands_roff());
        for word in COMMANDS.iter().map(|spec| spec.word).chain(FLAGS.iter().map(|spec| spec.name)) {
            assert!(text.contains(&format!("\n  {word}")), "{word}");
            assert!(roff.contains(&format!("\n.B {word}")), "{word}");
        }
        assert!(
            text.contains("  dst_min IPV4                  first or only IPv4 destination (also: dst)\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 132), "{text}");
        assert!(text.contains("FLOW_RND is its opposite"));
    }

    #[test]
    fn completions_are_taken_by_the_parser() {
        let facts = Facts::default();
        let mut device = Device::new("eth0");
        for word in flag_words().filter(|word| *word != "IPV6") {
            device.write(format!("flag {word}").as_bytes(), &facts).unwrap();
            assert!(device.is_ok(), "{word}");
        }
        for word in ["start_xmit", "queue_xmit", "netif_receive"] {
            device.write(format!("xmit_mode {word}").as_bytes(), &facts).unwrap();
            assert!(device.is_ok(), "{word}");
        }
        assert!(device_words().any(|word| word == "dstmac"));
    }
}
