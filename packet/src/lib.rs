//! Frames as values: what a user asked for, the plan made of it, and the bytes of each frame.
//!
//! [`Config`] is what a user asked for, in the words of pktgen. [`Plan`] is what each frame will be. [`Cursor`]
//! is how far a run has come, and [`Plan::emit`] writes the next frame. No I/O, no clock, no kernel: time and
//! the facts about a device come in as arguments, and every random draw comes from a seed.
#![forbid(unsafe_code)]

pub mod checksum;
mod config;
mod cursor;
mod emit;
mod error;
mod flow_sa;
pub mod ipsec;
mod mac;
mod plan;
mod rng;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod wire;

pub use config::{Config, DeviceFacts, Flags, ImixEntry, NEVER_NS, XmitMode};
pub use cursor::{Built, Cursor, Flow};
pub use error::PlanError;
pub use flow_sa::FlowAssociations;
pub use mac::{BadMac, MacAddr};
pub use plan::{FLOWS_MAX, IMIX_ENTRIES_MAX, Imix, Layout, MPLS_LABELS_MAX, Plan, Range, Walk};
pub use rng::Rng;
pub use wire::{
    FRAME_LEN_MAX, FRAME_LEN_MIN, PKTGEN_HEADER_LEN, PKTGEN_MAGIC, Stamp, WIRE_OVERHEAD, WallTime, wire_len,
};
