//! A frame of a plan as JSON.

use facts::{Described, Document, Part, Record};
use measure::{Mark, Signature};
use packet::headers::{
    FirstHeader, Header, Protocol, SumFinder, SumPlace, Walk, ah, esp, ethernet, fragment, ipv4, ipv6, mpls,
    udp, vlan,
};
use packet::plan::MARK_LEN;
use packet::wire_len;
use program::out;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// A frame of a dry run of plain frames.
pub const FRAME: Document = Document::of::<Frame>("wirerate.frame/1", "wirerate send --dry-run --json");

/// The UDP checksum of a frame.
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

/// One MPLS label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Label {
    /// The label.
    pub label: u32,
    /// Its traffic class.
    pub class: u8,
    /// Its time to live.
    pub ttl: u8,
}

/// What a frame carries over IP.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// UDP.
    Udp(UdpFields),
    /// A packet that IPsec protects.
    Ipsec(IpsecFields),
}

/// A frame has the fields of one of them.
impl Record for Content {
    const PARTS: &'static [Part] = &[Part::Optional(UdpFields::PARTS), Part::Optional(IpsecFields::PARTS)];
}

/// What the UDP header of a frame says, and what is in its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct UdpFields {
    /// UDP source port; absent of IPsec frames.
    pub udp_src: u16,
    /// UDP destination port; absent of IPsec frames.
    pub udp_dst: u16,
    /// The UDP checksum; `none` is zero. Absent of IPsec frames.
    pub udp_checksum: Checksum,
    /// Number and time, if there is a signature.
    #[serde(flatten)]
    pub signature: Option<SignatureFields>,
}

/// What the IPsec header of a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct IpsecFields {
    /// IPsec frames only: the protocol.
    #[fact(kind = Kind::Word(&["esp", "ah"]))]
    pub ipsec: &'static str,
    /// IPsec frames only: the SPI of the SA.
    pub spi: u32,
    /// IPsec frames only: the sequence number of the SA; with ESN its lower 32 bits.
    pub ipsec_seq_num: u32,
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

/// One frame, decoded.
#[derive(Clone, Debug, Serialize, Described)]
pub struct Frame {
    /// Number of the frame in the run, from 1.
    pub number: u64,
    /// Scheduled time since the start of the run.
    pub time_ns: u64,
    /// Length without FCS.
    #[fact(unit = "bytes")]
    pub frame_len: u32,
    /// Length on the wire, with FCS, preamble and gap.
    #[fact(unit = "bytes")]
    pub wire_len: u32,
    /// Ethernet address of the destination.
    pub dst_mac: String,
    /// Ethernet address of the source.
    pub src_mac: String,
    /// VLAN ids, outermost first.
    pub vlan_ids: Vec<u16>,
    /// MPLS labels, outermost first.
    pub mpls: Vec<Label>,
    /// IPv4 or IPv6 address of the source.
    pub src: IpAddr,
    /// IPv4 or IPv6 address of the destination.
    pub dst: IpAddr,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// IPv4 identification; `null` for IPv6.
    pub ip_id: Option<u16>,
    /// What it carries.
    #[serde(flatten)]
    pub content: Content,
    /// The [mark](measure.md#the-signature-in-the-frame) at the end of the frame; absent without
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<MarkFields>,
}

impl Frame {
    /// Decodes `bytes`, frame `number` of a run, due `time_ns` after its start. `None` for a frame
    /// without UDP, ESP or AH over IP.
    pub fn decode(number: u64, time_ns: u64, bytes: &[u8]) -> Option<Self> {
        let ethernet = ethernet::View::new(bytes)?;
        let (mut outer, mut sums) = (OuterHeaders::default(), SumFinder::default());
        let mut content = None;
        for header in Walk::new(bytes, FirstHeader::Ethernet).take_while(|header| !header.is_quoted) {
            let checksum = sums.see(bytes, &header).map(|sum| verdict(&sum, bytes));
            content = outer.take(&header, header.bytes(bytes), checksum);
            if content.is_some() || is_fragment(bytes, &header) {
                break;
            }
        }
        let (frame_len, ip) = (bytes.len() as u32, outer.ip?);
        Some(Self {
            number,
            time_ns,
            frame_len,
            wire_len: wire_len(frame_len),
            dst_mac: ethernet.dst().to_string(),
            src_mac: ethernet.src().to_string(),
            vlan_ids: outer.vlan_ids,
            mpls: outer.mpls,
            src: ip.src,
            dst: ip.dst,
            tos: ip.tos,
            hop_limit: ip.hop_limit,
            ip_id: ip.id,
            content: content?,
            mark: MarkFields::of(bytes),
        })
    }

    /// The frame as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&FRAME, self)
    }
}

/// If the checksum is the right one.
pub(super) fn verdict(sum: &SumPlace, frame: &[u8]) -> Checksum {
    match sum.is_right(frame) {
        _ if sum.is_none(frame) => Checksum::None,
        Some(true) => Checksum::Right,
        // A checksum over bytes that are not there is not right.
        _ => Checksum::Wrong,
    }
}

