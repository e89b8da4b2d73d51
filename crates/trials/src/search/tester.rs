//! One trial: a receiver on one device, a run on the other, and the counts of both.

use super::args::PathArgs;
use super::runs_trials::RunsTrials;
use super::traffic::Traffic;
use capture::{Mode, ReceiveOptions, ReceiveResult, Receiving, SourceKind, XdpModeChoice};
use clap::{Args as _, FromArgMatches};
use engine::{PagePools, Ramp};
use host::{CpuTicks, DevicePlace, Link, LinkCounters, Machine, Netns, Stack, raise_priority};
use measure::{Latency, MeterOptions};
use options::send::SendArgs;
use options::stream_file::job_of;
use packet::{Config, MacAddr, SignatureLevel, wire_len};
use program::outcome::Failure;
use program::stop::Stop;
use search::record::{Provenance, TrafficShape};
use search::{LatencyFigures, SecondPhase, TesterLimits, TrialRequest, TrialResult};
use sender::device::TxDevice;
use sender::job::SignatureName;
use sender::packets::Packets;
use sender::ready::ReadyRun;
use sender::turn_back::turn_back;
use sender::{SendJob, config, job_packets};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::thread;
use std::time::{Duration, Instant};
use units::{Count, CpuSequence, FrameRate, Nanos, Pps, human_bps, human_duration, quantity_of, utc_time};

/// The highest load where the medium has no rate.
const MAX_LOAD_PPS: u64 = 20_000_000;
/// The kernel offers no event for frames that arrive: all have when no count moved for this time.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// The sender may be late by this in short trials, and by 0.1 % in others.
const LATE_NS_MIN: u64 = 1_000_000;
/// The wait for page pools of the trial before, at most,
const PAGE_POOLS_MAX: Duration = Duration::from_secs(15);
/// and the wait that is said.
const NOTED_WAIT: Duration = Duration::from_millis(500);
/// RFC 2544 section 23 waits for two seconds.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The devices and the frames of a search.
pub(crate) struct Tester {
    /// One, or one each way.
    directions: Vec<TestedPath>,
    wire_len: Option<u64>,
    speed_bps: Option<u64>,
    max_pps: Option<u64>,
    traffic: Traffic,
    facts: BTreeMap<String, String>,
    page_pools: PagePools,
    is_quiet: bool,
}

/// A sending device, its frames, and a receiving device.
struct TestedPath {
    send: SendJob,
    receive: ReceiveOptions,
    rx_netns: Option<String>,
    rx: RxDrops,
    wire_len: Option<u64>,
    speed_bps: Option<u64>,
    /// The first number in a frame.
    first_number: u32,
}

impl TestedPath {
    /// Finds the devices; `send` has the options of the sender.
    fn new(tx: &DevicePlace, rx: &DevicePlace, mut send: SendJob) -> Result<Self, Failure> {
        let (tx, tx_netns) = (&tx.device[..], tx.netns.as_deref());
        let (rx, rx_netns) = (&rx.device[..], rx.netns.as_deref());
        refuse_own(&send)?;
        send.netns = tx_netns.map(str::to_owned);
        send.quiet = true;
        // The receiver is at hand.
        send.end_frames = Some(0);
        let failed = |why| Failure::host(format!("send on {tx}"), why);
        let device = TxDevice::find(tx_netns, tx).map_err(failed)?;
        let netns = rx_netns.map(Netns::named).transpose();
        let netns = netns.map_err(|why| Failure::host(format!("receive on {rx}"), why))?;
        let drops = || RxDrops::new(netns.as_ref(), rx);
        let drops = drops().map_err(|why| Failure::host(format!("receive on {rx}"), why))?;
        let (frame_len, carried_flows, first_number) = if send.has_own_frames() {
            let packets = marked(&mut send, &device)?;
            (packets.only_len(), packets.flow_count(), 0)
        } else {
            let settings = signed(&send)?;
            let is_one_size = settings.min_pkt_size == settings.max_pkt_size && settings.imix.is_empty();
            (is_one_size.then_some(settings.min_pkt_size), 0, 1)
        };
        Ok(Self {
            send,
            rx_netns: rx_netns.map(str::to_owned),
            rx: drops,
            receive: ReceiveOptions {
                ifname: rx.to_owned(),
                netns,
                mode: Mode::Drop,
                source: SourceKind::Xdp,
                xdp: XdpModeChoice::Best,
                meter: MeterOptions { carried_flows, ..MeterOptions::default() },
                is_shared: false,
                has_details: false,
                has_tags: false,
                reflects: false,
            },
            wire_len: frame_len.map(|frame_len| wire_len(frame_len.max(60)).into()),
            speed_bps: device.line_bps(),
            first_number,
        })
    }

