//! Result files to one HTML page: tables, SVG plots, and the comparison of several runs. Also the
//! page of one run with its curves over time ([`render_run`]).
//!
//! The page needs no script and no network, follows the light or dark setting of the reader, and
//! contains the lines that it was made from. [`render`] takes and returns text; the caller reads
//! and writes the files.
#![forbid(unsafe_code)]

mod axis;
mod compare;
pub mod figures;
pub mod human;
mod page;
mod plot;
mod plots;
mod results;
mod run_page;
mod units;

pub use page::render;
pub use results::{ReportError, ResultFile};
pub use run_page::{CurveUnit, PageRun, RunCurve, RunTable, render_run};
