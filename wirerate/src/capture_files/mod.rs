//! Capture files: the reader that replay, analyze and export share.

pub mod input;
pub mod playlist;
pub mod records;
