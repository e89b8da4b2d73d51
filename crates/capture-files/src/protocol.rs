//! Protocols of captured packets, with their names in reports.

use packet::HeaderFields;
use replay::LinkType;

/// What a packet is, by its innermost header that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// IP, by its protocol number.
    Ip(u8),
    /// Something else, by its EtherType.
    Ethertype(u16),
    /// Nothing that is known, by the link type of the file.
    LinkType(u16),
}

impl Protocol {
    /// Of a packet with these headers.
    #[inline]
    pub fn of(headers: &HeaderFields<'_>, link_type: u16) -> Self {
        match (headers.proto, headers.ethertype) {
            (Some(proto), _) => Self::Ip(proto),
            (None, Some(ethertype)) => Self::Ethertype(ethertype),
            (None, None) => Self::LinkType(link_type),
        }
    }

    /// Its name, or its number with the kind of number.
    pub fn name(self) -> String {
        let known = match self {
            Self::Ip(1) => "ICMP",
            Self::Ip(2) => "IGMP",
            Self::Ip(6) => "TCP",
            Self::Ip(17) => "UDP",
            Self::Ip(47) => "GRE",
            Self::Ip(50) => "ESP",
            Self::Ip(58) => "ICMPv6",
            Self::Ip(89) => "OSPF",
            Self::Ip(132) => "SCTP",
            Self::Ip(number) => return format!("IP protocol {number}"),
            Self::Ethertype(0x0800) => "IPv4",
            Self::Ethertype(0x0806) => "ARP",
            Self::Ethertype(0x86dd) => "IPv6",
            Self::Ethertype(0x8847 | 0x8848) => "MPLS",
            Self::Ethertype(0x8863 | 0x8864) => "PPPoE",
            Self::Ethertype(0x88cc) => "LLDP",
            Self::Ethertype(0x88f7) => "PTP",
            Self::Ethertype(number @ 0x600..) => return format!("EtherType {number:#06x}"),
            Self::Ethertype(_) => "802.3",
            Self::LinkType(number) => return format!("link type {}", LinkType::name(number)),
        };
        known.to_owned()
    }
}
