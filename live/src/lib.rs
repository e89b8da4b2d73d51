//! The full-screen view of a running command: readings of its metrics in, text on a grid out.
//!
//! [`Screen`] keeps readings of a `MetricSet`, computes rates and graphs from them, and draws them.
//! It also takes keys, and returns what the user wants of the run as a [`ScreenAction`]. The caller
//! reads the metrics and the keys, writes to the terminal by [`AnsiBackend`], and carries out the
//! actions.
#![forbid(unsafe_code)]

mod ansi;
mod draw;
mod figures;
mod help;
mod history;
mod keys;
mod octaves;
mod screen;
mod table_view;

pub use ansi::AnsiBackend;
pub use keys::{KeyPress, keys_of};
pub use screen::{Screen, ScreenAction, ScreenHead};
