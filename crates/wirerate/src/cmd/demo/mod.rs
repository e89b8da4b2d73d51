//! `wirerate demo`: sends and captures on a veth pair for some seconds and counts every frame.

pub mod report;
mod run;

pub use run::{Args, run};
