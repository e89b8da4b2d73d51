//! The control tree over FUSE: a write becomes a command.
//!
//! [`Tree`] is the interface: names, texts, and writes that may take as long as a run. [`mount()`]
//! mounts a tree on a directory, which then behaves like pktgen's directory in procfs.
//! [`exec::run`] gives one command and its children that tree at the real `/proc/net/pktgen`;
//! [`serve::run`] serves it on a directory to all processes. This crate does not depend on the
//! bytes of a frame.
#![deny(unsafe_code)]

pub mod control;
mod dev_mgcap;
pub mod exec;
mod fs;
mod fuse;
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
