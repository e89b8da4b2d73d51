//! Why no plan can be made.

use crate::wire::FRAME_LEN_MAX;
use std::net::Ipv4Addr;

/// Settings that give no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum PlanError {
    /// Random destinations exclude every address of the range.
    #[error(
        "IPDST_RND: no address from {min} to {max} can be drawn \
         (0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4 and 255.255.255.255 are left out)"
    )]
    NoDestination { min: Ipv4Addr, max: Ipv4Addr },
    /// A frame longer than the length fields of its headers allow.
    #[error("pkt_size {frame_len} is too long: a frame has at most {FRAME_LEN_MAX} bytes")]
    TooLong { frame_len: u32 },
    /// More entries than a table holds.
    #[error("{what}: {value} is more than the {max} that fit")]
    TooMany { what: &'static str, value: usize, max: usize },
    /// A packet behind whose IPv4 header no IPsec header can stand.
    #[error(
        "IPSEC needs an IPv4 header without options behind Ethernet, VLAN tags or MPLS labels, and packet \
         {number} has none"
    )]
    NotProtectable { number: u32 },
    /// The kernel has no association for some of the frames.
    #[error("IPSEC: there is no security association {what}")]
    NoAssociation { what: String },
    /// The kernel has one that is not supported here.
    #[error("IPSEC: the security association {what} cannot be used: {why}")]
    UnusableAssociation { what: String, why: String },
}
