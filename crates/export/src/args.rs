//! Arguments of `wirerate export`.

use std::path::PathBuf;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// A data set of Parquet files, from pcap and pcapng files
    Parquet,
    /// One pcapng file, from the Parquet files of a data set
    Pcapng,
}

/// Arguments of `wirerate export`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Capture files, one after another; - for standard input. With --to pcapng: Parquet files, or
    /// folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Folder of the data set, or s3://BUCKET/PREFIX with the variables of AWS in the environment;
    /// with --to pcapng the file, - for standard output
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "parquet")]
    pub to: ExportFormat,
    /// Leave the bytes of the packets out: columns of header fields only
    #[arg(long)]
    pub no_bytes: bool,
    /// Sort the files by their first packets
    #[arg(long)]
    pub sort: bool,
    /// Name of the run in the data set [default: name of the first file]
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Name of the capturing host in the data set [default: this host]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}
