//! `wirerate fleet`: one test over many hosts, by their agents and a hub; [`agent`] is
//! `wirerate agent`.
#![forbid(unsafe_code)]

pub mod agent;
mod agree;
mod expect;
mod init;
mod plan;
mod run;
mod show;
mod stop;
mod test_file;
mod words;

pub use show::{FLEET, FLEET_HOST, FLEET_PLAN};
pub use stop::FLEET_STOP;

use fleet::FleetName;
use program::hub_access::{HubArgs, runtime, unusable_hub};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;

/// Arguments of `wirerate fleet`.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    command: FleetCommand,
}

/// What to do.
#[derive(Clone, Debug, clap::Subcommand)]
enum FleetCommand {
    /// Write keys, a certificate, and the files of the hub, the agents and the controller
    Init(init::InitArgs),
    /// List the hosts, their ports and clocks
    Hosts(HubArgs),
    /// Run a test, and print what became of its flows
    Run(run::FleetRunArgs),
    /// Print the account of a run again, from what the hub has kept
    Report(ReportArgs),
    /// End a run, and say what became of its hosts
    Stop(RunName),
    /// List the runs that the hub keeps, the newest first
    List(HubArgs),
}

/// Which run.
#[derive(Clone, Debug, clap::Args)]
struct RunName {
    /// The run
    #[arg(value_name = "RUN")]
    run: FleetName,
    #[command(flatten)]
    hub: HubArgs,
}

/// The account of which run.
#[derive(Clone, Debug, clap::Args)]
struct ReportArgs {
    #[command(flatten)]
    checks: expect::FleetChecks,
    #[command(flatten)]
    run: RunName,
}

/// Does it.
///
/// # Errors
/// Bad usage; or the hub is not reached.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    runtime()?.block_on(async {
        match &args.command {
            FleetCommand::Init(args) => init::run(args),
            FleetCommand::Hosts(args) => {
                show::hosts(&args.connect().await?.hosts().await.map_err(unusable_hub)?, args.json)
            }
            FleetCommand::Run(args) => run::run(args, stop).await,
            FleetCommand::Report(args) => {
                let RunName { run, hub: target } = &args.run;
                let hub = target.connect().await?;
                let plan = hub.plan(run).await.map_err(unusable_hub)?;
                let words = hub.last_words(&plan).await.map_err(unusable_hub)?;
                show::account(&fleet::RunAccount::of(&plan, &words), &args.checks, target.json)
            }
            FleetCommand::Stop(args) => stop::run(&args.hub.connect().await?, &args.run, args.hub.json).await,
            FleetCommand::List(args) => {
                show::runs(&args.connect().await?.runs().await.map_err(unusable_hub)?, args.json)
            }
        }
    })
}
