//! pktgen's frames: settings in its terms, the plan made from them, and their signature.

mod compile;
mod config;
mod end_frame;
mod signature;
mod template;
#[cfg(test)]
mod tests;

pub use compile::{FLOWS_MAX, IMIX_ENTRIES_MAX};
pub use config::{Config, DeviceFacts, Flags, ImixEntry, NEVER_NS, XmitMode};
pub use signature::{SignatureLevel, SignatureSetting};
pub use template::{Layout, MPLS_LABELS_MAX, MPLS_RANDOM};
