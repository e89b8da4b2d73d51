//! The fields of captured headers: Ethernet, tags, labels, IP and ports.
//!
//! They are those of the outermost headers that the walker finds. A field whose bytes are missing
//! is `None`, as is each of a header that contradicts itself.

use super::bytes::half;
use super::ethernet::{TPIDS, TYPE_MIN};
use super::header::{EndCause, FirstHeader, Header, Protocol};
use super::walk::Walk;
use super::{cooked, ethernet, fragment, ipv4, ipv6, mpls, udp};

/// Protocols that begin with two ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// True if headers of this protocol of IP begin with two ports.
#[must_use]
pub fn has_ports(proto: u8) -> bool {
    WITH_PORTS.contains(&proto)
}

/// Extension headers of IPv6 that the walker follows to the protocol of the packet: hop-by-hop,
/// routing, fragment, destination options, mobility, HIP and shim6.
const EXTENSIONS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

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
    /// What follows the UDP header, up to the length of the datagram.
    pub udp_payload: Option<&'a [u8]>,
}

impl<'a> HeaderFields<'a> {
    /// Reads a frame of a link type, by its number in capture files. All fields are `None` for a
    /// link type that is not known.
    pub fn parse(link_type: u16, data: &'a [u8]) -> Self {
        let mut fields = Self::default();
        let Some(first) = FirstHeader::of_link_type(link_type) else { return fields };
        if first == FirstHeader::Ethernet {
            // Also those of a header that is cut.
            (fields.eth_dst, fields.eth_src) = (mac(data, 0), mac(data, 6));
            if let Some((packet, protocol)) = plain_ipv4(data) {
                fields.ethertype = Some(ethernet::IPV4);
                fields.ipv4(packet);
                fields.transport(&packet[ipv4::LEN_MIN..], protocol);
                return fields;
            }
        }
        fields.walk(Walk::new(data, first), data);
        fields
    }

    /// Takes the fields of the headers that a walk finds.
    fn walk(&mut self, mut walk: Walk<'a>, data: &'a [u8]) {
        // The outermost IP header, the protocol behind the last header of IPv6, and what follows.
        let (mut ip, mut behind, mut payload) = (None, None, None);
        loop {
            let next = walk.next();
            let Some(header) = &next else { break };
            let bytes = header.bytes(data);
            match header.protocol {
                Protocol::Ethernet if header.depth == 0 => {
                    self.see_type(half(bytes, 12), bytes, ethernet::LEN)
                }
                Protocol::Vlan if header.depth == 0 => self.see_type(half(bytes, 2), bytes, 4),
                Protocol::Sll | Protocol::Sll2 => self.cooked(bytes, header),
                Protocol::Mpls => self.label(bytes),
                Protocol::Ipv4 | Protocol::Ipv6 if ip.is_none() => ip = Some(bytes),
                Protocol::Fragment => {
                    let Some(view) = fragment::View::new(bytes) else { break };
                    (self.is_fragment, behind) = (Some(view.is_fragment()), Some(view.next()));
                }
                extension if extension.is_extension() => behind = bytes.first().copied(),
                protocol if ip.is_some() => {
                    payload = Some((protocol, bytes));
                    break;
                }
                _ => {}
            }
        }
        match ip {
            Some(bytes) if bytes[0] >> 4 == 4 => self.ipv4(bytes),
            Some(bytes) => self.ipv6(bytes, behind, walk.end().cause),
            None => {}
        }
        if let Some((protocol, bytes)) = payload {
            self.transport(bytes, protocol);
        }
    }

    /// The EtherType of a header of `len` bytes, or the ID of the VLAN tag that it announces.
    #[inline]
    fn see_type(&mut self, ethertype: Option<u16>, bytes: &[u8], len: usize) {
        match ethertype {
            Some(tpid) if TPIDS.contains(&tpid) => {
                let id = half(bytes, len).map(|control| control & 0xfff);
                match self.vlan {
                    None => self.vlan = id,
                    Some(_) => self.vlan_inner = self.vlan_inner.or(id),
                }
            }
            _ => self.ethertype = ethertype.filter(|ethertype| *ethertype >= TYPE_MIN),
        }
    }

    fn cooked(&mut self, bytes: &[u8], header: &Header) {
        let is_v2 = header.protocol == Protocol::Sll2;
        let Some(view) = cooked::View::new(bytes, is_v2) else { return };
        self.eth_src = view.mac_at().and_then(|at| mac(bytes, at));
        self.see_type(Some(view.protocol()), bytes, header.len);
    }

    fn label(&mut self, bytes: &[u8]) {
        self.mpls = self.mpls.or(mpls::View::new(bytes).map(|view| view.label()));
    }

