//! The pktgen language: text to commands to configuration, and back to the text of the control
//! files.
//!
//! One `write(2)` to a control file is one command. The parser, the read-out, the help, the man
//! page, the completions and the serialization all read two tables: [`COMMANDS`] and [`FLAGS`]. A
//! [`ControlTree`] has the threads and their [`Device`] instances. Texts and errors are those of
//! Linux 7.3 byte for byte; a comment at each intentional difference names its row of
//! `docs/pktgen.md`.
//!
//! No files, no clock, no kernel: the host is described by [`Facts`] and [`LinkState`], time is in
//! nanoseconds since boot. `engine` sends, `ctlfs` serves the files.
#![forbid(unsafe_code)]

mod address;
mod device;
mod facts;
mod fault;
mod flags;
mod help;
mod pgctrl;
mod readout;
mod result;
mod scan;
mod set;
mod table;
#[cfg(test)]
mod testing;
mod thread;
mod tree;
mod write;

pub use device::{Counters, Device, interface_of};
pub use facts::{Facts, LinkState};
pub use fault::{Errno, Fault, Refusal};
pub use flags::{FLAGS, FlagSpec};
pub use help::{commands_roff, commands_text, device_words, flag_words};
pub use pgctrl::VERSION_LINE;
pub use result::{NO_FRAME, RunTotals, fragments};
pub use table::{Arg, COMMANDS, FileKind, PgctrlCommand, Spec, Touches};
pub use thread::{Thread, ThreadCommand};
pub use tree::{ControlTree, TreeFile};
pub use write::touches;
