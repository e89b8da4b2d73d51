//! Routes and neighbours: the next hop for an address, and the devices of the default route.

use crate::HostError;
use crate::link::Link;
use crate::netlink::{GROUP_NEIGHBOUR, RequestFailure};
use crate::rtnl_write::family_of;
use crate::stack::{LinkId, Stack};
use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use packet::MacAddr;
use std::net::IpAddr;
use std::time::Duration;

/// The route of the kernel to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    link_index: u32,
    /// The router; `None` if the destination is on the link.
    via: Option<IpAddr>,
}

/// Next hop of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// A router, or the destination itself.
    pub ip: IpAddr,
    /// Its MAC address, if the neighbour table has one.
    pub mac: Option<MacAddr>,
}

impl Stack {
    /// Next hop of a frame for `destination` that leaves through this device. Without a route the
    /// destination counts as on the link.
    pub fn next_hop<'a>(&self, id: impl Into<LinkId<'a>>, destination: IpAddr) -> Result<NextHop, HostError> {
        let index = self.index_of(id.into())?;
        let route = self.route_lookup(destination, index, RouteFlags::empty())?;
        let via = route.filter(|route| route.link_index == index).and_then(|route| route.via);
        let ip = via.unwrap_or(destination);
        Ok(NextHop { ip, mac: self.neighbour(index, ip)? })
    }

    /// MAC address of a neighbour on a device, if the neighbour table has a valid one.
    pub fn neighbour<'a>(&self, id: impl Into<LinkId<'a>>, ip: IpAddr) -> Result<Option<MacAddr>, HostError> {
        let id = id.into();
        let message = neighbour_message(self.index_of(id)?, ip);
        let failed = RequestFailure::on("look up neighbour", format!("{ip} of {}", self.object(id)));
        let answer = self.route().ask(RouteNetlinkMessage::GetNeighbour(message), 0).map_err(failed);
        match answer {
            Ok(rows) => Ok(rows.into_iter().find_map(into_mac)),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first of `ips` with a known MAC address. If there is none, the kernel queries all of
    /// them at once (ARP, ND), and this waits up to `timeout` for the first answer.
    pub fn resolve_first_neighbour<'a>(
        &self,
        id: impl Into<LinkId<'a>>,
        ips: &[IpAddr],
        timeout: Duration,
    ) -> Result<Option<(IpAddr, MacAddr)>, HostError> {
        let id = id.into();
        let index = self.index_of(id)?;
        let known = || {
            let found = ips.iter().map(|ip| Ok(self.neighbour(index, *ip)?.map(|mac| (*ip, mac))));
            found.filter_map(Result::transpose).next().transpose()
        };
        if let Some(found) = known()? {
            return Ok(Some(found));
        }
        for ip in ips {
            let mut message = neighbour_message(index, *ip);
            // "Use": the kernel resolves the entry as if a packet were waiting for it.
            message.header.flags = NeighbourFlags::Use;
            message.header.kind = RouteType::Unicast;
            let failed = RequestFailure::on("ask neighbour", format!("{ip} of {}", self.object(id)));
            self.route().ask(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE).map_err(failed)?;
        }
        self.wait_for(GROUP_NEIGHBOUR, timeout, known)
    }

    /// True if a route through this device leads to `destination`. The kernel itself sends without
    /// one, as if the destination were on the link.
    pub fn has_route<'a>(&self, id: impl Into<LinkId<'a>>, destination: IpAddr) -> Result<bool, HostError> {
        let index = self.index_of(id.into())?;
        // Without this flag the kernel answers for IPv4 with a route that is in no table.
        let found = self.route_lookup(destination, index, RouteFlags::FibMatch)?;
        Ok(found.is_some())
    }

    /// Indexes of the devices of default routes, IPv4 or IPv6, in any table. Halves of the address
    /// space (`0.0.0.0/1`) count as well, because VPN programs split the default route like this.
    pub fn default_route_links(&self) -> Result<Vec<u32>, HostError> {
        let mut links = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let rows = self
                .route()
                .list(RouteNetlinkMessage::GetRoute(message))
                .map_err(RequestFailure::on("list the routes of", self.text()))?;
            links.extend(rows.into_iter().flat_map(default_links));
        }
        links.sort_unstable();
        links.dedup();
        Ok(links)
    }

    /// Indexes of the devices that frames of a default route pass: those of the route, the ports of
    /// a bridge, bond or similar, and the lower devices of a VLAN, macvlan or similar.
    pub fn default_route_path(&self) -> Result<Vec<u32>, HostError> {
        let tops = self.default_route_links()?;
        Ok(if tops.is_empty() { tops } else { with_lower_devices(tops, &self.links()?) })
    }

    /// True if frames of a default route pass this device; see [`Stack::default_route_path`].
    pub fn carries_default_route<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<bool, HostError> {
        let index = self.index_of(id.into())?;
        Ok(self.default_route_path()?.contains(&index))
    }

    /// True if frames of a default route of the host pass this device, so that a flood on it can
    /// cut the host off. Other namespaces than the host's may have default routes; see
    /// [`Netns::is_of_host`](crate::Netns::is_of_host).
    pub fn carries_default_route_of_host<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<bool, HostError> {
        Ok(self.carries_default_route(id)? && self.netns().is_of_host())
    }

    fn route_lookup(
        &self,
        destination: IpAddr,
        out: u32,
        flags: RouteFlags,
    ) -> Result<Option<Route>, HostError> {
        let mut message = RouteMessage::default();
        message.header.flags = flags;
        message.header.address_family = family_of(destination);
        message.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        message.attributes = vec![RouteAttribute::Destination(destination.into()), RouteAttribute::Oif(out)];
        let failed = RequestFailure::on("look up the route to", format!("{destination} in {}", self.netns()));
        let answer = self.route().ask(RouteNetlinkMessage::GetRoute(message), 0).map_err(failed);
        match answer {
            Ok(rows) => Ok(rows.into_iter().find_map(into_route)),
            Err(error) if matches!(error.errno(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn neighbour_message(index: u32, ip: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family_of(ip);
    message.header.ifindex = index;
    message.attributes = vec![NeighbourAttribute::Destination(ip.into())];
    message
}

fn into_mac(row: RouteNetlinkMessage) -> Option<MacAddr> {
    let RouteNetlinkMessage::NewNeighbour(message) = row else { return None };
    // NUD_VALID: all states in which the kernel would use the address itself.
    let valid = matches!(
        message.header.state,
        NeighbourState::Permanent
            | NeighbourState::Noarp
            | NeighbourState::Reachable
            | NeighbourState::Probe
            | NeighbourState::Stale
            | NeighbourState::Delay
    );
    message.attributes.into_iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) if valid => bytes.try_into().ok().map(MacAddr),
        _ => None,
    })
}

fn into_route(row: RouteNetlinkMessage) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = row else { return None };
    // IPv6 answers with unreachable, blackhole and prohibit instead of an error.
    let is_way = matches!(
        message.header.kind,
        RouteType::Local
            | RouteType::Unicast
            | RouteType::Broadcast
            | RouteType::Multicast
            | RouteType::Anycast
    );
    if !is_way {
        return None;
    }
    let (mut link_index, mut via) = (None, None);
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link_index = Some(index),
            RouteAttribute::MultiPath(hops) => link_index = hops.first().map(|hop| hop.interface_index),
            RouteAttribute::Gateway(address) => via = into_ip(&address),
            // An IPv4 route through an IPv6 router (RFC 8950).
            RouteAttribute::Via(RouteVia::Inet6(ip)) => via = Some(ip.into()),
            RouteAttribute::Via(RouteVia::Inet(ip)) => via = Some(ip.into()),
            _ => {}
        }
    }
    Some(Route { link_index: link_index?, via })
}

