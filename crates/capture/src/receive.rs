//! Measures the frames of a device: the XDP program of `bpf::Receiver`, or a packet socket, from
//! start to end.

use crate::attached::Attached;
use crate::backend::SourceFacts;
use crate::error::first_line;
use crate::options::{Mode, SourceKind};
use crate::receive_clock::{ReceiveClock, Stamps};
use crate::socket_receiver::{SharedMeter, SocketReceiver};
use crate::{CaptureError, PhcFacts, XdpModeChoice};
use bpf::{BpfError, Receiver, ReceiverParams, ReflectStats, TaggedFrames};
use host::{ClockOffset, Link, Netns, Stack};
use measure::{Figures, FlowDetail, FlowLine, MeterOptions, TagPart, Totals};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The device, by any of its names.
    pub ifname: String,
    /// Its namespace; `None` for that of the calling thread.
    pub netns: Option<Netns>,
    /// What becomes of a frame that was measured; the host receives all others.
    pub mode: Mode,
    /// XDP or a packet socket. [`SourceKind::Best`] takes a socket where there is no XDP, but not
    /// where another program has the device.
    pub source: SourceKind,
    /// How the XDP program may be attached.
    pub xdp: XdpModeChoice,
    /// What the receiver must know of the sender.
    pub meter: MeterOptions,
    /// True if several CPUs receive frames of one flow.
    pub is_shared: bool,
    /// True if bytes and times of each flow are kept: [`Receiving::detail`].
    pub has_details: bool,
    /// True if XDP counts frames by values in them: [`Receiving::set_tag`].
    pub has_tags: bool,
    /// True if measured frames go back to their sender, whatever the mode is.
    pub reflects: bool,
}

/// A device that is measured. Dropping it ends that.
#[derive(Debug)]
pub struct Receiving {
    counter: Counter,
    mode: Mode,
    options: MeterOptions,
    clock: ClockOffset,
    stamps: Stamps,
    reflector: Option<Reflector>,
}

/// The part of a receiver that sends frames back.
#[derive(Debug)]
struct Reflector {
    /// `None` where the kernel does not let this process count.
    stats: Option<ReflectStats>,
}

impl Reflector {
    /// For a device of the calling thread's namespace.
    fn new(device: &Link) -> Result<Self, CaptureError> {
        let netns = Netns::current()?.id().inode;
        Ok(Self { stats: ReflectStats::attach(device.index, netns as u32).ok() })
    }

    fn counts(&self, totals: &Totals) -> Reflected {
        Reflected {
            frames: totals.frames - totals.others.foreign,
            not_sent: self.stats.as_ref().map(ReflectStats::not_sent),
        }
    }
}

/// Frames that a receiver sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflected {
    /// Frames with a signature.
    pub frames: u64,
    /// Of these, frames that the driver did not send; `None` if that is unknown.
    pub not_sent: Option<u64>,
}

/// What counts the frames.
#[derive(Debug)]
enum Counter {
    Xdp { receiver: Arc<Receiver>, attached: Attached, _clock: Option<ReceiveClock> },
    Socket { receiver: Box<SocketReceiver>, device: Link, started: Instant },
}

/// Everything measured.
#[derive(Clone, Debug)]
pub struct ReceiveResult {
    /// What the receiver knew of the sender.
    pub options: MeterOptions,
    /// The flows: those of stream 0, then those of stream 1. The last ones may be left out if they
    /// have no frames.
    pub lines: Vec<FlowLine>,
    /// Counts of all CPUs.
    pub totals: Totals,
    /// Latencies by bucket.
    pub histogram: Vec<u64>,
    /// Frames of this run per CPU, from CPU 0 on. Packet sockets do not tell CPUs apart.
    pub cpus: Vec<u64>,
    /// Frames that this receiver lost because the ring of its packet socket was full.
    pub lost_ring: u64,
    /// The numbers that were sent, if the sender announced the end of its run.
    pub announced: Option<u64>,
    /// Frames that went back, of a reflector.
    pub reflected: Option<Reflected>,
    /// Maximum error of the offset between wall clock and monotonic clock, and of that to the clock
    /// of the device if it stamps frames.
    pub clock_uncertainty_ns: u64,
    /// Time from attaching to detaching.
    pub elapsed: Duration,
    /// True when the device was deleted, or left its namespace, before the end.
    pub is_device_gone: bool,
}

