//! `wirerate agent`: lets controllers of a fleet use the ports of this host.

mod agent_ports;
mod config;
mod double;
mod dry;
mod host_run;
mod limits;
mod receiver;
mod sender;
mod serve;
mod sessions;
mod status;
mod streams;

use config::AgentFile;
use host_run::AgentClock;
use program::outcome::{Failure, Outcome, Refused};
use program::stop::Stop;
use std::path::PathBuf;
use std::time::Duration;
use units::{Nanos, time_with_unit};

/// Arguments of `wirerate agent`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// File of this agent, as `wirerate fleet init` writes it (docs/fleet.md)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// For tests: the clock is ahead by this time
    #[arg(long, value_name = "TIME", value_parser = time_with_unit, hide = true)]
    test_clock_ahead: Option<Nanos>,
    /// For tests: a run is ready this time later
    #[arg(long, value_name = "TIME", value_parser = time_with_unit, hide = true)]
    test_arm_delay: Option<Nanos>,
}

/// Serves until a signal.
///
/// # Errors
/// The file is wrong, or the hub is too old.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let file = AgentFile::read(&args.config)?;
    ports::raise_file_limit();
    let clock = AgentClock { ahead_ns: args.test_clock_ahead.map_or(0, |ahead| ahead.0.cast_signed()) };
    let arm_delay = Duration::from_nanos(args.test_arm_delay.map_or(0, |delay| delay.0));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().refused("start the agent")?;
    let served = runtime.block_on(serve::serve(file, clock, arm_delay, stop));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}
