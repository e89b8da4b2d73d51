//! ICMP errors that quote a frame of a sender: the frame did not arrive, so it is neither received
//! nor a round trip.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const VLANS_MAX: usize = 2;
const IPV6_LEN: usize = 40;

/// An ICMP error, as three words that the kernel writes, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcmpError {
    /// IP version, type and code, 8 bits each; 0 for none.
    pub kind: u64,
    /// The address of the host that sent it, in network byte order; IPv4 in the first four bytes.
    pub from: [u64; 2],
}

impl IcmpError {
    /// That in an Ethernet frame without tags or with up to two; `None` for any other frame.
    pub fn in_frame(frame: &[u8]) -> Option<Self> {
        let type_at = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
        let (mut at, mut ether_type) = (ETHERNET_LEN, type_at(12)?);
        for _ in 0..VLANS_MAX {
            if !matches!(ether_type, 0x8100 | 0x88a8) {
                break;
            }
            ether_type = type_at(at + 2)?;
            at += VLAN_LEN;
        }
        match ether_type {
            0x0800 => Self::in_ipv4(frame.get(at..)?),
            0x86dd => Self::in_ipv6(frame.get(at..)?),
            _ => None,
        }
    }

    fn in_ipv4(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let is_fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff != 0;
        if *packet.get(9)? != 1 || first & 0xf < 5 || is_fragment {
            return None;
        }
        let icmp = packet.get(usize::from(first & 0xf) * 4..)?;
        // Unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792).
        let is_error = matches!(*icmp.first()?, 3 | 4 | 5 | 11 | 12);
        let from = packet.get(12..16)?;
        let words = [from[0], from[1], from[2], from[3], 0, 0, 0, 0];
        is_error
            .then_some(Self { kind: kind(4, icmp[0], *icmp.get(1)?), from: [u64::from_ne_bytes(words), 0] })
    }

    fn in_ipv6(packet: &[u8]) -> Option<Self> {
        let icmp = packet.get(IPV6_LEN..)?;
        // Types below 128 are errors (RFC 4443).
        if packet[6] != 58 || *icmp.first()? >= 128 {
            return None;
        }
        let word = |at: usize| Some(u64::from_ne_bytes(packet.get(at..at + 8)?.try_into().ok()?));
        Some(Self { kind: kind(6, icmp[0], *icmp.get(1)?), from: [word(8)?, word(16)?] })
    }

    /// The host that sent it.
    pub fn sender(&self) -> IpAddr {
        let [high, low] = self.from.map(u64::to_ne_bytes);
        match self.kind >> 16 {
            6 => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&high);
                bytes[8..].copy_from_slice(&low);
                IpAddr::V6(Ipv6Addr::from(bytes))
            }
            _ => IpAddr::V4(Ipv4Addr::new(high[0], high[1], high[2], high[3])),
        }
    }

    fn name(&self) -> String {
        let (kind, code) = ((self.kind >> 8) as u8, self.kind as u8);
        let name = match (self.kind >> 16, kind, code) {
            (4, 3, 0) => "network unreachable",
            (4, 3, 1) | (6, 1, 3) => "host unreachable",
            (4, 3, 2) => "protocol unreachable",
            (4, 3, 3) | (6, 1, 4) => "port unreachable",
            (4, 3, 4) => "fragmentation needed",
            (4, 3, 9 | 10 | 13) | (6, 1, 1) => "prohibited",
            (6, 1, 0) => "no route",
            (6, 2, _) => "packet too big",
            (4, 5, _) => "redirect",
            (4, 11, _) | (6, 3, _) => "time exceeded",
            (4, 12, _) | (6, 4, _) => "parameter problem",
            _ => return format!("type {kind}, code {code}"),
        };
        name.to_owned()
    }
}

fn kind(version: u64, icmp_type: u8, code: u8) -> u64 {
    version << 16 | u64::from(icmp_type) << 8 | u64::from(code)
}

/// `port unreachable, from 198.18.0.2`.
impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, from {}", self.name(), self.sender())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(icmp: [u8; 2], tags: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(tags);
        frame.extend([0x08, 0, 0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1]);
        frame.extend(icmp);
        frame
    }

    #[test]
    fn errors_are_told_from_echoes_behind_any_tags() {
        let text = |frame: &[u8]| IcmpError::in_frame(frame).map(|error| error.to_string());
        let unreachable = Some("port unreachable, from 198.18.0.2");
        assert_eq!(text(&ipv4([3, 3], &[])).as_deref(), unreachable);
        assert_eq!(text(&ipv4([3, 3], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])).as_deref(), unreachable);
        assert_eq!(text(&ipv4([11, 0], &[])).as_deref(), Some("time exceeded, from 198.18.0.2"));
        assert_eq!(text(&ipv4([3, 77], &[])).as_deref(), Some("type 3, code 77, from 198.18.0.2"));
        assert_eq!((text(&ipv4([8, 0], &[])), text(&ipv4([0, 0], &[]))), (None, None));
        let mut udp = ipv4([3, 3], &[]);
        udp[14 + 9] = 17;
        assert_eq!(text(&udp), None);
    }

    #[test]
    fn errors_of_ipv6_have_types_below_128() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 64]);
        frame.extend([[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], [0; 16]].concat());
        frame.extend([1, 4]);
        assert_eq!(IcmpError::in_frame(&frame).unwrap().to_string(), "port unreachable, from fd00::2");
        frame[54] = 128;
        assert_eq!(IcmpError::in_frame(&frame), None);
    }

    #[test]
    fn no_frame_is_read_past_its_end() {
        let frame = ipv4([3, 3], &[0x81, 0, 0, 5]);
        assert!((0..frame.len()).all(|len| IcmpError::in_frame(&frame[..len]).is_none()));
    }
}
