//! Address resolution of the emulated interfaces of a port: ARP (RFC 826) and Neighbor Discovery
//! (RFC 4861).
//!
//! [`AddressResolution`] answers for its interfaces and learns the MAC addresses of their gateways.
//! It sees frames and returns frames; sockets and time are the caller's.

use crate::device::{EmulatedInterface, InterfaceAddress};
use crate::echo::{EchoEnds, EchoReply, EchoRequest, echo_request};
use crate::vlan::{VlanTag, is_same_vlan, with_tags, without_tags};
use packet::plan::{ChecksumField, PseudoHeader, SumKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const BROADCAST: [u8; 6] = [0xff; 6];
const ETHER_TYPE: std::ops::Range<usize> = 12..14;
const ETHERNET_LEN: usize = 14;
/// Bytes of the shortest frame without FCS.
const FRAME_LEN_MIN: usize = 60;
/// ARP for IPv4 over Ethernet: hardware 1, protocol 0x0800, addresses of 6 and 4 bytes.
const ARP_START: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_LEN: usize = 28;
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;
const ICMPV6: u8 = 58;
/// ICMPv6 follows Ethernet and an IPv6 header without extensions.
const ICMPV6_START: usize = ETHERNET_LEN + 40;
/// Type, code, checksum, flags and target.
const DISCOVERY_LEN: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
/// Flags of an advertisement: it answers a solicitation; it overrides what was known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The emulated interfaces of a port and what they know of their gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressResolution {
    interfaces: Vec<ResolvingInterface>,
    pings: Vec<Ping>,
    /// Identifier of the next ping.
    next_id: u16,
}

/// A ping that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ping {
    id: u16,
    /// Its interface, as index.
    from: usize,
    to: IpAddr,
    next_hop: IpAddr,
    next_hop_mac: Option<[u8; 6]>,
    sent: u16,
    is_answered: bool,
}

/// How far a ping has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingState {
    /// The MAC address of the next hop is unknown.
    Resolving,
    /// A request can be sent, or was sent.
    Waiting,
    /// A reply has arrived.
    Answered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvingInterface {
    name: String,
    mac: [u8; 6],
    vlans: Vec<VlanTag>,
    address: InterfaceAddress,
    gateway_mac: Option<[u8; 6]>,
}

/// An interface that answers, and its answer without tags.
type Answer<'a> = (&'a ResolvingInterface, Vec<u8>);

/// Who has which address, as a frame says.
struct Claim {
    address: IpAddr,
    mac: [u8; 6],
}

impl AddressResolution {
    /// For those of `interfaces` that have an address and are connected to `port`.
    pub fn new(interfaces: &[EmulatedInterface], port: &str) -> Self {
        let of_port = interfaces.iter().filter(|interface| interface.port == port);
        let resolving = of_port.filter_map(|interface| {
            let address = interface.address?;
            Some(ResolvingInterface {
                name: interface.name.clone(),
                mac: interface.mac,
                vlans: interface.vlans.clone(),
                address,
                gateway_mac: address.gateway_mac,
            })
        });
        Self { interfaces: resolving.collect(), ..Self::default() }
    }

    /// True if no interface of the port has an address.
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// The gateway of an interface.
    pub fn gateway(&self, interface: &str) -> Option<IpAddr> {
        Some(self.interfaces.iter().find(|known| known.name == interface)?.address.gateway)
    }

    /// The MAC address of the gateway of an interface, once it is known.
    pub fn gateway_mac(&self, interface: &str) -> Option<[u8; 6]> {
        self.interfaces.iter().find(|known| known.name == interface)?.gateway_mac
    }

