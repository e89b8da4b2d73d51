//! The walk over all headers of a frame, from the outermost one on.
//!
//! The walker reads what decides where the next header begins, through tunnels and into the packets
//! that ICMP errors quote. It never reads past the end, allocates nothing, and names the place and
//! the reason of its end.

use super::header::{EndCause, FirstHeader, Header, Protocol, WalkEnd};
use super::{
    ah, arp, cooked, erspan, ethernet, extension, fragment, geneve, gre, gtpu, icmp, icmpv6, ipv4, ipv6, llc,
    mpls, nd_option, pppoe, routing, sctp, tcp, udp, vlan, vxlan,
};

/// Protocols of IP without a header that is read here, and without a packet in it: GGP, EGP, IGRP,
/// CHAOS, RSVP, no next header, EIGRP, PGM, ISIS.
const IP_PROTOCOLS_KNOWN: [u8; 9] = [3, 8, 9, 16, 46, 59, 88, 113, 124];
/// The type of PIM messages that carry a packet (RFC 7761).
const PIM_REGISTER: u8 = 1;
/// The control protocol of IP in PPP, which assigns addresses.
const PPP_IPCP: u16 = 0x8021;
const NULL_LEN: usize = 4;

/// What begins at the place of a walk.
#[derive(Clone, Copy, Debug)]
enum Next {
    Ethernet,
    Sll,
    Sll2,
    Null,
    Type(u16),
    Llc,
    /// The version is in the first byte.
    Ip,
    Ipv4,
    Ipv6,
    Protocol(u8),
    Label,
    Ppp(u16),
    /// Version 1 of GRE has PPP with address and control bytes, or without.
    PppFrame,
    Vxlan,
    Geneve,
    Gtpu,
    Erspan,
    End(EndCause),
}

/// The headers of one frame, as an iterator.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    frame: &'a [u8],
    at: usize,
    next: Next,
    /// Where the payload ends by the lengths of the headers.
    end: usize,
    /// The part of `end` that is there.
    visible_end: usize,
    depth: u8,
    is_quoted: bool,
    is_ipv6: bool,
    /// An IP header at this depth was found; a further one is inside a tunnel.
    has_ip: bool,
    has_ethernet: bool,
    is_arp: bool,
}

impl<'a> Walk<'a> {
    /// Of a frame that begins with this header.
    pub fn new(frame: &'a [u8], first: FirstHeader) -> Self {
        let next = match first {
            FirstHeader::Ethernet => Next::Ethernet,
            FirstHeader::Sll => Next::Sll,
            FirstHeader::Sll2 => Next::Sll2,
            FirstHeader::Null => Next::Null,
            FirstHeader::Ip => Next::Ip,
        };
        Self {
            frame,
            at: 0,
            next,
            end: frame.len(),
            visible_end: frame.len(),
            depth: 0,
            is_quoted: false,
            is_ipv6: false,
            has_ip: false,
            has_ethernet: false,
            is_arp: false,
        }
    }

    /// Where and why the walk has ended, once there are no more headers.
    pub fn end(&self) -> WalkEnd {
        let cause = match self.next {
            Next::End(cause) => cause,
            _ => EndCause::Payload,
        };
        WalkEnd { at: self.at, cause, is_quoted: self.is_quoted, is_arp: self.is_arp }
    }

