//! Result files to one HTML page: tables, SVG plots, and the comparison of several runs. Also the
//! page of one run with its curves over time ([`render_run`]).
//!
//! The page needs no script and no network, follows the light or dark setting of the reader, and
//! contains the lines that it was made from. [`render`] takes and returns text; the caller reads
//! and writes the files.
#![forbid(unsafe_code)]

#[cfg(feature = "page")]
mod axis;
#[cfg(feature = "page")]
mod compare;
pub mod figures;
pub mod human;
mod meaning;
#[cfg(feature = "page")]
mod page;
#[cfg(feature = "page")]
mod plot;
#[cfg(feature = "page")]
mod plots;
#[cfg(feature = "page")]
mod results;
#[cfg(feature = "page")]
mod run_page;
mod units;

pub use meaning::{Meaning, printable_lines};
#[cfg(feature = "page")]
pub use page::render;
#[cfg(feature = "page")]
pub use results::{ReportError, ResultFile};
#[cfg(feature = "page")]
pub use run_page::{CurveUnit, PageRun, RunCurve, RunTable, render_run};
