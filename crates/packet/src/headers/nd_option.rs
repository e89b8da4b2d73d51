//! Options of neighbour discovery (RFC 4861, section 4.6).

use std::ops::Range;

/// Source link-layer address.
pub const SOURCE_LINK: u8 = 1;
/// Target link-layer address.
pub const TARGET_LINK: u8 = 2;
/// Prefix of a router advertisement.
pub const PREFIX: u8 = 3;
/// The packet that was redirected.
pub const REDIRECTED: u8 = 4;
/// Addresses of the source in inverse neighbour discovery (RFC 3122).
pub const SOURCE_ADDRESSES: u8 = 9;
/// Addresses of the target in inverse neighbour discovery.
pub const TARGET_ADDRESSES: u8 = 10;
/// Address or prefix of a fast handover (RFC 5568).
pub const HANDOVER_ADDRESS: u8 = 17;
/// Route (RFC 4191).
pub const ROUTE: u8 = 24;
/// Recursive DNS servers (RFC 8106).
pub const DNS_SERVERS: u8 = 25;
/// Context of header compression (RFC 6775).
pub const CONTEXT: u8 = 34;
/// Border router (RFC 6775).
pub const BORDER_ROUTER: u8 = 35;
/// Prefix of NAT64 (RFC 8781), its first 12 bytes.
pub const NAT64_PREFIX: u8 = 38;
/// Encrypted DNS (RFC 9463), whose servers are not read.
pub const ENCRYPTED_DNS: u8 = 144;

/// The bytes of the options of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Of the bytes behind the fixed part of a message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The options, as far as the bytes have them.
    pub fn fields(&self) -> impl Iterator<Item = Fields> + use<'a> {
        let (bytes, mut at) = (self.0, 0);
        std::iter::from_fn(move || {
            let [kind, units] = *bytes.get(at..)?.first_chunk()?;
            let place = at..at + usize::from(units) * 8;
            at = place.end;
            (units > 0 && place.end <= bytes.len()).then_some(Fields { kind, place })
        })
    }
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of the option.
    pub kind: u8,
    /// Its place among the options.
    pub place: Range<usize>,
}
