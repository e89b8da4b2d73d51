//! Fictitious devices for tests.

use crate::link::Link;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

/// An Ethernet device of that name and kind, as the kernel would describe it; with carrier if it is
/// up.
pub fn link(name: &str, kind: Option<&str>, is_up: bool) -> Link {
    let mut message = LinkMessage::default();
    message.header.index = 2;
    message.header.link_layer_type = libc::ARPHRD_ETHER.into();
    if is_up {
        message.header.flags = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
    }
    message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::Mtu(1500)];
    let mut link = Link::from(message);
    link.kind = kind.map(str::to_owned);
    link
}
