//! ESP headers of IPsec (RFC 4303). What follows one is encrypted.

use super::bytes::view;

view!("an ESP header", 8, no halves);

impl View<'_> {
    /// The fields.
    pub fn fields(&self) -> Fields {
        let word = |at: usize| u32::from_be_bytes(*self.0[at..].first_chunk().expect("it has 8 bytes"));
        Fields { spi: word(0), sequence: word(4) }
    }
}

/// Fields of an ESP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}
