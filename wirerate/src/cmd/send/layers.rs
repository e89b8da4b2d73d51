//! The headers of any frame, one after the other: what `--dry-run` prints.
//!
//! This decoder reads bytes and verifies checksums on its own; it shares no code with the plans
//! that make frames. What it does not know is payload.

use super::decode::{Checksum, MarkFields, SignatureFields};
use etherparse::checksum::Sum16BitWords;
use packet::MacAddr;
use packet::plan::{ChecksumField, PseudoHeader, SumKind};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Rows of payload that are shown.
const ROWS_MAX: usize = 4;
/// Bytes in a row.
const ROW_LEN: usize = 16;
/// Layers of a frame: more are payload.
const LAYERS_MAX: usize = 32;

/// EtherTypes.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const ETHERNET_BRIDGED: u16 = 0x6558;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;

/// One header, or the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "protocol", rename_all = "lowercase")]
#[expect(missing_docs, reason = "docs/json.md lists the fields")]
pub enum FrameLayer {
    Ethernet {
        src_mac: String,
        dst_mac: String,
        ether_type: u16,
    },
    Vlan {
        id: u16,
        priority: u8,
        dei: bool,
        ether_type: u16,
    },
    Mpls {
        label: u32,
        class: u8,
        ttl: u8,
    },
    Arp {
        operation: u16,
        sender_mac: String,
        sender: Ipv4Addr,
        target_mac: String,
        target: Ipv4Addr,
    },
    Ipv4 {
        src: Ipv4Addr,
        dst: Ipv4Addr,
        tos: u8,
        ttl: u8,
        id: u16,
        next: u8,
        fragment: bool,
        checksum: Checksum,
    },
    Ipv6 {
        src: Ipv6Addr,
        dst: Ipv6Addr,
        class: u8,
        hop_limit: u8,
        next: u8,
    },
    Udp {
        src_port: u16,
        dst_port: u16,
        checksum: Checksum,
    },
    Tcp {
        src_port: u16,
        dst_port: u16,
        flags: Vec<&'static str>,
        seq: u32,
        ack: u32,
        window: u16,
        checksum: Checksum,
    },
    Icmp {
        kind: u8,
        code: u8,
        id: u16,
        seq: u16,
        checksum: Checksum,
    },
    Icmpv6 {
        kind: u8,
        code: u8,
        id: u16,
        seq: u16,
        checksum: Checksum,
    },
    Igmp {
        kind: u8,
        group: Ipv4Addr,
        checksum: Checksum,
    },
    Sctp {
        src_port: u16,
        dst_port: u16,
        tag: u32,
        checksum: Checksum,
    },
    Gre {
        ether_type: u16,
        key: Option<u32>,
        seq: Option<u32>,
    },
    Vxlan {
        vni: u32,
    },
    Geneve {
        vni: u32,
        ether_type: u16,
    },
    Gtpu {
        teid: u32,
        kind: u8,
    },
    Esp {
        spi: u32,
        seq: u32,
    },
    Ah {
        spi: u32,
        seq: u32,
    },
    Pktgen {
        #[serde(flatten)]
        signature: SignatureFields,
    },
    Payload {
        offset: usize,
        len: usize,
    },
    Padding {
        len: usize,
    },
    Mark {
        #[serde(flatten)]
        mark: MarkFields,
    },
}

/// How the next bytes are to be read.
#[derive(Clone, Copy)]
enum NextLayer {
    Ethernet,
    EtherType(u16),
    Mpls,
    /// `header` is the first byte of the IP header.
    Ip {
        protocol: u8,
        addresses: (IpAddr, IpAddr),
        header: usize,
    },
    UdpPort(u16),
    Nothing,
}

/// The layers of a frame.
pub fn layers(frame: &[u8]) -> Vec<FrameLayer> {
    let (mut walk, at) = LayerWalk::of(frame);
    if at < walk.end && !walk.ends_itself() {
        walk.layers.push(FrameLayer::Payload { offset: at, len: walk.end - at });
    }
    if walk.padding > 0 {
        walk.layers.push(FrameLayer::Padding { len: walk.padding });
    }
    walk.layers.extend(MarkFields::of(frame).map(|mark| FrameLayer::Mark { mark }));
    walk.layers
}

/// The end of a frame, behind all headers that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTail {
    /// The payload or, if there is any, Ethernet's padding behind the packet.
    pub bytes: Range<usize>,
    /// The transport checksums that are right, those of inner packets first.
    pub checksums: Vec<ChecksumField>,
    /// True if a known protocol of an IP packet comes before it, or ARP.
    pub is_known: bool,
}

