//! The agreement of all hosts before a run: each gets its ports, and then its engines ready.

use fleet::{FleetName, Order, OrderResult, Part, Readiness, StartPolicy, TestPart};
use futures_util::future::join_all;
use hub::{Controller, HubError};
use program::start_at::host_clock;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Asks all hosts to get ready, at once.
///
/// # Errors
/// The hub refuses the orders to this key, or is closed.
pub(super) async fn prepare(
    controller: &Controller,
    parts: BTreeMap<FleetName, TestPart>,
    policy: &StartPolicy,
    arm_ms: u64,
) -> Result<Readiness, HubError> {
    let (asked, timeout) = (Instant::now(), Duration::from_millis(arm_ms));
    let arm = async |(host, part): (FleetName, TestPart)| {
        let prepared = controller.ask(&host, Order::Prepare(Part::Test(part)), timeout).await;
        let has_ports = prepared
            .as_ref()
            .is_ok_and(|answered| !matches!(answered.answer.result, OrderResult::Refused { .. }));
        if !has_ports {
            return (host, prepared);
        }
        let order = Order::Arm { flows: Vec::new(), flow_count: 0, clears_ports: false };
        let armed = controller.ask(&host, order, timeout.saturating_sub(asked.elapsed())).await;
        (host, armed)
    };
    let mut readiness = Readiness::default();
    for (host, answered) in join_all(parts.into_iter().map(arm)).await {
        readiness.hear(&host, answered, host_clock(), policy);
    }
    controller.doubles().iter().for_each(|host| readiness.doubts(host));
    controller.check()?;
    Ok(readiness)
}
