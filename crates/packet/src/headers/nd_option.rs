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
/// Route (RFC 4191).
pub const ROUTE: u8 = 24;
/// Recursive DNS servers (RFC 8106).
pub const DNS_SERVERS: u8 = 25;

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