/// The end of a frame, for a mark.
pub fn tail(frame: &[u8]) -> FrameTail {
    let (mut walk, at) = LayerWalk::of(frame);
    let start = match (walk.layers.last(), walk.padding) {
        // A receiver finds pktgen's header first.
        (Some(FrameLayer::Pktgen { .. }), _) => frame.len(),
        (_, 0) => at,
        _ => walk.end,
    };
    walk.sums.reverse();
    let is_link = |layer: &FrameLayer| {
        let is_tag = matches!(layer, FrameLayer::Vlan { .. } | FrameLayer::Mpls { .. });
        is_tag || matches!(layer, FrameLayer::Ethernet { .. })
    };
    let is_ip = |layer: &FrameLayer| matches!(layer, FrameLayer::Ipv4 { .. } | FrameLayer::Ipv6 { .. });
    let is_known = walk.layers.last().is_some_and(|last| !is_link(last) && !is_ip(last));
    FrameTail { bytes: start..frame.len(), checksums: walk.sums, is_known }
}

struct LayerWalk {
    layers: Vec<FrameLayer>,
    /// Where the packet ends: behind it is Ethernet's padding.
    end: usize,
    padding: usize,
    /// Transport checksums that are right, in order of their headers.
    sums: Vec<ChecksumField>,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

fn mac(bytes: &[u8], at: usize) -> String {
    MacAddr([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4], bytes[at + 5]])
        .to_string()
}

fn verdict(is_right: bool) -> Checksum {
    if is_right { Checksum::Right } else { Checksum::Wrong }
}

/// True if the ones-complement sum of `bytes`, which hold their checksum, is right.
fn sums_up(bytes: &[u8]) -> bool {
    Sum16BitWords::new().add_slice(bytes).ones_complement() == 0
}

/// The same with the pseudo header of UDP, TCP and ICMPv6.
fn sums_up_with(addresses: (IpAddr, IpAddr), protocol: u8, bytes: &[u8]) -> bool {
    let mut sum = Sum16BitWords::new();
    for address in [addresses.0, addresses.1] {
        sum = match address {
            IpAddr::V4(address) => sum.add_4bytes(address.octets()),
            IpAddr::V6(address) => sum.add_16bytes(address.octets()),
        };
    }
    let len = (bytes.len() as u32).to_be_bytes();
    sum.add_4bytes(len).add_2bytes([0, protocol]).add_slice(bytes).ones_complement() == 0
}

/// CRC32c (RFC 9260), bit by bit.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// The CRC of an SCTP packet is computed with zeros in its place and sent with its low byte first.
fn is_sctp_right(packet: &[u8]) -> bool {
    let zeroed = packet.iter().enumerate().map(|(at, byte)| if (8..12).contains(&at) { 0 } else { *byte });
    crc32c(zeroed).to_le_bytes() == packet[8..12]
}

impl LayerWalk {
    /// All headers of a frame, and the first byte behind them.
    fn of(frame: &[u8]) -> (Self, usize) {
        let mut walk = Self { layers: Vec::new(), end: frame.len(), padding: 0, sums: Vec::new() };
        let mut at = 0;
        let mut next = NextLayer::Ethernet;
        while walk.layers.len() < LAYERS_MAX
            && let Some((taken, then)) = walk.layer(frame, at, next)
        {
            at += taken;
            next = then;
        }
        (walk, at.min(frame.len()))
    }

    /// True if the last header names what is behind it.
    fn ends_itself(&self) -> bool {
        let last = self.layers.last();
        matches!(last, Some(FrameLayer::Pktgen { .. } | FrameLayer::Esp { .. } | FrameLayer::Ah { .. }))
    }

    /// Notes a checksum that is right.
    fn noted(&mut self, sum: ChecksumField, checksum: Checksum) -> Checksum {
        self.sums.extend((checksum == Checksum::Right).then_some(sum));
        checksum
    }

    /// Adds the header at `at`. Returns its bytes and how those behind it are to be read; `None`
    /// for what is payload.
    fn layer(&mut self, frame: &[u8], at: usize, next: NextLayer) -> Option<(usize, NextLayer)> {
        let rest = &frame[at..self.end];
        match next {
            NextLayer::Nothing => None,
            NextLayer::Ethernet => {
                let header = rest.get(..14)?;
                let ether_type = word(header, 12);
                self.layers.push(FrameLayer::Ethernet {
                    src_mac: mac(header, 6),
                    dst_mac: mac(header, 0),
                    ether_type,
                });
                Some((14, NextLayer::EtherType(ether_type)))
            }
            NextLayer::EtherType(ether_type) => self.behind_ether_type(rest, at, ether_type),
            NextLayer::Mpls => {
                let entry = long(rest.get(..4)?, 0);
                self.layers.push(FrameLayer::Mpls {
                    label: entry >> 12,
                    class: (entry >> 9 & 7) as u8,
                    ttl: entry as u8,
                });
                let is_last = entry & 0x100 != 0;
                Some((
                    4,
                    if is_last { NextLayer::EtherType(by_version(&rest[4..])) } else { NextLayer::Mpls },
                ))
            }
            NextLayer::Ip { protocol, addresses, header } => {
                self.behind_ip((rest, at), protocol, addresses, header)
            }
            NextLayer::UdpPort(port) => self.behind_udp(rest, port),
        }
    }

