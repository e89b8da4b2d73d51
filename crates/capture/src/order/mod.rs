//! One order of time out of several rings.

pub mod merge;
pub(crate) mod reorder;
