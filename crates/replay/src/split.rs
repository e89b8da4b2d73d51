//! Which of two ports a frame leaves by.

use crate::outer::{IpPacket, first_header, flow_key_of, source_of_arp};
use crate::prefix::Prefix;
use crate::record::{Direction, Record};
use crate::selection::InterfaceChoice;
use packet::MacAddr;
use std::collections::HashSet;
use std::net::IpAddr;

/// One of the two ports of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputPort {
    /// The device that was named first: the side of the clients.
    #[default]
    First,
    /// The other device: the side of the servers.
    Second,
}

/// How frames are divided between the two ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitRule {
    /// Frames with a source address in one of these blocks leave by the first port.
    Sources(Vec<Prefix>),
    /// Frames with one of these source MAC addresses leave by the first port.
    SourceMacs(Vec<MacAddr>),
    /// Frames with one of these source addresses leave by the second port: a
    /// [`HostRoles`](crate::HostRoles) found them in the file.
    Servers(HashSet<IpAddr>),
    /// Frames to the lower port of TCP or UDP leave by the first port: they go to the server.
    Ports,
    /// Frames of this interface of the file leave by the first port.
    Interface(InterfaceChoice),
    /// Frames that were sent when they were captured leave by the first port.
    Direction,
    /// Frames of the first file leave by the first port.
    File,
}

impl SplitRule {
    /// The port of a frame, whose bytes are those of the file. Frames that the rule does not know,
    /// such as ARP for [`SplitRule::Ports`], leave by the first port.
    pub(crate) fn port(&self, record: &Record<'_>, frame: &[u8], is_ethernet: bool) -> OutputPort {
        let flow = || flow_key_of(frame, is_ethernet);
        let sender = || {
            let of_arp = if is_ethernet { source_of_arp(frame) } else { None };
            of_arp.or_else(|| flow().map(|key| key.src))
        };
        // Clients and servers may be at the ends of a tunnel.
        let inner_sender = || {
            let of_arp = if is_ethernet { source_of_arp(frame) } else { None };
            let flow = || IpPacket::innermost(frame, first_header(is_ethernet))?.flow(frame);
            of_arp.or_else(|| flow().map(|key| key.src))
        };
        let is_first = match self {
            Self::Sources(blocks) => {
                sender().is_none_or(|sender| blocks.iter().any(|block| block.contains(sender)))
            }
            Self::Servers(servers) => inner_sender().is_none_or(|sender| !servers.contains(&sender)),
            Self::SourceMacs(macs) => macs.iter().any(|mac| frame.get(6..12) == Some(&mac.0[..])),
            Self::Ports => flow().is_none_or(|key| key.dst_port <= key.src_port),
            Self::Interface(choice) => choice.is_of(record),
            Self::Direction => record.direction != Some(Direction::Inbound),
            Self::File => record.file == 0,
        };
        if is_first { OutputPort::First } else { OutputPort::Second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn port(rule: &SplitRule, src: [u8; 4], ports: (u16, u16), direction: Option<Direction>) -> OutputPort {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, [9, 9, 9, 9], 64);
        builder.udp(ports.0, ports.1).write(&mut frame, &[]).unwrap();
        let record = Record {
            number: 1,
            time_ns: Some(0),
            frame_len: frame.len() as u32,
            data: &frame,
            link_type: 1,
            interface: 3,
            interface_name: None,
            direction,
            file: 0,
        };
        let port = rule.port(&record, &frame, true);
        if !matches!(rule, SplitRule::SourceMacs(_)) {
            assert_eq!(rule.port(&record, &frame[14..], false), port, "an IP packet");
        }
        port
    }

    #[test]
    fn each_rule_finds_the_side_of_the_client() {
        use OutputPort::{First, Second};
        let sources = SplitRule::Sources(vec!["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(port(&sources, [10, 1, 1, 1], (1, 2), None), First);
        assert_eq!(port(&sources, [11, 1, 1, 1], (1, 2), None), Second);
        let servers = SplitRule::Servers([[9, 9, 9, 9].into(), [1; 4].into()].into());
        assert_eq!(port(&servers, [1; 4], (1, 2), None), Second);
        assert_eq!(port(&servers, [2; 4], (1, 2), None), First);
        assert_eq!(port(&SplitRule::Ports, [1; 4], (40_000, 80), None), First);
        assert_eq!(port(&SplitRule::Ports, [1; 4], (80, 40_000), None), Second);
        let macs = SplitRule::SourceMacs(vec![MacAddr([2; 6])]);
        assert_eq!(port(&macs, [1; 4], (1, 1), None), First);
        assert_eq!(port(&SplitRule::SourceMacs(vec![]), [1; 4], (1, 1), None), Second);
        assert_eq!(port(&SplitRule::Interface(InterfaceChoice::Number(3)), [1; 4], (1, 1), None), First);
        assert_eq!(port(&SplitRule::Interface(InterfaceChoice::Number(0)), [1; 4], (1, 1), None), Second);
        assert_eq!(port(&SplitRule::Direction, [1; 4], (1, 1), Some(Direction::Inbound)), Second);
        assert_eq!(port(&SplitRule::Direction, [1; 4], (1, 1), Some(Direction::Outbound)), First);
    }
}
