//! The outermost or innermost IP packet of a frame: where its headers are, and the flow that it
//! belongs to.

use packet::headers::{
    FirstHeader, Header, Protocol, SumFinder, SumPlace, Walk, arp, ethernet, fragment, ipv4, tcp,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IP packet of a frame, the outermost or the innermost one of its tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpPacket {
    /// Its IP header.
    pub(crate) ip: Header,
    /// Nothing for fragments after the first and for headers that the frame does not have.
    pub(crate) transport: Option<Header>,
    /// The checksum of the transport header.
    pub(crate) sum: Option<SumPlace>,
    /// Protocol of the payload, behind extension headers.
    pub(crate) protocol: u8,
    /// The packet is one of several fragments, also the first.
    pub(crate) is_fragment: bool,
}

impl IpPacket {
    /// The outermost one of a frame that begins with this header; nothing without an IP header.
    pub(crate) fn outermost(frame: &[u8], first: FirstHeader) -> Option<Self> {
        Self::find(frame, first, false)
    }

    /// The innermost one; packets that ICMP errors quote do not count.
    pub(crate) fn innermost(frame: &[u8], first: FirstHeader) -> Option<Self> {
        Self::find(frame, first, true)
    }

    fn find(frame: &[u8], first: FirstHeader, is_innermost: bool) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut sums = SumFinder::default();
        for header in Walk::new(frame, first).take_while(|header| !header.is_quoted) {
            let sum = sums.see(frame, &header);
            if header.protocol.is_ip() {
                if found.is_some() && !is_innermost {
                    break;
                }
                found = Some(Self::new(frame, header));
                continue;
            }
            let Some(packet) = found.as_mut().filter(|packet| packet.transport.is_none()) else { continue };
            match header.protocol {
                protocol if protocol.is_extension() || protocol == Protocol::Ah => {
                    packet.protocol = frame[header.at];
                }
                Protocol::Fragment => {
                    packet.protocol = frame[header.at];
                    let view = fragment::View::new(header.bytes(frame));
                    packet.is_fragment |= view.is_some_and(|view| view.is_fragment());
                }
                _ => {
                    (packet.transport, packet.sum) = (Some(header), sum);
                    if !is_innermost {
                        break;
                    }
                }
            }
        }
        found
    }

    fn new(frame: &[u8], ip: Header) -> Self {
        let is_v4 = ip.protocol == Protocol::Ipv4;
        let is_fragment = is_v4 && ipv4::View::new(ip.bytes(frame)).is_some_and(|view| view.is_fragment());
        let protocol = frame[ip.at + if is_v4 { 9 } else { 6 }];
        Self { ip, transport: None, sum: None, protocol, is_fragment }
    }

    /// The flow of the packet.
    pub(crate) fn flow(&self, frame: &[u8]) -> Option<FlowKey> {
        let (src, dst) = self.addresses(frame)?;
        let transport = self.transport.filter(|_| !self.is_fragment);
        let ports = transport.filter(|header| matches!(header.protocol, Protocol::Tcp | Protocol::Udp));
        let port = |offset: usize| ports.and_then(|ports| word(ports.bytes(frame), offset)).unwrap_or(0);
        let protocol = if self.is_fragment { 0 } else { self.protocol };
        Some(FlowKey { src, dst, protocol, src_port: port(0), dst_port: port(2) })
    }

    /// The flags of its TCP header, if the frame has one.
    pub(crate) fn tcp_flags(&self, frame: &[u8]) -> Option<u8> {
        let header = self.transport.filter(|header| header.protocol == Protocol::Tcp)?;
        header.bytes(frame).get(tcp::FLAGS_AT).copied()
    }

    /// Addresses of source and destination.
    fn addresses(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
        let bytes = self.ip.bytes(frame);
        Some(if self.ip.protocol == Protocol::Ipv4 {
            let address = |at: usize| Some(Ipv4Addr::from_octets(*bytes.get(at..)?.first_chunk()?));
            (address(12)?.into(), address(16)?.into())
        } else {
            let address = |at: usize| Some(Ipv6Addr::from_octets(*bytes.get(at..)?.first_chunk()?));
            (address(8)?.into(), address(24)?.into())
        })
    }
}

/// The first header of the frames of a device.
pub(crate) fn first_header(is_ethernet: bool) -> FirstHeader {
    if is_ethernet { FirstHeader::Ethernet } else { FirstHeader::Ip }
}

/// Number of whole VLAN tags behind the addresses of an Ethernet frame.
#[inline]
pub(crate) fn tag_count(frame: &[u8]) -> usize {
    frame.get(12..).unwrap_or_default().chunks_exact(4).take_while(|tag| is_tag_type(tag)).count()
}

