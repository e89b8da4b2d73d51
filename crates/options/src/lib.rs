//! The options of sending and of receiving, as commands take them, and the values that they become.
//!
//! [`send`] has the options of `wirerate send` and [`receive`] those of `wirerate receive`, which
//! other commands take as well: `measure`, `search`, plans of fleets. [`stream_file`] reads the
//! file of `--streams`, whose members are options of `send`. What sends and receives (`sender`,
//! `receiver`) gets values and knows no options.
#![forbid(unsafe_code)]

pub mod receive;
pub mod send;
pub mod stream_file;
