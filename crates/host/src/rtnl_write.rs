//! Changes of devices, addresses and neighbours.

use crate::netlink::RequestFailure;
use crate::stack::{LinkId, Stack, checked_name, link_message};
use crate::{HostError, Netns};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use packet::MacAddr;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// One end of a new veth pair.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its Ethernet address; `None` for a random one.
    pub mac: Option<MacAddr>,
    /// Number of transmit queues and of receive queues; at least 1.
    pub queues: u32,
    /// Largest layer 3 packet in bytes, 68 to 65,535; `None` for 1500.
    pub mtu: Option<u32>,
}

impl Stack {
    /// Creates a veth pair: `near` here, `far` in `far_netns`. Both are down.
    pub fn create_veth(
        &self,
        near: &VethEnd<'_>,
        far: &VethEnd<'_>,
        far_netns: &Netns,
    ) -> Result<(), HostError> {
        let mut peer = veth_message(far)?;
        peer.attributes.push(LinkAttribute::NetNsFd(far_netns.as_raw_fd()));
        let mut message = veth_message(near)?;
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let object = format!("veth {} with {} in {far_netns}", self.object(near.name.into()), far.name);
        self.change("make", object, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Sets a device up.
    pub fn set_up<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<(), HostError> {
        self.set_link("switch on", id.into(), |message| {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        })
    }

    /// Sets a device down.
    pub fn set_down<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<(), HostError> {
        self.set_link("switch off", id.into(), |message| message.header.change_mask = LinkFlags::Up)
    }

    /// Sets the MTU of a device.
    pub fn set_mtu<'a>(&self, id: impl Into<LinkId<'a>>, mtu: u32) -> Result<(), HostError> {
        self.set_link("set the MTU of", id.into(), |message| message.attributes.push(LinkAttribute::Mtu(mtu)))
    }

    /// Renames a device. Kernels before 6.2 require it to be down.
    pub fn rename<'a>(&self, id: impl Into<LinkId<'a>>, name: &str) -> Result<(), HostError> {
        let name = LinkAttribute::IfName(checked_name(name)?);
        // With a name attribute the message would address the device of that name.
        let index = self.link(id)?.index;
        self.set_link("rename", index.into(), |message| message.attributes.push(name))
    }

    /// Deletes a device, and its peer with it.
    pub fn delete_link<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<(), HostError> {
        let id = id.into();
        let message = RouteNetlinkMessage::DelLink(link_message(id)?);
        self.change("delete", self.object(id), message, 0).map_err(|error| self.clarify(error, id))
    }

    /// Adds an address to a device. IPv6 addresses skip duplicate address detection.
    pub fn add_address<'a>(
        &self,
        id: impl Into<LinkId<'a>>,
        address: IpAddr,
        prefix_len: u8,
    ) -> Result<(), HostError> {
        let id = id.into();
        let mut message = AddressMessage::default();
        message.header.family = family_of(address);
        message.header.index = self.index_of(id)?;
        message.header.prefix_len = prefix_len;
        message.header.scope = AddressScope::Universe;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let object = format!("{address}/{prefix_len} to {}", self.object(id));
        self.change(
            "add address",
            object,
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Adds a permanent neighbour to a device, or replaces it.
    pub fn add_neighbour<'a>(
        &self,
        id: impl Into<LinkId<'a>>,
        address: IpAddr,
        mac: MacAddr,
    ) -> Result<(), HostError> {
        let id = id.into();
        let mut message = NeighbourMessage::default();
        message.header.family = family_of(address);
        message.header.ifindex = self.index_of(id)?;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(address.into()),
            NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
        ];
        let object = format!("{address} to {}", self.object(id));
        self.change(
            "add neighbour",
            object,
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    pub(crate) fn index_of(&self, id: LinkId<'_>) -> Result<u32, HostError> {
        match id {
            LinkId::Index(index) => Ok(index),
            LinkId::Name(_) => Ok(self.link(id)?.index),
        }
    }

    fn set_link(
        &self,
        act: &'static str,
        id: LinkId<'_>,
        with: impl FnOnce(&mut LinkMessage),
    ) -> Result<(), HostError> {
        let mut message = link_message(id)?;
        with(&mut message);
        self.change(act, self.object(id), RouteNetlinkMessage::SetLink(message), 0)
            .map_err(|error| self.clarify(error, id))
    }

    fn change(
        &self,
        act: &'static str,
        object: String,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), HostError> {
        self.route().ask(message, flags).map(drop).map_err(RequestFailure::on(act, object))
    }
}

pub(crate) fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn veth_message(end: &VethEnd<'_>) -> Result<LinkMessage, HostError> {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(checked_name(end.name)?),
        LinkAttribute::NumTxQueues(end.queues.max(1)),
        LinkAttribute::NumRxQueues(end.queues.max(1)),
    ];
    message.attributes.extend(end.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())));
    message.attributes.extend(end.mtu.map(LinkAttribute::Mtu));
    Ok(message)
}
