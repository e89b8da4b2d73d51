//! `wirerate send DEV --streams FILE`: several streams on one device, each with its own frames,
//! rate, count, start and bursts.
//!
//! A stream is a run of its own on one of the threads. The thread sends the frame that is due
//! first; streams without a rate share the remaining time in turns.

mod order;

pub use order::{STREAM_FRAME, show};

use super::device::TxDevice;
use super::job::{SendJob, SignatureName, StreamEntry};
use super::packet_sizes::PacketSizes;
use super::packets::Packets;
use super::rate::RequestedRate;
use super::report::{Report, RunInfo, StreamInfo};
use super::run::{DeviceJob, argv, conclude, cpus, drive, find, print};
use super::watch::View;
use super::{config, job_packets, next_hop};
use anyhow::anyhow;
use engine::{EngineError, EngineKind, Request};
use measure::STREAMS_MAX;
use packet::{Config, DeviceFacts, MacAddr, Range, Rng, SignatureLevel, Walk};
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use units::{time_of_day_ns, utc_time};

/// One stream, ready to be sent or shown.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its options.
    pub entry: StreamEntry,
    /// How fast, with its part of the rate of the run.
    pub pace: RequestedRate,
    /// Its frames, or the lengths of `packets`.
    pub config: Config,
    /// Its frames, if they are not those of `config`.
    pub packets: Option<Packets>,
    /// Seed of its random values.
    pub seed: u64,
    /// Its number, from 0 on; that of its flow in signatures.
    pub index: u32,
    /// A receiver measures it.
    pub is_measured: bool,
}

/// Prepares the streams of a run for a device with these `facts`. Streams that are measured carry
/// `measured`, the number of the run.
///
/// # Errors
/// Bad usage in one of the streams, which is named.
pub fn prepare(
    entries: Vec<StreamEntry>,
    run: &SendJob,
    facts: &DeviceFacts,
    seed: u64,
    measured: Option<u16>,
) -> Result<Vec<Stream>, Failure> {
    if let Some(entry) = entries.iter().find(|entry| measured.is_some() && entry.job.flows.is_some()) {
        let act = format!("measure stream {}", entry.name);
        return Err(Failure::usage(act, "each stream is one flow, and it has flows of its own"));
    }
    prepare_numbered((0..).zip(entries).collect(), run, facts, seed, measured)
}

/// Prepares the streams of a run, which have these numbers, for a device with these `facts`.
/// Streams that are measured carry `measured`, the number of the run. A measured stream with flows
/// of its own (`--flows`) has as many numbers, from its own on.
///
/// # Errors
/// Bad usage in one of the streams, which is named.
pub fn prepare_numbered(
    numbered: Vec<(u32, StreamEntry)>,
    run: &SendJob,
    facts: &DeviceFacts,
    seed: u64,
    measured: Option<u16>,
) -> Result<Vec<Stream>, Failure> {
    let (numbers, entries): (Vec<u32>, Vec<StreamEntry>) = numbered.into_iter().unzip();
    let paces = paces(&entries, RequestedRate::of(run)?)?;
    let prepare = |(index, (mut entry, pace)): (u32, (StreamEntry, RequestedRate))| {
        let is_own = entry.frame.is_some() || entry.job.has_packet_options();
        if let Some(run) = measured {
            sign(&mut entry, is_own, run)?;
        }
        let seed = match index {
            0 => seed,
            index => Rng::for_worker(seed, index.into()).0,
        };
        let seed = entry.job.seed.unwrap_or(seed);
        let packets = match &entry.frame {
            Some(text) => {
                let name = format!("the frame of stream {}", entry.name);
                job_packets::check_options(&entry.job, &name)?;
                Some(Packets::parse(text, &name, (facts, seed), &PacketSizes::of(&entry.job)?)?)
            }
            // The next hop is not known yet.
            None if entry.job.has_packet_options() => {
                Some(job_packets::packets(&entry.job, MacAddr::ZERO, facts, seed)?)
            }
            None => None,
        };
        let mut config = match &packets {
            None => config::config(&entry.job)?,
            Some(packets) => job_packets::config(&entry.job, packets, seed)?,
        };
        // A stream is a flow.
        config.signature.flow_count = 1;
        let is_measured = measured.is_some();
        let stream = Stream { entry, pace, config, packets: None, seed, index, is_measured };
        let packets = packets.map(|packets| stream.marked(packets)).transpose()?;
        let mut stream = Stream { packets, ..stream };
        if let Some(run) = measured.filter(|_| !is_own) {
            stream.sign_front(run)?;
        }
        Ok(stream)
    };
    numbers.into_iter().zip(entries.into_iter().zip(paces)).map(prepare).collect()
}

