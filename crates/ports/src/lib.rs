//! `wirerate otg`: the API of the Open Traffic Generator, over HTTP and gRPC; `wirerate otg run`: a
//! configuration of it without a server.
//!
//! `server` has the transports, `otg` the model. `controller` splits a configuration into the parts
//! of its hosts, gives them orders and adds up what they count. `host_ports` carries out the orders
//! on this host, with the workers of `engine` and the receivers and captures of `capture`. Ports of
//! other hosts are those of agents of a fleet, which get the same orders over a hub.
#![forbid(unsafe_code)]

mod arrivals;
mod capture;
mod controller;
mod flow;
mod flow_document;
mod flow_setup;
pub mod host_ports;
mod hosts;
mod location;
mod neighbours;
mod placed_config;
mod port;
pub mod port_rules;
mod progress;
mod run_config;
mod state;
mod tag_parts;
mod tag_readings;
mod tagged;
mod token;

pub use flow_document::OTG_FLOW;

use anyhow::anyhow;
use controller::OtgController;
use doctor::host::OTG_PORTS;
use host::realtime_ns;
use host_ports::HostPorts;
use hosts::{FleetAgents, Hosts, LEASE};
use hub::Controller;
use location::LocalPorts;
pub use location::PortLocation;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use program::hub_access::{HubArgs, unusable_hub};
use program::monitor::sources::RunList;
use program::monitor::{Monitored, RunSubject};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use progress::DrainRule;
use run_config::RunArgs;
use server::{ListenAddress, Server, ServerConfig, TlsFiles};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use units::{Nanos, Size};

const RUN_HELP: &str = "\
The configuration is that of SetConfig, as snappi writes it by config.serialize(). Flows with\n\
metrics.enable are measured; captures need the server.\n\n\
Exit codes: 0 success; 1 frames were lost, a rate was not reached, or a check failed; 2 the\n\
configuration is refused; 3 refused by the host or a device.\n\n\
Examples:\n  \
wirerate otg run config.json\n  \
wirerate otg run config.yaml --expect lost=0 --expect 'p99<1ms' --json";

/// Interval at which the server checks whether it is stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Arguments of `wirerate otg`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<OtgCommand>,
    /// Address to listen on, for HTTP, HTTPS and gRPC, or a socket that only its owner may use; may
    /// be repeated [default: 127.0.0.1:8443 and 127.0.0.1:40051]
    #[arg(long, value_name = "ADDR:PORT|unix:PATH")]
    listen: Vec<ListenAddress>,
    /// Certificate and key in PEM files, instead of a certificate made at the start
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    tls: Option<Vec<PathBuf>>,
    /// Ask clients for the token in this file, as the password in https://x:TOKEN@HOST:PORT or as
    /// `Authorization: Bearer TOKEN`. Without it, the token is that of the variable
    /// WIRERATE_OTG_TOKEN, or of the systemd credential otg-token
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The token itself, which every user of this host sees in the list of processes
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Longest body of a call; the bodies of all calls together take up to four times as much
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    max_body: Size,
    /// Hub of a fleet, an address or the file of a controller: a location with a / is HOST/PORT
    /// then, a port of an agent (docs/otg.md)
    #[arg(long, value_name = "URL|FILE")]
    hub: Option<String>,
    #[command(flatten)]
    devices: OtgDeviceArgs,
}

/// What to do instead of serving the API.
#[derive(Clone, Debug, clap::Subcommand)]
enum OtgCommand {
    /// Send the flows of a configuration, and print what was measured
    #[command(after_help = RUN_HELP)]
    Run(Box<Monitored<RunArgs>>),
}

/// Which devices may be used.
#[derive(Clone, Debug, clap::Args)]
pub struct OtgDeviceArgs {
    /// Device of a port location; without it a location is DEV or NETNS/DEV. May be repeated
    #[arg(long = "port", value_name = "LOCATION=DEV[@NETNS]")]
    ports: Vec<PortLocation>,
    /// Send on a device that carries the default route, too
    #[arg(long)]
    allow_default_route: bool,
    /// What flows do when the link of their port goes down: go on when it is back, with the frames
    /// that were due meanwhile as errors, or end
    #[arg(long, value_enum, value_name = "ACTION", default_value = "continue")]
    link_down: LinkDown,
    /// Time without a frame after which no more frames of an ended flow are expected, for long
    /// lines [default: 300ms, but twice the highest latency, and 2s before the first frame]
    #[arg(long, value_name = "TIME")]
    drain: Option<Nanos>,
}

