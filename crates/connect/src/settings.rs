//! What the connections of a run do: requests, ends of responses, and who closes.

/// When a response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// With a segment that has PSH.
    Push,
    /// After this number of bytes.
    Bytes(u32),
    /// With the FIN of the server.
    Close,
    /// After the bytes of header and Content-Length, which the first segment has to name. Without
    /// them, with the FIN where the server ends the connection behind this response (RFC 9112,
    /// 6.3), otherwise with PSH.
    Http,
    /// With the first data.
    First,
}

/// Who ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The server, with its FIN.
    Server,
    /// The client, with its FIN, after the last response.
    Client,
    /// The client, with a reset, after the last response.
    Reset,
}

/// Settings of all connections of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a request; 0 for none.
    pub request_len: u32,
    /// Requests of a connection, one after another; 0 for none by itself.
    pub requests: u16,
    /// When a response is complete.
    pub response_end: ResponseEnd,
    /// Who ends a connection.
    pub close: Close,
    /// True if connections stay open until an order closes them.
    pub holds: bool,
    /// Bytes of a segment that the client accepts, and sends at most.
    pub segment_max: u16,
}
