//! `wirerate otg`: the API of the Open Traffic Generator, over HTTP and gRPC.
//!
//! `server` has the transports, `otg` the model. This module carries out the calls with the workers
//! of `engine`, and with the receivers and captures of `capture`.

mod backend;
mod capture;
mod flow;
mod location;
mod neighbours;
mod port;
mod setup;
mod state;

use crate::monitor::count_in;
use crate::monitor::sources::RunList;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use anyhow::anyhow;
use backend::OtgBackend;
pub use location::PortLocation;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use server::{Server, ServerConfig, TlsFiles};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where clients of the API look by default: HTTP on the first, gRPC on the second. Each address
/// takes both.
const LISTEN_DEFAULT: [&str; 2] = ["127.0.0.1:8443", "127.0.0.1:40051"];

/// Interval at which the server checks whether it is stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Arguments of `wirerate otg`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address to listen on, for HTTP, HTTPS and gRPC; may be repeated [default: 127.0.0.1:8443 and
    /// 127.0.0.1:40051]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Certificate and key in PEM files, instead of a certificate made at the start
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    tls: Option<Vec<PathBuf>>,
    /// Ask clients for this token, as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Device of a port location; without it a location is DEV or NETNS/DEV. May be repeated
    #[arg(long = "port", value_name = "LOCATION=DEV[@NETNS]")]
    ports: Vec<PortLocation>,
    /// Send on a device that carries the default route, too
    #[arg(long)]
    allow_default_route: bool,
}

impl Args {
    fn server(&self) -> ServerConfig {
        let addresses = match self.listen.is_empty() {
            true => LISTEN_DEFAULT.iter().filter_map(|address| address.parse().ok()).collect(),
            false => self.listen.clone(),
        };
        let tls = self.tls.as_deref().and_then(|files| match files {
            [certificate, key] => Some(TlsFiles { certificate: certificate.clone(), key: key.clone() }),
            _ => None,
        });
        ServerConfig { addresses, tls, token: self.token.clone() }
    }
}

/// Each flow that is sent holds some descriptors, and the usual limit of 1024 is for programs that
/// use select(2).
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!("the limit of open files stays: {error}");
    }
}

/// Serves until a signal.
///
/// # Errors
/// When an address is in use or open to other hosts without a token.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let act = "serve the Open Traffic Generator API";
    let failed = |error: std::io::Error| Failure::refused(act, anyhow!("{error}"));
    raise_file_limit();
    let runs = RunList::default();
    let _counted = count_in(runs.source());
    let backend = Arc::new(OtgBackend::new(args.ports.clone(), args.allow_default_route, runs));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_name("otg-server").enable_all().build().map_err(failed)?;
    let served = runtime.block_on(async {
        let bound = Server::bind(&args.server(), Arc::clone(&backend) as _).await;
        let server = bound.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => Failure::usage(act, error),
            _ => failed(error),
        })?;
        for address in server.addresses().map_err(failed)? {
            eprintln!("listening on {address} (http, https, gRPC)");
        }
        let task = tokio::spawn(server.run());
        // A signal sets a flag and wakes no task.
        while !stop.is_set() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        task.abort();
        Ok(Outcome::Done)
    });
    backend.release();
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}
