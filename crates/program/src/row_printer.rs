//! Rows of a running command, one per second: columns of text, JSON lines or CSV.
//!
//! A row type lists its cells once ([`Row::cells`]); text and CSV are made from them. JSON is the
//! serialized row, with the same numbers.

pub use crate::out::RowFormat;

use crate::console::Console;
use crate::out::{self, OutError};
use facts::Document;
use serde::Serialize;
use std::fmt::{self, Display, Write};
use std::io::{self, IsTerminal};
use std::time::Duration;
use units::{clock_time, human_bps, human_count, human_pps, utc_time};

/// Time between two rows.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Width of the column with the time of day.
const TIME_WIDTH: usize = 8;

/// Options of a command whose rows are its progress.
#[derive(Clone, Debug, clap::Args)]
pub struct RowArgs {
    /// Print a row each second, with --json as JSON; done without it on a terminal
    #[arg(long)]
    pub every_second: bool,
    /// Print a row each second as CSV; the report goes to standard error
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl RowArgs {
    /// A printer, if rows are requested, people watch at a terminal, or programs follow the run.
    /// With `quiet`, a terminal alone is no reason to print rows.
    pub fn printer(&self, console: &Console, json: bool, quiet: bool) -> Option<RowPrinter> {
        let format = RowFormat::of(json, self.csv);
        let is_watched = format == RowFormat::Text
            && !quiet
            && io::stdout().is_terminal()
            && !console.is_progress_elsewhere();
        let is_printed = self.every_second || self.csv || is_watched;
        RowPrinter::new(console, is_printed.then_some(format), console.events().are_followed())
    }
}

/// When a row was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTime {
    /// Time of day, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Time since the start.
    pub elapsed_ns: u64,
}

impl Serialize for RowTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            time: String,
            elapsed_ns: u64,
        }
        Fields { time: utc_time(self.time_ns), elapsed_ns: self.elapsed_ns }.serialize(serializer)
    }
}

/// One value of a row: as text for people and as a plain number for CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    name: &'static str,
    csv_name: &'static str,
    width: usize,
    text: String,
    csv: String,
}

impl Cell {
    /// A count, in the column `name`.
    pub fn count(name: &'static str, count: u64) -> Self {
        Self { name, csv_name: name, width: 13, text: human_count(count), csv: count.to_string() }
    }

    /// A count that may be unknown: `?` as text, empty in CSV.
    pub fn maybe(name: &'static str, count: Option<u64>) -> Self {
        let unknown = Self { name, csv_name: name, width: 13, text: "?".to_owned(), csv: String::new() };
        count.map_or(unknown, |count| Self::count(name, count))
    }

    /// A word that tells rows apart, in the column `name`.
    pub fn word(name: &'static str, word: &str) -> Self {
        Self { name, csv_name: name, width: 13, text: word.to_owned(), csv: word.to_owned() }
    }

    /// The same with a narrower column, for counts that are usually small.
    #[must_use]
    pub fn narrow(self) -> Self {
        Self { width: 7, ..self }
    }

    /// Frames per second.
    pub fn pps(pps: f64) -> Self {
        let csv = format!("{pps:.0}");
        Self { name: "pps", csv_name: "rate_pps", width: 11, text: human_pps(pps), csv }
    }

    /// Bits per second: `csv_name` is the field of the JSON object, such as `wire_bps`.
    pub fn bps(csv_name: &'static str, bps: f64) -> Self {
        let csv = format!("{bps:.0}");
        Self { name: "bit/s", csv_name, width: 13, text: human_bps(bps), csv }
    }
}

/// A row of numbers.
pub trait Row: Serialize {
    /// The kind of object that the row is as JSON.
    fn document(&self) -> &'static Document;
    /// When it was made.
    fn time(&self) -> RowTime;
    /// Its values, in the order of the columns.
    fn cells(&self) -> Vec<Cell>;
}

/// Prints rows, below a header line where the format has one, and adds them to the events.
#[derive(Debug)]
pub struct RowPrinter {
    console: Console,
    /// `None` if rows are events only.
    format: Option<RowFormat>,
    offset_s: i32,
    has_header: bool,
}

impl RowPrinter {
    /// A printer to `console`, if there is a format or the rows are events. Text shows local time.
    pub fn new(console: &Console, format: Option<RowFormat>, are_events: bool) -> Option<Self> {
        let is_needed = format.is_some() || are_events;
        let (console, offset_s) = (console.clone(), host::local_utc_offset_s());
        is_needed.then_some(Self { console, format, offset_s, has_header: false })
    }

    /// Prints `row`.
    ///
    /// # Errors
    /// When standard output is closed or full.
    pub fn print(&mut self, row: &impl Row) -> Result<(), OutError> {
        let lines = self.lines(row);
        self.console.text(&lines)
    }

