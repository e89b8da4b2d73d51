//! `wirerate reflect DEV`: sends measured frames back, so that their sender measures round trips.

use crate::cmd::receive::{self, MeterArgs, ReceiverArgs, Reflection, ResultArgs};
use crate::cmd::send::device::TxDevice;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::units::{Count, Nanos};
use capture::SourceKind;

/// Arguments of `wirerate reflect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device whose frames go back
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Frames to wait for; reflecting ends then
    #[arg(long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to reflect for, such as 10s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Frames that were sent; the report then has the loss on the way here
    #[arg(long, value_name = "N")]
    pub sent: Option<Count>,
    /// Lowest round trip that the sender measured: the report then has the interval of the
    /// difference between the clocks
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<Nanos>,
    /// Send even if the device carries the default route of this host
    #[arg(long)]
    pub allow_default_route: bool,
    /// See [`MeterArgs`]
    #[command(flatten)]
    pub meter: MeterArgs,
    /// Several CPUs receive frames of one flow: take a lock for each frame
    #[arg(long)]
    pub shared_flows: bool,
    /// See [`ResultArgs`]
    #[command(flatten)]
    pub results: ResultArgs,
    /// Print a row each second, with --json as JSON; done without it on a terminal
    #[arg(long)]
    pub every_second: bool,
    /// Print a row each second as CSV; the report goes to standard error
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Reflects until a limit, a signal or the end of the sender or the device.
///
/// # Errors
/// Refused by the host or the device, which may carry the default route.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let device = TxDevice::find(args.netns.as_deref(), &args.device)
        .map_err(|why| Failure::host(format!("reflect on {}", args.device), why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    receive::run(&args.receiver(), stop)
}

impl Args {
    /// A reflector is a receiver that sends the frames back.
    fn receiver(&self) -> receive::Args {
        let round_trip_ns = self.round_trip.map(|time| time.0);
        receive::Args {
            device: self.device.clone(),
            netns: self.netns.clone(),
            count: self.count,
            duration: self.duration,
            start_at: None,
            sent: self.sent,
            options: ReceiverArgs {
                meter: self.meter.clone(),
                carried_flows: None,
                reflection: Some(Reflection { round_trip_ns }),
                source: Some(SourceKind::Xdp),
                mirror: false,
                shared_flows: self.shared_flows,
                results: self.results.clone(),
            },
            every_second: self.every_second,
            csv: self.csv,
        }
    }
}
