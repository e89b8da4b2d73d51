//! Checksums of headers: where each is, which bytes it covers, and whether it is right.
//!
//! A checksum of a transport header covers a pseudo header with the addresses of its IP header. The
//! destination is the final one: source routes and routing headers have it while the packet is on
//! its way.

use super::header::{Header, Protocol};
use super::{extension, fragment, gre, icmp, icmpv6, ipv4, ipv6, routing, sctp, tcp, udp};
use crate::checksum;

/// The protocol of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumProtocol {
    /// Header of IPv4.
    Ipv4,
    /// TCP.
    Tcp,
    /// UDP; 0 is none over IPv4.
    Udp,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmpv6,
    /// IGMP.
    Igmp,
    /// GRE.
    Gre,
    /// SCTP, a CRC32c.
    Sctp,
    /// UDP-Lite, DCCP, VRRP version 3, HIP, mobility headers, OSPF and PIM of IPv6: kept right, but
    /// neither checked nor computed anew.
    Other,
}

impl SumProtocol {
    /// All protocols whose checksums are checked, in the order of reports.
    pub const CHECKED: [Self; 8] =
        [Self::Ipv4, Self::Tcp, Self::Udp, Self::Icmp, Self::Icmpv6, Self::Igmp, Self::Gre, Self::Sctp];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Igmp => "igmp",
            Self::Gre => "gre",
            Self::Sctp => "sctp",
            Self::Other => "other",
        }
    }
}

/// The pseudo header of a checksum: places of the addresses in the frame, and a sum of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PseudoPlaces {
    /// Offset of the source address.
    pub src_at: usize,
    /// Offset of the final destination address.
    pub dst_at: usize,
    /// Bytes of an address: 4 or 16.
    pub address_len: usize,
    /// Protocol.
    pub protocol: u8,
}

/// Why a checksum cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSum {
    /// The packet is one of several fragments.
    Fragment,
    /// Some of its bytes are not in the frame.
    Cut,
    /// It is not computed for this protocol.
    NotChecked,
}

/// A checksum in a frame. All places are offsets in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumPlace {
    /// Its protocol.
    pub protocol: SumProtocol,
    /// Its first byte.
    pub at: usize,
    /// The first byte that it covers.
    pub from: usize,
    /// The end of the bytes that it covers, by the lengths of the headers.
    pub to: usize,
    /// Its pseudo header.
    pub pseudo: Option<PseudoPlaces>,
    /// Why it cannot be computed, if so.
    pub missing: Option<NoSum>,
    /// It is part of a packet that an ICMP error quotes.
    pub is_quoted: bool,
}

impl SumPlace {
    /// True for a UDP header without a checksum.
    #[inline]
    pub fn is_none(&self, frame: &[u8]) -> bool {
        let is_v4 = self.pseudo.is_none_or(|pseudo| pseudo.address_len == 4);
        self.protocol == SumProtocol::Udp && is_v4 && frame.get(self.at..self.at + 2) == Some(&[0, 0])
    }

