//! `wirerate fleet run`: prepare all hosts, start them at one time, watch, and print the account.

use super::agree;
use super::expect::FleetChecks;
use super::plan::{STAT_MS, TestPlan};
use super::show;
use super::test_file::TestFile;
use fleet::{FleetName, LastWords, Notice, Objection, Order, RunAccount, RunPlan, Stat, Watching};
use host::{monotonic_ns, realtime_ns};
use hub::{Controller, CountStream, GoRefused, Hub, LEASE_INTERVAL, OrderKind};
use program::advice;
use program::hub_access::{HubArgs, unusable_hub};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::time::interval;
use units::{human_duration, quantity_of, utc_time};

/// The hub has kept counts that the controller has heard after this time.
const KEPT_WITHIN: Duration = Duration::from_millis(500);
/// A host announces itself at most this long after the connection of its agent.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(4);
/// Interval of looks at what is announced.
const ANNOUNCED_POLL: Duration = Duration::from_millis(200);
/// A signal wakes no task, and hosts that end are noticed, at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why a host that was ready did not start.
const OTHERS: &str = "it was ready, and others were not";

/// Arguments of `wirerate fleet run`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FleetRunArgs {
    /// File of the test: its flows, and for how long (docs/fleet.md)
    #[arg(value_name = "TEST.toml")]
    test: PathBuf,
    #[command(flatten)]
    checks: FleetChecks,
    #[command(flatten)]
    hub: HubArgs,
}

/// Fills in the destinations. A host that has just connected announces itself a moment later.
async fn fill_in(plan: &mut TestPlan, hub: &Hub, stop: &Stop) -> Result<(), Failure> {
    let asked = Instant::now();
    loop {
        let unknown = plan.fill_in(&hub.hosts().await.map_err(unusable_hub)?.hosts);
        if unknown.is_empty() || stop.is_set() {
            return Ok(());
        }
        if asked.elapsed() >= ANNOUNCED_WITHIN {
            let names: Vec<&str> = unknown.iter().map(FleetName::as_str).collect();
            program::note!("not announced, so flows to it have no address: {}", names.join(", "));
            return Ok(());
        }
        tokio::time::sleep(ANNOUNCED_POLL).await;
    }
}

