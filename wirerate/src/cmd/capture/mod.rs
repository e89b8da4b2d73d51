//! `wirerate capture DEV`: frames from a device into a pcapng file, or only counted.

pub mod args;
pub mod files;
pub mod live;
pub mod report;
pub mod source;
pub mod tally;

pub use args::Args;
pub use live::run;