    /// A request for each gateway whose MAC address is unknown.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        let unknown = self.interfaces.iter().filter(|interface| interface.gateway_mac.is_none());
        let request = |unknown: &ResolvingInterface| Some(with_tags(unknown.request()?, &unknown.vlans));
        unknown.filter_map(request).collect()
    }

    /// Begins to ping `to` from an interface. Returns its identifier; `None` for an interface that
    /// the port does not have, or one with another version of IP.
    pub fn ping(&mut self, interface: &str, to: IpAddr) -> Option<u16> {
        let from = self.interfaces.iter().position(|known| known.name == interface)?;
        let ResolvingInterface { address, gateway_mac, .. } = &self.interfaces[from];
        if address.address.is_ipv4() != to.is_ipv4() {
            return None;
        }
        let next_hop = if address.is_on_link(to) { to } else { address.gateway };
        let next_hop_mac = gateway_mac.filter(|_| next_hop == address.gateway);
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.pings.push(Ping { id, from, to, next_hop, next_hop_mac, sent: 0, is_answered: false });
        Some(id)
    }

    /// How far a ping has come; `None` for one that there is not.
    pub fn ping_state(&self, id: u16) -> Option<PingState> {
        let ping = self.pings.iter().find(|ping| ping.id == id)?;
        Some(match (ping.is_answered, ping.next_hop_mac) {
            (true, _) => PingState::Answered,
            (false, Some(_)) => PingState::Waiting,
            (false, None) => PingState::Resolving,
        })
    }

    /// The next frame of a ping: a request for the MAC address of its next hop, or the ping.
    pub fn ping_frame(&mut self, id: u16) -> Option<Vec<u8>> {
        let ping = self.pings.iter_mut().find(|ping| ping.id == id)?;
        let interface = &self.interfaces[ping.from];
        let frame = match ping.next_hop_mac {
            None => interface.request_for(ping.next_hop)?,
            Some(mac) => {
                ping.sent += 1;
                let (from, to) = (interface.address.address, ping.to);
                echo_request(&EchoEnds { from, to, macs: (interface.mac, mac) }, id, ping.sent)?
            }
        };
        Some(with_tags(frame, &interface.vlans))
    }

    /// Forgets a ping.
    pub fn end_ping(&mut self, id: u16) {
        self.pings.retain(|ping| ping.id != id);
    }

    fn take_reply(&mut self, reply: EchoReply, tags: &[VlanTag]) {
        for ping in &mut self.pings {
            let interface = &self.interfaces[ping.from];
            let ends = (ping.id, ping.to, interface.address.address);
            ping.is_answered |=
                ends == (reply.id, reply.from, reply.to) && is_same_vlan(&interface.vlans, tags);
        }
    }

    /// Takes a frame that the port received: learns from it, and returns the answer to it, if it
    /// asks for an address of these interfaces, or pings one. Interfaces see frames of their VLAN
    /// only.
    pub fn receive(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let (tags, frame) = without_tags(frame);
        let (owner, answer) = self.receive_plain(&tags, &frame)?;
        Some(with_tags(answer, &owner.vlans))
    }

    /// Takes a frame that had these tags. Returns the interface that answers, and its answer.
    fn receive_plain(&mut self, tags: &[VlanTag], frame: &[u8]) -> Option<Answer<'_>> {
        if let Some(echo) = EchoRequest::of(frame) {
            let owner = self.owner(echo.target(), tags)?;
            return Some((owner, echo.reply(owner.mac)));
        }
        if let Some(reply) = EchoReply::of(frame) {
            self.take_reply(reply, tags);
            return None;
        }
        match frame.get(ETHER_TYPE)? {
            [0x08, 0x06] => self.receive_arp(tags, frame.get(ETHERNET_LEN..ETHERNET_LEN + ARP_LEN)?),
            [0x86, 0xdd] => self.receive_discovery(tags, frame),
            _ => None,
        }
    }

    fn learn(&mut self, claim: &Claim, tags: &[VlanTag]) {
        for ping in self.pings.iter_mut().filter(|ping| ping.next_hop == claim.address) {
            if ping.next_hop_mac.is_none() && is_same_vlan(&self.interfaces[ping.from].vlans, tags) {
                ping.next_hop_mac = Some(claim.mac);
            }
        }
        for interface in self.interfaces.iter_mut().filter(|interface| is_same_vlan(&interface.vlans, tags)) {
            if interface.address.gateway == claim.address && interface.address.gateway_mac.is_none() {
                interface.gateway_mac = Some(claim.mac);
            }
        }
    }

    fn owner(&self, address: IpAddr, tags: &[VlanTag]) -> Option<&ResolvingInterface> {
        let is_owner = |interface: &&ResolvingInterface| {
            interface.address.address == address && is_same_vlan(&interface.vlans, tags)
        };
        self.interfaces.iter().find(is_owner)
    }

    fn receive_arp(&mut self, tags: &[VlanTag], arp: &[u8]) -> Option<Answer<'_>> {
        if arp[..6] != ARP_START {
            return None;
        }
        let operation = u16::from_be_bytes([arp[6], arp[7]]);
        let (sender, target) = (ipv4(&arp[14..18]), ipv4(&arp[24..28]));
        let mac = arp[8..14].try_into().ok()?;
        if !sender.is_unspecified() {
            self.learn(&Claim { address: sender.into(), mac }, tags);
        }
        let owner = self.owner(target.into(), tags).filter(|_| operation == ARP_REQUEST)?;
        Some((owner, arp_frame(mac, ARP_REPLY, (owner.mac, target), (mac, sender))))
    }

    fn receive_discovery(&mut self, tags: &[VlanTag], frame: &[u8]) -> Option<Answer<'_>> {
        let message = frame.get(ICMPV6_START..)?;
        let target = ipv6(message.get(8..DISCOVERY_LEN)?);
        if frame[ETHERNET_LEN + 6] != ICMPV6 {
            return None;
        }
        let source = ipv6(&frame[ETHERNET_LEN + 8..ETHERNET_LEN + 24]);
        let end = (u16::from_be_bytes([frame[18], frame[19]]) as usize).min(message.len());
        let options = message.get(DISCOVERY_LEN..end)?;
        match message[0] {
            ADVERTISEMENT => {
                let mac = link_layer(options, TARGET_LINK_LAYER)?;
                self.learn(&Claim { address: target.into(), mac }, tags);
                None
            }
            SOLICITATION => {
                let mac = link_layer(options, SOURCE_LINK_LAYER);
                if let (Some(mac), false) = (mac, source.is_unspecified()) {
                    self.learn(&Claim { address: source.into(), mac }, tags);
                }
                let owner = self.owner(target.into(), tags)?;
                // A host that checks whether its address is free has none yet.
                let (to, flags) = match source.is_unspecified() {
                    true => (ALL_NODES, OVERRIDE),
                    false => (source, SOLICITED | OVERRIDE),
                };
                let to_mac = mac.unwrap_or_else(|| multicast_mac(to));
                let body = Discovery { kind: ADVERTISEMENT, flags, target, option: TARGET_LINK_LAYER };
                Some((owner, body.frame((owner.mac, target), (to_mac, to))))
            }
            _ => None,
        }
    }
}

