//! A run that is ready to start: its device, next hop, frames and CPUs.

use super::device::TxDevice;
use super::end_frames;
use super::job::SendJob;
use super::job_packets;
use super::next_hop::{self, NextHopMac};
use super::packets::Packets;
use super::rate::RequestedRate;
use super::report::Report;
use super::run::{self, DeviceJob, find};
use super::watch::View;
use anyhow::anyhow;
use engine::{EngineError, EngineKind};
use host::CpuList;
use measure::AnnouncedEnd;
use packet::{Config, Flags};
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use std::collections::HashMap;
use units::{Interval, Queues, quantity_of};

/// Frames for a device that was found.
#[derive(Debug)]
pub struct ReadyRun {
    device: TxDevice,
    next_hop: Option<NextHopMac>,
    config: Config,
    /// The frames, if they are not those of `config`.
    packets: Option<Packets>,
    cpus: Vec<u32>,
    pace: RequestedRate,
}

impl ReadyRun {
    /// Finds the device and the next hop. The frames are those of `pktgen`, or without it the
    /// packets of `job`.
    ///
    /// # Errors
    /// Bad usage, in a text of packets with the position of the error; refused by the host or the
    /// device.
    pub fn prepare(job: &SendJob, pktgen: Option<Config>) -> Result<Self, Failure> {
        if pktgen.is_none() {
            job_packets::check(job)?;
        }
        let pace = RequestedRate::of(job)?;
        let device = find(job, job.xmit_mode)?;
        check_queues(job, &device)?;
        check_node(job)?;
        let cpus = run::cpus(job, &device)?;
        let are_queues_parted = are_queues_parted(job, &device, &cpus)?;
        let (mut config, packets, next_hop) = match pktgen {
            Some(mut config) => {
                let next_hop = next_hop::of_job(job, &device, &mut config)?;
                (config, None, next_hop)
            }
            None => {
                let seed = job.seed.unwrap_or_else(fresh_seed);
                let (dst_mac, next_hop) = job_packets::next_hop(job, &device)?;
                let mut packets = job_packets::packets(job, dst_mac, &device.facts, seed)?;
                job_packets::mark(&mut packets, job, cpus.len(), None)?;
                (job_packets::config(job, &packets, seed)?, Some(packets), next_hop)
            }
        };
        if are_queues_parted {
            config.flags.set(Flags::QUEUE_MAP_CPU, true);
        }
        Ok(Self { device, next_hop, config, packets, cpus, pace })
    }

    /// How the frames are sent, and the signature at the start of their payload.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Flows that marks of the packets name; 0 without marks.
    pub fn flow_count(&self) -> u32 {
        self.packets.as_ref().map_or(0, Packets::flow_count)
    }

    /// Frames that have one number.
    pub fn copies(&self) -> u64 {
        self.config.clone_skb.max(1) as u64
    }

    /// Sends the frames. An error is returned beside the report of what was sent before it.
    ///
    /// # Errors
    /// Refused by the host or the device before the first frame.
    pub fn transmit(self, job: &SendJob, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let end_frames = end_frames::count(job)?;
        let note = self.packets.as_ref().and_then(|packets| job_packets::note(job, packets));
        note.iter().for_each(|note| stop.console().note(note));
        let run = DeviceJob {
            next_hop: self.next_hop,
            packets: self.packets.clone(),
            pace: self.pace,
            ..DeviceJob::of(job, &self.device, self.cpus.clone(), self.config.clone())
        };
        let (report, error) = run.run(stop, View::of(job, stop.console()))?;
        if end_frames > 0
            && error.is_none()
            && let Err(why) = self.announce(job, report.sent.div_ceil(self.copies()), end_frames)
        {
            why.show(stop.console());
        }
        Ok((report, error))
    }

    /// Tells a receiver in `count` frames that `sent` numbers were sent.
    fn announce(&self, job: &SendJob, sent: u64, count: u32) -> Result<(), Failure> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let frame = match &self.packets {
            None => end_frames::of_pktgen(&self.device, cpu, &self.config, sent)?,
            Some(packets) => {
                let end = AnnouncedEnd { run: Some(job.run.unwrap_or(0)), sent };
                packets.end_frame(&end.emit()).ok_or_else(|| end_frames::no_frame(count))?
            }
        };
        end_frames::send(&self.device, cpu, frame, count)
    }
}

/// Sends the frames of `pktgen`, or without it the packets of `job`, and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn run(job: &SendJob, pktgen: Option<Config>, stop: &Stop) -> Result<Outcome, Failure> {
    let (report, error) = ReadyRun::prepare(job, pktgen)?.transmit(job, stop)?;
    run::conclude(&job.device, job.netns.as_deref(), &report, error, stop.console(), |report| {
        run::print(job, report, stop.console())
    })
}

/// pktgen silently takes the last queue for one that does not exist, and treats queue 0 as unset.
fn check_queues(job: &SendJob, device: &TxDevice) -> Result<(), Failure> {
    let Some(Queues::Listed(queues)) = job.queues else { return Ok(()) };
    let act = || format!("send to queue {queues} of {}", job.device);
    let count = device.facts.tx_queues.max(1);
    if queues.last >= count {
        let has = quantity_of(count.into(), "transmit queue");
        let why = anyhow!("it has {has}, the last is {}", count - 1);
        return Err(Failure::refused(act(), why).try_this("--queues cpu"));
    }
    if queues == Interval::one(0) && job.engine.is_none() {
        let why = "pktgen treats queue 0 alone as unset, so the engine must be named";
        return Err(Failure::usage(act(), why).try_this("--engine af_xdp"));
    }
    Ok(())
}

/// True if each of several af_xdp threads takes the queue of its CPU, because a queue takes one
/// socket.
fn are_queues_parted(job: &SendJob, device: &TxDevice, cpus: &[u32]) -> Result<bool, Failure> {
    if job.engine != Some(EngineKind::AfXdp) || cpus.len() < 2 {
        return Ok(false);
    }
    let act = || format!("send from {} threads by af_xdp on {}", cpus.len(), job.device);
    if let Some(Queues::Listed(queues)) = job.queues {
        let why = format!("a queue takes one thread, and all would use queue {queues}");
        return Err(Failure::usage(act(), why).try_this("--queues cpu"));
    }
    let count = device.facts.tx_queues.max(1);
    if let Some((one, other)) = sharing(cpus, count) {
        let why = anyhow!("CPUs {one} and {other} would share a queue: it has {count}");
        return Err(Failure::refused(act(), why)
            .try_this("--threads 1")
            .try_this(format!("--cpus with a queue each (queue = CPU modulo {count})")));
    }
    Ok(true)
}

/// Two CPUs with the same one of `queue_count` queues.
fn sharing(cpus: &[u32], queue_count: u16) -> Option<(u32, u32)> {
    let mut owners = HashMap::new();
    cpus.iter().find_map(|cpu| owners.insert(cpu % u32::from(queue_count), *cpu).map(|other| (other, *cpu)))
}

/// pktgen reports `ERROR: node not possible` and continues without.
fn check_node(job: &SendJob) -> Result<(), Failure> {
    let Some(node) = job.node else { return Ok(()) };
    let act = || format!("use memory of node {node}");
    let nodes = CpuList::possible_nodes().map_err(|why| Failure::host(act(), why))?;
    match nodes.contains(node) {
        true => Ok(()),
        false => Err(Failure::refused(act(), anyhow!("this machine has node {nodes} only"))
            .try_this("leave --node out")),
    }
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
