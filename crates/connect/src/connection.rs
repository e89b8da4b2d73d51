//! One connection: its state, its numbers and its times.

/// Times of a connection are nanoseconds since boot, shifted right by this: units of 256 ns.
pub const TIME_SHIFT: u32 = 8;
/// Bytes of a segment that a server accepts if its SYN-ACK does not say (RFC 9293, 3.7.1).
pub const SEGMENT_MAX_DEFAULT: u16 = 536;
/// A server that asks for shorter segments gets these.
pub const SEGMENT_MAX_LEAST: u16 = 64;

/// Ranges that a connection remembers.
pub const GAPS_MAX: usize = 3;

/// Sequence numbers from `first` on, without `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The first number.
    pub first: u32,
    /// The number behind the last one.
    pub end: u32,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Never used.
    #[default]
    Free = 0,
    /// The SYN is sent.
    SynSent = 1,
    /// Established, without an outstanding request.
    Open = 2,
    /// A request is sent, and its response is not complete.
    Asked = 3,
    /// The FIN of the client is sent, and the end is not reached.
    FinSent = 4,
    /// Complete: the FINs of both sides are acknowledged, or the client has reset it at its end.
    Done = 5,
    /// A reset answered the SYN.
    Refused = 6,
    /// The server reset it.
    Reset = 7,
    /// No progress within the timeout.
    Timeout = 8,
    /// The server ended it within a response.
    CutOff = 9,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Free,
        Self::SynSent,
        Self::Open,
        Self::Asked,
        Self::FinSent,
        Self::Done,
        Self::Refused,
        Self::Reset,
        Self::Timeout,
        Self::CutOff,
    ];

    /// The state of a number.
    ///
    /// # Panics
    /// If no state has it.
    pub fn from_number(number: u8) -> Self {
        Self::ALL[usize::from(number)]
    }

    /// True from the SYN until the connection has ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::SynSent | Self::Open | Self::Asked | Self::FinSent)
    }
}

/// Bits of [`Connection::flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    /// The server has sent its FIN.
    FinSeen = 0x1,
    /// The last segment of data was not acknowledged by itself.
    Skipped = 0x2,
    /// The server permits selective acknowledgements.
    Sack = 0x4,
    /// The first byte of the response has arrived.
    Begun = 0x8,
    /// The server has sent its FIN within a response.
    Cut = 0x10,
    /// A segment behind a gap had PSH.
    GapPush = 0x20,
    /// It must send again without waiting for the retransmission time.
    Due = 0x40,
    /// [`Connection::left`] is the length that the response still has.
    Sized = 0x80,
}

/// One connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Where it is.
    pub state: State,
    /// Bits of [`Flag`].
    pub flags: u8,
    /// Frames that were sent again since the last progress.
    pub tries: u8,
    /// Used entries of [`Self::gaps`].
    pub gap_count: u8,
    /// The first number that the server has not acknowledged.
    pub snd_una: u32,
    /// The next number to send.
    pub snd_nxt: u32,
    /// The next number expected from the server.
    pub rcv_nxt: u32,
    /// Time of the first SYN.
    pub begun_at: u32,
    /// Time of the last request.
    pub asked_at: u32,
    /// Time of the last progress.
    pub progress_at: u32,
    /// Missing bytes of the response.
    pub left: u32,
    /// Requests that were sent.
    pub requests: u16,
    /// Bytes of a segment that the server accepts.
    pub segment_max: u16,
    /// Ranges of data behind a gap.
    pub gaps: [Gap; GAPS_MAX],
}

/// True if `a` is behind `b`, modulo 2^32.
pub(crate) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl Connection {
    /// A connection whose SYN has the number `number`.
    pub fn opened(number: u32, now: u32) -> Self {
        Self {
            state: State::SynSent,
            snd_una: number,
            snd_nxt: number.wrapping_add(1),
            begun_at: now,
            asked_at: now,
            progress_at: now,
            ..Self::default()
        }
    }

    /// True if a flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    pub(crate) fn set(&mut self, flag: Flag) {
        self.flags |= flag as u8;
    }

    pub(crate) fn clear(&mut self, flag: Flag) {
        self.flags &= !(flag as u8);
    }

    /// The number behind the last byte of the requests that were sent.
    pub(crate) fn data_end(&self) -> u32 {
        self.snd_nxt.wrapping_sub(u32::from(self.state == State::FinSent))
    }
}
