//! The headers of any frame, one after the other: what `--dry-run` prints.
//!
//! The walk of `packet` finds the headers and their checksums. What it does not know, and a packet
//! that an ICMP error quotes, is payload here.

use facts::Described;
use measure::{Mark, Signature};
use packet::MacAddr;
use packet::headers::{
    FirstHeader, Header, Protocol, PseudoPlaces, SumFinder, SumPlace, SumProtocol, Walk, ah, arp, esp,
    ethernet, fragment, geneve, gre, gtpu, icmp, ipv4, ipv6, mpls, pppoe, sctp, tcp, udp, vlan, vxlan,
};
use packet::plan::{ChecksumField, MARK_LEN, PseudoHeader, SumKind};
use serde::Serialize;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Layers of a frame: more are payload.
const LAYERS_MAX: usize = 32;

/// What a checksum of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// The field is zero.
    None,
    /// As computed from the frame.
    Right,
    /// Anything else.
    Wrong,
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Right => "right",
            Self::Wrong => "WRONG",
        })
    }
}

/// What the signature of a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct SignatureFields {
    /// Sequence number in the pktgen header; absent with `--signature none`.
    pub seq_num: u32,
    /// Seconds in the pktgen header; absent with `--signature none`.
    pub tv_sec: u32,
    /// Microseconds in the pktgen header; absent with `--signature none`.
    pub tv_usec: u32,
    /// Flow, number in the flow and run; only full signatures have them.
    #[serde(flatten)]
    pub in_flow: Option<InFlow>,
}

/// The place of a frame in its flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct InFlow {
    /// The flow. Of signatures, only full ones have it.
    pub flow: u32,
    /// Number in the flow. Of signatures, only full ones have it.
    pub flow_number: u64,
    /// The run. Of signatures, only full ones have it.
    pub run: u16,
}

impl SignatureFields {
    /// The signature at the start of `payload`, if there is one.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let Signature { seq_num, sec, usec, full, .. } = Signature::parse(payload)?;
        let in_flow = full.map(|full| InFlow { flow: full.flow, flow_number: full.number, run: full.run });
        Some(Self { seq_num, tv_sec: sec, tv_usec: usec, in_flow })
    }

    /// The lines that a dry run prints.
    pub(super) fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq_num, tv_sec, tv_usec, in_flow } = self;
        write!(f, "pktgen    seq {seq_num}  time {tv_sec}.{tv_usec:06}")?;
        in_flow.iter().try_for_each(|InFlow { flow, flow_number, run }| {
            write!(f, "\n  flow      {flow}  number {flow_number}  run {run}")
        })
    }
}

/// What the mark at the end of a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct MarkFields {
    /// Flow, number in the flow and run.
    #[serde(flatten)]
    pub in_flow: InFlow,
    /// CLOCK_MONOTONIC of the sender, modulo 2^48; 0 for no time.
    pub time_ns: u64,
}

impl MarkFields {
    /// The mark of `frame`, if it has one.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let Mark { flow, run, seq_num, time_ns } = Mark::parse(frame.last_chunk::<MARK_LEN>()?)?;
        let in_flow = InFlow { flow: flow.into(), flow_number: seq_num.into(), run };
        Some(Self { in_flow, time_ns })
    }

    /// The line that a dry run prints.
    pub(super) fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InFlow { flow, flow_number, run } = &self.in_flow;
        write!(f, "mark      flow {flow}  number {flow_number}  run {run}  time {} ns", self.time_ns)
    }
}

