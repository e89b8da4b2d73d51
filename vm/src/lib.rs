//! Virtual machines with Debian's kernels: what this machine's own kernel cannot show is shown
//! there.
//!
//! A machine has no disk and no network: a kernel, an archive with the tools that the cases need,
//! and this very program as its init ([`guest`]). What a case found out comes back as lines on the
//! serial port. Machines are emulated (TCG), so a rate in there compares with another rate in there
//! and with nothing else.

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

pub use archive::MODULES;
pub use kernels::{Kernel, KernelSet};
pub use machine::Boot;
pub use outcome::{CaseOutcome, Ending};
pub use side::MachineRun;
pub use small::Small;
pub use table::{markdown, plain};
