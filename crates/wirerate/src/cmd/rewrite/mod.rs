//! `wirerate rewrite IN... -o OUT`: edits the packets of capture files.

mod args;
mod output;
mod report;
mod rewriter;

pub use args::Args;

use capture_files::input::is_stdin;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use program::{out, row_printer};

/// Edits the files and prints the report.
///
/// # Errors
/// Bad usage, files that cannot be read, or an output that cannot be written.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let report = rewriter::run(args, stop)?;
    let (json, text) = (report.json_line(), report.to_string());
    if !args.quiet {
        report.all_notes().for_each(|note| eprintln!("wirerate: {note}"));
    }
    if is_stdin(&args.output) {
        // Standard output has the packets.
        eprint!("{}", if args.json { &json } else { &text });
    } else if args.json {
        out::text(&json)?;
    } else if !args.quiet {
        row_printer::print_report(row_printer::RowFormat::of(false, false), &json, &report)?;
    }
    Ok(if report.is_good() { Outcome::Done } else { Outcome::No })
}
