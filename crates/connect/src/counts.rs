//! What happened to connections: counters and times.

/// Counters of connections and of the segments of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the report")]
pub struct Counts {
    pub tried: u64,
    pub syn_resent: u64,
    pub established: u64,
    pub completed: u64,
    pub refused: u64,
    pub reset: u64,
    pub timeout: u64,
    pub cut_off: u64,
    pub requests: u64,
    pub requests_resent: u64,
    pub fins_resent: u64,
    pub responses: u64,
    /// New bytes of the server; each counts once.
    pub payload_bytes: u64,
    /// Segments with new data.
    pub segments: u64,
    pub syn_acks_repeated: u64,
    /// Segments whose data had arrived before.
    pub repeated: u64,
    /// Segments behind a gap.
    pub gaps: u64,
    /// Keepalive probes, all answered.
    pub keepalive: u64,
    /// SYNs that the server answered with an ACK for an earlier connection.
    pub challenged: u64,
    /// Segments that belong to no connection, or to none any more.
    pub strays: u64,
    /// HTTP responses without a Content-Length in their first segment.
    pub unsized_responses: u64,
    /// Connections that the server ended while they were held.
    pub ended_by_server: u64,
}

impl Counts {
    /// Connections that were not completed.
    pub fn failed(&self) -> u64 {
        self.refused + self.reset + self.timeout + self.cut_off
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
