//! IPv6 routing headers: types 0 and 2 (RFC 8200, RFC 6275), and the segments of SRv6 (RFC 8754).

use super::bytes::view;

const SOURCE_ROUTE: u8 = 0;
const HOME_ADDRESS: u8 = 2;
const SEGMENTS: u8 = 4;

view!("a routing header", 8, no halves);

impl View<'_> {
    /// Protocol of the next header.
    pub fn next(&self) -> u8 {
        self.0[0]
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        8 + usize::from(self.0[1]) * 8
    }

    /// Number of addresses, which begin 8 bytes behind the start of the header; 0 for types that
    /// are not known.
    pub fn address_count(&self) -> usize {
        let count_max = usize::from(self.0[1]) / 2;
        match self.0[2] {
            SOURCE_ROUTE | HOME_ADDRESS => count_max,
            SEGMENTS => count_max.min(usize::from(self.0[4]) + 1),
            _ => 0,
        }
    }

    /// Offset of the final destination, which checksums of the payload cover while segments are
    /// left.
    pub fn final_dst_at(&self) -> Option<usize> {
        let count = self.address_count();
        let place = if self.0[2] == SEGMENTS { 0 } else { count.checked_sub(1)? };
        (self.0[3] > 0 && count > 0).then_some(8 + place * 16)
    }

    /// True for a type whose addresses are not read, and that may have some.
    pub fn hides_addresses(&self) -> bool {
        !matches!(self.0[2], SOURCE_ROUTE | HOME_ADDRESS | SEGMENTS) && self.0[1] > 0
    }

    /// True if the final destination is not known: segments are left of a type that is not read.
    pub fn hides_final_dst(&self) -> bool {
        self.0[3] > 0 && self.final_dst_at().is_none()
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { next: self.next(), len: self.header_len(), kind: self.0[2], segments_left: self.0[3] }
    }
}

/// Fields of a routing header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Bytes of the header.
    pub len: usize,
    /// Type of routing: 4 is SRv6.
    pub kind: u8,
    /// Addresses that the packet has still to pass.
    pub segments_left: u8,
}
