//! Measures the frames of a device: the XDP program of `bpf::Receiver` from start to end.

use crate::backend::quiesce;
use crate::options::Mode;
use crate::{CaptureError, XdpFacts, XdpModeChoice};
use bpf::xdp::XdpLink;
use bpf::{Receiver, ReceiverParams, SinkVerdict, abi};
use host::{ClockOffset, Link, Netns, Stack};
use measure::{Figures, FlowLine, MeterOptions, Totals};
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
    /// How the XDP program may be attached.
    pub xdp: XdpModeChoice,
    /// What the receiver must know of the sender.
    pub meter: MeterOptions,
    /// True if several CPUs receive frames of one flow.
    pub is_shared: bool,
}

/// A device that is measured. Dropping it takes the program off.
#[derive(Debug)]
pub struct Receiving {
    receiver: Receiver,
    link: XdpLink,
    xdp: XdpFacts,
    device: Link,
    options: MeterOptions,
    clock: ClockOffset,
    started: Instant,
}

/// Everything measured.
#[derive(Clone, Debug)]
pub struct ReceiveResult {
    /// What the receiver knew of the sender.
    pub options: MeterOptions,
    /// The flows: those of stream 0, then those of stream 1.
    pub lines: Vec<FlowLine>,
    /// Counts of all CPUs.
    pub totals: Totals,
    /// Latencies by bucket.
    pub histogram: Vec<u64>,
    /// Frames of this run per CPU, from CPU 0 on.
    pub cpus: Vec<u64>,
    /// The numbers that were sent, if the sender announced the end of its run.
    pub announced: Option<u64>,
    /// Maximum error of the offset between wall clock and monotonic clock.
    pub clock_uncertainty_ns: u64,
    /// Time from attaching to detaching.
    pub elapsed: Duration,
    /// True when the device was deleted, or left its namespace, before the end.
    pub is_device_gone: bool,
}

impl ReceiveResult {
    /// The results.
    pub fn figures(&self) -> Figures {
        Figures::new(&self.options, &self.lines, &self.totals, &self.histogram)
    }
}

impl Receiving {
    /// Starts to measure.
    ///
    /// # Errors
    /// [`CaptureError::Host`] when there is no such device; [`CaptureError::Bpf`] when the program
    /// cannot be loaded or attached, or the device has one.
    pub fn start(options: &ReceiveOptions) -> Result<Self, CaptureError> {
        match &options.netns {
            Some(netns) => netns.run(|| Self::start_here(options))?,
            None => Self::start_here(options),
        }
    }

    fn start_here(options: &ReceiveOptions) -> Result<Self, CaptureError> {
        let device = Stack::here()?.link(&options.ifname)?;
        bpf::xdp::refuse_if_busy(device.index, &device.name)?;
        let meter = options.meter;
        let receiver = Receiver::load(&ReceiverParams {
            verdict: match options.mode {
                Mode::Mirror => SinkVerdict::Pass,
                Mode::Drop => SinkVerdict::Drop,
            },
            flow_count: meter.flow_count,
            stream_count: meter.stream_count,
            carried_flows: meter.carried_flows,
            is_shared: options.is_shared,
            has_test_clock: false,
        })?;
        let clock = ClockOffset::measure();
        receiver.set_run(meter.run);
        receiver.set_stamp_shift(meter.stamp_shift);
        receiver.set_wall_offset_ns(clock.offset_ns.cast_unsigned());
        let started = Instant::now();
        let link = receiver.attach(device.index, &device.name, options.xdp)?;
        let xdp = XdpFacts::from(&link);
        Ok(Self { receiver, link, xdp, device, options: meter, clock, started })
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        &self.device
    }

    /// How the program is attached.
    pub fn xdp(&self) -> &XdpFacts {
        &self.xdp
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// True when the device was deleted, or left its namespace.
    pub fn is_device_gone(&self) -> bool {
        !self.link.is_attached()
    }

    /// Frames of this run so far.
    pub fn received(&self) -> u64 {
        self.receiver.received_per_cpu().sum()
    }

    /// The numbers that were sent, once the sender has announced the end of its run.
    pub fn announced(&self) -> Option<u64> {
        self.receiver.announced()
    }

    /// The line of a flow, by its place among the lines.
    pub fn line(&self, index: usize) -> FlowLine {
        line_of(self.receiver.line(index))
    }

    /// Counts of all CPUs.
    pub fn totals(&self) -> Totals {
        totals(&self.receiver)
    }

    /// Everything so far. While frames arrive, the counts may differ by a few frames.
    pub fn snapshot(&self) -> ReceiveResult {
        read(&self.receiver, self.options, self.clock, self.elapsed(), self.is_device_gone())
    }

    /// Takes the program off and waits until it runs nowhere, so that the numbers are final.
    pub fn stop(self) -> ReceiveResult {
        let is_device_gone = self.is_device_gone();
        drop(self.link);
        let elapsed = self.started.elapsed();
        let frames = || self.receiver.per_cpu().map(|cpu| cpu.frames).sum();
        quiesce::wait_for_last_frames(frames);
        read(&self.receiver, self.options, self.clock, elapsed, is_device_gone)
    }
}

fn read(
    receiver: &Receiver,
    options: MeterOptions,
    clock: ClockOffset,
    elapsed: Duration,
    is_device_gone: bool,
) -> ReceiveResult {
    ReceiveResult {
        options,
        lines: receiver.lines().map(line_of).collect(),
        totals: totals(receiver),
        histogram: receiver.histogram(),
        cpus: receiver.received_per_cpu().collect(),
        announced: receiver.announced(),
        clock_uncertainty_ns: clock.uncertainty_ns,
        elapsed,
        is_device_gone,
    }
}

fn totals(receiver: &Receiver) -> Totals {
    let mut totals = Totals::default();
    receiver.per_cpu().for_each(|cpu| totals.add(&totals_of(&cpu)));
    totals
}

fn totals_of(cpu: &abi::ReceiveCpu) -> Totals {
    Totals {
        frames: cpu.frames,
        frame_bytes: cpu.frame_bytes,
        received: cpu.received,
        stale: cpu.stale,
        foreign: cpu.foreign,
        damaged: cpu.damaged,
        stamped: cpu.stamped,
        negative: cpu.negative,
        moves: cpu.moves,
        with_flow: cpu.with_flow,
        held: cpu.held,
        lowest_inverted: cpu.lowest_inverted,
        ipdv_min_inverted: cpu.ipdv_min_inverted,
        ipdv_max: cpu.ipdv_max,
    }
}

fn line_of(line: abi::FlowLine) -> FlowLine {
    FlowLine {
        high: line.high,
        window: line.window,
        unique_cpu: line.unique_cpu,
        latency_sum_ns: line.latency_sum_ns,
        duplicate: line.duplicate,
        reordered: line.reordered,
        too_old: line.too_old,
        stamped: line.stamped,
        jitter16: line.jitter16,
        transit: line.transit_ns,
        latency_min_inverted: line.latency_min_inverted,
        latency_max_ns: line.latency_max_ns,
    }
}
