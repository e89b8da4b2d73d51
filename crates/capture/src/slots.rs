//! A capture that is read like mgcap's device file: slots on demand, from the ring of a CPU or from
//! all in turn.
//!
//! There is no thread and no buffer in between. Frames wait in the rings that the program fills,
//! and a ring without a reader counts its losses.

use crate::backend::hwtstamp::Hardware;
use crate::backend::select;
use crate::backend::{Backend, SourceFacts};
use crate::reader::AttachedRing;
use crate::record::encode::with_tag;
use crate::record::ring::{RingRecord, TimeSource};
use crate::record::slot::{SLOT_DATA_LEN, SLOT_LEN, emit_slot};
use crate::time::phc::{ClockLine, PhcClock};
use crate::time::utc::{UtcClock, monotonic_now_ns};
use crate::{CaptureError, Mode, Options, SourceKind};
use bpf::capture::RecordFormat;
use host::Stack;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a CPU's ring, as mgcap's rings have.
const SLOT_RING_SIZE_BYTES: u64 = 4 << 20;
/// Frames that such a ring holds at most: those of 14 bytes.
pub const SLOT_RING_FRAMES_MAX: usize = SLOT_RING_SIZE_BYTES as usize / 48;

/// A running capture. Dropping it takes everything off the device.
pub struct SlotCapture {
    backend: Box<dyn Backend>,
    rings: Vec<Mutex<SlotRing>>,
    /// The ring at which the next reader of all rings begins.
    next: AtomicUsize,
    clock: UtcClock,
    /// The device's clock, where it stamps frames.
    stamps: Option<Arc<PhcClock>>,
    mode: Mutex<Mode>,
    delivered: AtomicU64,
}

/// From stamps around now to UTC.
#[derive(Clone, Copy)]
struct Times {
    utc_offset_ns: i64,
    stamps: Option<ClockLine>,
}

/// One ring, and slots that were taken out of it and did not fit.
struct SlotRing {
    ring: AttachedRing,
    spare: Vec<u8>,
    scratch: Vec<u8>,
}

/// Where the frames of such a capture went: `received = delivered + waiting + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Frames that the device handed over.
    pub received: u64,
    /// Frames handed to readers.
    pub delivered: u64,
    /// Frames lost because a ring was full: not read, or not fast enough.
    pub lost: u64,
}

impl SlotCapture {
    /// Starts to capture on `ifname`, in the namespace of the calling thread, in mirror mode.
    ///
    /// # Errors
    /// When there is no such device, the program cannot be loaded or attached, or the device has
    /// one: the errors of [`crate::Session::start`] without those of files.
    pub fn start(ifname: &str) -> Result<Self, CaptureError> {
        // XDP, also on the loopback device: packet sockets could not be switched to drop mode
        // later.
        let options = Options {
            snaplen: SLOT_DATA_LEN as u32,
            source: SourceKind::Xdp,
            ring_size_bytes: Some(SLOT_RING_SIZE_BYTES),
            ..Options::new(ifname)
        };
        let stack = Stack::here()?;
        let link = stack.link(ifname)?;
        let hardware = Hardware::of(&stack, &link, options.clock)?;
        let mut backend = select::open(&link, &options, &hardware, RecordFormat::Records)?;
        let slot_ring = |ring| Mutex::new(SlotRing { ring, spare: Vec::new(), scratch: Vec::new() });
        let rings = backend.attach(0)?.into_iter().map(slot_ring).collect();
        let mode = Mutex::new(options.mode);
        let (next, delivered) = (AtomicUsize::new(0), AtomicU64::new(0));
        Ok(Self { backend, rings, next, clock: UtcClock::new(), stamps: hardware.clock, mode, delivered })
    }

    /// How frames are taken off the device.
    pub fn source(&self) -> SourceFacts {
        self.backend.facts()
    }

    /// What becomes of captured frames.
    pub fn mode(&self) -> Mode {
        *lock(&self.mode)
    }

