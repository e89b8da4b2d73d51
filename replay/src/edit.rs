//! Rewriting of frames: addresses, ports, VLAN tags, TTL, type of service, with the checksums that
//! cover them.

use crate::checksum::{update, update_udp};
use crate::headers::{Headers, ICMPV6, Network, TCP, Transport, UDP, is_tagged};
use crate::per_loop::{PerLoop, step_address, step_mac};
use crate::prefix::AddressMap;
use packet::MacAddr;
use std::net::IpAddr;

const TPID: [u8; 2] = [0x81, 0x00];

/// What happens to the outer VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanEdit {
    /// The frame gets a tag with this id, or its tag gets this id.
    Set(u16),
    /// The tag is removed.
    Remove,
}

/// What changes in every frame. `None` keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Destination MAC address.
    pub dst_mac: Option<MacAddr>,
    /// Source MAC address.
    pub src_mac: Option<MacAddr>,
    /// Outer VLAN tag.
    pub vlan: Option<VlanEdit>,
    /// Source address, in packets of the same IP version.
    pub src: Option<IpAddr>,
    /// Destination address, in packets of the same IP version.
    pub dst: Option<IpAddr>,
    /// Maps for both addresses; the first that contains an address applies.
    pub address_maps: Vec<AddressMap>,
    /// Source port of TCP and UDP.
    pub src_port: Option<u16>,
    /// Destination port of TCP and UDP.
    pub dst_port: Option<u16>,
    /// Ports to replace, in both places: (old, new).
    pub port_maps: Vec<(u16, u16)>,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
}

impl Edits {
    /// Changes `frame`, which begins with an Ethernet header if `is_ethernet`. `steps` are the sums
    /// of the steps per loop.
    pub(crate) fn apply(&self, frame: &mut Vec<u8>, is_ethernet: bool, steps: &PerLoop) {
        if is_ethernet && frame.len() >= 14 {
            self.apply_link(frame, steps);
        }
        let Some(headers) = Headers::of(frame, is_ethernet) else { return };
        self.apply_addresses(frame, &headers, steps);
        if headers.network == Network::Arp {
            return;
        }
        self.apply_ip_bytes(frame, &headers);
        if let Some(transport) = headers.transport.filter(|found| matches!(found.protocol, TCP | UDP)) {
            self.apply_ports(frame, transport, steps);
        }
    }

    fn apply_link(&self, frame: &mut Vec<u8>, steps: &PerLoop) {
        if let Some(mac) = self.dst_mac {
            frame[..6].copy_from_slice(&mac.0);
        }
        if let Some(mac) = self.src_mac {
            frame[6..12].copy_from_slice(&mac.0);
        }
        step_mac(&mut frame[..6], steps.dst_mac);
        step_mac(&mut frame[6..12], steps.src_mac);
        match self.vlan {
            Some(VlanEdit::Remove) if is_tagged(frame) && frame.len() >= 18 => drop(frame.drain(12..16)),
            Some(VlanEdit::Set(id)) if is_tagged(frame) && frame.len() >= 18 => set_vlan(frame, |_| id),
            Some(VlanEdit::Set(id)) => {
                let [high, low] = id.to_be_bytes();
                frame.splice(12..12, [TPID[0], TPID[1], high, low]);
            }
            _ => {}
        }
        if steps.vlan != 0 && is_tagged(frame) && frame.len() >= 18 {
            set_vlan(frame, |id| id.wrapping_add(steps.vlan));
        }
    }

    fn apply_addresses(&self, frame: &mut [u8], headers: &Headers, steps: &PerLoop) {
        let (src_at, dst_at, len) = headers.addresses();
        for (at, fixed, step, is_dst) in
            [(src_at, self.src, steps.src, false), (dst_at, self.dst, steps.dst, true)]
        {
            let mut old = [0; 16];
            old[..len].copy_from_slice(&frame[at..at + len]);
            let new = &mut frame[at..at + len];
            match fixed {
                Some(IpAddr::V4(v4)) if len == 4 => new.copy_from_slice(&v4.octets()),
                Some(IpAddr::V6(v6)) if len == 16 => new.copy_from_slice(&v6.octets()),
                _ => {}
            }
            let _ = self.address_maps.iter().any(|map| map.apply(new));
            step_address(new, step);
            let mut changed = [0; 16];
            changed[..len].copy_from_slice(new);
            if old == changed {
                continue;
            }
            if headers.network == Network::V4 {
                fix(frame, headers.at + 10, update, &old[..len], &changed[..len]);
            }
            let covers = |transport: &Transport| !is_dst || transport.sums_destination;
            if let Some(transport) = headers.transport.filter(covers) {
                fix_transport(frame, headers.network, transport, &old[..len], &changed[..len]);
            }
        }
    }

