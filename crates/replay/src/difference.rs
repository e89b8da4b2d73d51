//! How a frame that arrived differs from the one that was sent: by field, and with fields that are
//! left out of the comparison.

use packet::headers::{FirstHeader, Header, Protocol, SumFinder, SumProtocol, Walk};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Fields that a router or a NAT changes, and that do not count as differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFields {
    /// Time to live and hop limit of the outermost IP header.
    pub ttl: bool,
    /// MAC addresses of the outermost Ethernet header.
    pub mac: bool,
    /// All checksums of headers.
    pub checksum: bool,
}

impl IgnoredFields {
    /// True if all fields count.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Writes zeros over the fields of an Ethernet frame.
    pub fn clear(&self, frame: &mut [u8]) {
        let (mut finder, mut has_ip) = (SumFinder::default(), false);
        // Nothing that the walk reads is cleared.
        let mut places: [Option<Range<usize>>; 2] = [None, None];
        let mut sums = Vec::new();
        for header in Walk::new(frame, FirstHeader::Ethernet) {
            if let Some(sum) = finder.see(frame, &header) {
                let len = if sum.protocol == SumProtocol::Sctp { 4 } else { 2 };
                sums.push(sum.at..sum.at + len);
            }
            match header.protocol {
                Protocol::Ethernet if header.depth == 0 => places[0] = Some(header.at..header.at + 12),
                Protocol::Ipv4 if !has_ip => {
                    (places[1], has_ip) = (Some(header.at + 8..header.at + 9), true);
                }
                Protocol::Ipv6 if !has_ip => {
                    (places[1], has_ip) = (Some(header.at + 7..header.at + 8), true);
                }
                _ => {}
            }
        }
        let [mac, ttl] = places;
        let mac = mac.filter(|_| self.mac);
        let ttl = ttl.filter(|_| self.ttl);
        let sums = sums.into_iter().filter(|_| self.checksum);
        for place in mac.into_iter().chain(ttl).chain(sums) {
            if let Some(bytes) = frame.get_mut(place) {
                bytes.fill(0);
            }
        }
    }
}

/// A field of a header: its name, its place, and how it is written.
type Field = (&'static str, Range<usize>, FieldForm);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldForm {
    Number,
    Hex,
    Mac,
    Address,
}

use FieldForm::{Address, Hex, Mac, Number};

const ETHERNET: &[Field] =
    &[("destination MAC", 0..6, Mac), ("source MAC", 6..12, Mac), ("EtherType", 12..14, Hex)];
const VLAN: &[Field] = &[("VLAN tag", 0..2, Hex), ("EtherType", 2..4, Hex)];
const IPV4: &[Field] = &[
    ("header length", 0..1, Hex),
    ("tos", 1..2, Number),
    ("total length", 2..4, Number),
    ("identification", 4..6, Number),
    ("fragment field", 6..8, Hex),
    ("ttl", 8..9, Number),
    ("protocol", 9..10, Number),
    ("IPv4 checksum", 10..12, Hex),
    ("source", 12..16, Address),
    ("destination", 16..20, Address),
];
const IPV6: &[Field] = &[
    ("traffic class and flow label", 0..4, Hex),
    ("payload length", 4..6, Number),
    ("next header", 6..7, Number),
    ("hop limit", 7..8, Number),
    ("source", 8..24, Address),
    ("destination", 24..40, Address),
];
const UDP: &[Field] = &[
    ("source port", 0..2, Number),
    ("destination port", 2..4, Number),
    ("UDP length", 4..6, Number),
    ("UDP checksum", 6..8, Hex),
];
const TCP: &[Field] = &[
    ("source port", 0..2, Number),
    ("destination port", 2..4, Number),
    ("sequence number", 4..8, Number),
    ("acknowledgement number", 8..12, Number),
    ("TCP flags", 12..14, Hex),
    ("window", 14..16, Number),
    ("TCP checksum", 16..18, Hex),
    ("urgent pointer", 18..20, Number),
];
const ICMP: &[Field] =
    &[("ICMP type", 0..1, Number), ("ICMP code", 1..2, Number), ("ICMP checksum", 2..4, Hex)];