/// The rate of each stream: its own, or its part of the rate of the run.
fn paces(entries: &[StreamEntry], of_run: RequestedRate) -> Result<Vec<RequestedRate>, Failure> {
    let mut paces = Vec::new();
    if matches!(of_run, RequestedRate::Ramp(_)) {
        return Err(Failure::usage("use --ramp for all streams", "a ramp is that of one stream")
            .try_this("\"ramp\" in the stream"));
    }
    // Streams without a rate of their own: with it, the rate of their arrivals.
    let shares =
        |pace: &RequestedRate| matches!(pace, RequestedRate::LineRate | RequestedRate::Groups { .. });
    for entry in entries {
        let has_rate = entry.job.has_rate() || !matches!(of_run, RequestedRate::Constant { .. });
        let own = match has_rate {
            true => RequestedRate::of(&entry.job)?,
            false => RequestedRate::LineRate,
        };
        let act = || format!("send stream {}", entry.name);
        if entry.weight.is_some() && !shares(&own) {
            return Err(Failure::usage(act(), "it has both a rate and a weight"));
        }
        if entry.weight.is_some() && shares(&of_run) {
            return Err(Failure::usage(act(), "its weight is a part of the rate of the run, which has none")
                .try_this("--pps 1M, or another rate for all streams"));
        }
        paces.push(own);
    }
    let weight = |entry: &StreamEntry| entry.weight.map_or(1, |weight| u64::from(weight.get()));
    let total: u64 =
        entries.iter().zip(&paces).filter(|(_, pace)| shares(pace)).map(|(entry, _)| weight(entry)).sum();
    let part = |whole: u64, before: u64, after: u64| {
        let until = |weight: u64| u128::from(whole) * u128::from(weight) / u128::from(total);
        (until(after) - until(before)) as u64
    };
    let mut before = 0;
    for (entry, pace) in entries.iter().zip(&mut paces).filter(|(_, pace)| shares(pace)) {
        let after = before + weight(entry);
        match of_run {
            RequestedRate::Constant { rate, arrivals } => {
                let amount = rate.divisible().map_or(1, |whole| part(whole, before, after));
                let rate = rate.with_part(amount, total).ok_or_else(|| {
                    Failure::usage(format!("send stream {}", entry.name), "its part of the rate is 0")
                })?;
                let arrivals = entry.job.arrivals.unwrap_or(arrivals);
                *pace = RequestedRate::Constant { rate, arrivals };
            }
            RequestedRate::Groups { .. } if *pace == RequestedRate::LineRate => *pace = of_run,
            _ => {}
        }
        before = after;
    }
    Ok(paces)
}

/// Lets a stream that is measured carry a mark, if its frames are not pktgen's.
fn sign(entry: &mut StreamEntry, is_own: bool, run: u16) -> Result<(), Failure> {
    let act = || format!("measure stream {}", entry.name);
    if entry.job.signature == Some(SignatureName::None) {
        return Err(Failure::usage(act(), "frames without a signature cannot be measured"));
    }
    if entry.job.clone_skb.is_some_and(|copies| copies > 1) {
        return Err(Failure::usage(act(), "its frames are repeated, and copies are duplicates"));
    }
    if is_own {
        (entry.job.signature, entry.job.run) = (Some(SignatureName::Mark), Some(run));
    }
    Ok(())
}