    /// TTL and type of service, which only the checksum of IPv4 covers.
    fn apply_ip_bytes(&self, frame: &mut [u8], headers: &Headers) {
        let at = headers.at;
        if headers.network == Network::V6 {
            if let Some(hop_limit) = self.ttl {
                frame[at + 7] = hop_limit;
            }
            if let Some(class) = self.tos {
                frame[at] = frame[at] & 0xf0 | class >> 4;
                frame[at + 1] = frame[at + 1] & 0x0f | class << 4;
            }
            return;
        }
        for (word_at, byte_at, value) in [(at, at + 1, self.tos), (at + 8, at + 8, self.ttl)] {
            let Some(value) = value else { continue };
            let old = [frame[word_at], frame[word_at + 1]];
            frame[byte_at] = value;
            let new = [frame[word_at], frame[word_at + 1]];
            fix(frame, at + 10, update, &old, &new);
        }
    }

    fn apply_ports(&self, frame: &mut [u8], transport: Transport, steps: &PerLoop) {
        for (offset, fixed, step) in [(0, self.src_port, steps.src_port), (2, self.dst_port, steps.dst_port)]
        {
            let at = transport.at + offset;
            let Some(old) = frame.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]])) else {
                return;
            };
            let set = fixed.unwrap_or(old);
            let map = self.port_maps.iter().find(|(from, _)| *from == set);
            let new = map.map_or(set, |(_, to)| *to).wrapping_add(step);
            if new != old {
                frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
                // The network only matters for ICMPv6, which has no ports.
                let (old, new) = (old.to_be_bytes(), new.to_be_bytes());
                fix_transport(frame, Network::V4, transport, &old, &new);
            }
        }
    }
}

fn set_vlan(frame: &mut [u8], change: impl Fn(u16) -> u16) {
    let old = u16::from_be_bytes([frame[14], frame[15]]);
    let new = old & 0xf000 | change(old & 0x0fff) & 0x0fff;
    frame[14..16].copy_from_slice(&new.to_be_bytes());
}

/// Updates the checksum at `at` if the frame has it.
fn fix(frame: &mut [u8], at: usize, update: fn(u16, &[u8], &[u8]) -> u16, old: &[u8], new: &[u8]) {
    if let Some(sum) = frame.get_mut(at..at + 2) {
        let updated = update(u16::from_be_bytes([sum[0], sum[1]]), old, new);
        sum.copy_from_slice(&updated.to_be_bytes());
    }
}

