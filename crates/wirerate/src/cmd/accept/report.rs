//! Rows and report of `wirerate accept`: text, or JSON as `wirerate.accept/1`.

use engine::AcceptCounts;
use facts::{Described, Document, ServerSegments};
use program::out;
use program::row_printer::{Row, RowTime, WIDE};
use serde::Serialize;
use std::fmt;
use units::{Table, human_count};

/// The report.
pub const ACCEPT: Document = Document::of::<Report>("wirerate.accept/1", "wirerate accept --json");

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Its network namespace; `null` without one.
    pub netns: Option<String>,
    /// Addresses and ports that it answers for.
    pub server: String,
    /// How the XDP program was attached.
    pub xdp: String,
    /// Duration of the run.
    pub duration_ns: u64,
    /// Segments of connections.
    #[serde(flatten)]
    pub segments: ServerSegments,
    /// SYNs answered per second while clients opened connections; `null` for fewer than 10.
    #[fact(unit = "1/s")]
    pub accepted_ps: Option<f64>,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of responses.
    pub response_bytes: u64,
    /// Answers to ARP and neighbour solicitations.
    #[fact(unit = "frames")]
    pub neighbours: u64,
    /// Frames that the host received.
    #[fact(unit = "frames")]
    pub passed: u64,
    /// `true` if the device was deleted before the end.
    pub is_device_gone: bool,
}

impl Report {
    /// Takes the counters.
    pub(super) fn count(&mut self, counts: &AcceptCounts) {
        self.segments = counts.segments;
        self.request_bytes = counts.request_bytes;
        self.response_bytes = counts.response_bytes;
        self.neighbours = counts.neighbours;
        self.passed = counts.passed;
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&ACCEPT, self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.netns.as_ref().map_or_else(String::new, |netns| format!(" in {netns}"));
        let seconds = self.duration_ns as f64 / 1e9;
        let rate = self.accepted_ps.map(|rate| human_count(rate.round() as u64));
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate}/s while they came"));
        let accepted = human_count(self.segments.accepted);
        writeln!(f, "{}{place}: {accepted} connections accepted in {seconds:.3} s{rate}", self.device)?;
        let mut table = Table::default();
        let bytes = |bytes: u64| format!("{} bytes of payload", human_count(bytes));
        for (fact, count) in self.segments.each().filter_map(|(fact, count)| Some((fact, count?))) {
            let remark = match fact.name {
                "requests" => bytes(self.request_bytes),
                "responses" => bytes(self.response_bytes),
                "not_written" if count == 0 => continue,
                _ => fact.remark(),
            };
            table.count(&fact.title(), count, &remark);
        }
        table.text("source", &self.xdp);
        fmt::Display::fmt(&table, f)
    }
}

/// The row of a second: counts since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct AcceptRow {
    /// When it was made.
    #[serde(flatten)]
    pub(super) time: RowTime,
    /// Segments of connections.
    #[serde(flatten)]
    pub(super) segments: ServerSegments,
    /// SYNs answered per second since the previous object.
    #[fact(unit = "1/s")]
    pub(super) accepted_ps: f64,
}

impl Row for AcceptRow {
    const DOCUMENT: Document =
        Document::of::<Self>("wirerate.accept-second/1", "wirerate accept --json --every-second");
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("accepted", WIDE), ("accepted_ps", WIDE), ("requests", WIDE), ("closed", WIDE), ("resets", WIDE)];

    fn time(&self) -> RowTime {
        self.time
    }
}
