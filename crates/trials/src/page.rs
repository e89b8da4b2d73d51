//! `wirerate report`: result files to one HTML page, or runs of `send`, `measure` and `replay` to a
//! comparison as text.

use program::out;
use program::outcome::{Failure, Outcome};
use program::waiting_read;
use report::{ReportError, ResultFile, figures};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The arguments of `wirerate report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Result files: JSON lines of trials and searches, which become a page, or of send, measure
    /// and replay (also with --runs), which are compared as text; - for standard input
    #[arg(value_name = "RESULTS", required = true)]
    pub files: Vec<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// A file that cannot be read or written, or that is no result file.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let files = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(text) = text_of_runs(&files) {
        return print_or_write(args, &text);
    }
    let page = report::render(&files).map_err(failure)?;
    print_or_write(args, &page)
}

/// The comparison of files with lines of `send`, `measure` or `replay`, if all have some.
fn text_of_runs(files: &[ResultFile]) -> Option<String> {
    let side = |file: &ResultFile| {
        let figures = figures::figures_in(&file.text);
        (!figures.is_empty()).then(|| (file.name.clone(), figures))
    };
    let sides = files.iter().map(side).collect::<Option<Vec<_>>>()?;
    Some(figures::text_report(&sides))
}

fn print_or_write(args: &Args, page: &str) -> Result<Outcome, Failure> {
    match &args.output {
        Some(path) => capture::open::create(path)
            .and_then(|mut file| file.write_all(page.as_bytes()))
            .map_err(|error| Failure::refused(format!("write {}", path.display()), error))?,
        None => out::text(page)?,
    }
    Ok(Outcome::Done)
}

fn read(path: &Path) -> Result<ResultFile, Failure> {
    let text = waiting_read::read_to_string(path).map_err(|error| Failure::read(path, error))?;
    let name = path.display().to_string();
    let name = if name == "-" { "standard input".to_owned() } else { name };
    Ok(ResultFile { name, text })
}

fn failure(error: ReportError) -> Failure {
    let is_usage = matches!(error, ReportError::Line { .. } | ReportError::Empty { .. });
    if is_usage {
        Failure::usage("make a report", error).try_this("wirerate report --help")
    } else {
        Failure::refused("make a report", error)
    }
}