    /// Prints `row` to standard error, for a command whose data has standard output.
    pub fn print_aside(&mut self, row: &impl Row) {
        eprint!("{}", self.lines(row));
    }

    /// The header line if it is due, and the line of `row`. Adds the row to the events.
    fn lines(&mut self, row: &impl Row) -> String {
        self.console.events().add(|| out::json_line(row.document(), row));
        let Some(format) = self.format else { return String::new() };
        let cells = row.cells();
        let header = match (format, std::mem::replace(&mut self.has_header, true)) {
            (RowFormat::Json, _) | (_, true) => String::new(),
            (RowFormat::Text, false) => columns("time", &cells, |cell| cell.name),
            (RowFormat::Csv, false) => fields("time,elapsed_s", &cells, |cell| cell.csv_name),
        };
        let RowTime { time_ns, elapsed_ns } = row.time();
        header
            + &match format {
                RowFormat::Json => out::json_line(row.document(), row),
                RowFormat::Text => columns(&clock_time(time_ns, self.offset_s), &cells, |cell| &cell.text),
                RowFormat::Csv => {
                    let time = format!("{},{:.3}", utc_time(time_ns), elapsed_ns as f64 / 1e9);
                    fields(&time, &cells, |cell| &cell.csv)
                }
            }
    }
}

/// A report of two parts.
#[derive(Clone, Copy, Debug)]
pub struct Joined<A, B>(pub A, pub B);

impl<A: Display, B: Display> Display for Joined<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        self.1.fmt(f)
    }
}

fn columns<'a>(time: &str, cells: &'a [Cell], text: impl Fn(&'a Cell) -> &'a str) -> String {
    let mut line = format!("{time:TIME_WIDTH$}");
    for cell in cells {
        let width = cell.width.max(cell.name.len());
        write!(line, "  {:>width$}", text(cell)).expect("a String takes any text");
    }
    line + "\n"
}

fn fields<'a>(time: &str, cells: &'a [Cell], text: impl Fn(&'a Cell) -> &'a str) -> String {
    let mut line = time.to_owned();
    for cell in cells {
        line.push(',');
        line.push_str(text(cell));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Sample {
        #[serde(flatten)]
        time: RowTime,
        sent: u64,
        rate_pps: f64,
        wire_bps: f64,
        lost: Option<u64>,
    }

    impl Row for Sample {
        fn document(&self) -> &'static Document {
            &Document { name: "wirerate.sample/1", about: "this test", groups: &[] }
        }

        fn time(&self) -> RowTime {
            self.time
        }

        fn cells(&self) -> Vec<Cell> {
            vec![
                Cell::count("sent", self.sent),
                Cell::pps(self.rate_pps),
                Cell::bps("wire_bps", self.wire_bps),
                Cell::maybe("lost", self.lost).narrow(),
            ]
        }
    }

    fn printed(format: RowFormat) -> String {
        let mut printer =
            RowPrinter { offset_s: 0, ..RowPrinter::new(&Console::default(), Some(format), false).unwrap() };
        let time = RowTime { time_ns: 1_795_313_700_250_000_000, elapsed_ns: 1_000_400_000 };
        let first = Sample { time, sent: 1_200_000, rate_pps: 1.2e6, wire_bps: 806.4e6, lost: Some(3) };
        let second = Sample { lost: None, ..first };
        printer.lines(&first) + &printer.lines(&second)
    }

    #[test]
    fn text_has_one_header_and_columns_under_it() {
        assert_eq!(
            printed(RowFormat::Text),
            "time               sent          pps          bit/s     lost\n\
             02:15:00      1,200,000   1.200 Mpps   806.4 Mbit/s        3\n\
             02:15:00      1,200,000   1.200 Mpps   806.4 Mbit/s        ?\n"
        );
    }

    #[test]
    fn csv_has_plain_numbers_and_utc() {
        assert_eq!(
            printed(RowFormat::Csv),
            "time,elapsed_s,sent,rate_pps,wire_bps,lost\n\
             2026-11-22T02:15:00.250Z,1.000,1200000,1200000,806400000,3\n\
             2026-11-22T02:15:00.250Z,1.000,1200000,1200000,806400000,\n"
        );
    }

    #[test]
    fn json_has_the_same_numbers_and_no_header() {
        let text = printed(RowFormat::Json);
        assert_eq!(
            text.lines().next().unwrap_or_default(),
            "{\"schema\":\"wirerate.sample/1\",\"time\":\"2026-11-22T02:15:00.250Z\",\"elapsed_ns\":1000400000,\
             \"sent\":1200000,\"rate_pps\":1200000.0,\"wire_bps\":806400000.0,\"lost\":3}"
        );
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn csv_wins_over_json() {
        assert_eq!(RowFormat::of(true, true), RowFormat::Csv);
        assert_eq!(RowFormat::of(true, false), RowFormat::Json);
        assert_eq!(RowFormat::of(false, false), RowFormat::Text);
    }
}
