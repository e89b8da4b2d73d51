//! `wirerate man [COMMAND]`: the manual page as roff, made from the argument parser.

use crate::out;
use crate::outcome::{Failure, Outcome, Refused};

/// Arguments of `wirerate man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command whose page to print; without it the page of wirerate itself
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Prints the page.
///
/// # Errors
/// Bad usage when there is no such command.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut parser = crate::parser();
    parser.build();
    let about = match &args.command {
        None => parser,
        Some(name) => parser
            .find_subcommand(name)
            .ok_or_else(|| {
                Failure::usage(format!("print the page of \"{name}\""), "there is no such command")
            })?
            .clone(),
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(about).render(&mut page).refused("write the manual page")?;
    out::text(&String::from_utf8_lossy(&page))?;
    Ok(Outcome::Done)
}
