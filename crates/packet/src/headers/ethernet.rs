//! Ethernet headers (IEEE 802.3), and numbers of EtherTypes.

use super::bytes::view;
use crate::MacAddr;

/// Bytes of the header.
pub const LEN: usize = 14;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of reverse ARP, whose packets have the form of ARP's.
pub const RARP: u16 = 0x8035;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherTypes of MPLS, unicast and multicast.
pub const MPLS: [u16; 2] = [0x8847, 0x8848];
/// EtherType of PPPoE sessions.
pub const PPPOE_SESSION: u16 = 0x8864;
/// EtherType of a header without FCS in GRE and GENEVE (transparent Ethernet bridging).
pub const BRIDGED: u16 = 0x6558;
/// EtherType of MACsec, which encrypts what follows.
pub const MACSEC: u16 = 0x88e5;
/// Tag protocol identifiers of VLANs: 802.1Q, 802.1ad, and those that came before it.
pub const TPIDS: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
/// Smaller values are lengths of LLC frames.
pub const TYPE_MIN: u16 = 0x0600;
/// EtherTypes of protocols that carry no IP packet: Wake-on-LAN, PPPoE discovery, EAPOL, PROFINET,
/// EtherCAT, slow protocols, pause frames, LLDP, PTP, CFM, FCoE and its initialization, loopback.
pub const WITHOUT_IP: [u16; 13] =
    [0x0842, 0x8863, 0x888e, 0x8892, 0x88a4, 0x8809, 0x8808, 0x88cc, 0x88f7, 0x8902, 0x8906, 0x8914, 0x9000];

view!("an Ethernet header", 14);

impl View<'_> {
    /// Destination address.
    pub fn dst(&self) -> MacAddr {
        MacAddr(*self.0.first_chunk().expect("it has 14 bytes"))
    }

    /// Source address.
    pub fn src(&self) -> MacAddr {
        MacAddr(*self.0[6..].first_chunk().expect("it has 14 bytes"))
    }

    /// EtherType, or the length of an LLC frame.
    pub fn ether_type(&self) -> u16 {
        self.half(12)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { dst: self.dst(), src: self.src(), ether_type: self.ether_type() }
    }
}

/// Fields of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// EtherType, or the length of an LLC frame.
    pub ether_type: u16,
}
