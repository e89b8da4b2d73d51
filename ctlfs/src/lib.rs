//! The control tree over FUSE: a write becomes a command.
//!
//! [`Tree`] is the seam: names, texts, and writes that may take as long as a run. [`mount()`] puts a tree on a
//! directory and makes it behave as pktgen's procfs directory does. [`exec::run`] gives one command and its
//! children that tree at the real `/proc/net/pktgen`; [`serve::run`] keeps it on a directory for everyone.
//! What a frame looks like and which engine sends it is none of this room's business.
#![deny(unsafe_code)]

pub mod control;
mod dev;
pub mod exec;
mod fs;
mod handle;
mod join;
mod mount;
mod nodes;
pub mod notify;
mod offsets;
mod private;
mod programs;
pub mod serve;
mod signals;
pub mod slots;
#[allow(unsafe_code, reason = "the one place of this room that calls the kernel directly")]
mod sys;
mod tree;
mod trees;

pub use join::join;
pub use mount::{MountError, Mounted, Shape, mount};
pub use tree::{Cancel, Errno, Tree};
