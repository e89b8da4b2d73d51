//! `wirerate demo`: the whole way of a frame on devices of our own, in seconds, with every frame accounted for.

pub mod report;
mod run;

pub use run::{Args, run};
