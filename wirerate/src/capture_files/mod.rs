//! Capture files: the reader that replay, analyze and export share.

mod ahead;
mod decompress;
pub mod input;
pub mod playlist;
pub mod records;
