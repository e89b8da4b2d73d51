//! The part of a report about edits: wrong checksums, packets that could not be edited.

use facts::Described;
use replay::{EditCounts, NotEdited, NotFixed, SumCounts};
use serde::Serialize;
use units::{Table, human_count};

/// What edits counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct EditReport {
    /// Checksums that are wrong in the files, by protocol: `ipv4`, `tcp`, `udp`, `icmp`, `icmpv6`,
    /// `igmp`, `gre`, `sctp`. Each packet counts once, in the first loop.
    pub wrong_checksums: SumCounts,
    /// Packets in which a field of an edit could not be reached, by reason.
    pub not_edited: NotEdited,
    /// Packets whose checksums `--checksums fix` could not compute, by reason.
    pub not_fixed: NotFixed,
    /// Packets of `too_long` with DF set, with `--long fragment`.
    #[fact(unit = "packets")]
    pub dont_fragment: u64,
    /// The checksums were computed anew.
    #[serde(skip)]
    pub is_fixed: bool,
}

impl EditReport {
    /// Of the counts of a run.
    pub fn new(counts: &EditCounts, dont_fragment: u64, is_fixed: bool) -> Self {
        Self {
            wrong_checksums: counts.wrong_sums,
            not_edited: counts.not_edited,
            not_fixed: counts.not_fixed,
            dont_fragment,
            is_fixed,
        }
    }

    /// Packets that could not be edited with the reasons, such as `3 (cut 2, encrypted 1)`.
    pub fn not_edited_text(&self) -> Option<String> {
        let total = self.not_edited.total();
        (total > 0).then(|| format!("{} ({})", human_count(total), self.not_edited.reasons()))
    }

    /// Adds the rows of a report for people.
    pub fn add_rows(&self, table: &mut Table) {
        let wrong = self.wrong_checksums.total();
        let by_name: Vec<String> = self
            .wrong_checksums
            .by_name()
            .iter()
            .map(|(name, count)| format!("{name} {}", human_count(*count)))
            .collect();
        let text = match (wrong, self.is_fixed) {
            (0, _) => "wrong in the file 0".to_owned(),
            (_, true) => format!("wrong in the file {} ({}), mended", human_count(wrong), by_name.join(", ")),
            (_, false) => format!(
                "wrong in the file {} ({}): --checksums fix mends them",
                human_count(wrong),
                by_name.join(", ")
            ),
        };
        table.text("checksums", &text);
        let not_fixed = self.not_fixed;
        if not_fixed != NotFixed::default() {
            let text = format!("fragments {}, cut packets {}", not_fixed.fragments, not_fixed.cut);
            table.text("not mended", &text);
        }
        if let Some(text) = self.not_edited_text() {
            table.text("not edited", &text);
        }
        if self.dont_fragment > 0 {
            let count = human_count(self.dont_fragment);
            table.text(
                "DF set",
                &format!("{count} of the long packets: --long fragment-df fragments them, too"),
            );
        }
    }
}
