//! A frame of a plan as JSON, decoded by `etherparse`, which shares no code with the plan.

use crate::out;
use etherparse::{
    Ethernet2Slice, IpNumber, LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice, UdpSlice,
};
use measure::{Mark, Signature};
use packet::plan::MARK_LEN;
use packet::{MacAddr, wire_len};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// EtherType of MPLS.
const MPLS: u16 = 0x8847;
/// Bytes of an MPLS label.
const LABEL_LEN: usize = 4;

/// Name and version of a frame as JSON.
pub const FRAME_SCHEMA: &str = "wirerate.frame/1";

/// A frame that is neither UDP nor ESP nor AH, which every plan sends.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Bytes that contradict each other.
    #[error("the frame does not decode")]
    Malformed(#[from] etherparse::err::packet::SliceError),
    /// A header that every plan writes is not there.
    #[error("the frame has no {0} header")]
    Missing(&'static str),
}

/// The UDP checksum of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The label.
    pub label: u32,
    /// Traffic class.
    pub class: u8,
    /// Time to live.
    pub ttl: u8,
}

impl Label {
    /// Of four bytes, and whether it is the bottom of its stack (RFC 3032).
    fn decode(bytes: [u8; LABEL_LEN]) -> (Self, bool) {
        let entry = u32::from_be_bytes(bytes);
        let label = Self { label: entry >> 12, class: (entry >> 9 & 7) as u8, ttl: entry as u8 };
        (label, entry & 0x100 != 0)
    }
}

/// What a frame carries over IP.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// UDP.
    Udp {
        /// UDP source port.
        udp_src: u16,
        /// UDP destination port.
        udp_dst: u16,
        /// The UDP checksum.
        udp_checksum: Checksum,
        /// Number and time; `None` without a signature.
        #[serde(flatten)]
        signature: Option<SignatureFields>,
    },
    /// A packet that IPsec protects.
    Ipsec {
        /// `esp` or `ah`.
        ipsec: &'static str,
        /// The association.
        spi: u32,
        /// Its sequence number; with ESN the lower half.
        ipsec_seq_num: u32,
    },
}

/// What the signature of a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureFields {
    /// Sequence number in the pktgen header.
    pub seq_num: u32,
    /// Seconds in the pktgen header.
    pub tv_sec: u32,
    /// Microseconds in the pktgen header.
    pub tv_usec: u32,
    /// Flow, number in the flow and run; only full signatures have them.
    #[serde(flatten)]
    pub in_flow: Option<InFlow>,
}

/// The place of a frame in its flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InFlow {
    /// The flow.
    pub flow: u32,
    /// Number in the flow.
    pub flow_number: u64,
    /// The run.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MarkFields {
    /// Flow, number in the flow and run.
    #[serde(flatten)]
    pub in_flow: InFlow,
    /// CLOCK_MONOTONIC of the sender in nanoseconds, modulo 2^48; 0 for no time.
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
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Its number in the run, from 1.
    pub number: u64,
    /// Time since the start of the run, in nanoseconds.
    pub time_ns: u64,
    /// Length in bytes without FCS.
    pub frame_len: u32,
    /// Length in bytes with FCS, preamble and gap.
    pub wire_len: u32,
    /// Destination MAC address.
    pub dst_mac: String,
    /// Source MAC address.
    pub src_mac: String,
    /// VLAN ids, outermost first.
    pub vlan_ids: Vec<u16>,
    /// MPLS labels, outermost first.
    pub mpls: Vec<Label>,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// Identification; IPv4 only.
    pub ip_id: Option<u16>,
    /// What it carries.
    #[serde(flatten)]
    pub content: Content,
    /// The mark at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<MarkFields>,
}

impl Frame {
    /// Decodes `bytes`, frame `number` of a run, due `time_ns` after its start.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not a whole frame with UDP, ESP or AH.
    pub fn decode(number: u64, time_ns: u64, bytes: &[u8]) -> Result<Self, DecodeError> {
        let link = SlicedPacket::from_ethernet(bytes)?;
        let Some(LinkSlice::Ethernet2(ethernet)) = &link.link else {
            return Err(DecodeError::Missing("Ethernet"));
        };
        let (mpls, packet) = labels(ethernet)?;
        let sliced = if mpls.is_empty() { link.clone() } else { SlicedPacket::from_ip(packet)? };
        let net = sliced.net.as_ref().ok_or(DecodeError::Missing("IP"))?;
        let ip = Ip::of(net)?;
        let frame_len = bytes.len() as u32;
        Ok(Self {
            number,
            time_ns,
            frame_len,
            wire_len: wire_len(frame_len),
            dst_mac: MacAddr(ethernet.destination()).to_string(),
            src_mac: MacAddr(ethernet.source()).to_string(),
            vlan_ids: link.link_exts.iter().filter_map(vlan_id).collect(),
            mpls,
            src: ip.src,
            dst: ip.dst,
            tos: ip.tos,
            hop_limit: ip.hop_limit,
            ip_id: ip.id,
            content: match ipsec(net) {
                Some(content) => content,
                None => in_clear(&ip, sliced.transport.as_ref())?,
            },
            mark: MarkFields::of(bytes),
        })
    }