impl ReceiveResult {
    /// The sums of two receivers. The flows of the other one follow those of this one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.lines.extend(other.lines);
        self.totals.add(&other.totals);
        add(&mut self.histogram, &other.histogram);
        add(&mut self.cpus, &other.cpus);
        self.lost_ring += other.lost_ring;
        self.announced = self.announced.zip(other.announced).map(|(one, other)| one + other);
        self.clock_uncertainty_ns = self.clock_uncertainty_ns.max(other.clock_uncertainty_ns);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.is_device_gone |= other.is_device_gone;
        self
    }

    /// The results of flows whose numbers frames carry, without those of the others: their frames
    /// count as foreign.
    #[must_use]
    pub fn of_flows(mut self, flows: &BTreeSet<usize>) -> Self {
        measure::keep_flows(flows, &mut self.lines, &mut self.totals, &mut self.histogram);
        self
    }

    /// The results.
    pub fn figures(&self) -> Figures {
        Figures::new(&self.options, &self.lines, &self.totals, &self.histogram)
    }
}

/// Adds counts to sums, place by place.
fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

impl Receiving {
    /// Starts to measure.
    ///
    /// # Errors
    /// [`CaptureError::Host`] when there is no such device; [`CaptureError::Bpf`] when the program
    /// cannot be loaded or attached, or the device has one; [`CaptureError::PacketSocket`].
    pub fn start(options: &ReceiveOptions) -> Result<Self, CaptureError> {
        match options.source {
            SourceKind::Xdp => Self::start_xdp(options),
            _ if options.reflects => Self::start_xdp(options),
            SourceKind::Tpacket => Self::start_socket(options, None),
            SourceKind::Best => Self::start_xdp(options).or_else(|error| match &error {
                CaptureError::Bpf(refusal) if !matches!(refusal, BpfError::XdpBusy { .. }) => {
                    let why = first_line(&refusal.to_string());
                    Self::start_socket(options, Some(why)).map_err(|_| error)
                }
                _ => Err(error),
            }),
        }
    }

    fn start_xdp(options: &ReceiveOptions) -> Result<Self, CaptureError> {
        Attached::start_on(options.netns.as_ref(), &options.ifname, |device| Self::start_on(device, options))
    }

    fn start_on(device: Link, options: &ReceiveOptions) -> Result<Self, CaptureError> {
        let meter = options.meter;
        // Before the program, so that no frame is missed.
        let reflector = options.reflects.then(|| Reflector::new(&device)).transpose()?;
        let own_mac = device.mac.map_or([0; 6], |mac| mac.0);
        let mut stamps = Stamps::of_programs(&Stack::here()?, &device)?;
        let receiver = Receiver::load(&ReceiverParams {
            verdict: options.mode.verdict(),
            reflect_as: options.reflects.then_some(own_mac),
            flow_count: meter.flow_count,
            stream_count: meter.stream_count,
            carried_flows: meter.carried_flows,
            is_shared: options.is_shared,
            has_details: options.has_details,
            has_tags: options.has_tags,
            has_wide_window: meter.has_wide_window,
            stamps_of: stamps.clock().map(|_| device.index),
            has_test_clock: false,
            counts_up: false,
        })?;
        let clock = ClockOffset::measure();
        receiver.set_run(meter.run);
        receiver.set_stamp_shift(meter.stamp_shift);
        receiver.set_deadline_ns(meter.deadline_ns);
        receiver.set_wall_offset_ns(clock.offset_ns.cast_unsigned());
        if let Some(refusal) = receiver.stamps_refusal() {
            stamps = Stamps::Kernel(Some(first_line(refusal)));
        }
        let receiver = Arc::new(receiver);
        let start_clock = |phc: &Arc<_>| {
            ReceiveClock::start(Arc::clone(phc), Arc::clone(&receiver))
                .map_err(|source| CaptureError::Thread { what: "the clock of a receiver".to_owned(), source })
        };
        let mut device_clock = stamps.clock().map(start_clock).transpose()?;
        let link = receiver.attach(device.index, &device.name, options.xdp)?;
        if device_clock.is_some() && !link.uses_metadata() {
            let why = "the program that reads them could not be attached".to_owned();
            (stamps, device_clock) = (Stamps::Kernel(Some(why)), None);
        }
        let attached = Attached::new(link, device);
        let counter = Counter::Xdp { receiver, attached, _clock: device_clock };
        Ok(Self { counter, mode: options.mode, options: meter, clock, stamps, reflector })
    }

    fn start_socket(options: &ReceiveOptions, why: Option<String>) -> Result<Self, CaptureError> {
        let start_here = || {
            let stack = Stack::here()?;
            let device = stack.link(options.ifname.as_str())?;
            let clock = ClockOffset::measure();
            let mut stamps = Stamps::of_sockets(&stack, &device)?;
            let receiver = SocketReceiver::start(&device, options.meter, clock, &stamps, why)?;
            if let Some(refusal) = receiver.stamps_refusal() {
                stamps = Stamps::Kernel(Some(refusal));
            }
            let counter = Counter::Socket { receiver: Box::new(receiver), device, started: Instant::now() };
            Ok(Self { counter, mode: Mode::Mirror, options: options.meter, clock, stamps, reflector: None })
        };
        match &options.netns {
            Some(netns) => netns.run(start_here)?,
            None => start_here(),
        }
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        match &self.counter {
            Counter::Xdp { attached, .. } => &attached.device,
            Counter::Socket { device, .. } => device,
        }
    }