impl ResolvingInterface {
    fn request(&self) -> Option<Vec<u8>> {
        self.request_for(self.address.gateway)
    }

    /// A request for the MAC address of a neighbour, without tags.
    fn request_for(&self, neighbour: IpAddr) -> Option<Vec<u8>> {
        match (self.address.address, neighbour) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                Some(arp_frame(BROADCAST, ARP_REQUEST, (self.mac, own), ([0; 6], target)))
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                let to = solicited_node(target);
                let body = Discovery { kind: SOLICITATION, flags: 0, target, option: SOURCE_LINK_LAYER };
                Some(body.frame((self.mac, own), (multicast_mac(to), to)))
            }
            _ => None,
        }
    }
}

fn ipv4(bytes: &[u8]) -> Ipv4Addr {
    let bytes: [u8; 4] = bytes.try_into().expect("four bytes");
    bytes.into()
}

fn ipv6(bytes: &[u8]) -> Ipv6Addr {
    let bytes: [u8; 16] = bytes.try_into().expect("sixteen bytes");
    bytes.into()
}

/// The multicast address at which a host with `address` hears solicitations.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let mut group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets();
    group[13..].copy_from_slice(&address.octets()[13..]);
    group.into()
}

/// The MAC address of an IPv6 multicast address (RFC 2464).
fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// The MAC address in the options of a message of Neighbor Discovery.
fn link_layer(mut options: &[u8], kind: u8) -> Option<[u8; 6]> {
    while let [option, words, ..] = *options {
        let len = usize::from(words) * 8;
        let body = options.get(2..len)?;
        if option == kind {
            return body.get(..6)?.try_into().ok();
        }
        options = &options[len..];
    }
    None
}