    fn threads(&self) -> usize {
        thread_count(&self.send)
    }

    /// Sends one of `parts` of a trial's frames.
    fn send(
        &self,
        request: &TrialRequest,
        (part, parts): (u64, u64),
        stop: &Stop,
    ) -> Result<sender::report::Report, Failure> {
        let share = |whole: u64| whole / parts + u64::from(part < whole % parts);
        let mut send = self.send.clone();
        let sending_ns = request.sending_ns();
        send.count = Some(Count(share(request.all_frames())));
        send.ramp = request.then.map(|then| two_loads(request, then));
        send.pps = Some(Pps(share(request.load_pps).max(1)).into());
        send.duration = Some(Nanos(sending_ns + (sending_ns / 1000).max(LATE_NS_MIN)));
        let pktgen = if send.has_own_frames() { None } else { Some(signed(&send)?) };
        let (report, error) = ReadyRun::prepare(&send, pktgen)?.transmit(&send, stop)?;
        match error {
            Some(error) => {
                Err(Failure::engine(format!("send on {}", send.device), error, send.netns.as_deref()))
            }
            None => Ok(report),
        }
    }
}

impl Tester {
    /// Finds the devices and reads send's options; `traffic` comes from the search's own.
    ///
    /// # Errors
    /// Bad options, no such device, or the device with the default route.
    pub(super) fn new(args: &PathArgs, traffic: Traffic) -> Result<Self, Failure> {
        let job_with = |device: &str, options: &[String]| {
            let mut job = job_of_words(device, options)?;
            traffic.enter(&mut job)?;
            Ok::<_, Failure>(job)
        };
        let rx = args.rx.as_deref().expect("the parser requires it without --connections");
        let [tx, rx] = [&args.tx, rx].map(|device| DevicePlace::of(device, args.netns.as_deref()));
        let mut directions = vec![TestedPath::new(&tx, &rx, job_with(&tx.device, &args.send)?)?];
        let back = match &args.reverse {
            Some(options) => {
                let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
                Some(job_with(&rx.device, &options)?)
            }
            None if args.bidirectional => {
                let mut back = job_with(&rx.device, &args.send)?;
                let origin = TxDevice::find(tx.netns.as_deref(), &tx.device);
                let origin = origin.map_err(|why| Failure::host(format!("send on {tx}"), why))?;
                turn_back(&mut back, &origin.facts)?;
                Some(back)
            }
            None => None,
        };
        if let Some(back) = back {
            directions.push(TestedPath::new(&rx, &tx, back)?);
            part_cpus(&mut directions)?;
        }
        let seed =
            directions[0].send.seed.map_or("a new one for each trial".to_owned(), |seed| seed.to_string());
        let facts = [
            ("version", format!("wirerate {}", env!("CARGO_PKG_VERSION"))),
            ("host", host_name()),
            ("kernel", Machine::read().kernel),
            ("tx", device_fact(&tx)),
            ("rx", device_fact(&rx)),
            ("seed", seed),
        ];
        let lens: Vec<Option<u64>> = directions.iter().map(|direction| direction.wire_len).collect();
        if lens.windows(2).any(|pair| pair[0] != pair[1]) {
            let why = "their frames have different sizes";
            return Err(Failure::usage("send in both directions", why).try_this("--size 60"));
        }
        // A sender that waits for its CPU sends what was due in a burst, which a queue may not
        // take. Without the right to it, trials are disturbed more often, which their causes say.
        let _ = raise_priority();
        Ok(Self {
            wire_len: lens[0],
            // Both directions have the medium for themselves.
            speed_bps: directions.iter().map(|direction| direction.speed_bps).sum(),
            max_pps: args.max_pps.map(FrameRate::pps_below),
            page_pools: PagePools::watch(),
            is_quiet: args.quiet,
            traffic,
            directions,
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        })
    }

