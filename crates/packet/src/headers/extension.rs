//! IPv6 extension headers that are lists of options or have no form of their own here: hop-by-hop,
//! destination options, mobility, HIP, shim6 (RFC 8200, section 4).

use super::bytes::view;
use std::ops::Range;

const PAD_1: u8 = 0;
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
        let header = self.1.get(..self.header_len())?;
        let home = options(header, 2).find(|(kind, place)| *kind == HOME_ADDRESS && place.len() == 18);
        home.map(|(_, place)| place.start + 2)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { next: self.next(), len: self.header_len() }
    }
}

/// The options of a header from `at` on as (type, its place in the header), without padding of one
/// byte, as far as the header has them.
pub(super) fn options(header: &[u8], mut at: usize) -> impl Iterator<Item = (u8, Range<usize>)> {
    std::iter::from_fn(move || {
        while header.get(at) == Some(&PAD_1) {
            at += 1;
        }
        let [kind, len] = *header.get(at..)?.first_chunk()?;
        let place = at..at + 2 + usize::from(len);
        at = place.end;
        (place.end <= header.len()).then_some((kind, place))
    })
}

/// Fields of an extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Bytes of the header.
    pub len: usize,
}