fn arp_frame(
    to: [u8; 6],
    operation: u16,
    sender: ([u8; 6], Ipv4Addr),
    target: ([u8; 6], Ipv4Addr),
) -> Vec<u8> {
    let mut frame = [&to[..], &sender.0, &[0x08, 0x06], &ARP_START, &operation.to_be_bytes()].concat();
    for (mac, address) in [sender, target] {
        frame.extend(mac);
        frame.extend(address.octets());
    }
    frame.resize(FRAME_LEN_MIN, 0);
    frame
}

/// A message of Neighbor Discovery with one option: the sender's MAC address.
struct Discovery {
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
}

impl Discovery {
    fn frame(&self, from: ([u8; 6], Ipv6Addr), to: ([u8; 6], Ipv6Addr)) -> Vec<u8> {
        let message_len = (DISCOVERY_LEN + 8) as u8;
        // Routers do not forward the hop limit of 255, which receivers check.
        let ip = [0x60, 0, 0, 0, 0, message_len, ICMPV6, 255];
        let message = [self.kind, 0, 0, 0, self.flags, 0, 0, 0];
        let mut frame = [&to.0[..], &from.0, &[0x86, 0xdd], &ip, &from.1.octets(), &to.1.octets()].concat();
        frame.extend(message);
        frame.extend(self.target.octets());
        frame.extend([self.option, 1]);
        frame.extend(from.0);
        let checksum = ChecksumField {
            offset: ICMPV6_START + 2,
            start: ICMPV6_START,
            end: frame.len(),
            pseudo_header: PseudoHeader::Ipv6 { header: ETHERNET_LEN, protocol: ICMPV6 },
            kind: SumKind::Internet,
            is_wrong: false,
        };
        checksum.write(&mut frame);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, mac: u8, own: &str, gateway: &str) -> EmulatedInterface {
        EmulatedInterface {
            name: name.to_owned(),
            ethernet: "e".to_owned(),
            port: "p".to_owned(),
            mac: [2, 0, 0, 0, 0, mac],
            vlans: Vec::new(),
            address: Some(InterfaceAddress {
                address: own.parse().unwrap(),
                prefix: 24,
                gateway: gateway.parse().unwrap(),
                gateway_mac: None,
            }),
        }
    }

    fn port(name: &str, mac: u8, own: &str, gateway: &str) -> AddressResolution {
        AddressResolution::new(&[interface(name, mac, own, gateway)], "p")
    }