/// True if the frame ends within its first `count` VLAN tags, or before it shows whether it has
/// them.
pub(crate) fn ends_in_tags(frame: &[u8], count: usize) -> bool {
    let whole = tag_count(frame);
    let rest = frame.get(12 + whole * 4..).unwrap_or_default();
    whole < count && rest.len() < 4 && (rest.len() < 2 || is_tag_type(rest))
}

/// True if a VLAN tag begins with these bytes.
fn is_tag_type(bytes: &[u8]) -> bool {
    word(bytes, 0).is_some_and(|ether_type| ethernet::TPIDS.contains(&ether_type))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

/// The five values that name a flow, in the direction of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol; 0 in fragments, of which only the first has ports.
    pub protocol: u8,
    /// Source port of TCP and UDP, else 0.
    pub src_port: u16,
    /// Destination port of TCP and UDP, else 0.
    pub dst_port: u16,
}

/// The flow of an Ethernet frame; nothing if it is not IP.
pub fn flow_key(frame: &[u8]) -> Option<FlowKey> {
    flow_key_of(frame, true)
}

/// The flow of a frame that begins with an Ethernet header, or of an IP packet.
pub(crate) fn flow_key_of(frame: &[u8], is_ethernet: bool) -> Option<FlowKey> {
    IpPacket::outermost(frame, first_header(is_ethernet))?.flow(frame)
}

/// The source of an ARP packet.
pub(crate) fn source_of_arp(frame: &[u8]) -> Option<IpAddr> {
    let arp = Walk::new(frame, FirstHeader::Ethernet).find(|header| header.protocol == Protocol::Arp)?;
    let [sender, _] = arp::View::new(arp.bytes(frame))?.ip_places()?;
    let sender: [u8; 4] = *arp.bytes(frame).get(sender..)?.first_chunk()?;
    Some(sender.into())
}

/// A hash of the flow that is the same in both directions; of the MAC addresses if it is not IP.
pub fn flow_hash(frame: &[u8]) -> u32 {
    let half = |bytes: &[u8], port: u16| {
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        port.to_be_bytes().iter().fold(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv), fnv)
    };
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let sum = match flow_key(frame) {
        Some(key) => half(&octets(key.src), key.src_port).wrapping_add(half(&octets(key.dst), key.dst_port)),
        None => {
            let mac = |at: usize| half(frame.get(at..at + 6).unwrap_or_default(), 0);
            mac(0).wrapping_add(mac(6))
        }
    };
    ((sum ^ sum >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).udp(ports.0, ports.1);
        builder.write(&mut frame, &[7; 20]).unwrap();
        frame
    }

    #[test]
    fn both_directions_of_a_flow_have_one_hash() {
        let there = frame([10, 0, 0, 1], [10, 0, 0, 2], (1000, 53));
        let back = frame([10, 0, 0, 2], [10, 0, 0, 1], (53, 1000));
        assert_eq!(flow_hash(&there), flow_hash(&back));
        let others = (0..64).map(|port| flow_hash(&frame([10, 0, 0, 1], [10, 0, 0, 2], (port, 53))) % 4);
        let mut counts = [0; 4];
        others.for_each(|queue| counts[queue as usize] += 1);
        assert!(counts.iter().all(|count| *count > 4), "{counts:?}");
    }

    #[test]
    fn all_fragments_of_a_packet_have_one_hash() {
        let mut first = frame([10, 0, 0, 1], [10, 0, 0, 2], (1000, 53));
        let mut last = frame([10, 0, 0, 1], [10, 0, 0, 2], (9, 9));
        first[20] = 0x20;
        last[21] = 100;
        assert_eq!(flow_hash(&first), flow_hash(&last));
        assert_eq!(flow_key(&last).map(|key| (key.protocol, key.dst_port)), Some((0, 0)));
    }

    #[test]
    fn tags_and_extension_headers_are_followed() {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).single_vlan(7.try_into().unwrap());
        builder.ipv6([1; 16], [2; 16], 64).tcp(80, 81, 0, 1).write(&mut frame, &[]).unwrap();
        // A destination options header of 8 bytes between IPv6 and TCP.
        frame[18 + 6] = 60;
        frame.splice(58..58, [6, 0, 1, 4, 0, 0, 0, 0]);
        let packet = IpPacket::outermost(&frame, FirstHeader::Ethernet).unwrap();
        assert_eq!(packet.transport.map(|header| (header.at, header.protocol)), Some((66, Protocol::Tcp)));
        assert_eq!(flow_key(&frame).map(|key| (key.src_port, key.dst_port)), Some((80, 81)));
        assert_eq!(tag_count(&frame), 1);
        for len in 0..frame.len() {
            flow_hash(&frame[..len]);
        }
    }
}
