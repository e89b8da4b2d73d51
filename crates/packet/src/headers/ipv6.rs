//! IPv6 headers (RFC 8200).

use super::bytes::view;
use std::net::Ipv6Addr;

/// Bytes of the header.
pub const LEN: usize = 40;
/// Offset of the source address.
pub const SRC_AT: usize = 8;
/// Offset of the destination address.
pub const DST_AT: usize = 24;

view!("an IPv6 header", 40);

impl View<'_> {
    /// True if the version is 6.
    pub fn is_version_6(&self) -> bool {
        self.0[0] >> 4 == 6
    }

    /// Bytes behind the header; 0 in jumbograms and in packets that a network card was to cut.
    pub fn payload_len(&self) -> usize {
        usize::from(self.half(4))
    }

    /// Protocol of the first header behind this one.
    pub fn next(&self) -> u8 {
        self.0[6]
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let address = |at: usize| Ipv6Addr::from_octets(*self.0[at..].first_chunk().expect("40 bytes"));
        let first = u32::from_be_bytes(*self.0.first_chunk().expect("40 bytes"));
        Fields {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len: self.half(4),
            next: self.0[6],
            hop_limit: self.0[7],
            src: address(SRC_AT),
            dst: address(DST_AT),
        }
    }
}

/// Fields of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes behind the header.
    pub payload_len: u16,
    /// Protocol of the first header behind this one.
    pub next: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}
