//! Counters of runs, captures and receivers as metrics.

use super::Counted;
use crate::console::Console;
use crate::rx_stats::capture_frames;
use capture::{CountObserver, ReceiveObserver, SessionObserver};
use engine::{ConnectProgram, ReplayProgress, RunHandle};
use facts::{Fact, FlowFrames, ServerSegments};
use host::Netns;
use measure::FlowLine;
use metrics::MetricSet;
use metrics::families::{
    ACCEPT_CONNECTIONS, ACCEPT_SEGMENTS, CAPTURE_BYTES, CAPTURE_FILE_BYTES, CAPTURE_FRAMES,
    CAPTURE_RING_USED, CAPTURE_TIME, CONNECT_BYTES, CONNECT_ENDED, CONNECT_OPEN, CONNECT_RESPONSES,
    CONNECT_TRIED, CONNECT_UNUSUAL, FLOW_FRAMES, FLOW_JITTER, FLOW_LATENCY, FLOW_LATENCY_MAX,
    FLOW_LATENCY_SUM, FLOW_STAMPED, RECEIVE_CPU_FRAMES, RECEIVE_FRAMES, RECEIVE_MISSING, RECEIVE_OTHERS,
    RECEIVE_UNUSUAL, REPLAY_FRAMES, REPLAY_LOOPS, REPLAY_POSITION, REPLAY_RETRIES, REPLAY_STARVED,
    SEND_BYTES, SEND_ERRORS, SEND_FRAMES, SEND_GAP_ERROR, SEND_OFFERED, SEND_RETRIES, SEND_TARGET,
};
use metrics::{FamilyKind, MetricFamily};
use replay::{Fate, Fates};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Flows with a label of their own; the others are `other` together.
const FLOWS_NAMED: usize = 16;

/// The device of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceLabels {
    /// Its name.
    pub device: String,
    /// Its network namespace, as the user named it; empty for that of the process.
    pub netns: String,
}

impl DeviceLabels {
    /// Of a device, and its namespace if one was named.
    pub fn new(device: &str, netns: Option<&str>) -> Self {
        Self { device: device.to_owned(), netns: netns.unwrap_or_default().to_owned() }
    }

    /// Of a device in `netns`: by its name, else by its number; empty for that of the process.
    pub fn in_netns(device: &str, netns: &Netns) -> Self {
        let own = Netns::of_process(std::process::id());
        let label = match own.is_ok_and(|own| own == *netns) {
            true => String::new(),
            false => netns.name().unwrap_or_else(|| format!("net:[{}]", netns.id().inode)),
        };
        Self { device: device.to_owned(), netns: label }
    }

    fn pair(&self) -> [&str; 2] {
        [&self.device, &self.netns]
    }
}

/// A run of a worker.
#[derive(Clone, Debug)]
pub struct SendSource {
    /// Number of the sending thread.
    pub thread: usize,
    /// Its CPU.
    pub cpu: u32,
    /// The run.
    pub handle: Arc<RunHandle>,
}

/// Counters of the runs on a device.
pub fn send(labels: DeviceLabels, runs: Vec<SendSource>) -> impl Fn(&mut MetricSet) + Send {
    move |set| runs.iter().for_each(|run| run.read(&labels, set))
}

