//! `wirerate help [COMMAND]`: the long help of a command, or the words of the control files.

use crate::out;
use crate::outcome::{Failure, Outcome};

/// Arguments of `wirerate help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command to explain; "commands" for the words that control files understand
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Prints the help text.
///
/// # Errors
/// Bad usage when there is no such command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.command.as_deref() == Some("commands") {
        out::text(&command::commands_text())?;
        return Ok(Outcome::Done);
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
