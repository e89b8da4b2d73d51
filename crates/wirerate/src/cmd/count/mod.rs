//! `wirerate count DEV` and `wirerate sink DEV`: how many frames a device receives, with nothing
//! else done to them.

mod report;
mod run;

pub use report::Report;
pub use run::{CountKind, run};

use crate::rx_args::RxArgs;
use program::row_printer::RowArgs;
use units::{Count, Nanos};

/// Arguments of both commands.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device, filter and network namespace to count frames of
    #[command(flatten)]
    pub rx: RxArgs,
    /// Frames to wait for; counting ends then
    #[arg(short, long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to count for, such as 10s
    #[arg(short = 't', long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Options for a row of counts each second, as text, JSON or CSV
    #[command(flatten)]
    pub rows: RowArgs,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
}
