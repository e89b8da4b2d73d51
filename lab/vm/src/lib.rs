//! Test cases in virtual machines with Debian's kernels, for what the host's kernel cannot show.
//!
//! A machine has no disk and no network: a kernel, an archive with the tools that the cases need,
//! and this program as its init ([`guest`]). A case prints its results as lines on the serial port.
//! Machines are emulated (TCG), so rates are comparable only within one machine.

#![deny(unsafe_code)]

mod archive;
pub mod cases;
mod golden;
pub mod guest;
mod kernels;
mod machine;
mod module;
mod outcome;
mod side;
mod small;
mod table;
pub mod taps;

pub use kernels::{ARM64, Kernel, KernelSet, Processor};
pub use machine::Boot;
pub use outcome::{CaseOutcome, Ending};
pub use side::MachineRun;
pub use small::Small;
pub use table::{markdown, plain};