    fn behind_ether_type(&mut self, rest: &[u8], at: usize, ether_type: u16) -> Option<(usize, NextLayer)> {
        match ether_type {
            _ if VLAN_TAGS.contains(&ether_type) => {
                let (tag, ether_type) = (word(rest.get(..4)?, 0), word(rest, 2));
                let (id, priority, dei) = (tag & 0xfff, (tag >> 13) as u8, tag & 0x1000 != 0);
                self.layers.push(FrameLayer::Vlan { id, priority, dei, ether_type });
                Some((4, NextLayer::EtherType(ether_type)))
            }
            MPLS => Some((0, NextLayer::Mpls)),
            ETHERNET_BRIDGED => Some((0, NextLayer::Ethernet)),
            ARP => {
                let packet = rest.get(..28).filter(|packet| packet[..6] == [0, 1, 8, 0, 6, 4])?;
                self.layers.push(FrameLayer::Arp {
                    operation: word(packet, 6),
                    sender_mac: mac(packet, 8),
                    sender: Ipv4Addr::from_bits(long(packet, 14)),
                    target_mac: mac(packet, 18),
                    target: Ipv4Addr::from_bits(long(packet, 24)),
                });
                self.ends_at(at + 28);
                Some((28, NextLayer::Nothing))
            }
            IPV4 => self.ipv4(rest, at),
            IPV6 => self.ipv6(rest, at),
            _ => None,
        }
    }

    /// Bytes behind the end of a packet are padding.
    fn ends_at(&mut self, end: usize) {
        if end < self.end {
            self.padding += self.end - end;
            self.end = end;
        }
    }

    fn ipv4(&mut self, rest: &[u8], at: usize) -> Option<(usize, NextLayer)> {
        let header_len = usize::from(*rest.first().filter(|byte| *byte >> 4 == 4)? & 15) * 4;
        let header = rest.get(..header_len.max(20)).filter(|_| header_len >= 20)?;
        let [src, dst] = [12, 16].map(|at| Ipv4Addr::from_bits(long(header, at)));
        let (next, fragment) = (header[9], word(header, 6) & 0x3fff != 0);
        let (tos, ttl, id, checksum) = (header[1], header[8], word(header, 4), verdict(sums_up(header)));
        self.layers.push(FrameLayer::Ipv4 { src, dst, tos, ttl, id, next, fragment, checksum });
        let total_len = usize::from(word(header, 2));
        if total_len >= header_len {
            self.ends_at(at + total_len);
        }
        let behind = NextLayer::Ip { protocol: next, addresses: (src.into(), dst.into()), header: at };
        Some((header_len, if fragment { NextLayer::Nothing } else { behind }))
    }

    fn ipv6(&mut self, rest: &[u8], at: usize) -> Option<(usize, NextLayer)> {
        let header = rest.get(..40).filter(|header| header[0] >> 4 == 6)?;
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        let (src, dst, next, hop_limit) = (address(8), address(24), header[6], header[7]);
        let class = (word(header, 0) >> 4) as u8;
        self.layers.push(FrameLayer::Ipv6 { src, dst, class, hop_limit, next });
        self.ends_at(at + 40 + usize::from(word(header, 4)));
        Some((40, NextLayer::Ip { protocol: next, addresses: (src.into(), dst.into()), header: at }))
    }

