//! `wirerate replay DEV FILE...`: sends the packets of capture files.

pub mod args;
pub mod dry_run;
pub mod fields;
pub mod input;
pub mod live;
pub mod loop_cache;
pub mod pause;
pub mod player;
pub mod playlist;
pub mod records;
pub mod report;
pub mod target;
pub mod tcpreplay;

pub use args::Args;

use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;

/// Sends, or reports what would be sent.
///
/// # Errors
/// What could not be done, ready to be printed.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let report = if args.dry_run { dry_run::run(args, stop)? } else { live::run(args, stop)? };
    out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(if report.is_good() { Outcome::Done } else { Outcome::No })
}

/// The files as the user named them.
fn file_names(args: &Args) -> Vec<String> {
    args.files.iter().map(|path| path.display().to_string()).collect()
}
