//! The report of a rewrite: text, or one line of JSON as `wirerate.rewrite/1`.

use crate::capture_files::damage::Damages;
use crate::edit_args::report::EditReport;
use crate::out;
use crate::units::{Table, human_count};
use replay::Fates;
use serde::Serialize;
use std::fmt;

/// Name and version of the report as JSON.
const SCHEMA: &str = "wirerate.rewrite/1";

/// Why a rewrite ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RewriteEnd {
    /// The files were over.
    #[default]
    Done,
    /// Stopped by a signal.
    Stopped,
    /// A packet or a damaged file ended it, and nothing was written.
    Packet,
}

/// The whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RewriteReport {
    pub(super) files: Vec<String>,
    pub(super) output: String,
    pub(super) end: RewriteEnd,
    /// Packets read.
    pub(super) read: u64,
    /// Packets written, with all parts of those that were divided.
    pub(super) written: u64,
    /// Packets that were not written, by reason.
    #[serde(flatten)]
    pub(super) fates: Fates,
    /// Packets beyond one of each that was read, by `--long`.
    pub(super) parts: u64,
    /// Cut packets that were padded with zeros.
    pub(super) padded_cut: u64,
    #[serde(flatten)]
    pub(super) edits: EditReport,
    pub(super) damages: Damages,
    /// The packet that ended the run.
    pub(super) stopped_by: Option<String>,
    /// What may be unexpected.
    pub(super) notes: Vec<String>,
}

impl RewriteReport {
    /// False if the files fell short, or the output is not there: exit code 1.
    pub(super) fn is_good(&self) -> bool {
        self.end == RewriteEnd::Done && !self.fates.fell_short() && self.damages.is_empty()
    }

    /// The report as one line of JSON.
    pub(super) fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }
}

impl fmt::Display for RewriteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = human_count(self.written);
        match self.end {
            RewriteEnd::Done => writeln!(f, "{}: {written} packets", self.output)?,
            RewriteEnd::Stopped => writeln!(f, "{}: {written} packets, stopped before its end", self.output)?,
            RewriteEnd::Packet => writeln!(f, "{}: not written", self.output)?,
        }
        let mut table = Table::default();
        let files =
            if self.files.len() == 1 { "1 file".to_owned() } else { format!("{} files", self.files.len()) };
        table.count("read", self.read, &format!("packets of {files}"));
        for (name, count, meaning) in [
            ("cut", self.fates.cut, "the file has only their first bytes, and --cut skip was given"),
            ("too long", self.fates.too_long, "longer than the MTU"),
            ("link type", self.fates.link_type, "without a form as an Ethernet frame"),
            ("damaged", self.fates.damaged, "their bytes are not what their link type requires"),
            ("after end", self.fates.after_end, "read but not written when the run ended"),
            ("parts", self.parts, "packets beyond one of each, by --long"),
            ("padded", self.padded_cut, "packets that the file cuts short, with zeros"),
        ] {
            if count > 0 {
                table.count(name, count, meaning);
            }
        }
        self.edits.add_rows(&mut table);
        if !self.damages.is_empty() {
            let places = format!("places of the files: {}", self.damages.kinds_text());
            table.count("damaged", self.damages.total, &places);
        }
        let places = self.damages.lines().into_iter().chain(self.stopped_by.clone());
        places.for_each(|place| table.text("file", &place));
        self.notes.iter().for_each(|note| table.text("note", note));
        write!(f, "{table}")
    }
}
