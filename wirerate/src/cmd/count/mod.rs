//! `wirerate count DEV` and `wirerate sink DEV`: how many frames a device receives, with nothing
//! else done to them.

mod report;
mod run;

pub use report::Report;
pub use run::{Kind, run};

use crate::cmd::rx_args::RxArgs;
use crate::units::{Count, Nanos};

/// Arguments of both commands.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// See [`RxArgs`]
    #[command(flatten)]
    pub rx: RxArgs,
    /// Frames to wait for; counting ends then
    #[arg(short, long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to count for, such as 10s
    #[arg(short = 't', long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// As of `capture`: here the rows are always printed
    #[arg(long, hide = true)]
    pub every_second: bool,
    /// Print one line of JSON each second and one at the end (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Print the rows as CSV; the report goes to standard error
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}
