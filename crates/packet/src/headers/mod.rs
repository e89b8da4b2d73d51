//! Headers of frames: one module per protocol, the walk over all of them, their addresses and
//! checksums.
//!
//! Each protocol has `View`, the bytes of a header, and `Fields`, its fields as a value. [`Walk`]
//! goes through the headers of a frame, [`for_each_address`] gives their addresses and
//! [`SumFinder`] their checksums. [`HeaderFields`] are the fields of the outermost headers, for
//! tables.

mod addresses;
pub mod ah;
pub mod arp;
mod bytes;
pub mod cooked;
pub mod erspan;
pub mod esp;
pub mod ethernet;
pub mod extension;
mod fields;
pub mod fragment;
pub mod geneve;
pub mod gre;
pub mod group_message;
pub mod gtpu;
mod header;
pub mod icmp;
pub mod icmpv6;
mod ip_packet;
pub mod ipv4;
pub mod ipv6;
pub mod llc;
pub mod mobility;
pub mod mpls;
pub mod nd_option;
pub mod pppoe;
pub mod routing;
pub mod sctp;
mod sums;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;
mod walk;

pub use addresses::{AddressKind, AddressPlace, AddressRole, for_each_address, port_places};
pub use fields::{HeaderFields, has_ports};
pub use header::{EndCause, FirstHeader, Header, Protocol, WalkEnd};
pub use ip_packet::ip_packet_at;
pub use sums::{NoSum, PseudoPlaces, SumFinder, SumPlace, SumProtocol, is_plain_and_right};
pub use walk::Walk;
