//! One capture from start to end: program, rings, writers, file.

use crate::clock::{UtcClock, utc_now_ns};
use crate::encode::Encoder;
use crate::limit::Limit;
use crate::sink::Sink;
use crate::stats::{Counts, CpuStats, Stats, WriterCounts};
use crate::sys::{self, RingReader};
use crate::writer;
use crate::{CaptureError, Mode, Options, cpus, device};
use bpf::capture::CaptureProgram;
use bpf::xdp::{XdpLink, XdpMode};
use host::{Link, Netns, Stack};
use pcapng::{Interface, Statistics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Where there is no way to wait for running programs, counters that stand still for so long are taken as final.
const STANDSTILL: Duration = Duration::from_millis(50);

/// What the writers need of each other and of the session.
struct Shared {
    program: Arc<CaptureProgram>,
    clock: UtcClock,
    limit: Limit,
    sink: Option<Sink>,
    /// One for each ring.
    writers: Vec<WriterCounts>,
    is_draining: AtomicBool,
}

impl writer::Shared for Shared {
    fn clock(&self) -> &UtcClock {
        &self.clock
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    fn counts(&self, cpu: u32) -> &WriterCounts {
        &self.writers[cpu as usize]
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Relaxed)
    }
}

/// A running capture. Ends with [`Session::stop`]; a session that is dropped instead ends too, but what it would
/// have said is lost.
pub struct Session {
    shared: Arc<Shared>,
    /// `None` once the program is off the device.
    link: Option<XdpLink>,
    xdp: XdpFacts,
    threads: Vec<JoinHandle<()>>,
    device: Link,
    started: Instant,
    start_time_ns: u64,
    stopped_after: Option<Duration>,
}

/// How the program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpFacts {
    /// Native or generic.
    pub mode: XdpMode,
    /// Why not native, in the kernel's words.
    pub native_refusal: Option<String>,
}

/// How a capture ended.
#[derive(Debug)]
pub struct Report {
    /// Where each frame went; exact, since everything has come to rest.
    pub stats: Stats,
    /// How the program was attached.
    pub xdp: XdpFacts,
    /// When the capture began, in nanoseconds since 1970.
    pub start_time_ns: u64,
    /// When it ended, in nanoseconds since 1970.
    pub end_time_ns: u64,
    /// True when the device was deleted, or left its namespace, before the end.
    pub is_device_gone: bool,
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

    /// As [`Session::start`], in the namespace of the device. Threads started here stay in it, which does no harm.
    fn start_here(options: Options) -> Result<Self, CaptureError> {
        let stack = Stack::here()?;
        let device = stack.link(&options.ifname)?;
        let netns = options.netns.as_ref().map(Netns::to_string);
        let interface = device::interface(&stack, &device, netns.as_deref(), options.snaplen)?;
        let program = Arc::new(load(&options)?);
        // Before the file is emptied: a busy device is the most likely reason to fail.
        bpf::xdp::refuse_if_busy(device.index, &device.name)?;
        let header = header(&options.application, program.geometry().cpus, &interface);
        let sink = Sink::create(options.output)?;
        if let Some(sink) = &sink {
            sink.begin(&header).inspect_err(|_| sink.discard())?;
        }
        sys::set_mode(&program, options.mode.number());
        let shared = Arc::new(Shared {
            clock: UtcClock::new(),
            limit: Limit::new(options.frames_max),
            sink,
            writers: (0..program.geometry().rings).map(|_| WriterCounts::default()).collect(),
            is_draining: AtomicBool::new(false),
            program,
        });
        let (started, start_time_ns) = (Instant::now(), utc_now_ns());
        let link = shared.program.attach(device.index, &device.name, options.xdp);
        let link = link.inspect_err(|_| shared.sink.iter().for_each(Sink::discard))?;
        let native_refusal = link.native_refusal().map(ToString::to_string);
        let xdp = XdpFacts { mode: link.mode(), native_refusal };
        let mut session = Self {
            shared,
            link: Some(link),
            xdp,
            threads: Vec::new(),
            device,
            started,
            start_time_ns,
            stopped_after: None,
        };
        session.start_writers(&interface)?;
        Ok(session)
    }