    fn behind_ip(
        &mut self,
        (rest, at): (&[u8], usize),
        protocol: u8,
        addresses: (IpAddr, IpAddr),
        header: usize,
    ) -> Option<(usize, NextLayer)> {
        let pseudo_header = match addresses.0 {
            IpAddr::V4(_) => PseudoHeader::Ipv4 { header, protocol },
            IpAddr::V6(_) => PseudoHeader::Ipv6 { header, protocol },
        };
        let sum = || verdict(sums_up_with(addresses, protocol, rest));
        let (start, end) = (at, at + rest.len());
        let field = |offset, pseudo_header| {
            let (offset, kind) = (at + offset, SumKind::Internet);
            ChecksumField { offset, start, end, pseudo_header, kind, is_wrong: false }
        };
        let (layer, taken, next) = match protocol {
            1 | 58 => {
                let is_short = protocol == 58 && (4..8).contains(&rest.len());
                let header = rest.get(..if is_short { 4 } else { 8 })?;
                let (kind, code) = (header[0], header[1]);
                let (id, seq) = if is_short { (0, 0) } else { (word(header, 4), word(header, 6)) };
                let layer = match protocol {
                    1 => FrameLayer::Icmp {
                        kind,
                        code,
                        id,
                        seq,
                        checksum: self.noted(field(2, PseudoHeader::None), verdict(sums_up(rest))),
                    },
                    _ => FrameLayer::Icmpv6 {
                        kind,
                        code,
                        id,
                        seq,
                        checksum: self.noted(field(2, pseudo_header), sum()),
                    },
                };
                (layer, header.len(), NextLayer::Nothing)
            }
            2 => {
                let group = Ipv4Addr::from_bits(long(rest.get(..8)?, 4));
                (
                    FrameLayer::Igmp {
                        kind: rest[0],
                        group,
                        checksum: self.noted(field(2, PseudoHeader::None), verdict(sums_up(rest))),
                    },
                    8,
                    NextLayer::Nothing,
                )
            }
            4 => return Some((0, NextLayer::EtherType(IPV4))),
            41 => return Some((0, NextLayer::EtherType(IPV6))),
            137 => return Some((0, NextLayer::Mpls)),
            6 => {
                let header = rest.get(..20)?;
                let header_len = usize::from(header[12] >> 4) * 4;
                let layer = FrameLayer::Tcp {
                    src_port: word(header, 0),
                    dst_port: word(header, 2),
                    flags: tcp_flags(header[13]),
                    seq: long(header, 4),
                    ack: long(header, 8),
                    window: word(header, 14),
                    checksum: self.noted(field(16, pseudo_header), sum()),
                };
                (layer, header_len.clamp(20, rest.len()), NextLayer::Nothing)
            }
            17 => return self.udp(rest, addresses, field(6, pseudo_header)),
            47 => return self.gre(rest),
            50 | 51 => {
                let at = if protocol == 50 { 0 } else { 4 };
                let (spi, seq) = (long(rest.get(..at + 8)?, at), long(rest, at + 4));
                let layer =
                    if protocol == 50 { FrameLayer::Esp { spi, seq } } else { FrameLayer::Ah { spi, seq } };
                (layer, at + 8, NextLayer::Nothing)
            }
            132 => {
                let header = rest.get(..12)?;
                let layer = FrameLayer::Sctp {
                    src_port: word(header, 0),
                    dst_port: word(header, 2),
                    tag: long(header, 4),
                    checksum: self.noted(
                        ChecksumField { kind: SumKind::Crc32c, ..field(8, PseudoHeader::None) },
                        verdict(is_sctp_right(rest)),
                    ),
                };
                (layer, 12, NextLayer::Nothing)
            }
            _ => return None,
        };
        self.layers.push(layer);
        Some((taken, next))
    }

    fn udp(
        &mut self,
        rest: &[u8],
        addresses: (IpAddr, IpAddr),
        sum: ChecksumField,
    ) -> Option<(usize, NextLayer)> {
        let header = rest.get(..8)?;
        // A length that contradicts the IP header makes the checksum wrong.
        let datagram = rest.get(..usize::from(word(header, 4))).unwrap_or(rest);
        let checksum = match word(header, 6) {
            0 => Checksum::None,
            _ => verdict(datagram.len() >= 8 && sums_up_with(addresses, 17, datagram)),
        };
        let end = sum.start + datagram.len();
        let checksum = self.noted(ChecksumField { end, kind: SumKind::Udp, ..sum }, checksum);
        let (src_port, dst_port) = (word(header, 0), word(header, 2));
        self.layers.push(FrameLayer::Udp { src_port, dst_port, checksum });
        if let Some(signature) = SignatureFields::parse(&rest[8..]) {
            self.layers.push(FrameLayer::Pktgen { signature });
            return Some((8, NextLayer::Nothing));
        }
        Some((8, NextLayer::UdpPort(dst_port)))
    }

    fn gre(&mut self, rest: &[u8]) -> Option<(usize, NextLayer)> {
        let (flags, ether_type) = (word(rest.get(..4)?, 0), word(rest, 2));
        let mut taken = 4;
        let mut group = |bit: u16| {
            if flags & bit == 0 {
                return Some(None);
            }
            let value = long(rest.get(taken..taken + 4)?, 0);
            taken += 4;
            Some(Some(value))
        };
        let (_checksum, key, seq) = (group(0x8000)?, group(0x2000)?, group(0x1000)?);
        self.layers.push(FrameLayer::Gre { ether_type, key, seq });
        Some((taken, NextLayer::EtherType(ether_type)))
    }

