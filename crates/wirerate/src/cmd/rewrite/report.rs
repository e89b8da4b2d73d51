//! The report of a rewrite: text, or one line of JSON as `wirerate.rewrite/1`.

use crate::edit_args::report::EditReport;
use capture_files::damage::Damages;
use capture_files::records::Unkept;
use facts::{Described, Document};
use program::out;
use replay::{Fates, StopCause};
use serde::Serialize;
use std::fmt;
use units::{Table, human_count};

/// The report of a rewrite.
pub const REWRITE: Document = Document::of::<RewriteReport>("wirerate.rewrite/1", "wirerate rewrite --json");

/// Why a rewrite ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub(super) enum RewriteEnd {
    /// The files were over.
    #[default]
    Done,
    /// Stopped by a signal: no file is written.
    Stopped,
}

/// The whole run.
#[derive(Clone, Debug, Default, Serialize, Described)]
pub(super) struct RewriteReport {
    /// Names of the files that were read.
    pub(super) files: Vec<String>,
    /// Name of the file that is written.
    pub(super) output: String,
    /// Why it ended. `stopped`: by a signal; no file is written then.
    pub(super) end: RewriteEnd,
    /// Packets read.
    #[fact(unit = "packets")]
    pub(super) read: u64,
    /// Packets written, with all parts of those that were divided.
    #[fact(unit = "packets")]
    pub(super) written: u64,
    /// Packets that were not written, by reason.
    #[serde(flatten)]
    pub(super) fates: Fates,
    /// Packets beyond one of each that was read, by `--long`.
    #[fact(unit = "packets")]
    pub(super) parts: u64,
    /// Cut packets that were filled up with zeros.
    #[fact(unit = "packets")]
    pub(super) padded_cut: u64,
    /// What edits counted.
    #[serde(flatten)]
    pub(super) edits: EditReport,
    /// Damaged places of the files.
    pub(super) damages: Damages,
    /// The packet that ended the run, which then has no output.
    #[serde(skip)]
    pub(super) stopped_by: Option<StopCause>,
    /// What the files have and the output has not.
    #[serde(skip)]
    pub(super) unkept: Unkept,
    /// Notes for the user, such as an edit that reached no packet, or times that run backwards.
    pub(super) notes: Vec<String>,
}

impl RewriteReport {
    /// False if the files fell short or the run was stopped: exit code 1.
    pub(super) fn is_good(&self) -> bool {
        self.end == RewriteEnd::Done && !self.fates.fell_short() && self.damages.is_empty()
    }

    /// Notes for the user, for standard error.
    pub(super) fn all_notes(&self) -> impl Iterator<Item = String> {
        let not_edited = self.edits.not_edited_text().map(|text| format!("packets not edited {text}"));
        not_edited.into_iter().chain(self.notes.iter().cloned())
    }

    /// The report as one line of JSON.
    pub(super) fn json_line(&self) -> String {
        out::json_line(&REWRITE, self)
    }
}

impl fmt::Display for RewriteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = human_count(self.written);
        match self.end {
            RewriteEnd::Done => writeln!(f, "{}: {written} packets", self.output)?,
            RewriteEnd::Stopped => {
                writeln!(f, "{}: stopped after {written} packets, no file is written", self.output)?
            }
        }
        let mut table = Table::default();
        let files =
            if self.files.len() == 1 { "1 file".to_owned() } else { format!("{} files", self.files.len()) };
        table.count("read", self.read, &format!("packets of {files}"));
        for (fact, count) in self.fates.left_out.present() {
            let meaning = match fact.name {
                "too_long" => "longer than the MTU, or than 262,144 bytes with padding".to_owned(),
                "link_type" => "without a form as an Ethernet frame".to_owned(),
                _ => fact.remark(),
            };
            table.count(&fact.title(), count, &meaning);
        }
        for (name, count, meaning) in [
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
        self.damages.lines().iter().for_each(|place| table.text("file", place));
        fmt::Display::fmt(&table, f)
    }
}
