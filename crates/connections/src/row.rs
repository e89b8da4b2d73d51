//! The row of a second.

use connect::Counts;
use facts::{ConnectFailures, Described, Document, UnusualSegments};
use program::row_printer::{Row, RowTime, WIDE};
use serde::Serialize;

/// Counts since the start, and the rates of the last second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct ConnectRow {
    /// When it was made.
    #[serde(flatten)]
    pub(super) time: RowTime,
    /// Connections that were tried.
    pub(super) tried: u64,
    /// Connections that went through all of their states.
    pub(super) completed: u64,
    /// Connections that failed.
    pub(super) failed: u64,
    /// Connections that are open.
    pub(super) open: u64,
    /// Connections completed per second since the previous object.
    pub(super) rate_cps: f64,
    /// Complete responses.
    pub(super) responses: u64,
    /// Responses per second since the previous object.
    #[fact(unit = "1/s")]
    pub(super) responses_ps: f64,
    /// Failed connections by cause.
    #[serde(flatten)]
    pub(super) failures: ConnectFailures,
    /// Unusual segments.
    #[serde(flatten)]
    pub(super) unusual: UnusualSegments,
}

impl ConnectRow {
    /// A row after `last`.
    pub(super) fn new(time: RowTime, counts: &Counts, open: u64, last: Option<&Self>) -> Self {
        let passed_s = (time.elapsed_ns - last.map_or(0, |last| last.time.elapsed_ns)).max(1) as f64 / 1e9;
        let since = |now: u64, then: Option<u64>| (now - then.unwrap_or(0)) as f64 / passed_s;
        Self {
            time,
            tried: counts.tried,
            completed: counts.completed,
            failed: counts.failed(),
            open,
            rate_cps: since(counts.completed, last.map(|last| last.completed)),
            responses: counts.responses,
            responses_ps: since(counts.responses, last.map(|last| last.responses)),
            failures: counts.failures,
            unusual: counts.unusual,
        }
    }
}

impl Row for ConnectRow {
    const DOCUMENT: Document =
        Document::of::<Self>("wirerate.connect-second/1", "wirerate connect --json --every-second");
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("tried", WIDE),
        ("completed", WIDE),
        ("failed", WIDE),
        ("open", WIDE),
        ("rate_cps", WIDE),
        ("responses", WIDE),
        ("responses_ps", WIDE),
    ];

    fn time(&self) -> RowTime {
        self.time
    }
}
