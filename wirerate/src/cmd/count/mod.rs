//! `wirerate count DEV` and `wirerate sink DEV`: how many frames a device receives, with nothing
//! else done to them.

mod report;
mod run;

pub use report::Report;
pub use run::{Kind, run};

use crate::units::{Count, Nanos};

/// Arguments of both commands.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device to count on
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Frames to wait for; counting ends then
    #[arg(long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to count for, such as 10s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print one line of JSON each second and one at the end (docs/json.md)
    #[arg(long)]
    pub json: bool,
}
