//! The BPF programs, the words they share with Rust, and how they are loaded and attached.
//!
//! `src/bpf/*.bpf.c` are compiled by `build.rs`; `src/bpf/shared.h` and `abi` are the two sides of one page.
//! This room knows programs, maps and links. What a record or a counter means to a person is not its business.

#![deny(unsafe_code)]

pub mod abi;
pub mod capture;
mod error;
mod filter;
pub mod log;
mod meter;
mod opener;
mod send;
mod shared;
mod sink;
mod skb;
pub mod skel;
mod state;
pub mod sys;
mod written;
pub mod xdp;

pub use error::BpfError;
pub use meter::{Claim, Meter, Verdict};
pub use opener::Opener;
pub use send::{Attachable, Sender};
pub use sink::{Sink, SinkCount, SinkVerdict};
pub use skb::{Said, SkbHow, SkbSender};
pub use state::State;
pub use written::{Handed, WrittenSender};
