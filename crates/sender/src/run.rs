//! A run of `wirerate send`: the device, its next hop, the CPUs, the workers, and the report.

use super::control::SendControl;
use super::device::TxDevice;
use super::device_count::DeviceCount;
use super::job::SendJob;
use super::next_hop::NextHopMac;
use super::packets::Packets;
use super::rate::RequestedRate;
use super::report::{self, EndReason, Report, RunInfo};
use super::split::shares;
use super::watch::{View, Watch};
use super::workers::{SentTotals, WorkerSet};
use engine::{CatchUp, EngineError, EngineKind, Limits, Request, SendFcs, TxOptions};
use host::{CpuList, StartTime};
use packet::{Config, DeviceFacts, XmitMode};
use program::console::Console;
use program::monitor::sources::{self, DeviceLabels};
use program::outcome::{Failure, Outcome};
use program::row_printer::{Joined, RowFormat};
use program::seed::fresh_seed;
use program::start_at::{announce, left, refuse_if_late};
use program::stop::Stop;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::{time_of_day_ns, utc_time};

/// Twice the rate: a policer with a margin of 100 % passes a late run.
pub const CATCH_UP_DEFAULT: CatchUp = CatchUp::Times(NonZeroU32::MIN.saturating_add(1));

/// Finds the device, which can send and may be sent on.
///
/// # Errors
/// There is none, it is down, or it carries the default route; or the time to start has passed.
pub fn find(job: &SendJob, xmit_mode: XmitMode) -> Result<TxDevice, Failure> {
    refuse_if_late(job.start_at, || format!("send on {}", job.device))?;
    let device = TxDevice::find(job.netns.as_deref(), &job.device)
        .map_err(|why| Failure::host(format!("send on {}", job.device), why))?;
    if !job.allow_default_route {
        device.spare_default_route()?;
    }
    device.check_state(xmit_mode != XmitMode::NetifReceive)?;
    Ok(device)
}

