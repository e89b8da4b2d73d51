//! `wirerate count DEV` and `wirerate sink DEV`: how many frames a device receives, with nothing
//! else done to them.

use crate::rx_args::RxArgs;
use program::outcome::Failure;
use program::row_printer::RowArgs;
use receiver::count::{CountJob, CountKind};
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

impl Args {
    /// What they ask for.
    ///
    /// # Errors
    /// Bad usage for words that are no device or filter, and for several devices; refused for a
    /// namespace that cannot be opened.
    pub fn job(&self, kind: CountKind) -> Result<CountJob, Failure> {
        let targets = self.rx.targets(kind.name())?;
        let [device] = &targets.devices[..] else {
            let why = "one device at a time";
            return Err(Failure::usage(self.rx.act("count", &targets.devices.join(" and ")), why)
                .try_this("a command for each device"));
        };
        Ok(CountJob {
            kind,
            device: device.clone(),
            netns_name: self.rx.netns.clone(),
            filter: targets.filter.clone(),
            netns: targets.netns,
            is_promiscuous: !self.rx.no_promisc,
            count: self.count,
            duration: self.duration,
            rows: self.rows.clone(),
            json: self.json,
            quiet: self.rx.quiet,
        })
    }
}
