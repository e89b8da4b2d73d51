//! trafgen's packet language (netsniff-ng 0.6.8): text to frames with fields and checksums.
//!
//! [`parse()`] reads a configuration and returns one [`FrameSpec`] per packet: a template, the
//! fields that change from frame to frame, and the checksums that follow them. [`Expander`] yields
//! the frames of a list of packets. [`Packet`] is one as a value, with its text. `docs/frames.md`
//! describes the language.
#![forbid(unsafe_code)]

mod builder;
mod dns;
mod error;
mod expand;
mod expression;
mod functions;
mod header;
mod parse;
mod parts;
mod protocols;
mod scan;
mod value;

pub use builder::{DeviceAddresses, ParseSettings};
pub use error::ConfigError;
pub use expand::Expander;
pub use functions::{FUNCTIONS, Function};
pub use header::{Element, Header, Packet};
pub use packet::plan::{FrameSpec, PacketOrder};
pub use parse::{CaptureFrames, NoCaptures, parse};
pub use parts::{PARTS, PartKind, PartNumber};
pub use protocols::{Default, Id, Next, Numbers, PROTOCOLS, Protocol, ProtocolField, Sum, ValueKind, Word};
pub use value::{FIELD_FUNCTIONS, Motion, Value};

/// The longest frame that a packet may describe, in bytes without FCS.
pub const FRAME_BYTES_MAX: usize = 65_535;
