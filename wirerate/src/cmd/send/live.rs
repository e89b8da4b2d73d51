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
use engine::{CatchUp, EngineKind};
use host::CpuList;
use packet::{Config, Flags, XmitMode};
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Twice the pace: a policer with a margin of 100 % lets a late run through.
const CATCH_UP_DEFAULT: CatchUp = CatchUp::Times(NonZeroU32::MIN.saturating_add(1));

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
    let cpus = cpus(args, &device)?;
    part_queues(args, &device, &cpus, &mut config)?;
    if config.xmit_mode == XmitMode::NetifReceive && config.dst_mac.is_zero() {
        // Into the device's own receive path: anybody else's frame would be thrown away there.
        config.dst_mac = device.facts.mac;
    }
    device.fill_in_dst_mac(&mut config, wish::first_destination(args), true)?;
    let job = Job {
        cpus,
        device: &device,
        netns: args.netns.clone(),
        config,
        pace,
        catch_up: args.catch_up.unwrap_or(CATCH_UP_DEFAULT),
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

/// Gives each of several af_xdp threads the queue of its CPU: a queue takes one socket, so that two threads on one
/// queue are one too many.
fn part_queues(args: &Args, device: &Device, cpus: &[u32], config: &mut Config) -> Result<(), Failure> {
    if args.engine.map(EngineKind::from) != Some(EngineKind::AfXdp) || cpus.len() < 2 {
        return Ok(());
    }
    let act = || format!("send from {} threads by af_xdp on {}", cpus.len(), args.device);
    if let Some(Queues::Listed(queues)) = args.queues {
        let why = format!("a queue takes one thread, and each would use queue {queues}");
        return Err(Failure::usage(act(), why).try_this("--queues cpu"));
    }
    let count = device.facts.tx_queues.max(1);
    if let Some((one, other)) = sharing(cpus, count) {
        let why = anyhow!("CPUs {one} and {other} would share a queue: it has {count}");
        return Err(Failure::refused(act(), why)
            .try_this("--threads 1")
            .try_this(format!("--cpus with a queue each (queue = CPU modulo {count})")));
    }
    config.flags.set(Flags::QUEUE_MAP_CPU, true);
    Ok(())
}

/// Two CPUs with the same one of `queue_count` queues.
fn sharing(cpus: &[u32], queue_count: u16) -> Option<(u32, u32)> {
    let mut owners = HashMap::new();
    cpus.iter().find_map(|cpu| owners.insert(cpu % u32::from(queue_count), *cpu).map(|other| (other, *cpu)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_share_a_queue_when_there_are_too_few() {
        assert_eq!(sharing(&[1, 0], 4), None);
        assert_eq!(sharing(&[3, 2, 7], 4), Some((3, 7)));
        assert_eq!(sharing(&[1, 0], 1), Some((1, 0)));
    }
}
