//! Metrics of running commands: the table of families, a set of values, and the text formats of
//! Prometheus.
//!
//! [`FAMILIES`] is the table. A command adds its counters to a [`MetricSet`], and
//! [`MetricSet::text`] writes it in the [`TextFormat`] that the scraper accepts. Serving the text
//! and reading the counters belong to the caller.
#![forbid(unsafe_code)]

mod accept;
pub mod families;
mod set;
mod text;

pub use accept::TextFormat;
pub use families::{FAMILIES, FamilyKind, MetricFamily};
pub use set::{FineCounts, MetricSet};
