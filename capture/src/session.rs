//! One capture from start to end: taps, rings, readers, file.

use crate::clock::{UtcClock, utc_now_ns};
use crate::encode::Encoder;
use crate::interfaces::{Interfaces, Numbering};
use crate::limit::Limit;
use crate::reader::{Reader, Shared};
use crate::sink::Sink;
use crate::source::Ring;
use crate::stats::{Counts, DeviceStats, ReaderCounts, RingStats, Stats};
use crate::tap::{self, RingCounts, SourceFacts, Tap};
use crate::{CaptureError, Mode, Options, device};
use host::{Link, Netns, Stack};
use pcapng::{Interface, Statistics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running capture. Ends with [`Session::stop`]; a session that is dropped instead ends too, but what it would
/// have said is lost.
pub struct Session {
    shared: Arc<Shared>,
    stack: Stack,
    devices: Vec<Device>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
    start_time_ns: u64,
    stopped_after: Option<Duration>,
}

/// One device of a session.
struct Device {
    link: Link,
    numbering: Numbering,
    tap: Box<dyn Tap>,
    /// One for each ring of the tap.
    readers: Vec<Arc<ReaderCounts>>,
}

/// One device of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// As it was at the start.
    pub link: Link,
    /// How frames are taken off it.
    pub source: SourceFacts,
    /// True when it was deleted, or left its namespace, before the end.
    pub is_gone: bool,
}

/// How a capture ended.
#[derive(Debug)]
pub struct Report {
    /// Where each frame went; exact, since everything has come to rest.
    pub stats: Stats,
    /// The devices in the order of the options.
    pub devices: Vec<DeviceFacts>,
    /// When the capture began, in nanoseconds since 1970.
    pub start_time_ns: u64,
    /// When it ended, in nanoseconds since 1970.
    pub end_time_ns: u64,
    /// What the output refused; the frames that cost are in `stats`.
    pub output_error: Option<CaptureError>,
}

impl Session {
    /// Starts to capture. Nothing is left behind when it fails.
    ///
    /// # Errors
    /// [`CaptureError::BadOption`]; [`CaptureError::Host`] when there is no such device; [`CaptureError::Bpf`] when
    /// the program cannot be loaded or attached, or the device has one; [`CaptureError::Create`] and
    /// [`CaptureError::Write`] for the file.
    pub fn start(options: Options) -> Result<Self, CaptureError> {
        let netns = options.netns.clone();
        in_netns(netns.as_ref(), move || Self::start_here(options))?
    }

    /// As [`Session::start`], in the namespace of the devices. Threads started here stay in it, which does no harm.
    fn start_here(options: Options) -> Result<Self, CaptureError> {
        let stack = Stack::here()?;
        let mut interfaces = Interfaces::default();
        let mut devices = Vec::new();
        for ifname in &options.ifnames {
            let link = stack.link(ifname)?;
            let numbering = interfaces.add(&stack, &link, &options)?;
            let tap = tap::open(&link, &options)?;
            devices.push(Device { link, numbering, tap, readers: Vec::new() });
        }
        // Only now is the file emptied: a busy device is the most likely reason to fail.
        let sink = Sink::create(options.output)?;
        if let Some(sink) = &sink {
            sink.begin(&header(&options.application, &interfaces.all)).inspect_err(|_| sink.discard())?;
        }
        let shared = Arc::new(Shared {
            clock: UtcClock::new(),
            limit: Limit::new(options.frames_max),
            sink,
            is_draining: AtomicBool::new(false),
        });
        let mut session = Self {
            shared,
            stack,
            devices,
            threads: Vec::new(),
            started: Instant::now(),
            start_time_ns: utc_now_ns(),
            stopped_after: None,
        };
        session.attach(options.snaplen).inspect_err(|_| session.discard())?;
        Ok(session)
    }

    /// Lets frames come. Readers begin when every device has been attached.
    fn attach(&mut self, snaplen: u32) -> Result<(), CaptureError> {
        let mut rings = Vec::new();
        for device in &mut self.devices {
            for ring in device.tap.attach()? {
                let counts = Arc::<ReaderCounts>::default();
                device.readers.push(Arc::clone(&counts));
                let encoder = Encoder::new(device.numbering, snaplen);
                let shared = Arc::clone(&self.shared);
                rings.push((Reader { shared, cpu: ring.cpu, encoder, counts }, ring));
            }
        }
        for (number, (reader, ring)) in rings.into_iter().enumerate() {
            self.threads.push(start_reader(number, reader, ring)?);
        }
        Ok(())
    }

    /// Takes back what a start that failed has begun.
    fn discard(&mut self) {
        self.end();
        self.shared.sink.iter().for_each(Sink::discard);
    }

    /// The devices and how frames are taken off them, in the order of the options.
    pub fn devices(&self) -> Vec<DeviceFacts> {
        let facts = |device: &Device| DeviceFacts {
            link: device.link.clone(),
            source: device.tap.facts(),
            is_gone: device.tap.is_gone(),
        };
        self.devices.iter().map(facts).collect()
    }

