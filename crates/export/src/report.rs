//! The report of an export: a table, or JSON as `wirerate.export/1`.

use super::args::{Args, ExportFormat};
use super::data_set::Stored;
use capture_files::damage::Damages;
use capture_files::input::is_stdin;
use facts::{Described, Document};
use program::out;
use program::outcome::{Failure, Outcome};
use report::printable_lines;
use serde::Serialize;
use units::{Table, quantity_of};

/// The report of an export.
pub const EXPORT: Document =
    Document::of::<JsonReport<'static>>("wirerate.export/1", "wirerate export --json");

/// How an export ended.
pub(super) struct Report {
    pub(super) to: ExportFormat,
    pub(super) output: String,
    /// Packets that were read.
    pub(super) packets: u64,
    pub(super) stored: Stored,
    /// Frames that the capture lost, as far as the files say.
    pub(super) lost: Option<u64>,
    /// Why the output did not take more.
    pub(super) failure: Option<anyhow::Error>,
    /// What to try then.
    pub(super) advice: &'static str,
    /// Damaged places of the files that were read.
    pub(super) damages: Damages,
    /// Notes for the user, such as packets without a time.
    pub(super) notes: Vec<String>,
}

#[derive(Serialize, Described)]
struct JsonReport<'a> {
    /// Folder of the data set, or the file.
    output: &'a str,
    /// Packets that were read.
    #[fact(unit = "packets")]
    packets: u64,
    /// Packets in complete files.
    #[fact(unit = "packets")]
    stored: u64,
    /// Packets that were read and are in no complete file.
    #[fact(unit = "packets")]
    not_stored: u64,
    /// Complete files, those of losses included.
    files: u64,
    /// Length of these files.
    #[fact(unit = "bytes")]
    bytes: u64,
    /// Frames that the capture lost, as its files say; `null` if they do not, and with
    /// `--to pcapng`.
    #[fact(unit = "packets")]
    lost: Option<u64>,
    /// Why the output did not take more; `null` if it took all.
    failure: Option<String>,
    /// Damaged places of the files that were read.
    damages: &'a Damages,
    /// Notes for the user, such as packets without a time.
    notes: &'a [String],
}

impl Report {
    /// Prints the report; returns how the export ended.
    pub(super) fn conclude(&self, args: &Args) -> Result<Outcome, Failure> {
        let notes = self.notes.iter().filter(|_| !args.quiet);
        self.damages.lines().iter().chain(notes).for_each(|line| program::note!("{line}"));
        let failure = self.failure.as_ref().map(|why| format!("{why:#}"));
        let not_stored = self.packets - self.stored.packets;
        if let Some(why) = &failure {
            let lost = quantity_of(not_stored, "packet");
            program::note!("{lost} not stored: cannot write {why}");
            eprintln!("  try: {}", self.advice);
        }
        let is_pipe = self.to == ExportFormat::Pcapng && is_stdin(&args.output);
        if args.json {
            let json = out::json_line(&EXPORT, &self.as_json(failure, not_stored));
            if is_pipe { eprint!("{json}") } else { out::text(&json)? }
        } else {
            let table = self.as_table(not_stored);
            if is_pipe { eprint!("{}", printable_lines(&table.to_string())) } else { out::report(&table)? }
        }
        Ok(if not_stored > 0 || !self.damages.is_empty() || self.failure.is_some() {
            Outcome::No
        } else {
            Outcome::Done
        })
    }

    fn as_json(&self, failure: Option<String>, not_stored: u64) -> JsonReport<'_> {
        JsonReport {
            output: &self.output,
            packets: self.packets,
            stored: self.stored.packets,
            not_stored,
            files: self.stored.files,
            bytes: self.stored.bytes,
            lost: self.lost,
            failure,
            damages: &self.damages,
            notes: &self.notes,
        }
    }

    fn as_table(&self, not_stored: u64) -> Table {
        let mut table = Table::default();
        let Stored { packets, files, bytes } = self.stored;
        let place =
            format!("{}: {}, {}", self.output, quantity_of(files, "file"), quantity_of(bytes, "byte"));
        table.count("packets", self.packets, "");
        table.count("stored", packets, &place);
        if not_stored > 0 {
            table.count("not stored", not_stored, "");
        }
        if let Some(lost) = self.lost.filter(|lost| *lost > 0) {
            table.loss("lost", lost, "by the capture, as the files say; rows of loss-0.parquet");
        }
        table
    }
}
