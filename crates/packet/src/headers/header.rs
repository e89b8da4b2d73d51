//! One header of a frame: which protocol, where, and how long.

/// Protocol of a header that the walker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Ethernet.
    Ethernet,
    /// Linux "cooked" header.
    Sll,
    /// Linux "cooked" header, version 2.
    Sll2,
    /// LLC, with SNAP or without.
    Llc,
    /// One VLAN tag, from its tag control information on.
    Vlan,
    /// One MPLS label.
    Mpls,
    /// PPPoE session.
    Pppoe,
    /// ARP or reverse ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Extension header of IPv6 without addresses.
    Extension,
    /// Mobility header of IPv6.
    Mobility,
    /// Host identity protocol.
    Hip,
    /// Destination options of IPv6.
    DestinationOptions,
    /// Routing header of IPv6.
    Routing,
    /// Fragment header of IPv6.
    Fragment,
    /// Authentication header.
    Ah,
    /// ESP.
    Esp,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmpv6,
    /// IGMP.
    Igmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UDP-Lite.
    UdpLite,
    /// DCCP.
    Dccp,
    /// SCTP.
    Sctp,
    /// OSPF.
    Ospf,
    /// PIM.
    Pim,
    /// VRRP.
    Vrrp,
    /// GRE.
    Gre,
    /// ERSPAN.
    Erspan,
    /// VXLAN.
    Vxlan,
    /// GENEVE.
    Geneve,
    /// GTP-U.
    Gtpu,
}

impl Protocol {
    /// True for IPv4 and IPv6.
    #[inline]
    pub fn is_ip(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv6)
    }

    /// True for extension headers of IPv6, except those of fragments.
    #[inline]
    pub fn is_extension(self) -> bool {
        use Protocol::{DestinationOptions, Extension, Hip, Mobility, Routing};
        matches!(self, Extension | DestinationOptions | Routing | Mobility | Hip)
    }

    /// True for protocols that have no ports to edit, and no headers behind theirs.
    pub fn is_last_without_ports(self) -> bool {
        matches!(self, Self::Igmp | Self::UdpLite | Self::Dccp | Self::Ospf | Self::Pim | Self::Vrrp)
    }

    /// True for protocols whose ports are edited.
    #[inline]
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }
}

/// One header. All places are offsets in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its first byte.
    pub at: usize,
    /// Bytes of the header. The last header of a walk may have fewer bytes in the frame: transport
    /// headers and IPv4 options may be cut.
    pub len: usize,
    /// Where the header with all that it carries ends by its own length, or by that of the header
    /// around it.
    pub end: usize,
    /// The part of `end` that the frame and the headers around it have.
    pub visible_end: usize,
    /// Tunnels around it.
    pub depth: u8,
    /// It is part of a packet that an ICMP error quotes.
    pub is_quoted: bool,
}

impl Header {
    /// True if all bytes that it carries are there.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.end == self.visible_end
    }

    /// Its bytes and what it carries, as far as they are there.
    #[inline]
    pub fn bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.at..self.visible_end.max(self.at)).unwrap_or_default()
    }
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// What follows is the payload of the last header.
    Payload,
    /// What follows is a part of the payload: a fragment behind the first one.
    Fragment,
    /// The next header is not there, or not whole.
    Cut,
    /// What follows is encrypted.
    Encrypted,
    /// What follows is of a protocol that is not known.
    Unknown,
    /// The next header contradicts itself.
    Malformed,
}

/// Where and why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkEnd {
    /// Offset in the frame of the first byte that was not read.
    pub at: usize,
    /// Why.
    pub cause: EndCause,
    /// The byte is part of a packet that an ICMP error quotes.
    pub is_quoted: bool,
    /// The byte is part of an ARP packet.
    pub is_arp: bool,
}

/// The first header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstHeader {
    /// Ethernet.
    Ethernet,
    /// Linux "cooked" header.
    Sll,
    /// Linux "cooked" header, version 2.
    Sll2,
    /// An address family of 4 bytes before IP.
    Null,
    /// IP of either version.
    Ip,
}

impl FirstHeader {
    /// By the number of a link type in capture files.
    pub fn of_link_type(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            113 => Some(Self::Sll),
            276 => Some(Self::Sll2),
            0 | 108 => Some(Self::Null),
            12 | 14 | 101 | 228 | 229 => Some(Self::Ip),
            _ => None,
        }
    }
}