/// One header, or the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(tag = "protocol", rename_all = "lowercase")]
#[expect(missing_docs, reason = "most fields are those of the headers, by their names")]
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
    Pppoe {
        session: u16,
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
    /// `kind` of the IPv6 extension header is `options`, `destination options`, `routing`,
    /// `fragment`, `mobility` or `HIP`.
    Extension {
        #[fact(kind = Kind::Word(&["options", "destination options", "routing", "fragment", "mobility", "HIP"]))]
        kind: &'static str,
        #[fact(unit = "bytes")]
        len: usize,
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
    /// `null` where the header has none.
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
    /// The last three in full signatures only.
    Pktgen {
        #[serde(flatten)]
        signature: SignatureFields,
    },
    /// Its place in the frame.
    Payload {
        #[fact(unit = "bytes")]
        offset: usize,
        #[fact(unit = "bytes")]
        len: usize,
    },
    /// Bytes behind the end of the IP packet or the ARP message.
    Padding {
        #[fact(unit = "bytes")]
        len: usize,
    },
    /// The last 18 bytes, which are also part of the payload or padding.
    Mark {
        #[serde(flatten)]
        mark: MarkFields,
    },
}

/// The layers of a frame.
pub fn layers(frame: &[u8]) -> Vec<FrameLayer> {
    let mut found = FoundLayers::of(frame);
    if found.payload_at < found.end && !found.ends_itself() {
        let (offset, len) = (found.payload_at, found.end - found.payload_at);
        found.layers.push(FrameLayer::Payload { offset, len });
    }
    if found.end < frame.len() {
        found.layers.push(FrameLayer::Padding { len: frame.len() - found.end });
    }
    found.layers.extend(MarkFields::of(frame).map(|mark| FrameLayer::Mark { mark }));
    found.layers
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
    let mut found = FoundLayers::of(frame);
    let start = match found.layers.last() {
        // A receiver finds pktgen's header first.
        Some(FrameLayer::Pktgen { .. }) => frame.len(),
        _ if found.end < frame.len() => found.end,
        _ => found.payload_at,
    };
    found.sums.reverse();
    let is_outer = |layer: &FrameLayer| {
        use FrameLayer::{Ethernet, Extension, Ipv4, Ipv6, Mpls, Pppoe, Vlan};
        let is_link = matches!(layer, Ethernet { .. } | Vlan { .. } | Mpls { .. } | Pppoe { .. });
        is_link || matches!(layer, Ipv4 { .. } | Ipv6 { .. } | Extension { .. })
    };
    let is_known = found.layers.last().is_some_and(|last| !is_outer(last));
    FrameTail { bytes: start..frame.len(), checksums: found.sums, is_known }
}

/// If the checksum is the right one.
fn verdict(sum: &SumPlace, frame: &[u8]) -> Checksum {
    match sum.is_right(frame) {
        _ if sum.is_none(frame) => Checksum::None,
        Some(true) => Checksum::Right,
        // A checksum over bytes that are not there is not right.
        _ => Checksum::Wrong,
    }
}

/// True if what follows is only a part of a payload.
fn is_fragment(frame: &[u8], header: &Header) -> bool {
    let bytes = header.bytes(frame);
    match header.protocol {
        Protocol::Ipv4 => ipv4::View::new(bytes).is_some_and(|view| view.is_fragment()),
        // A packet in one fragment is whole (RFC 6946).
        Protocol::Fragment => fragment::View::new(bytes).is_none_or(|view| view.is_fragment()),
        _ => false,
    }
}

struct FoundLayers {
    layers: Vec<FrameLayer>,
    /// The first byte behind the headers.
    payload_at: usize,
    /// Where the packet ends: behind it is Ethernet's padding.
    end: usize,
    /// Transport checksums that are right, in order of their headers.
    sums: Vec<ChecksumField>,
}

impl FoundLayers {
    fn of(frame: &[u8]) -> Self {
        let mut found = Self { layers: Vec::new(), payload_at: 0, end: frame.len(), sums: Vec::new() };
        let (mut walk, mut finder) = (Walk::new(frame, FirstHeader::Ethernet), SumFinder::default());
        while found.layers.len() < LAYERS_MAX
            && let Some(header) = walk.next()
            && !header.is_quoted
        {
            let sum = finder.see(frame, &header);
            let Some(layer) = layer(frame, &header, sum.map(|sum| verdict(&sum, frame))) else { break };
            found.payload_at = (header.at + header.len).min(header.visible_end);
            match header.protocol {
                protocol if protocol.is_ip() => found.end = header.visible_end,
                Protocol::Arp => found.end = found.payload_at,
                _ => {}
            }
            found.sums.extend(sum.and_then(|sum| rewritable(&sum, frame)));
            found.layers.push(layer);
            let payload = frame.get(found.payload_at..header.visible_end);
            if let Some(signature) = payload.and_then(SignatureFields::parse) {
                found.layers.push(FrameLayer::Pktgen { signature });
                return found;
            }
            if is_fragment(frame, &header) {
                return found;
            }
        }
        // Bytes between two headers, such as the control word of a pseudowire, are no payload.
        if walk.end().at > found.payload_at && walk.clone().next().is_none() && !found.layers.is_empty() {
            found.payload_at = found.payload_at.max(walk.end().at.min(found.end));
        }
        found
    }

    /// True if the last header names what is behind it.
    fn ends_itself(&self) -> bool {
        matches!(self.layers.last(), Some(FrameLayer::Pktgen { .. } | FrameLayer::Esp { .. }))
    }
}

/// A right checksum of a payload as a plan computes it; nothing if the plan's is another one, as
/// that of an IPv4 packet with a source route.
fn rewritable(sum: &SumPlace, frame: &[u8]) -> Option<ChecksumField> {
    let kind = match sum.protocol {
        SumProtocol::Ipv4 | SumProtocol::Other => return None,
        SumProtocol::Udp => SumKind::Udp,
        SumProtocol::Sctp => SumKind::Crc32c,
        _ => SumKind::Internet,
    };
    let pseudo_header = match sum.pseudo {
        Some(PseudoPlaces { address_len: 4, src_at, protocol, .. }) => {
            PseudoHeader::Ipv4 { header: src_at - ipv4::SRC_AT, protocol }
        }
        Some(PseudoPlaces { src_at: src, dst_at: dst, protocol, .. }) => {
            PseudoHeader::Routed { src, dst, protocol }
        }
        None => PseudoHeader::None,
    };
    let (offset, start, end) = (sum.at, sum.from, sum.to);
    let field = ChecksumField { offset, start, end, pseudo_header, kind, is_wrong: false };
    let mut written = (sum.is_right(frame) == Some(true)).then(|| frame.to_vec())?;
    field.write(&mut written);
    (written == frame).then_some(field)
}

/// A header with its fields; nothing for one that is payload here, or is not whole.
fn layer(frame: &[u8], header: &Header, sum: Option<Checksum>) -> Option<FrameLayer> {
    let bytes = header.bytes(frame);
    let checksum = sum.unwrap_or(Checksum::Wrong);
    Some(match header.protocol {
        Protocol::Ethernet => {
            let ethernet::Fields { dst, src, ether_type } = ethernet::View::new(bytes)?.fields();
            FrameLayer::Ethernet { src_mac: src.to_string(), dst_mac: dst.to_string(), ether_type }
        }
        Protocol::Vlan => {
            let fields = vlan::View::new(bytes)?.fields();
            let vlan::Fields { id, priority, is_drop_eligible: dei, ether_type } = fields;
            FrameLayer::Vlan { id, priority, dei, ether_type }
        }
        Protocol::Mpls => {
            let mpls::Fields { label, traffic_class: class, ttl, .. } = mpls::View::new(bytes)?.fields();
            FrameLayer::Mpls { label, class, ttl }
        }
        Protocol::Pppoe => FrameLayer::Pppoe { session: pppoe::View::new(bytes)?.fields().session },
        Protocol::Arp => {
            let view = arp::View::new(bytes)?;
            let [sender_mac, target_mac] = view.mac_places()?.map(|at| mac(bytes, at));
            let [sender, target] = view.ip_places()?.map(|at| address(bytes, at));
            let operation = view.fields().operation;
            FrameLayer::Arp {
                operation,
                sender_mac: sender_mac?,
                sender: sender?,
                target_mac: target_mac?,
                target: target?,
            }
        }
        Protocol::Ipv4 => {
            let view = ipv4::View::new(bytes)?;
            let ipv4::Fields { tos, id, ttl, protocol: next, src, dst, .. } = view.fields();
            FrameLayer::Ipv4 { src, dst, tos, ttl, id, next, fragment: view.is_fragment(), checksum }
        }
        Protocol::Ipv6 => {
            let fields = ipv6::View::new(bytes)?.fields();
            let ipv6::Fields { traffic_class: class, hop_limit, next, src, dst, .. } = fields;
            FrameLayer::Ipv6 { src, dst, class, hop_limit, next }
        }
        Protocol::Extension => FrameLayer::Extension { kind: "options", len: header.len },
        Protocol::Mobility => FrameLayer::Extension { kind: "mobility", len: header.len },
        Protocol::Hip => FrameLayer::Extension { kind: "HIP", len: header.len },
        Protocol::DestinationOptions => {
            FrameLayer::Extension { kind: "destination options", len: header.len }
        }
        Protocol::Routing => FrameLayer::Extension { kind: "routing", len: header.len },
        Protocol::Fragment => FrameLayer::Extension { kind: "fragment", len: header.len },
        Protocol::Udp => {
            let udp::Fields { src_port, dst_port, .. } = udp::View::new(bytes)?.fields();
            FrameLayer::Udp { src_port, dst_port, checksum }
        }
        Protocol::Tcp => {
            let fields = tcp::View::new(bytes)?.fields();
            let tcp::Fields { src_port, dst_port, sequence, acknowledgement, window, .. } = fields;
            let flags = tcp_flags(fields.flags as u8);
            let (seq, ack) = (sequence, acknowledgement);
            FrameLayer::Tcp { src_port, dst_port, flags, seq, ack, window, checksum }
        }
        Protocol::Icmp | Protocol::Icmpv6 => {
            // Neighbour discovery has messages without these two.
            let [kind, code] = *bytes.get(..icmp::CHECKSUM_AT + 2)?.first_chunk()?;
            let [id, seq] = [4, 6].map(|at| half(bytes, at).unwrap_or(0));
            match header.protocol {
                Protocol::Icmp => FrameLayer::Icmp { kind, code, id, seq, checksum },
                _ => FrameLayer::Icmpv6 { kind, code, id, seq, checksum },
            }
        }
        Protocol::Igmp => FrameLayer::Igmp { kind: *bytes.first()?, group: address(bytes, 4)?, checksum },
        Protocol::Sctp => {
            let sctp::Fields { src_port, dst_port, tag, .. } = sctp::View::new(bytes)?.fields();
            FrameLayer::Sctp { src_port, dst_port, tag, checksum }
        }
        Protocol::Gre => {
            let view = gre::View::new(bytes)?;
            FrameLayer::Gre { ether_type: view.protocol(), key: view.key(), seq: view.sequence() }
        }
        Protocol::Vxlan => FrameLayer::Vxlan { vni: vxlan::View::new(bytes)?.fields().vni },
        Protocol::Geneve => {
            let geneve::Fields { vni, protocol: ether_type } = geneve::View::new(bytes)?.fields();
            FrameLayer::Geneve { vni, ether_type }
        }
        Protocol::Gtpu => {
            let gtpu::Fields { teid, kind, .. } = gtpu::View::new(bytes)?.fields();
            FrameLayer::Gtpu { teid, kind }
        }
        Protocol::Esp => {
            let esp::Fields { spi, sequence: seq } = esp::View::new(bytes)?.fields();
            FrameLayer::Esp { spi, seq }
        }
        Protocol::Ah => {
            let ah::Fields { spi, sequence: seq, .. } = ah::View::new(bytes)?.fields();
            FrameLayer::Ah { spi, seq }
        }
        Protocol::Sll
        | Protocol::Sll2
        | Protocol::Llc
        | Protocol::UdpLite
        | Protocol::Dccp
        | Protocol::Ospf
        | Protocol::Pim
        | Protocol::Vrrp
        | Protocol::Erspan => return None,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from_octets(*bytes.get(at..)?.first_chunk()?))
}

fn mac(bytes: &[u8], at: usize) -> Option<String> {
    Some(MacAddr(*bytes.get(at..)?.first_chunk()?).to_string())
}

/// The names of TCP flags that are set.
pub fn tcp_flags(bits: u8) -> Vec<&'static str> {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    names.into_iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_frame::RawFrame;
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
                format!("{{ {v6} fragment(id=3) udp(sp=1, dp=2) }}"),
                "IPv6      fragment, 8 bytes\n  UDP       1 > 2  checksum right",
            ),
            (
                format!("{{ {v6} fragment(id=3, mf) udp(sp=1, dp=2) }}"),
                "IPv6      fragment, 8 bytes\n  payload   8 bytes",
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
            testkit::check_json_lines(&RawFrame::new(1, 0, &frame(&packet)).json_line());
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
