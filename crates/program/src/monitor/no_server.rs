//! In place of the server of metrics, in builds that have none.

use super::{MonitorAddress, RunFacts};
use crate::groups::{Group, left_out};
use crate::outcome::Failure;
use std::sync::Arc;

/// There is none.
pub(super) enum MetricsServer {}

/// Refuses to start the server.
pub(super) fn serve(_address: MonitorAddress, _facts: &Arc<RunFacts>) -> Result<MetricsServer, Failure> {
    Err(left_out("use --metrics", Group::Metrics))
}
