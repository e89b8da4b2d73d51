//! UDP headers (RFC 768), and ports of tunnels.

use super::bytes::view;

/// Bytes of the header.
pub const LEN: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 6;
/// Port of GTP user data (3GPP TS 29.281).
pub const GTP_U_PORT: u16 = 2152;
/// Port of ESP in UDP (RFC 3948).
pub const ESP_PORT: u16 = 4500;
/// Port of VXLAN (RFC 7348), and the one that Linux used before.
pub const VXLAN_PORTS: [u16; 2] = [4789, 8472];
/// Port of VXLAN-GPE.
pub const VXLAN_GPE_PORT: u16 = 4790;
/// Port of GENEVE (RFC 8926).
pub const GENEVE_PORT: u16 = 6081;
/// Port of MPLS in UDP (RFC 7510).
pub const MPLS_PORT: u16 = 6635;

/// True for ports whose datagrams may have further headers.
#[inline]
pub fn is_tunnel_port(port: u16) -> bool {
    VXLAN_PORTS.contains(&port)
        || [GTP_U_PORT, ESP_PORT, VXLAN_GPE_PORT, GENEVE_PORT, MPLS_PORT].contains(&port)
}

view!("a UDP header", 8);

impl View<'_> {
    /// Source port.
    pub fn src_port(&self) -> u16 {
        self.half(0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        self.half(2)
    }

    /// Bytes of header and payload; 0 in jumbograms.
    pub fn datagram_len(&self) -> usize {
        usize::from(self.half(4))
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let [src_port, dst_port, len, checksum] = [0, 2, 4, 6].map(|at| self.half(at));
        Fields { src_port, dst_port, len, checksum }
    }
}

/// Fields of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of header and payload.
    pub len: u16,
    /// Checksum; 0 for none.
    pub checksum: u16,
}
