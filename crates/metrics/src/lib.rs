//! Metrics of running commands: the table of families, a set of values, and the text formats of
//! Prometheus.
//!
//! [`FAMILIES`] is the table. A command adds its counters to a [`MetricSet`], and
//! [`MetricSet::text`] writes it in the [`TextFormat`] that the scraper accepts. [`EventLog`] keeps
//! lines for programs that follow a command. Serving the text and the lines, and reading the
//! counters belong to the caller.
#![forbid(unsafe_code)]

mod accept;
mod event_log;
pub mod families;
mod set;
mod text;

pub use accept::TextFormat;
pub use event_log::{EventLog, NextLines};
pub use families::{FAMILIES, FamilyKind, MetricFamily};
pub use set::{FineCounts, MetricSet};
