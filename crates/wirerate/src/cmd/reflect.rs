//! `wirerate reflect DEV`: sends measured frames back, so that their sender measures round trips.

use capture::SourceKind;
use options::receive::{CountingArgs, ReceiveRunArgs};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use receiver::{ReceiveJob, ReceiverOptions, Reflection};
use sender::device::TxDevice;
use units::Nanos;

/// Arguments of `wirerate reflect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device to receive on, and the count or time that ends the run
    #[command(flatten)]
    pub run: ReceiveRunArgs,
    /// Lowest round trip that the sender measured: the report then has the interval of the
    /// difference between the clocks
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<Nanos>,
    /// Send even if the device carries the default route of this host
    #[arg(long)]
    pub allow_default_route: bool,
    /// Options for counting: flows, latency, duplicates, and what becomes of the results
    #[command(flatten)]
    pub counting: CountingArgs,
}

/// Reflects until a limit, a signal or the end of the sender or the device.
///
/// # Errors
/// Refused by the host or the device, which may carry the default route.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let device = TxDevice::find(args.run.netns.as_deref(), &args.run.device)
        .map_err(|why| Failure::host(format!("reflect on {}", args.run.device), why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    let options = ReceiverOptions {
        carried_flows: None,
        reflection: Some(Reflection { round_trip_ns: args.round_trip.map(|time| time.0) }),
        source: Some(SourceKind::Xdp),
        mirror: false,
        counting: args.counting.job(),
    };
    receiver::run(&ReceiveJob { run: args.run.job(), start_at: None, options }, stop)
}