    /// The checksum of 16 bits that the frame has.
    #[inline]
    pub fn stored(&self, frame: &[u8]) -> Option<u16> {
        frame.get(self.at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// The right checksum of 16 bits, for the bytes of the frame; nothing if they are not all
    /// there. SCTP's is in [`Self::computed_crc`].
    #[inline]
    pub fn computed(&self, frame: &[u8]) -> Option<u16> {
        if self.missing.is_some() {
            return None;
        }
        let covered = frame.get(self.from..self.to)?;
        // The checksum itself counts as 0; it begins at an even offset of what it covers.
        let (head, rest) = covered.split_at_checked(self.at - self.from)?;
        let mut sum = checksum::add(checksum::add(0, head), rest.get(2..)?);
        if let Some(pseudo) = self.pseudo {
            let len = pseudo.address_len;
            sum = checksum::add(sum, frame.get(pseudo.src_at..pseudo.src_at + len)?);
            sum = checksum::add(sum, frame.get(pseudo.dst_at..pseudo.dst_at + len)?);
            sum += u64::from(pseudo.protocol) + covered.len() as u64;
        }
        Some(self.sent_as(checksum::finish(sum)))
    }

    /// The form of a computed sum on the wire: UDP sends 0 as 0xffff.
    #[inline]
    pub fn sent_as(&self, sum: u16) -> u16 {
        if sum == 0 && self.protocol == SumProtocol::Udp { 0xffff } else { sum }
    }

    /// The right CRC32c of an SCTP packet, for the bytes of the frame.
    pub fn computed_crc(&self, frame: &[u8]) -> Option<u32> {
        if self.missing.is_some() {
            return None;
        }
        let covered = frame.get(self.from..self.to)?;
        let (head, rest) = (covered.get(..sctp::CHECKSUM_AT)?, covered.get(sctp::LEN..)?);
        let crc = [head, &[0; 4], rest].iter().fold(u32::MAX, |crc, part| checksum::crc32c_step(crc, part));
        Some(!crc)
    }

    /// True if the checksum is the right one; nothing if that cannot be known or there is none.
    #[inline]
    pub fn is_right(&self, frame: &[u8]) -> Option<bool> {
        if self.is_none(frame) {
            return None;
        }
        if self.protocol == SumProtocol::Sctp {
            let stored: [u8; 4] = *frame.get(self.at..)?.first_chunk()?;
            return Some(u32::from_le_bytes(stored) == self.computed_crc(frame)?);
        }
        // The two zeros of ones' complement are one number, except where 0 means none.
        let (stored, computed) = (self.stored(frame)?, self.computed(frame)?);
        let is_zero = |sum: u16| sum == 0 || sum == 0xffff;
        let is_udp = self.protocol == SumProtocol::Udp;
        Some(stored == computed || (!is_udp && is_zero(stored) && is_zero(computed)))
    }
}

/// True for the commonest frames if all of their checksums are right: an Ethernet header, IPv4
/// without options and fragments or IPv6 without extension headers, and TCP or UDP that carries no
/// further headers, all of it in the frame. `false` says nothing: [`SumFinder`] has to look at the
/// frame. It takes a fraction of the time of a walk.
#[inline]
pub fn is_plain_and_right(frame: &[u8]) -> bool {
    const V4_AT: usize = 14;
    let half = |at: usize| frame.get(at..at + 2).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]));
    let (protocol, addresses, from, to) = match frame.get(12..15) {
        Some([8, 0, 0x45]) => {
            let is_fragment = half(20) & 0x3fff != 0;
            let header = frame.get(V4_AT..V4_AT + 20);
            if is_fragment || header.is_none_or(|header| checksum::finish(checksum::add(0, header)) != 0) {
                return false;
            }
            (frame[23], 26..34, 34, V4_AT + usize::from(half(16)))
        }
        Some([0x86, 0xdd, version]) if version >> 4 == 6 && frame.len() >= 54 => {
            (frame[20], 22..54, 54, 54 + usize::from(half(18)))
        }
        _ => return false,
    };
    let Some(segment) = frame.get(from..to) else { return false };
    let is_v4 = from == 34;
    match protocol {
        6 if segment.len() >= 20 => {}
        17 if segment.len() >= udp::LEN && usize::from(half(from + 4)) == segment.len() => {
            if [half(from), half(from + 2)].into_iter().any(udp::is_tunnel_port) {
                return false;
            }
            match half(from + udp::CHECKSUM_AT) {
                0 if is_v4 => return true,
                0 => return false,
                _ => {}
            }
        }
        _ => return false,
    }
    let pseudo = checksum::add(u64::from(protocol) + segment.len() as u64, &frame[addresses]);
    checksum::finish(checksum::add(pseudo, segment)) == 0
}

/// The IP header of the headers at hand.
#[derive(Clone, Copy, Debug)]
struct IpContext {
    pseudo: PseudoPlaces,
    is_fragment: bool,
    /// A routing header has the final destination in a form that is not read.
    hides_final_dst: bool,
}

/// Finds the checksums of the headers of one frame, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumFinder {
    ip: Option<IpContext>,
}

impl SumFinder {
    /// The checksum of the next header of the walk, if it has one whose place is in the frame.
    pub fn see(&mut self, frame: &[u8], header: &Header) -> Option<SumPlace> {
        let bytes = header.bytes(frame);
        match header.protocol {
            Protocol::Ipv4 => {
                let view = ipv4::View::new(bytes)?;
                let dst_at = header.at + if header.len > 20 { view.final_dst_at() } else { ipv4::DST_AT };
                self.enter(header.at + ipv4::SRC_AT, dst_at, 4, view.is_fragment());
                let (from, to) = (header.at, header.at + header.len);
                let missing = (to > header.visible_end).then_some(NoSum::Cut);
                let at = from + ipv4::CHECKSUM_AT;
                let (protocol, is_quoted) = (SumProtocol::Ipv4, header.is_quoted);
                Some(SumPlace { protocol, at, from, to, pseudo: None, missing, is_quoted })
            }
            Protocol::Ipv6 => {
                self.enter(header.at + ipv6::SRC_AT, header.at + ipv6::DST_AT, 16, false);
                None
            }
            Protocol::Routing => {
                let (view, ip) = (routing::View::new(bytes)?, self.ip.as_mut()?);
                ip.hides_final_dst |= view.hides_final_dst();
                let final_dst_at = view.final_dst_at().filter(|at| at + 16 <= bytes.len())?;
                ip.pseudo.dst_at = header.at + final_dst_at;
                None
            }
            Protocol::DestinationOptions => {
                let home_at = extension::View::new(bytes)?.home_address_at()?;
                if let Some(ip) = &mut self.ip {
                    ip.pseudo.src_at = header.at + home_at;
                }
                None
            }
            Protocol::Fragment => {
                let is_fragment = fragment::View::new(bytes)?.is_fragment();
                if let Some(ip) = &mut self.ip {
                    ip.is_fragment |= is_fragment;
                }
                None
            }
            _ => self.of_payload(frame, header),
        }
    }

