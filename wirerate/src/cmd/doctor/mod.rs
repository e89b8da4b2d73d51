//! `wirerate doctor [DEV]`: what works here, what limits it, and what to type. Nothing is sent, nothing changed.
//!
//! `host` gathers facts and `engine` asks its engines; what is made of the answers is pure.

pub mod device;
pub mod engines;
pub mod finding;
pub mod host;
pub mod place;
pub mod report;

use super::send::device::Device;
use super::send::live::nearest_cpus;
use crate::out;
use crate::outcome::{Failure, Outcome};
use ::host::{CpuList, HostError, Link, Machine, Netns, Stack};
use engine::{Request, Terms, Wish};
use engines::Said;
use packet::{Config, Cursor, DeviceFacts, MacAddr};
use place::Place;
use report::{Host, Listed, Report};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Where the frames of a question would go; none is sent.
const NOWHERE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0xff]);
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Arguments of `wirerate doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Sends nothing and changes nothing. As root it asks every engine; as anybody else it says what it \
                        could not find out.\n\n\
                        Exit codes: 0 done, also with notes and problems; 1 no engine works; 2 bad usage; 3 there is \
                        no such device or namespace."
)]
pub struct Args {
    /// The device to look at; without it the machine, and a line for each device
    #[arg(value_name = "DEV")]
    pub device: Option<String>,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// Looks, and prints what it found.
///
/// # Errors
/// Refused when there is no such device or namespace.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let machine = Machine::read();
    let report = match &args.device {
        Some(name) => look_at(Place { ifname: name.clone(), netns: args.netns.clone() }, &machine)?,
        None => overview(args.netns.clone(), &machine)?,
    };
    out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(report.outcome())
}

fn failed(act: impl Fn() -> String) -> impl Fn(HostError) -> Failure {
    move |why| Failure::host(act(), why)
}

/// One device from all sides.
fn look_at(place: Place, machine: &Machine) -> Result<Report, Failure> {
    let failed = failed(|| format!("look at {}", place.ifname));
    let found = Device::find(place.netns.as_deref(), &place.ifname).map_err(&failed)?;
    let state = found.stack.device_state(&place.ifname).map_err(&failed)?;
    let cpu = nearest_cpus(&found, None, 1)?[0];
    let said = ask(&found, cpu)?;
    let near = state.node.map(|node| cpus_of(node, machine));
    let look = device::Look { place: &place, state: &state, machine, cpu, near: near.as_ref() };
    let mut findings = device::findings(&look);
    findings.extend(host::findings(machine));
    let captures = engines::captures(&state, machine, &place);
    let mut unknown = state.unknown.clone();
    unknown.extend(host::unknown(machine));
    Ok(Report {
        device: Some(report::Device::of(&state)),
        engines: engines::rows(&said, &state),
        engine: Some(engines::engine_choice(&said)),
        capture: Some(engines::capture_choice(&captures, &state)),
        captures,
        devices: Vec::new(),
        host: Host::of(machine),
        netns: place.netns,
        findings,
        unknown,
    })
}

/// The machine, and every device in a line.
fn overview(netns: Option<String>, machine: &Machine) -> Result<Report, Failure> {
    let failed = failed(|| "list the devices".to_owned());
    let here = netns.as_deref().map_or_else(Netns::current, Netns::named).map_err(&failed)?;
    let stack = Stack::of(&here).map_err(&failed)?;
    let mut unknown = host::unknown(machine);
    let mut devices = Vec::new();
    for link in stack.links().map_err(&failed)? {
        match listed(&here, &stack, &link) {
            Ok(row) => devices.push(row),
            // It may have gone meanwhile, which keeps nobody from looking at the others.
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
        host: Host::of(machine),
        netns,
        findings: host::findings(machine),
        unknown,
    })
}

fn listed(netns: &Netns, stack: &Stack, link: &Link) -> Result<Listed, Failure> {
    let failed = failed(|| format!("look at {}", link.name));
    let found = Device::find_in(netns.clone(), &link.name).map_err(&failed)?;
    let said = ask(&found, nearest_cpus(&found, None, 1)?[0])?;
    Ok(Listed {
        device: report::Device::from(link),
        is_default_route: stack.carries_default_route(link).map_err(&failed)?,
        has_hope: report::has_hope(said.iter().map(|said| said.answer)),
        engine: engines::engine_choice(&said),
    })
}

/// Asks all engines about plain frames from one CPU.
fn ask(device: &Device, cpu: u32) -> Result<Vec<Said>, Failure> {
    let mut config = Config { dst_mac: NOWHERE, dst_min: Some(NOWHERE_V4), ..Config::default() };
    let facts = DeviceFacts { cpu, ..device.facts };
    let (plan, cursor): (_, Cursor) = super::send::plan(&mut config, &facts, 1, &Arc::default())?;
    let request = Request {
        ifname: device.link.name.clone(),
        plan,
        cursor,
        mode: config.xmit_mode,
        wish: Wish::of(&config),
        terms: Terms::default(),
        engine: None,
        batch: None,
        next_ns: None,
    };
    let act = || format!("ask the engines about {}", device.link.name);
    let probed = engine::probe(&device.netns, cpu, &request).map_err(|why| Failure::engine(act(), why))?;
    Ok(probed.into_iter().map(Said::of).collect())
}

/// The CPUs of a NUMA node.
fn cpus_of(node: u32, machine: &Machine) -> CpuList {
    machine.online.iter().filter(|cpu| ::host::node_of_cpu(*cpu) == Some(node)).collect()
}