    fn rest(&self) -> &'a [u8] {
        self.frame.get(self.at..self.visible_end).unwrap_or_default()
    }

    fn stop(&mut self, cause: EndCause) -> Option<Header> {
        self.next = Next::End(cause);
        None
    }

    /// The header at hand, whose payload begins `len` bytes behind its start.
    fn found(&mut self, protocol: Protocol, len: usize, next: Next) -> Option<Header> {
        let Self { at, end, visible_end, depth, is_quoted, .. } = *self;
        let header = Header { protocol, at, len, end, visible_end, depth, is_quoted };
        (self.at, self.next) = (at + len, next);
        if self.at > visible_end {
            (self.at, self.next) = (visible_end, Next::End(EndCause::Cut));
        }
        Some(header)
    }

    /// The header at hand, which says where its payload ends (`end`); the payload begins `len`
    /// bytes behind its start.
    fn found_to(&mut self, protocol: Protocol, len: usize, end: usize, next: Next) -> Option<Header> {
        self.end = end;
        self.visible_end = self.visible_end.min(end);
        self.found(protocol, len, next)
    }

    fn enter_tunnel(&mut self) {
        self.depth = self.depth.saturating_add(1);
        (self.has_ip, self.has_ethernet) = (false, false);
    }

    fn quote(&mut self, header: Option<Header>, len: Option<usize>) -> Option<Header> {
        if let Some(len) = len {
            self.end = self.at + len;
            self.visible_end = self.visible_end.min(self.end);
        }
        (self.is_quoted, self.has_ip) = (true, false);
        header
    }

    fn step(&mut self) -> Option<Header> {
        match self.next {
            Next::Ethernet => self.ethernet(),
            Next::Sll => self.cooked(Protocol::Sll, false),
            Next::Sll2 => self.cooked(Protocol::Sll2, true),
            Next::Null => {
                if self.rest().len() < NULL_LEN {
                    return self.stop(EndCause::Cut);
                }
                (self.at, self.next) = (NULL_LEN, Next::Ip);
                self.step()
            }
            Next::Type(ether_type) => self.ether_type(ether_type),
            Next::Llc => match llc::View::new(self.rest()) {
                None => self.stop(EndCause::Cut),
                Some(view) => match view.ether_type() {
                    Some(ether_type) => self.found(Protocol::Llc, llc::SNAP_LEN, Next::Type(ether_type)),
                    None if view.is_ipv4() => self.found(Protocol::Llc, 3, Next::Ipv4),
                    None => self.found(Protocol::Llc, 3, Next::End(EndCause::Payload)),
                },
            },
            Next::Ip => match self.rest().first().map(|byte| byte >> 4) {
                Some(4) => self.ipv4(),
                Some(6) => self.ipv6(),
                Some(_) => self.stop(EndCause::Unknown),
                None => self.stop(EndCause::Cut),
            },
            Next::Ipv4 => self.ipv4(),
            Next::Ipv6 => self.ipv6(),
            Next::Protocol(protocol) => self.ip_protocol(protocol),
            Next::Label => self.label(),
            Next::Ppp(protocol) => self.ppp(protocol),
            Next::PppFrame => self.ppp_frame(),
            Next::Vxlan => self.vxlan(),
            Next::Geneve => self.geneve(),
            Next::Gtpu => self.gtpu(),
            Next::Erspan => self.erspan(),
            Next::End(_) => None,
        }
    }

    fn ethernet(&mut self) -> Option<Header> {
        let Some(view) = ethernet::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        if self.has_ethernet || self.has_ip || self.at > 0 {
            self.enter_tunnel();
        }
        self.has_ethernet = true;
        let ether_type = view.ether_type();
        if ether_type >= ethernet::TYPE_MIN {
            return self.found(Protocol::Ethernet, ethernet::LEN, Next::Type(ether_type));
        }
        let header = self.found(Protocol::Ethernet, ethernet::LEN, Next::Llc);
        self.limit_to(self.at + usize::from(ether_type));
        header
    }

    /// What follows ends at `end`, or where what is around it ends.
    fn limit_to(&mut self, end: usize) {
        (self.end, self.visible_end) = (self.end.min(end), self.visible_end.min(end));
    }

    fn cooked(&mut self, protocol: Protocol, is_v2: bool) -> Option<Header> {
        let Some(view) = cooked::View::new(self.rest(), is_v2) else { return self.stop(EndCause::Cut) };
        let next = match view.protocol() {
            _ if view.is_llc() => Next::Llc,
            below if below < ethernet::TYPE_MIN => Next::End(EndCause::Unknown),
            ether_type => Next::Type(ether_type),
        };
        self.found(protocol, if is_v2 { cooked::SLL2_LEN } else { cooked::SLL_LEN }, next)
    }

    fn ether_type(&mut self, ether_type: u16) -> Option<Header> {
        if ethernet::TPIDS.contains(&ether_type) {
            let Some(tag) = vlan::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
            let next = match tag.ether_type() {
                len if len < ethernet::TYPE_MIN => Next::Llc,
                ether_type => Next::Type(ether_type),
            };
            return self.found(Protocol::Vlan, 4, next);
        }
        match ether_type {
            ethernet::IPV4 => self.ipv4(),
            ethernet::IPV6 => self.ipv6(),
            ethernet::ARP | ethernet::RARP => self.arp(),
            ethernet::PPPOE_SESSION => {
                let Some(view) = pppoe::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
                let end = self.at + pppoe::LEN + view.payload_len();
                self.found_to(Protocol::Pppoe, pppoe::LEN + 2, end, Next::Ppp(view.protocol()))
            }
            ethernet::MACSEC => self.stop(EndCause::Encrypted),
            mpls if ethernet::MPLS.contains(&mpls) => self.label(),
            known if ethernet::WITHOUT_IP.contains(&known) => self.stop(EndCause::Payload),
            _ => self.stop(EndCause::Unknown),
        }
    }

    fn arp(&mut self) -> Option<Header> {
        let rest = self.rest();
        self.is_arp = true;
        match arp::View::new(rest).map(|view| view.packet_len()) {
            Some(len) if len <= rest.len() => self.found(Protocol::Arp, len, Next::End(EndCause::Payload)),
            _ => self.stop(EndCause::Cut),
        }
    }

    fn label(&mut self) -> Option<Header> {
        let Some(view) = mpls::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        if !view.is_last() {
            return self.found(Protocol::Mpls, 4, Next::Label);
        }
        let header = self.found(Protocol::Mpls, 4, Next::Ip);
        match self.rest().first().map(|byte| byte >> 4) {
            // A pseudowire: a control word, then a frame (RFC 4448).
            Some(0) if self.is_ethernet_at(self.at + 4) => {
                (self.at, self.next) = (self.at + 4, Next::Ethernet);
            }
            Some(4 | 6) | None => {}
            // A pseudowire without a control word.
            Some(_) if self.is_ethernet_at(self.at) => self.next = Next::Ethernet,
            Some(_) if self.rest().len() < 4 + ethernet::LEN => self.next = Next::End(EndCause::Cut),
            Some(_) => self.next = Next::End(EndCause::Unknown),
        }
        header
    }

    /// True if the bytes at `at` may be an Ethernet header, by its EtherType.
    fn is_ethernet_at(&self, at: usize) -> bool {
        let rest = self.frame.get(at..self.visible_end).unwrap_or_default();
        ethernet::View::new(rest).is_some_and(|view| {
            let ether_type = view.ether_type();
            let known = [ethernet::IPV4, ethernet::IPV6, ethernet::ARP];
            known.contains(&ether_type)
                || ethernet::TPIDS.contains(&ether_type)
                || ethernet::MPLS.contains(&ether_type)
        })
    }

    fn ppp(&mut self, protocol: u16) -> Option<Header> {
        match protocol {
            pppoe::PPP_IPV4 => self.ipv4(),
            pppoe::PPP_IPV6 => self.ipv6(),
            pppoe::PPP_MPLS => self.label(),
            PPP_IPCP => self.stop(EndCause::Unknown),
            // Protocols of PPP itself; others may be compressed or encrypted.
            0x8000.. => self.stop(EndCause::Payload),
            _ => self.stop(EndCause::Unknown),
        }
    }

    fn ppp_frame(&mut self) -> Option<Header> {
        let rest = self.rest();
        let start = if rest.starts_with(&[0xff, 3]) { 2 } else { 0 };
        let (protocol, len) = match rest.get(start..) {
            // A protocol of one byte is odd.
            Some([byte, ..]) if byte & 1 == 1 => (u16::from(*byte), 1),
            Some([high, low, ..]) => (u16::from_be_bytes([*high, *low]), 2),
            _ => return self.stop(EndCause::Cut),
        };
        self.at += start + len;
        self.ppp(protocol)
    }

    fn enter_ip(&mut self) {
        if self.has_ip {
            self.enter_tunnel();
        }
        self.has_ip = true;
    }

    fn ipv4(&mut self) -> Option<Header> {
        let rest = self.rest();
        let Some(view) = ipv4::View::new(rest) else { return self.stop(EndCause::Cut) };
        let Some(len) = view.header_len() else { return self.stop(EndCause::Malformed) };
        let end = match view.total_len() {
            0 => self.end,
            total_len if total_len < len => return self.stop(EndCause::Malformed),
            total_len => self.at + total_len,
        };
        self.enter_ip();
        self.is_ipv6 = false;
        let next = if view.fragment_offset() > 0 {
            Next::End(EndCause::Fragment)
        } else {
            Next::Protocol(view.protocol())
        };
        self.found_to(Protocol::Ipv4, len, end, next)
    }

    fn ipv6(&mut self) -> Option<Header> {
        let Some(view) = ipv6::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        if !view.is_version_6() {
            return self.stop(EndCause::Malformed);
        }
        let end = match view.payload_len() {
            0 if view.next() != 59 => self.end,
            len => self.at + ipv6::LEN + len,
        };
        self.enter_ip();
        self.is_ipv6 = true;
        self.found_to(Protocol::Ipv6, ipv6::LEN, end, Next::Protocol(view.next()))
    }

    fn ip_protocol(&mut self, protocol: u8) -> Option<Header> {
        match protocol {
            4 => self.ipv4(),
            41 => self.ipv6(),
            0 | 60 | 135 | 139 | 140 if self.is_ipv6 => {
                let Some(view) = extension::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
                let kind = match protocol {
                    60 => Protocol::DestinationOptions,
                    135 => Protocol::Mobility,
                    139 => Protocol::Hip,
                    _ => Protocol::Extension,
                };
                self.found_whole(kind, view.header_len(), Next::Protocol(view.next()))
            }
            43 if self.is_ipv6 => {
                let Some(view) = routing::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
                self.found_whole(Protocol::Routing, view.header_len(), Next::Protocol(view.next()))
            }
            44 if self.is_ipv6 => {
                let Some(view) = fragment::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
                let next = if view.offset() > 0 {
                    Next::End(EndCause::Fragment)
                } else {
                    Next::Protocol(view.next())
                };
                self.found(Protocol::Fragment, fragment::LEN, next)
            }
            51 => {
                let Some(view) = ah::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
                self.found_whole(Protocol::Ah, view.header_len(), Next::Protocol(view.next()))
            }
            50 => self.found_if(8, Protocol::Esp, 8, Next::End(EndCause::Encrypted)),
            137 => self.label(),
            143 => self.ethernet(),
            97 => {
                // EtherIP (RFC 3378): a version, then a frame.
                if self.rest().len() < 2 {
                    return self.stop(EndCause::Cut);
                }
                self.at += 2;
                self.ethernet()
            }
            47 => self.gre(),
            17 => self.udp(),
            1 if !self.is_ipv6 => self.icmp(),
            58 if self.is_ipv6 => self.icmpv6(),
            2 => self.payload(Protocol::Igmp, 8),
            6 => {
                let len = tcp::View::new(self.rest()).map_or(tcp::LEN_MIN, |view| view.header_len());
                self.payload(Protocol::Tcp, len.max(tcp::LEN_MIN))
            }
            33 => self.payload(Protocol::Dccp, 12),
            136 => self.payload(Protocol::UdpLite, udp::LEN),
            132 => self.payload(Protocol::Sctp, sctp::LEN),
            89 => self.payload(Protocol::Ospf, 16),
            103 => match self.rest().first() {
                Some(kind) if kind & 0xf == PIM_REGISTER => {
                    self.found(Protocol::Pim, 8, Next::End(EndCause::Unknown))
                }
                _ => self.payload(Protocol::Pim, 4),
            },
            112 => self.payload(Protocol::Vrrp, 8),
            known if IP_PROTOCOLS_KNOWN.contains(&known) => self.stop(EndCause::Payload),
            _ => self.stop(EndCause::Unknown),
        }
    }

    /// A header that counts only if it is whole.
    fn found_whole(&mut self, protocol: Protocol, len: usize, next: Next) -> Option<Header> {
        self.found_if(len, protocol, len, next)
    }

    fn found_if(&mut self, needed: usize, protocol: Protocol, len: usize, next: Next) -> Option<Header> {
        if self.rest().len() < needed { self.stop(EndCause::Cut) } else { self.found(protocol, len, next) }
    }

    /// The last header; its first bytes count even if the others are cut.
    fn payload(&mut self, protocol: Protocol, len: usize) -> Option<Header> {
        if self.rest().is_empty() {
            return self.stop(EndCause::Cut);
        }
        self.found(protocol, len, Next::End(EndCause::Payload))
    }

    fn icmp(&mut self) -> Option<Header> {
        match icmp::View::new(self.rest()) {
            Some(view) if view.is_error() => {
                let header = self.found(Protocol::Icmp, icmp::LEN, Next::Ipv4);
                self.quote(header, view.quote_len())
            }
            _ => self.payload(Protocol::Icmp, icmp::LEN),
        }
    }

    fn icmpv6(&mut self) -> Option<Header> {
        let rest = self.rest();
        match icmpv6::View::new(rest) {
            Some(view) if view.is_error() => {
                let header = self.found(Protocol::Icmpv6, icmpv6::LEN, Next::Ipv6);
                self.quote(header, view.quote_len())
            }
            Some(view) if view.kind() == icmpv6::REDIRECT => {
                let options_at = view.options_at().expect("a redirect has options");
                let options = nd_option::View::new(rest.get(options_at..).unwrap_or_default());
                match options.fields().find(|option| option.kind == nd_option::REDIRECTED) {
                    Some(option) => {
                        let len = options_at + option.place.start + 8;
                        let header = self.found(Protocol::Icmpv6, len, Next::Ipv6);
                        self.quote(header, Some(option.place.len() - 8))
                    }
                    None => self.payload(Protocol::Icmpv6, icmpv6::LEN),
                }
            }
            _ => self.payload(Protocol::Icmpv6, icmpv6::LEN),
        }
    }

    fn udp(&mut self) -> Option<Header> {
        let Some(view) = udp::View::new(self.rest()) else {
            return self.payload(Protocol::Udp, udp::LEN);
        };
        let end = if view.datagram_len() < udp::LEN { self.end } else { self.at + view.datagram_len() };
        let (src, dst) = (view.src_port(), view.dst_port());
        let payload = self.rest().get(udp::LEN..).unwrap_or_default();
        let next = match dst {
            _ if udp::VXLAN_PORTS.contains(&dst) || dst == udp::VXLAN_GPE_PORT => Next::Vxlan,
            udp::GENEVE_PORT => Next::Geneve,
            udp::MPLS_PORT => Next::Label,
            _ if dst == udp::GTP_U_PORT || src == udp::GTP_U_PORT => Next::Gtpu,
            // Four zeros mark a packet of IKE, one byte a keepalive.
            _ if dst == udp::ESP_PORT || src == udp::ESP_PORT => match payload.first_chunk() {
                Some([0, 0, 0, 0]) | None => Next::End(EndCause::Payload),
                Some(_) => Next::End(EndCause::Encrypted),
            },
            _ => Next::End(EndCause::Payload),
        };
        self.found_to(Protocol::Udp, udp::LEN, end, next)
    }

    fn gre(&mut self) -> Option<Header> {
        let rest = self.rest();
        let Some(view) = gre::View::new(rest) else { return self.stop(EndCause::Cut) };
        let Some(len) = view.header_len() else { return self.stop(EndCause::Unknown) };
        let next = match (view.version(), view.protocol()) {
            (1, gre::PPP) if rest.len() > len => Next::PppFrame,
            (1, _) => Next::End(EndCause::Payload),
            (_, gre::ERSPAN) if !view.has_sequence() => Next::Ethernet,
            (_, gre::ERSPAN | gre::ERSPAN_III) => Next::Erspan,
            (_, ethernet::BRIDGED) => Next::Ethernet,
            // Keepalives.
            (_, 0) => Next::End(EndCause::Payload),
            (_, ether_type) => Next::Type(ether_type),
        };
        self.found_whole(Protocol::Gre, len, next)
    }

    fn erspan(&mut self) -> Option<Header> {
        let rest = self.rest();
        match erspan::View::new(rest).map(|view| view.header_len(rest)) {
            Some(Some(len)) => self.found_whole(Protocol::Erspan, len, Next::Ethernet),
            Some(None) => self.stop(EndCause::Unknown),
            None => self.stop(EndCause::Cut),
        }
    }

    fn vxlan(&mut self) -> Option<Header> {
        let Some(view) = vxlan::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        if !view.has_vni() {
            return self.stop(EndCause::Unknown);
        }
        let next = match view.next() {
            0 | 3 => Next::Ethernet,
            1 => Next::Ipv4,
            2 => Next::Ipv6,
            _ => Next::End(EndCause::Unknown),
        };
        self.found(Protocol::Vxlan, vxlan::LEN, next)
    }

    fn geneve(&mut self) -> Option<Header> {
        let Some(view) = geneve::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        let Some(len) = view.header_len() else { return self.stop(EndCause::Unknown) };
        let next = match view.protocol() {
            ethernet::BRIDGED => Next::Ethernet,
            ether_type => Next::Type(ether_type),
        };
        self.found_whole(Protocol::Geneve, len, next)
    }

    fn gtpu(&mut self) -> Option<Header> {
        let Some(view) = gtpu::View::new(self.rest()) else { return self.stop(EndCause::Cut) };
        if !view.is_user_data() {
            return self.stop(if view.may_have_addresses() { EndCause::Unknown } else { EndCause::Payload });
        }
        let Some(len) = view.header_len() else { return self.stop(EndCause::Cut) };
        let end = self.at + gtpu::LEN_MIN + view.payload_len();
        self.found_to(Protocol::Gtpu, len, end, Next::Ip)
    }
}

