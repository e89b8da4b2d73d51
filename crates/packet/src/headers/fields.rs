//! The fields of captured headers: Ethernet, tags, labels, IP and ports.
//!
//! Reads what [`crate::Plan`] and others wrote, also when the frame was cut: a field whose bytes
//! are missing is `None`. Nothing is checked beyond what decides where the next header begins.

use super::ethernet::{IPV4, IPV6, MPLS, TPIDS, TYPE_MIN};

/// Registered numbers of link types, as capture files have them.
const LINK_NULL: [u16; 2] = [0, 108];
const LINK_ETHERNET: u16 = 1;
const LINK_RAW_IP: [u16; 5] = [12, 14, 101, 228, 229];
const LINK_SLL: u16 = 113;
const LINK_SLL2: u16 = 276;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Protocols that begin with two ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// True if headers of this protocol of IP begin with two ports.
#[must_use]
pub fn has_ports(proto: u8) -> bool {
    WITH_PORTS.contains(&proto)
}
/// Extension headers of IPv6 that say their length in units of 8 bytes: hop-by-hop, routing,
/// destination options, mobility, HIP and shim6.
const EXTENSIONS: [u8; 6] = [0, 43, 60, 135, 139, 140];
const IPV6_FRAGMENT: u8 = 44;

/// What the headers of one captured frame say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields<'a> {
    /// Destination MAC address, 48 bits.
    pub eth_dst: Option<u64>,
    /// Source MAC address, 48 bits.
    pub eth_src: Option<u64>,
    /// EtherType behind all VLAN tags; `None` for a length.
    pub ethertype: Option<u16>,
    /// VLAN ID of the outermost tag.
    pub vlan: Option<u16>,
    /// VLAN ID of the second tag.
    pub vlan_inner: Option<u16>,
    /// Label of the outermost MPLS header.
    pub mpls: Option<u32>,
    /// 4 or 6. This and the next fields are those of the outermost IP header, if it is complete.
    pub ip_version: Option<u8>,
    /// Protocol; for IPv6 that behind the extension headers.
    pub proto: Option<u8>,
    /// Time to live or hop limit.
    pub hop_limit: Option<u8>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Identification, IPv4 only.
    pub ip_id: Option<u16>,
    /// True for all fragments of a packet, the first included.
    pub is_fragment: Option<bool>,
    /// Source IPv4 address.
    pub src4: Option<u32>,
    /// Destination IPv4 address.
    pub dst4: Option<u32>,
    /// Source IPv6 address.
    pub src6: Option<&'a [u8; 16]>,
    /// Destination IPv6 address.
    pub dst6: Option<&'a [u8; 16]>,
    /// Source port; `None` in fragments after the first.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// Flags of TCP, 12 bits.
    pub tcp_flags: Option<u16>,
    /// What follows the UDP header.
    pub udp_payload: Option<&'a [u8]>,
}

impl<'a> HeaderFields<'a> {
    /// Reads a frame of a link type, by its number in capture files. All fields are `None` for a
    /// link type that is not known.
    pub fn parse(link_type: u16, data: &'a [u8]) -> Self {
        let mut headers = Self::default();
        let network = match link_type {
            LINK_ETHERNET => headers.ethernet(data),
            LINK_SLL => {
                headers.eth_src = half(data, 4).filter(|len| *len == 6).and_then(|_| mac(data, 6));
                headers.tags(data, 14)
            }
            LINK_SLL2 => {
                headers.eth_src = data.get(11).filter(|len| **len == 6).and_then(|_| mac(data, 12));
                // The protocol comes first, the packet behind 20 bytes.
                headers.ethertype = half(data, 0).filter(|ethertype| *ethertype >= TYPE_MIN);
                headers.ethertype.zip(data.get(20..))
            }
            _ if LINK_RAW_IP.contains(&link_type) => by_version(data),
            _ if LINK_NULL.contains(&link_type) => data.get(4..).and_then(by_version),
            _ => None,
        };
        match network {
            Some((IPV4, packet)) => headers.ipv4(packet),
            Some((IPV6, packet)) => headers.ipv6(packet),
            Some((ethertype, packet)) if MPLS.contains(&ethertype) => headers.labels(packet),
            _ => {}
        }
        headers
    }

    fn ethernet(&mut self, data: &'a [u8]) -> Option<(u16, &'a [u8])> {
        (self.eth_dst, self.eth_src) = (mac(data, 0), mac(data, 6));
        self.tags(data, 12)
    }

