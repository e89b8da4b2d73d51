//! Measures the frames of a device: the XDP program of `bpf::Receiver` from start to end.

use crate::attached::Attached;
use crate::options::Mode;
use crate::{CaptureError, XdpFacts, XdpModeChoice};
use bpf::{Receiver, ReceiverParams};
use host::{ClockOffset, Link, Netns};
use measure::{Figures, FlowDetail, FlowLine, MeterOptions, Totals};
use std::sync::Arc;
use std::time::Duration;

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
    /// True if bytes and times of each flow are kept: [`Receiving::detail`].
    pub has_details: bool,
}

/// A device that is measured. Dropping it takes the program off.
#[derive(Debug)]
pub struct Receiving {
    receiver: Arc<Receiver>,
    attached: Attached,
    options: MeterOptions,
    clock: ClockOffset,
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
        Attached::start_on(options.netns.as_ref(), &options.ifname, |device| Self::start_on(device, options))
    }

    fn start_on(device: Link, options: &ReceiveOptions) -> Result<Self, CaptureError> {
        let meter = options.meter;
        let receiver = Receiver::load(&ReceiverParams {
            verdict: options.mode.verdict(),
            flow_count: meter.flow_count,
            stream_count: meter.stream_count,
            carried_flows: meter.carried_flows,
            is_shared: options.is_shared,
            has_details: options.has_details,
            has_test_clock: false,
        })?;
        let clock = ClockOffset::measure();
        receiver.set_run(meter.run);
        receiver.set_stamp_shift(meter.stamp_shift);
        receiver.set_wall_offset_ns(clock.offset_ns.cast_unsigned());
        let link = receiver.attach(device.index, &device.name, options.xdp)?;
        Ok(Self {
            receiver: Arc::new(receiver),
            attached: Attached::new(link, device),
            options: meter,
            clock,
        })
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        &self.attached.device
    }

    /// How the program is attached.
    pub fn xdp(&self) -> &XdpFacts {
        &self.attached.xdp
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.attached.elapsed()
    }

    /// True when the device was deleted, or left its namespace.
    pub fn is_device_gone(&self) -> bool {
        self.attached.is_device_gone()
    }

    /// Frames of this run so far.
    pub fn received(&self) -> u64 {
        self.receiver.received_per_cpu().sum()
    }

    /// First copies so far, over all flows.
    pub fn unique(&self) -> u64 {
        self.receiver.lines().map(|line| line.unique()).sum()
    }

    /// The numbers that were sent, once the sender has announced the end of its run.
    pub fn announced(&self) -> Option<u64> {
        self.receiver.announced()
    }

    /// The line of a flow, by its place among the lines.
    pub fn line(&self, index: usize) -> FlowLine {
        self.receiver.line(index)
    }

    /// Bytes and times of a flow, by its place among the lines, if they are kept. The times are
    /// those of the wall clock, as it was at the start.
    pub fn detail(&self, index: usize) -> Option<FlowDetail> {
        let detail = self.receiver.detail(index)?;
        let wall_ns = |time_ns: u64| match time_ns {
            0 => 0,
            time_ns => time_ns.wrapping_add_signed(self.clock.offset_ns),
        };
        Some(FlowDetail { first_ns: wall_ns(detail.first_ns), last_ns: wall_ns(detail.last_ns), ..detail })
    }

    /// Counts of all CPUs.
    pub fn totals(&self) -> Totals {
        self.receiver.totals()
    }

    /// Everything so far. While frames arrive, the counts may differ by a few frames.
    pub fn snapshot(&self) -> ReceiveResult {
        read(&self.receiver, self.options, self.clock, self.elapsed(), self.is_device_gone())
    }

    /// Reads the counts from other threads, also after the end.
    pub fn observer(&self) -> ReceiveObserver {
        ReceiveObserver(Arc::clone(&self.receiver))
    }

    /// Takes the program off and waits until it runs nowhere, so that the numbers are final.
    pub fn stop(self) -> ReceiveResult {
        let frames = || self.receiver.per_cpu().map(|cpu| cpu.frames).sum();
        let (elapsed, is_device_gone) = self.attached.stop(frames);
        read(&self.receiver, self.options, self.clock, elapsed, is_device_gone)
    }
}

/// Reads the counts of a [`Receiving`] from another thread. While frames arrive, the counts may
/// differ by a few frames.
#[derive(Clone, Debug)]
pub struct ReceiveObserver(Arc<Receiver>);

impl ReceiveObserver {
    /// The flows: those of stream 0, then those of stream 1.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = FlowLine> + '_ {
        self.0.lines()
    }

    /// Frames of this run so far.
    pub fn received(&self) -> u64 {
        self.0.received_per_cpu().sum()
    }

    /// Latencies by bucket.
    pub fn histogram(&self) -> Vec<u64> {
        self.0.histogram()
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
        lines: receiver.lines().collect(),
        totals: receiver.totals(),
        histogram: receiver.histogram(),
        cpus: receiver.received_per_cpu().collect(),
        announced: receiver.announced(),
        clock_uncertainty_ns: clock.uncertainty_ns,
        elapsed,
        is_device_gone,
    }
}