/// Updates the checksum of a transport header that covers the changed words.
fn fix_transport(frame: &mut [u8], network: Network, transport: Transport, old: &[u8], new: &[u8]) {
    let at = transport.at;
    match (transport.protocol, network) {
        (TCP, _) => fix(frame, at + 16, update, old, new),
        (UDP, _) => fix(frame, at + 6, update_udp, old, new),
        (ICMPV6, Network::V6) => fix(frame, at + 2, update, old, new),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    /// Asserts that all checksums are what etherparse calculates from the whole packet.
    fn assert_checksums(frame: &[u8], has_udp_sum: bool) {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let net = packet.net.unwrap();
        if let NetSlice::Ipv4(ip) = &net {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
        }
        let (sum, expected) = match (&net, packet.transport.unwrap()) {
            (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
                let header = ip.header().to_header();
                (udp.checksum(), udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap())
            }
            (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
                let header = ip.header().to_header();
                (tcp.checksum(), tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap())
            }
            (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
                let header = ip.header().to_header();
                (udp.checksum(), udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap())
            }
            (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
                let header = ip.header().to_header();
                (tcp.checksum(), tcp.to_header().calc_checksum_ipv6(&header, tcp.payload()).unwrap())
            }
            (NetSlice::Ipv6(ip), TransportSlice::Icmpv6(icmp)) => {
                let header = ip.header().to_header();
                let kind = icmp.icmp_type();
                let sum = kind.calc_checksum(header.source, header.destination, icmp.payload()).unwrap();
                (icmp.checksum(), sum)
            }
            (_, other) => panic!("{other:?}"),
        };
        assert_eq!(sum, if has_udp_sum { expected } else { 0 });
    }

    /// A frame of one of six kinds with right checksums.
    fn sample(kind: u8, addresses: [u8; 32], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let (src, dst) = addresses.split_at(16);
        let (v4_src, v4_dst) = (*src.first_chunk().unwrap(), *dst.first_chunk().unwrap());
        let (v6_src, v6_dst) = (*src.first_chunk().unwrap(), *dst.first_chunk().unwrap());
        let out = &mut frame;
        match kind {
            0 => ethernet.ipv4(v4_src, v4_dst, 64).udp(ports.0, ports.1).write(out, payload),
            1 => ethernet.ipv4(v4_src, v4_dst, 64).tcp(ports.0, ports.1, 1, 2).write(out, payload),
            2 => ethernet.ipv6(v6_src, v6_dst, 64).udp(ports.0, ports.1).write(out, payload),
            3 => ethernet.ipv6(v6_src, v6_dst, 64).tcp(ports.0, ports.1, 1, 2).write(out, payload),
            4 => ethernet.ipv6(v6_src, v6_dst, 64).icmpv6_echo_request(1, 2).write(out, payload),
            _ => {
                let tagged = ethernet.single_vlan(9.try_into().unwrap());
                tagged.ipv4(v4_src, v4_dst, 64).udp(ports.0, ports.1).write(out, payload)
            }
        }
        .unwrap();
        frame
    }

    fn edges() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0u16), Just(0xffff), Just(1), any::<u16>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn rewritten_frames_have_the_checksums_of_a_full_calculation(
            kind in 0u8..6,
            addresses in proptest::array::uniform32(prop_oneof![Just(0u8), Just(0xff), any::<u8>()]),
            ports in (edges(), edges()),
            payload in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..40),
            src in prop_oneof![Just(None), any::<[u8; 4]>().prop_map(|bytes| Some(IpAddr::from(bytes)))],
            dst in prop_oneof![Just(None), any::<[u8; 16]>().prop_map(|bytes| Some(IpAddr::from(bytes)))],
            new_ports in (proptest::option::of(edges()), proptest::option::of(edges())),
            bytes in (proptest::option::of(any::<u8>()), proptest::option::of(any::<u8>())),
            steps in (any::<u32>(), any::<u32>(), edges(), edges()),
            tag in 0u8..3,
            has_sum in proptest::bool::weighted(0.9),
        ) {
            let mut frame = sample(kind, addresses, ports, &payload);
            let has_udp_sum = has_sum || kind != 0;
            if !has_udp_sum {
                frame[40..42].fill(0);
            }
            let edits = Edits {
                src,
                dst,
                address_maps: vec!["0.0.0.0/1=192.0.2.0/24".parse().unwrap(), "::/2=fd00::/16".parse().unwrap()],
                src_port: new_ports.0,
                dst_port: new_ports.1,
                ttl: bytes.0,
                tos: bytes.1,
                vlan: [None, Some(VlanEdit::Set(7)), Some(VlanEdit::Remove)][usize::from(tag)],
                ..Edits::default()
            };
            let steps = PerLoop {
                src: steps.0, dst: steps.1, src_port: steps.2, dst_port: steps.3, ..PerLoop::default()
            };
            edits.apply(&mut frame, true, &steps);
            assert_checksums(&frame, has_udp_sum);
        }

        #[test]
        fn any_bytes_are_edited_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..100), ether_type in 0usize..5, is_ethernet: bool,
        ) {
            let ether_types = [[8, 0], [0x86, 0xdd], [0x81, 0], [8, 6], [0, 9]];
            if bytes.len() >= 14 {
                bytes[12..14].copy_from_slice(&ether_types[ether_type]);
            }
            let edits = Edits {
                src: Some(IpAddr::from([1, 2, 3, 4])), ttl: Some(9), tos: Some(1), src_port: Some(3),
                dst_port: Some(4), vlan: Some(VlanEdit::Remove), ..Edits::default()
            };
            let steps = PerLoop { dst: 1, vlan: 1, dst_mac: 1, ..PerLoop::default() };
            edits.apply(&mut bytes, is_ethernet, &steps);
        }
    }

    #[test]
    fn tags_are_added_changed_and_removed() {
        let plain = sample(0, [1; 32], (1, 2), &[]);
        let edit = |vlan, frame: &[u8], step| {
            let mut frame = frame.to_vec();
            let edits = Edits { vlan, ..Edits::default() };
            edits.apply(&mut frame, true, &PerLoop { vlan: step, ..PerLoop::default() });
            frame
        };
        let tagged = edit(Some(VlanEdit::Set(5)), &plain, 0);
        assert_eq!(tagged[12..18], [0x81, 0, 0, 5, 8, 0]);
        assert_eq!(edit(Some(VlanEdit::Set(6)), &tagged, 1)[12..18], [0x81, 0, 0, 7, 8, 0]);
        assert_eq!(edit(Some(VlanEdit::Remove), &tagged, 0), plain);
        assert_eq!(edit(Some(VlanEdit::Remove), &plain, 0), plain);
    }

    #[test]
    fn arp_carries_the_mapped_addresses() {
        let mut frame = [&[0xff; 6][..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        frame.extend([&[2; 6][..], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat());
        let edits =
            Edits { address_maps: vec!["10.0.0.0/24=192.0.2.0/24".parse().unwrap()], ..Edits::default() };
        edits.apply(&mut frame, true, &PerLoop::default());
        assert_eq!((&frame[28..32], &frame[38..42]), (&[192, 0, 2, 1][..], &[192, 0, 2, 2][..]));
    }
}