    /// VLAN tags and the EtherType at `at`; what follows.
    fn tags(&mut self, data: &'a [u8], mut at: usize) -> Option<(u16, &'a [u8])> {
        let mut ethertype = half(data, at)?;
        let mut depth = 0;
        while TPIDS.contains(&ethertype) {
            let vlan = half(data, at + 2)? & 0xfff;
            match depth {
                0 => self.vlan = Some(vlan),
                1 => self.vlan_inner = Some(vlan),
                _ => {}
            }
            (depth, at) = (depth + 1, at + 4);
            ethertype = half(data, at)?;
        }
        self.ethertype = Some(ethertype).filter(|ethertype| *ethertype >= TYPE_MIN);
        Some((ethertype, &data[at + 2..]))
    }

    fn labels(&mut self, mut packet: &'a [u8]) {
        while let Some((entry, rest)) = packet.split_first_chunk() {
            let entry = u32::from_be_bytes(*entry);
            self.mpls.get_or_insert(entry >> 12);
            packet = rest;
            // The bottom of the stack: what follows has no type of its own.
            if entry & 0x100 != 0 {
                match by_version(packet) {
                    Some((IPV4, packet)) => self.ipv4(packet),
                    Some((_, packet)) => self.ipv6(packet),
                    None => {}
                }
                return;
            }
        }
    }

    fn ipv4(&mut self, packet: &'a [u8]) {
        let Some(header) = packet.first_chunk::<20>().filter(|header| header[0] >> 4 == 4) else { return };
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        (self.ip_version, self.proto, self.hop_limit) = (Some(4), Some(header[9]), Some(header[8]));
        (self.tos, self.ip_id) = (Some(header[1]), half(header, 4));
        // The offset and the flag for more fragments.
        self.is_fragment = Some(fragment & 0x3fff != 0);
        (self.src4, self.dst4) = (word(header, 12), word(header, 16));
        let header_len = usize::from(header[0] & 0xf) * 4;
        if fragment & 0x1fff == 0 && header_len >= header.len() {
            self.transport(header[9], packet.get(header_len..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, packet: &'a [u8]) {
        let Some((header, mut rest)) =
            packet.split_first_chunk::<40>().filter(|(header, _)| header[0] >> 4 == 6)
        else {
            return;
        };
        let [.., next, hop_limit] = *header.first_chunk::<8>().expect("it has 40 bytes");
        (self.ip_version, self.hop_limit) = (Some(6), Some(hop_limit));
        self.tos = Some((u16::from_be_bytes([header[0], header[1]]) >> 4) as u8);
        (self.src6, self.dst6) = (header[8..].first_chunk(), header[24..].first_chunk());
        let mut proto = next;
        loop {
            let len = if EXTENSIONS.contains(&proto) {
                let Some(len) = rest.get(1) else { return };
                (usize::from(*len) + 1) * 8
            } else if proto == IPV6_FRAGMENT {
                let Some(fragment) = half(rest, 2) else { return };
                // 13 bits of offset, and the flag for more fragments.
                self.is_fragment = Some(fragment & 0xfff9 != 0);
                if fragment >> 3 != 0 {
                    self.proto = Some(rest[0]);
                    return;
                }
                8
            } else {
                // Until here, a fragment header might have followed.
                self.is_fragment = self.is_fragment.or(Some(false));
                self.proto = Some(proto);
                return self.transport(proto, rest);
            };
            let Some(behind) = rest.get(len..) else { return };
            (proto, rest) = (rest[0], behind);
        }
    }

    fn transport(&mut self, proto: u8, segment: &'a [u8]) {
        if !has_ports(proto) {
            return;
        }
        (self.src_port, self.dst_port) = (half(segment, 0), half(segment, 2));
        match proto {
            TCP => self.tcp_flags = half(segment, 12).map(|flags| flags & 0xfff),
            UDP => self.udp_payload = segment.get(8..),
            _ => {}
        }
    }
}

/// The EtherType of an IP packet, by its version.
fn by_version(packet: &[u8]) -> Option<(u16, &[u8])> {
    match packet.first()? >> 4 {
        4 => Some((IPV4, packet)),
        6 => Some((IPV6, packet)),
        _ => None,
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn mac(bytes: &[u8], at: usize) -> Option<u64> {
    let mac: &[u8; 6] = bytes.get(at..)?.first_chunk()?;
    Some(mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpFragOffset, IpNumber, Ipv6FragmentHeader, PacketBuilder};
    use proptest::prelude::*;

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn udp6(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]).ipv6([1; 16], [2; 16], 64).udp(7, 9);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn tags_labels_and_ports_are_read() {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1])
            .double_vlan(etherparse::VlanId::try_new(42).unwrap(), etherparse::VlanId::try_new(7).unwrap());
        builder
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 63)
            .tcp(80, 5000, 1, 2)
            .syn()
            .ack(3)
            .write(&mut frame, b"x")
            .unwrap();
        let headers = HeaderFields::parse(LINK_ETHERNET, &frame);
        assert_eq!((headers.eth_src, headers.eth_dst), (Some(0x0200_0000_0001), Some(0x0200_0000_0002)));
        assert_eq!((headers.vlan, headers.vlan_inner, headers.ethertype), (Some(42), Some(7), Some(IPV4)));
        assert_eq!(
            (headers.src4, headers.dst4, headers.proto),
            (Some(0x0a00_0001), Some(0x0a00_0002), Some(TCP))
        );
        assert_eq!(
            (headers.src_port, headers.dst_port, headers.tcp_flags),
            (Some(80), Some(5000), Some(0x012))
        );
        let mut labelled = frame[..12].to_vec();
        labelled.extend([0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64]);
        labelled.extend(&frame[22..]);
        let behind = HeaderFields::parse(LINK_ETHERNET, &labelled);
        assert_eq!((behind.mpls, behind.src4, behind.dst_port), (Some(1), headers.src4, Some(5000)));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut frame = udp6(&[5; 32]);
        frame[20] = IPV6_FRAGMENT;
        let fragment = |offset: u16, more| {
            let offset = IpFragOffset::try_new(offset).unwrap();
            let header = Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, 3).to_bytes();
            [&frame[..54], &header, &frame[54..]].concat()
        };
        for (offset, more, is_fragment, port) in
            [(0, false, false, Some(9)), (0, true, true, Some(9)), (8, false, true, None)]
        {
            let frame = fragment(offset, more);
            let headers = HeaderFields::parse(LINK_ETHERNET, &frame);
            assert_eq!(headers.is_fragment, Some(is_fragment));
            assert_eq!((headers.proto, headers.dst_port), (Some(UDP), port));
            let cut = HeaderFields::parse(LINK_ETHERNET, &frame[..56]);
            assert_eq!((cut.ip_version, cut.is_fragment, cut.proto), (Some(6), None, None));
        }
    }

