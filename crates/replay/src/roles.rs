//! Which hosts of a file are servers: by who opens TCP connections, and by ports.

use crate::outer::{IpPacket, first_header, source_of_arp};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// What the frames of a file show about its hosts. Memory grows with the number of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostRoles {
    hosts: HashMap<IpAddr, RoleCounts>,
    /// Frames without an IP address.
    without_address: u64,
}

/// Frames in which a host was the client, and those in which it was the server.
#[derive(Clone, Copy, Debug, Default)]
struct RoleCounts {
    /// Of frames that open a connection.
    opening: [u64; 2],
    /// Of other frames with ports: the server has the lower one.
    ports: [u64; 2],
    /// Frames that it sent.
    sent: u64,
}

impl RoleCounts {
    /// The connections decide; without one, the ports do.
    fn is_server(&self) -> bool {
        let [client, server] = if self.opening == [0; 2] { self.ports } else { self.opening };
        server > client
    }
}

impl HostRoles {
    /// Takes a frame into account, which begins with an Ethernet header or is an IP packet.
    pub fn see(&mut self, frame: &[u8], is_ethernet: bool) {
        let packet = IpPacket::innermost(frame, first_header(is_ethernet));
        let Some((packet, key)) = packet.and_then(|packet| Some((packet, packet.flow(frame)?))) else {
            match source_of_arp(frame).filter(|_| is_ethernet) {
                Some(sender) => self.hosts.entry(sender).or_default().sent += 1,
                None => self.without_address += 1,
            }
            return;
        };
        self.hosts.entry(key.src).or_default().sent += 1;
        let opening = packet.tcp_flags(frame).map_or(0, |flags| flags & (SYN | ACK));
        let (is_opening, is_from_server) = match opening {
            SYN => (true, false),
            flags if flags == SYN | ACK => (true, true),
            _ if key.src_port == key.dst_port => {
                // A host without a role of its own is a client.
                return;
            }
            _ => (false, key.src_port < key.dst_port),
        };
        for (host, is_server) in [(key.src, is_from_server), (key.dst, !is_from_server)] {
            let counts = self.hosts.entry(host).or_default();
            let counts = if is_opening { &mut counts.opening } else { &mut counts.ports };
            counts[usize::from(is_server)] += 1;
        }
    }

    /// Hosts that were seen.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Frames of hosts whose role no connection and no port shows, and frames without an address.
    pub fn undecided(&self) -> u64 {
        let hosts = self.hosts.values().filter(|counts| counts.opening == [0; 2] && counts.ports == [0; 2]);
        self.without_address + hosts.map(|counts| counts.sent).sum::<u64>()
    }

    /// The hosts that were not servers, without groups and broadcast.
    pub fn clients(&self) -> HashSet<IpAddr> {
        let is_unicast = |host: &IpAddr| match host {
            IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
            IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
        };
        let clients = self.hosts.iter().filter(|(host, counts)| !counts.is_server() && is_unicast(host));
        clients.map(|(host, _)| *host).collect()
    }

    /// The hosts that were servers rather than clients.
    pub fn servers(&self) -> HashSet<IpAddr> {
        let servers = self.hosts.iter().filter(|(_, counts)| counts.is_server());
        servers.map(|(host, _)| *host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const CLIENT: [u8; 4] = [10, 0, 0, 1];
    const SERVER: [u8; 4] = [10, 0, 0, 2];

    fn tcp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16), flags: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
        builder.tcp(ports.0, ports.1, 0, 100).write(&mut frame, &[]).unwrap();
        frame[14 + 20 + 13] = flags;
        frame
    }

    fn servers(frames: &[Vec<u8>]) -> Vec<IpAddr> {
        let mut roles = HostRoles::default();
        frames.iter().for_each(|frame| roles.see(frame, true));
        let mut servers: Vec<IpAddr> = roles.servers().into_iter().collect();
        servers.sort_unstable();
        servers
    }

    #[test]
    fn the_host_that_opens_connections_is_the_client() {
        // The server has the higher port, and most frames are not those that open a connection.
        let data = tcp(CLIENT, SERVER, (20, 6000), ACK);
        let open = tcp(CLIENT, SERVER, (20, 6000), SYN);
        let answer = tcp(SERVER, CLIENT, (6000, 20), SYN | ACK);
        for opening in [open, answer] {
            assert_eq!(servers(&[data.clone(), data.clone(), opening]), [IpAddr::from(SERVER)]);
        }
    }

    #[test]
    fn roles_are_found_in_tunnels_and_frames_without_one_are_counted() {
        let tunnelled = |packet: &[u8], src: u8, dst: u8| {
            let mut frame = Vec::new();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([9, 9, 9, src], [9, 9, 9, dst], 64);
            let gre = [&[0, 0, 8, 0], &packet[14..]].concat();
            builder.write(&mut frame, etherparse::IpNumber(47), &gre).unwrap();
            frame
        };
        let there = tunnelled(&tcp(CLIENT, SERVER, (40_000, 80), ACK), 1, 2);
        let back = tunnelled(&tcp(SERVER, CLIENT, (80, 40_000), ACK), 2, 1);
        assert_eq!(servers(&[there.clone(), back]), [IpAddr::from(SERVER)]);
        let mut roles = HostRoles::default();
        let unknown = [&there[..12], &[0x88, 0xb5], &[0; 46]].concat();
        let icmp = tunnelled(&tcp([7; 4], [8; 4], (5, 5), ACK), 3, 4);
        [&there, &unknown, &icmp].into_iter().for_each(|frame| roles.see(frame, true));
        assert_eq!(roles.undecided(), 2);
    }

    #[test]
    fn without_a_connection_the_lower_port_is_that_of_the_server() {
        let frames = [tcp(CLIENT, SERVER, (40_000, 80), ACK), tcp(SERVER, CLIENT, (80, 40_000), ACK)];
        assert_eq!(servers(&frames), [IpAddr::from(SERVER)]);
        assert!(servers(&[tcp(CLIENT, SERVER, (9, 9), ACK)]).is_empty());
        for len in 0..60 {
            HostRoles::default().see(&frames[0][..len.min(frames[0].len())], true);
        }
        let mut roles = HostRoles::default();
        roles.see(&frames[0][14..], false);
        assert_eq!((roles.hosts(), roles.servers().len()), (2, 1));
    }
}