    #[inline]
    fn ipv4(&mut self, bytes: &[u8]) {
        let Some(view) = ipv4::View::new(bytes) else { return };
        let header = view.fields();
        (self.ip_version, self.proto, self.hop_limit) = (Some(4), Some(header.protocol), Some(header.ttl));
        (self.tos, self.ip_id) = (Some(header.tos), Some(header.id));
        self.is_fragment = Some(view.is_fragment());
        (self.src4, self.dst4) = (Some(header.src.to_bits()), Some(header.dst.to_bits()));
    }

    fn ipv6(&mut self, bytes: &'a [u8], behind: Option<u8>, end: EndCause) {
        let Some(view) = ipv6::View::new(bytes) else { return };
        let header = view.fields();
        (self.ip_version, self.hop_limit, self.tos) =
            (Some(6), Some(header.hop_limit), Some(header.traffic_class));
        (self.src6, self.dst6) = (bytes[ipv6::SRC_AT..].first_chunk(), bytes[ipv6::DST_AT..].first_chunk());
        let proto = behind.unwrap_or(header.next);
        // Behind an extension header that is cut, the protocol is not known, nor is whether the
        // packet is a fragment.
        if !EXTENSIONS.contains(&proto) || end == EndCause::Fragment {
            (self.proto, self.is_fragment) = (Some(proto), self.is_fragment.or(Some(false)));
        }
    }

    #[inline]
    fn transport(&mut self, bytes: &'a [u8], protocol: Protocol) {
        use Protocol::{Dccp, Sctp, Tcp, Udp, UdpLite};
        if !matches!(protocol, Tcp | Udp | Sctp | Dccp | UdpLite) {
            return;
        }
        (self.src_port, self.dst_port) = (half(bytes, 0), half(bytes, 2));
        match protocol {
            Tcp => self.tcp_flags = half(bytes, 12).map(|flags| flags & 0xfff),
            Udp => {
                let len = udp::View::new(bytes).map_or(0, |view| view.datagram_len());
                let end = if len < udp::LEN { bytes.len() } else { bytes.len().min(len) };
                self.udp_payload = bytes.get(udp::LEN..end);
            }
            _ => {}
        }
    }
}