    fn is_bidirectional(&self) -> bool {
        self.directions.len() > 1
    }

    /// Highest rate of the medium for this frame size, of all directions together.
    pub(crate) fn medium_pps(&self) -> Option<u64> {
        Some(self.speed_bps? / (self.wire_len? * 8))
    }

    /// The highest load of the user, the rate of the medium, or what one thread reaches.
    pub(crate) fn max_load_pps(&self) -> u64 {
        let fastest = MAX_LOAD_PPS * self.directions.len() as u64;
        self.max_pps.or(self.medium_pps()).unwrap_or(fastest)
    }

    /// Where the directions differ from RFC 2544.
    pub(crate) fn deviations(&self) -> Vec<String> {
        let text = match self.is_bidirectional() {
            true => {
                "Loads, counts and rates are sums of both directions, which have half each. They start \
                 within some tens of milliseconds of each other (section 14)."
            }
            false => "Traffic is sent in one direction (section 14).",
        };
        vec![text.to_owned()]
    }

    /// The command, its start and the host, for the report.
    pub(crate) fn provenance(&self, start_ns: u64, deviations: Vec<String>) -> Provenance {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let mut host = self.facts.clone();
        host.insert("date".to_owned(), utc_time(start_ns));
        Provenance { command, start_ns, host, deviations }
    }

    /// Refuses several sending threads or packets, whose frames have numbers of their own.
    ///
    /// # Errors
    /// Bad usage with the `act` that needs one thread.
    pub(crate) fn check_one_thread(&self, act: &str) -> Result<(), Failure> {
        match self.directions.as_slice() {
            [one] if one.threads() > 1 => {
                Err(Failure::usage(act, "several threads send").try_this("--threads 1"))
            }
            [one] if one.receive.meter.carried_flows > 1 => {
                let why = "each packet of these frames has numbers of its own";
                Err(Failure::usage(act, why).try_this("one packet in --frame or --frames"))
            }
            [_] => Ok(()),
            _ => Err(Failure::usage(act, "both directions send")
                .try_this("--tests throughput,latency,loss,back-to-back")),
        }
    }

    /// What may have kept the senders of a trial from their rate, the likeliest first.
    fn causes(&self, reports: &[sender::report::Report], steal_ppb: u64) -> Vec<String> {
        let mut limits: Vec<_> = reports.iter().flat_map(|report| &report.limits).collect();
        limits.sort_by(|one, other| other.share.total_cmp(&one.share));
        let mut causes: Vec<String> = limits.iter().map(|limit| limit.meaning.clone()).collect();
        if let Some(pools @ 1..) = self.page_pools.left() {
            causes.push(format!("the kernel frees {}", quantity_of(pools, "page pool")));
        }
        if steal_ppb > TesterLimits::default().steal_ppb_max {
            causes.push(format!("the hypervisor took {:.0} % of the CPU time", steal_ppb as f64 / 1e7));
        }
        if causes.is_empty() {
            let longest =
                reports.iter().filter_map(|report| report.gaps.as_ref()).map(|gaps| gaps.max_ns).max();
            causes.extend(longest.map(|ns| format!("the sender paused for {}", human_duration(ns))));
        }
        causes
    }

    /// Waits until the kernel has freed the page pools of the trial before: it does so on the CPUs
    /// that send.
    fn wait_for_page_pools(&self, stop: &Stop) {
        let (waited, left) = self.page_pools.wait(PAGE_POOLS_MAX, || stop.is_set());
        if waited >= NOTED_WAIT && !self.is_quiet {
            let waited = human_duration(waited.as_nanos() as u64);
            let left = if left > 0 { format!("; {left} are left") } else { String::new() };
            program::note!(
                "waited {waited} until the kernel had freed the page pools of the last trial{left}"
            );
        }
    }

