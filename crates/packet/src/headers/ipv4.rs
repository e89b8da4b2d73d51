//! IPv4 headers with options (RFC 791).

use super::bytes::view;
use std::net::Ipv4Addr;
use std::ops::Range;

/// Bytes of the header without options.
pub const LEN_MIN: usize = 20;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 10;
/// Offset of the source address; the destination follows it.
pub const SRC_AT: usize = 12;
/// Offset of the destination address.
pub const DST_AT: usize = 16;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const TRACEROUTE: u8 = 82;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

view!("an IPv4 header", 20);

/// Addresses in an option: the first, and the distance to each next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressList {
    /// Offset of the first address in the header.
    pub at: usize,
    /// Bytes from one address to the next.
    pub step: usize,
    /// Number of addresses.
    pub count: usize,
}

impl<'a> View<'a> {
    /// Bytes of the header with its options, 20 to 60; nothing for a header that says less or is
    /// not of version 4.
    pub fn header_len(&self) -> Option<usize> {
        let len = usize::from(self.0[0] & 0x0f) * 4;
        (self.0[0] >> 4 == 4 && len >= LEN_MIN).then_some(len)
    }

    /// Bytes of header and payload; 0 in packets that a network card was to cut.
    pub fn total_len(&self) -> usize {
        usize::from(self.half(2))
    }

    /// Offset of the fragment in its packet, in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.half(6) & 0x1fff) * 8
    }

    /// True for each fragment of a packet, the first included.
    pub fn is_fragment(&self) -> bool {
        self.half(6) & 0x3fff != 0
    }

    /// True if routers may not fragment the packet.
    pub fn has_dont_fragment(&self) -> bool {
        self.half(6) & 0x4000 != 0
    }

    /// Protocol of the payload.
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Options as (type, its place in the header), as far as the bytes have them.
    pub fn options(&self) -> impl Iterator<Item = (u8, Range<usize>)> + use<'a> {
        let end = self.header_len().unwrap_or(LEN_MIN).min(self.1.len());
        let (bytes, mut at) = (self.1, LEN_MIN);
        std::iter::from_fn(move || {
            let kind = *bytes[..end].get(at)?;
            let len = match kind {
                0 => return None,
                1 => 1,
                _ => usize::from(*bytes[..end].get(at + 1)?),
            };
            let option = at..at + len;
            let is_whole = option.end <= end && (kind == 1 || len >= 2);
            at = option.end;
            is_whole.then_some((kind, option))
        })
    }

    /// Offset of an option of which bytes are missing, or whose length is wrong.
    pub fn unread_option_at(&self) -> Option<usize> {
        let header_len = self.header_len().unwrap_or(LEN_MIN);
        let end = self.options().last().map_or(LEN_MIN, |(_, place)| place.end);
        let is_over = end >= header_len || self.1.get(end) == Some(&0);
        (!is_over).then_some(end)
    }

    /// Addresses of source routes, recorded routes, timestamps and traceroute.
    pub fn address_lists(&self) -> impl Iterator<Item = AddressList> + use<'a> {
        let bytes = self.1;
        self.options().filter_map(move |(kind, place)| {
            let (at, len) = (place.start, place.len());
            let pointer = usize::from(*bytes.get(at + 2)?);
            let (start, step, is_recorded) = match kind {
                LOOSE_ROUTE | STRICT_ROUTE => (3, 4, false),
                RECORD_ROUTE => (3, 4, true),
                // The host that sent the first packet (RFC 1393).
                TRACEROUTE => (8, 4, false),
                TIMESTAMP => match bytes.get(at + 3)? & 0x0f {
                    1 => (4, 8, true),
                    // The addresses were given by the sender.
                    3 => (4, 8, false),
                    _ => return None,
                },
                _ => return None,
            };
            let slots = len.saturating_sub(start) / step;
            let count = if is_recorded {
                // Behind the pointer, slots of recorded addresses are empty, which is zeros.
                let recorded = (pointer.saturating_sub(1).min(len)).saturating_sub(start) / step;
                let has_bytes = |slot: &usize| {
                    let slot_at = at + start + slot * step;
                    bytes.get(slot_at..slot_at + 4).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
                };
                (recorded..slots).rfind(has_bytes).map_or(recorded, |slot| slot + 1)
            } else {
                slots
            };
            Some(AddressList { at: at + start, step, count })
        })
    }

    /// Offset in the header of the address that checksums of the payload cover as destination: the
    /// last of a source route, while the packet has not come to its end.
    pub fn final_dst_at(&self) -> usize {
        let route = self.options().find(|(kind, place)| {
            let is_route = matches!(*kind, LOOSE_ROUTE | STRICT_ROUTE) && place.len() >= 7;
            is_route && usize::from(self.1[place.start + 2]) <= place.len()
        });
        route.map_or(DST_AT, |(_, place)| place.start + 3 + (place.len() - 3) / 4 * 4 - 4)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let address = |at: usize| Ipv4Addr::from_octets(*self.0[at..].first_chunk().expect("20 bytes"));
        Fields {
            tos: self.0[1],
            total_len: self.half(2),
            id: self.half(4),
            fragment: self.half(6),
            ttl: self.0[8],
            protocol: self.0[9],
            checksum: self.half(CHECKSUM_AT),
            src: address(SRC_AT),
            dst: address(DST_AT),
        }
    }
}

/// Fields of an IPv4 header without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of service.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Checksum.
    pub checksum: u16,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}
