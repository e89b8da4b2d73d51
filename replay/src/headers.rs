//! Where the headers of an Ethernet frame are, and the flow that it belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
const ETHERTYPES_OF_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags and extension headers beyond these counts are not followed.
const TAGS_MAX: usize = 4;
const EXTENSIONS_MAX: usize = 8;

/// The network header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    V4,
    V6,
    /// ARP for IPv4 over Ethernet.
    Arp,
}

/// The transport header of a frame: where it begins, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) at: usize,
    pub(crate) protocol: u8,
    /// The destination of the IP header is part of the checksum; not while a routing header has
    /// segments left.
    pub(crate) sums_destination: bool,
}

/// Places of the headers of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) network: Network,
    /// Where the network header begins.
    pub(crate) at: usize,
    /// Nothing for fragments after the first and for headers that the file does not have.
    pub(crate) transport: Option<Transport>,
    /// The packet is one of several fragments, also the first.
    pub(crate) is_fragment: bool,
}

/// True if the frame has a VLAN tag.
pub(crate) fn is_tagged(frame: &[u8]) -> bool {
    word(frame, 12).is_some_and(|ether_type| ETHERTYPES_OF_TAGS.contains(&ether_type))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

impl Headers {
    /// Of a frame that begins with an Ethernet header, or of an IP packet.
    pub(crate) fn of(frame: &[u8], is_ethernet: bool) -> Option<Self> {
        if !is_ethernet {
            return Self::of_ip(frame, 0);
        }
        let mut at = 12;
        let mut ether_type = word(frame, at)?;
        for _ in 0..TAGS_MAX {
            if !ETHERTYPES_OF_TAGS.contains(&ether_type) {
                break;
            }
            at += 4;
            ether_type = word(frame, at)?;
        }
        let at = at + 2;
        match ether_type {
            0x0800 | 0x86dd => Self::of_ip(frame, at),
            0x0806 => {
                let is_ipv4_over_ethernet = frame.get(at..at + 28)?[..6] == [0, 1, 8, 0, 6, 4];
                is_ipv4_over_ethernet.then_some(Self {
                    network: Network::Arp,
                    at,
                    transport: None,
                    is_fragment: false,
                })
            }
            _ => None,
        }
    }

    fn of_ip(frame: &[u8], at: usize) -> Option<Self> {
        match frame.get(at)? >> 4 {
            4 => Self::of_ipv4(frame, at),
            6 => Self::of_ipv6(frame, at),
            _ => None,
        }
    }

    fn of_ipv4(frame: &[u8], at: usize) -> Option<Self> {
        let header = frame.get(at..at + 20)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        if header_len < 20 {
            return None;
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let is_first = fragment & 0x1fff == 0;
        let transport = is_first.then_some(Transport {
            at: at + header_len,
            protocol: header[9],
            sums_destination: true,
        });
        Some(Self { network: Network::V4, at, transport, is_fragment: fragment & 0x3fff != 0 })
    }

    fn of_ipv6(frame: &[u8], at: usize) -> Option<Self> {
        let header = frame.get(at..at + 40)?;
        let transport = transport_of_ipv6(frame, header[6], at + 40);
        // A fragment header is the first or the second extension in practice.
        let is_fragment = header[6] == 44 || (header[6] == 0 && frame.get(at + 40) == Some(&44));
        Some(Self { network: Network::V6, at, transport, is_fragment })
    }

    /// Offsets of the source and destination address, and their length.
    pub(crate) fn addresses(&self) -> (usize, usize, usize) {
        match self.network {
            Network::V4 => (self.at + 12, self.at + 16, 4),
            Network::V6 => (self.at + 8, self.at + 24, 16),
            Network::Arp => (self.at + 14, self.at + 24, 4),
        }
    }
}

/// Follows extension headers.
fn transport_of_ipv6(frame: &[u8], mut protocol: u8, mut at: usize) -> Option<Transport> {
    let mut sums_destination = true;
    for _ in 0..EXTENSIONS_MAX {
        let unit = match protocol {
            // Hop-by-hop, routing, destination options: units of 8 bytes after the first 8.
            0 | 43 | 60 => {
                let header = frame.get(at..at + 8)?;
                if protocol == 43 && header[3] > 0 {
                    sums_destination = false;
                }
                8 + usize::from(header[1]) * 8
            }
            44 => {
                if word(frame, at + 2)? & 0xfff8 != 0 {
                    return None;
                }
                8
            }
            // Authentication header: units of 4 bytes, minus 2.
            51 => 8 + usize::from(*frame.get(at + 1)?) * 4,
            _ => return Some(Transport { at, protocol, sums_destination }),
        };
        protocol = *frame.get(at)?;
        at += unit;
    }
    None
}

/// The five values that name a flow, in the direction of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The flags of a TCP header, if the frame has one.
pub(crate) fn tcp_flags(frame: &[u8], is_ethernet: bool) -> Option<u8> {
    let transport = Headers::of(frame, is_ethernet)?.transport.filter(|found| found.protocol == TCP)?;
    frame.get(transport.at + 13).copied()
}

/// The flow of a frame that begins with an Ethernet header, or of an IP packet.
pub(crate) fn flow_key_of(frame: &[u8], is_ethernet: bool) -> Option<FlowKey> {
    let headers = Headers::of(frame, is_ethernet).filter(|headers| headers.network != Network::Arp)?;
    let (src_at, dst_at, len) = headers.addresses();
    let address = |at: usize| -> Option<IpAddr> {
        let bytes = frame.get(at..at + len)?;
        Some(match len {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        })
    };
    let transport = headers.transport.filter(|_| !headers.is_fragment);
    let ports = transport.filter(|transport| matches!(transport.protocol, TCP | UDP));
    let port = |offset: usize| ports.and_then(|ports| word(frame, ports.at + offset)).unwrap_or(0);
    Some(FlowKey {
        src: address(src_at)?,
        dst: address(dst_at)?,
        protocol: transport.map_or(0, |transport| transport.protocol),
        src_port: port(0),
        dst_port: port(2),
    })
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
        frame.splice(58..58, [TCP, 0, 1, 4, 0, 0, 0, 0]);
        let headers = Headers::of(&frame, true).unwrap();
        assert_eq!(headers.transport, Some(Transport { at: 66, protocol: TCP, sums_destination: true }));
        assert_eq!(flow_key(&frame).map(|key| (key.src_port, key.dst_port)), Some((80, 81)));
        assert!(is_tagged(&frame));
        for len in 0..frame.len() {
            flow_hash(&frame[..len]);
        }
    }
}
