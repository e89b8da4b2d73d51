//! The machine around us: network namespaces, links, neighbours, routes, IPsec keys, CPUs, clocks.
//!
//! Everything here is synchronous, and nothing depends on which namespace the calling thread is in: a
//! [`Stack`] is opened for one namespace and can be used from any thread. What is done with the answers is the
//! business of the callers.
#![deny(unsafe_code)]

mod address;
#[expect(unsafe_code, reason = "two system calls that the C library has no function for")]
mod capability;
mod change;
mod clock;
mod cpu;
mod device;
mod error;
mod ethtool;
mod genl;
mod lab;
mod limits;
mod link;
mod link_events;
mod machine;
mod netlink;
mod netns;
mod phc;
mod process;
mod route;
#[cfg(feature = "sample")]
pub mod sample;
mod stack;
mod stamping;
#[expect(unsafe_code, reason = "the ioctls of drivers and a socket, and nothing else")]
mod sys;
mod sysfs;
mod xdp;
mod xfrm;

pub use address::Address;
pub use capability::{Capability, keep_capabilities};
pub use change::{NewRoute, VethEnd};
pub use clock::{ClockOffset, monotonic_ns, realtime_ns, uptime_us};
pub use cpu::{CpuList, node_of_cpu, pin_thread, process_cpu_time, thread_cpu_time};
pub use device::DeviceState;
pub use error::{HostError, KernelSays};
pub use ethtool::{
    Driver, FEATURE_GRO, FEATURE_GRO_HARDWARE, FEATURE_GSO, FEATURE_LRO, FEATURE_TSO, FEATURE_TX_CHECKSUM,
    Features, Queues, Timestamping,
};
pub use lab::{Lab, LabEnd, LabOptions};
pub use limits::{Pause, Ring, Rings};
pub use link::{AttachedXdp, Counters, Link, LinkLayer, Parent, Peer, XdpMode};
pub use link_events::LinkEvents;
pub use machine::{Machine, Right, Setting};
pub use netns::{Netns, NetnsId};
pub use packet::MacAddr;
pub use phc::{Phc, PhcRead, PhcReading, tai_offset_s};
pub use process::thread_has_right;
pub use route::{NextHop, Route};
pub use stack::{LinkId, Stack};
pub use stamping::{DeviceStamps, StampConfig, StampDriver, StampWish, Stamped, switch_stamps};
pub use sysfs::{Interrupt, Steering};
pub use xdp::XdpFeatures;
