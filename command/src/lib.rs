//! The pktgen language: text to commands to configuration, and back to the text of the control files.
//!
//! One `write(2)` to a control file is one command. [`COMMANDS`] and [`FLAGS`] are the whole vocabulary: the
//! parser, the read-out, the help, the man page and the completions all read these two tables. A
//! [`ControlTree`] is what stands behind the files: threads, their [`Device`] instances, and the rules by which
//! these come and go. Texts, errors and oddities are those of Linux 7.3 byte for byte; where wirerate differs
//! on purpose, a comment names the row of `docs/differences.md`.
//!
//! No files, no clock, no kernel: what the host is like comes in as [`Facts`] and [`LinkState`], time as
//! nanoseconds since boot. Running is the business of `engine`, serving the files that of `ctlfs`.
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
mod saved;
mod scan;
mod set;
mod table;
mod thread;
#[cfg(test)]
mod told;
mod tree;

pub use device::{Counters, Device, NO_FRAME, touches};
pub use facts::{Facts, LinkState};
pub use fault::{Errno, Fault, Refused};
pub use flags::{FLAGS, FlagSpec};
pub use help::{commands_roff, commands_text, device_words, flag_words, xmit_mode_words};
pub use pgctrl::{PgctrlCommand, VERSION_LINE};
pub use result::{RunTotals, fragments};
pub use saved::commands_for;
pub use table::{Arg, COMMANDS, Place, Spec, Touches};
pub use thread::{Thread, ThreadCommand};
pub use tree::{ControlTree, Entry, interface_of};
