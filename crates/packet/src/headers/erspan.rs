//! ERSPAN headers of types II and III (draft-foschiano-erspan), which mirrored frames follow.

use super::bytes::view;

view!("an ERSPAN header", 8);

impl View<'_> {
    /// Bytes of the header: 8 of type II, 12 or 20 of type III. Nothing for other versions.
    pub fn header_len(&self, bytes: &[u8]) -> Option<usize> {
        match self.0[0] >> 4 {
            1 => Some(8),
            2 => Some(if bytes.get(11)? & 1 == 0 { 12 } else { 20 }),
            _ => None,
        }
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { version: self.0[0] >> 4, vlan: self.half(0) & 0xfff, session: self.half(2) & 0x3ff }
    }
}

/// Fields of an ERSPAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// 1 for type II, 2 for type III.
    pub version: u8,
    /// VLAN ID of the mirrored frame.
    pub vlan: u16,
    /// Session ID, 10 bits.
    pub session: u16,
}
