//! Frames back from the wire: rings, writers, and where each frame went.
//!
//! An XDP program (room `bpf`) copies each frame into the ring of the CPU that received it; one thread for each
//! ring turns the records into pcapng blocks and writes them. [`Session`] is all of it from start to end, and
//! [`Stats`] accounts for every frame. Command text and terminals are unknown here.

#![deny(unsafe_code)]

mod clock;
mod counting;
mod cpus;
mod device;
mod encode;
mod error;
pub mod file_name;
mod limit;
pub mod merge;
mod options;
mod ring;
pub mod rotate;
mod session;
mod sink;
mod stats;
mod sys;
mod writer;

pub use bpf::xdp::{ModeWish, XdpMode};
pub use counting::{CountOptions, Counted, Counting, CpuCount};
pub use error::CaptureError;
pub use options::{
    Mode, Options, Output, RING_SLOTS_DEFAULT, RING_SLOTS_MAX, RING_SLOTS_MIN, SNAPLEN_DEFAULT, SNAPLEN_MAX,
};
pub use ring::{Batch, Record, Shape, TimeSource};
pub use session::{Report, Session, XdpFacts};
pub use stats::{Counts, CpuStats, Stats};