fn into_ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn default_links(row: RouteNetlinkMessage) -> Vec<u32> {
    let RouteNetlinkMessage::NewRoute(message) = row else { return Vec::new() };
    if message.header.destination_prefix_length > 1 || message.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let links = |attribute| match attribute {
        RouteAttribute::Oif(index) => vec![index],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
        _ => Vec::new(),
    };
    message.attributes.into_iter().flat_map(links).collect()
}

/// `tops` and all devices below them.
fn with_lower_devices(tops: Vec<u32>, links: &[Link]) -> Vec<u32> {
    let mut path = tops;
    let mut seen = 0;
    while let Some(top) = path.get(seen).copied() {
        let ports = links.iter().filter(|link| link.master == Some(top)).map(|link| link.index);
        let below = links.iter().find(|link| link.index == top).and_then(lower);
        let new: Vec<u32> = ports.chain(below).filter(|index| !path.contains(index)).collect();
        path.extend(new);
        seen += 1;
    }
    path
}

/// The lower device, in the same namespace. The link of a pair is its peer, not a lower device.
fn lower(link: &Link) -> Option<u32> {
    let is_pair = ["veth", "vxcan", "netkit"].iter().any(|kind| link.is_kind(kind));
    link.peer.filter(|peer| !is_pair && peer.netns_number.is_none()).map(|peer| peer.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(kind: RouteType, prefix_len: u8, attributes: Vec<RouteAttribute>) -> RouteNetlinkMessage {
        let mut message = RouteMessage::default();
        message.header.kind = kind;
        message.header.destination_prefix_length = prefix_len;
        message.attributes = attributes;
        RouteNetlinkMessage::NewRoute(message)
    }

    #[test]
    fn default_routes_are_unicast_and_short() {
        let oif = || vec![RouteAttribute::Oif(3)];
        assert_eq!(default_links(route(RouteType::Unicast, 0, oif())), [3]);
        assert_eq!(default_links(route(RouteType::Unicast, 1, oif())), [3]);
        assert_eq!(default_links(route(RouteType::Unicast, 8, oif())), [0; 0]);
        // IPv6 keeps "unreachable default dev lo" in every namespace.
        assert_eq!(default_links(route(RouteType::Unreachable, 0, oif())), [0; 0]);
    }

    #[test]
    fn ports_and_lower_devices_are_on_the_path_and_the_peer_of_a_pair_is_not() {
        let link = |index, kind: &str, master, peer: Option<(u32, Option<i32>)>| {
            let mut link = Link::from(netlink_packet_route::link::LinkMessage::default());
            (link.index, link.master) = (index, master);
            link.kind = Some(kind.to_owned());
            link.peer = peer.map(|(index, netns_number)| crate::Peer { index, netns_number });
            link
        };
        let links = [
            link(1, "vlan", None, Some((2, None))),
            link(2, "bridge", None, None),
            link(3, "veth", Some(2), Some((4, None))),
            link(4, "veth", None, Some((3, None))),
            link(5, "macvlan", Some(2), Some((6, Some(0)))),
        ];
        assert_eq!(with_lower_devices(vec![1], &links), [1, 2, 3, 5]);
        assert_eq!(with_lower_devices(vec![4], &links), [4]);
    }

    #[test]
    fn an_unreachable_answer_is_no_route() {
        assert_eq!(into_route(route(RouteType::Unreachable, 128, vec![RouteAttribute::Oif(1)])), None);
    }

    #[test]
    fn a_failed_neighbour_has_no_mac() {
        let mut message = neighbour_message(2, "192.0.2.9".parse().unwrap());
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 1]));
        for (state, known) in [
            (NeighbourState::Failed, false),
            (NeighbourState::Incomplete, false),
            (NeighbourState::Stale, true),
            (NeighbourState::Permanent, true),
        ] {
            message.header.state = state;
            let row = RouteNetlinkMessage::NewNeighbour(message.clone());
            assert_eq!(into_mac(row).is_some(), known, "{state:?}");
        }
    }
}