impl SendSource {
    fn read(&self, labels: &DeviceLabels, set: &mut MetricSet) {
        let snapshot = self.handle.snapshot();
        if let Some(rate) = snapshot.pace.frames_per_second() {
            set.add_gauge(&SEND_TARGET, &labels.pair(), rate);
        }
        // Before that nothing was sent.
        let Some(engine) = snapshot.engine else { return };
        let progress = self.handle.progress().total();
        let total = progress.with_retries();
        let [device, netns] = labels.pair();
        let (thread, cpu) = (self.thread.to_string(), self.cpu.to_string());
        let of_thread = [device, netns, &thread, &cpu, engine.name()];
        set.count(&SEND_OFFERED, &of_thread, total.offered());
        set.count(&SEND_FRAMES, &of_thread, total.sent);
        set.count(&SEND_BYTES, &of_thread, progress.sent_bytes());
        set.count(&SEND_RETRIES, &of_thread, total.retries);
        // A full ring costs retries.
        count_group(set, &SEND_ERRORS, labels.pair(), total.errors.causes.each());
        let (octaves, sum_ns) = self.handle.progress().gap_errors();
        if snapshot.pace.uniform_gap_ns().is_some() || octaves.iter().any(|count| *count > 0) {
            set.histogram(&SEND_GAP_ERROR, &labels.pair(), &octaves, sum_ns as f64 / 1e9);
        }
    }
}

/// Runs that begin and end while a command lives, such as those of control files.
#[derive(Clone, Debug, Default)]
pub struct RunList {
    runs: Arc<Mutex<Runs>>,
    console: Console,
}

#[derive(Debug, Default)]
struct Runs {
    live: Vec<(DeviceLabels, SendSource)>,
    /// Sums of runs that have ended.
    ended: MetricSet,
}

impl RunList {
    /// Of the command that has this console.
    #[must_use]
    pub fn of(console: &Console) -> Self {
        Self { console: console.clone(), ..Self::default() }
    }

    /// The console of the command.
    #[must_use]
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// Counts the runs in until the result is dropped.
    pub fn count_in(&self) -> Counted {
        self.console.count_sender_in(self.source())
    }

    /// Runs have been started on a device.
    pub fn begin(&self, labels: &DeviceLabels, started: impl IntoIterator<Item = SendSource>) {
        let mut runs = self.lock();
        runs.settle();
        runs.live.extend(started.into_iter().map(|run| (labels.clone(), run)));
    }

