//! VXLAN headers (RFC 7348), and those of VXLAN-GPE.

use super::bytes::view;

/// Bytes of the header.
pub const LEN: usize = 8;

view!("a VXLAN header", 8, no halves);

impl View<'_> {
    /// True if the network identifier counts, as in each VXLAN header.
    pub fn has_vni(&self) -> bool {
        self.0[0] & 0x08 != 0
    }

    /// Next protocol of VXLAN-GPE: 1 is IPv4, 2 IPv6, 3 Ethernet; 0 without that flag.
    pub fn next(&self) -> u8 {
        if self.0[0] & 0x04 != 0 { self.0[3] } else { 0 }
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { vni: u32::from_be_bytes([0, self.0[4], self.0[5], self.0[6]]) }
    }
}

/// Fields of a VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Network identifier, 24 bits.
    pub vni: u32,
}
