//! The machine: network namespaces, links, neighbours, routes, IPsec associations, CPUs, clocks.
//!
//! Everything is synchronous and independent of the namespace of the calling thread: a [`Stack`] is
//! opened for one namespace and can be used from any thread.
#![deny(unsafe_code)]

mod address;
#[expect(unsafe_code, reason = "two system calls that the C library has no function for")]
mod capability;
mod clock;
mod command_place;
mod cpu;
mod device;
mod device_place;
mod error;
mod ethtool;
mod genl;
mod hwtstamp;
mod irq;
mod link;
mod link_events;
#[expect(unsafe_code, reason = "the C library knows the time zone")]
mod local_time;
mod machine;
mod netlink;
mod netns;
mod own_process;
#[expect(unsafe_code, reason = "socket options and the mapping of a ring")]
mod packet_socket;
mod phc;
#[expect(unsafe_code, reason = "a system call that the C library has no safe function for")]
mod priority;
mod process;
mod received_ip;
mod resolution_socket;
mod ring_params;
mod route;
mod rtnl_write;
#[cfg(feature = "sample")]
pub mod sample;
mod stack;
mod stamp_config;
mod start_time;
#[expect(unsafe_code, reason = "the ioctls of drivers and a socket, and nothing else")]
mod sys;
mod veth_lab;
mod xdp;
mod xfrm;

pub use address::Address;
pub use capability::{Capability, keep_capabilities};
pub use clock::{ClockOffset, monotonic_ns, realtime_ns};
pub use command_place::CommandPlace;
pub use cpu::{CpuList, CpuUse, node_of_cpu, pin_thread, process_cpu_time, thread_cpu_time, unpin_thread};
pub use device::DeviceState;
pub use device_place::DevicePlace;
pub use error::{HostError, KernelError};
pub use ethtool::{
    Driver, FEATURE_GRO, FEATURE_GRO_HARDWARE, FEATURE_LRO, FEATURE_TSO, Features, QueueUse, Timestamping,
};
pub use hwtstamp::{DeviceStamps, StampDriver, StampMode, Stamped, switch_stamps};
pub use irq::{Interrupt, Steering};
pub use link::{AttachedXdp, AttachedXdpMode, Link, LinkCounters, LinkLayer, Parent, Peer};
pub use link_events::LinkEvents;
pub use local_time::local_utc_offset_s;
pub use machine::{CpuTicks, Machine, Right, Setting, machine_name};
pub use netns::{Netns, NetnsId};
pub use own_process::OwnProcess;
pub use packet::MacAddr;
pub use packet_socket::{PacketSocket, RingMemory};
pub use phc::{Phc, PhcRead, PhcReading, tai_offset_s};
pub use priority::raise_priority;
pub use process::thread_has_right;
pub use received_ip::{AddressCheck, ReceivedIp};
pub use resolution_socket::ResolutionSocket;
pub use ring_params::{FlowControl, RingSize, Rings};
pub use route::NextHop;
pub use rtnl_write::VethEnd;
pub use stack::{LinkId, Stack};
pub use stamp_config::StampConfig;
pub use start_time::{ClockQuality, StartTime, clock_daemon};
pub use sys::{is_signal_ignored, share_one_arena};
pub use veth_lab::{Lab, LabEnd, LabOptions};
pub use xdp::XdpFeatures;
