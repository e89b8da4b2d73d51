//! GENEVE headers with options (RFC 8926).

use super::bytes::view;

view!("a GENEVE header", 8);

impl View<'_> {
    /// Bytes of the header with its options; nothing for another version.
    pub fn header_len(&self) -> Option<usize> {
        (self.0[0] >> 6 == 0).then(|| 8 + usize::from(self.0[0] & 0x3f) * 4)
    }

    /// EtherType of the payload.
    pub fn protocol(&self) -> u16 {
        self.half(2)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let vni = u32::from_be_bytes([0, self.0[4], self.0[5], self.0[6]]);
        Fields { vni, protocol: self.protocol() }
    }
}

/// Fields of a GENEVE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Network identifier, 24 bits.
    pub vni: u32,
    /// EtherType of the payload.
    pub protocol: u16,
}
