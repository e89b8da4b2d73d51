//! GTP-U headers with extension headers (3GPP TS 29.281).

use super::bytes::view;

/// Bytes of the header that its length does not count.
pub const LEN_MIN: usize = 8;
/// Message type of user data.
const G_PDU: u8 = 255;
/// Messages without an address: echo request and response, supported extension headers, end marker.
const WITHOUT_ADDRESS: [u8; 4] = [1, 2, 31, 254];

view!("a GTP-U header", 8);

impl View<'_> {
    /// True for version 1 of GTP-U.
    fn is_version_1(&self) -> bool {
        self.0[0] & 0xf0 == 0x30
    }

    /// True if a packet of a user follows.
    pub fn is_user_data(&self) -> bool {
        self.is_version_1() && self.0[1] == G_PDU
    }

    /// True for messages about tunnels, which name hosts, such as an error indication.
    pub fn may_have_addresses(&self) -> bool {
        self.is_version_1() && !WITHOUT_ADDRESS.contains(&self.0[1])
    }

    /// Bytes behind the first 8.
    pub fn payload_len(&self) -> usize {
        usize::from(self.half(2))
    }

    /// Bytes of the header with its extension headers; nothing if they are not all there.
    pub fn header_len(&self) -> Option<usize> {
        if self.0[0] & 7 == 0 {
            return Some(LEN_MIN);
        }
        let mut len = LEN_MIN + 4;
        let mut next = *self.1.get(len - 1)?;
        while self.0[0] & 4 != 0 && next != 0 {
            let units = usize::from(*self.1.get(len)?);
            // An extension of no length would never end.
            len += units.max(1) * 4;
            next = *self.1.get(len - 1)?;
        }
        Some(len)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let teid = u32::from_be_bytes(*self.0[4..].first_chunk().expect("it has 8 bytes"));
        Fields { kind: self.0[1], payload_len: self.half(2), teid }
    }
}

/// Fields of a GTP-U header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Message type: 255 is user data.
    pub kind: u8,
    /// Bytes behind the first 8.
    pub payload_len: u16,
    /// Tunnel endpoint identifier.
    pub teid: u32,
}
