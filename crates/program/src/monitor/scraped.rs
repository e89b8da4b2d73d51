//! `--metrics`: the server that Prometheus scrapes.

use super::{MonitorAddress, RunFacts};
use crate::outcome::Failure;
pub(super) use server::MetricsServer;
use std::sync::Arc;

/// Starts the server.
pub(super) fn serve(address: MonitorAddress, facts: &Arc<RunFacts>) -> Result<MetricsServer, Failure> {
    let read = Arc::clone(facts);
    let server = MetricsServer::start(address.0, Arc::new(move || read.all())).map_err(|why| {
        let advice = address.advice("--metrics", &why);
        Failure::refused(format!("serve metrics at {address}"), why).try_this(advice)
    })?;
    crate::note!("metrics at http://{}/metrics", server.address());
    Ok(server)
}