impl Stream {
    /// Its packets with the marks that its options ask for.
    ///
    /// # Errors
    /// Bad usage for a packet that has no space for its mark.
    pub fn marked(&self, mut packets: Packets) -> Result<Packets, Failure> {
        let number = u16::try_from(self.index).map_err(|_| {
            Failure::usage(format!("send stream {}", self.entry.name), "marks name one of 65,536 streams")
        })?;
        job_packets::mark(&mut packets, &self.entry.job, 1, Some((number, &self.entry.name)))?;
        Ok(packets)
    }

    /// Gives frames of pktgen's the longest signature that they have space for. It names the
    /// stream.
    fn sign_front(&mut self, run: u16) -> Result<(), Failure> {
        config::sign(&mut self.config, SignatureLevel::Full);
        self.config.signature.run = run;
        let act = || format!("measure stream {}", self.entry.name);
        let size = |frame_len| self.entry.job.size_advice(frame_len);
        match self.config.signature.level {
            SignatureLevel::Full => Ok(()),
            SignatureLevel::Short if (self.index as usize) < STREAMS_MAX => Ok(()),
            SignatureLevel::Short => {
                let why = format!("frames as short as these name one of {STREAMS_MAX} streams");
                Err(Failure::usage(act(), why).try_this(size("74, or 94 for IPv6")))
            }
            SignatureLevel::Pktgen | SignatureLevel::None => {
                let why = "frames as short as these do not name their stream";
                Err(Failure::usage(act(), why).try_this(size("60, or 80 for IPv6")))
            }
        }
    }

    /// What the report says about it.
    pub fn info(&self) -> StreamInfo {
        StreamInfo { name: self.entry.name.clone(), asked: self.pace.asked(&self.config) }
    }

    /// What the report says about its marks.
    fn note(&self) -> Option<String> {
        let note = self.packets.as_ref()?.notes().pop()?;
        Some(format!("stream {}: {note}", self.entry.name))
    }

    /// Its run on a thread of `cpu`.
    fn request(&self, run: &SendJob, device: &TxDevice, cpu: u32) -> Result<(u32, Request), Failure> {
        let mut config = self.config.clone();
        let act = || format!("send stream {}", self.entry.name);
        let mut packets = self.packets.clone();
        if packets.is_none() {
            next_hop::of_job(&self.entry.job, device, &mut config)?;
        } else if self.entry.frame.is_none() {
            let (dst_mac, _) = job_packets::next_hop(&self.entry.job, device)?;
            let resolved = job_packets::packets(&self.entry.job, dst_mac, &device.facts, self.seed)?;
            packets = Some(self.marked(resolved)?);
        }
        let duration_ns = self.entry.job.duration.map_or(0, |duration| duration.0);
        // The run ends for all streams at once.
        let left_ns = |run_ns: u64| run_ns.saturating_sub(self.entry.start_ns).max(1);
        let left_ns = run.duration.map_or(u64::MAX, |duration| left_ns(duration.0));
        let mut one = DeviceJob {
            packets,
            stream: self.index,
            pace: self.pace,
            duration_ns: if run.duration.is_some() { duration_ns.min(left_ns) } else { duration_ns },
            // That of the run, for all streams.
            start_at: None,
            ..DeviceJob::of(run, device, vec![cpu], config)
        };
        let (cpu, mut request) = one.requests(self.seed)?.pop().ok_or_else(|| {
            Failure::usage(act(), "its packets are for other CPUs").try_this("packets without cpu()")
        })?;
        request.limits.start_delay_ns = self.entry.start_ns;
        if self.is_measured {
            // Missing numbers count from 0 on, as in longer signatures and marks.
            request.cursor.seq_num = 0;
            request.plan.signature.flow_first = self.index;
        }
        // Streams keep their offsets to each other.
        request.limits.starts_with_first_frame = false;
        Ok((cpu, request))
    }
}

