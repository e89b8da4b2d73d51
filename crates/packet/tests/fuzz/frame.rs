//! A frame as etherparse reads it; MPLS, which it does not know, is taken off by hand.

use etherparse::{EtherType, LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice};
use packet::{MacAddr, PKTGEN_HEADER_LEN};
use std::net::IpAddr;

const ETHERTYPE_MPLS: EtherType = EtherType(0x8847);
const ETHERNET_LEN: usize = 14;
const LABEL_LEN: usize = 4;
const BOTTOM: u32 = 0x100;

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) id: u16,
    pub(crate) priority: u8,
    pub(crate) is_drop_eligible: bool,
}

/// What is in a frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) frame_len: u32,
    pub(crate) dst_mac: MacAddr,
    pub(crate) src_mac: MacAddr,
    pub(crate) tags: Vec<Tag>,
    /// Label stack entries, the bottom-of-stack bit taken out.
    pub(crate) labels: Vec<u32>,
    /// Type of service or traffic class.
    pub(crate) service: u8,
    pub(crate) ip_id: Option<u16>,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) udp_src: u16,
    pub(crate) udp_dst: u16,
    /// Zero, or it has been found right.
    pub(crate) udp_checksum: u16,
    /// The words of the pktgen header.
    pub(crate) stamp: [u32; 4],
}

/// Reads a whole frame; an error says what is wrong in it whatever was asked for.
pub(crate) fn decode(bytes: &[u8]) -> Result<Frame, String> {
    let outer = SlicedPacket::from_ethernet(bytes).map_err(|error| error.to_string())?;
    let Some(LinkSlice::Ethernet2(ethernet)) = &outer.link else { return Err("no Ethernet".to_owned()) };
    let (labels, ip_at) =
        if ethernet.ether_type() == ETHERTYPE_MPLS { label_stack(bytes)? } else { (Vec::new(), 0) };
    let inner = match ip_at {
        0 => None,
        at => Some(SlicedPacket::from_ip(&bytes[at..]).map_err(|error| error.to_string())?),
    };
    let packet = inner.as_ref().unwrap_or(&outer);
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return Err("no UDP".to_owned()) };
    let ip = ip_header(packet, udp)?;
    if ip.end_at != udp.slice().len() || bytes.as_ptr_range().end != udp.slice().as_ptr_range().end {
        return Err("IP and UDP do not end with the frame".to_owned());
    }
    if usize::from(udp.length()) != udp.slice().len() {
        return Err(format!("UDP says {} bytes, and there are {}", udp.length(), udp.slice().len()));
    }
    if udp.checksum() != 0 && udp.checksum() != ip.right_udp_checksum {
        return Err(format!("UDP checksum {:04x}, not {:04x}", udp.checksum(), ip.right_udp_checksum));
    }
    let Some((stamp, zeros)) = udp.payload().split_at_checked(PKTGEN_HEADER_LEN) else {
        return Err("no pktgen header".to_owned());
    };
    if zeros.iter().any(|byte| *byte != 0) {
        return Err("a payload that is not zero".to_owned());
    }
    Ok(Frame {
        frame_len: bytes.len() as u32,
        dst_mac: MacAddr(ethernet.destination()),
        src_mac: MacAddr(ethernet.source()),
        tags: tags(&outer),
        labels,
        service: ip.service,
        ip_id: ip.id,
        src: ip.src,
        dst: ip.dst,
        udp_src: udp.source_port(),
        udp_dst: udp.destination_port(),
        udp_checksum: udp.checksum(),
        stamp: [0, 4, 8, 12].map(|at| word(stamp, at)),
    })
}

/// The entries up to the one that says it is the last, and where the packet behind them begins.
fn label_stack(bytes: &[u8]) -> Result<(Vec<u32>, usize), String> {
    let mut labels = Vec::new();
    for at in (ETHERNET_LEN..bytes.len() - LABEL_LEN).step_by(LABEL_LEN) {
        let entry = word(bytes, at);
        labels.push(entry & !BOTTOM);
        if entry & BOTTOM != 0 {
            return Ok((labels, at + LABEL_LEN));
        }
    }
    Err("a label stack without a bottom".to_owned())
}

fn tags(packet: &SlicedPacket<'_>) -> Vec<Tag> {
    let tag = |extension: &LinkExtSlice<'_>| match extension {
        LinkExtSlice::Vlan(vlan) => Some(Tag {
            id: vlan.vlan_identifier().value(),
            priority: vlan.priority_code_point().value(),
            is_drop_eligible: vlan.drop_eligible_indicator(),
        }),
        LinkExtSlice::Macsec(_) => None,
    };
    packet.link_exts.iter().filter_map(tag).collect()
}

/// What either version of IP says.
struct Ip {
    service: u8,
    id: Option<u16>,
    src: IpAddr,
    dst: IpAddr,
    right_udp_checksum: u16,
    /// Bytes behind its header.
    end_at: usize,
}

fn ip_header(packet: &SlicedPacket<'_>, udp: &etherparse::UdpSlice<'_>) -> Result<Ip, String> {
    let udp_header = udp.to_header();
    match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let ip = ip.header().to_header();
            if ip.header_checksum != ip.calc_header_checksum() {
                return Err(format!("IP checksum {:04x}", ip.header_checksum));
            }
            let is_plain = !ip.dont_fragment && !ip.is_fragmenting_payload() && ip.options.is_empty();
            if !is_plain || ip.time_to_live != 32 {
                return Err(format!("{ip:?}"));
            }
            let right =
                udp_header.calc_checksum_ipv4(&ip, udp.payload()).map_err(|error| error.to_string())?;
            Ok(Ip {
                service: ip.dscp.value() << 2 | ip.ecn.value(),
                id: Some(ip.identification),
                src: ip.source.into(),
                dst: ip.destination.into(),
                right_udp_checksum: right,
                end_at: usize::from(ip.total_len).saturating_sub(ip.header_len()),
            })
        }
        Some(NetSlice::Ipv6(ip)) => {
            let ip = ip.header().to_header();
            if ip.hop_limit != 32 || ip.flow_label.value() != 0 {
                return Err(format!("{ip:?}"));
            }
            let right =
                udp_header.calc_checksum_ipv6(&ip, udp.payload()).map_err(|error| error.to_string())?;
            Ok(Ip {
                service: ip.traffic_class,
                id: None,
                src: ip.source.into(),
                dst: ip.destination.into(),
                right_udp_checksum: right,
                end_at: usize::from(ip.payload_length),
            })
        }
        other => Err(format!("not IP: {other:?}")),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
