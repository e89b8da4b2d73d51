//! All addresses of a header: where each is, and whether it is that of a source or a destination.

use super::bytes::half;
use super::header::{EndCause, Header, Protocol, WalkEnd};
use super::{arp, cooked, extension, group_message, icmp, icmpv6, ipv4, ipv6, mobility, nd_option, routing};

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
    let unread = addresses(bytes, header, &mut |at: usize, len: usize, kind, role| {
        if at + len <= bytes.len() {
            found(AddressPlace { at: header.at + at, len, kind, role });
        } else {
            hidden_at = hidden_at.or(Some(at));
        }
    });
    let (at, cause) = hidden_at.map(|at| (at, EndCause::Cut)).or(unread)?;
    let is_there = header.is_whole() && header.at + header.len <= header.visible_end;
    let cause = if cause == EndCause::Cut && is_there { EndCause::Malformed } else { cause };
    let is_arp = header.protocol == Protocol::Arp;
    Some(WalkEnd { at: header.at + at.min(bytes.len()), cause, is_quoted: header.is_quoted, is_arp })
}

/// Calls `place` with offset, length, kind and role of each address of a header. Returns the offset
/// of the first part whose addresses have no places, and why.
fn addresses(
    bytes: &[u8],
    header: &Header,
    place: &mut impl FnMut(usize, usize, AddressKind, AddressRole),
) -> Option<(usize, EndCause)> {
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
                return Some((view.unread_option_at()?, EndCause::Cut));
            }
        }
        Protocol::Ipv6 => {
            place(ipv6::SRC_AT, 16, V6, Source);
            place(ipv6::DST_AT, 16, V6, Destination);
        }
        Protocol::Routing => {
            let view = routing::View::new(bytes)?;
            (0..view.address_count()).for_each(|entry| place(8 + entry * 16, 16, V6, Other));
            return view.hides_addresses().then_some((8, EndCause::Unknown));
        }
        Protocol::DestinationOptions => {
            if let Some(at) = extension::View::new(bytes).and_then(|view| view.home_address_at()) {
                place(at, 16, V6, Other);
            }
        }
        Protocol::Mobility => {
            let unread_at = mobility::View::new(bytes)?.addresses(|at| place(at, 16, V6, Other));
            return Some((unread_at?, EndCause::Unknown));
        }
        Protocol::Icmp => match bytes.first() {
            Some(&icmp::REDIRECT) => place(4, 4, V4, Other),
            Some(&icmp::ROUTER_ADVERTISEMENT) if bytes.len() >= icmp::LEN => {
                let (count, step) = (usize::from(bytes[4]), usize::from(bytes[5]) * 4);
                if step >= 4 {
                    (0..count).for_each(|entry| place(8 + entry * step, 4, V4, Other));
                }
            }
            _ => return unread_object(bytes, icmp::View::new(bytes)?.extensions_at()?),
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

/// The first object with an address among the extensions at `at` of an ICMP message: addresses in
/// objects have no places.
fn unread_object(message: &[u8], at: usize) -> Option<(usize, EndCause)> {
    Some((icmp::object_with_address_at(message, at)?, EndCause::Unknown))
}

/// Calls `place` with offset, length and kind of each address of an ICMPv6 message, and whether it
/// is the target of a solicitation. Returns the offset of a part whose addresses have no places,
/// and why.
fn icmpv6_addresses(
    bytes: &[u8],
    place: &mut impl FnMut(usize, usize, AddressKind, bool),
) -> Option<(usize, EndCause)> {
    use AddressKind::{Mac, V4, V6};
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
        icmpv6::NODE_QUERY => match bytes[1] {
            0 => place(16, 16, V6, false),
            2 => place(16, 4, V4, false),
            _ => {}
        },
        icmpv6::NODE_REPLY => {
            // Each address is behind its time to live.
            let (len, kind) = match (bytes[1], bytes[5]) {
                (0, 3) => (16, V6),
                (0, 4) => (4, V4),
                _ => return None,
            };
            (20..bytes.len()).step_by(4 + len).for_each(|at| place(at, len, kind, false));
        }
        icmpv6::HOME_AGENTS => (8..bytes.len()).step_by(16).for_each(|at| place(at, 16, V6, false)),
        icmpv6::DUPLICATE_REQUEST | icmpv6::DUPLICATE_CONFIRMATION => place(16, 16, V6, false),
        icmpv6::RENUMBERING | icmpv6::FAST_HANDOVER | icmpv6::RPL => return Some((8, EndCause::Unknown)),
        _ => {}
    }
    if let Some(at) = view.extensions_at() {
        return unread_object(bytes, at);
    }
    let options_at = view.options_at()?;
    let (mut end, mut unread) = (options_at, None);
    for option in nd_option::View::new(bytes.get(options_at..).unwrap_or_default()).fields() {
        let (at, len) = (options_at + option.place.start, option.place.len());
        end = at + len;
        match option.kind {
            nd_option::SOURCE_LINK | nd_option::TARGET_LINK if len == 8 => place(at + 2, 6, Mac, false),
            nd_option::PREFIX if len == 32 => place(at + 16, 16, V6, false),
            nd_option::ROUTE if len > 8 => place(at + 8, (len - 8).min(16), V6, false),
            nd_option::CONTEXT if len > 8 => place(at + 8, (len - 8).min(16), V6, false),
            nd_option::HANDOVER_ADDRESS | nd_option::BORDER_ROUTER if len == 24 => {
                place(at + 8, 16, V6, false);
            }
            nd_option::NAT64_PREFIX if len == 16 => place(at + 4, 12, V6, false),
            nd_option::DNS_SERVERS | nd_option::SOURCE_ADDRESSES | nd_option::TARGET_ADDRESSES => {
                (0..(len - 8) / 16).for_each(|entry| place(at + 8 + entry * 16, 16, V6, false));
            }
            nd_option::ENCRYPTED_DNS => unread = unread.or(Some((at, EndCause::Unknown))),
            _ => {}
        }
    }
    unread.or((end < bytes.len()).then_some((end, EndCause::Cut)))
}

/// The ports of a transport header as offsets in the frame, as far as they are there.
pub fn port_places(frame: &[u8], header: &Header) -> Option<[usize; 2]> {
    let is_there = |at: usize| half(header.bytes(frame), at).is_some();
    (header.protocol.has_ports() && is_there(2)).then_some([header.at, header.at + 2])
}
