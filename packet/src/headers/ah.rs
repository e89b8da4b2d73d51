//! Authentication headers of IPsec (RFC 4302). What follows one is not encrypted.

use super::bytes::view;

view!("an authentication header", 8, no halves);

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
        let spi = u32::from_be_bytes(*self.0[4..].first_chunk().expect("it has 8 bytes"));
        Fields { next: self.next(), spi }
    }
}

/// Fields of an authentication header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Security parameters index.
    pub spi: u32,
}