    /// How frames are taken.
    pub fn source(&self) -> SourceFacts {
        match &self.counter {
            Counter::Xdp { attached, .. } => SourceFacts::Xdp(attached.xdp.clone()),
            Counter::Socket { receiver, .. } => receiver.facts(),
        }
    }

    /// The clock of the device, if frames get its time stamps.
    pub fn device_clock(&self) -> Option<PhcFacts> {
        self.stamps.clock().map(|clock| clock.facts())
    }

    /// Why frames get the kernel's time stamps only, although the device makes some.
    pub fn stamps_refusal(&self) -> Option<&str> {
        self.stamps.refusal()
    }

    /// What becomes of a measured frame: packet sockets drop none.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        match &self.counter {
            Counter::Xdp { attached, .. } => attached.elapsed(),
            Counter::Socket { started, .. } => started.elapsed(),
        }
    }

    /// True when the device was deleted, or left its namespace.
    pub fn is_device_gone(&self) -> bool {
        match &self.counter {
            Counter::Xdp { attached, .. } => attached.is_device_gone(),
            Counter::Socket { receiver, .. } => receiver.is_gone(),
        }
    }

    /// Frames of this run so far.
    pub fn received(&self) -> u64 {
        self.observer().received()
    }

    /// First copies so far, over all flows.
    pub fn unique(&self) -> u64 {
        self.observer().lines().map(|line| line.unique()).sum()
    }

    /// The numbers that were sent, once the sender has announced the end of its run.
    pub fn announced(&self) -> Option<u64> {
        match &self.counter {
            Counter::Xdp { receiver, .. } => receiver.announced(),
            Counter::Socket { receiver, .. } => receiver.meter().lock().announced(),
        }
    }

    /// The line of a flow, by its place among the lines.
    pub fn line(&self, index: usize) -> FlowLine {
        match &self.counter {
            Counter::Xdp { receiver, .. } => receiver.line(index),
            Counter::Socket { receiver, .. } => receiver.meter().lock().line(index),
        }
    }

    /// Bytes and times of a flow, by its place among the lines, if they are kept. The times are
    /// those of the wall clock, as it was at the start.
    pub fn detail(&self, index: usize) -> Option<FlowDetail> {
        let detail = match &self.counter {
            Counter::Xdp { receiver, .. } => receiver.detail(index)?,
            Counter::Socket { receiver, .. } => receiver.meter().lock().detail(index),
        };
        let (first_ns, last_ns) = (self.wall_ns(detail.first_ns), self.wall_ns(detail.last_ns));
        Some(FlowDetail { first_ns, last_ns, ..detail })
    }

    /// A time of the kernel by the wall clock, as it was at the start; 0 is no time.
    fn wall_ns(&self, time_ns: u64) -> u64 {
        if time_ns == 0 { 0 } else { time_ns.wrapping_add_signed(self.clock.offset_ns) }
    }

    /// The frames of a flow, by its place among the lines, or all frames of the device, are counted
    /// by the values of these parts from now on. XDP only, with [`ReceiveOptions::has_tags`].
    pub fn set_tag(&self, line: Option<usize>, parts: &[TagPart]) {
        if let Counter::Xdp { receiver, .. } = &self.counter {
            receiver.set_tag(line, parts);
        }
    }

    /// Drops what was counted by values of these flows, or of all frames of the device (`None`).
    /// They are not counted by values until [`Self::set_tag`].
    pub fn forget_tagged(&self, lines: &BTreeSet<Option<usize>>) {
        if let Counter::Xdp { receiver, .. } = &self.counter {
            receiver.forget_tagged(lines);
        }
    }

    /// Frames by the values of [`Self::set_tag`], with times of the wall clock. At most 65,536
    /// values are counted.
    pub fn tagged(&self) -> Vec<TaggedFrames> {
        let Counter::Xdp { receiver, .. } = &self.counter else { return Vec::new() };
        let mut tagged = receiver.tagged();
        for TaggedFrames { counts, .. } in &mut tagged {
            (counts.first_ns, counts.last_ns) = (self.wall_ns(counts.first_ns), self.wall_ns(counts.last_ns));
        }
        tagged
    }

    /// Counts of all CPUs.
    pub fn totals(&self) -> Totals {
        match &self.counter {
            Counter::Xdp { receiver, .. } => receiver.totals(),
            Counter::Socket { receiver, .. } => receiver.meter().lock().totals().clone(),
        }
    }

    /// Everything so far. While frames arrive, the counts may differ by a few frames.
    pub fn snapshot(&self) -> ReceiveResult {
        self.read(self.elapsed(), self.is_device_gone())
    }

    /// Reads the counts from other threads, also after the end.
    pub fn observer(&self) -> ReceiveObserver {
        let observed = match &self.counter {
            Counter::Xdp { receiver, .. } => Observed::Xdp(Arc::clone(receiver)),
            Counter::Socket { receiver, .. } => Observed::Socket(receiver.meter().clone()),
        };
        ReceiveObserver { observed, options: self.options }
    }

    /// Takes no more frames and waits until the numbers are final.
    pub fn stop(mut self) -> ReceiveResult {
        let (elapsed, is_device_gone) = (self.elapsed(), self.is_device_gone());
        match &mut self.counter {
            Counter::Xdp { receiver, attached, .. } => {
                attached.detach(|| receiver.per_cpu().map(|cpu| cpu.frames).sum());
            }
            Counter::Socket { receiver, .. } => receiver.end(),
        }
        self.read(elapsed, is_device_gone)
    }

    fn read(&self, elapsed: Duration, is_device_gone: bool) -> ReceiveResult {
        let device_ns = self.device_clock().map_or(0, |facts| facts.uncertainty_ns);
        let (options, clock_uncertainty_ns) = (self.options, self.clock.uncertainty_ns + device_ns);
        match &self.counter {
            Counter::Xdp { receiver, .. } => {
                let totals = receiver.totals();
                ReceiveResult {
                    options,
                    lines: receiver.lines().collect(),
                    reflected: self.reflector.as_ref().map(|reflector| reflector.counts(&totals)),
                    totals,
                    histogram: receiver.histogram(),
                    cpus: receiver.received_per_cpu().collect(),
                    lost_ring: 0,
                    announced: receiver.announced(),
                    clock_uncertainty_ns,
                    elapsed,
                    is_device_gone,
                }
            }
            Counter::Socket { receiver, .. } => {
                let lost_ring = receiver.lost();
                let meter = receiver.meter().lock();
                ReceiveResult {
                    options,
                    lines: meter.lines().to_vec(),
                    totals: meter.totals().clone(),
                    histogram: meter.histogram().to_vec(),
                    cpus: Vec::new(),
                    lost_ring,
                    reflected: None,
                    announced: meter.announced(),
                    clock_uncertainty_ns,
                    elapsed,
                    is_device_gone,
                }
            }
        }
    }
}

