//! The views of a running command: readings of its metrics in, text on a grid or a web page out.
//!
//! [`Screen`] keeps readings of a `MetricSet`, computes rates and graphs from them, and draws them.
//! It also takes keys, and returns what the user wants of the run as a [`ScreenAction`]. The caller
//! reads the metrics and the keys, writes to the terminal by [`AnsiBackend`], and carries out the
//! actions.
//!
//! [`PageView`] keeps the same readings for a web page: as JSON for the script of [`PAGE_FILES`],
//! and as a report in one HTML file.
#![forbid(unsafe_code)]

mod ansi;
mod draw;
mod figures;
mod graphs;
mod help;
mod history;
mod keys;
mod octaves;
mod page_files;
mod page_view;
mod screen;
mod table_view;

pub use ansi::AnsiBackend;
pub use keys::{KeyPress, keys_of};
pub use page_files::PAGE_FILES;
pub use page_view::PageView;
pub use screen::{RunState, Screen, ScreenAction, ScreenHead};