    /// Changes what becomes of frames from now on. No frame is lost by it.
    ///
    /// # Errors
    /// When a device cannot do it.
    pub fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        self.devices.iter().try_for_each(|device| device.tap.set_mode(mode))
    }

    /// True when there is nothing more to wait for: enough frames were written, the output failed, or every device
    /// is gone.
    pub fn is_finished(&self) -> bool {
        self.shared.limit.is_spent()
            || self.shared.sink.as_ref().is_some_and(Sink::has_failed)
            || self.devices.iter().all(|device| device.tap.is_gone())
    }

    /// Where frames went until now. Numbers are read one after the other while they move.
    pub fn stats(&self) -> Stats {
        Stats {
            elapsed: self.stopped_after.unwrap_or_else(|| self.started.elapsed()),
            rings: self
                .devices
                .iter()
                .enumerate()
                .flat_map(|(number, device)| device.stats(number))
                .collect(),
            devices: self.devices.iter().map(|device| self.device_stats(device)).collect(),
            output_bytes: self.shared.sink.as_ref().map_or(0, Sink::len),
        }
    }

    fn device_stats(&self, device: &Device) -> DeviceStats {
        let now = self.stack.link(device.link.index).ok();
        let lost_nic = now.map(|now| now.counters.since(&device.link.counters).rx_missed);
        DeviceStats { lost_nic }
    }

    /// Takes everything off the devices, empties the rings, writes the statistics and closes the file.
    pub fn stop(mut self) -> Report {
        let devices = self.devices();
        let output_error = self.end();
        Report {
            stats: self.stats(),
            devices,
            start_time_ns: self.start_time_ns,
            end_time_ns: utc_now_ns(),
            output_error,
        }
    }

    fn end(&mut self) -> Option<CaptureError> {
        if self.stopped_after.is_some() {
            return None;
        }
        self.stopped_after = Some(self.started.elapsed());
        self.devices.iter_mut().for_each(|device| device.tap.detach());
        self.shared.is_draining.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let sink = self.shared.sink.as_ref()?;
        sink.finish(&self.closing_blocks()).err()
    }

    /// What is known of each interface at the end.
    fn closing_blocks(&self) -> Vec<u8> {
        let (stats, now_ns) = (self.stats(), utc_now_ns());
        let mut blocks = Vec::new();
        for (number, device) in self.devices.iter().enumerate() {
            let counts = stats.of_device(number);
            for interface in device.numbering.numbers() {
                let statistics = Statistics {
                    interface,
                    time_ns: now_ns,
                    start_time_ns: Some(self.start_time_ns),
                    end_time_ns: Some(now_ns),
                    received: Some(counts.received),
                    dropped_by_interface: stats.devices[number].lost_nic,
                    accepted_by_filter: counts.filtered.map(|filtered| counts.received - filtered),
                    dropped_by_os: Some(counts.lost()),
                    delivered: Some(counts.written),
                    ..Statistics::default()
                };
                statistics.emit(&mut blocks);
            }
        }
        blocks
    }
}

impl Device {
    fn stats(&self, device: usize) -> Vec<RingStats> {
        // The readers' numbers first: what they wrote was captured before.
        let mut read: Vec<Counts> = vec![Counts::default(); self.readers.len()];
        self.readers.iter().zip(&mut read).for_each(|(reader, counts)| reader.add_to(counts));
        let kernel = self.tap.counts().into_iter().enumerate();
        let ring = |(number, ring): (usize, RingCounts)| {
            let read = read.get(number).copied().unwrap_or_default();
            RingStats { device, cpu: ring.cpu, counts: with_kernel(read, &ring) }
        };
        kernel.map(ring).collect()
    }
}

/// A reader's counts with those of the kernel.
fn with_kernel(read: Counts, ring: &RingCounts) -> Counts {
    Counts {
        received: ring.received,
        received_bytes: ring.received_bytes,
        filtered: ring.filtered,
        captured: ring.captured,
        lost_ring: ring.lost_ring,
        ..read
    }
}

fn start_reader(number: usize, reader: Reader, ring: Ring) -> Result<JoinHandle<()>, CaptureError> {
    thread::Builder::new()
        .name(format!("capture-{number}"))
        .spawn(move || ring.source.run(reader))
        .map_err(|source| CaptureError::Thread { number, source })
}

impl Drop for Session {
    fn drop(&mut self) {
        // After `stop` there is nothing left to end.
        self.end();
    }
}

fn in_netns<T: Send>(netns: Option<&Netns>, work: impl FnOnce() -> T + Send) -> Result<T, CaptureError> {
    match netns {
        Some(netns) => Ok(netns.run(work)?),
        None => Ok(work()),
    }
}

fn header(application: &str, interfaces: &[Interface]) -> Vec<u8> {
    let mut header = Vec::new();
    device::section(application).emit(&mut header);
    interfaces.iter().for_each(|interface| interface.emit(&mut header));
    header
}
