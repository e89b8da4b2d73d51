//! `wirerate rewrite IN... -o OUT`: edits the packets of capture files.

mod args;
mod output;
mod report;
mod rewriter;

pub use self::report::REWRITE;
pub use args::Args;

use capture_files::input::is_stdin;
use program::outcome::{Failure, Outcome};
use program::row_printer;
use program::stop::Stop;

/// Edits the files and prints the report.
///
/// # Errors
/// Bad usage, files that cannot be read, or an output that cannot be written.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let report = rewriter::run(args, stop)?;
    let (json, text) = (report.json_line(), report.to_string());
    if !args.quiet {
        report.all_notes().for_each(|note| program::note!("{note}"));
    }
    if is_stdin(&args.output) {
        // Standard output has the packets.
        eprint!("{}", if args.json { json } else { ::report::printable_lines(&text) });
    } else if args.json {
        stop.console().text(&json)?;
    } else if !args.quiet {
        stop.console().report(row_printer::RowFormat::of(false, false), &json, &report)?;
    }
    Ok(if report.is_good() { Outcome::Done } else { Outcome::No })
}