impl Iterator for Walk<'_> {
    type Item = Header;

    fn next(&mut self) -> Option<Header> {
        self.step()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn protocols(frame: &[u8]) -> (Vec<Protocol>, EndCause) {
        let mut walk = Walk::new(frame, FirstHeader::Ethernet);
        let protocols = walk.by_ref().map(|header| header.protocol).collect();
        (protocols, walk.end().cause)
    }

    fn udp4(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.udp(src_port, dst_port).write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn tunnels_are_entered_and_counted() {
        let inner = udp4(1, 2, b"payload");
        let vxlan = udp4(9, 4789, &[&[8, 0, 0, 0, 0, 0, 5, 0], &inner[..]].concat());
        let geneve = udp4(9, 6081, &[&[1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 0], &inner[..]].concat());
        let gtpu = [0x34, 255, 0, 43, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0];
        let gtpu = udp4(2152, 2152, &[&gtpu, &inner[14..]].concat());
        let (outer, user) =
            ([Protocol::Ethernet, Protocol::Ipv4, Protocol::Udp], [Protocol::Ipv4, Protocol::Udp]);
        for (frame, tunnel, has_ethernet) in
            [(vxlan, Protocol::Vxlan, true), (geneve, Protocol::Geneve, true), (gtpu, Protocol::Gtpu, false)]
        {
            let ethernet: &[Protocol] = if has_ethernet { &[Protocol::Ethernet] } else { &[] };
            let expected = [&outer[..], &[tunnel], ethernet, &user].concat();
            assert_eq!(protocols(&frame), (expected, EndCause::Payload));
            let last = Walk::new(&frame, FirstHeader::Ethernet).last().unwrap();
            assert_eq!((last.depth, last.is_whole(), last.end), (1, true, frame.len()));
        }
    }

    #[test]
    fn labels_sessions_and_tags_are_no_tunnels() {
        let inner = udp4(1, 2, b"");
        let frame = [
            &inner[..12],
            &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64],
            &inner[14..],
        ]
        .concat();
        let (found, _) = protocols(&frame);
        use Protocol::{Ethernet, Ipv4, Mpls, Udp, Vlan};
        assert_eq!(found, [Ethernet, Vlan, Vlan, Mpls, Mpls, Ipv4, Udp]);
        assert_eq!(Walk::new(&frame, FirstHeader::Ethernet).last().unwrap().depth, 0);
        let pppoe = [&inner[..12], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21], &inner[14..]].concat();
        assert_eq!(protocols(&pppoe).0, [Ethernet, Protocol::Pppoe, Ipv4, Udp]);
    }

    #[test]
    fn quoted_packets_are_cut_and_marked() {
        let quoted = udp4(1, 2, &[7; 100]);
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 9], [10, 0, 0, 1], 64);
        builder.icmpv4_raw(3, 1, [0; 4]).write(&mut frame, &quoted[14..42]).unwrap();
        let last = Walk::new(&frame, FirstHeader::Ethernet).last().unwrap();
        assert_eq!((last.protocol, last.is_quoted, last.is_whole()), (Protocol::Udp, true, false));
        assert_eq!((last.end, last.visible_end), (frame.len() + 100, frame.len()));
    }

    #[test]
    fn a_walk_names_the_reason_of_its_end() {
        let frame = udp4(1, 2, b"payload");
        assert_eq!(protocols(&frame[..20]).1, EndCause::Cut);
        assert_eq!(protocols(&frame[..36]).1, EndCause::Cut);
        let with = |at: usize, bytes: &[u8]| {
            let mut frame = frame.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            protocols(&frame).1
        };
        assert_eq!(with(23, &[50]), EndCause::Encrypted);
        assert_eq!(with(23, &[253]), EndCause::Unknown);
        assert_eq!(with(20, &[0, 9]), EndCause::Fragment);
        assert_eq!(with(14, &[0x44]), EndCause::Malformed);
        assert_eq!(with(12, &[0x88, 0xb5]), EndCause::Unknown);
        assert_eq!(with(12, &[0x88, 0xcc]), EndCause::Payload);
    }
}
