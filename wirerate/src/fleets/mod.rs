//! `wirerate fleet`: one test over many hosts, by their agents and a hub.

mod agree;
mod expect;
mod init;
mod plan;
mod run;
mod show;
mod stop;
mod test_file;
pub(crate) mod words;

use crate::out;
use crate::outcome::{Failure, Outcome, Refused};
use crate::stop::Stop;
use crate::units::{human_duration, quantity_of};
use crate::waiting_read;
use anyhow::anyhow;
use fleet::FleetName;
use hub::{Hub, HubError, HubSettings};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::runtime::Runtime;

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

/// Which hub.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HubArgs {
    /// File of the controller, as `fleet init` writes it, or the address of a hub without keys,
    /// such as nats://127.0.0.1:4222 [default: fleet.toml]
    #[arg(long, value_name = "URL|FILE")]
    hub: Option<String>,
    /// Print JSON (docs/json.md)
    #[arg(long, short = 'J')]
    json: bool,
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

/// The file of a controller.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerFile {
    hub: String,
    ca: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl HubArgs {
    /// The hub of this name.
    pub(crate) fn of(hub: &str) -> Self {
        Self { hub: Some(hub.to_owned()), json: false }
    }

    fn settings(&self) -> Result<HubSettings, Failure> {
        let hub = self.hub.as_deref().unwrap_or(init::CONTROLLER_FILE);
        if hub.contains("://") {
            return Ok(HubSettings { url: hub.to_owned(), ca: None, key: None });
        }
        let path = Path::new(hub);
        let act = format!("read {}", path.display());
        let text = waiting_read::read_to_string(path).map_err(|why| {
            Failure::usage(&act, why)
                .try_this("wirerate fleet init --hosts h1,h2 --address ADDRESS")
                .try_this("--hub nats://ADDRESS:4222, for a hub without keys")
        })?;
        let file: ControllerFile =
            toml::from_str(&text).map_err(|why| Failure::usage(&act, why.to_string().trim()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = |file: Option<PathBuf>| file.map(|file| folder.join(file));
        Ok(HubSettings { url: file.hub, ca: beside(file.ca), key: beside(file.key) })
    }

    /// Connects to the hub, which then has all that a fleet needs.
    pub(crate) async fn connect(&self) -> Result<Hub, Failure> {
        let hub = Hub::connect(&self.settings()?).await.map_err(unusable_hub)?;
        hub.set_up().await.map_err(unusable_hub)?;
        Ok(hub)
    }
}

/// A hub that cannot be used, with what to try.
pub(crate) fn unusable_hub(why: HubError) -> Failure {
    let advice = why.advice();
    let failure = Failure::refused("use the hub", anyhow!("{why}"));
    advice.into_iter().fold(failure, Failure::try_this)
}

/// Checks a hub: an address, or the file of a controller.
///
/// # Errors
/// It is not reached, too old, or has no JetStream.
pub(crate) fn examine(target: &str) -> Result<Outcome, Failure> {
    let args = HubArgs::of(target);
    runtime()?.block_on(async {
        let hub = args.connect().await?;
        let since = Instant::now();
        hub.flush().await.map_err(unusable_hub)?;
        let round_trip = human_duration(since.elapsed().as_nanos() as u64);
        let hosts = hub.hosts().await.map_err(unusable_hub)?.hosts.len() as u64;
        let (version, hosts) = (hub.server_version(), quantity_of(hosts, "host"));
        out::text(&format!("hub: nats-server {version} with JetStream, round trip {round_trip}, {hosts}\n"))?;
        Ok(Outcome::Done)
    })
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().refused("start the controller")
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