    #[test]
    fn two_interfaces_resolve_each_other() {
        for (one, two) in [("198.18.0.1", "198.18.0.2"), ("2001:db8::1", "2001:db8::ff:2")] {
            let (mut left, mut right) = (port("l", 1, one, two), port("r", 2, two, one));
            let [request] = &left.requests()[..] else { panic!("one request") };
            let answer = right.receive(request).expect("an answer");
            // The request itself names the one who asks.
            assert_eq!(right.gateway_mac("r"), Some([2, 0, 0, 0, 0, 1]));
            assert_eq!((&answer[..6], &answer[6..12]), (&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 2][..]));
            assert_eq!(left.receive(&answer), None);
            assert_eq!(left.gateway_mac("l"), Some([2, 0, 0, 0, 0, 2]));
            assert_eq!(left.requests(), Vec::<Vec<u8>>::new());
        }
    }

    #[test]
    fn interfaces_see_frames_of_their_vlan_only() {
        let tag = |tpid, id| VlanTag { tpid, priority: 2, id };
        let stacks =
            [vec![], vec![tag(0x8100, 5)], vec![tag(0x8100, 6)], vec![tag(0x88a8, 5), tag(0x8100, 6)]];
        for (one, two) in [("198.18.0.1", "198.18.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let of = |name: &str, mac, own, gateway, vlans: &[VlanTag]| {
                let interface =
                    EmulatedInterface { vlans: vlans.to_vec(), ..interface(name, mac, own, gateway) };
                AddressResolution::new(&[interface], "p")
            };
            for (asks, vlans) in stacks.iter().enumerate() {
                let mut left = of("l", 1, one, two, vlans);
                let [request] = &left.requests()[..] else { panic!("one request") };
                assert_eq!(without_tags(request).0, *vlans);
                for (hears, others) in stacks.iter().enumerate() {
                    let mut right = of("r", 2, two, one, others);
                    let answer = right.receive(request);
                    assert_eq!(answer.is_some(), asks == hears, "{vlans:?} {others:?}");
                    assert_eq!(right.gateway_mac("r").is_some(), asks == hears);
                    if let Some(answer) = answer {
                        assert_eq!(without_tags(&answer).0, *vlans);
                        assert_eq!(left.receive(&answer), None);
                        assert_eq!(left.gateway_mac("l"), Some([2, 0, 0, 0, 0, 2]));
                    }
                }
            }
        }
    }

    #[test]
    fn a_ping_goes_to_a_neighbour_or_to_the_gateway() {
        for (one, two, far) in
            [("198.18.0.1", "198.18.0.2", "203.0.113.9"), ("2001:db8::1", "2001:db8::2", "3fff::9")]
        {
            let (mut left, mut right) = (port("l", 1, one, two), port("r", 2, two, one));
            let [two_address, far]: [IpAddr; 2] = [two, far].map(|text| text.parse().unwrap());
            let id = left.ping("l", two_address).expect("it has the interface");
            assert_eq!(left.ping_state(id), Some(PingState::Resolving));
            let request = left.ping_frame(id).expect("a request");
            assert_eq!(left.receive(&right.receive(&request).expect("an answer")), None);
            assert_eq!(left.ping_state(id), Some(PingState::Waiting));
            let ping = left.ping_frame(id).expect("a ping");
            let reply = right.receive(&ping).expect("a reply");
            assert_eq!(left.receive(&reply), None);
            assert_eq!(left.ping_state(id), Some(PingState::Answered));
            left.end_ping(id);
            assert_eq!(left.ping_state(id), None);
            // The gateway is known by now; the far host does not answer.
            let id = left.ping("l", far).expect("it has the interface");
            assert_eq!(left.ping_state(id), Some(PingState::Waiting));
            let ping = left.ping_frame(id).expect("a ping");
            assert_eq!((&ping[..6], right.receive(&ping)), (&[2, 0, 0, 0, 0, 2][..], None));
            assert_eq!(left.ping("other", far), None);
        }
    }

    #[test]
    fn a_ping_goes_to_the_configured_mac_address_of_the_gateway() {
        let mut configured = interface("l", 1, "198.18.0.1", "198.18.0.2");
        configured.address.as_mut().expect("an address").gateway_mac = Some([2, 9, 9, 9, 9, 9]);
        let mut left = AddressResolution::new(&[configured], "p");
        let id = left.ping("l", "198.18.0.2".parse().unwrap()).expect("it has the interface");
        // The request of the gateway names another MAC address.
        let request = port("r", 2, "198.18.0.2", "198.18.0.1").requests().remove(0);
        assert!(left.receive(&request).is_some());
        assert_eq!(left.ping_frame(id).expect("a ping")[..6], [2, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn addresses_of_others_are_not_answered_for() {
        for (one, two, three) in
            [("198.18.0.1", "198.18.0.2", "198.18.0.3"), ("2001:db8::1", "2001:db8::2", "2001:db8::3")]
        {
            let [request] = &port("l", 1, one, three).requests()[..] else { panic!("one request") };
            let mut right = port("r", 2, two, three);
            assert_eq!(right.receive(request), None);
            assert_eq!(right.gateway_mac("r"), None);
            // A frame that was cut is not read beyond its end.
            for len in 0..ETHERNET_LEN + ARP_LEN {
                assert_eq!(port("o", 3, three, one).receive(&request[..len]), None, "{len}");
            }
        }
    }

    #[test]
    fn a_host_that_checks_its_address_is_answered_at_all_nodes() {
        let mut right = port("r", 2, "2001:db8::2", "2001:db8::1");
        let target = "2001:db8::2".parse().unwrap();
        let body = Discovery { kind: SOLICITATION, flags: 0, target, option: SOURCE_LINK_LAYER };
        let mut probe =
            body.frame(([2, 0, 0, 0, 0, 9], Ipv6Addr::UNSPECIFIED), ([0x33; 6], solicited_node(target)));
        // Such a probe has no option.
        probe.truncate(ICMPV6_START + DISCOVERY_LEN);
        probe[19] = DISCOVERY_LEN as u8;
        let answer = right.receive(&probe).expect("an answer");
        assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(answer[ICMPV6_START + 4], OVERRIDE);
    }
}
