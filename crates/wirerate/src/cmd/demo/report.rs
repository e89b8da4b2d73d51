//! What became of the frames of a demo: for people as a small table, for programs as
//! `wirerate.demo/2`.

use facts::{Described, Document};
use program::out;
use serde::Serialize;
use std::fmt;
use units::{Table, human_count, human_duration, human_pps, per_second};

/// The report of `wirerate demo`.
pub const DEMO: Document = Document::of::<WholeReport<'_>>("wirerate.demo/2", "wirerate demo --json");

/// Every place that a frame can reach, and every place where it can be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct Report {
    /// Frames that the engine tried to send, as in `wirerate.send/2`.
    #[fact(unit = "frames")]
    pub offered: u64,
    /// Frames that the driver accepted, as in `wirerate.send/2`.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Frames that the driver did not accept, as in `wirerate.send/2`.
    #[fact(unit = "frames")]
    pub errors: u64,
    /// Times that a frame found a full queue or ring, as in `wirerate.send/2`: it waited, or the
    /// next frame took its place.
    pub retries: u64,
    /// Frames dropped by the receiving device before the capture program saw them.
    #[fact(unit = "frames")]
    pub lost_at_device: u64,
    /// Frames that reached the capture program.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames lost because a ring of the capture was full.
    #[fact(unit = "frames")]
    pub lost_ring: u64,
    /// Frames that the capture took out of the rings.
    #[fact(unit = "frames")]
    pub captured: u64,
    /// Of the frames captured, those in the file: the first 100,000.
    #[fact(unit = "frames")]
    pub written: u64,
    /// Of the frames captured, those that were only counted, since the file had enough.
    #[fact(unit = "frames")]
    pub after_limit: u64,
    /// Of the frames captured, those that the file did not take.
    #[fact(unit = "frames")]
    pub lost_disk: u64,
    /// Name of the file.
    pub file: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Duration of sending.
    pub duration_ns: u64,
    /// How frames were sent: the engine.
    pub engine: String,
    /// How frames were captured: how the capture program was attached.
    pub source: String,
    /// True if a signal ended the demo.
    pub stopped: bool,
}

impl Report {
    /// Frames lost, wherever it is known.
    pub fn lost(&self) -> u64 {
        self.lost_at_device + self.lost_ring + self.lost_disk
    }

    /// Frames that are missing, or too many, at any place without a counter that says why.
    pub fn unexplained(&self) -> u64 {
        [
            (self.offered, self.sent + self.errors),
            (self.sent, self.received + self.lost_at_device),
            (self.received, self.captured + self.lost_ring),
            (self.captured, self.written + self.after_limit + self.lost_disk),
        ]
        .iter()
        .map(|(before, after)| before.abs_diff(*after))
        .sum()
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        let whole = WholeReport { report: self, lost: self.lost(), unexplained: self.unexplained() };
        out::json_line(&DEMO, &whole)
    }
}

/// A report with what follows from its counts.
#[derive(Serialize, Described)]
struct WholeReport<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Frames lost, wherever it is known: `lost_at_device` + `lost_ring` + `lost_disk`.
    #[fact(unit = "frames")]
    lost: u64,
    /// Frames that are missing, or too many, at any place without a counter that says why; 0 if
    /// every frame is accounted for.
    #[fact(unit = "frames")]
    unexplained: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = human_duration(self.duration_ns);
        let stopped = if self.stopped { ", stopped" } else { "" };
        writeln!(f, "demo: {} frames from tx0 to rx0 in {time}{stopped}", human_count(self.sent))?;
        let mut table = Table::default();
        let rate = |count| human_pps(per_second(count, self.duration_ns));
        table.count("offered", self.offered, &format!("by the {} engine", self.engine));
        table.count("sent", self.sent, &format!("accepted by the driver, {}", rate(self.sent)));
        let or_none = |table: &mut Table, name, count, remark: &str| {
            if count > 0 {
                table.count(name, count, remark);
            }
        };
        if self.errors > 0 {
            table.loss("errors", self.errors, "the driver refused them");
        }
        or_none(&mut table, "retries", self.retries, "times the ring of the driver was full");
        table.count("received", self.received, &format!("at the other end ({})", self.source));
        table.count("captured", self.captured, "taken from the rings");
        let written = format!("the first ones: {}, {} bytes", self.file, human_count(self.file_bytes));
        table.count("written", self.written, &written);
        table.loss("lost", self.lost(), "");
        or_none(&mut table, "  device", self.lost_at_device, "the other end dropped them");
        or_none(
            &mut table,
            "  ring",
            self.lost_ring,
            "the capture's ring was full: its writer got too little CPU",
        );
        or_none(&mut table, "  disk", self.lost_disk, "the file took no more");
        table.loss("unexplained", self.unexplained(), "");
        fmt::Display::fmt(&table, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::golden;

    fn report() -> Report {
        Report {
            offered: 10_000_000,
            sent: 10_000_000,
            received: 10_000_000,
            captured: 10_000_000,
            written: 100_000,
            after_limit: 9_900_000,
            file: "wirerate-demo.pcapng".into(),
            file_bytes: 9_600_248,
            duration_ns: 1_250_000_000,
            engine: "xdp".into(),
            source: "XDP, native".into(),
            ..Report::default()
        }
    }

    fn lossy_report() -> Report {
        Report {
            offered: 10_000_010,
            errors: 10,
            retries: 90,
            lost_at_device: 7,
            received: 9_999_993,
            lost_ring: 93,
            captured: 9_999_900,
            after_limit: 9_899_000,
            lost_disk: 900,
            stopped: true,
            ..report()
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        golden("report_demo.txt", &format!("{}\n{}", report(), lossy_report()));
        golden("report_demo.json", &report().json_line());
    }

    #[test]
    fn a_frame_missing_anywhere_is_unexplained() {
        assert_eq!((report().unexplained(), lossy_report().unexplained()), (0, 0));
        for spoil in [
            |report: &mut Report| report.errors += 1,
            |report: &mut Report| report.lost_at_device += 1,
            |report: &mut Report| report.lost_ring += 1,
            |report: &mut Report| report.written -= 1,
        ] {
            let mut spoiled = lossy_report();
            spoil(&mut spoiled);
            assert_eq!(spoiled.unexplained(), 1);
        }
    }
}
