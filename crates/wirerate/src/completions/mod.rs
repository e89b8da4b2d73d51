//! `wirerate completions SHELL`: the completion script of a shell.
//!
//! The scripts of bash, zsh and fish run `wirerate complete`, which prints the candidates for the
//! words typed so far. Those of the other shells are clap's and complete commands and options only.

mod candidates;

pub(crate) use candidates::{device_of, named_netns};

use clap_complete::Shell;
use program::out;
use program::outcome::{Failure, Outcome};
use std::ffi::OsString;

/// Arguments of `wirerate completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wirerate completions bash >/etc/bash_completion.d/wirerate
  wirerate completions zsh >/usr/local/share/zsh/site-functions/_wirerate
  wirerate completions fish >/etc/fish/completions/wirerate.fish")]
pub struct Args {
    /// The shell to write for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When stdout is closed.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    match args.shell {
        Shell::Bash => out::text(include_str!("wirerate.bash"))?,
        Shell::Zsh => out::text(include_str!("wirerate.zsh"))?,
        Shell::Fish => out::text(include_str!("wirerate.fish"))?,
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::parser(), "wirerate", &mut script);
            out::text(&String::from_utf8_lossy(&script))?;
        }
    }
    Ok(Outcome::Done)
}

/// Arguments of `wirerate complete`.
#[derive(Debug, clap::Args)]
pub struct WordsArgs {
    /// The words typed so far, the program's name first; the last one is to be completed
    #[arg(value_name = "WORD", last = true)]
    pub words: Vec<OsString>,
}

/// Prints a line for each candidate: the word, and after a tab its help. A line that begins with a
/// colon asks the shell for its own candidates: `:files`, `:dirs`, or `:command N` for the command
/// that begins at word N.
///
/// # Errors
/// When stdout is closed.
pub fn complete(args: &WordsArgs) -> Result<Outcome, Failure> {
    let words = crate::spelled_out(args.words.iter().cloned());
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let parser = crate::parser();
    for candidate in candidates::of(&parser, &words) {
        out::text(&format!("{candidate}\n"))?;
    }
    Ok(Outcome::Done)
}
