//! The hub of a fleet: which one, the connection, and what to do about one that cannot be used.

use crate::advice;
use crate::out;
use crate::outcome::{Failure, Outcome, Refused};
use crate::waiting_read;
use anyhow::anyhow;
use hub::{Hub, HubError, HubSettings};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::runtime::Runtime;
use units::{human_duration, quantity_of};

/// File of the controller.
pub const CONTROLLER_FILE: &str = "fleet.toml";

/// Which hub.
#[derive(Clone, Debug, clap::Args)]
pub struct HubArgs {
    /// File of the controller, as `fleet init` writes it, or the address of a hub without keys,
    /// such as nats://127.0.0.1:4222 [default: fleet.toml]
    #[arg(long, value_name = "URL|FILE")]
    hub: Option<String>,
    /// Print JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
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
    pub fn of(hub: &str) -> Self {
        Self { hub: Some(hub.to_owned()), json: false }
    }

    fn settings(&self) -> Result<HubSettings, Failure> {
        let hub = self.hub.as_deref().unwrap_or(CONTROLLER_FILE);
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
    pub async fn connect(&self) -> Result<Hub, Failure> {
        let hub = Hub::connect(&self.settings()?).await.map_err(unusable_hub)?;
        hub.set_up().await.map_err(unusable_hub)?;
        Ok(hub)
    }
}

/// A hub that cannot be used, with what to try.
pub fn unusable_hub(why: HubError) -> Failure {
    let advice = advice::for_hub(&why);
    let failure = Failure::refused("use the hub", anyhow!("{why}"));
    advice.into_iter().fold(failure, Failure::try_this)
}

/// Checks a hub: an address, or the file of a controller.
///
/// # Errors
/// It is not reached, too old, or has no JetStream.
pub fn examine(target: &str) -> Result<Outcome, Failure> {
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

/// A runtime for the calls of a hub.
///
/// # Errors
/// No descriptors.
pub fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().refused("start the controller")
}
