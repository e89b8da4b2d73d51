//! `wirerate doctor [DEV]`: reports what works here, what limits it, and what to try.
//!
//! It sends nothing and changes nothing. `host` reads the facts and `engine` probes its engines;
//! the checks are pure functions of the results.
#![forbid(unsafe_code)]

pub mod device;
pub mod engines;
pub mod finding;
pub mod host;
pub mod report;
pub mod target;

use ::host::{CpuList, HostError, Link, Machine, Netns, Stack};
use engine::{Limits, Request, TxOptions};
use engines::EngineStatus;
use packet::{Config, Cursor, DeviceFacts, MacAddr};
use program::out;
use program::outcome::{Failure, Outcome};
use report::{DeviceRow, DeviceSummary, HostSummary, Report, TextLayout};
use sender::device::TxDevice;
use sender::run::nearest_cpus;
use std::net::Ipv4Addr;
use std::sync::Arc;
use target::DoctorTarget;

/// Destination of the frames that the engines are probed with; none is sent.
const NOWHERE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0xff]);
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Arguments of `wirerate doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Sends nothing and changes nothing. Without root it reports what it could not determine.\n\n\
                        Exit codes: 0 done, also with notes and problems; 1 no engine works; 2 bad usage; 3 there is \
                        no such device or namespace, or the hub cannot be used."
)]
pub struct Args {
    /// The device, DEV or DEV@NETNS; without it the machine, and one line per device
    #[arg(value_name = "DEV")]
    pub device: Option<String>,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Check a hub of `wirerate fleet` instead: its address, or the file of its controller
    #[arg(long, value_name = "URL|FILE", conflicts_with_all = ["device", "netns", "all", "json"])]
    pub hub: Option<String>,
    /// Also list what is as it should be, and why each engine is not used
    #[arg(long)]
    pub all: bool,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs the checks and prints the report.
///
/// # Errors
/// When there is no such device or namespace.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    if let Some(hub) = &args.hub {
        return program::hub_access::examine(hub);
    }
    let machine = Machine::read();
    let report = match &args.device {
        Some(name) => examine(DoctorTarget { ifname: name.clone(), netns: args.netns.clone() }, &machine)?,
        None => overview(args.netns.clone(), &machine)?,
    };
    let layout = TextLayout {
        columns: program::term::stdout_columns(),
        has_all: args.all,
        is_painted: program::term::has_colours(&std::io::stdout()),
    };
    match args.json {
        true => out::text(&report.json_line())?,
        false => out::text(&report.text(layout))?,
    }
    Ok(report.outcome())
}

fn failed(act: impl Fn() -> String) -> impl Fn(HostError) -> Failure {
    move |why| Failure::host(act(), why)
}

/// The report for one device.
fn examine(target: DoctorTarget, machine: &Machine) -> Result<Report, Failure> {
    let failed = failed(|| format!("examine {}", target.ifname));
    let found = TxDevice::find(target.netns.as_deref(), &target.ifname).map_err(&failed)?;
    let state = found.stack.device_state(&target.ifname).map_err(&failed)?;
    let cpu = nearest_cpus(&found, None, 1)?[0];
    let mut statuses = probe(&found, cpu)?;
    let down_peer = found.down_peer().filter(|_| !state.link.has_carrier());
    if let Some(peer) = &down_peer {
        let advised = statuses.iter_mut().filter(|status| status.advice.is_some());
        advised.for_each(|status| status.advice = Some(peer.up.clone()));
    }
    let near = state.node.map(|node| cpus_of(node, machine));
    let context = device::Context {
        target: &target,
        state: &state,
        machine,
        cpu,
        near: near.as_ref(),
        down_peer: down_peer.as_ref(),
    };
    let mut findings = device::findings(&context);
    findings.extend(host::findings(machine));
    let captures = engines::captures(&state, machine);
    let mut unknown = state.unknown.clone();
    unknown.extend(host::unknown(machine));
    Ok(Report {
        device: Some(DeviceSummary::of(&state)),
        engines: engines::rows(&statuses, &state),
        engine: Some(engines::engine_choice(&statuses)),
        capture: Some(engines::capture_choice(&captures, &state)),
        captures,
        devices: Vec::new(),
        host: HostSummary::of(machine),
        netns: target.netns,
        findings,
        unknown,
    })
}

/// The report for the machine, with one line per device.
fn overview(netns: Option<String>, machine: &Machine) -> Result<Report, Failure> {
    let failed = failed(|| "list the devices".to_owned());
    let here = netns.as_deref().map_or_else(Netns::current, Netns::named).map_err(&failed)?;
    let stack = Stack::of(&here).map_err(&failed)?;
    let mut unknown = host::unknown(machine);
    let mut devices = Vec::new();
    for link in stack.links().map_err(&failed)? {
        match listed(&here, &stack, &link) {
            Ok(row) => devices.push(row),
            // The device may be gone by now; the others are still listed.
            Err(failure) => unknown.push(format!("{}: {}", link.name, failure.to_string().trim())),
        }
    }
    Ok(Report {
        device: None,
        engines: Vec::new(),
        engine: None,
        captures: Vec::new(),
        capture: None,
        devices,
        host: HostSummary::of(machine),
        netns,
        findings: host::findings(machine),
        unknown,
    })
}

fn listed(netns: &Netns, stack: &Stack, link: &Link) -> Result<DeviceRow, Failure> {
    let failed = failed(|| format!("examine {}", link.name));
    let found = TxDevice::find_in(netns.clone(), &link.name).map_err(&failed)?;
    let statuses = probe(&found, nearest_cpus(&found, None, 1)?[0])?;
    Ok(DeviceRow {
        device: DeviceSummary::from(link),
        is_default_route: stack.carries_default_route(link).map_err(&failed)?,
        may_work: report::may_work(statuses.iter().map(|status| status.answer)),
        engine: engines::engine_choice(&statuses),
    })
}

/// The engine that `send` takes for plain frames on a device, if one can be used.
///
/// # Errors
/// Refused by the host.
pub fn engine_of(device: &TxDevice) -> Result<Option<&'static str>, Failure> {
    let statuses = probe(device, nearest_cpus(device, None, 1)?[0])?;
    Ok(engines::engine_choice(&statuses).name)
}

/// Probes all engines with plain frames from one CPU.
fn probe(device: &TxDevice, cpu: u32) -> Result<Vec<EngineStatus>, Failure> {
    let mut config = Config { dst_mac: NOWHERE, dst_min: Some(NOWHERE_V4), ..Config::default() };
    let facts = DeviceFacts { cpu, ..device.facts };
    let (plan, cursor): (_, Cursor) = sender::plan(&mut config, &facts, 1, &Arc::default())?;
    let request = Request {
        ifname: device.link.name.clone(),
        plan,
        cursor,
        mode: config.xmit_mode,
        options: TxOptions::of(&config),
        limits: Limits::default(),
        engine: None,
        batch: None,
        next_ns: None,
    };
    let act = || format!("probe the engines on {}", device.link.name);
    let probed =
        engine::probe(&device.netns, cpu, &request).map_err(|why| Failure::engine(act(), why, None))?;
    Ok(probed.into_iter().map(|probed| EngineStatus::of(probed, &device.command_place())).collect())
}

/// The CPUs of a NUMA node.
fn cpus_of(node: u32, machine: &Machine) -> CpuList {
    machine.online.iter().filter(|cpu| ::host::node_of_cpu(*cpu) == Some(node)).collect()
}
