//! The options of sending and of receiving, as commands take them, and the values that they become.
//!
//! [`send`] has the options of `wirerate send` and [`receive`] those of `wirerate receive`, which
//! other commands take as well: `measure`, `search`, plans of fleets. [`frame_args`] lists those of
//! frames, which are also members of the streams that [`stream_file`] reads from the file of
//! `--streams`. What sends and receives (`sender`,
//! `receiver`) gets values and knows no options.
#![forbid(unsafe_code)]

pub mod frame_args;
pub mod receive;
pub mod send;
pub mod stream_file;
