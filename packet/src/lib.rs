//! Frames as values: what a user asked for, the plan made of it, and the bytes of each frame.
//!
//! [`Config`] is what a user asked for, in the words of pktgen. [`Plan`] is what each frame will be. [`Cursor`]
//! is how far a run has come, and [`Plan::emit`] writes the next frame. No I/O, no clock, no kernel: time and
//! the facts about a device come in as arguments, and every random draw comes from a seed.
#![forbid(unsafe_code)]

pub mod checksum;
mod config;
mod cursor;
mod mac;
mod rng;

pub use config::{Config, DeviceFacts, Flags, ImixEntry, NEVER_NS, XmitMode};
pub use cursor::{Cursor, Flow};
pub use mac::MacAddr;
pub use rng::Rng;
