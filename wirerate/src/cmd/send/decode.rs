//! A frame as a person reads it, decoded by `etherparse`: a second opinion on what the plan wrote.

use crate::out;
use crate::units::human_duration;
use etherparse::{LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice, UdpSlice};
use packet::{MacAddr, Stamp, wire_len};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// Name and version of a frame as JSON.
pub const FRAME_SCHEMA: &str = "wirerate.frame/1";

/// A frame that does not decode as the UDP that every plan sends.
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

/// One frame, decoded.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Its place in the run, from 1.
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
    /// UDP source port.
    pub udp_src: u16,
    /// UDP destination port.
    pub udp_dst: u16,
    /// The UDP checksum.
    pub udp_checksum: Checksum,
    /// Sequence number in the pktgen header.
    pub seq_num: u32,
    /// Seconds in the pktgen header.
    pub tv_sec: u32,
    /// Microseconds in the pktgen header.
    pub tv_usec: u32,
}

impl Frame {
    /// Decodes `bytes`, frame `number` of a run, due `time_ns` after its start.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not a whole UDP frame with a pktgen header.
    pub fn decode(number: u64, time_ns: u64, bytes: &[u8]) -> Result<Self, DecodeError> {
        let sliced = SlicedPacket::from_ethernet(bytes)?;
        let Some(LinkSlice::Ethernet2(ethernet)) = &sliced.link else {
            return Err(DecodeError::Missing("Ethernet"));
        };
        let net = sliced.net.as_ref().ok_or(DecodeError::Missing("IP"))?;
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
            return Err(DecodeError::Missing("UDP"));
        };
        let stamp = Stamp::parse(udp.payload()).ok_or(DecodeError::Missing("pktgen"))?;
        let ip = Ip::of(net)?;
        let frame_len = bytes.len() as u32;
        Ok(Self {
            number,
            time_ns,
            frame_len,
            wire_len: wire_len(frame_len),
            dst_mac: MacAddr(ethernet.destination()).to_string(),
            src_mac: MacAddr(ethernet.source()).to_string(),
            vlan_ids: sliced.link_exts.iter().filter_map(vlan_id).collect(),
            src: ip.src,
            dst: ip.dst,
            tos: ip.tos,
            hop_limit: ip.hop_limit,
            ip_id: ip.id,
            udp_src: udp.source_port(),
            udp_dst: udp.destination_port(),
            udp_checksum: checksum(&ip, udp),
            seq_num: stamp.seq_num,
            tv_sec: stamp.time.sec,
            tv_usec: stamp.time.usec,
        })
    }

    /// The frame as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(FRAME_SCHEMA, self)
    }
}

/// What both IP versions say.
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

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, frame_len, wire_len, .. } = self;
        write!(f, "frame {number}: {frame_len} bytes, {wire_len} on the wire")?;
        match self.time_ns {
            0 => writeln!(f)?,
            time_ns => writeln!(f, ", after {}", human_duration(time_ns))?,
        }
        write!(f, "  Ethernet  {} > {}", self.src_mac, self.dst_mac)?;
        self.vlan_ids.iter().try_for_each(|id| write!(f, "  VLAN {id}"))?;
        match self.ip_id {
            Some(id) => {
                write!(
                    f,
                    "\n  IPv4      {} > {}  tos {:#04x}  ttl {}  id {id}",
                    self.src, self.dst, self.tos, self.hop_limit
                )?;
            }
            None => {
                write!(
                    f,
                    "\n  IPv6      {} > {}  class {:#04x}  hops {}",
                    self.src, self.dst, self.tos, self.hop_limit
                )?;
            }
        }
        let checksum = match self.udp_checksum {
            Checksum::None => "none",
            Checksum::Right => "right",
            Checksum::Wrong => "WRONG",
        };
        writeln!(f, "\n  UDP       {} > {}  checksum {checksum}", self.udp_src, self.udp_dst)?;
        writeln!(f, "  pktgen    seq {}  time {}.{:06}", self.seq_num, self.tv_sec, self.tv_usec)
    }
}
