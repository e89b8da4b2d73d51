//! `wirerate fleet stop`: ends a run, and says what became of each host.

use facts::{Described, Document};
use fleet::{FleetName, LastWords, RunPlan};
use hub::{Hub, LEASE_INTERVAL, OrderKind};
use program::hub_access::unusable_hub;
use program::out;
use program::outcome::{Failure, Outcome};
use std::time::Duration;
use tokio::time::Instant;
use units::human_count;

/// Receivers wait this long for late frames on top of the time of the test, and hosts deliver their
/// last counts.
const LAST_COUNTS_MAX: Duration = Duration::from_secs(8);

/// Ends a run. The outcome is good if all its hosts have ended.
pub(super) async fn run(hub: &Hub, run: &FleetName, json: bool) -> Result<Outcome, Failure> {
    let plan = hub.plan(run).await.map_err(unusable_hub)?;
    let mut words = hub.newest_words(&plan).await.map_err(unusable_hub)?;
    let before = hosts_that_ended(&plan, &words);
    let until = Instant::now() + Duration::from_nanos(plan.settle_ns) + LAST_COUNTS_MAX;
    while hosts_that_ended(&plan, &words).len() < armed(&plan).count() && Instant::now() < until {
        // A host that has lost one of these gets the next.
        hub.order(run, OrderKind::Stop).await.map_err(unusable_hub)?;
        hub.confirm().await.map_err(unusable_hub)?;
        tokio::time::sleep(LEASE_INTERVAL).await;
        words = hub.newest_words(&plan).await.map_err(unusable_hub)?;
    }
    let ended = hosts_that_ended(&plan, &words);
    let hosts: Vec<StoppedHost> = plan
        .hosts
        .iter()
        .map(|order| {
            let host = &order.host;
            let stat = words.of(host).filter(|stat| stat.is_last);
            StoppedHost {
                host: host.clone(),
                end: stat.and_then(|stat| stat.end).map(|end| end.name().to_owned()),
                was_over: before.contains(&host),
                was_armed: order.is_armed,
                sent: stat.map(|stat| stat.flows.iter().filter_map(|flow| flow.sent).sum()),
            }
        })
        .collect();
    show(run, &hosts, json)?;
    Ok(if ended.len() == armed(&plan).count() { Outcome::Done } else { Outcome::No })
}

/// Hosts that were told to start.
fn armed(plan: &RunPlan) -> impl Iterator<Item = &FleetName> {
    plan.hosts.iter().filter(|order| order.is_armed).map(|order| &order.host)
}

fn hosts_that_ended<'a>(plan: &'a RunPlan, words: &LastWords) -> Vec<&'a FleetName> {
    armed(plan).filter(|host| words.has_last(host)).collect()
}

/// A run that was stopped.
pub const FLEET_STOP: Document =
    Document::of::<StoppedRun<'static>>("wirerate.fleet-stop/1", "wirerate fleet stop --json");

/// A run that was stopped.
#[derive(Debug, serde::Serialize, Described)]
struct StoppedRun<'a> {
    /// The run.
    run: &'a FleetName,
    /// The hosts.
    hosts: &'a [StoppedHost],
}

/// What became of a host.
#[derive(Debug, serde::Serialize, Described)]
struct StoppedHost {
    /// Its name.
    host: FleetName,
    /// How it ended; `null` if its last counts have not arrived.
    end: Option<String>,
    /// True if it had ended before.
    was_over: bool,
    /// True if it took part in the run.
    was_armed: bool,
    /// Frames that it sent; `null` if unknown: it has not ended.
    #[fact(unit = "frames")]
    sent: Option<u64>,
}

impl StoppedHost {
    fn text(&self) -> String {
        match (&self.end, self.sent) {
            _ if !self.was_armed => "it did not take part".to_owned(),
            (Some(end), _) if self.was_over => format!("it had ended before: {end}"),
            (Some(end), sent) => format!("{end}, {} frames sent", human_count(sent.unwrap_or(0))),
            (None, _) => "its last counts have not arrived: it is cut off or gone, and a host that is cut \
                          off ends with its lease"
                .to_owned(),
        }
    }
}

fn show(run: &FleetName, hosts: &[StoppedHost], json: bool) -> Result<(), Failure> {
    if json {
        return Ok(out::json(&FLEET_STOP, &StoppedRun { run, hosts })?);
    }
    let lines: Vec<String> = hosts.iter().map(|host| format!("  {}: {}\n", host.host, host.text())).collect();
    Ok(out::text(&format!("run {run}:\n{}", lines.concat()))?)
}
