//! Memory that the XDP program and a reader share: one ring and one page of progress and counters.
//!
//! The protocol: the program writes records from `head` on and then raises `head`; the reader reads
//! records before `head` and then raises `tail`. Each of the two words has one writer.

use crate::record::ring::{Batch, RingShape};
use bpf::abi::CaptureCpu;
use bpf::capture::CaptureMemory;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What the program counted on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuCounts {
    pub(crate) captured: u64,
    pub(crate) lost_ring: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) filtered: u64,
}

/// Offset of a field of one CPU's part of the counters.
fn place(cpu: u32, field: usize) -> usize {
    cpu as usize * size_of::<CaptureCpu>() + field
}

/// Reads the counters of a CPU. They move while they are read, each by itself.
pub(crate) fn counts(memory: &CaptureMemory, cpu: u32) -> CpuCounts {
    let word = |field| memory.cpus.atomic_u64(place(cpu, field)).load(Relaxed);
    CpuCounts {
        captured: word(offset_of!(CaptureCpu, captured)),
        lost_ring: word(offset_of!(CaptureCpu, lost_ring)),
        frame_bytes: word(offset_of!(CaptureCpu, frame_bytes)),
        filtered: word(offset_of!(CaptureCpu, filtered)),
    }
}

/// Sets what the program does with frames from now on, on every CPU; `mode` is a
/// `bpf::abi::CaptureMode`.
pub(crate) fn set_mode(memory: &CaptureMemory, mode: u32) {
    for cpu in 0..memory.geometry().cpus {
        memory.cpus.atomic_u32(place(cpu, offset_of!(CaptureCpu, mode))).store(mode, Relaxed);
    }
}

/// Sets the nanoseconds that the program adds to monotonic time in blocks, on every CPU.
pub(crate) fn set_utc_offset(memory: &CaptureMemory, offset_ns: i64) {
    (0..memory.geometry().cpus).for_each(|cpu| set_utc_offset_of(memory, cpu, offset_ns));
}

fn set_utc_offset_of(memory: &CaptureMemory, cpu: u32, offset_ns: i64) {
    let word = memory.cpus.atomic_u64(place(cpu, offset_of!(CaptureCpu, utc_offset_ns)));
    // The program reads this line for each frame; it stays in its cache while nothing is written.
    if word.load(Relaxed) != offset_ns.cast_unsigned() {
        word.store(offset_ns.cast_unsigned(), Relaxed);
    }
}

/// The only reader of one CPU's ring.
#[derive(Debug)]
pub(crate) struct RingReader {
    memory: Arc<CaptureMemory>,
    cpu: u32,
    shape: RingShape,
    /// As in the shared page, which only this reader writes.
    tail: u64,
}

impl RingReader {
    /// Readers for all rings. May be called once for a program: two readers of a ring would release
    /// each other's records.
    pub(crate) fn all(memory: &Arc<CaptureMemory>) -> Vec<Self> {
        let geometry = memory.geometry();
        let shape = RingShape {
            segment_bytes: geometry.segment_bytes.into(),
            segments: geometry.segments.into(),
            stride_bytes: geometry.segment_stride_bytes().into(),
        };
        (0..geometry.rings).map(|cpu| Self { memory: Arc::clone(memory), cpu, shape, tail: 0 }).collect()
    }

    /// The CPU that fills this ring.
    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Lets others see how far the producer is.
    pub(crate) fn watch(&self) -> RingWatch {
        RingWatch { memory: Arc::clone(&self.memory), cpu: self.cpu }
    }

    /// The shape of this ring.
    pub(crate) fn shape(&self) -> RingShape {
        self.shape
    }

    /// Sets the nanoseconds that the program adds to monotonic time in the blocks of this ring.
    pub(crate) fn set_utc_offset(&self, offset_ns: i64) {
        set_utc_offset_of(&self.memory, self.cpu, offset_ns);
    }

    /// Bytes of records in the ring, as places count them.
    pub(crate) fn pending(&self) -> u64 {
        self.word(offset_of!(CaptureCpu, head)).load(Relaxed).wrapping_sub(self.tail)
    }

    /// The oldest records, of one segment; `give_back` releases them.
    pub(crate) fn filled(&self) -> Batch<'_> {
        // Acquire: the bytes of the records were written before the head.
        let head = self.word(offset_of!(CaptureCpu, head)).load(Acquire);
        let ring_start = self.cpu as usize * self.memory.geometry().ring_memory_bytes();
        let (range, until) = self.shape.filled(self.tail, head);
        // SAFETY: the range lies in one segment of this CPU's ring, whose shape is the one that the
        // map was made with, and `bytes` checks it against the mapping. The program writes from
        // `head` on up to a ring after the shared tail, and so not into the bytes between the two,
        // nor behind the last record of a segment that `head` has left. That tail moves in
        // `give_back` only, which needs `self` exclusively and so waits for this borrow. No other
        // mapping of these rings is writable.
        let bytes = unsafe { self.memory.rings.bytes(ring_start + range.start, range.len()) };
        Batch::new(bytes, until)
    }

    /// Gives the oldest records, `len` bytes of one segment, back to the program.
    pub(crate) fn give_back(&mut self, len: u64) {
        self.tail = self.shape.behind(self.tail, len);
        // Release: everything was read before the program may write again.
        self.word(offset_of!(CaptureCpu, tail)).store(self.tail, Release);
    }

    fn word(&self, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.memory.cpus.atomic_u64(place(self.cpu, field))
    }
}

/// Sees how far the producer of one ring is, from any thread.
#[derive(Debug)]
pub(crate) struct RingWatch {
    memory: Arc<CaptureMemory>,
    cpu: u32,
}

impl RingWatch {
    /// Records ever written.
    pub(crate) fn captured(&self) -> u64 {
        self.word(offset_of!(CaptureCpu, captured))
    }

    /// The part of the ring that is filled.
    pub(crate) fn used(&self) -> f64 {
        let pending =
            self.word(offset_of!(CaptureCpu, head)).wrapping_sub(self.word(offset_of!(CaptureCpu, tail)));
        (pending as f64 / self.memory.geometry().ring_size_bytes() as f64).min(1.0)
    }

    fn word(&self, field: usize) -> u64 {
        self.memory.cpus.atomic_u64(place(self.cpu, field)).load(Acquire)
    }
}
