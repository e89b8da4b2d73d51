//! Receives and counts frames, without rings, copies and files: the baseline of a capture.

use crate::attached::Attached;
use crate::backend::filter;
use crate::options::{Mode, SNAPLEN_WHOLE};
use crate::promiscuous::Promiscuity;
use crate::{CaptureError, XdpFacts, XdpModeChoice};
use bpf::Sink;
use host::{Link, Netns};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
    sink: Arc<Sink>,
    attached: Attached,
    promiscuity: Promiscuity,
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
        Attached::start_on(options.netns.as_ref(), &options.ifname, |device| Self::start_on(device, options))
    }

    fn start_on(device: Link, options: &CountOptions) -> Result<Self, CaptureError> {
        let translated = |expression: &String| {
            filter::translated(expression, &device, SNAPLEN_WHOLE, &options.interrupted)
        };
        let filter = options.filter.as_ref().map(translated).transpose()?;
        let sink = Sink::load_filtered(options.mode.verdict(), filter.as_deref())?;
        let promiscuity = Promiscuity::of(&device, options.promiscuous);
        let link = sink.attach(device.index, &device.name, options.xdp)?;
        Ok(Self { sink: Arc::new(sink), attached: Attached::new(link, device), promiscuity })
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        &self.attached.device
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

    /// What each CPU counted so far; only those that received something.
    pub fn cpus(&self) -> Vec<CpuCount> {
        busy_cpus(&self.sink)
    }

    /// Reads the counts from other threads, also after the end.
    pub fn observer(&self) -> CountObserver {
        CountObserver(Arc::clone(&self.sink))
    }

    /// Takes the program off and waits until it runs nowhere, so that the numbers are final.
    pub fn stop(self) -> CountResult {
        let frames = || busy_cpus(&self.sink).iter().map(|cpu| cpu.frames + cpu.filtered).sum();
        let (elapsed, is_device_gone) = self.attached.stop(frames);
        CountResult { cpus: busy_cpus(&self.sink), elapsed, is_device_gone }
    }
}

/// Reads the counts of a [`Counting`] from another thread.
#[derive(Clone, Debug)]
pub struct CountObserver(Arc<Sink>);

impl CountObserver {
    /// Frames so far.
    pub fn received(&self) -> u64 {
        self.received_per_cpu().sum()
    }

    /// Frames so far, by CPU.
    pub fn received_per_cpu(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.per_cpu().map(|cpu| cpu.frames)
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
