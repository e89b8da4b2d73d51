//! A real run of `wirerate send`: the device, its next hop, the CPUs, and the answer.

use super::args::Args;
use super::device::Device;
use super::job::Job;
use super::pace::Pace;
use super::report::{End, Report};
use super::wish;
use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::units::{Interval, Queues};
use anyhow::anyhow;
use host::CpuList;
use packet::{Config, XmitMode};

/// Sends what `config` asks for and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn run(args: &Args, mut config: Config, pace: Pace, stop: &Stop) -> Result<Outcome, Failure> {
    let act = || format!("send on {}", args.device);
    let device =
        Device::find(args.netns.as_deref(), &args.device).map_err(|why| Failure::host(act(), why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    check_queues(args, &device)?;
    check_node(args)?;
    if config.xmit_mode == XmitMode::NetifReceive && config.dst_mac.is_zero() {
        // Into the device's own receive path: anybody else's frame would be thrown away there.
        config.dst_mac = device.facts.mac;
    }
    device.fill_in_dst_mac(&mut config, wish::first_destination(args), true)?;
    let job = Job {
        cpus: cpus(args, &device)?,
        device: &device,
        netns: args.netns.clone(),
        config,
        pace,
        duration_ns: args.duration.map_or(0, |duration| duration.0),
        engine: args.engine.map(Into::into),
        batch: args.batch,
    };
    let (report, error) = job.run(stop, !args.json)?;
    conclude(args, &report, error)
}

/// pktgen would take the last queue in silence for one that is not there, and no wish for queue 0.
fn check_queues(args: &Args, device: &Device) -> Result<(), Failure> {
    let Some(Queues::Listed(queues)) = args.queues else { return Ok(()) };
    let act = || format!("send to queue {queues} of {}", args.device);
    let count = device.facts.tx_queues.max(1);
    if queues.last >= count {
        let why = anyhow!("it has {count} transmit queues, the last is {}", count - 1);
        return Err(Failure::refused(act(), why).try_this(format!("--queues 0-{}", count - 1)));
    }
    if queues == Interval::one(0) && args.engine.is_none() {
        let why = "queue 0 alone is also what pktgen says for no wish, so the engine must be named";
        return Err(Failure::usage(act(), why).try_this("--engine af_xdp"));
    }
    Ok(())
}

/// pktgen says `ERROR: node not possible` and goes on without.
fn check_node(args: &Args) -> Result<(), Failure> {
    let Some(node) = args.node else { return Ok(()) };
    let act = || format!("use memory of node {node}");
    let nodes = CpuList::possible_nodes().map_err(|why| Failure::host(act(), why))?;
    match nodes.contains(node) {
        true => Ok(()),
        false => Err(Failure::refused(act(), anyhow!("this machine has node {nodes} only"))),
    }
}

/// Prints the report, or the error when nothing was sent at all, and says whether the answer is yes.
fn conclude(args: &Args, report: &Report, error: Option<engine::EngineError>) -> Result<Outcome, Failure> {
    let act = format!("send on {}", args.device);
    if let Some(error) = error {
        let failure = Failure::engine(act, error);
        if report.offered == 0 {
            return Err(failure);
        }
        eprint!("{failure}");
    }
    out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(if is_good(report) { Outcome::Done } else { Outcome::No })
}

/// A ring that was full at times is how a fast sender meets a slow driver; everything else is trouble.
fn is_good(report: &Report) -> bool {
    let trouble = report.error_causes.iter().any(|cause| cause.cause != "ring_full");
    !trouble && !matches!(report.end, End::Failed | End::DeviceGone)
}

/// The CPUs to send from: those asked for, or as many as asked for near the device.
fn cpus(args: &Args, device: &Device) -> Result<Vec<u32>, Failure> {
    if let Some(list) = &args.cpus {
        return Ok(list.0.clone());
    }
    nearest_cpus(device, args.node, args.threads.unwrap_or(1) as usize)
}

/// CPUs to send from, those of `node` where one is named, else as near to the device as can be.
///
/// # Errors
/// Bad usage when there are not so many.
pub fn nearest_cpus(device: &Device, node: Option<u32>, wanted: usize) -> Result<Vec<u32>, Failure> {
    let failed = |why| Failure::host("choose CPUs to send from", why);
    let allowed = CpuList::allowed().map_err(failed)?;
    let node = match node {
        Some(node) => Some(node),
        None => device.stack.numa_node(&device.link).map_err(failed)?,
    };
    let mut cpus: Vec<_> = allowed.iter().collect();
    // Near the device first; of these the last, since the first often serve everybody's interrupts.
    cpus.sort_by_key(|cpu| (node.is_some() && host::node_of_cpu(*cpu) != node, std::cmp::Reverse(*cpu)));
    if wanted > cpus.len() {
        return Err(Failure::usage(
            format!("send from {wanted} threads"),
            format!("each needs a CPU of its own, and there are {}", cpus.len()),
        )
        .try_this(format!("--threads {}", cpus.len())));
    }
    cpus.truncate(wanted);
    Ok(cpus)
}
