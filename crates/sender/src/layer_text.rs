//! The layers of a frame as text, for `--dry-run`.

use super::layers::{Checksum, FrameLayer};
use packet::headers::ethernet;
use std::fmt;

/// Rows of payload that are shown.
const ROWS_MAX: usize = 4;
/// Bytes in a row.
const ROW_LEN: usize = 16;

/// The name of an ICMP or ICMPv6 type; `None` for one without.
pub fn icmp_name(kind: u8, is_v6: bool) -> Option<&'static str> {
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
pub(super) fn write_text(f: &mut fmt::Formatter<'_>, layers: &[FrameLayer], frame: &[u8]) -> fmt::Result {
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
            FrameLayer::Pppoe { session } => {
                write!(f, "  PPPoE session {session:#x}")?;
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
                let is_known = [ethernet::IPV4, ethernet::IPV6, ethernet::ARP, ethernet::PPPOE_SESSION];
                let is_known = is_known.contains(ether_type)
                    || ethernet::TPIDS.contains(ether_type)
                    || ethernet::MPLS.contains(ether_type);
                if is_known { Ok(()) } else { write!(f, "  type {ether_type:#06x}") }
            }
            Self::Vlan { .. } | Self::Mpls { .. } | Self::Pppoe { .. } => Ok(()),
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
            Self::Extension { kind, len } => write!(f, "IPv6      {kind}, {len} bytes"),
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
                    0x12 | 0x16 | 0x22 => "report",
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
