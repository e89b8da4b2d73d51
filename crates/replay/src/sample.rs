//! Frames of all kinds for tests, with right checksums that no code of the editor computes.

use std::net::IpAddr;

/// A sum of 16-bit words in ones' complement, one byte after another.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let total = words.fold(0_u32, |total, word| {
        let total = total + word;
        (total & 0xffff) + (total >> 16)
    });
    !(total as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
}

impl Ends {
    /// Those of an answer.
    #[must_use]
    pub fn back(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }

    fn pseudo(self, dst: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
        [&octets(self.src)[..], &octets(dst), &(len as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat()
    }
}

fn set(mut bytes: Vec<u8>, at: usize, sum: u16) -> Vec<u8> {
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Behind an IPv4 or IPv6 header; `options` and `extensions` are whole headers of them.
pub fn ip_with(ends: Ends, protocol: u8, payload: &[u8], options: &[u8]) -> Vec<u8> {
    let (src, dst) = (octets(ends.src), octets(ends.dst));
    if ends.src.is_ipv6() {
        let next = if options.is_empty() { protocol } else { options[0] };
        let extensions = options.get(1..).unwrap_or_default();
        let len = ((extensions.len() + payload.len()) as u16).to_be_bytes();
        let head = [0x60, 0, 0, 0, len[0], len[1], next, 64];
        return [&head[..], &src, &dst, extensions, payload].concat();
    }
    let len = ((20 + options.len() + payload.len()) as u16).to_be_bytes();
    let words = 5 + options.len() as u8 / 4;
    let head = [0x40 | words, 0, len[0], len[1], 0, 7, 0, 0, 64, protocol, 0, 0];
    let header = [&head[..], &src, &dst, options].concat();
    let header_sum = sum(&[&header]);
    [set(header, 10, header_sum), payload.to_vec()].concat()
}

/// An IP packet without options.
pub fn ip(ends: Ends, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip_with(ends, protocol, payload, &[])
}

/// A message of a protocol whose checksum, at `at`, covers the addresses.
pub fn with_sum(ends: Ends, final_dst: IpAddr, protocol: u8, bytes: Vec<u8>, at: usize) -> Vec<u8> {
    let pseudo = ends.pseudo(final_dst, protocol, bytes.len());
    let found = sum(&[&pseudo, &bytes]);
    set(bytes, at, if protocol == 17 && found == 0 { 0xffff } else { found })
}

/// A UDP datagram, whose checksum covers another destination than the IP header's.
pub fn udp_to(ends: Ends, final_dst: IpAddr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let len = ((8 + payload.len()) as u16).to_be_bytes();
    let head = [src[0], src[1], dst[0], dst[1], len[0], len[1], 0, 0];
    with_sum(ends, final_dst, 17, [&head[..], payload].concat(), 6)
}

/// A UDP datagram.
pub fn udp(ends: Ends, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    udp_to(ends, ends.dst, ports, payload)
}

/// A TCP segment.
pub fn tcp(ends: Ends, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let head = [src[0], src[1], dst[0], dst[1], 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 16, 0, 0, 0, 0, 0];
    with_sum(ends, ends.dst, 6, [&head[..], payload].concat(), 16)
}

/// An ICMP message of these bytes with its checksum.
pub fn icmp(bytes: &[u8]) -> Vec<u8> {
    set(bytes.to_vec(), 2, sum(&[bytes]))
}

/// An ICMPv6 message of these bytes with its checksum.
pub fn icmpv6(ends: Ends, bytes: &[u8]) -> Vec<u8> {
    with_sum(ends, ends.dst, 58, bytes.to_vec(), 2)
}

/// Destination and source MAC address of the frames.
pub const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// An Ethernet frame of an IP packet.
pub fn ethernet(packet: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&MACS[..], &ether_type, packet].concat()
}

/// The packet in a tunnel of each kind, between `ends`.
fn tunnelled(ends: Ends, packet: &[u8], kind: usize) -> Vec<u8> {
    let protocol = if packet[0] >> 4 == 4 { 4 } else { 41 };
    let ether_type: [u8; 2] = if protocol == 4 { [8, 0] } else { [0x86, 0xdd] };
    match kind {
        0 => ip(ends, protocol, packet),
        1 => {
            ip(ends, 17, &udp(ends, (9, 4789), &[&[8, 0, 0, 0, 0, 0, 5, 0], &ethernet(packet)[..]].concat()))
        }
        2 => {
            let gre = [&[0x80, 0, ether_type[0], ether_type[1], 0, 0, 0, 0], packet].concat();
            ip(ends, 47, &set(gre.clone(), 4, sum(&[&gre])))
        }
        3 => {
            let geneve = [1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 0];
            ip(ends, 17, &udp(ends, (9, 6081), &[&geneve, &ethernet(packet)[..]].concat()))
        }
        4 => {
            let len = (packet.len() as u16).to_be_bytes();
            let gtpu = [0x30, 255, len[0], len[1], 0, 0, 0, 1];
            ip(ends, 17, &udp(ends, (2152, 2152), &[&gtpu, packet].concat()))
        }
        _ => {
            let erspan = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, 0, 1, 0, 0, 0, 0];
            ip(ends, 47, &[&erspan, &ethernet(packet)[..]].concat())
        }
    }
}

/// Packets of all kinds between two ends of one IP version, as Ethernet frames.
pub fn frames(ends: Ends, other: Ends, ports: (u16, u16), payload: &[u8]) -> Vec<Vec<u8>> {
    let is_v6 = ends.src.is_ipv6();
    let plain = ip(ends, 6, &tcp(ends, ports, payload));
    let datagram = ip(ends, 17, &udp(ends, ports, payload));
    let mut packets = vec![plain.clone(), datagram.clone()];
    for kind in 0..6 {
        packets.push(tunnelled(other, &plain, kind));
        packets.push(tunnelled(ends, &tunnelled(other, &datagram, kind), 5 - kind));
    }
    let quote = &datagram[..datagram.len().min(if is_v6 { 48 } else { 28 })];
    if is_v6 {
        let error = [&[1, 4, 0, 0, 0, 0, 0, 0], quote].concat();
        packets.push(ip(ends.back(), 58, &icmpv6(ends.back(), &error)));
        let target = octets(ends.dst);
        let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0], &target[..], &[1, 1, 2, 0, 0, 0, 0, 1]].concat();
        packets.push(ip(ends, 58, &icmpv6(ends, &solicitation)));
        // SRv6: the last segment is the first of the list.
        let way = Ends { dst: other.dst, ..ends };
        let segments = [&octets(ends.dst)[..], &octets(other.dst)].concat();
        let routing = [&[43, 17, 4, 4, 1, 1, 0, 0, 0], &segments[..]].concat();
        packets.push(ip_with(way, 17, &udp_to(way, ends.dst, ports, payload), &routing));
    } else {
        packets.push(ip(ends.back(), 1, &icmp(&[&[3, 1, 0, 0, 0, 0, 0, 0], quote].concat())));
        let gateway = [&[5, 1, 0, 0], &octets(other.src)[..], quote].concat();
        packets.push(ip(ends.back(), 1, &icmp(&gateway)));
        let way = Ends { dst: other.dst, ..ends };
        let route = [&[131, 7, 4], &octets(ends.dst)[..], &[0]].concat();
        packets.push(ip_with(way, 17, &udp_to(way, ends.dst, ports, payload), &route));
        packets.push(ip(ends, 2, &icmp(&[&[0x16, 0, 0, 0], &octets(ends.dst)[..]].concat())));
    }
    let mut frames: Vec<Vec<u8>> = packets.iter().map(|packet| ethernet(packet)).collect();
    let behind = |head: &[u8], packet: &[u8]| [&MACS[..], head, packet].concat();
    let ether_type: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
    let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, ether_type[0], ether_type[1]];
    frames.push(behind(&tags, &plain));
    frames.push(behind(&[0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64], &plain));
    let len = ((plain.len() + 2) as u16).to_be_bytes();
    let ppp = if is_v6 { 0x57 } else { 0x21 };
    frames.push(behind(&[0x88, 0x64, 0x11, 0, 0, 1, len[0], len[1], 0, ppp], &plain));
    if !is_v6 {
        let [src, dst] = [octets(ends.src), octets(ends.dst)];
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 1], &MACS[6..], &src[..], &[0; 6], &dst[..]].concat();
        frames.push(behind(&[8, 6], &arp));
    }
    frames
}
