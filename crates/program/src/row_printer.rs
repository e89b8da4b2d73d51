//! Rows of a running command, one per second: columns of text, JSON lines or CSV.
//!
//! A row is a record: its fields have name, unit and meaning. Columns, CSV and JSON are made from
//! them.

pub use crate::out::RowFormat;

use crate::console::Console;
use crate::out::{self, OutError};
use facts::{Described, Document, Field, Kind, Record};
use serde::{Serialize, Serializer};
use serde_json::Value;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct RowTime {
    /// Time of day in UTC (RFC 3339).
    #[serde(rename = "time", serialize_with = "as_utc_time")]
    #[fact(kind = Kind::Text)]
    pub time_ns: u64,
    /// Time since the start; of senders, since the first frames.
    pub elapsed_ns: u64,
}

fn as_utc_time<S: Serializer>(time_ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc_time(*time_ns))
}

/// A row of numbers: a record, of which columns, CSV and JSON are made. Its unit says how people
/// see a number.
pub trait Row: Record + Serialize + Sized {
    /// The kind of object that the row is as JSON.
    const DOCUMENT: Document;
    /// Its fields with a column in text, in order, and the width of the column. In CSV the other
    /// counts follow them; text has name and value of those that are above 0.
    const COLUMNS: &'static [(&'static str, usize)];
    /// Its fields that neither text nor CSV has, besides lists.
    const JSON_ONLY: &'static [&'static str] = &[];

    /// When it was made.
    fn time(&self) -> RowTime;

    /// The row as a line of JSON.
    fn json_line(&self) -> String {
        out::json_line(&Self::DOCUMENT, self)
    }
}

/// Width of a column for counts that are usually small.
pub const NARROW: usize = 7;
/// Width of a column for counts.
pub const WIDE: usize = 13;
/// Width of the column for frames per second.
pub const RATE: usize = 11;

/// A field of a row that text or CSV has.
struct Cell {
    field: &'static str,
    heading: &'static str,
    /// Width of its column in text; `None` without one.
    width: Option<usize>,
    /// True if it is no count above 0: without a column, text does not have it.
    is_empty: bool,
    text: String,
    csv: String,
}

/// The fields of `row` that text or CSV has: those with columns, then the others.
fn cells<R: Row>(row: &R) -> Vec<Cell> {
    let values = serde_json::to_value(row).expect("rows are records of numbers and text");
    let time = facts::fields_of(RowTime::PARTS);
    let is_shown = |field: &Field| {
        let is_list = matches!(field.kind, Kind::List(_) | Kind::Objects(_));
        !is_list && !time.contains(field) && !R::JSON_ONLY.contains(&field.name)
    };
    let place = |field: &Field| R::COLUMNS.iter().position(|(name, _)| *name == field.name);
    let mut fields: Vec<_> = facts::fields_of(R::PARTS).into_iter().filter(is_shown).collect();
    fields.sort_by_key(|field| place(field).unwrap_or(usize::MAX));
    fields.into_iter().filter_map(|field| Some(cell::<R>(&field, values.get(field.name)?))).collect()
}

