//! Linux "cooked" headers of captures on `any`: SLL and SLL2.

use super::bytes::half;

/// Bytes of SLL.
pub const SLL_LEN: usize = 16;
/// Bytes of SLL2.
pub const SLL2_LEN: usize = 20;
/// Protocol value of 802.2 frames.
const LLC: u16 = 4;

/// The bytes of a cooked header of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    bytes: &'a [u8],
    is_v2: bool,
}

impl<'a> View<'a> {
    /// Of bytes that begin with SLL, or with SLL2; nothing if they are too few.
    pub fn new(bytes: &'a [u8], is_v2: bool) -> Option<Self> {
        let len = if is_v2 { SLL2_LEN } else { SLL_LEN };
        Some(Self { bytes: bytes.get(..len)?, is_v2 })
    }

    /// EtherType of the packet; values below 0x0600 are kinds of Linux.
    pub fn protocol(&self) -> u16 {
        half(self.bytes, if self.is_v2 { 0 } else { 14 }).expect("the header is whole")
    }

    /// True for a packet that begins with an LLC header.
    pub fn is_llc(&self) -> bool {
        self.protocol() == LLC
    }

    /// Offset of the source address if it is a MAC address.
    pub fn mac_at(&self) -> Option<usize> {
        match self.is_v2 {
            true => (self.bytes[11] == 6).then_some(12),
            false => (half(self.bytes, 4) == Some(6)).then_some(6),
        }
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { protocol: self.protocol(), has_mac: self.mac_at().is_some() }
    }
}

/// Fields of a cooked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// EtherType of the packet; values below 0x0600 are kinds of Linux.
    pub protocol: u16,
    /// The source address is a MAC address.
    pub has_mac: bool,
}
