//! IP addresses of a device, and the device facts for a plan.

use crate::HostError;
use crate::netlink::RequestFailure;
use crate::stack::{LinkId, Stack};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use packet::DeviceFacts;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One IP address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address itself.
    pub ip: IpAddr,
    /// Prefix length.
    pub prefix_len: u8,
    /// False during duplicate address detection, and after it found a duplicate.
    pub usable: bool,
    link_index: u32,
}

impl Stack {
    /// All addresses of a device, in the order of the kernel.
    pub fn addresses<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Vec<Address>, HostError> {
        let id = id.into();
        let link_index = self.index_of(id)?;
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let failed = RequestFailure::on("list the addresses of", self.object(id));
        let rows = self.route().list(question).map_err(failed)?;
        Ok(rows.into_iter().filter_map(into_address).filter(|found| found.link_index == link_index).collect())
    }

    /// Device facts for a plan. The CPU is left 0; the sending thread sets it.
    pub fn facts<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<DeviceFacts, HostError> {
        let link = self.link(id)?;
        let addresses = self.addresses(&link)?;
        Ok(DeviceFacts {
            mac: link.mac.unwrap_or_default(),
            v4: addresses.iter().find_map(Address::v4),
            v6_link_local: addresses.iter().find_map(Address::usable_link_local),
            tx_queues: u16::try_from(self.queues(&link)?.tx).unwrap_or(u16::MAX),
            ..DeviceFacts::default()
        })
    }
}

impl Address {
    /// A usable address of no device, for tests of what follows from addresses.
    pub fn new(ip: IpAddr, prefix_len: u8) -> Self {
        Self { ip, prefix_len, usable: true, link_index: 0 }
    }

    fn v4(&self) -> Option<Ipv4Addr> {
        match self.ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        }
    }

    fn usable_link_local(&self) -> Option<Ipv6Addr> {
        match self.ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() && self.usable => Some(ip),
            _ => None,
        }
    }
}

fn into_address(row: RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = row else { return None };
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    let (mut local, mut other) = (None, None);
    for attribute in message.attributes {
        match attribute {
            // With both, Local is ours and Address is the peer of a point-to-point link.
            AddressAttribute::Local(ip) => local = Some(ip),
            AddressAttribute::Address(ip) => other = Some(ip),
            AddressAttribute::Flags(more) => flags = more,
            _ => {}
        }
    }
    Some(Address {
        ip: local.or(other)?,
        prefix_len: message.header.prefix_len,
        usable: !flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
        link_index: message.header.index,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(attributes: Vec<AddressAttribute>) -> Option<Address> {
        let mut message = AddressMessage::default();
        message.attributes = attributes;
        into_address(RouteNetlinkMessage::NewAddress(message))
    }

    #[test]
    fn a_point_to_point_link_has_our_address_not_the_other() {
        let (ours, theirs) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let found = address(vec![AddressAttribute::Address(theirs), AddressAttribute::Local(ours)]);
        assert_eq!(found.unwrap().ip, ours);
    }

    #[test]
    fn a_tentative_link_local_address_is_not_usable() {
        let ip = "fe80::1".parse().unwrap();
        let tentative = AddressAttribute::Flags(AddressFlags::Tentative | AddressFlags::Permanent);
        let found = address(vec![AddressAttribute::Address(ip), tentative]).unwrap();
        assert_eq!(found.usable_link_local(), None);
        let found = address(vec![AddressAttribute::Address(ip)]).unwrap();
        assert_eq!(found.usable_link_local(), Some("fe80::1".parse().unwrap()));
    }
}
