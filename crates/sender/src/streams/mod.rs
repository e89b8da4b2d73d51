//! `wirerate send DEV --streams FILE`: several streams on one device, each with its own frames,
//! rate, count, start and bursts.
//!
//! A stream is a run of its own on one of the threads. The thread sends the frame that is due
//! first; streams without a rate share the remaining time in turns.

mod file;
mod order;

pub use file::{StreamEntry, read};
pub use order::show;

use super::args::{Args, SignatureName};
use super::device::TxDevice;
use super::packet_sizes::PacketSizes;
use super::packets::Packets;
use super::rate::RequestedRate;
use super::report::{Report, RunInfo, StreamInfo};
use super::run::{Job, STREAMS, argv, conclude, cpus, drive, find, print};
use super::watch::View;
use super::{config, next_hop, own_frames, packet_options};
use anyhow::anyhow;
use engine::{EngineError, EngineKind, Request};
use packet::{Config, DeviceFacts, MacAddr, Range, Rng, SignatureLevel, Walk};
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use std::path::Path;
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
    run: &Args,
    facts: &DeviceFacts,
    seed: u64,
    measured: Option<u16>,
) -> Result<Vec<Stream>, Failure> {
    if let Some(entry) = entries.iter().find(|entry| measured.is_some() && entry.args.flows.is_some()) {
        let act = format!("measure stream {}", entry.name);
        return Err(Failure::usage(act, "each stream is one flow, and it has flows of its own"));
    }
    prepare_numbered((0..).zip(entries).collect(), run, facts, seed, measured)
}

