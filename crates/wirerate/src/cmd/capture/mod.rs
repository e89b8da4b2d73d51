//! `wirerate capture DEV`: frames from a device to a file, or only counted.

pub mod args;
pub mod autostop;
pub mod files;
pub mod outputs;
pub mod print;
pub mod recorder;
pub mod report;
pub mod run;
pub mod source;

pub use args::Args;
pub use run::run;
