//! Capture files: the reader that replay, analyze and export share.
#![forbid(unsafe_code)]

mod ahead;
pub mod damage;
mod decompress;
pub mod flow_statistics;
pub mod flows;
pub mod frame_file;
#[cfg(test)]
mod fuzz;
pub mod input;
pub mod losses;
pub mod names;
pub mod output_bytes;
pub mod playlist;
pub mod protocol;
pub mod records;
