//! ARP packets (RFC 826), also reverse ARP.

use super::bytes::view;

/// Bytes before the addresses.
pub const FIXED_LEN: usize = 8;

view!("an ARP packet", 8);

impl View<'_> {
    /// Lengths of a hardware address and of a protocol address.
    fn lens(&self) -> (usize, usize) {
        (usize::from(self.0[4]), usize::from(self.0[5]))
    }

    /// Bytes of the packet with its four addresses.
    pub fn packet_len(&self) -> usize {
        let (hardware, protocol) = self.lens();
        FIXED_LEN + 2 * (hardware + protocol)
    }

    /// Offsets of the MAC addresses of sender and target, if the hardware has such addresses.
    pub fn mac_places(&self) -> Option<[usize; 2]> {
        let (hardware, protocol) = self.lens();
        (hardware == 6).then_some([FIXED_LEN, FIXED_LEN + hardware + protocol])
    }

    /// Offsets of the IPv4 addresses of sender and target, if the protocol is IPv4.
    pub fn ip_places(&self) -> Option<[usize; 2]> {
        let (hardware, protocol) = self.lens();
        let is_ipv4 = self.half(2) == 0x0800 && protocol == 4;
        is_ipv4.then_some([FIXED_LEN + hardware, FIXED_LEN + 2 * hardware + protocol])
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { hardware: self.half(0), protocol: self.half(2), operation: self.half(6) }
    }
}

/// Fields of an ARP packet before its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of hardware: 1 is Ethernet.
    pub hardware: u16,
    /// EtherType of the protocol.
    pub protocol: u16,
    /// Operation: 1 is a request, 2 a reply.
    pub operation: u16,
}
