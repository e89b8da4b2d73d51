//! The row of a second.

use connect::Counts;
use facts::{ConnectFailures, UnusualSegments};
use program::row_printer::{Cell, Row, RowTime};

/// Counts since the start, and the rates of the last second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ConnectRow {
    /// When it was made.
    pub(super) time: RowTime,
    /// Connections that were tried.
    pub(super) tried: u64,
    /// Connections completed.
    pub(super) completed: u64,
    /// Connections that failed.
    pub(super) failed: u64,
    /// Connections open now.
    pub(super) open: u64,
    /// Connections completed per second since the previous row.
    pub(super) rate_cps: f64,
    /// Responses.
    pub(super) responses: u64,
    /// Responses per second since the previous row.
    pub(super) responses_ps: f64,
    /// Failed connections by cause.
    pub(super) failures: ConnectFailures,
    /// Unusual segments.
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
    fn document(&self) -> &'static facts::Document {
        &facts::CONNECT_SECOND
    }

    fn time(&self) -> RowTime {
        self.time
    }

    fn cells(&self) -> Vec<Cell> {
        [
            Cell::count("tried", self.tried),
            Cell::count("completed", self.completed),
            Cell::count("failed", self.failed),
            Cell::count("open", self.open),
            Cell::per_second("rate_cps", self.rate_cps),
            Cell::count("responses", self.responses),
            Cell::per_second("responses_ps", self.responses_ps),
        ]
        .into_iter()
        .chain(Cell::group(self.failures.each()))
        .chain(Cell::group(self.unusual.each()))
        .collect()
    }
}