    fn start_writers(&mut self, interface: &Interface) -> Result<(), CaptureError> {
        for reader in RingReader::all(&self.shared.program) {
            let cpu = reader.cpu();
            let encoder = Encoder::new(interface.clone());
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new()
                .name(format!("capture-{cpu}"))
                .spawn(move || writer::run(reader, encoder, &*shared))
                .map_err(|source| CaptureError::Thread { cpu, source })?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// The device, as it was at the start.
    pub fn device(&self) -> &Link {
        &self.device
    }

    /// How the program is attached.
    pub fn xdp(&self) -> &XdpFacts {
        &self.xdp
    }

    /// Changes what becomes of frames from now on. No frame is lost by it.
    pub fn set_mode(&self, mode: Mode) {
        sys::set_mode(&self.shared.program, mode.number());
    }

    /// True when there is nothing more to wait for: enough frames were written, the output failed, or the device
    /// is gone.
    pub fn is_finished(&self) -> bool {
        self.shared.limit.is_spent()
            || self.shared.sink.as_ref().is_some_and(Sink::has_failed)
            || self.is_device_gone()
    }

    fn is_device_gone(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.is_attached())
    }

    /// Where frames went until now. Numbers are read one after the other while they move.
    pub fn stats(&self) -> Stats {
        let geometry = self.shared.program.geometry();
        let stats = (0..geometry.cpus).map(|cpu| CpuStats { cpu, counts: self.counts(cpu) });
        Stats {
            elapsed: self.stopped_after.unwrap_or_else(|| self.started.elapsed()),
            cpus: stats.filter(|stats| stats.cpu < geometry.rings || stats.counts.received > 0).collect(),
            output_bytes: self.shared.sink.as_ref().map_or(0, Sink::len),
        }
    }

    fn counts(&self, cpu: u32) -> Counts {
        let mut counts = Counts::default();
        // The writer's numbers first: what it wrote was captured before.
        if let Some(writer) = self.shared.writers.get(cpu as usize) {
            writer.add_to(&mut counts);
        }
        let program = sys::counts(&self.shared.program, cpu);
        counts.captured = program.head;
        counts.lost_ring = program.lost_ring;
        counts.received = program.head + program.lost_ring;
        counts.received_bytes = program.frame_bytes;
        counts
    }

    /// Takes the program off the device, empties the rings, writes the statistics and closes the file.
    pub fn stop(mut self) -> Report {
        let is_device_gone = self.is_device_gone();
        let output_error = self.end();
        Report {
            is_device_gone,
            stats: self.stats(),
            xdp: self.xdp.clone(),
            start_time_ns: self.start_time_ns,
            end_time_ns: utc_now_ns(),
            output_error,
        }
    }

    fn end(&mut self) -> Option<CaptureError> {
        drop(self.link.take()?);
        self.stopped_after = Some(self.started.elapsed());
        self.wait_for_last_frames();
        self.shared.is_draining.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let sink = self.shared.sink.as_ref()?;
        sink.finish(&self.closing_block()).err()
    }

    /// After this no program of ours runs on any CPU, so the heads of the rings stand still.
    fn wait_for_last_frames(&self) {
        if bpf::sys::wait_for_running_programs().is_ok() {
            return;
        }
        let mut before = self.stats().total().received;
        loop {
            thread::sleep(STANDSTILL);
            let now = self.stats().total().received;
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn closing_block(&self) -> Vec<u8> {
        let counts = self.stats().total();
        let now_ns = utc_now_ns();
        let statistics = Statistics {
            time_ns: now_ns,
            start_time_ns: Some(self.start_time_ns),
            end_time_ns: Some(now_ns),
            received: Some(counts.received),
            dropped_by_os: Some(counts.lost()),
            delivered: Some(counts.written),
            ..Statistics::default()
        };
        let mut block = Vec::new();
        statistics.emit(&mut block);
        block
    }
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

fn load(options: &Options) -> Result<CaptureProgram, CaptureError> {
    let possible = bpf::capture::possible_cpus()?;
    let geometry = options.geometry(cpus::online_end(possible), possible)?;
    Ok(CaptureProgram::load(geometry)?)
}

fn header(application: &str, cpus: u32, interface: &Interface) -> Vec<u8> {
    let mut header = Vec::new();
    device::section(application, cpus).emit(&mut header);
    interface.emit(&mut header);
    header
}
