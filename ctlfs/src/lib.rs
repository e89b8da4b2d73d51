//! The control tree over FUSE: a write becomes a command.
//!
//! [`Tree`] is the seam: names, texts, and writes that may take as long as a run. [`mount()`] puts
//! a tree on a directory and makes it behave as pktgen's procfs directory does. [`exec::run`] gives
//! one command and its children that tree at the real `/proc/net/pktgen`; [`serve::run`] keeps it
//! on a directory for everyone. This crate knows neither the bytes of a frame nor the engine that
//! sends it.
#![deny(unsafe_code)]

pub mod control;
mod dev_mgcap;
pub mod exec;
mod fs;
mod inodes;
mod join;
mod mount;
mod mount_ns;
pub mod notify;
mod programs;
mod running;
mod seq_file;
pub mod serve;
mod signals;
pub mod slots;
#[allow(unsafe_code, reason = "the only module with system calls of its own")]
mod sys;
mod tree;
mod trees;

pub use join::join;
pub use mount::{MountError, Mounted, TreeShape, mount};
pub use tree::{Cancel, Errno, REFUSED, Tree};
