//! Where the IP packet of a frame begins, for devices that send packets without a link header.

use super::{FirstHeader, Protocol, Walk};

/// Headers that only have a meaning on a link.
const LINK_HEADERS: [Protocol; 7] = [
    Protocol::Ethernet,
    Protocol::Sll,
    Protocol::Sll2,
    Protocol::Llc,
    Protocol::Vlan,
    Protocol::Mpls,
    Protocol::Pppoe,
];

/// The offset of the IP packet of a frame that begins with this header, behind link headers, VLAN
/// tags, MPLS labels and PPPoE headers; `None` if no IP packet follows them.
pub fn ip_packet_at(frame: &[u8], first: FirstHeader) -> Option<usize> {
    let packet = Walk::new(frame, first).find(|header| !LINK_HEADERS.contains(&header.protocol))?;
    packet.protocol.is_ip().then_some(packet.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_labels_are_in_front_of_the_packet() {
        let frame = |head: &[u8]| [&[2; 12][..], head, &[0x45], &[0; 19]].concat();
        let at = |head: &[u8]| ip_packet_at(&frame(head), FirstHeader::Ethernet);
        assert_eq!(at(&[8, 0]), Some(14));
        assert_eq!(at(&[0x81, 0, 0, 7, 8, 0]), Some(18));
        assert_eq!(at(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 0x88, 0x47, 0, 1, 0x01, 9]), Some(26));
        assert_eq!(at(&[8, 6]), None);
    }
}
