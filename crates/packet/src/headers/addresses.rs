//! All addresses of a header: where each is, and whether it is that of a source or a destination.

use super::bytes::half;
use super::header::{EndCause, Header, Protocol, WalkEnd};
use super::{arp, cooked, extension, group_message, icmp, icmpv6, ipv4, ipv6, nd_option, routing};

/// Kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// MAC address.
    Mac,
    /// IPv4 address.
    V4,
    /// IPv6 address, or the first bytes of one.
    V6,
}

/// What an address is to its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRole {
    /// Source of a header, or sender of ARP.
    Source,
    /// Destination of a header, or target of ARP.
    Destination,
    /// Target of a neighbour solicitation.
    SolicitedTarget,
    /// Any other: gateways, routes, targets, groups, prefixes, servers.
    Other,
}

/// One address in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPlace {
    /// Offset in the frame.
    pub at: usize,
    /// Bytes: 6, 4 or 16; fewer of a route that has only the first bytes of its prefix.
    pub len: usize,
    /// Its kind.
    pub kind: AddressKind,
    /// Its role.
    pub role: AddressRole,
}

/// Calls `found` with each address of `header`, all of whose bytes are in `frame`. Returns the
/// first byte from which on there may be addresses that could not be found, and the reason.
pub fn for_each_address(
    frame: &[u8],
    header: &Header,
    found: &mut impl FnMut(AddressPlace),
) -> Option<WalkEnd> {
    let (bytes, mut hidden_at) = (header.bytes(frame), None);
    let unread_at = addresses(bytes, header, &mut |at: usize, len: usize, kind, role| {
        if at + len <= bytes.len() {
            found(AddressPlace { at: header.at + at, len, kind, role });
        } else {
            hidden_at = hidden_at.or(Some(at));
        }
    });
    let at = header.at + hidden_at.or(unread_at)?.min(bytes.len());
    let cause = match header.protocol {
        Protocol::Routing => EndCause::Unknown,
        _ if header.is_whole() && header.at + header.len <= header.visible_end => EndCause::Malformed,
        _ => EndCause::Cut,
    };
    Some(WalkEnd { at, cause })
}

/// Calls `place` with offset, length, kind and role of each address of a header. Returns the offset
/// of the first part whose addresses have no places.
fn addresses(
    bytes: &[u8],
    header: &Header,
    place: &mut impl FnMut(usize, usize, AddressKind, AddressRole),
) -> Option<usize> {
    use AddressKind::{Mac, V4, V6};
    use AddressRole::{Destination, Other, SolicitedTarget, Source};
    match header.protocol {
        Protocol::Ethernet => {
            place(0, 6, Mac, Destination);
            place(6, 6, Mac, Source);
        }
        Protocol::Sll | Protocol::Sll2 => {
            let view = cooked::View::new(bytes, header.protocol == Protocol::Sll2);
            if let Some(at) = view.and_then(|view| view.mac_at()) {
                place(at, 6, Mac, Source);
            }
        }
        Protocol::Arp => {
            let view = arp::View::new(bytes)?;
            for (places, len, kind) in [(view.mac_places(), 6, Mac), (view.ip_places(), 4, V4)] {
                if let Some([sender, target]) = places {
                    place(sender, len, kind, Source);
                    place(target, len, kind, Destination);
                }
            }
        }
        Protocol::Ipv4 => {
            place(ipv4::SRC_AT, 4, V4, Source);
            place(ipv4::DST_AT, 4, V4, Destination);
            if header.len > ipv4::LEN_MIN
                && let Some(view) = ipv4::View::new(bytes)
            {
                for list in view.address_lists() {
                    (0..list.count).for_each(|entry| place(list.at + entry * list.step, 4, V4, Other));
                }
                return view.unread_option_at();
            }
        }
        Protocol::Ipv6 => {
            place(ipv6::SRC_AT, 16, V6, Source);
            place(ipv6::DST_AT, 16, V6, Destination);
        }
        Protocol::Routing => {
            let view = routing::View::new(bytes)?;
            (0..view.address_count()).for_each(|entry| place(8 + entry * 16, 16, V6, Other));
            return view.hides_addresses().then_some(8);
        }
        Protocol::DestinationOptions => {
            if let Some(at) = extension::View::new(bytes).and_then(|view| view.home_address_at()) {
                place(at, 16, V6, Other);
            }
        }
        Protocol::Icmp => match bytes.first() {
            Some(&icmp::REDIRECT) => place(4, 4, V4, Other),
            Some(&icmp::ROUTER_ADVERTISEMENT) if bytes.len() >= icmp::LEN => {
                let (count, step) = (usize::from(bytes[4]), usize::from(bytes[5]) * 4);
                if step >= 4 {
                    (0..count).for_each(|entry| place(8 + entry * step, 4, V4, Other));
                }
            }
            _ => {}
        },
        Protocol::Icmpv6 => {
            return icmpv6_addresses(bytes, &mut |at, len, kind, is_solicited| {
                place(at, len, kind, if is_solicited { SolicitedTarget } else { Other });
            });
        }
        Protocol::Igmp => {
            group_message::View::new(bytes, 4).igmp_addresses(|at| place(at, 4, V4, Other));
        }
        _ => {}
    }
    None
}

/// Calls `place` with offset, length and kind of each address of an ICMPv6 message, and whether it
/// is the target of a solicitation. Returns the offset of an option of which bytes are missing.
fn icmpv6_addresses(bytes: &[u8], place: &mut impl FnMut(usize, usize, AddressKind, bool)) -> Option<usize> {
    use AddressKind::{Mac, V6};
    let view = icmpv6::View::new(bytes)?;
    match view.kind() {
        icmpv6::NEIGHBOUR_SOLICITATION => place(8, 16, V6, true),
        icmpv6::NEIGHBOUR_ADVERTISEMENT => place(8, 16, V6, false),
        icmpv6::REDIRECT => {
            place(8, 16, V6, false);
            place(24, 16, V6, false);
        }
        icmpv6::LISTENER_QUERY if bytes.len() >= 28 => {
            group_message::View::new(bytes, 16).query(8, |at| place(at, 16, V6, false));
        }
        icmpv6::LISTENER_QUERY | icmpv6::LISTENER_REPORT | icmpv6::LISTENER_DONE => place(8, 16, V6, false),
        icmpv6::LISTENER_REPORT_V2 => {
            group_message::View::new(bytes, 16).report(|at| place(at, 16, V6, false));
        }
        _ => {}
    }
    let options_at = view.options_at()?;
    let mut end = options_at;
    for option in nd_option::View::new(bytes.get(options_at..).unwrap_or_default()).fields() {
        let (at, len) = (options_at + option.place.start, option.place.len());
        end = at + len;
        match option.kind {
            nd_option::SOURCE_LINK | nd_option::TARGET_LINK if len == 8 => place(at + 2, 6, Mac, false),
            nd_option::PREFIX if len == 32 => place(at + 16, 16, V6, false),
            nd_option::ROUTE if len > 8 => place(at + 8, (len - 8).min(16), V6, false),
            nd_option::DNS_SERVERS => {
                (0..(len - 8) / 16).for_each(|entry| place(at + 8 + entry * 16, 16, V6, false));
            }
            _ => {}
        }
    }
    (end < bytes.len()).then_some(end)
}

/// The ports of a transport header as offsets in the frame, as far as they are there.
pub fn port_places(frame: &[u8], header: &Header) -> Option<[usize; 2]> {
    let is_there = |at: usize| half(header.bytes(frame), at).is_some();
    (header.protocol.has_ports() && is_there(2)).then_some([header.at, header.at + 2])
}
