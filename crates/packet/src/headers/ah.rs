//! Authentication headers of IPsec (RFC 4302). What follows one is not encrypted.

use super::bytes::view;

view!("an authentication header", 12, no halves);

impl View<'_> {
    /// Protocol of the next header.
    pub fn next(&self) -> u8 {
        self.0[0]
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        8 + usize::from(self.0[1]) * 4
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let word = |at: usize| u32::from_be_bytes(*self.0[at..].first_chunk().expect("it has 12 bytes"));
        Fields { next: self.next(), spi: word(4), sequence: word(8) }
    }
}

/// Fields of an authentication header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}
