//! IPv6 fragment headers (RFC 8200, section 4.5).

use super::bytes::view;

/// Bytes of the header.
pub const LEN: usize = 8;

view!("a fragment header", 8);

impl View<'_> {
    /// Protocol of the next header.
    pub fn next(&self) -> u8 {
        self.0[0]
    }

    /// Offset of the fragment in its packet, in bytes.
    pub fn offset(&self) -> usize {
        usize::from(self.half(2) & 0xfff8)
    }

    /// True for each fragment of a packet, but not for a packet in one fragment (RFC 6946).
    pub fn is_fragment(&self) -> bool {
        self.half(2) & 0xfff9 != 0
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let id = u32::from_be_bytes(*self.0[4..].first_chunk().expect("it has 8 bytes"));
        Fields { next: self.next(), offset: self.offset(), has_more: self.half(2) & 1 != 0, id }
    }
}

/// Fields of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Offset of the fragment in its packet, in bytes.
    pub offset: usize,
    /// Fragments follow.
    pub has_more: bool,
    /// Identification.
    pub id: u32,
}