    fn behind_udp(&mut self, rest: &[u8], port: u16) -> Option<(usize, NextLayer)> {
        let header = rest.get(..8)?;
        let (layer, taken, next) = match port {
            4789 => (FrameLayer::Vxlan { vni: long(header, 4) >> 8 }, 8, NextLayer::Ethernet),
            6081 => {
                let ether_type = word(header, 2);
                let taken = 8 + usize::from(header[0] & 0x3f) * 4;
                rest.get(..taken)?;
                (
                    FrameLayer::Geneve { vni: long(header, 4) >> 8, ether_type },
                    taken,
                    NextLayer::EtherType(ether_type),
                )
            }
            2152 if header[0] >> 5 == 1 => {
                let taken = if header[0] & 7 == 0 { 8 } else { 12 };
                let inner = NextLayer::EtherType(by_version(rest.get(taken..)?));
                let (teid, kind) = (long(header, 4), header[1]);
                (
                    FrameLayer::Gtpu { teid, kind },
                    taken,
                    if kind == 0xff { inner } else { NextLayer::Nothing },
                )
            }
            _ => return None,
        };
        self.layers.push(layer);
        Some((taken, next))
    }
}

/// The EtherType of an IP packet that is not named by the header before it; 0 for another payload.
fn by_version(packet: &[u8]) -> u16 {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => IPV4,
        Some(6) => IPV6,
        _ => 0,
    }
}

fn tcp_flags(bits: u8) -> Vec<&'static str> {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    names.into_iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| name).collect()
}

/// What an ICMP message is called.
fn icmp_name(kind: u8, is_v6: bool) -> Option<&'static str> {
    match (is_v6, kind) {
        (false, 8) | (true, 128) => Some("echo request"),
        (false, 0) | (true, 129) => Some("echo reply"),
        (false, 3) | (true, 1) => Some("unreachable"),
        (false, 11) | (true, 3) => Some("time exceeded"),
        (true, 2) => Some("packet too big"),
        (true, 133) => Some("router solicitation"),
        (true, 134) => Some("router advertisement"),
        (true, 135) => Some("neighbour solicitation"),
        (true, 136) => Some("neighbour advertisement"),
        _ => None,
    }
}

/// The text of a frame: a line per layer, tags behind the Ethernet header.
pub fn write_text(f: &mut fmt::Formatter<'_>, layers: &[FrameLayer], frame: &[u8]) -> fmt::Result {
    let mut is_first = true;
    for (index, layer) in layers.iter().enumerate() {
        match layer {
            FrameLayer::Vlan { id, priority, dei, .. } => {
                write!(f, "  VLAN {id}")?;
                if *priority > 0 {
                    write!(f, " priority {priority}")?;
                }
                if *dei {
                    write!(f, " DEI")?;
                }
                continue;
            }
            FrameLayer::Mpls { label, .. } => {
                let is_more = index > 0 && matches!(layers[index - 1], FrameLayer::Mpls { .. });
                write!(f, "{}{label}", if is_more { " " } else { "  MPLS " })?;
                continue;
            }
            _ => {}
        }
        if !std::mem::take(&mut is_first) {
            writeln!(f)?;
        }
        write!(f, "  ")?;
        layer.write_line(f)?;
        if let FrameLayer::Payload { offset, len } = layer {
            write_rows(f, *offset, &frame[*offset..*offset + *len])?;
        }
    }
    writeln!(f)
}

/// Bytes as hexadecimal rows with their offset in the frame.
fn write_rows(f: &mut fmt::Formatter<'_>, offset: usize, bytes: &[u8]) -> fmt::Result {
    for (row, chunk) in bytes.chunks(ROW_LEN).take(ROWS_MAX).enumerate() {
        write!(f, "\n    {:04x} ", offset + row * ROW_LEN)?;
        chunk.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
    }
    if bytes.len() > ROWS_MAX * ROW_LEN { write!(f, "\n    ...") } else { Ok(()) }
}

