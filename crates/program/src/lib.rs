//! What the commands of wirerate share.
//!
//! [`outcome`] turns errors into text and exit codes, with what to try about them from [`advice`].
//! [`stop`] handles Ctrl-C, [`signal_counts`] SIGUSR1 and SIGUSR2. A command shows what it does on
//! its [`console`]: [`out`] writes the data, [`row_printer`] prints a line of numbers per second,
//! [`term`] shows progress. [`monitor`] serves the counters, `tui` shows them on a full screen,
//! `web` on a page; [`events`] holds the rows for programs that follow a command. [`run_control`]
//! and [`run_orders`] change a run that sends, [`runs`] repeats one, [`start_at`] is the time that
//! it may have to start at. [`groups`] are the commands that a build may leave out.
//! [`waiting_read`] reads inputs that may have to be waited for.
//!
//! Features are those of the program: they leave groups of commands out.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "fleet", feature = "live", feature = "metrics")),
    allow(dead_code, reason = "the groups that use it are left out")
)]

pub mod active_window;
pub mod advice;
mod args_of;
pub mod console;
pub mod device_files;
pub mod events;
pub mod expectations;
pub mod groups;
#[cfg_attr(not(feature = "otg"), path = "no_hub.rs")]
pub mod hub_access;
pub mod log;
pub mod monitor;
pub mod out;
pub mod outcome;
pub mod rate_options;
pub mod raw_terminal;
pub mod row_printer;
pub mod run_control;
pub mod run_orders;
pub mod runs;
pub mod rx_stats;
pub mod seed;
pub mod shell;
pub mod signal_counts;
pub mod start_at;
pub mod stop;
pub mod term;
#[cfg(feature = "live")]
pub mod tui;
pub mod waiting_read;
#[cfg(feature = "live")]
pub mod web;

pub use args_of::args_of;
