//! Multicast groups: the MAC address of a group, and the group of a solicited address.

/// The MAC address of an IP group (RFC 1112, RFC 2464); nothing for other addresses.
pub(crate) fn mac_of_group(address: &[u8]) -> Option<[u8; 6]> {
    match *address {
        [a, b, c, d] if a >> 4 == 0xe => Some([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
        [0xff, .., a, b, c, d] if address.len() == 16 => Some([0x33, 0x33, a, b, c, d]),
        _ => None,
    }
}

/// The group that is asked for the MAC address of an IPv6 address (RFC 4291, 2.7.1).
pub(crate) fn solicited_group(address: &[u8; 16]) -> [u8; 16] {
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&address[13..]);
    group
}

/// An IP header to a group, behind an Ethernet header of the same depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupDestination {
    /// Offset of the Ethernet header.
    pub(crate) ethernet_at: usize,
    /// Offset of the destination address, and its bytes before all edits.
    pub(crate) dst_at: usize,
    pub(crate) len: usize,
    pub(crate) before: [u8; 16],
}

impl GroupDestination {
    pub(crate) fn before(&self) -> &[u8] {
        &self.before[..self.len]
    }

    /// The new MAC address of the frame, if it was that of the group and the group has changed to
    /// another one.
    pub(crate) fn new_mac(&self, frame: &[u8]) -> Option<[u8; 6]> {
        let after = frame.get(self.dst_at..self.dst_at + self.len)?;
        let (old, new) = (mac_of_group(self.before())?, mac_of_group(after)?);
        let mac = frame.get(self.ethernet_at..)?.first_chunk::<6>()?;
        (after != self.before() && *mac == old).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn groups_have_mac_addresses() {
        assert_eq!(mac_of_group(&[239, 129, 2, 3]), Some([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(mac_of_group(&[192, 0, 2, 1]), None);
        let address = "2001:db8::1234:5678".parse::<Ipv6Addr>().unwrap().octets();
        let group = solicited_group(&address);
        assert_eq!(Ipv6Addr::from(group).to_string(), "ff02::1:ff34:5678");
        assert_eq!(mac_of_group(&group), Some([0x33, 0x33, 0xff, 0x34, 0x56, 0x78]));
        assert_eq!(mac_of_group(&address), None);
    }
}
