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
    let (about, appendix) = match &args.command {
        None => (parser, format!(".SH \"CONTROL FILES\"\n{}", command::commands_roff())),
        Some(name) => (subcommand(&parser, name)?, String::new()),
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(about).render(&mut page).refused("write the manual page")?;
    out::text(&(String::from_utf8_lossy(&page).into_owned() + &appendix))?;
    Ok(Outcome::Done)
}

fn subcommand(parser: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    let none = || Failure::usage(format!("print the page of \"{name}\""), "there is no such command");
    parser.find_subcommand(name).cloned().ok_or_else(none)
}
