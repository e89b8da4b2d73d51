//! `wirerate export FILE...`: capture files to a Parquet data set, and back.

mod args;
mod data_set;
mod losses;
mod report;
mod store;
mod to_parquet;
mod to_pcapng;

pub use args::Args;

use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use args::ExportFormat;

/// Exports the files and prints the report.
///
/// # Errors
/// Files that cannot be read, or an output that cannot be begun.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let report = match args.to {
        ExportFormat::Parquet => to_parquet::run(args, stop)?,
        ExportFormat::Pcapng => to_pcapng::run(args, stop)?,
    };
    report.conclude(args)
}
