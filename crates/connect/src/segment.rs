//! Segments: those of the server, and those that answer them.

/// TCP flag: the sender has no more data.
pub const FIN: u8 = 0x01;
/// TCP flag: a connection begins.
pub const SYN: u8 = 0x02;
/// TCP flag: the connection is aborted.
pub const RST: u8 = 0x04;
/// TCP flag: the receiver passes on what it has.
pub const PSH: u8 = 0x08;
/// TCP flag: the acknowledgement number is valid.
pub const ACK: u8 = 0x10;

/// A segment of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Number of its first byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Bytes of its payload.
    pub len: u32,
    /// TCP flags.
    pub flags: u8,
    /// The segment length that a SYN-ACK accepts; 0 without the option.
    pub segment_max: u16,
    /// True if a SYN-ACK permits selective acknowledgements.
    pub sack: bool,
    /// Bytes of the whole HTTP response, if the payload is its begin and says so; 0 is unknown.
    pub http_len: u32,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// Number of its first byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Offset of its payload in the request.
    pub offset: u32,
    /// Bytes of its payload.
    pub len: u32,
    /// TCP flags.
    pub flags: u8,
    /// Ranges of the connection that are acknowledged selectively.
    pub gap_count: u8,
}

/// What follows from a segment of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is sent.
    Ignore,
    /// A segment is sent.
    Answer(Departure),
    /// The connection has ended, and nothing is sent.
    Over,
}