    fn enter(&mut self, src_at: usize, dst_at: usize, address_len: usize, is_fragment: bool) {
        let pseudo = PseudoPlaces { src_at, dst_at, address_len, protocol: 0 };
        self.ip = Some(IpContext { pseudo, is_fragment, hides_final_dst: false });
    }

    fn of_payload(&self, frame: &[u8], header: &Header) -> Option<SumPlace> {
        let is_v6 = self.ip.is_some_and(|ip| ip.pseudo.address_len == 16);
        let (protocol, offset, pseudo_protocol) = match header.protocol {
            Protocol::Tcp => (SumProtocol::Tcp, tcp::CHECKSUM_AT, Some(6)),
            Protocol::Udp => (SumProtocol::Udp, udp::CHECKSUM_AT, Some(17)),
            Protocol::Icmp => (SumProtocol::Icmp, icmp::CHECKSUM_AT, None),
            Protocol::Icmpv6 => (SumProtocol::Icmpv6, icmpv6::CHECKSUM_AT, Some(58)),
            Protocol::Igmp => (SumProtocol::Igmp, icmp::CHECKSUM_AT, None),
            Protocol::Sctp => (SumProtocol::Sctp, sctp::CHECKSUM_AT, None),
            Protocol::Gre => {
                let has_checksum = gre::View::new(header.bytes(frame))?.has_checksum();
                has_checksum.then_some((SumProtocol::Gre, gre::CHECKSUM_AT, None))?
            }
            Protocol::UdpLite => (SumProtocol::Other, udp::CHECKSUM_AT, Some(136)),
            Protocol::Dccp => (SumProtocol::Other, 6, Some(33)),
            Protocol::Ospf if is_v6 => (SumProtocol::Other, 12, Some(89)),
            Protocol::Pim if is_v6 => (SumProtocol::Other, 2, Some(103)),
            Protocol::Vrrp if self.is_vrrp_with_addresses(frame, header) => {
                (SumProtocol::Other, 6, Some(112))
            }
            Protocol::Mobility => (SumProtocol::Other, 4, Some(135)),
            Protocol::Hip => (SumProtocol::Other, 4, Some(139)),
            _ => return None,
        };
        let (at, from, to) = (header.at + offset, header.at, header.end);
        let width = if protocol == SumProtocol::Sctp { 4 } else { 2 };
        if at + width > header.visible_end {
            return None;
        }
        let ip = self.ip?;
        let missing = match protocol {
            SumProtocol::Other => Some(NoSum::NotChecked),
            _ if ip.is_fragment => Some(NoSum::Fragment),
            _ if !header.is_whole() => Some(NoSum::Cut),
            _ if ip.hides_final_dst && pseudo_protocol.is_some() => Some(NoSum::NotChecked),
            _ => None,
        };
        let pseudo = pseudo_protocol.map(|protocol| PseudoPlaces { protocol, ..ip.pseudo });
        Some(SumPlace { protocol, at, from, to, pseudo, missing, is_quoted: header.is_quoted })
    }

    /// True if the checksum of a VRRP message covers addresses: in version 3 (RFC 5798, 5.2.8), but
    /// over IPv4 there are senders that leave them out, as RFC 9568 does.
    fn is_vrrp_with_addresses(&self, frame: &[u8], header: &Header) -> bool {
        let bytes = header.bytes(frame);
        let is_v6 = self.ip.is_some_and(|ip| ip.pseudo.address_len == 16);
        let is_right_without = || header.is_whole() && checksum::finish(checksum::add(0, bytes)) == 0;
        bytes.first().is_some_and(|byte| byte >> 4 == 3) && (is_v6 || !is_right_without())
    }
}
