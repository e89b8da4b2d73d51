//! TCP headers (RFC 9293).

use super::bytes::view;

/// Bytes of the header without options.
pub const LEN_MIN: usize = 20;
/// Offset of the flags.
pub const FLAGS_AT: usize = 13;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 16;

view!("a TCP header", 20);

impl View<'_> {
    /// Bytes of the header with options, 0 to 60.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let word = |at: usize| u32::from_be_bytes(*self.0[at..].first_chunk().expect("it has 20 bytes"));
        Fields {
            src_port: self.half(0),
            dst_port: self.half(2),
            sequence: word(4),
            acknowledgement: word(8),
            flags: self.half(12) & 0xfff,
            window: self.half(14),
            checksum: self.half(CHECKSUM_AT),
        }
    }
}

/// Fields of a TCP header without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags, 12 bits.
    pub flags: u16,
    /// Window.
    pub window: u16,
    /// Checksum.
    pub checksum: u16,
}