/// The command line.
pub fn argv() -> Vec<String> {
    std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Runs `requests` to their end. An error is returned beside the report of what was sent before it.
///
/// # Errors
/// When the threads cannot be started.
pub fn drive(
    device: &TxDevice,
    requests: Vec<(u32, Request)>,
    info: RunInfo,
    stop: &Stop,
    view: View,
) -> Result<(Report, Option<EngineError>), Failure> {
    let (started, cpu_time) = (Instant::now(), host::process_cpu_time());
    let limits = requests.iter().map(|(_, request)| request.limits).collect();
    let mode = requests.first().map_or(XmitMode::StartXmit, |(_, request)| request.mode);
    let device_count = DeviceCount::start(device, mode);
    announce(info.start_at);
    let left = left(info.start_at);
    let workers = WorkerSet::start(&device.netns, requests, stop, info.start_at)?;
    workers.share(&view.started);
    let labels = DeviceLabels::new(&info.device, info.netns.as_deref());
    let console = stop.console();
    let _counted = console.count_sender_in(sources::send(labels, workers.sources()));
    let control = Arc::new(workers.control(limits));
    let offered = console.offer(Arc::<SendControl>::clone(&control));
    let mut watch = Watch::new(console, view, info.count);
    let done = workers.finish(stop, |totals| {
        if !watch.see(totals, Instant::now()) {
            stop.set();
        }
    });
    drop(offered);
    // Both include building and removing the engines, which matters in a short run, but not the
    // wait for a requested time.
    let elapsed = started.elapsed().checked_sub(left).unwrap_or_else(|| started.elapsed());
    let cpus_busy = (host::process_cpu_time() - cpu_time).div_duration_f64(elapsed);
    let mut report = report::sum_up(info, &done, cpus_busy, control.changes());
    device_count.enter(device, stop, &mut report);
    watch.finish(SentTotals::of(&done), Duration::from_nanos(report.duration_ns))?;
    Ok((report, report::failure(done)))
}

/// Prints the report, or the error if nothing was sent. Returns the outcome.
///
/// # Errors
/// Nothing was sent.
pub fn conclude(
    device: &str,
    netns: Option<&str>,
    report: &Report,
    error: Option<EngineError>,
    console: &Console,
    print: impl FnOnce(&Report) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let act = format!("send on {device}");
    if let Some(error) = error {
        let failure = Failure::engine(act, error, netns);
        if report.offered == 0 {
            return Err(failure);
        }
        failure.show(console);
    }
    print(report)?;
    Ok(if is_good(report) { Outcome::Done } else { Outcome::No })
}

/// Prints the report to `console` as `job` says.
///
/// # Errors
/// When standard output is closed.
pub fn print(job: &SendJob, report: &Report, console: &Console) -> Result<(), Failure> {
    let histogram = if job.histogram { report.histogram() } else { String::new() };
    let format = RowFormat::of(job.json, job.csv && !job.json);
    Ok(console.report(format, &report.json_line(), &Joined(report, histogram))?)
}

/// A full ring is normal for a fast sender with a slow driver, and costs retries. Errors are
/// failures, and so are a rate that was not reached and a run that was stopped before its count or
/// time.
fn is_good(report: &Report) -> bool {
    let is_short = report.rate_missed || report.is_unfinished();
    report.errors == 0 && !is_short && !matches!(report.end, EndReason::Failed | EndReason::DeviceGone)
}

/// The CPUs to send from: those of `--cpus`, or as many as `--threads` near the device.
///
/// # Errors
/// Bad usage when there are fewer.
pub fn cpus(job: &SendJob, device: &TxDevice) -> Result<Vec<u32>, Failure> {
    if let Some(list) = &job.cpus {
        return Ok(list.0.clone());
    }
    nearest_cpus(device, job.node, job.threads.unwrap_or(1) as usize)
}

/// `wanted` CPUs to send from: those of `node` if there is one, else those nearest to the device.
///
/// # Errors
/// Bad usage when there are fewer.
pub fn nearest_cpus(device: &TxDevice, node: Option<u32>, wanted: usize) -> Result<Vec<u32>, Failure> {
    let failed = |why| Failure::host("choose CPUs to send from", why);
    let allowed = CpuList::allowed().map_err(failed)?;
    let node = match node {
        Some(node) => Some(node),
        None => device.stack.numa_node(&device.link).map_err(failed)?,
    };
    let mut cpus: Vec<_> = allowed.iter().collect();
    // Near the device first; of these the last, because the first ones often serve interrupts.
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

/// Frames to send on one device.
#[derive(Debug)]
pub struct DeviceJob<'a> {
    /// The device.
    pub device: &'a TxDevice,
    /// Its namespace, as the user named it.
    pub netns: Option<String>,
    /// The neighbour whose MAC address the frames have, unless it was given.
    pub next_hop: Option<NextHopMac>,
    /// The frames, and how they are sent.
    pub config: Config,
    /// The frames, if they are not those of `config`.
    pub packets: Option<Packets>,
    /// The number of the stream in signatures, if there are several.
    pub stream: u32,
    /// How fast.
    pub pace: RequestedRate,
    /// How fast when it is late.
    pub catch_up: CatchUp,
    /// How long, in nanoseconds; 0 for no end.
    pub duration_ns: u64,
    /// When the first frame is due; `None` for as soon as all is ready.
    pub start_at: Option<StartTime>,
    /// The CPUs to send from, one thread each.
    pub cpus: Vec<u32>,
    /// The requested engine.
    pub engine: Option<EngineKind>,
    /// The requested batch size.
    pub batch: Option<u32>,
    /// What frames have in place of the right frame check sequence.
    pub fcs: Option<SendFcs>,
    /// The run waits for a link that is down.
    pub keep_going: bool,
    /// The threads spin between frames instead of sleeping.
    pub spins: bool,
    /// Send frames that are longer than the MTU of the device.
    pub allow_long: bool,
    /// The option of the command that sets it.
    pub long_option: &'static str,
}

impl<'a> DeviceJob<'a> {
    /// A job at top speed, with nothing else requested.
    pub fn new(device: &'a TxDevice, netns: Option<&str>, cpus: Vec<u32>, config: Config) -> Self {
        Self {
            device,
            netns: netns.map(str::to_owned),
            next_hop: None,
            config,
            packets: None,
            stream: 0,
            pace: RequestedRate::LineRate,
            catch_up: CATCH_UP_DEFAULT,
            duration_ns: 0,
            start_at: None,
            cpus,
            engine: None,
            batch: None,
            fcs: None,
            spins: false,
            keep_going: false,
            allow_long: false,
            long_option: "--allow-long",
        }
    }

    /// A run as `job` says, except for the frames and their rate.
    pub fn of(job: &SendJob, device: &'a TxDevice, cpus: Vec<u32>, config: Config) -> Self {
        Self {
            catch_up: job.catch_up.unwrap_or(CATCH_UP_DEFAULT),
            duration_ns: job.duration_ns(),
            start_at: job.start_at,
            engine: job.engine,
            batch: job.batch,
            fcs: job.send_fcs,
            spins: job.spin,
            keep_going: job.keep_going,
            allow_long: job.allow_long,
            ..Self::new(device, job.netns.as_deref(), cpus, config)
        }
    }

    /// Sends until the count, the duration or a stop ends the run. An error is returned beside the
    /// report of what was sent before it.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn run(mut self, stop: &Stop, view: View) -> Result<(Report, Option<EngineError>), Failure> {
        let seed = self.config.seed.unwrap_or_else(fresh_seed);
        let requests = self.requests(seed)?;
        drive(self.device, requests, self.info(seed, time_of_day_ns()), stop, view)
    }

    fn long_advice(&self) -> String {
        format!("{} if devices on the way take such frames", self.long_option)
    }

    fn info(self, seed: u64, time_ns: u64) -> RunInfo {
        RunInfo {
            device: self.device.link.name.clone(),
            is_veth: self.device.link.is_kind("veth"),
            netns: self.netns,
            next_hop: self.next_hop,
            start_time: utc_time(self.start_at.map_or(time_ns, |start_at| start_at.unix_ns)),
            start_at: self.start_at,
            argv: argv(),
            interval_ps: self.pace.interval_ps(&self.config),
            asked: self.pace.asked(&self.config),
            seed,
            notes: notes(&self.config, self.packets.as_ref()),
            streams: Vec::new(),
            count: self.config.count,
            duration_ns: self.duration_ns,
        }
    }

    /// One run per thread.
    ///
    /// # Errors
    /// Frames that cannot be made.
    pub fn requests(&mut self, seed: u64) -> Result<Vec<(u32, Request)>, Failure> {
        let associations = self.device.associations(&self.config);
        let associations = associations.map_err(|why| Failure::host("read security associations", why))?;
        if let Some(packets) = &self.packets {
            let (mut frame_len, tags_len) = packets.longest();
            if self.config.asks_for_ipsec() {
                let plan =
                    super::plan_of_packets(packets, 0, &self.config, &self.device.facts, &associations)?;
                let lens: Vec<u32> = plan.iter().flat_map(|(plan, _)| plan.packet_lens()).collect();
                frame_len = lens.iter().copied().max().unwrap_or(frame_len);
                let mean_len = lens.iter().sum::<u32>() / lens.len().max(1) as u32;
                (self.config.min_pkt_size, self.config.max_pkt_size) = (mean_len, mean_len);
            }
            if !self.allow_long {
                self.device
                    .check_length(frame_len, tags_len)
                    .map_err(|refused| refused.try_this(self.long_advice()))?;
            }
        }
        let pace = self.pace.for_lengths(&self.config);
        let shares = shares(self.config.count, pace, seed, self.cpus.len() as u32);
        let mut requests = Vec::new();
        for (index, (share, cpu)) in shares.into_iter().zip(&self.cpus).enumerate() {
            let facts = DeviceFacts { cpu: *cpu, ..self.device.facts };
            sign_thread(&mut self.config, self.stream + index as u32);
            let (plan, mut cursor) = match &self.packets {
                Some(packets) => {
                    match super::plan_of_packets(packets, index as u32, &self.config, &facts, &associations)?
                    {
                        Some(made) => made,
                        None => continue,
                    }
                }
                None => super::plan(&mut self.config, &facts, seed, &associations)?,
            };
            if self.packets.is_none() && !self.allow_long {
                let tags_len = self.config.tags_len();
                self.device.check_length(plan.frame_len_max(), tags_len).map_err(|refused| {
                    refused
                        .try_this(format!("--size {}", self.device.frame_len_max(tags_len)))
                        .try_this(self.long_advice())
                })?;
            }
            cursor.seq_num = share.seq_num;
            cursor.rng = share.rng;
            let request = Request {
                ifname: self.device.link.name.clone(),
                plan,
                cursor,
                mode: self.config.xmit_mode,
                options: TxOptions { fcs: self.fcs, ..TxOptions::of(&self.config) },
                limits: Limits {
                    count: share.count,
                    duration_ns: self.duration_ns,
                    pace: share.pace,
                    catch_up: self.catch_up,
                    start_delay_ns: 0,
                    starts_with_first_frame: true,
                    spins: self.spins,
                    keep_going: self.keep_going,
                },
                engine: self.engine,
                batch: self.batch,
                next_ns: None,
            };
            requests.push((*cpu, request));
        }
        Ok(requests)
    }
}

/// Sets what the signatures of one thread have: its number, and flows of its own.
fn sign_thread(config: &mut Config, thread: u32) {
    config.signature.stream = (thread as usize % measure::STREAMS_MAX) as u8;
    config.signature.flow_first = thread * flows_per_thread(config);
}

/// Flows that each thread sends.
pub fn flows_per_thread(config: &Config) -> u32 {
    if config.flows > 0 { config.flows } else { config.signature.flow_count }
}

/// Notes about a configuration, such as "IPv6 destinations are drawn at random".
fn notes(config: &Config, packets: Option<&Packets>) -> Vec<String> {
    let seals = config.asks_for_ipsec();
    let longer = match packets {
        None => "IPsec makes frames longer than --size by its padding and integrity check",
        Some(_) => "IPsec makes frames longer by its headers, padding and integrity check",
    };
    [
        (seals, longer),
        (
            seals && config.clone_skb > 1,
            "repeated frames have the same sequence number: a replay window drops them",
        ),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .map(|(_, note)| note.to_owned())
    .chain(packets.into_iter().flat_map(Packets::notes))
    .collect()
}
