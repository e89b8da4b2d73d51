//! `wirerate man [COMMAND]`: the manual pages as roff, made from the argument parser.

mod options;
mod page;
mod references;

use crate::SMALL_NAMES;
use program::out;
use program::outcome::{Failure, Outcome, Refused};
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `wirerate man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wirerate man send >wirerate-send.1 && man ./wirerate-send.1
  wirerate man --dir /usr/local/share/man/man1")]
pub struct Args {
    /// The command whose page to print; without it the page of wirerate itself
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Option<String>,
    /// Write all pages to this directory instead, as `make install` does
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Print one page in Markdown with the options of all commands instead
    #[arg(long, conflicts_with_all = ["command", "dir"])]
    pub options: bool,
}

/// Prints a page, or writes all of them.
///
/// # Errors
/// Bad usage when there is no such command; refused when a file cannot be written.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    match &args.dir {
        _ if args.options => out::text(&options::page(&crate::parser()))?,
        Some(dir) => {
            fs::create_dir_all(dir).refused(format!("make the directory {}", dir.display()))?;
            pages().into_iter().try_for_each(|(name, text)| write(&dir.join(name), &text))?;
        }
        None => out::text(&page_of(args.command.as_deref())?)?,
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).refused(format!("write {}", path.display()))
}

/// All pages, with the names of their files: one for wirerate, one for each command, and one that
/// includes another for each small name.
pub fn pages() -> Vec<(String, String)> {
    let parser = crate::parser();
    let mut pages = vec![("wirerate.1".to_owned(), page::text(&parser, &parser))];
    for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages.push((format!("wirerate-{}.1", command.get_name()), page::text(&parser, command)));
    }
    for name in SMALL_NAMES {
        let command = match name {
            "mgcap_hwtstamp_config" => "timestamp",
            "tcpreplay" => "replay",
            _ => name,
        };
        pages.push((format!("{name}.1"), format!(".so man1/wirerate-{command}.1\n")));
    }
    pages
}

fn page_of(command: Option<&str>) -> Result<String, Failure> {
    let parser = crate::parser();
    let Some(name) = command else { return Ok(page::text(&parser, &parser)) };
    let none = || {
        Failure::usage(format!("print the page of \"{name}\""), "there is no such command")
            .try_this("`wirerate help` lists the commands")
    };
    Ok(page::text(&parser, parser.find_subcommand(name).ok_or_else(none)?))
}
