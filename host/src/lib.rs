//! The machine around us: network namespaces, links, neighbours, routes, CPUs, clocks.
//!
//! Everything here is synchronous, and nothing depends on which namespace the calling thread is in: a
//! [`Stack`] is opened for one namespace and can be used from any thread. What is done with the answers is the
//! business of the callers.
#![deny(unsafe_code)]

mod change;
mod error;
mod link;
mod netlink;
mod netns;
mod stack;

pub use change::{NewRoute, VethEnd};
pub use error::{HostError, KernelSays};
pub use link::{AttachedXdp, Counters, Link, LinkLayer, Parent, Peer, XdpMode};
pub use netns::{Netns, NetnsId};
pub use packet::MacAddr;
pub use stack::{LinkId, Stack};
