//! Rows of a running command, one per second: columns of text, JSON lines or CSV.
//!
//! A row type lists its cells once ([`Row::cells`]): name and value. Columns, CSV and JSON are made
//! from them.

pub use crate::out::RowFormat;

use crate::console::Console;
use crate::out::{self, OutError};
use facts::{Document, Fact};
use serde::Serialize;
use serde::ser::SerializeMap;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTime {
    /// Time of day, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Time since the start.
    pub elapsed_ns: u64,
}

/// One value of a row: for people, as a plain number for CSV, and as a field of the JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its field in JSON, and its column in CSV.
    field: &'static str,
    value: Value,
    /// Its text for people.
    text: String,
    csv: String,
    place: Place,
}

/// Where text and CSV have a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A column of both: its heading in text, and its width.
    Column(&'static str, usize),
    /// A column of CSV. Text has name and value behind the columns, if it is a count above 0.
    Rest,
    /// Neither has it.
    JsonOnly,
}

impl Cell {
    fn column(field: &'static str, value: impl Into<Value>, text: String, csv: String) -> Self {
        Self { field, value: value.into(), text, csv, place: Place::Column(field, 13) }
    }

    /// The cell in a column with this heading and this width in text.
    fn headed(self, heading: &'static str, width: usize) -> Self {
        Self { place: Place::Column(heading, width), ..self }
    }

    /// A count, in the column `field`.
    pub fn count(field: &'static str, count: u64) -> Self {
        Self::column(field, count, human_count(count), count.to_string())
    }

    /// A count that may be unknown: `?` as text, empty in CSV, `null` in JSON.
    pub fn maybe(field: &'static str, count: Option<u64>) -> Self {
        let unknown = || Self::column(field, Value::Null, "?".to_owned(), String::new());
        count.map_or_else(unknown, |count| Self::count(field, count))
    }

    /// A word that tells rows apart, in the column `field`.
    pub fn word(field: &'static str, word: &str) -> Self {
        Self::column(field, word, word.to_owned(), word.to_owned())
    }

    /// Something per second, such as connections, in the column `field`.
    pub fn per_second(field: &'static str, rate: f64) -> Self {
        let whole = rate.round() as u64;
        Self::column(field, rate, human_count(whole), whole.to_string())
    }

    /// Frames per second.
    pub fn pps(pps: f64) -> Self {
        Self::column("rate_pps", pps, human_pps(pps), format!("{pps:.0}")).headed("pps", 11)
    }

    /// Bits per second, in the field `field`, such as `wire_bps`.
    pub fn bps(field: &'static str, bps: f64) -> Self {
        Self::column(field, bps, human_bps(bps), format!("{bps:.0}")).headed("bit/s", 13)
    }

    /// What only JSON has.
    pub fn json_only(field: &'static str, value: impl Into<Value>) -> Self {
        let (text, csv) = (String::new(), String::new());
        Self { field, value: value.into(), text, csv, place: Place::JsonOnly }
    }

    /// The counts of a group: JSON and CSV have all, and text those above 0.
    pub fn group(counts: impl Iterator<Item = (&'static Fact, Option<u64>)>) -> impl Iterator<Item = Self> {
        counts.map(|(fact, count)| Self { place: Place::Rest, ..Self::maybe(fact.name, count) })
    }

    /// The cell in a column of width 7, headed by its field, for counts that are usually small.
    #[must_use]
    pub fn narrow(self) -> Self {
        let heading = self.field;
        self.headed(heading, 7)
    }

    /// The cell with its value in JSON cut to a whole number.
    #[must_use]
    pub fn whole(self) -> Self {
        let value = self.value.as_f64().map_or(Value::Null, |value| Value::from(value as u64));
        Self { value, ..self }
    }
}

/// A row as JSON: its time, and the fields of its cells.
struct RowFields<'a>(RowTime, &'a [Cell]);

impl Serialize for RowFields<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(time, cells) = self;
        let mut fields = serializer.serialize_map(Some(cells.len() + 2))?;
        fields.serialize_entry("time", &utc_time(time.time_ns))?;
        fields.serialize_entry("elapsed_ns", &time.elapsed_ns)?;
        cells.iter().try_for_each(|cell| fields.serialize_entry(cell.field, &cell.value))?;
        fields.end()
    }
}

