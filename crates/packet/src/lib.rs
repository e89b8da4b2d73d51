//! Frames as values: the settings, the plan made from them, and the bytes of each frame.
//!
//! A [`Plan`] has the rules for all frames of a run: templates, fields, checksums and lengths. It
//! is made of [`plan::FrameSpec`]s, or of a [`Config`] in pktgen's terms. [`Cursor`] is the state
//! between two frames. [`Plan::emit`] writes the next frame. No I/O, no clock, no kernel: time and
//! the facts about a device are arguments, and all random values come from a seed.
#![forbid(unsafe_code)]

pub mod checksum;
mod cursor;
mod error;
mod flow_sa;
pub mod headers;
pub mod ipsec;
mod mac;
mod mixes;
mod pktgen;
pub mod plan;
mod rate;
mod rng;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod wire;

pub use cursor::{Cursor, Flow, Slot};
pub use error::PlanError;
pub use flow_sa::FlowAssociations;
pub use headers::{HeaderFields, has_ports};
pub use mac::{BadMac, MacAddr};
pub use mixes::MIXES;
pub use pktgen::{
    Config, DeviceFacts, FLOWS_MAX, Flags, IMIX_ENTRIES_MAX, ImixEntry, Layout, MPLS_LABELS_MAX, MPLS_RANDOM,
    NEVER_NS, SignatureLevel, SignatureSetting, XmitMode,
};
pub use plan::{Plan, Range, Walk};
pub use rate::{Arrivals, PoissonProcess, Rate};
pub use rng::Rng;
pub use wire::{
    FCS_LEN, FRAME_LEN_MAX, FRAME_LEN_MIN, FrameClock, PKTGEN_HEADER_LEN, PKTGEN_MAGIC, PktgenHeader,
    WIRE_OVERHEAD, WallTime, wire_len,
};
