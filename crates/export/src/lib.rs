//! `wirerate export FILE...`: capture files to a Parquet data set, and back.
#![forbid(unsafe_code)]

mod args;
mod bucket;
mod data_set;
mod report;
mod source;
mod store;
mod to_parquet;
mod to_pcapng;
mod transport;

pub use self::report::EXPORT;
pub use args::Args;

use args::ExportFormat;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::path::PathBuf;

/// Exports the files and prints the report.
///
/// # Errors
/// Files that cannot be read, or an output that cannot be begun.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let bucket = |path: &PathBuf| bucket::url_of(path).is_some();
    if let Some(url) = args.files.iter().find(|path| bucket(path)) {
        return Err(Failure::usage(format!("read {}", url.display()), "only local files are read")
            .try_this("copy the objects to a folder first"));
    }
    if args.to == ExportFormat::Pcapng && (bucket(&args.output) || bucket::advice_for(&args.output).is_some())
    {
        let act = format!("write {}", args.output.display());
        return Err(Failure::usage(act, "only data sets are uploaded").try_this("-o FILE, then upload it"));
    }
    if let Some(right) = bucket::advice_for(&args.output) {
        let act = format!("write {}", args.output.display());
        let folder = format!("-o ./{}, for a folder of this name", args.output.display());
        let failure = Failure::usage(act, "buckets of servers with the protocol of S3 begin with s3://");
        return Err(failure.try_this(right).try_this(folder));
    }
    let report = match args.to {
        ExportFormat::Parquet => to_parquet::run(args, stop)?,
        ExportFormat::Pcapng => to_pcapng::run(args, stop)?,
    };
    report.conclude(args)
}