fn cell<R: Row>(field: &Field, value: &Value) -> Cell {
    let width = R::COLUMNS.iter().find(|(name, _)| *name == field.name).map(|(_, width)| *width);
    let unit = match field.kind {
        Kind::Count(unit) | Kind::Number(unit) => unit,
        _ => "",
    };
    let heading = match unit {
        "frames/s" => "pps",
        "bits/s" => "bit/s",
        _ => field.name,
    };
    let (text, csv) = match (value, value.as_f64()) {
        (Value::Null, _) => ("?".to_owned(), String::new()),
        (Value::String(word), _) => (word.clone(), word.clone()),
        (_, Some(rate)) if unit == "frames/s" => (human_pps(rate), format!("{rate:.0}")),
        (_, Some(rate)) if unit == "bits/s" => (human_bps(rate), format!("{rate:.0}")),
        _ => {
            let count = value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or_default().round() as u64);
            (human_count(count), count.to_string())
        }
    };
    Cell { field: field.name, heading, width, is_empty: value.as_u64().unwrap_or(0) == 0, text, csv }
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
        let lines = self.lines(row);
        self.console.aside(&lines);
    }

    /// The header line if it is due, and the line of `row`. Adds the row to the events.
    fn lines(&mut self, row: &impl Row) -> String {
        self.console.events().add(|| row.json_line());
        let Some(format) = self.format else { return String::new() };
        let is_first = !std::mem::replace(&mut self.has_header, true);
        let RowTime { time_ns, elapsed_ns } = row.time();
        match format {
            RowFormat::Json => row.json_line(),
            RowFormat::Text => {
                let cells = cells(row);
                let header = if is_first {
                    columns("time", &cells, |cell| cell.heading) + "\n"
                } else {
                    String::new()
                };
                let time = clock_time(time_ns, self.offset_s);
                header + &columns(&time, &cells, |cell| &cell.text) + &rest(&cells) + "\n"
            }
            RowFormat::Csv => {
                let cells = cells(row);
                let header = if is_first {
                    fields("time,elapsed_s", &cells, |cell| cell.field)
                } else {
                    String::new()
                };
                let time = format!("{},{:.3}", utc_time(time_ns), elapsed_ns as f64 / 1e9);
                header + &fields(&time, &cells, |cell| &cell.csv)
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
        let Some(width) = cell.width else { continue };
        let width = width.max(cell.heading.len());
        write!(line, "  {:>width$}", text(cell)).expect("a String takes any text");
    }
    line
}

/// What follows the columns: counts that have none and are above 0.
fn rest(cells: &[Cell]) -> String {
    let is_shown = |cell: &&Cell| cell.width.is_none() && !cell.is_empty;
    cells.iter().filter(is_shown).map(|cell| format!("  {} {}", cell.field, cell.text)).collect()
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
    use facts::OtherFrames;

    #[derive(Serialize, Described)]
    struct Sample {
        #[serde(flatten)]
        time: RowTime,
        /// Frames.
        sent: u64,
        /// Their rate.
        rate_pps: f64,
        /// CPUs.
        cpus: Vec<u32>,
        /// What only JSON has.
        waiting: u64,
        /// The rate in bits.
        wire_bps: u64,
        /// Frames lost.
        lost: Option<u64>,
        #[serde(flatten)]
        others: OtherFrames,
    }

    impl Row for Sample {
        const DOCUMENT: Document = Document::of::<Self>("wirerate.sample/1", "this test");
        const COLUMNS: &'static [(&'static str, usize)] =
            &[("sent", WIDE), ("rate_pps", RATE), ("wire_bps", WIDE), ("lost", NARROW)];
        const JSON_ONLY: &'static [&'static str] = &["waiting"];

        fn time(&self) -> RowTime {
            self.time
        }
    }

    fn printed(format: RowFormat) -> String {
        let mut printer =
            RowPrinter { offset_s: 0, ..RowPrinter::new(&Console::default(), Some(format), false).unwrap() };
        let time = RowTime { time_ns: 1_795_313_700_250_000_000, elapsed_ns: 1_000_400_000 };
        let others = OtherFrames { foreign: 1_200, ..OtherFrames::default() };
        let row = |lost, others| Sample {
            time,
            sent: 1_200_000,
            rate_pps: 1.2e6,
            cpus: vec![1, 2],
            waiting: 5,
            wire_bps: 806_400_000,
            lost,
            others,
        };
        printer.lines(&row(Some(3), others)) + &printer.lines(&row(None, OtherFrames::default()))
    }

    #[test]
    fn text_has_one_header_and_columns_under_it() {
        assert_eq!(
            printed(RowFormat::Text),
            "time               sent          pps          bit/s     lost\n\
             02:15:00      1,200,000   1.200 Mpps   806.4 Mbit/s        3  foreign 1,200\n\
             02:15:00      1,200,000   1.200 Mpps   806.4 Mbit/s        ?\n"
        );
    }

    #[test]
    fn csv_has_plain_numbers_and_utc() {
        assert_eq!(
            printed(RowFormat::Csv),
            "time,elapsed_s,sent,rate_pps,wire_bps,lost,stale,damaged,foreign,icmp_errors\n\
             2026-11-22T02:15:00.250Z,1.000,1200000,1200000,806400000,3,0,0,1200,0\n\
             2026-11-22T02:15:00.250Z,1.000,1200000,1200000,806400000,,0,0,0,0\n"
        );
    }

    #[test]
    fn json_has_the_same_numbers_and_no_header() {
        let text = printed(RowFormat::Json);
        assert_eq!(
            text.lines().next().unwrap_or_default(),
            "{\"schema\":\"wirerate.sample/1\",\"time\":\"2026-11-22T02:15:00.250Z\",\"elapsed_ns\":1000400000,\
             \"sent\":1200000,\"rate_pps\":1200000.0,\"cpus\":[1,2],\"waiting\":5,\"wire_bps\":806400000,\"lost\":3,\
             \"stale\":0,\"damaged\":0,\"foreign\":1200,\"icmp_errors\":0}"
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
