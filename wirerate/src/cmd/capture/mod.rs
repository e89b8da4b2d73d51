//! `wirerate capture DEV`: frames from a device into a pcapng file, or only counted.

pub mod args;
pub mod live;
pub mod report;

pub use args::Args;
pub use live::run;