    #[test]
    fn cooked_and_raw_packets_are_read() {
        let frame = udp6(b"payload");
        let whole = HeaderFields::parse(LINK_ETHERNET, &frame);
        let raw = HeaderFields::parse(101, &frame[14..]);
        assert_eq!(raw, HeaderFields { eth_dst: None, eth_src: None, ethertype: None, ..whole });
        let sll = [&[0, 0, 0, 1, 0, 6], &MACS[0][..], &[0, 0], &frame[12..]].concat();
        let cooked = HeaderFields::parse(LINK_SLL, &sll);
        assert_eq!(cooked, HeaderFields { eth_dst: None, ..whole });
        let mut sll2 = vec![0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6];
        sll2.extend(MACS[0].iter().chain(&[0, 0]).chain(&frame[14..]));
        assert_eq!(HeaderFields::parse(LINK_SLL2, &sll2), cooked);
        assert_eq!(whole.udp_payload, Some(&b"payload"[..]));
    }

    proptest! {
        /// A longer part of a frame never changes or removes what a shorter one gave.
        #[test]
        fn cut_frames_lack_fields_only(
            mut frame in prop::collection::vec(any::<u8>(), 0..120),
            start in prop::sample::select(vec![
                &[0x08, 0x00, 0x45][..], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 5, 0x08, 0, 0x46], &[0x88, 0x47],
            ]),
            next in prop::sample::select(vec![0_u8, 6, 17, 43, 44, 60]),
            link_type in prop::sample::select(vec![1_u16, 0, 101, 113, 276, 127]),
        ) {
            if frame.len() > 40 {
                frame[12..12 + start.len()].copy_from_slice(start);
                frame[20] = next;
                frame[23] = next;
            }
            let whole = HeaderFields::parse(link_type, &frame);
            for len in 0..frame.len() {
                let cut = HeaderFields::parse(link_type, &frame[..len]);
                prop_assert!(cut.ip_version.is_none() || cut.ip_version == whole.ip_version);
                prop_assert!(cut.src_port.is_none() || cut.src_port == whole.src_port);
                prop_assert!(cut.proto.is_none() || cut.proto == whole.proto);
                prop_assert!(cut.is_fragment.is_none() || cut.is_fragment == whole.is_fragment);
                prop_assert!(cut.ethertype.is_none() || cut.ethertype == whole.ethertype);
                prop_assert!(cut.vlan.is_none() || cut.vlan == whole.vlan);
                prop_assert!(cut.eth_src.is_none() || cut.eth_src == whole.eth_src);
                prop_assert!(cut.dst6.is_none() || cut.dst6 == whole.dst6);
            }
        }
    }
}
