//! `wirerate help [COMMAND]`: the long help of a command.

use crate::out;
use crate::outcome::{Failure, Outcome};

/// Arguments of `wirerate help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command to explain
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Prints the help text.
///
/// # Errors
/// Bad usage when there is no such command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
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
