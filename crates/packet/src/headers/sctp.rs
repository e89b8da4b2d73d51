//! SCTP common headers (RFC 9260).

use super::bytes::view;

/// Bytes of the header.
pub const LEN: usize = 12;
/// Offset of the checksum, a CRC32c with its least significant byte first.
pub const CHECKSUM_AT: usize = 8;

view!("an SCTP header", 12);

impl View<'_> {
    /// The fields.
    pub fn fields(&self) -> Fields {
        let word = |at: usize| *self.0[at..].first_chunk().expect("it has 12 bytes");
        Fields {
            src_port: self.half(0),
            dst_port: self.half(2),
            tag: u32::from_be_bytes(word(4)),
            checksum: u32::from_le_bytes(word(CHECKSUM_AT)),
        }
    }
}

/// Fields of an SCTP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Verification tag.
    pub tag: u32,
    /// CRC32c.
    pub checksum: u32,
}