/// What flows do when the link of their port goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LinkDown {
    /// Go on when it is back
    Continue,
    /// End
    End,
}

impl OtgDeviceArgs {
    fn rules(&self) -> LocalPorts {
        LocalPorts {
            mapped: self.ports.clone(),
            allows_default_route: self.allow_default_route,
            keep_going: self.link_down == LinkDown::Continue,
            drain: self
                .drain
                .map_or_else(DrainRule::default, |time| DrainRule::of(Duration::from_nanos(time.0))),
        }
    }
}

impl Args {
    fn server(&self, token: Option<String>) -> ServerConfig {
        let of_port = |port| ListenAddress::Ip((Ipv4Addr::LOCALHOST, port).into());
        let addresses = match self.listen.is_empty() {
            true => OTG_PORTS.map(of_port).to_vec(),
            false => self.listen.clone(),
        };
        let tls = self.tls.as_deref().and_then(|files| match files {
            [certificate, key] => Some(TlsFiles { certificate: certificate.clone(), key: key.clone() }),
            _ => None,
        });
        let body_max = self.max_body.0.try_into().unwrap_or(usize::MAX);
        ServerConfig { addresses, tls, token, connections_max: connections_max(), body_max }
    }
}

/// Engines at full speed and rings hold some descriptors each, and so do clients. The usual limit
/// of 1024 is for programs that use select(2).
pub fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!("the limit of open files stays: {error}");
    }
}

/// Connections of clients: a quarter of the open files, the others belong to devices.
fn connections_max() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(files / 4).unwrap_or(usize::MAX).clamp(16, 512)
}

/// Runs a configuration, or serves until a signal.
///
/// # Errors
/// Those of `otg run`; when an address is in use or open to other hosts without a token.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    raise_file_limit();
    match &args.command {
        Some(OtgCommand::Run(command)) => {
            let subject = RunSubject { command: "otg run", device: String::new(), netns: String::new() };
            command.run(subject, stop, |args| run_config::run(args, stop))
        }
        None => serve(args, stop),
    }
}

/// What carries out the calls: on devices of this host, and on ports of a fleet if the user named
/// its hub.
async fn controller(args: &Args, runs: RunList) -> Result<OtgController, Failure> {
    let rules = args.devices.rules();
    let here = HostPorts::new(Box::new(rules.clone()), runs);
    let fleet = match &args.hub {
        None => None,
        Some(hub) => {
            let hub = HubArgs::of(hub).connect().await?;
            let run = controller::run_name(realtime_ns());
            program::note!("run {run}: ports with the location HOST/PORT are those of agents");
            let controller = Controller::new(&hub, run, LEASE, realtime_ns).await.map_err(unusable_hub)?;
            Some(FleetAgents { controller: Arc::new(controller), runtime: Handle::current() })
        }
    };
    Ok(OtgController::new(Hosts::new(here, fleet), rules))
}

fn serve(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let act = "serve the Open Traffic Generator API";
    let failed = |error: std::io::Error| Failure::refused(act, anyhow!("{error}"));
    let token = token::read(args.token_file.as_deref(), args.token.as_deref());
    let token = token.map_err(|why| Failure::usage(act, why))?;
    let runs = RunList::of(stop.console());
    let _counted = runs.count_in();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_name("otg-server").enable_all().build().map_err(failed)?;
    let (controller, task) = runtime.block_on(async {
        let controller = Arc::new(controller(args, runs).await?);
        let bound = Server::bind(&args.server(token), Arc::clone(&controller) as _).await;
        let server = bound.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => Failure::usage(act, error),
            _ => failed(error),
        })?;
        for address in server.addresses() {
            let protocols =
                if matches!(address, ListenAddress::Ip(_)) { "http, https, gRPC" } else { "http, gRPC" };
            eprintln!("listening on {address} ({protocols})");
        }
        let task = tokio::spawn(server.run());
        // A signal sets a flag and wakes no task.
        while !stop.is_set() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok::<_, Failure>((controller, task))
    })?;
    controller.close();
    task.abort();
    controller.release();
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(Outcome::Done)
}