    /// Changes what becomes of frames from now on.
    ///
    /// # Errors
    /// When the way that frames are taken cannot do it.
    pub fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        let mut known = lock(&self.mode);
        self.backend.set_mode(mode)?;
        *known = mode;
        Ok(())
    }

    /// True when the device was deleted, or left its namespace.
    pub fn is_gone(&self) -> bool {
        self.backend.is_gone()
    }

    /// Appends as many whole slots as fit into `len_max` bytes and are there: of the ring of `cpu`,
    /// or of all rings in turn for a reader that belongs to no CPU. Does not wait.
    pub fn take(&self, cpu: Option<u32>, len_max: usize, out: &mut Vec<u8>) {
        let end = out.len() + len_max / SLOT_LEN * SLOT_LEN;
        match cpu {
            Some(cpu) => self.take_from(self.ring_of(cpu), end, out),
            None => {
                let first = self.next.fetch_add(1, Relaxed);
                (0..self.rings.len()).for_each(|turn| self.take_from(first.wrapping_add(turn), end, out));
            }
        }
    }

    /// True when `take` would find something.
    pub fn is_ready(&self, cpu: Option<u32>) -> bool {
        let times = self.times();
        let is_ready = |ring: &Mutex<SlotRing>| {
            let mut ring = lock(ring);
            ring.fill(times, SLOT_LEN);
            !ring.spare.is_empty()
        };
        match cpu {
            Some(cpu) => self.rings.get(self.ring_of(cpu) % self.rings.len().max(1)).is_some_and(is_ready),
            None => self.rings.iter().any(is_ready),
        }
    }

    fn times(&self) -> Times {
        let stamps = self.stamps.as_ref().map(|clock| clock.line(monotonic_now_ns()));
        Times { utc_offset_ns: self.clock.offset_ns(), stamps }
    }

    /// The ring whose CPU this is. Rings that belong to no CPU are shared out among the CPUs.
    fn ring_of(&self, cpu: u32) -> usize {
        self.rings.iter().position(|ring| lock(ring).ring.cpu == Some(cpu)).unwrap_or(cpu as usize)
    }

    fn take_from(&self, ring: usize, end: usize, out: &mut Vec<u8>) {
        let Some(ring) = self.rings.get(ring % self.rings.len().max(1)) else { return };
        let before = out.len();
        lock(ring).take(self.times(), end - before, out);
        self.delivered.fetch_add(((out.len() - before) / SLOT_LEN) as u64, Relaxed);
    }

    /// Where frames went until now.
    pub fn counts(&self) -> SlotCounts {
        let delivered = self.delivered.load(Relaxed);
        let rings = self.backend.counts();
        SlotCounts {
            received: rings.iter().map(|ring| ring.received).sum(),
            delivered,
            lost: rings.iter().map(|ring| ring.lost_ring).sum(),
        }
    }
}

impl Drop for SlotCapture {
    fn drop(&mut self) {
        self.backend.detach();
    }
}

impl SlotRing {
    /// Takes slots out of the ring, about `len_max` bytes, unless some are here.
    fn fill(&mut self, times: Times, len_max: usize) {
        let Self { ring, spare, scratch } = self;
        if spare.is_empty() && len_max > 0 {
            ring.source.take(len_max, &mut |record| emit(&record, times, scratch, spare));
        }
    }

    fn take(&mut self, times: Times, len_max: usize, out: &mut Vec<u8>) {
        let end = out.len() + len_max;
        // Twice: what a look left over first, then what is new.
        for _ in 0..2 {
            let space = end - out.len();
            self.fill(times, space);
            let len = self.spare.len().min(space);
            out.extend(self.spare.drain(..len));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic half way leaves slots that are whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time of day, whichever clock stamped the frame. (The module gave the device's clock as it was,
/// and 0 without one.)
fn emit(record: &RingRecord<'_>, times: Times, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let time_ns = match record.time_source {
        TimeSource::Software => record.time_ns.wrapping_add_signed(times.utc_offset_ns),
        TimeSource::Hardware => times.stamps.map_or(record.time_ns, |line| line.utc_ns(record.time_ns)),
        TimeSource::TimeOfDay => record.time_ns,
    };
    let data = match record.vlan {
        None => record.data,
        Some(tag) => with_tag(record.data, tag, SLOT_DATA_LEN, scratch),
    };
    emit_slot(record.frame_len, time_ns.cast_signed(), data, out);
}
