//! LLC headers of 802.3 frames (IEEE 802.2), with SNAP.

use super::bytes::view;

/// Bytes of LLC and SNAP.
pub const SNAP_LEN: usize = 8;

view!("an LLC header", 3, no halves);

impl View<'_> {
    /// True if an IPv4 packet follows without SNAP (RFC 948).
    pub fn is_ipv4(&self) -> bool {
        *self.0 == [6, 6, 3]
    }

    /// EtherType of SNAP, also of a bridged tunnel (IEEE 802.1H); nothing for other LLC frames,
    /// such as those of spanning tree.
    pub fn ether_type(&self) -> Option<u16> {
        let snap = self.1.get(..SNAP_LEN)?;
        let is_snap = matches!(snap[..6], [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8]);
        is_snap.then(|| u16::from_be_bytes([snap[6], snap[7]]))
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { dsap: self.0[0], ssap: self.0[1], ether_type: self.ether_type() }
    }
}

/// Fields of an LLC header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Destination service access point.
    pub dsap: u8,
    /// Source service access point.
    pub ssap: u8,
    /// EtherType of SNAP.
    pub ether_type: Option<u16>,
}
