//! Data to stdout: text for people, and one JSON object a line for programs.
//!
//! Every JSON object begins with `schema`, its name and version (`"wirerate.send/2"`). A version
//! grows when a field changes its meaning or goes away, not when one is added. The fields of
//! each object are described by its structure (crate `facts`); `docs/json.md` and the schemas are
//! made of that.

use facts::Document;
use report::printable_lines;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};

/// How rows and reports are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Columns for people, with a header line.
    Text,
    /// One JSON object per line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

impl RowFormat {
    /// The format that `--json` and `--csv` ask for.
    pub fn of(json: bool, csv: bool) -> Self {
        match (json, csv) {
            (_, true) => Self::Csv,
            (true, false) => Self::Json,
            (false, false) => Self::Text,
        }
    }
}

/// Stdout did not take what we had to say.
#[derive(Debug, thiserror::Error)]
#[error("writing to standard output failed")]
pub struct OutError {
    #[from]
    source: io::Error,
}

impl OutError {
    /// True when the reader of a pipe went away.
    pub fn is_closed_pipe(&self) -> bool {
        self.source.kind() == io::ErrorKind::BrokenPipe
    }
}

#[derive(Serialize)]
struct JsonLine<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints `text` as it is.
///
/// # Errors
/// When stdout is closed or full.
pub fn text(text: &str) -> Result<(), OutError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Prints the report of a command for people, on a terminal with its colours (`{:#}`).
///
/// # Errors
/// When stdout is closed or full.
pub fn report(report: &impl Display) -> Result<(), OutError> {
    text(&text_of(report))
}

/// Tells people a sentence that is not a result, on standard error. The macro `note!` makes it of a
/// format.
pub fn note(note: impl Display) {
    eprint!("{}", printable_lines(&format!("wirerate: {note}\n")));
}

/// Tells people a sentence that is not a result, on standard error: `note!("{name} went away")`.
/// Control characters of names and of other programs are shown as text.
#[macro_export]
macro_rules! note {
    ($($format:tt)*) => { $crate::out::note(format_args!($($format)*)) };
}

/// A report as [`report()`] prints it.
pub fn text_of(report: &impl Display) -> String {
    printable_lines(&match crate::term::has_colours(&io::stdout()) {
        true => format!("{report:#}"),
        false => report.to_string(),
    })
}

/// Prints `body` as one line of JSON: an object of the kind `document`.
///
/// # Errors
/// When stdout is closed or full.
pub fn json<T: Serialize>(document: &Document, body: &T) -> Result<(), OutError> {
    text(&json_line(document, body))
}

/// The line that [`json`] prints, newline included.
pub fn json_line<T: Serialize>(document: &Document, body: &T) -> String {
    let line = serde_json::to_string(&JsonLine { schema: document.name, body });
    // Our own report structures have string keys and finite numbers, so this is a promise between
    // ourselves.
    line.expect("a report is always representable as JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_comes_first_and_the_object_takes_one_line() {
        #[derive(Serialize)]
        struct Body {
            text: &'static str,
            sent: u64,
        }
        let document = Document { name: "wirerate.test/1", about: "this test", parts: &[] };
        let line = json_line(&document, &Body { text: "a\nb", sent: u64::MAX });
        assert_eq!(
            line,
            "{\"schema\":\"wirerate.test/1\",\"text\":\"a\\nb\",\"sent\":18446744073709551615}\n"
        );
    }
}
