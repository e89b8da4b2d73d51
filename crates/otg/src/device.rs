//! Emulated interfaces of a configuration: names, addresses, and the neighbours that they know.

use crate::node::ConfigNode;
use crate::pattern::parse_mac;
use crate::vlan::{VlanTag, read_tags};
use std::net::IpAddr;

/// An interface that flows may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedInterface {
    /// Its name: that of an Ethernet interface or of one of its addresses.
    pub name: String,
    /// The Ethernet interface that it belongs to.
    pub ethernet: String,
    /// The port that it is connected to; empty for an interface without a connection.
    pub port: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The VLAN tags of its frames, the outermost first.
    pub vlans: Vec<VlanTag>,
    /// Its address and gateway; none for the Ethernet interface itself.
    pub address: Option<InterfaceAddress>,
}

/// An address of an emulated interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of its prefix.
    pub prefix: u8,
    /// The next hop.
    pub gateway: IpAddr,
    /// The MAC address of the gateway, if the configuration gives it.
    pub gateway_mac: Option<[u8; 6]>,
}

impl InterfaceAddress {
    /// True for an address of the same network, which is a neighbour.
    pub(crate) fn is_on_link(&self, other: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        (bits(self.address) ^ bits(other)) >> (128 - u32::from(self.prefix)) == 0
    }
}

/// Reads a device; its interfaces are appended.
pub(crate) fn read_device(node: &ConfigNode, interfaces: &mut Vec<EmulatedInterface>) {
    node.required("name");
    for ethernet in node.objects("ethernets") {
        ethernet.whole(|node| read_ethernet(node, interfaces));
    }
}

fn read_ethernet(node: &ConfigNode, interfaces: &mut Vec<EmulatedInterface>) {
    let name = node.required("name").to_owned();
    let mac = read_mac(node, "mac").unwrap_or_else(|| {
        node.findings().error(&node.at("mac"), "is required");
        [0; 6]
    });
    node.number("mtu", 1500, 0..=65_535);
    let port = match node.object("connection") {
        Some(connection) => connection.whole(|connection| {
            connection.ignore(&["choice"]);
            connection.required("port_name").to_owned()
        }),
        // Only a name, as long as no flow uses it.
        None => String::new(),
    };
    let vlans = read_tags(node);
    let plain = EmulatedInterface { name: name.clone(), ethernet: name, port, mac, vlans, address: None };
    interfaces.push(plain.clone());
    for (list, bits) in [("ipv4_addresses", 32), ("ipv6_addresses", 128)] {
        for address in node.objects(list) {
            let interface = |node: &ConfigNode| EmulatedInterface {
                name: node.required("name").to_owned(),
                address: read_address(node, bits),
                ..plain.clone()
            };
            interfaces.push(address.whole(interface));
        }
    }
}

fn read_address(node: &ConfigNode, bits: u8) -> Option<InterfaceAddress> {
    let address = |name| {
        let parsed = node.required(name).parse::<IpAddr>().ok();
        let parsed = parsed.filter(|address| address.is_ipv4() == (bits == 32));
        if parsed.is_none() {
            let version = if bits == 32 { 4 } else { 6 };
            node.findings().error(&node.at(name), format!("is not an IPv{version} address"));
        }
        parsed
    };
    let (own, gateway) = (address("address"), address("gateway"));
    let prefix = node.number("prefix", if bits == 32 { 24 } else { 64 }, 1..=u64::from(bits)) as u8;
    let gateway_mac = node.object("gateway_mac").and_then(|mac| {
        mac.whole(|mac| {
            mac.ignore(&["choice", "auto"]);
            if mac.choice("auto") == "value" { read_mac(mac, "value") } else { None }
        })
    });
    Some(InterfaceAddress { address: own?, prefix, gateway: gateway?, gateway_mac })
}

fn read_mac(node: &ConfigNode, name: &'static str) -> Option<[u8; 6]> {
    let text = node.text(name)?;
    let mac = parse_mac(text);
    if mac.is_none() {
        node.findings().error(&node.at(name), format!("{text:?} is not a MAC address"));
    }
    let bytes = mac.unwrap_or_default().to_be_bytes();
    bytes[10..].try_into().ok()
}