    /// Sends in all directions at once.
    fn send(&self, request: &TrialRequest, stop: &Stop) -> Result<Vec<sender::report::Report>, Failure> {
        let parts = self.directions.len() as u64;
        let numbered = || self.directions.iter().zip(0..);
        if parts == 1 {
            return numbered()
                .map(|(direction, part)| direction.send(request, (part, parts), stop))
                .collect();
        }
        thread::scope(|scope| {
            let start = |(direction, part)| {
                scope.spawn(move || TestedPath::send(direction, request, (part, parts), stop))
            };
            let threads: Vec<_> = numbered().map(start).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    }
}

impl RunsTrials for Tester {
    /// Frame size with FCS, none for a mix.
    fn shape(&self) -> TrafficShape {
        TrafficShape {
            frame_size: self.wire_len.map(|wire_len| wire_len - 20),
            flows: self.traffic.flows,
            threads: self.traffic.threads.map(u64::from),
            is_bidirectional: self.is_bidirectional(),
            connections: None,
        }
    }

    fn run(&self, request: &TrialRequest, stop: &Stop) -> Result<TrialResult, Failure> {
        self.wait_for_page_pools(stop);
        let mut receivers = Vec::new();
        let mut counted = Vec::new();
        for TestedPath { receive: options, rx_netns, .. } in &self.directions {
            let act = format!("receive on {}", options.ifname);
            let receiving = Receiving::start(options).map_err(|why| Failure::refused(act, why))?;
            let place = (options.ifname.as_str(), rx_netns.as_deref());
            counted.push(receiver::count_frames(&receiving, place, stop.console(), || 0));
            receivers.push(receiving);
        }
        let dropped = || self.directions.iter().map(|direction| direction.rx.count()).sum::<u64>();
        let (started, dropped_before, ticks) = (Instant::now(), dropped(), CpuTicks::read());
        let reports = self.send(request, stop)?;
        receivers.iter().zip(&reports).for_each(|(receiving, report)| drain(receiving, report.sent));
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        let received = together(receivers.into_iter().map(Receiving::stop));
        let figures = received.figures();
        let steal_ppb = CpuTicks::read().zip(ticks).map_or(0, |(now, earlier)| now.steal_ppb_since(&earlier));
        let pause_ns = TesterLimits::default().pause_ns(request);
        let gaps = || reports.iter().filter_map(|report| report.gaps.as_ref());
        let sent = reports.iter().map(|report| report.sent).sum();
        let ramp = request.then.map(|then| two_loads(request, then));
        // Of a test that needs it, one thread sends.
        let first_number = measure::first_number(self.directions[0].first_number, 1);
        Ok(TrialResult {
            sent,
            refused: reports.iter().map(|report| report.errors + report.replaced).sum(),
            unique: figures.unique,
            duplicate: figures.duplicate,
            too_old: figures.too_old,
            receiver_dropped: dropped().saturating_sub(dropped_before),
            elapsed_ns,
            // Each direction pauses for its part of the frames.
            paused_ns: gaps().map(|gaps| pauses(&gaps.lengths, pause_ns)).sum::<u64>()
                / self.directions.len() as u64,
            steal_ppb,
            gap_ns_max: gaps().map(|gaps| gaps.max_ns).max().unwrap_or(0),
            latency: figures.latency.as_ref().map(latency_figures),
            causes: self.causes(&reports, steal_ppb),
            last_lost_ns: ramp
                .zip(last_lost(&received, first_number, sent))
                .map(|(ramp, index)| due_ns(&ramp, index)),
            switched_ns: ramp.map(|ramp| due_ns(&ramp, request.frames)),
            ..TrialResult::default()
        })
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// A device with its driver and speed, as far as they are known.
fn device_fact(place: &DevicePlace) -> String {
    let known = || {
        let stack = place
            .netns
            .as_deref()
            .map(Netns::named)
            .transpose()?
            .as_ref()
            .map_or_else(Stack::here, Stack::of)?;
        let link = stack.link(&place.device[..])?;
        Ok::<_, host::HostError>((stack.driver(&link)?, stack.speed_bps(&link)?))
    };
    let (driver, speed_bps) = known().unwrap_or_default();
    let driver = driver.map(|driver| driver.name);
    let facts: Vec<_> = driver.into_iter().chain(speed_bps.map(|bps| human_bps(bps as f64))).collect();
    if facts.is_empty() { place.to_string() } else { format!("{place} ({})", facts.join(", ")) }
}

/// Settings with a signature that tells the threads apart, if the frame has space for it.
fn signed(send: &SendJob) -> Result<Config, Failure> {
    let mut settings = config::config(send)?;
    config::sign(&mut settings, SignatureLevel::Short);
    if thread_count(send) > 1 && settings.signature.level < SignatureLevel::Short {
        let why = "the frames are too short for the number of their thread";
        return Err(Failure::usage("send from several threads", why).try_this("a longer --size"));
    }
    Ok(settings)
}

/// Packets that are not pktgen's, each with a mark at its end, and lets `send` mark them.
fn marked(send: &mut SendJob, device: &TxDevice) -> Result<Packets, Failure> {
    send.signature = Some(SignatureName::Mark);
    job_packets::check(send)?;
    // The destination and random values change no length.
    let mut packets = job_packets::packets(send, MacAddr::ZERO, &device.facts, 0)?;
    job_packets::mark(&mut packets, send, thread_count(send), None)?;
    Ok(packets)
}

fn thread_count(send: &SendJob) -> usize {
    let of_list = send.cpus.as_ref().map(|cpus| cpus.0.len());
    of_list.unwrap_or(send.threads.unwrap_or(1) as usize)
}

/// Gives the directions different CPUs, if there are enough and the user chose none.
fn part_cpus(directions: &mut [TestedPath]) -> Result<(), Failure> {
    if directions.iter().any(|direction| direction.send.cpus.is_some()) {
        return Ok(());
    }
    let threads: usize = directions.iter().map(TestedPath::threads).sum();
    let first = &directions[0].send;
    let failed = |why| Failure::host(format!("send on {}", first.device), why);
    let device = TxDevice::find(first.netns.as_deref(), &first.device).map_err(failed)?;
    let Ok(cpus) = sender::run::nearest_cpus(&device, first.node, threads) else { return Ok(()) };
    let mut rest = cpus.as_slice();
    for direction in directions {
        let (own, others) = rest.split_at(direction.threads());
        (direction.send.cpus, direction.send.threads) = (Some(CpuSequence(own.to_vec())), None);
        rest = others;
    }
    Ok(())
}

/// The results of all receivers as one.
fn together(results: impl Iterator<Item = ReceiveResult>) -> ReceiveResult {
    results.reduce(ReceiveResult::and).expect("a search has a direction")
}

fn latency_figures(latency: &Latency) -> LatencyFigures {
    LatencyFigures {
        min_ns: latency.min_ns,
        mean_ns: latency.mean_ns,
        p50_ns: latency.at(50.0).unwrap_or_default(),
        p99_ns: latency.at(99.0).unwrap_or_default(),
        p99_9_ns: latency.at(99.9).unwrap_or_default(),
        max_ns: latency.max_ns,
        frames: latency.stamped,
        curve: latency
            .percentiles
            .iter()
            .map(|row| ((row.percentile * 1e7) as u64, row.latency_ns))
            .collect(),
        seconds: Vec::new(),
    }
}

/// The load of a trial, then the second one without a pause.
fn two_loads(request: &TrialRequest, then: SecondPhase) -> Ramp {
    let positive = |value| NonZeroU64::new(value).unwrap_or(NonZeroU64::MIN);
    let micropps = |pps: u64| positive(pps.saturating_mul(1_000_000));
    Ramp {
        from_micropps: micropps(request.load_pps),
        to_micropps: micropps(then.load_pps),
        step_ns: positive(request.duration_ns),
        steps: NonZeroU32::MIN.saturating_add(1),
    }
}

/// When the frame with this index is due, from the first frame on.
fn due_ns(ramp: &Ramp, index: u64) -> u64 {
    u64::try_from(ramp.time_of(index)).unwrap_or(u64::MAX)
}

/// The index of the lost frame that was sent last, from 0 on, if one thread sent all. A frame that
/// came late counts as lost. Frames before the first one that arrived are passed over.
fn last_lost(received: &ReceiveResult, first: u64, sent: u64) -> Option<u64> {
    let behind_highest = received.lines.iter().map(|line| line.high).max().unwrap_or(0);
    if behind_highest < first + sent {
        return sent.checked_sub(1);
    }
    received.totals.after_gap.checked_sub(first + 1)
}

/// Frames that the receiving device did not give to its program.
#[derive(Debug)]
struct RxDrops {
    stack: Stack,
    link: Link,
}

impl RxDrops {
    fn new(netns: Option<&Netns>, ifname: &str) -> Result<Self, host::HostError> {
        let stack = netns.map_or_else(Stack::here, Stack::of)?;
        let link = stack.link(ifname)?;
        Ok(Self { stack, link })
    }

    /// Drops since the device was created. A veth whose ring is full counts a drop on either side,
    /// depending on who sends. Other drivers may count frames that XDP drops in `rx_dropped`.
    fn count(&self) -> u64 {
        let Ok(link) = self.stack.link(&self.link.name) else { return 0 };
        let LinkCounters { rx_dropped, rx_missed, rx_fifo, .. } = link.counters;
        if !link.is_kind("veth") {
            return rx_missed.max(rx_fifo);
        }
        let peer = self.stack.peer(&link).ok().flatten();
        rx_dropped.max(peer.map_or(0, |peer| peer.counters.tx_dropped))
    }
}

/// Sum of the gaps that are longer than `pause_ns`.
fn pauses(lengths: &[(u64, u64)], pause_ns: u64) -> u64 {
    lengths.iter().filter(|(gap_ns, _)| *gap_ns > pause_ns).map(|(gap_ns, count)| gap_ns * count).sum()
}

/// Waits until all frames have arrived, or none arrives any more.
fn drain(receiving: &Receiving, sent: u64) {
    let started = Instant::now();
    let mut received = receiving.received();
    while received < sent && started.elapsed() < DRAIN_MAX {
        thread::sleep(DRAIN_INTERVAL);
        let now = receiving.received();
        if now == received {
            return;
        }
        received = now;
    }
}

/// Options that a search gives to the sender itself.
fn refuse_own(send: &SendJob) -> Result<(), Failure> {
    let loads = "the search chooses the loads: --min-pps and --max-pps limit them";
    let trials = "the search chooses the lengths of its trials: --budget ends it";
    let given = [
        (send.count.is_some(), "--count", trials),
        (send.duration.is_some(), "--duration", trials),
        (send.runs.is_some(), "--runs", trials),
        (send.rate.is_some(), "--rate", loads),
        (send.pps.is_some(), "--pps", loads),
        (send.delay.is_some(), "--delay", loads),
        (send.ramp.is_some(), "--ramp", loads),
        (send.arrivals.is_some(), "--arrivals", "the frames of a trial have equal gaps"),
        (send.dry_run.is_some(), "--dry-run", "a search sends"),
        (send.signature.is_some(), "--signature", "a search chooses the signature of its frames"),
        (send.clone_skb.is_some(), "--clone-skb", "a search counts numbers, and copies have the same one"),
        (!send.streams.is_empty(), "--streams", "the frames of a search are one stream"),
    ];
    match given.into_iter().find(|(is_given, ..)| *is_given) {
        Some((_, option, why)) => Err(Failure::usage(format!("use {option} in a search"), why)
            .try_this(format!("the same without {option}"))),
        None => Ok(()),
    }
}

/// What the user's options of `wirerate send` ask for.
fn job_of_words(device: &str, options: &[String]) -> Result<SendJob, Failure> {
    let words = ["send", device].into_iter().chain(options.iter().map(String::as_str));
    let parser = SendArgs::augment_args(clap::Command::new("send").args_override_self(true));
    let matches = parser.try_get_matches_from(words);
    let args = matches.and_then(|matches| SendArgs::from_arg_matches(&matches)).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::usage("use these options of send", first).try_this("wirerate send --help")
    })?;
    job_of(args)
}
