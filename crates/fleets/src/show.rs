//! What controllers print: hosts, runs and accounts.

use super::expect::FleetChecks;
use facts::Document;
use fleet::{HostStatus, Message, PortStatus, RunAccount, RunPlan};
use hub::KnownHosts;
use program::out;
use program::outcome::{Failure, Outcome};
use units::{human_bps, human_duration, utc_time};

/// The result of a run over several hosts.
pub const FLEET: Document = Document::of::<RunAccount>(
    "wirerate.fleet/2",
    "wirerate fleet run --json and wirerate fleet report --json",
);

/// A host of a fleet.
pub const FLEET_HOST: Document =
    Document::of::<HostStatus>(HostStatus::SCHEMA, "wirerate fleet hosts --json");

/// A run as it was planned.
pub const FLEET_PLAN: Document = Document::of::<RunPlan>(RunPlan::SCHEMA, "wirerate fleet list --json");

/// Prints an account. The outcome is good if it is whole and its checks hold.
pub(super) fn account(account: &RunAccount, checks: &FleetChecks, json: bool) -> Result<Outcome, Failure> {
    match json {
        true => out::json(&FLEET, account)?,
        false => out::report(account)?,
    }
    Ok(if checks.hold(account) { Outcome::Done } else { Outcome::No })
}

/// Prints the hosts, a line per port.
pub(super) fn hosts(known: &KnownHosts, json: bool) -> Result<Outcome, Failure> {
    let KnownHosts { hosts, unreadable } = known;
    for (host, why) in unreadable {
        program::note!("{host}: its announcement cannot be read: {why}");
    }
    for host in hosts {
        if let Some(why) = host.version_fault() {
            program::note!("{}: {why}", host.host);
        }
    }
    if json {
        for host in hosts {
            out::json(&FLEET_HOST, host)?;
        }
        return Ok(Outcome::Done);
    }
    if hosts.is_empty() && unreadable.is_empty() {
        program::note!("no host has announced itself in the last six seconds");
        eprintln!("  try: wirerate agent --config agent-HOST.toml, on each host");
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for host in hosts {
        let double = if host.has_double { ", TWO AGENTS HAVE THIS NAME" } else { "" };
        text += &format!("{}: wirerate {}, {}{double}\n", host.host, host.version, clock_text(host));
        for port in &host.ports {
            text += &format!("  {}\n", port_line(port));
        }
    }
    out::text(&text)?;
    Ok(Outcome::Done)
}

fn clock_text(host: &HostStatus) -> String {
    let by = host.clock_daemon.as_ref().map(|daemon| format!(" by {daemon}")).unwrap_or_default();
    let clock = match host.clock.is_synchronized {
        true => format!("clock synchronized{by} within {}", human_duration(host.clock.bound_ns)),
        false if by.is_empty() => "clock not synchronized".to_owned(),
        false => format!("clock not synchronized{by} yet"),
    };
    match host.tai_offset_s {
        0 => clock,
        seconds => format!("{clock}, TAI {seconds} s ahead"),
    }
}

fn port_line(port: &PortStatus) -> String {
    let mut line = format!("{:<12} {}", port.name.as_str(), port.state);
    if port.device != port.name.as_str() {
        line += &format!(", device {}", port.device);
    }
    let netns = port.netns.as_ref().map(|netns| format!("in {netns}"));
    let speed = port.speed_bps.map(|bps| human_bps(bps as f64));
    let run = port.run.as_ref().map(|run| format!("in use by run {run}"));
    let route = port.is_default_route.then(|| "default route, so nothing is sent on it".to_owned());
    let engine = port.engine.as_ref().map(|engine| format!("sends by {engine}"));
    let (mac, address) = (port.mac.clone(), port.address.clone());
    let parts = [netns, port.driver.clone(), speed, mac, address, engine, route, run];
    parts.into_iter().flatten().for_each(|part| line += &format!(", {part}"));
    line
}

/// Prints the runs.
pub(super) fn runs(runs: &[RunPlan], json: bool) -> Result<Outcome, Failure> {
    for run in runs {
        match json {
            true => out::json(&FLEET_PLAN, run)?,
            false => out::text(&format!(
                "{}  {}  {}, {} flows, {} hosts\n",
                run.run,
                utc_time(run.start_at_ns),
                human_duration(run.duration_ns),
                run.flows.len(),
                run.hosts.len()
            ))?,
        }
    }
    if runs.is_empty() {
        program::note!("the hub keeps no run");
    }
    Ok(Outcome::Done)
}