/// Runs a test.
pub(super) async fn run(args: &FleetRunArgs, stop: &Stop) -> Result<Outcome, Failure> {
    let test = TestFile::read(&args.test)?;
    let mut plan = TestPlan::of(&test, realtime_ns())?;
    let hub = args.hub.connect().await?;
    fill_in(&mut plan, &hub, stop).await?;
    let parts = plan.parts(&test);
    program::note!("run {}: preparing {} hosts", plan.run, parts.len());
    let asked = Instant::now();
    hub.keep_counts_of(&plan.hosts()).await.map_err(unusable_hub)?;
    let lease = Duration::from_millis(test.lease_ms());
    let controller = Controller::new(&hub, plan.run.clone(), lease, realtime_ns).await;
    let controller = controller.map_err(unusable_hub)?;
    let readiness = agree::prepare(&controller, parts, &test.policy(), test.arm_ms()).await;
    let readiness = ended_unless(&hub, &plan.run, readiness).await?;
    let (ready, after) = (readiness.armed().count() as u64, asked.elapsed().as_nanos() as u64);
    program::note!("{} ready after {}", quantity_of(ready, "host"), human_duration(after));
    show_objections(readiness.objections());
    for objection in readiness.objections() {
        // It may have armed, or still do so: its ports are free for others then.
        let _ = controller.release(&objection.host).await;
    }
    let mut run = RunPlan {
        run: plan.run.clone(),
        start_at_ns: realtime_ns(),
        duration_ns: test.duration_ns(),
        settle_ns: test.settle_ms() * 1_000_000,
        flows: plan.flows.clone(),
        hosts: plan.hosts().iter().map(|host| readiness.order(host)).collect(),
    };
    if !readiness.may_start(&test.policy()) {
        end(&hub, &run.run).await;
        let ready = run.hosts.iter_mut().filter(|host| host.is_armed);
        ready.for_each(|host| (host.is_armed, host.why) = (false, Some(OTHERS.to_owned())));
        program::note!("not started: nothing was sent");
        return show::account(&RunAccount::of(&run, &LastWords::of_run(&run)), &args.checks, args.hub.json);
    }
    let counts = ended_unless(&hub, &run.run, hub.counts(&run.run).await).await?;
    run.start_at_ns = readiness.start_at_ns(realtime_ns());
    // Kept before the start: a report then needs no controller.
    ended_unless(&hub, &run.run, hub.keep_plan(&run).await).await?;
    let armed = run.hosts.iter().filter(|host| host.is_armed).map(|host| host.host.clone());
    let orders = armed.map(|host| (host, Order::Go { start_at_ns: Some(run.start_at_ns) })).collect();
    let on_agreed = |after: Duration| {
        program::note!("all have agreed after {}", human_duration(after.as_nanos() as u64));
    };
    let refusals = controller.go(orders, run.start_at_ns, on_agreed).await;
    ended_unless(&hub, &run.run, controller.check()).await?;
    if !refusals.is_empty() {
        end(&hub, &run.run).await;
        show_objections(&refusals.iter().map(|refusal| refusal.objection.clone()).collect::<Vec<_>>());
        program::note!("not started: all hosts were told to end the run");
        show_unsure(&refusals, test.lease_ms());
        for GoRefused { objection: refusal, .. } in &refusals {
            let refused = |host: &&mut fleet::HostOrder| host.host == refusal.host;
            run.hosts.iter_mut().filter(refused).for_each(|host| host.why = Some(refusal.why.clone()));
        }
        let others = run.hosts.iter_mut().filter(|host| host.is_armed && host.why.is_none());
        others.for_each(|host| host.why = Some(OTHERS.to_owned()));
        run.hosts.iter_mut().for_each(|host| host.is_armed = false);
        // A report says the same.
        if let Err(why) = hub.keep_plan(&run).await {
            program::note!("`fleet report` will say that the hosts were to start: {why}");
        }
        return show::account(&RunAccount::of(&run, &LastWords::of_run(&run)), &args.checks, args.hub.json);
    }
    program::note!("starting at {}", utc_time(run.start_at_ns));
    let mut words = watch(&hub, counts, &run, test.settle_ms(), stop).await;
    // The hub may have counts that did not arrive here.
    match hub.last_words(&run).await {
        Ok(kept) => {
            warn_of_counts_not_kept(&hub, &run, &words, &kept).await;
            words.merge(kept);
        }
        Err(why) => {
            program::note!("the account has only what arrived here: {why}");
            eprintln!("  try: wirerate fleet report {}", run.run);
        }
    }
    show::account(&RunAccount::of(&run, &words), &args.checks, args.hub.json)
}

/// What the hub has returned. After an error, the agents end the run.
async fn ended_unless<T>(
    hub: &Hub,
    run: &FleetName,
    returned: Result<T, hub::HubError>,
) -> Result<T, Failure> {
    if returned.is_err() {
        end(hub, run).await;
    }
    returned.map_err(unusable_hub)
}

/// Names hosts whose last counts have arrived here, but are not kept by the hub.
async fn warn_of_counts_not_kept(hub: &Hub, run: &RunPlan, heard: &LastWords, kept: &LastWords) {
    let missing = |kept: &LastWords| -> Vec<&str> {
        let hosts = run.hosts.iter().map(|order| &order.host);
        hosts.filter(|host| heard.has_last(host) && !kept.has_last(host)).map(FleetName::as_str).collect()
    };
    if missing(kept).is_empty() {
        return;
    }
    tokio::time::sleep(KEPT_WITHIN).await;
    let names = match hub.newest_words(run).await {
        Ok(kept) => missing(&kept),
        Err(_) => missing(kept),
    };
    if !names.is_empty() {
        program::note!(
            "the hub has not kept the last counts of {}: `fleet report {}` is PARTIAL until it has",
            names.join(", "),
            run.run
        );
    }
}