/// The packet of an Ethernet frame with TCP or UDP over IPv4 without options, not a later fragment.
/// These headers are the commonest, and a walk over them takes three times as long.
#[inline]
fn plain_ipv4(data: &[u8]) -> Option<(&[u8], Protocol)> {
    let [0x45, _, len_high, len_low, _, _, fragment_high, fragment_low, _, protocol, ..] = *data.get(14..)?
    else {
        return None;
    };
    let protocol = match protocol {
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let packet = data.get(14..data.len().min(14 + len))?;
    let is_plain = data[12..14] == [8, 0] && fragment_high & 0x1f == 0 && fragment_low == 0;
    (is_plain && packet.len() > ipv4::LEN_MIN).then_some((packet, protocol))
}

fn mac(bytes: &[u8], at: usize) -> Option<u64> {
    let mac: &[u8; 6] = bytes.get(at..)?.first_chunk()?;
    Some(mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::super::ethernet::IPV4;
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
        let headers = HeaderFields::parse(1, &frame);
        assert_eq!((headers.eth_src, headers.eth_dst), (Some(0x0200_0000_0001), Some(0x0200_0000_0002)));
        assert_eq!((headers.vlan, headers.vlan_inner, headers.ethertype), (Some(42), Some(7), Some(IPV4)));
        assert_eq!(
            (headers.src4, headers.dst4, headers.proto),
            (Some(0x0a00_0001), Some(0x0a00_0002), Some(6))
        );
        assert_eq!(
            (headers.src_port, headers.dst_port, headers.tcp_flags),
            (Some(80), Some(5000), Some(0x012))
        );
        let mut labelled = frame[..12].to_vec();
        labelled.extend([0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64]);
        labelled.extend(&frame[22..]);
        let behind = HeaderFields::parse(1, &labelled);
        assert_eq!((behind.mpls, behind.src4, behind.dst_port), (Some(1), headers.src4, Some(5000)));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut frame = udp6(&[5; 32]);
        frame[20] = 44;
        let fragment = |offset: u16, more| {
            let offset = IpFragOffset::try_new(offset).unwrap();
            let header = Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, 3).to_bytes();
            [&frame[..54], &header, &frame[54..]].concat()
        };
        for (offset, more, is_fragment, port) in
            [(0, false, false, Some(9)), (0, true, true, Some(9)), (8, false, true, None)]
        {
            let frame = fragment(offset, more);
            let headers = HeaderFields::parse(1, &frame);
            assert_eq!(headers.is_fragment, Some(is_fragment));
            assert_eq!((headers.proto, headers.dst_port), (Some(17), port));
            let cut = HeaderFields::parse(1, &frame[..56]);
            assert_eq!((cut.ip_version, cut.is_fragment, cut.proto), (Some(6), None, None));
        }
    }

    #[test]
    fn cooked_and_raw_packets_are_read() {
        let frame = udp6(b"payload");
        let whole = HeaderFields::parse(1, &frame);
        let raw = HeaderFields::parse(101, &frame[14..]);
        assert_eq!(raw, HeaderFields { eth_dst: None, eth_src: None, ethertype: None, ..whole });
        let sll = [&[0, 0, 0, 1, 0, 6], &MACS[0][..], &[0, 0], &frame[12..]].concat();
        let cooked = HeaderFields::parse(113, &sll);
        assert_eq!(cooked, HeaderFields { eth_dst: None, ..whole });
        let mut sll2 = vec![0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6];
        sll2.extend(MACS[0].iter().chain(&[0, 0]).chain(&frame[14..]));
        assert_eq!(HeaderFields::parse(276, &sll2), cooked);
        assert_eq!(whole.udp_payload, Some(&b"payload"[..]));
        let tag = [0x81, 0, 0x20, 5];
        let tagged = HeaderFields { vlan: Some(5), ..cooked };
        let sll = [&sll[..14], &tag, &sll[14..]].concat();
        assert_eq!(HeaderFields::parse(113, &sll), tagged);
        let sll2 = [&tag[..2], &sll2[2..20], &tag[2..], &sll2[..2], &sll2[20..]].concat();
        assert_eq!(HeaderFields::parse(276, &sll2), tagged);
    }

    /// The packet of PPPoE, LLC and pseudowires was not read, and padding was read as ports.
    #[test]
    fn the_outermost_packet_is_that_of_the_walker() {
        let frame = udp6(b"payload");
        let whole = HeaderFields::parse(1, &frame);
        let packet_of = |fields: HeaderFields<'_>| (fields.src6.copied(), fields.proto, fields.dst_port);
        let packet = &frame[14..];
        let len = (packet.len() as u16 + 2).to_be_bytes();
        let snap_len = (packet.len() as u16 + 8).to_be_bytes();
        for (name, head) in [
            ("PPPoE", &[0x88, 0x64, 0x11, 0, 0, 1, len[0], len[1], 0, 0x57][..]),
            ("SNAP", &[snap_len[0], snap_len[1], 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd]),
            ("pseudowire", &[&[0x88, 0x47, 0, 0, 0x11, 64, 0, 0, 0, 0][..], &frame[..14]].concat()),
        ] {
            let frame = [&frame[..12], head, packet].concat();
            let found = HeaderFields::parse(1, &frame);
            assert_eq!(packet_of(found), packet_of(whole), "{name}");
            assert_eq!(
                (found.eth_src, found.ethertype),
                (
                    whole.eth_src,
                    match name {
                        "PPPoE" => Some(0x8864),
                        "SNAP" => None,
                        _ => Some(0x8847),
                    }
                )
            );
        }
        // A packet of a header only, in a frame of the shortest length.
        let mut padded = Vec::new();
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.udp(7, 9).write(&mut padded, &[1; 18]).unwrap();
        padded[16..18].copy_from_slice(&20_u16.to_be_bytes());
        let found = HeaderFields::parse(1, &padded);
        assert_eq!((found.proto, found.dst_port), (Some(17), None));
    }

    proptest! {
        /// The short way to the fields of the commonest frames gives what the walk gives.
        #[test]
        fn plain_frames_have_the_fields_of_the_walk(
            mut frame in prop::collection::vec(any::<u8>(), 14..80),
            start in prop::sample::select(vec![&[8, 0, 0x45][..], &[8, 0, 0x46], &[0x81, 0, 0x45]]),
            protocol in prop::sample::select(vec![6_u8, 17, 1]),
            len in prop::sample::select(vec![0_u8, 19, 20, 21, 27, 28, 46, 60, 200]),
            fragment in prop::sample::select(vec![[0_u8, 0], [0x40, 0], [0x20, 0], [0, 1], [0x20, 9]]),
            udp_len in prop::sample::select(vec![0_u8, 7, 8, 20, 100]),
        ) {
            let set = [(12, start), (16, &[0, len]), (20, &fragment), (23, &[protocol]), (38, &[0, udp_len])];
            for (at, bytes) in set {
                if let Some(place) = frame.get_mut(at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            let (eth_dst, eth_src) = (mac(&frame, 0), mac(&frame, 6));
            let mut walked = HeaderFields { eth_dst, eth_src, ..HeaderFields::default() };
            walked.walk(Walk::new(&frame, FirstHeader::Ethernet), &frame);
            prop_assert_eq!(HeaderFields::parse(1, &frame), walked);
        }

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
