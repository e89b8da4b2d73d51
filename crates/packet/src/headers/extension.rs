//! IPv6 extension headers that are lists of options or have no form of their own here: hop-by-hop,
//! destination options, mobility, HIP, shim6 (RFC 8200, section 4).

use super::bytes::view;

const HOME_ADDRESS: u8 = 201;

view!("an IPv6 extension header", 8, no halves);

impl View<'_> {
    /// Protocol of the next header.
    pub fn next(&self) -> u8 {
        self.0[0]
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        8 + usize::from(self.0[1]) * 8
    }

    /// Offset of the home address in destination options (RFC 6275): the source that checksums of
    /// the payload cover.
    pub fn home_address_at(&self) -> Option<usize> {
        let options = self.1.get(..self.header_len())?;
        let mut at = 2;
        while let Some(kind) = options.get(at) {
            let len = match kind {
                0 => 1,
                _ => 2 + usize::from(*options.get(at + 1)?),
            };
            if *kind == HOME_ADDRESS && len == 18 && at + len <= options.len() {
                return Some(at + 2);
            }
            at += len;
        }
        None
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { next: self.next(), len: self.header_len() }
    }
}

/// Fields of an extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Bytes of the header.
    pub len: usize,
}