/// Like [`prepare`], for streams with these numbers. A measured stream with flows of its own
/// (`--flows`) has as many numbers, from its own on.
///
/// # Errors
/// Those of [`prepare`].
pub fn prepare_numbered(
    numbered: Vec<(u32, StreamEntry)>,
    run: &Args,
    facts: &DeviceFacts,
    seed: u64,
    measured: Option<u16>,
) -> Result<Vec<Stream>, Failure> {
    let (numbers, entries): (Vec<u32>, Vec<StreamEntry>) = numbered.into_iter().unzip();
    let paces = paces(&entries, RequestedRate::of(run)?)?;
    let prepare = |(index, (mut entry, pace)): (u32, (StreamEntry, RequestedRate))| {
        let is_own = entry.frame.is_some() || entry.args.has_packet_options();
        if let Some(run) = measured {
            sign(&mut entry, is_own, run)?;
        }
        let seed = match index {
            0 => seed,
            index => Rng::for_worker(seed, index.into()).0,
        };
        let seed = entry.args.seed.unwrap_or(seed);
        let packets = match &entry.frame {
            Some(text) => {
                let name = format!("the frame of stream {}", entry.name);
                own_frames::check_options(&entry.args, &name)?;
                Some(Packets::parse(text, &name, (facts, seed), &PacketSizes::of(&entry.args)?)?)
            }
            // The next hop is not known yet.
            None if entry.args.has_packet_options() => {
                Some(packet_options::packets(&entry.args, MacAddr::ZERO, facts, seed)?)
            }
            None => None,
        };
        let mut config = match &packets {
            None => config::config(&entry.args)?,
            Some(packets) => packets.config(config::count(&entry.args), config::xmit_mode(run), seed),
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
        let has_rate = entry.args.has_rate() || !matches!(of_run, RequestedRate::Constant { .. });
        let own = match has_rate {
            true => RequestedRate::of(&entry.args)?,
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
                let arrivals = entry.args.arrivals.unwrap_or(arrivals);
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
    if entry.args.signature == Some(SignatureName::None) {
        return Err(Failure::usage(act(), "frames without a signature cannot be measured"));
    }
    if entry.args.clone_skb.is_some_and(|copies| copies > 1) {
        return Err(Failure::usage(act(), "its frames are repeated, and copies are duplicates"));
    }
    if is_own {
        (entry.args.signature, entry.args.run) = (Some(SignatureName::Mark), Some(run));
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
        own_frames::mark(&mut packets, &self.entry.args, 1, Some((number, &self.entry.name)))?;
        Ok(packets)
    }

    /// Gives frames of pktgen's the longest signature that they have space for. It names the
    /// stream.
    fn sign_front(&mut self, run: u16) -> Result<(), Failure> {
        config::sign(&mut self.config, SignatureLevel::Full);
        self.config.signature.run = run;
        let act = || format!("measure stream {}", self.entry.name);
        let size = |frame_len| self.entry.args.size_advice(frame_len);
        match self.config.signature.level {
            SignatureLevel::Full => Ok(()),
            SignatureLevel::Short if self.index < STREAMS => Ok(()),
            SignatureLevel::Short => {
                let why = format!("frames as short as these name one of {STREAMS} streams");
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
    fn request(&self, run: &Args, device: &TxDevice, cpu: u32) -> Result<(u32, Request), Failure> {
        let mut config = self.config.clone();
        let act = || format!("send stream {}", self.entry.name);
        let mut packets = self.packets.clone();
        if packets.is_none() {
            next_hop::fill_in(device, &mut config, &config::destinations(&self.entry.args), true)?;
        } else if self.entry.frame.is_none() {
            let (dst_mac, _) = own_frames::next_hop(&self.entry.args, device)?;
            let resolved = packet_options::packets(&self.entry.args, dst_mac, &device.facts, self.seed)?;
            packets = Some(self.marked(resolved)?);
        }
        let duration_ns = self.entry.args.duration.map_or(0, |duration| duration.0);
        // The run ends for all streams at once.
        let left_ns = |run_ns: u64| run_ns.saturating_sub(self.entry.start_ns).max(1);
        let left_ns = run.duration.map_or(u64::MAX, |duration| left_ns(duration.0));
        let mut job = Job {
            packets,
            stream: self.index,
            pace: self.pace,
            duration_ns: if run.duration.is_some() { duration_ns.min(left_ns) } else { duration_ns },
            // That of the run, for all streams.
            start_at: None,
            ..Job::of(run, device, vec![cpu], config)
        };
        let (cpu, mut request) = job.requests(self.seed)?.pop().ok_or_else(|| {
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
    run: &Args,
    device: &TxDevice,
    cpus: &[u32],
) -> Result<Vec<(u32, Request)>, Failure> {
    let on_cpus = streams.iter().zip(cpus.iter().cycle());
    let requests = on_cpus.map(|(stream, cpu)| stream.request(run, device, *cpu));
    let mut requests: Vec<(u32, Request)> = requests.collect::<Result<_, _>>()?;
    if run.engine.map(EngineKind::from) == Some(EngineKind::AfXdp) {
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
    pub fn prepare(args: &Args, path: &Path, measured: Option<u16>) -> Result<Self, Failure> {
        let entries = read(path, args)?;
        let device = find(args, config::xmit_mode(args))?;
        let seed = args.seed.unwrap_or_else(fresh_seed);
        let streams = prepare(entries, args, &device.facts, seed, measured)?;
        let requests = requests(&streams, args, &device, &cpus(args, &device)?)?;
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
    pub fn transmit(self, args: &Args, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let times = || self.requests.iter().map(|(_, request)| request.limits.duration_ns);
        let info = RunInfo {
            device: self.device.link.name.clone(),
            is_veth: self.device.link.is_kind("veth"),
            netns: args.netns.clone(),
            next_hop: None,
            start_time: utc_time(args.start_at.map_or_else(time_of_day_ns, |start_at| start_at.unix_ns)),
            start_at: args.start_at,
            argv: argv(),
            interval_ps: 0,
            asked: None,
            seed: self.seed,
            notes: self.streams.iter().filter_map(Stream::note).collect(),
            streams: self.streams.iter().map(Stream::info).collect(),
            count: count(&self.streams),
            duration_ns: times().max().filter(|_| times().all(|ns| ns > 0)).unwrap_or(0),
        };
        drive(&self.device, self.requests, info, stop, View::of(args))
    }
}

/// Sends several streams and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn send(args: &Args, path: &Path, stop: &Stop) -> Result<Outcome, Failure> {
    let (report, error) = StreamSet::prepare(args, path, None)?.transmit(args, stop)?;
    conclude(&args.device, args.netns.as_deref(), &report, error, |report| print(args, report))
}

/// Frames of all streams, 0 for no end.
pub fn count(streams: &[Stream]) -> u64 {
    let counts = streams.iter().map(|stream| stream.config.count);
    if counts.clone().any(|count| count == 0) { 0 } else { counts.sum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Arrivals, Rate};
    use program::args_of;

    fn streams(text: &str, words: &[&str]) -> Result<Vec<Stream>, Failure> {
        let run = args_of(&format!("veth0 {}", words.join(" "))).unwrap();
        let entries = file::parse(text, &run).expect("a good list");
        prepare(entries, &run, &DeviceFacts::default(), 7, None)
    }

    fn measured(text: &str) -> Result<Vec<Stream>, Failure> {
        let run = args_of("veth0").unwrap();
        prepare(file::parse(text, &run).expect("a good list"), &run, &DeviceFacts::default(), 7, Some(5))
    }

    fn entries(members: &[&str]) -> String {
        let streams: Vec<String> =
            members.iter().map(|members| format!(r#"{{"dst": "198.18.0.2"{members}}}"#)).collect();
        format!("[{}]", streams.join(","))
    }

    #[test]
    fn weights_divide_the_rate_of_the_run_among_streams_without_one() {
        let text = entries(&[r#", "weight": 2"#, r#", "pps": 5"#, ""]);
        let paces: Vec<RequestedRate> =
            streams(&text, &["--pps", "100"]).unwrap().iter().map(|stream| stream.pace).collect();
        assert_eq!(
            paces,
            [66, 5, 34].map(|pps| RequestedRate::Constant {
                rate: Rate::from_pps(pps).unwrap(),
                arrivals: Arrivals::Constant
            })
        );
        let refusal = streams(&text, &[]).unwrap_err().to_string();
        assert!(refusal.contains("its weight is a part of the rate of the run"), "{refusal}");
    }

    #[test]
    fn each_stream_has_its_own_count_and_seed() {
        let streams = streams(&entries(&[r#", "count": 3"#, r#", "seed": 9"#]), &[]).unwrap();
        assert_eq!((streams[0].config.count, streams[1].config.count, count(&streams)), (3, 1000, 1003));
        assert_eq!((streams[0].seed, streams[1].seed), (7, 9));
    }

    #[test]
    fn packets_of_a_stream_have_lengths_and_no_other_options() {
        let packets = r#"[{"frame": "{ eth(), ipv4(), udp() }", "size": "60-62", "random": ["size"]}]"#;
        let streams = streams(packets, &[]).unwrap();
        assert_eq!(streams[0].packets.as_ref().map(Packets::mean_len), Some(61));
        let text = r#"[{"frame": "{ eth() }", "dst": "198.18.0.2"}]"#;
        let refusal = self::streams(text, &[]).unwrap_err().to_string();
        assert!(refusal.starts_with("wirerate: cannot use --dst with the frame of stream 1"), "{refusal}");
    }

    #[test]
    fn each_measured_stream_is_a_flow_of_the_run() {
        let text = r#"[{"dst": "198.18.0.2", "size": 74, "udp-dst": "1-9"}, {"dst": "198.18.0.2"},
                       {"tcp": true, "dst": "198.18.0.2", "size": 72}]"#;
        let [full, short, own] = &measured(text).expect("three streams")[..] else { panic!("three streams") };
        let signature = full.config.signature;
        assert_eq!((signature.level, signature.flow_count, signature.run), (SignatureLevel::Full, 1, 5));
        assert_eq!((short.config.signature.level, short.index), (SignatureLevel::Short, 1));
        let plan = own.packets.as_ref().and_then(|packets| packets.of_thread(0)).expect("packets");
        let template = &plan.packets()[0].template;
        assert_eq!(template[54..62], [0x57, 0x52, 0x4f, 0x54, 0, 2, 0, 5]);
        for (members, why) in [
            (
                r#""tcp": true"#,
                "cannot mark packet 1 of stream 1: a mark takes 18 bytes behind the headers, and there are 0",
            ),
            (r#""size": 58"#, "do not name their stream\n  try: \"size\": 60"),
            (r#""signature": "none""#, "frames without a signature"),
            (r#""clone-skb": 2"#, "copies are duplicates"),
        ] {
            let text = format!(r#"[{{"dst": "198.18.0.2", {members}}}]"#);
            let refusal = measured(&text).expect_err("cannot be measured").to_string();
            assert!(refusal.contains(why), "{members}: {refusal}");
        }
    }

    #[test]
    fn bursts_have_a_mean_rate() {
        let streams = streams(
            &entries(&[r#", "burst": 4, "gap": "1ms""#, r#", "burst": 4, "gap": "1ms", "pps": 1000"#]),
            &[],
        );
        let rates: Vec<Option<f64>> =
            streams.unwrap().iter().map(|stream| stream.info().asked.map(|asked| asked.pps)).collect();
        assert_eq!(rates, [Some(4000.0), Some(1000.0)]);
    }
}