/// The runs of all streams, in turn on each of `cpus`.
///
/// # Errors
/// Bad usage in one of them, or no answer of a next hop.
pub fn requests(
    streams: &[Stream],
    run: &SendJob,
    device: &TxDevice,
    cpus: &[u32],
) -> Result<Vec<(u32, Request)>, Failure> {
    let on_cpus = streams.iter().zip(cpus.iter().cycle());
    let requests = on_cpus.map(|(stream, cpu)| stream.request(run, device, *cpu));
    let mut requests: Vec<(u32, Request)> = requests.collect::<Result<_, _>>()?;
    if run.engine == Some(EngineKind::AfXdp) {
        part_queues(&mut requests, device)?;
    }
    Ok(requests)
}

/// Gives each stream of af_xdp a queue, because a queue takes one socket.
fn part_queues(requests: &mut [(u32, Request)], device: &TxDevice) -> Result<(), Failure> {
    let (stream_count, queue_count) = (requests.len(), u32::from(device.facts.tx_queues.max(1)));
    if stream_count > queue_count as usize {
        let why = format!("each needs a queue, and {} has {queue_count} transmit queues", device.link.name);
        return Err(Failure::refused(format!("send {stream_count} streams by af_xdp"), anyhow!(why))
            .try_this("--engine xdp"));
    }
    for (queue, (_, request)) in (0..).zip(requests) {
        request.plan.queue = Range { walk: Walk::Fixed, min: queue, max: queue };
    }
    Ok(())
}

/// Streams for a device that was found.
#[derive(Debug)]
pub struct StreamSet {
    device: TxDevice,
    streams: Vec<Stream>,
    requests: Vec<(u32, Request)>,
    seed: u64,
}

impl StreamSet {
    /// Finds the device and the next hops. Streams that are measured carry `measured`, the number
    /// of the run.
    ///
    /// # Errors
    /// Bad usage in one of the streams; refused by the host or the device.
    pub fn prepare(job: &SendJob, measured: Option<u16>) -> Result<Self, Failure> {
        let device = find(job, job.xmit_mode)?;
        let seed = job.seed.unwrap_or_else(fresh_seed);
        let streams = prepare(job.streams.clone(), job, &device.facts, seed, measured)?;
        let requests = requests(&streams, job, &device, &cpus(job, &device)?)?;
        Ok(Self { device, streams, requests, seed })
    }

    /// The flows of all streams: each is one, with the number of the stream.
    pub fn flow_count(&self) -> usize {
        self.streams.len()
    }

    /// Sends them. An error is returned beside the report of what was sent before it.
    ///
    /// # Errors
    /// Refused by the host or the device before the first frame.
    pub fn transmit(self, job: &SendJob, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let times = || self.requests.iter().map(|(_, request)| request.limits.duration_ns);
        let info = RunInfo {
            device: self.device.link.name.clone(),
            is_veth: self.device.link.is_kind("veth"),
            netns: job.netns.clone(),
            next_hop: None,
            start_time: utc_time(job.start_at.map_or_else(time_of_day_ns, |start_at| start_at.unix_ns)),
            start_at: job.start_at,
            argv: argv(),
            interval_ps: 0,
            asked: None,
            seed: self.seed,
            notes: self.streams.iter().filter_map(Stream::note).collect(),
            streams: self.streams.iter().map(Stream::info).collect(),
            count: count(&self.streams),
            duration_ns: times().max().filter(|_| times().all(|ns| ns > 0)).unwrap_or(0),
        };
        drive(&self.device, self.requests, info, stop, View::of(job, stop.console()))
    }
}

/// Sends several streams and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn send(job: &SendJob, stop: &Stop) -> Result<Outcome, Failure> {
    let (report, error) = StreamSet::prepare(job, None)?.transmit(job, stop)?;
    conclude(&job.device, job.netns.as_deref(), &report, error, stop.console(), |report| {
        print(job, report, stop.console())
    })
}

/// Frames of all streams, 0 for no end.
pub fn count(streams: &[Stream]) -> u64 {
    let counts = streams.iter().map(|stream| stream.config.count);
    if counts.clone().any(|count| count == 0) { 0 } else { counts.sum() }
}
