//! What to try about the errors of the other crates, without the word "try".
//!
//! The other crates know neither options nor commands of wirerate; their errors say what failed.
//! The commands here can be pasted, network namespace included.

mod bpf_error;
mod capture_error;
mod control_files;
mod engine_error;
#[cfg(feature = "otg")]
mod fleets;
mod host_error;

pub use capture_error::for_capture;
pub use control_files::{for_exec, for_serve};
pub use engine_error::{for_engine, for_engine_here};
#[cfg(feature = "otg")]
pub use fleets::{for_hub, for_objection, for_two_agents};
pub use host_error::for_host;