    /// The frame as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(FRAME_SCHEMA, self)
    }
}

/// The MPLS labels of a frame, if it has any, and what follows them.
fn labels<'a>(ethernet: &Ethernet2Slice<'a>) -> Result<(Vec<Label>, &'a [u8]), DecodeError> {
    let mut labels = Vec::new();
    let mut rest = ethernet.payload_slice();
    if ethernet.ether_type().0 != MPLS {
        return Ok((labels, rest));
    }
    while let Some((bytes, after)) = rest.split_first_chunk::<LABEL_LEN>() {
        let (label, is_last) = Label::decode(*bytes);
        labels.push(label);
        rest = after;
        if is_last {
            return Ok((labels, rest));
        }
    }
    Err(DecodeError::Missing("bottom MPLS"))
}

/// The ESP or AH header.
fn ipsec(net: &NetSlice<'_>) -> Option<Content> {
    let NetSlice::Ipv4(v4) = net else { return None };
    if let Some(ah) = &v4.extensions().auth {
        let (spi, ipsec_seq_num) = (ah.spi(), ah.sequence_number());
        return Some(Content::Ipsec { ipsec: "ah", spi, ipsec_seq_num });
    }
    if v4.header().protocol() != IpNumber::ENCAPSULATING_SECURITY_PAYLOAD {
        return None;
    }
    let (spi, rest) = v4.payload().payload.split_first_chunk()?;
    let (ipsec_seq_num, _) = rest.split_first_chunk()?;
    let [spi, ipsec_seq_num] = [spi, ipsec_seq_num].map(|word| u32::from_be_bytes(*word));
    Some(Content::Ipsec { ipsec: "esp", spi, ipsec_seq_num })
}

fn in_clear(ip: &Ip, transport: Option<&TransportSlice<'_>>) -> Result<Content, DecodeError> {
    let Some(TransportSlice::Udp(udp)) = transport else {
        return Err(DecodeError::Missing("UDP"));
    };
    Ok(Content::Udp {
        udp_src: udp.source_port(),
        udp_dst: udp.destination_port(),
        udp_checksum: checksum(ip, udp),
        signature: SignatureFields::parse(udp.payload()),
    })
}

/// The fields of both IP versions.
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    tos: u8,
    hop_limit: u8,
    id: Option<u16>,
}

impl Ip {
    fn of(net: &NetSlice<'_>) -> Result<Self, DecodeError> {
        match net {
            NetSlice::Ipv4(v4) => {
                let header = v4.header();
                Ok(Self {
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    tos: header.dcp().value() << 2 | header.ecn().value(),
                    hop_limit: header.ttl(),
                    id: Some(header.identification()),
                })
            }
            NetSlice::Ipv6(v6) => {
                let header = v6.header();
                Ok(Self {
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    tos: header.traffic_class(),
                    hop_limit: header.hop_limit(),
                    id: None,
                })
            }
            NetSlice::Arp(_) => Err(DecodeError::Missing("IP")),
        }
    }
}

fn vlan_id(tag: &LinkExtSlice<'_>) -> Option<u16> {
    match tag {
        LinkExtSlice::Vlan(tag) => Some(tag.vlan_identifier().value()),
        _ => None,
    }
}

fn checksum(ip: &Ip, udp: &UdpSlice<'_>) -> Checksum {
    let header = udp.to_header();
    let computed = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), udp.payload())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), udp.payload())
        }
        _ => return Checksum::Wrong,
    };
    match header.checksum {
        0 => Checksum::None,
        sent if computed == Ok(sent) => Checksum::Right,
        _ => Checksum::Wrong,
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
    use crate::cmd::send;
    use crate::cmd::send::raw_frame::RawFrame;
    use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
    use packet::{Config, DeviceFacts, Flags};
    use std::sync::Arc;

    /// The first frame of `config`, decoded.
    fn first(mut config: Config, associations: Associations) -> (Frame, Vec<u8>) {
        config.dst_min = Some([10, 0, 0, 2].into());
        let facts = DeviceFacts::default();
        let (plan, mut cursor) = send::plan(&mut config, &facts, 1, &Arc::new(associations)).unwrap();
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
            Content::Udp { signature: Some(SignatureFields { seq_num: 1, .. }), .. }
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