/// Tells all hosts to end the run, also before its start. Those that are not reached end with their
/// lease.
async fn end(hub: &Hub, run: &FleetName) {
    let _ = hub.order(run, OrderKind::Stop).await;
    let _ = hub.flush().await;
}

/// Names the hosts that may send although the run was not started.
fn show_unsure(refusals: &[GoRefused], lease_ms: u64) {
    let lease = human_duration(lease_ms * 1_000_000);
    for refused in refusals.iter().filter(|refused| refused.is_silent) {
        let host = &refused.objection.host;
        program::note!(
            "{host} has not answered: if it has started and is cut off, it sends until its lease of \
             {lease} ends"
        );
    }
}

fn show_objections(objections: &[Objection]) {
    for objection in objections {
        program::note!("{}: {}", objection.host, objection.why);
        advice::for_objection(objection).iter().for_each(|what| eprintln!("  try: {what}"));
    }
}

/// Watches the run to its end.
async fn watch(hub: &Hub, mut counts: CountStream, run: &RunPlan, settle_ms: u64, stop: &Stop) -> LastWords {
    let start_ns = monotonic_ns() + run.start_at_ns.saturating_sub(realtime_ns());
    let mut watching = Watching::new(run, start_ns, STAT_MS * 1_000_000, settle_ms * 1_000_000);
    let (mut repeats, mut polls) = (interval(LEASE_INTERVAL), interval(POLL_INTERVAL));
    let (mut has_stopped, mut was_away, mut have_sent_all) = (false, false, false);
    let mut not_kept = BTreeSet::new();
    while !watching.is_over(monotonic_ns()) {
        tokio::select! {
            stat = counts.next() => match stat {
                Some(stat) => {
                    warn_of_refusing_hub(&stat, &mut not_kept);
                    show_notices(watching.hear(stat, monotonic_ns()));
                    if watching.has_sent_all() && !std::mem::replace(&mut have_sent_all, true) {
                        // Receivers wait for it.
                        let _ = hub.order(&run.run, OrderKind::Drain).await;
                    }
                }
                None => break,
            },
            // A host that has lost an order gets the next.
            _ = repeats.tick() => {
                if watching.has_sent_all() {
                    let _ = hub.order(&run.run, OrderKind::Drain).await;
                }
                if has_stopped {
                    let _ = hub.order(&run.run, OrderKind::Stop).await;
                }
            }
            _ = polls.tick() => {
                if stop.is_set() && !has_stopped {
                    has_stopped = true;
                    program::note!("stopping; a second Ctrl-C leaves at once");
                    let _ = hub.order(&run.run, OrderKind::Stop).await;
                }
                let is_away = !hub.is_connected();
                if is_away != was_away {
                    program::note!("the hub is {}", if is_away { "away: counts are kept by the hosts" } else { "back" });
                    was_away = is_away;
                }
                watching.hub(is_away, monotonic_ns());
                show_notices(watching.tick(monotonic_ns()));
            }
        }
    }
    watching.words().clone()
}

/// Says once per host that the hub does not keep its counts, and why.
fn warn_of_refusing_hub(stat: &Stat, told: &mut BTreeSet<FleetName>) {
    if let Some(why) = &stat.why_not_kept
        && told.insert(stat.host.clone())
    {
        program::note!("the hub does not keep the counts of {}: {why}", stat.host);
        eprintln!("  try: free space for store_dir of hub.conf, or a higher max_file_store");
    }
}

fn show_notices(notices: impl IntoIterator<Item = Notice>) {
    for notice in notices {
        match notice {
            Notice::Lost(host, silent_ns) => {
                program::note!(
                    "{host}: nothing for {}: lost, unless it comes back",
                    human_duration(silent_ns)
                );
            }
            Notice::Back(host) => program::note!("{host} is back"),
        }
    }
}
