//! Fields that get a value in one header of each packet.

use packet::MacAddr;
use packet::headers::{Header, Protocol, port_places};
use std::net::IpAddr;

/// Which header of a packet a field is set in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderChoice {
    /// The outermost one that has the field.
    Outermost,
    /// The innermost one inside a tunnel.
    Innermost,
}

/// A new time to live or hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlEdit {
    /// This value.
    Set(u8),
    /// The value of the packet with this added, from 1 to 255.
    Add(i16),
}

impl TtlEdit {
    fn of(self, ttl: u8) -> u8 {
        match self {
            Self::Set(ttl) => ttl,
            Self::Add(step) => (i32::from(ttl) + i32::from(step)).clamp(1, 255) as u8,
        }
    }
}

/// A field of a header with its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Destination MAC address.
    DstMac(MacAddr),
    /// Source MAC address.
    SrcMac(MacAddr),
    /// Destination address, in packets of the same IP version; the target of ARP.
    Dst(IpAddr),
    /// Source address, in packets of the same IP version; the sender of ARP.
    Src(IpAddr),
    /// Destination port of TCP, UDP and SCTP.
    DstPort(u16),
    /// Source port of TCP, UDP and SCTP.
    SrcPort(u16),
    /// Time to live or hop limit.
    Ttl(TtlEdit),
    /// Type of service or traffic class.
    Tos(u8),
    /// The upper 6 bits of it.
    Dscp(u8),
    /// The lower 2 bits of it.
    Ecn(u8),
    /// Flow label of IPv6, 20 bits.
    FlowLabel(u32),
}

/// Bytes to write at a place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) at: usize,
    bytes: [u8; 16],
    len: usize,
}

impl Bytes {
    pub(crate) fn new(at: usize, bytes: &[u8]) -> Self {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        Self { at, bytes: all, len: bytes.len() }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl FieldValue {
    /// True for ports.
    pub(crate) fn is_port(&self) -> bool {
        matches!(self, Self::DstPort(_) | Self::SrcPort(_))
    }

    /// True if a header has the field, or one in its place that only the other IP version has.
    pub(crate) fn is_of(&self, frame: &[u8], header: &Header) -> bool {
        match self {
            Self::DstMac(_) | Self::SrcMac(_) => header.protocol == Protocol::Ethernet,
            Self::Dst(_) | Self::Src(_) => header.protocol.is_ip() || header.protocol == Protocol::Arp,
            Self::DstPort(_) | Self::SrcPort(_) => port_places(frame, header).is_some(),
            Self::Ttl(_) | Self::Tos(_) | Self::Dscp(_) | Self::Ecn(_) => header.protocol.is_ip(),
            Self::FlowLabel(_) => header.protocol == Protocol::Ipv6,
        }
    }

    /// What to write for the value in this header, which [`Self::is_of`] accepted.
    pub(crate) fn bytes(&self, frame: &[u8], header: &Header) -> Option<Bytes> {
        let at = header.at;
        let is_v4 = header.protocol == Protocol::Ipv4;
        match self {
            Self::DstMac(mac) => Some(Bytes::new(at, &mac.0)),
            Self::SrcMac(mac) => Some(Bytes::new(at + 6, &mac.0)),
            Self::Dst(address) => address_bytes(frame, header, *address, true),
            Self::Src(address) => address_bytes(frame, header, *address, false),
            Self::DstPort(port) => Some(Bytes::new(at + 2, &port.to_be_bytes())),
            Self::SrcPort(port) => Some(Bytes::new(at, &port.to_be_bytes())),
            Self::Ttl(edit) => {
                let at = at + if is_v4 { 8 } else { 7 };
                Some(Bytes::new(at, &[edit.of(frame[at])]))
            }
            Self::Tos(tos) => Some(class_bytes(frame, header, |_| *tos)),
            Self::Dscp(dscp) => Some(class_bytes(frame, header, |tos| tos & 3 | dscp << 2)),
            Self::Ecn(ecn) => Some(class_bytes(frame, header, |tos| tos & 0xfc | ecn)),
            Self::FlowLabel(label) => {
                let label = label.to_be_bytes();
                Some(Bytes::new(at + 1, &[frame[at + 1] & 0xf0 | label[1], label[2], label[3]]))
            }
        }
    }
}

fn address_bytes(frame: &[u8], header: &Header, address: IpAddr, is_dst: bool) -> Option<Bytes> {
    let mut places = [None; 2];
    packet::headers::for_each_address(frame, header, &mut |place| {
        use packet::headers::{AddressKind, AddressRole};
        match (place.kind, place.role) {
            (AddressKind::Mac, _) => {}
            (_, AddressRole::Source) => places[0] = Some(place),
            (_, AddressRole::Destination) => places[1] = Some(place),
            _ => {}
        }
    });
    let place = places[usize::from(is_dst)]?;
    match address {
        IpAddr::V4(v4) if place.len == 4 => Some(Bytes::new(place.at, &v4.octets())),
        IpAddr::V6(v6) if place.len == 16 => Some(Bytes::new(place.at, &v6.octets())),
        _ => None,
    }
}

/// The bytes of the type of service or the traffic class after a change.
fn class_bytes(frame: &[u8], header: &Header, change: impl Fn(u8) -> u8) -> Bytes {
    let at = header.at;
    if header.protocol == Protocol::Ipv4 {
        return Bytes::new(at + 1, &[change(frame[at + 1])]);
    }
    let class = change(frame[at] << 4 | frame[at + 1] >> 4);
    Bytes::new(at, &[frame[at] & 0xf0 | class >> 4, frame[at + 1] & 0x0f | class << 4])
}