/// A row of numbers.
pub trait Row {
    /// The kind of object that the row is as JSON.
    fn document(&self) -> &'static Document;
    /// When it was made.
    fn time(&self) -> RowTime;
    /// Its values, in the order of the columns.
    fn cells(&self) -> Vec<Cell>;

    /// The row as a line of JSON.
    fn json_line(&self) -> String {
        out::json_line(self.document(), &RowFields(self.time(), &self.cells()))
    }
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
        let cells = row.cells();
        let header = match (format, std::mem::replace(&mut self.has_header, true)) {
            (RowFormat::Json, _) | (_, true) => String::new(),
            (RowFormat::Text, false) => columns("time", &cells, |_, heading| heading) + "\n",
            (RowFormat::Csv, false) => fields("time,elapsed_s", &cells, |cell| cell.field),
        };
        let RowTime { time_ns, elapsed_ns } = row.time();
        header
            + &match format {
                RowFormat::Json => row.json_line(),
                RowFormat::Text => {
                    let time = clock_time(time_ns, self.offset_s);
                    columns(&time, &cells, |cell, _| &cell.text) + &rest(&cells) + "\n"
                }
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

fn columns<'a>(time: &str, cells: &'a [Cell], text: impl Fn(&'a Cell, &'a str) -> &'a str) -> String {
    let mut line = format!("{time:TIME_WIDTH$}");
    for cell in cells {
        let Place::Column(heading, width) = cell.place else { continue };
        let width = width.max(heading.len());
        write!(line, "  {:>width$}", text(cell, heading)).expect("a String takes any text");
    }
    line
}

/// What follows the columns: counts that have none and are above 0.
fn rest(cells: &[Cell]) -> String {
    let is_shown = |cell: &&Cell| cell.place == Place::Rest && cell.value.as_u64() > Some(0);
    cells.iter().filter(is_shown).map(|cell| format!("  {} {}", cell.field, cell.text)).collect()
}

fn fields<'a>(time: &str, cells: &'a [Cell], text: impl Fn(&'a Cell) -> &'a str) -> String {
    let mut line = time.to_owned();
    for cell in cells.iter().filter(|cell| cell.place != Place::JsonOnly) {
        line.push(',');
        line.push_str(text(cell));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::OtherFrames;

    struct Sample {
        time: RowTime,
        sent: u64,
        rate_pps: f64,
        wire_bps: f64,
        lost: Option<u64>,
        others: OtherFrames,
    }

    impl Row for Sample {
        fn document(&self) -> &'static Document {
            &Document { name: "wirerate.sample/1", about: "this test", groups: &[] }
        }

        fn time(&self) -> RowTime {
            self.time
        }

        fn cells(&self) -> Vec<Cell> {
            [
                Cell::count("sent", self.sent),
                Cell::pps(self.rate_pps),
                Cell::json_only("cpus", vec![1, 2]),
                Cell::bps("wire_bps", self.wire_bps).whole(),
                Cell::maybe("lost", self.lost).narrow(),
            ]
            .into_iter()
            .chain(Cell::group(self.others.each()))
            .collect()
        }
    }

    fn printed(format: RowFormat) -> String {
        let mut printer =
            RowPrinter { offset_s: 0, ..RowPrinter::new(&Console::default(), Some(format), false).unwrap() };
        let time = RowTime { time_ns: 1_795_313_700_250_000_000, elapsed_ns: 1_000_400_000 };
        let others = OtherFrames { foreign: 1_200, ..OtherFrames::default() };
        let first =
            Sample { time, sent: 1_200_000, rate_pps: 1.2e6, wire_bps: 806.4e6, lost: Some(3), others };
        let second = Sample { lost: None, others: OtherFrames::default(), ..first };
        printer.lines(&first) + &printer.lines(&second)
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
             \"sent\":1200000,\"rate_pps\":1200000.0,\"cpus\":[1,2],\"wire_bps\":806400000,\"lost\":3,\
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