/// Reads the counts of a [`Receiving`] from another thread. While frames arrive, the counts may
/// differ by a few frames.
#[derive(Clone, Debug)]
pub struct ReceiveObserver {
    observed: Observed,
    options: MeterOptions,
}

/// What is read.
#[derive(Clone, Debug)]
enum Observed {
    Xdp(Arc<Receiver>),
    Socket(SharedMeter),
}

impl ReceiveObserver {
    /// The flows: those of stream 0, then those of stream 1.
    pub fn lines(&self) -> Box<dyn ExactSizeIterator<Item = FlowLine> + '_> {
        match &self.observed {
            Observed::Xdp(receiver) => Box::new(receiver.lines()),
            Observed::Socket(meter) => Box::new(meter.lock().lines().to_vec().into_iter()),
        }
    }

    /// Numbers below the highest ones of `lines` that have not arrived.
    pub fn missing(&self, lines: &[FlowLine]) -> u64 {
        measure::missing(&self.options, lines, &self.totals())
    }

    /// Counts of all flows together.
    pub fn totals(&self) -> Totals {
        match &self.observed {
            Observed::Xdp(receiver) => receiver.totals(),
            Observed::Socket(meter) => meter.lock().totals().clone(),
        }
    }

    /// First copies of a flow that have a latency.
    pub fn stamped(&self, line: &FlowLine) -> u64 {
        line.stamped_count(self.options.stamp_shift > 0)
    }

    /// Frames of this run so far.
    pub fn received(&self) -> u64 {
        match &self.observed {
            Observed::Xdp(receiver) => receiver.received_per_cpu().sum(),
            Observed::Socket(meter) => meter.lock().totals().received,
        }
    }

    /// Frames of this run so far, by CPU; empty if they are counted from a packet socket.
    pub fn received_per_cpu(&self) -> Vec<u64> {
        match &self.observed {
            Observed::Xdp(receiver) => receiver.received_per_cpu().collect(),
            Observed::Socket(_) => Vec::new(),
        }
    }

    /// Latencies by bucket.
    pub fn histogram(&self) -> Vec<u64> {
        match &self.observed {
            Observed::Xdp(receiver) => receiver.histogram(),
            Observed::Socket(meter) => meter.lock().histogram().to_vec(),
        }
    }
}
