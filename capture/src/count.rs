//! Receives and counts frames, without rings, copies and files: the baseline of a capture.

use crate::backend::{filter, quiesce};
use crate::options::{Mode, SNAPLEN_WHOLE};
use crate::promiscuous::Promiscuity;
use crate::{CaptureError, XdpFacts, XdpModeChoice};
use bpf::xdp::XdpLink;
use bpf::{Sink, SinkVerdict};
use host::{Link, Netns, Stack};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What to count.
#[derive(Clone, Debug)]
pub struct CountOptions {
    /// The device, by any of its names.
    pub ifname: String,
    /// Its namespace; `None` for that of the calling thread.
    pub netns: Option<Netns>,
    /// What becomes of a frame that was counted.
    pub mode: Mode,
    /// How the XDP program may be attached.
    pub xdp: XdpModeChoice,
    /// Whether the device is made promiscuous while frames are counted.
    pub promiscuous: bool,
    /// Which frames are counted, in the language of pcap-filter(7); the host receives the others.
    pub filter: Option<String>,
    /// Set by the caller when the user has asked to end.
    pub interrupted: Arc<AtomicBool>,
}

/// Frames that one CPU received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCount {
    /// The CPU.
    pub cpu: u32,
    /// Frames since the start.
    pub frames: u64,
    /// Their lengths in bytes, without FCS.
    pub frame_bytes: u64,
    /// Frames that did not match the filter; not among `frames`.
    pub filtered: u64,
}

/// A device that is counted on. Dropping it takes the program off.
#[derive(Debug)]
pub struct Counting {
    sink: Sink,
    link: XdpLink,
    xdp: XdpFacts,
    device: Link,
    promiscuity: Promiscuity,
    started: Instant,
}

/// How counting ended.
#[derive(Clone, Debug)]
pub struct CountResult {
    /// Every CPU that received frames, from CPU 0 up; exact, since nothing is added any more.
    pub cpus: Vec<CpuCount>,
    /// Time from attaching to detaching.
    pub elapsed: Duration,
    /// True when the device was deleted, or left its namespace, before the end.
    pub is_device_gone: bool,
}

impl Counting {
    /// Starts to count.
    ///
    /// # Errors
    /// [`CaptureError::Host`] when there is no such device; [`CaptureError::Bpf`] when the program
    /// cannot be loaded or attached, or the device has one.
    pub fn start(options: &CountOptions) -> Result<Self, CaptureError> {
        match &options.netns {
            Some(netns) => netns.run(|| Self::start_here(options))?,
            None => Self::start_here(options),
        }
    }

    fn start_here(options: &CountOptions) -> Result<Self, CaptureError> {
        let device = Stack::here()?.link(&options.ifname)?;
        bpf::xdp::refuse_if_busy(device.index, &device.name)?;
        let verdict = match options.mode {
            Mode::Mirror => SinkVerdict::Pass,
            Mode::Drop => SinkVerdict::Drop,
        };
        let translated = |expression: &String| {
            filter::translated(expression, &device, SNAPLEN_WHOLE, &options.interrupted)
        };
        let filter = options.filter.as_ref().map(translated).transpose()?;
        let sink = Sink::load_filtered(verdict, filter.as_deref())?;
        let promiscuity = Promiscuity::of(&device, options.promiscuous);
        let link = sink.attach(device.index, &device.name, options.xdp)?;
        let started = Instant::now();
        let xdp = XdpFacts::from(&link);
        Ok(Self { sink, link, xdp, device, promiscuity, started })
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        &self.device
    }

    /// True if the device was made promiscuous.
    pub fn is_promiscuous(&self) -> bool {
        self.promiscuity.is_on()
    }

    /// Why the device could not be made promiscuous.
    pub fn promiscuous_refusal(&self) -> Option<&str> {
        self.promiscuity.refusal()
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

    /// What each CPU counted so far; only those that received something.
    pub fn cpus(&self) -> Vec<CpuCount> {
        busy_cpus(&self.sink)
    }

    /// Takes the program off and waits until it runs nowhere, so that the numbers are final.
    pub fn stop(self) -> CountResult {
        let is_device_gone = self.is_device_gone();
        let elapsed = self.started.elapsed();
        drop(self.link);
        quiesce::wait_for_last_frames(|| {
            busy_cpus(&self.sink).iter().map(|cpu| cpu.frames + cpu.filtered).sum()
        });
        CountResult { cpus: busy_cpus(&self.sink), elapsed, is_device_gone }
    }
}

fn busy_cpus(sink: &Sink) -> Vec<CpuCount> {
    let counts = (0..).zip(sink.per_cpu());
    let counts = counts.map(|(cpu, count)| CpuCount {
        cpu,
        frames: count.frames,
        frame_bytes: count.frame_bytes,
        filtered: count.filtered,
    });
    counts.filter(|count| count.frames + count.filtered > 0).collect()
}