    /// Counters of all runs.
    pub fn source(&self) -> impl Fn(&mut MetricSet) + Send + use<> {
        let list = self.clone();
        move |set| {
            let mut runs = list.lock();
            runs.settle();
            set.add_ended(&runs.ended);
            runs.live.iter().for_each(|(labels, run)| run.read(labels, set));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        // A panic leaves counts behind, which stay valid.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    /// Moves the counts of runs that have ended to the sums.
    fn settle(&mut self) {
        for (labels, run) in self.live.extract_if(.., |(_, run)| run.handle.has_ended()) {
            let mut last = MetricSet::default();
            run.read(&labels, &mut last);
            self.ended.add_ended(&last);
        }
    }
}

/// Frames between two positions that are kept.
pub const POSITION_EVERY: u64 = 64;
/// Positions that are kept: those of the frames that wait in the ring of the engine, twice.
const POSITIONS: u64 = 2048;

/// Counters of a replay: those of the engine and of the files, and the last ones of the report.
#[derive(Debug)]
pub struct ReplayCounts {
    /// Frames offered to the driver.
    pub sending: Arc<ReplayProgress>,
    /// Packets without a frame, by [`Fate`].
    fates: [AtomicU64; Fate::ALL.len()],
    loops: AtomicU64,
    /// Frames of a loop, if the engine repeats it by itself.
    loop_len: AtomicU64,
    /// Positions in the files of one in [`POSITION_EVERY`] frames, as the bits of an `f64`.
    positions: Vec<AtomicU64>,
    has_position: AtomicBool,
    last: OnceLock<ReplayMoment>,
}

/// The counts of a replay at one moment.
#[derive(Clone, Copy, Debug)]
struct ReplayMoment {
    fates: Fates,
    loops: u64,
    starved: u64,
    position: Option<f64>,
}

impl Default for ReplayCounts {
    fn default() -> Self {
        Self {
            sending: Arc::default(),
            fates: Default::default(),
            loops: AtomicU64::new(0),
            loop_len: AtomicU64::new(0),
            positions: (0..POSITIONS).map(|_| AtomicU64::new(0)).collect(),
            has_position: AtomicBool::new(false),
            last: OnceLock::new(),
        }
    }
}

impl ReplayCounts {
    /// Counts a packet that gave no frame.
    pub fn count(&self, fate: Fate) {
        self.fates[fate as usize].fetch_add(1, Relaxed);
    }

    /// Sets the number of complete loops.
    pub fn set_loops(&self, loops: u64) {
        self.loops.store(loops, Relaxed);
    }

    /// The engine repeats a loop of this many frames by itself.
    pub fn set_loop_len(&self, frames: u64) {
        self.loop_len.store(frames, Relaxed);
    }

    /// Sets the part of the files before frame `number`, from 0 on, a multiple of
    /// [`POSITION_EVERY`].
    pub fn set_position(&self, number: u64, position: f64) {
        self.positions[(number / POSITION_EVERY % POSITIONS) as usize].store(position.to_bits(), Relaxed);
        self.has_position.store(true, Relaxed);
    }

    /// The run has ended with these packets, loops, and waits for the file.
    pub fn end(&self, fates: &Fates, loops: u64, starved: u64) {
        let position = self.position(fates.sent + fates.errors);
        // A run ends once.
        let _ = self.last.set(ReplayMoment { fates: *fates, loops, starved, position });
    }

    /// The part of the files before frame `number`, which is in the ring or was just sent.
    fn position(&self, number: u64) -> Option<f64> {
        let bits = self.positions[(number / POSITION_EVERY % POSITIONS) as usize].load(Relaxed);
        self.has_position.load(Relaxed).then(|| f64::from_bits(bits))
    }

    fn read(&self) -> ReplayMoment {
        if let Some(last) = self.last.get() {
            return *last;
        }
        let total = self.sending.total();
        let mut fates = Fates { sent: total.sent, errors: total.errors.total(), ..Fates::default() };
        // Before the engine repeats a loop, the counts are those of one.
        let (loop_len, offered) = (self.loop_len.load(Relaxed), total.offered());
        let loops = offered.checked_div(loop_len);
        for fate in Fate::ALL {
            fates.add(fate, self.fates[fate as usize].load(Relaxed) * loops.map_or(1, |loops| loops.max(1)));
        }
        if let Some(loops) = loops {
            let position = Some((offered % loop_len) as f64 / loop_len as f64);
            return ReplayMoment { fates, loops, starved: self.sending.starved(), position };
        }
        ReplayMoment {
            fates,
            loops: self.loops.load(Relaxed),
            starved: self.sending.starved(),
            position: self.position(offered),
        }
    }
}

/// Counters of a replay.
pub fn replay(counts: Arc<ReplayCounts>, labels: DeviceLabels) -> impl Fn(&mut MetricSet) + Send {
    move |set| {
        let [device, netns] = labels.pair();
        let ReplayMoment { fates, loops, starved, position } = counts.read();
        set.count(&REPLAY_FRAMES, &[device, netns, "sent"], fates.sent);
        count_group(set, &REPLAY_FRAMES, labels.pair(), fates.left_out.each());
        set.count(&REPLAY_FRAMES, &[device, netns, "error"], fates.errors);
        set.count(&REPLAY_LOOPS, &labels.pair(), loops);
        set.count(&REPLAY_STARVED, &labels.pair(), starved);
        set.count(&REPLAY_RETRIES, &labels.pair(), counts.sending.total().retries);
        if let Some(position) = position {
            set.gauge(&REPLAY_POSITION, &labels.pair(), position);
        }
    }
}

/// Counters of a capture. Frames on their way to the file have no fate yet.
pub fn capture(session: SessionObserver, netns: Option<&str>) -> impl Fn(&mut MetricSet) + Send + use<> {
    let (netns, ifnames) = (netns.unwrap_or_default().to_owned(), session.ifnames());
    move |set| {
        let (stats, ring_used) = (session.stats(), session.ring_used());
        for (place, device) in ifnames.iter().enumerate() {
            let (counts, labels) = (stats.of_device(place), [device.as_str(), netns.as_str()]);
            let frames = capture_frames(&counts, stats.devices[place].lost_nic);
            count_group(set, &CAPTURE_FRAMES, labels, frames.each());
            set.count(&CAPTURE_BYTES, &labels, counts.received_bytes);
            let kernel = counts.written.saturating_sub(counts.hardware_time);
            set.count(&CAPTURE_TIME, &[device, &netns, "kernel"], kernel);
            set.count(&CAPTURE_TIME, &[device, &netns, "device"], counts.hardware_time);
            if let Some(used) = ring_used[place] {
                set.gauge(&CAPTURE_RING_USED, &labels, used);
            }
        }
        for ring in &stats.rings {
            let device = ifnames.get(ring.device).map_or("", String::as_str);
            count_of_cpu(set, device, &netns, ring.cpu, ring.counts.received);
        }
        set.count(&CAPTURE_FILE_BYTES, &[&ifnames.join(","), &netns], stats.output_bytes);
    }
}

/// Counters of `count` and `sink`.
pub fn count(counting: CountObserver, labels: DeviceLabels) -> impl Fn(&mut MetricSet) + Send {
    move |set| {
        set.count(&RECEIVE_FRAMES, &labels.pair(), counting.received());
        count_cpus(set, &labels, counting.received_per_cpu());
    }
}

/// Counters of connections.
pub fn connect(program: Arc<ConnectProgram>, labels: DeviceLabels) -> impl Fn(&mut MetricSet) + Send {
    move |set| {
        let counts = program.counts();
        let pair = labels.pair();
        set.count(&CONNECT_TRIED, &pair, counts.tried);
        set.count(&CONNECT_RESPONSES, &pair, counts.responses);
        set.count(&CONNECT_BYTES, &pair, counts.payload_bytes);
        set.gauge(&CONNECT_OPEN, &pair, program.open_now() as f64);
        set.count(&CONNECT_ENDED, &[pair[0], pair[1], "completed"], counts.completed);
        count_group(set, &CONNECT_ENDED, pair, counts.failures.each());
        count_group(set, &CONNECT_UNUSUAL, pair, counts.unusual.each());
    }
}

/// Counters of a server of connections. `segments` reads them.
pub fn accept(
    segments: impl Fn() -> ServerSegments + Send,
    labels: DeviceLabels,
) -> impl Fn(&mut MetricSet) + Send {
    move |set| {
        let (pair, segments) = (labels.pair(), segments());
        set.count(&ACCEPT_CONNECTIONS, &pair, segments.accepted);
        count_group(set, &ACCEPT_SEGMENTS, pair, segments.each());
    }
}

/// The counts of a group that are known, by their names.
fn count_group(
    set: &mut MetricSet,
    family: &MetricFamily,
    [device, netns]: [&str; 2],
    counts: impl Iterator<Item = (&'static Fact, Option<u64>)>,
) {
    for (fact, count) in counts.filter_map(|(fact, count)| Some((fact, count?))) {
        set.count(family, &[device, netns, fact.name], count);
    }
}

/// Frames of each CPU that received some.
fn count_cpus(set: &mut MetricSet, labels: &DeviceLabels, cpus: impl Iterator<Item = u64>) {
    (0..).zip(cpus).for_each(|(cpu, count)| count_of_cpu(set, &labels.device, &labels.netns, cpu, count));
}

fn count_of_cpu(set: &mut MetricSet, device: &str, netns: &str, cpu: u32, count: u64) {
    if count > 0 {
        set.count(&RECEIVE_CPU_FRAMES, &[device, netns, &cpu.to_string()], count);
    }
}

/// Frames of a receiver without its flows.
pub fn receive_total(receiving: ReceiveObserver, labels: DeviceLabels) -> impl Fn(&mut MetricSet) + Send {
    move |set| set.count(&RECEIVE_FRAMES, &labels.pair(), receiving.received())
}

/// Counters of a receiver. `unsent` returns how many numbers its sender did not send so far.
pub fn receive(
    receiving: ReceiveObserver,
    labels: DeviceLabels,
    unsent: impl Fn() -> u64 + Send,
) -> impl Fn(&mut MetricSet) + Send {
    move |set| {
        set.count(&RECEIVE_FRAMES, &labels.pair(), receiving.received());
        let totals = receiving.totals();
        count_group(set, &RECEIVE_OTHERS, labels.pair(), totals.others.each());
        count_group(set, &RECEIVE_UNUSUAL, labels.pair(), totals.unusual.each());
        count_cpus(set, &labels, receiving.received_per_cpu().into_iter());
        let (mut latency_sum_ns, mut others) = (0.0, Highest::default());
        let lines: Vec<FlowLine> = receiving.lines().collect();
        if lines.iter().any(|line| !line.is_empty()) {
            let missing = receiving.missing(&lines).saturating_sub(unsent());
            set.gauge(&RECEIVE_MISSING, &labels.pair(), missing as f64);
        }
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            latency_sum_ns += line.latency_sum_ns as f64;
            let flow = if number < FLOWS_NAMED { number.to_string() } else { "other".to_owned() };
            for (fact, count) in flow_frames(line).each() {
                let of_fate = [&labels.device, &labels.netns, flow.as_str(), fact.name];
                set.count(&FLOW_FRAMES, &of_fate, count.unwrap_or(0));
            }
            let Some((_, max_ns)) = line.latency_bounds_ns() else { continue };
            let own = Highest { latency_ns: max_ns, jitter_ns: line.jitter_ns() };
            let highest = if number < FLOWS_NAMED { own } else { others.raise(own) };
            let of_flow = [labels.device.as_str(), &labels.netns, &flow];
            set.count(&FLOW_STAMPED, &of_flow, receiving.stamped(line));
            set.count_seconds(&FLOW_LATENCY_SUM, &of_flow, line.latency_sum_ns as f64 / 1e9);
            set.gauge(&FLOW_LATENCY_MAX, &of_flow, highest.latency_ns as f64 / 1e9);
            if let Some(jitter_ns) = highest.jitter_ns {
                set.gauge(&FLOW_JITTER, &of_flow, jitter_ns / 1e9);
            }
        }
        let histogram = receiving.histogram();
        let octaves = octaves(&FLOW_LATENCY, &histogram);
        if octaves.iter().any(|count| *count > 0) {
            let all = [labels.device.as_str(), &labels.netns, "all"];
            set.histogram(&FLOW_LATENCY, &all, &octaves, latency_sum_ns / 1e9);
            set.fine_counts(&FLOW_LATENCY, measure::used_buckets(&histogram));
        }
    }
}

/// The highest latency and jitter of one flow, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    latency_ns: u64,
    /// `None` before the second latency.
    jitter_ns: Option<f64>,
}

impl Highest {
    /// Takes in another flow; returns the highest so far.
    fn raise(&mut self, other: Self) -> Self {
        self.latency_ns = self.latency_ns.max(other.latency_ns);
        self.jitter_ns = [self.jitter_ns, other.jitter_ns].into_iter().flatten().reduce(f64::max);
        *self
    }
}

/// Every received frame of a flow is one of these.
fn flow_frames(line: &FlowLine) -> FlowFrames {
    let reordered = u64::from(line.reordered);
    FlowFrames {
        in_order: line.unique().saturating_sub(reordered),
        reordered,
        duplicate: line.duplicate.into(),
        too_old: line.too_old.into(),
    }
}

fn octaves(family: &MetricFamily, histogram: &[u64]) -> Vec<u64> {
    match family.kind {
        FamilyKind::Histogram { first, last } => measure::octaves(histogram, first, last),
        FamilyKind::Counter | FamilyKind::Gauge => unreachable!("{} is a histogram", family.name),
    }
}
