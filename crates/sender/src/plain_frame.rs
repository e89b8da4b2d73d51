//! `wirerate.frame/1`: a frame of UDP, ESP or AH as JSON without a list of layers.

use super::layers::{Checksum, FrameLayer, MarkFields, SignatureFields};
use facts::{Described, Document, Part, Record};
use packet::wire_len;
use serde::Serialize;
use std::net::IpAddr;

/// A frame of a dry run of plain frames.
pub const FRAME: Document = Document::of::<PlainFrame>("wirerate.frame/1", "wirerate send --dry-run --json");

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

/// The fields of both IP versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct IpFields {
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

/// A frame of UDP, ESP or AH over IP, outside of tunnels.
#[derive(Clone, Debug, Serialize, Described)]
pub struct PlainFrame {
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
    /// Its IP header.
    #[serde(flatten)]
    pub ip: IpFields,
    /// What it carries.
    #[serde(flatten)]
    pub content: Content,
    /// The [mark](measure.md#the-signature-in-the-frame) at the end of the frame; absent without
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<MarkFields>,
}

impl PlainFrame {
    /// Frame `number` of a run, due `time_ns` after its start, with these layers. `None` for a
    /// frame with another protocol, or with another frame inside.
    pub(super) fn of(number: u64, time_ns: u64, frame_len: u32, layers: &[FrameLayer]) -> Option<Self> {
        let [FrameLayer::Ethernet { src_mac, dst_mac, .. }, inner @ ..] = layers else { return None };
        let ends = |layer: &FrameLayer| {
            matches!(layer, FrameLayer::Udp { .. } | FrameLayer::Esp { .. } | FrameLayer::Ah { .. })
        };
        let (outer, carried) = inner.split_at(inner.iter().position(ends).filter(|_| !is_tunnel(layers))?);
        let vlan_id = |layer: &FrameLayer| match layer {
            FrameLayer::Vlan { id, .. } => Some(*id),
            _ => None,
        };
        let label = |layer: &FrameLayer| match *layer {
            FrameLayer::Mpls { label, class, ttl } => Some(Label { label, class, ttl }),
            _ => None,
        };
        Some(Self {
            number,
            time_ns,
            frame_len,
            wire_len: wire_len(frame_len),
            dst_mac: dst_mac.clone(),
            src_mac: src_mac.clone(),
            vlan_ids: outer.iter().filter_map(vlan_id).collect(),
            mpls: outer.iter().filter_map(label).collect(),
            ip: outer.iter().find_map(IpFields::of)?,
            content: Content::of(carried)?,
            mark: match inner.last() {
                Some(FrameLayer::Mark { mark }) => Some(mark.clone()),
                _ => None,
            },
        })
    }
}

/// True for a frame or packet inside another one.
fn is_tunnel(layers: &[FrameLayer]) -> bool {
    let is_outer = |layer: &&FrameLayer| {
        matches!(layer, FrameLayer::Ethernet { .. } | FrameLayer::Ipv4 { .. } | FrameLayer::Ipv6 { .. })
    };
    layers.iter().filter(is_outer).count() > 2
}

impl IpFields {
    fn of(layer: &FrameLayer) -> Option<Self> {
        Some(match *layer {
            FrameLayer::Ipv4 { src, dst, tos, ttl, id, .. } => {
                Self { src: src.into(), dst: dst.into(), tos, hop_limit: ttl, ip_id: Some(id) }
            }
            FrameLayer::Ipv6 { src, dst, class, hop_limit, .. } => {
                Self { src: src.into(), dst: dst.into(), tos: class, hop_limit, ip_id: None }
            }
            _ => return None,
        })
    }
}

impl Content {
    /// What the first of `layers` is, and pktgen's header behind it.
    fn of(layers: &[FrameLayer]) -> Option<Self> {
        let ipsec = |ipsec, spi, ipsec_seq_num| Self::Ipsec(IpsecFields { ipsec, spi, ipsec_seq_num });
        Some(match (layers.first()?, layers.get(1)) {
            (&FrameLayer::Udp { src_port: udp_src, dst_port: udp_dst, checksum: udp_checksum }, next) => {
                let signature = match next {
                    Some(FrameLayer::Pktgen { signature }) => Some(signature.clone()),
                    _ => None,
                };
                Self::Udp(UdpFields { udp_src, udp_dst, udp_checksum, signature })
            }
            (&FrameLayer::Esp { spi, seq }, _) => ipsec("esp", spi, seq),
            (&FrameLayer::Ah { spi, seq }, _) => ipsec("ah", spi, seq),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::layers;
    use crate::raw_frame::RawFrame;
    use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
    use packet::{Config, DeviceFacts, Flags};
    use std::sync::Arc;

    /// The first frame of `config`.
    fn first(mut config: Config, associations: Associations) -> Vec<u8> {
        config.dst_min = Some([10, 0, 0, 2].into());
        let facts = DeviceFacts::default();
        let (plan, mut cursor) = crate::plan(&mut config, &facts, 1, &Arc::new(associations)).unwrap();
        let mut bytes = vec![0; plan.frame_len_max() as usize];
        let len = plan.emit(&mut cursor, 0, &mut bytes);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn labels_are_shown_from_the_outside_in() {
        let config = Config { mpls: vec![0x0001_0e40, 0x0001_100a], ..Config::default() };
        let bytes = first(config, Associations::default());
        let frame = PlainFrame::of(1, 0, bytes.len() as u32, &layers(&bytes)).unwrap();
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
        let frame = RawFrame::new(1, 0, &first(config, Associations::new(vec![ready], Vec::new())));
        let shown = frame.to_string();
        assert!(shown.ends_with("  ESP       spi 0x100  seq 7\n"), "{shown}");
        let json = frame.json_line();
        assert!(json.contains(r#""ipsec":"esp","spi":256,"ipsec_seq_num":7}"#), "{json}");
    }
}
