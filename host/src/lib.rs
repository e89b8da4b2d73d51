//! The machine around us: network namespaces, links, neighbours, routes, IPsec keys, CPUs, clocks.
//!
//! Everything here is synchronous, and nothing depends on which namespace the calling thread is in: a
//! [`Stack`] is opened for one namespace and can be used from any thread. What is done with the answers is the
//! business of the callers.
#![deny(unsafe_code)]

mod address;
mod change;
mod clock;
mod cpu;
mod error;
mod ethtool;
mod genl;
mod lab;
mod link;
mod netlink;
mod netns;
mod route;
mod stack;
mod stamping;
#[expect(unsafe_code, reason = "the ioctls of drivers, and nothing else")]
mod sys;
mod watch;
mod xdp;
mod xfrm;

pub use address::Address;
pub use change::{NewRoute, VethEnd};
pub use clock::{ClockOffset, monotonic_ns, realtime_ns, uptime_us};
pub use cpu::{CpuList, node_of_cpu, pin_thread, process_cpu_time, thread_cpu_time};
pub use error::{HostError, KernelSays};
pub use ethtool::{
    Driver, FEATURE_GRO, FEATURE_GSO, FEATURE_TSO, FEATURE_TX_CHECKSUM, Features, Queues, Timestamping,
};
pub use lab::{Lab, LabEnd, LabOptions};
pub use link::{AttachedXdp, Counters, Link, LinkLayer, Parent, Peer, XdpMode};
pub use netns::{Netns, NetnsId};
pub use packet::MacAddr;
pub use route::{NextHop, Route};
pub use stack::{LinkId, Stack};
pub use stamping::{DeviceStamps, StampConfig, StampDriver, StampWish, Stamped, switch_stamps};
pub use watch::{LinkChange, LinkEvent, LinkWatch, WatchStop, Watched};
pub use xdp::XdpFeatures;
