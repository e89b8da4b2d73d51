//! What happened to connections: counters and times.

use facts::{ConnectFailures, UnusualSegments};

/// Counters of connections and of the segments of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the report")]
pub struct Counts {
    pub tried: u64,
    pub established: u64,
    pub completed: u64,
    pub failures: ConnectFailures,
    pub requests: u64,
    pub responses: u64,
    /// New bytes of the server; each counts once.
    pub payload_bytes: u64,
    /// Segments with new data.
    pub segments: u64,
    /// Unusual segments.
    pub unusual: UnusualSegments,
    /// HTTP responses without a Content-Length in their first segment.
    pub unsized_responses: u64,
    /// Connections that the server ended while they were held.
    pub ended_by_server: u64,
}

impl Counts {
    /// Connections that were not completed.
    pub fn failed(&self) -> u64 {
        self.failures.total()
    }
}

/// What one segment or order did, with the times that it took in units of 256 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// From SYN to SYN-ACK.
    pub connected: Option<u32>,
    /// From the request to the first byte of its response.
    pub first_byte: Option<u32>,
    /// An open connection has ended.
    pub over: bool,
    /// From the first SYN to the end of a complete connection.
    pub completed: Option<u32>,
}
