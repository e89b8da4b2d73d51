//! Clocks: the conversion of kernel and device timestamps to UTC.

pub(crate) mod phc;
pub(crate) mod utc;
