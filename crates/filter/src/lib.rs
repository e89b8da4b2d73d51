//! Packet filters as programs: classic BPF checked, run, and translated to eBPF for XDP.
//!
//! A [`Classic`] is a program in the machine language that libpcap compiles `udp port 9` to and
//! that packet sockets use. XDP programs are eBPF, so [`translate()`] makes a function
//! `filter(ctx)` in that language. [`Classic::run`] is a third way to run a filter, in Rust: tests
//! compare the two others with it. This crate does no I/O and has no kernel interface.
#![forbid(unsafe_code)]

mod classic;
mod ebpf;
mod error;
mod interpret;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod translate;

pub use classic::{
    AluOp, Classic, INSTRUCTIONS_MAX, Instruction, Op, Operand, Register, Size, Test, ValuePlace,
};
pub use ebpf::Ebpf;
pub use error::FilterError;
pub use interpret::BesideFrame;
pub use translate::translate;