impl FrameLayer {
    fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet { src_mac, dst_mac, ether_type } => {
                write!(f, "Ethernet  {src_mac} > {dst_mac}")?;
                let is_known = [IPV4, IPV6, ARP, MPLS].contains(ether_type) || VLAN_TAGS.contains(ether_type);
                if is_known { Ok(()) } else { write!(f, "  type {ether_type:#06x}") }
            }
            Self::Vlan { .. } | Self::Mpls { .. } => Ok(()),
            Self::Arp { operation, sender_mac, sender, target_mac, target } => match operation {
                1 => write!(f, "ARP       who has {target}? tell {sender} ({sender_mac})"),
                2 => write!(f, "ARP       {sender} is at {sender_mac}, for {target} ({target_mac})"),
                _ => write!(f, "ARP       operation {operation}  {sender} > {target}"),
            },
            Self::Ipv4 { src, dst, tos, ttl, id, next, fragment, checksum } => {
                write!(f, "IPv4      {src} > {dst}  tos {tos:#04x}  ttl {ttl}  id {id}")?;
                if *checksum != Checksum::Right {
                    write!(f, "  checksum {checksum}")?;
                }
                if *fragment { write!(f, "  fragment of protocol {next}") } else { Ok(()) }
            }
            Self::Ipv6 { src, dst, class, hop_limit, .. } => {
                write!(f, "IPv6      {src} > {dst}  class {class:#04x}  hops {hop_limit}")
            }
            Self::Udp { src_port, dst_port, checksum } => {
                write!(f, "UDP       {src_port} > {dst_port}  checksum {checksum}")
            }
            Self::Tcp { src_port, dst_port, flags, seq, ack, window, checksum } => {
                let flags = flags.join(" ");
                write!(
                    f,
                    "TCP       {src_port} > {dst_port}  [{flags}]  seq {seq}  ack {ack}  window {window}  checksum {checksum}"
                )
            }
            Self::Icmp { kind, code, id, seq, checksum } => {
                write!(f, "ICMP      ")?;
                write_icmp(f, (*kind, *code), (*id, *seq), *checksum, false)
            }
            Self::Icmpv6 { kind, code, id, seq, checksum } => {
                write!(f, "ICMPv6    ")?;
                write_icmp(f, (*kind, *code), (*id, *seq), *checksum, true)
            }
            Self::Igmp { kind, group, checksum } => {
                let name = match kind {
                    0x11 => "query",
                    0x16 | 0x22 => "report",
                    0x17 => "leave",
                    _ => "other",
                };
                write!(f, "IGMP      {name} (type {kind:#04x})  group {group}  checksum {checksum}")
            }
            Self::Sctp { src_port, dst_port, tag, checksum } => {
                write!(f, "SCTP      {src_port} > {dst_port}  tag {tag:#x}  checksum {checksum}")
            }
            Self::Gre { ether_type, key, seq } => {
                write!(f, "GRE       type {ether_type:#06x}")?;
                key.iter().try_for_each(|key| write!(f, "  key {key}"))?;
                seq.iter().try_for_each(|seq| write!(f, "  seq {seq}"))
            }
            Self::Vxlan { vni } => write!(f, "VXLAN     vni {vni}"),
            Self::Geneve { vni, ether_type } => write!(f, "Geneve    vni {vni}  type {ether_type:#06x}"),
            Self::Gtpu { teid, kind } => write!(f, "GTP-U     teid {teid:#x}  type {kind}"),
            Self::Esp { spi, seq } => write!(f, "ESP       spi {spi:#x}  seq {seq}"),
            Self::Ah { spi, seq } => write!(f, "AH        spi {spi:#x}  seq {seq}"),
            Self::Pktgen { signature } => signature.write_line(f),
            Self::Payload { len, .. } => write!(f, "payload   {len} bytes"),
            Self::Padding { len } => write!(f, "padding   {len} bytes"),
            Self::Mark { mark } => mark.write_line(f),
        }
    }
}