/// True if what follows is only a part of a payload.
pub(super) fn is_fragment(frame: &[u8], header: &Header) -> bool {
    let bytes = header.bytes(frame);
    match header.protocol {
        Protocol::Ipv4 => ipv4::View::new(bytes).is_some_and(|view| view.is_fragment()),
        // A packet in one fragment is whole (RFC 6946).
        Protocol::Fragment => fragment::View::new(bytes).is_none_or(|view| view.is_fragment()),
        _ => false,
    }
}

/// The fields of the headers before UDP, ESP or AH.
#[derive(Default)]
struct OuterHeaders {
    vlan_ids: Vec<u16>,
    mpls: Vec<Label>,
    ip: Option<Ip>,
}

/// The fields of both IP versions.
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    tos: u8,
    hop_limit: u8,
    id: Option<u16>,
}

impl OuterHeaders {
    /// Takes the fields of a header, or returns what the frame carries.
    fn take(&mut self, header: &Header, bytes: &[u8], checksum: Option<Checksum>) -> Option<Content> {
        match header.protocol {
            Protocol::Vlan => self.vlan_ids.push(vlan::View::new(bytes)?.id()),
            Protocol::Mpls => {
                let mpls::Fields { label, traffic_class: class, ttl, .. } = mpls::View::new(bytes)?.fields();
                self.mpls.push(Label { label, class, ttl });
            }
            Protocol::Ipv4 => {
                let ipv4::Fields { src, dst, tos, ttl, id, .. } = ipv4::View::new(bytes)?.fields();
                self.ip = Some(Ip { src: src.into(), dst: dst.into(), tos, hop_limit: ttl, id: Some(id) });
            }
            Protocol::Ipv6 => {
                let fields = ipv6::View::new(bytes)?.fields();
                let ipv6::Fields { src, dst, traffic_class: tos, hop_limit, .. } = fields;
                self.ip = Some(Ip { src: src.into(), dst: dst.into(), tos, hop_limit, id: None });
            }
            Protocol::Udp => {
                let udp::Fields { src_port: udp_src, dst_port: udp_dst, .. } =
                    udp::View::new(bytes)?.fields();
                let signature = SignatureFields::parse(bytes.get(udp::LEN..)?);
                let udp_checksum = checksum.unwrap_or(Checksum::Wrong);
                return Some(Content::Udp(UdpFields { udp_src, udp_dst, udp_checksum, signature }));
            }
            Protocol::Esp => {
                let esp::Fields { spi, sequence: ipsec_seq_num } = esp::View::new(bytes)?.fields();
                return Some(Content::Ipsec(IpsecFields { ipsec: "esp", spi, ipsec_seq_num }));
            }
            Protocol::Ah => {
                let ah::Fields { spi, sequence: ipsec_seq_num, .. } = ah::View::new(bytes)?.fields();
                return Some(Content::Ipsec(IpsecFields { ipsec: "ah", spi, ipsec_seq_num }));
            }
            _ => {}
        }
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_frame::RawFrame;
    use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
    use packet::{Config, DeviceFacts, Flags};
    use std::sync::Arc;

    /// The first frame of `config`, decoded.
    fn first(mut config: Config, associations: Associations) -> (Frame, Vec<u8>) {
        config.dst_min = Some([10, 0, 0, 2].into());
        let facts = DeviceFacts::default();
        let (plan, mut cursor) = crate::plan(&mut config, &facts, 1, &Arc::new(associations)).unwrap();
        let mut bytes = vec![0; plan.frame_len_max() as usize];
        let len = plan.emit(&mut cursor, 0, &mut bytes);
        bytes.truncate(len);
        (Frame::decode(1, 0, &bytes).unwrap(), bytes)
    }

    #[test]
    fn labels_are_shown_from_the_outside_in() {
        let config = Config { mpls: vec![0x0001_0e40, 0x0001_100a], ..Config::default() };
        let (frame, bytes) = first(config, Associations::default());
        let label = |label, class, ttl| Label { label, class, ttl };
        assert_eq!(frame.mpls, [label(16, 7, 64), label(17, 0, 10)]);
        let shown = RawFrame::new(1, 0, &bytes).to_string();
        assert!(shown.contains("  MPLS 16 17\n  IPv4 "), "{shown}");
        assert!(matches!(
            frame.content,
            Content::Udp(UdpFields { signature: Some(SignatureFields { seq_num: 1, .. }), .. })
        ));
    }

    #[test]
    fn a_sealed_frame_shows_its_association_and_number() {
        let what = Association {
            sequence: 6,
            ..Association::transport(
                0x100,
                [0, 0, 0, 0].into(),
                [10, 0, 0, 2].into(),
                Transform::EspNull { integrity: None },
            )
        };
        let ready = SecurityAssociation::new(what).expect("no key can be wrong");
        let mut config = Config { flows: 1, spi: 0x100, ..Config::default() };
        config.flags.set(Flags::IPSEC, true);
        let (frame, bytes) = first(config, Associations::new(vec![ready], Vec::new()));
        let shown = RawFrame::new(1, 0, &bytes).to_string();
        assert!(shown.ends_with("  ESP       spi 0x100  seq 7\n"), "{shown}");
        let json = frame.json_line();
        assert!(json.contains(r#""ipsec":"esp","spi":256,"ipsec_seq_num":7}"#), "{json}");
    }
}