fn fields_of(header: &Header) -> &'static [Field] {
    match header.protocol {
        Protocol::Ethernet => ETHERNET,
        Protocol::Vlan => VLAN,
        Protocol::Ipv4 => IPV4,
        Protocol::Ipv6 => IPV6,
        Protocol::Udp => UDP,
        Protocol::Tcp => TCP,
        Protocol::Icmp | Protocol::Icmpv6 => ICMP,
        _ => &[],
    }
}

/// The fields in which two Ethernet frames of one length differ, such as `ttl 64 became 63`; the
/// first other byte where no field has a name. Nothing if they are alike.
pub fn difference(sent: &[u8], received: &[u8]) -> Option<String> {
    let mut named = vec![false; sent.len()];
    let mut texts = Vec::new();
    for header in Walk::new(sent, FirstHeader::Ethernet) {
        for (name, place, form) in fields_of(&header) {
            let place = header.at + place.start..header.at + place.end;
            let (Some(old), Some(new)) = (sent.get(place.clone()), received.get(place.clone())) else {
                break;
            };
            named[place].fill(true);
            if old != new {
                texts.push(format!("{name} {} became {}", written(old, *form), written(new, *form)));
            }
        }
    }
    let is_other = |at: &usize| !named[*at] && sent[*at] != received[*at];
    if let Some(at) = (0..sent.len().min(received.len())).find(is_other) {
        texts.push(format!("byte {at} {:#04x} became {:#04x}", sent[at], received[at]));
    }
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn written(bytes: &[u8], form: FieldForm) -> String {
    let number = || bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match (form, bytes) {
        (Number, _) => number().to_string(),
        (Address, [a, b, c, d]) => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        (Address, _) => bytes
            .first_chunk()
            .map(|v6: &[u8; 16]| Ipv6Addr::from(*v6))
            .unwrap_or(Ipv6Addr::UNSPECIFIED)
            .to_string(),
        (Mac, _) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        (Hex, _) => format!("{:#0width$x}", number(), width = bytes.len() * 2 + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(ttl: u8, macs: [u8; 6]) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(macs, [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], ttl);
        builder.udp(5, 6).write(&mut frame, &[7; 20]).unwrap();
        frame
    }

    #[test]
    fn differences_are_named_by_field() {
        let (sent, mut received) = (frame(64, [2; 6]), frame(63, [2; 6]));
        assert_eq!(difference(&sent, &sent), None);
        let checksums = [&sent, &received].map(|frame| u16::from_be_bytes([frame[24], frame[25]]));
        let ttl =
            format!("ttl 64 became 63, IPv4 checksum {:#06x} became {:#06x}", checksums[0], checksums[1]);
        assert_eq!(difference(&sent, &received), Some(ttl.clone()));
        received[50] = 9;
        assert_eq!(difference(&sent, &received), Some(format!("{ttl}, byte 50 0x07 became 0x09")));
    }

    #[test]
    fn what_a_router_changes_can_be_left_out() {
        let cleared = |ignored: IgnoredFields, mut frame: Vec<u8>| {
            ignored.clear(&mut frame);
            frame
        };
        let all = IgnoredFields { ttl: true, mac: true, checksum: true };
        assert_eq!(cleared(all, frame(64, [2; 6])), cleared(all, frame(63, [8; 6])));
        for ignored in [
            IgnoredFields { ttl: false, ..all },
            IgnoredFields { mac: false, ..all },
            IgnoredFields { checksum: false, ..all },
        ] {
            assert_ne!(cleared(ignored, frame(64, [2; 6])), cleared(ignored, frame(63, [8; 6])));
        }
        assert!(IgnoredFields::default().is_none());
    }
}
