//! `wirerate help [COMMAND]`: the long help of a command, or the words of the control files.

use crate::out;
use crate::outcome::{Failure, Outcome};

/// Arguments of `wirerate help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command to explain; "commands" for the words that control files understand
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
    /// With "commands": show only those that begin with this
    #[arg(value_name = "WORD")]
    pub word: Option<String>,
}

/// Prints the help text.
///
/// # Errors
/// Bad usage when there is no such command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.command.as_deref() == Some("commands") {
        return commands(args.word.as_deref());
    }
    let mut parser = crate::parser();
    parser.build();
    let about = match &args.command {
        None => &mut parser,
        Some(name) => parser.find_subcommand_mut(name).ok_or_else(|| {
            Failure::usage(format!("explain \"{name}\""), "there is no such command")
                .try_this("`wirerate help` lists the commands")
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
