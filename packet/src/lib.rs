//! Frames as values: the settings, the plan made from them, and the bytes of each frame.
//!
//! [`Config`] has the settings in pktgen's terms, [`Plan`] the rules for all frames of a run, and
//! [`Cursor`] the state between two frames. [`Plan::emit`] writes the next frame. No I/O, no clock,
//! no kernel: time and the facts about a device are arguments, and all random values come from a
//! seed. [`general`] plans describe any frame by template, fields and checksums.
#![forbid(unsafe_code)]

pub mod checksum;
mod config;
mod cursor;
mod emit;
mod error;
mod flow_sa;
pub mod general;
pub mod headers;
pub mod ipsec;
mod mac;
mod plan;
mod rate;
mod rng;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod sign;
mod signature;
mod wire;

pub use config::{Config, DeviceFacts, Flags, ImixEntry, NEVER_NS, XmitMode};
pub use cursor::{Cursor, Flow, FrameState};
pub use error::PlanError;
pub use flow_sa::FlowAssociations;
pub use headers::HeaderFields;
pub use mac::{BadMac, MacAddr};
pub use plan::{FLOWS_MAX, IMIX_ENTRIES_MAX, Imix, Layout, MPLS_LABELS_MAX, MPLS_RANDOM, Plan, Range, Walk};
pub use rate::{Arrivals, PoissonProcess, Rate};
pub use rng::Rng;
pub use signature::{SignatureLevel, SignatureSetting};
pub use wire::{
    FRAME_LEN_MAX, FRAME_LEN_MIN, FrameClock, PKTGEN_HEADER_LEN, PKTGEN_MAGIC, PktgenHeader, WIRE_OVERHEAD,
    WallTime, wire_len,
};