fn write_icmp(
    f: &mut fmt::Formatter<'_>,
    (kind, code): (u8, u8),
    (id, seq): (u16, u16),
    checksum: Checksum,
    is_v6: bool,
) -> fmt::Result {
    match icmp_name(kind, is_v6) {
        Some(name) if name.starts_with("echo") => write!(f, "{name}  id {id}  seq {seq}")?,
        Some(name) => write!(f, "{name}  code {code}")?,
        None => write!(f, "type {kind}  code {code}")?,
    }
    write!(f, "  checksum {checksum}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::send::raw_frame::RawFrame;
    use frames::{Expander, NoCaptures, PacketOrder, ParseSettings};

    /// The first frame of a packet in trafgen's language.
    fn frame(packet: &str) -> Vec<u8> {
        let specs = frames::parse(packet.as_bytes(), &ParseSettings::default(), &mut NoCaptures);
        let specs = specs.unwrap_or_else(|error| panic!("{error}"));
        Expander::new(&specs, PacketOrder::RoundRobin, 1).next_frame().expect("there are packets").to_vec()
    }

    fn text(frame: &[u8]) -> String {
        RawFrame::new(1, 0, frame).to_string()
    }

    #[test]
    fn each_protocol_has_its_line_and_checksums_are_verified() {
        let eth = "eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01)";
        let ip = "ipv4(sa=10.0.0.1, da=10.0.0.2, ttl=9)";
        let v6 = "eth(type=0x86dd) ipv6(sa=fd00::1, da=fd00::2, hl=9)";
        for (packet, lines) in [
            (
                format!("{{ {eth} {ip} tcp(sp=4000, dp=80, seq=7, syn, ack, win=99) }}"),
                "TCP       4000 > 80  [SYN ACK]  seq 7  ack 0  window 99  checksum right",
            ),
            (
                format!("{{ {eth} {ip} icmp4(echorequest, id=3, seq=4) 1 2 3 }}"),
                "ICMP      echo request  id 3  seq 4  checksum right\n  payload   3 bytes\n    002a  01 02 03",
            ),
            (
                format!("{{ {v6} icmp6(echorequest) c16(3) c16(4) 1 }}"),
                "ICMPv6    echo request  id 3  seq 4  checksum right",
            ),
            (
                format!("{{ {v6} icmp6(type=135) fill(0, 20) }}"),
                "ICMPv6    neighbour solicitation  code 0  checksum right",
            ),
            (
                format!(
                    "{{ {eth} arp(request, sip=10.0.0.1, tip=10.0.0.2, smac=02:00:00:00:00:01) fill(0, 18) }}"
                ),
                "ARP       who has 10.0.0.2? tell 10.0.0.1 (02:00:00:00:00:01)\n  padding   18 bytes",
            ),
            (
                format!(
                    "{{ {eth} arp(reply, sip=10.0.0.1, tip=10.0.0.2, smac=02:00:00:00:00:01, tmac=02:00:00:00:00:02) }}"
                ),
                "ARP       10.0.0.1 is at 02:00:00:00:00:01, for 10.0.0.2 (02:00:00:00:00:02)",
            ),
            (
                format!(
                    "{{ {eth} vlan(id=7, pcp=5) mpls(label=16) mpls(label=17) {ip} igmp(report, group=224.0.0.5) }}"
                ),
                "02:00:00:00:00:02  VLAN 7 priority 5  MPLS 16 17\n  IPv4      10.0.0.1 > 10.0.0.2  tos 0x00  ttl 9  id 0\n  \
                 IGMP      report (type 0x16)  group 224.0.0.5  checksum right",
            ),
            (
                format!("{{ {eth} {ip} sctp(sp=9, dp=10, vtag=5) 1 2 3 4 }}"),
                "SCTP      9 > 10  tag 0x5  checksum right",
            ),
            (
                format!("{{ {eth} {ip} gre(key=7, seq=8) ipv4(sa=10.1.0.1) udp(sp=1, dp=2) }}"),
                "GRE       type 0x0800  key 7  seq 8\n  IPv4      10.1.0.1 > 0.0.0.0  tos 0x00  ttl 0  id 0\n  \
                 UDP       1 > 2  checksum right",
            ),
            (
                format!("{{ {eth} {ip} udp(sp=5) vxlan(vni=42) eth() ipv4() tcp(syn) }}"),
                "UDP       5 > 4789  checksum right\n  VXLAN     vni 42\n  Ethernet  00:00:00:00:00:00 > 00:00:00:00:00:00\n  IPv4",
            ),
            (
                format!("{{ {eth} {ip} geneve(vni=3) eth() arp() }}"),
                "Geneve    vni 3  type 0x6558\n  Ethernet",
            ),
            (
                format!("{{ {eth} {ip} gtpu(teid=0x12) ipv4() udp() }}"),
                "GTP-U     teid 0x12  type 255\n  IPv4",
            ),
            (format!("{{ {eth} {ip} udp(csum=0) }}"), "checksum none"),
            (
                format!("{{ {eth} ipv4(mf, id=3) udp() }}"),
                "id 3  fragment of protocol 17\n  payload   8 bytes",
            ),
            (
                format!(
                    "{{ {eth} {ip} tcp(syn) 0x57 0x52 0x4f 0x54 c16(3) c16(77) c32(9) c16(0) c32(1500) }}"
                ),
                "\n  mark      flow 3  number 9  run 77  time 1500 ns",
            ),
            (
                "{ eth(type=0x88b5) fill(1, 70) }".to_owned(),
                "type 0x88b5\n  payload   70 bytes\n    000e  01 01",
            ),
        ] {
            let shown = text(&frame(&packet));
            assert!(shown.contains(lines), "{packet}\n{shown}");
            assert!(!shown.contains("WRONG"), "{packet}\n{shown}");
            has_documented_fields(&RawFrame::new(1, 0, &frame(&packet)).json_line());
        }
    }

    /// Each field of each layer is in the table of docs/json.md.
    fn has_documented_fields(json: &str) {
        let page = include_str!("../../../../docs/json.md");
        let frame: serde_json::Value = serde_json::from_str(json).expect("a line of JSON");
        for layer in frame["layers"].as_array().expect("layers") {
            let protocol = layer["protocol"].as_str().expect("a name");
            let is_row = |line: &&str| {
                let name = line.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
                name.split(", ").any(|name| name == format!("`{protocol}`"))
            };
            let row =
                page.lines().skip_while(|line| *line != "<!-- layers -->").find(is_row).expect(protocol);
            for field in layer.as_object().expect("an object").keys().filter(|field| *field != "protocol") {
                assert!(row.contains(&format!("`{field}`")), "{field} of {protocol}");
            }
        }
    }

    /// Each bit of a checksum counts, in each protocol that has one.
    #[test]
    fn a_wrong_checksum_is_shown_as_wrong() {
        for (packet, offset) in [
            ("{ ipv4(sa=10.0.0.1) tcp(syn) }", 24),
            ("{ ipv4(sa=10.0.0.1) tcp(syn) }", 50),
            ("{ ipv4(sa=10.0.0.1) udp(sp=1) 5 }", 40),
            ("{ ipv4(sa=10.0.0.1) icmp4(echorequest) 5 }", 36),
            ("{ ipv4(sa=10.0.0.1) igmp(query) }", 36),
            ("{ ipv4(sa=10.0.0.1) sctp(sp=1) 1 2 3 4 }", 42),
            ("{ eth(type=0x86dd) ipv6(sa=fd00::1) icmp6(echorequest) fill(0, 4) }", 56),
            ("{ vxlan(vni=3) eth() ipv4(sa=10.0.0.1) udp(sp=1) }", 64 + 26),
        ] {
            let mut bytes = frame(packet);
            assert!(!text(&bytes).contains("WRONG"), "{packet}");
            bytes[offset] ^= 1;
            assert!(text(&bytes).contains("checksum WRONG"), "{packet}\n{}", text(&bytes));
        }
    }

    #[test]
    fn the_tail_of_a_frame_is_its_payload_or_padding_with_the_checksums_that_cover_it() {
        for (packet, bytes, sums, is_known) in [
            ("{ ipv4(sa=10.0.0.1) udp(sp=1) fill(7, 20) }", 42..62, vec![40], true),
            ("{ ipv4(sa=10.0.0.1) udp(csum=0) fill(7, 20) }", 42..62, vec![], true),
            ("{ ipv4(sa=10.0.0.1) tcp(syn) }", 54..54, vec![50], true),
            ("{ eth() arp(request) fill(0, 18) }", 42..60, vec![], true),
            ("{ vxlan(vni=3) eth() ipv4(sa=10.0.0.1) udp(sp=1) 1 2 }", 92..94, vec![90, 40], true),
            ("{ eth(type=0x88b5) fill(1, 70) }", 14..84, vec![], false),
            ("{ ipv4(mf, id=3) udp() }", 34..42, vec![], false),
            ("{ ipv4() sctp(sp=1) 1 2 3 4 }", 46..50, vec![42], true),
        ] {
            let found = tail(&frame(packet));
            let offsets: Vec<usize> = found.checksums.iter().map(|sum| sum.offset).collect();
            assert_eq!((found.bytes, offsets, found.is_known), (bytes, sums, is_known), "{packet}");
            let (mut again, whole) = (frame(packet), frame(packet));
            found.checksums.iter().for_each(|sum| sum.write(&mut again));
            assert_eq!(again, whole, "{packet}");
        }
    }

    /// Frames may be cut anywhere, and lengths may contradict each other.
    #[test]
    fn no_bytes_do_harm() {
        testkit::fuzz!("no_bytes_do_harm", 600_000, |seed| {
            let mut rng = packet::Rng(seed);
            let packets = [
                "{ vlan(id=3) mpls(label=3) ipv4() gre(key=3) ipv4() tcp(syn) drnd(9) }",
                "{ vxlan(vni=3) eth() ipv4() icmp4() drnd(9) }",
                "{ eth(type=0x86dd) ipv6() gtpu(seq=4) ipv4() sctp() drnd(9) }",
                "{ geneve(vni=1) eth() arp() drnd(40) }",
                "{ ipv4() igmp() }",
            ];
            let mut bytes = frame(packets[rng.below(packets.len() as u32) as usize]);
            for _ in 0..rng.below(6) {
                let at = rng.below(bytes.len() as u32) as usize;
                bytes[at] = rng.below(256) as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u32 + 1) as usize);
            let shown = layers(&bytes);
            let covered: usize = shown
                .iter()
                .map(|layer| match layer {
                    FrameLayer::Payload { len, .. } | FrameLayer::Padding { len } => *len,
                    _ => 0,
                })
                .sum();
            assert!(covered <= bytes.len());
            text(&bytes);
        });
    }
}
