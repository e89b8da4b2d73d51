//! PPPoE session headers (RFC 2516) with the protocol of PPP behind them.

use super::bytes::view;

/// Bytes of the PPPoE header, before the protocol of PPP.
pub const LEN: usize = 6;
/// PPP protocols of IPv4, IPv6 and MPLS.
pub const PPP_IPV4: u16 = 0x0021;
/// IPv6.
pub const PPP_IPV6: u16 = 0x0057;
/// MPLS.
pub const PPP_MPLS: u16 = 0x0281;

view!("a PPPoE session header", 8);

impl View<'_> {
    /// Bytes behind the header, the protocol of PPP included.
    pub fn payload_len(&self) -> usize {
        usize::from(self.half(4))
    }

    /// Protocol of PPP.
    pub fn protocol(&self) -> u16 {
        self.half(6)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { session: self.half(2), payload_len: self.half(4), protocol: self.protocol() }
    }
}

/// Fields of a PPPoE session header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Session ID.
    pub session: u16,
    /// Bytes behind the header, the protocol of PPP included.
    pub payload_len: u16,
    /// Protocol of PPP.
    pub protocol: u16,
}
