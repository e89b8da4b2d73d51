//! Rows and report of `wirerate accept`: text, or JSON as `wirerate.accept/1`.

use engine::AcceptCounts;
use program::out;
use program::row_printer::{Cell, Row, RowTime};
use serde::Serialize;
use std::fmt;
use units::{Table, human_count};

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Its namespace, as the user named it.
    pub netns: Option<String>,
    /// Addresses and ports.
    pub server: String,
    /// How the XDP program was attached.
    pub xdp: String,
    /// Time of the run.
    pub duration_ns: u64,
    /// SYNs answered; a repeated SYN counts again.
    pub accepted: u64,
    /// SYNs answered per second, while clients opened connections; `None` for fewer than 10.
    pub accepted_ps: Option<f64>,
    /// Segments with data.
    pub requests: u64,
    /// Responses.
    pub responses: u64,
    /// FINs of clients; a repeated FIN counts again.
    pub closed: u64,
    /// Resets of clients.
    pub resets: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of responses.
    pub response_bytes: u64,
    /// Answers to ARP and neighbour solicitations.
    pub neighbours: u64,
    /// Frames that the host received.
    pub passed: u64,
    /// Answers that did not fit into the frame that they answer; the client asks again.
    pub not_written: u64,
    /// True if the device was deleted before the end.
    pub is_device_gone: bool,
}

impl Report {
    /// Takes the counters.
    pub(super) fn count(&mut self, counts: &AcceptCounts) {
        self.accepted = counts.accepted;
        self.requests = counts.requests;
        self.responses = counts.responses;
        self.closed = counts.closed;
        self.resets = counts.resets;
        self.request_bytes = counts.request_bytes;
        self.response_bytes = counts.response_bytes;
        self.neighbours = counts.neighbours;
        self.passed = counts.passed;
        self.not_written = counts.not_written;
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&facts::ACCEPT, self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.netns.as_ref().map_or_else(String::new, |netns| format!(" in {netns}"));
        let seconds = self.duration_ns as f64 / 1e9;
        let rate = self.accepted_ps.map(|rate| human_count(rate.round() as u64));
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate}/s while they came"));
        let accepted = human_count(self.accepted);
        writeln!(f, "{}{place}: {accepted} connections accepted in {seconds:.3} s{rate}", self.device)?;
        let mut table = Table::default();
        let bytes = |bytes: u64| format!("{} bytes of payload", human_count(bytes));
        table.count("accepted", self.accepted, "SYNs answered");
        table.count("requests", self.requests, &bytes(self.request_bytes));
        table.count("responses", self.responses, &bytes(self.response_bytes));
        table.count("closed", self.closed, "FINs of clients");
        table.count("resets", self.resets, "of clients");
        if self.not_written > 0 {
            table.count("not sent", self.not_written, "answers did not fit into the frame");
        }
        table.text("source", &self.xdp);
        fmt::Display::fmt(&table, f)
    }
}

/// The row of a second: counts since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AcceptRow {
    /// When it was made.
    pub(super) time: RowTime,
    /// SYNs answered.
    pub(super) accepted: u64,
    /// SYNs answered per second since the previous row.
    pub(super) accepted_ps: f64,
    /// Requests.
    pub(super) requests: u64,
    /// FINs of clients.
    pub(super) closed: u64,
    /// Resets of clients.
    pub(super) resets: u64,
}

impl Row for AcceptRow {
    fn document(&self) -> &'static facts::Document {
        &facts::ACCEPT_SECOND
    }

    fn time(&self) -> RowTime {
        self.time
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::count("accepted", self.accepted),
            Cell::per_second("accepted_ps", self.accepted_ps),
            Cell::count("requests", self.requests),
            Cell::count("closed", self.closed),
            Cell::count("resets", self.resets),
        ]
    }
}
