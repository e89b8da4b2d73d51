//! Packet filters as programs: classic BPF checked, run, and translated to eBPF for XDP.
//!
//! A [`Classic`] is a program in the machine language that libpcap compiles `udp port 9` to and that packet sockets
//! take. XDP programs are eBPF, so [`translate`] makes of it a function `filter(ctx)` in the kernel's newer machine
//! language. [`Classic::run`] is a third way to execute one, in plain Rust: the tests hold the two others
//! against it. No I/O and no kernel here; who compiles the words and who loads the result is not known.
#![forbid(unsafe_code)]

mod classic;
mod ebpf;
mod error;
mod interpret;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod translate;

pub use classic::{AluOp, Classic, INSTRUCTIONS_MAX, Instruction, Op, Operand, Place, Register, Size, Test};
pub use ebpf::Ebpf;
pub use error::FilterError;
pub use translate::translate;
