//! Facts about the host and its interfaces, as arguments.

use packet::DeviceFacts;
use std::ops::RangeInclusive;

/// Facts about a device and its host for commands and read-outs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Addresses and queues.
    pub link: DeviceFacts,
    /// The device rejects `clone_skb` and `burst`. True for loopback only (docs/pktgen.md, row
    /// 8).
    pub forbids_shared_skb: bool,
    /// The kernel has IPsec; without it there is no command `spi` and no flag IPSEC.
    pub has_xfrm: bool,
    /// NUMA nodes that can exist, as in `/sys/devices/system/node/possible`.
    pub possible_nodes: Vec<RangeInclusive<u32>>,
}

impl Facts {
    /// True for a node that can exist on this host.
    pub(crate) fn has_node(&self, node: i32) -> bool {
        u32::try_from(node).is_ok_and(|node| self.possible_nodes.iter().any(|range| range.contains(&node)))
    }
}

impl Default for Facts {
    /// One queue, one node, IPsec, and nothing known of addresses.
    fn default() -> Self {
        Self {
            link: DeviceFacts { tx_queues: 1, ..DeviceFacts::default() },
            forbids_shared_skb: false,
            has_xfrm: true,
            possible_nodes: vec![0..=0],
        }
    }
}

/// Facts about an interface for `add_device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// It is set up (IFF_UP); carrier does not matter.
    pub is_up: bool,
    /// Its hardware type is Ethernet or loopback.
    pub is_ethernet_or_loopback: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_in_the_list() {
        let facts = Facts { possible_nodes: vec![0..=1, 4..=4], ..Facts::default() };
        let nodes: Vec<i32> = (-2..8).filter(|node| facts.has_node(*node)).collect();
        assert_eq!(nodes, [0, 1, 4]);
    }
}
