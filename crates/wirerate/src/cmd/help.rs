//! `wirerate help [COMMAND]`: the long help of a command, a page about a topic, or the words of the
//! control files.

use program::out;
use program::outcome::{Failure, Outcome};

/// Arguments of `wirerate help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command or topic to explain (topics: rate, frames, sizes, devices, engines); "commands"
    /// for the words that control files understand
    #[arg(value_name = "COMMAND|TOPIC")]
    pub command: Option<String>,
    /// With "commands": show only those that begin with this
    #[arg(value_name = "WORD")]
    pub word: Option<String>,
}

/// Topics that concern several commands, and their pages.
const TOPICS: [(&str, &str); 5] = [
    ("rate", include_str!("help_topics/rate.txt")),
    ("frames", include_str!("help_topics/frames.txt")),
    ("sizes", include_str!("help_topics/sizes.txt")),
    ("devices", include_str!("help_topics/devices.txt")),
    ("engines", include_str!("help_topics/engines.txt")),
];

/// Prints the help text.
///
/// # Errors
/// Bad usage when there is no such command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.command.as_deref() == Some("commands") {
        return commands(args.word.as_deref());
    }
    if let Some((_, page)) = TOPICS.iter().find(|(topic, _)| args.command.as_deref() == Some(topic)) {
        out::text(page)?;
        return Ok(Outcome::Done);
    }
    let mut parser = crate::parser();
    let about = match &args.command {
        None => &mut parser,
        Some(name) => parser.find_subcommand_mut(name).ok_or_else(|| {
            Failure::usage(format!("explain \"{name}\""), "there is no such command")
                .try_this("`wirerate help` lists the commands")
                .try_this("`wirerate help rate`, frames, sizes, devices or engines")
        })?,
    };
    out::text(&about.render_long_help().to_string())?;
    Ok(Outcome::Done)
}

/// The words of the control files: all of them, or those that begin with `word`.
fn commands(word: Option<&str>) -> Result<Outcome, Failure> {
    let text = command::commands_text();
    let Some(word) = word else {
        out::text(&text)?;
        return Ok(Outcome::Done);
    };
    let begins = |line: &&str| line.strip_prefix("  ").is_some_and(|line| line.starts_with(word));
    let is_alias = |line: &&str| line.contains(&format!("(also: {word}"));
    let lines: Vec<_> = text.lines().filter(|line| begins(line) || is_alias(line)).collect();
    if lines.is_empty() {
        return Err(Failure::usage(
            format!("explain \"{word}\""),
            "there is no such command of the control files",
        )
        .try_this("`wirerate help commands` lists them"));
    }
    out::text(&(lines.join("\n") + "\n"))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::TOPICS;
    use clap::Parser;
    use std::ffi::OsString;

    #[test]
    fn topics_fit_a_screen_and_their_examples_can_be_typed() {
        for (topic, page) in TOPICS {
            assert!(page.lines().count() <= 40, "{topic}");
            for line in page.lines() {
                assert!(line.chars().count() <= 85, "{topic}: {line}");
            }
            let examples: Vec<&str> =
                page.lines().filter_map(|line| line.strip_prefix("  wirerate ")).collect();
            assert!(examples.len() >= 3, "{topic}");
            for example in examples {
                let mut words = vec!["wirerate".to_owned()];
                for (index, part) in example.split('\'').enumerate() {
                    match index % 2 {
                        0 => words.extend(part.split_whitespace().map(str::to_owned)),
                        _ => words.push(part.to_owned()),
                    }
                }
                let words = crate::other_tools::translated(words.into_iter().map(OsString::from).collect());
                assert!(crate::Cli::try_parse_from(&words).is_ok(), "{topic}: {example}");
            }
            let (_, named) = page.rsplit_once("More: ").expect("a page of the docs");
            assert!(testkit::root().join(named.trim()).exists(), "{named}");
        }
    }
}
