//! Memory that the XDP program and a reader share: one ring and one page of progress and counters.
//!
//! The protocol: the program fills slots from `tail` on and then raises `head`; the reader reads
//! slots before `head` and then raises `tail`. Each of the two words has one writer.

use crate::record::ring::{Batch, RingShape};
use bpf::abi::CaptureCpu;
use bpf::capture::CaptureProgram;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What the program counted on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuCounts {
    pub(crate) head: u64,
    pub(crate) lost_ring: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) filtered: u64,
}

/// Offset of a field of one CPU's part of the counters.
fn place(cpu: u32, field: usize) -> usize {
    cpu as usize * size_of::<CaptureCpu>() + field
}

/// Reads the counters of a CPU. They move while they are read, each by itself.
pub(crate) fn counts(program: &CaptureProgram, cpu: u32) -> CpuCounts {
    let word = |field| program.cpus.atomic_u64(place(cpu, field)).load(Relaxed);
    CpuCounts {
        head: word(offset_of!(CaptureCpu, head)),
        lost_ring: word(offset_of!(CaptureCpu, lost_ring)),
        frame_bytes: word(offset_of!(CaptureCpu, frame_bytes)),
        filtered: word(offset_of!(CaptureCpu, filtered)),
    }
}

/// Tells the program on every CPU what becomes of frames from now on; `mode` is a
/// `bpf::abi::CaptureMode`.
pub(crate) fn set_mode(program: &CaptureProgram, mode: u32) {
    for cpu in 0..program.geometry().cpus {
        program.cpus.atomic_u32(place(cpu, offset_of!(CaptureCpu, mode))).store(mode, Relaxed);
    }
}

/// The only reader of one CPU's ring.
#[derive(Debug)]
pub(crate) struct RingReader {
    program: Arc<CaptureProgram>,
    cpu: u32,
    shape: RingShape,
    /// As in the shared page, which only this reader writes.
    tail: u64,
}

impl RingReader {
    /// Readers for all rings. May be called once for a program: two readers of a ring would free
    /// each other's slots.
    pub(crate) fn all(program: &Arc<CaptureProgram>) -> Vec<Self> {
        let geometry = program.geometry();
        let shape = RingShape { slots: geometry.slots, slot_size_bytes: geometry.slot_size_bytes() };
        (0..geometry.rings).map(|cpu| Self { program: Arc::clone(program), cpu, shape, tail: 0 }).collect()
    }

    /// The CPU that fills this ring.
    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Lets others see how far the producer is.
    pub(crate) fn watch(&self) -> RingWatch {
        RingWatch { program: Arc::clone(&self.program), cpu: self.cpu }
    }

    /// The shape of this ring.
    pub(crate) fn shape(&self) -> RingShape {
        self.shape
    }

    /// The oldest filled slots, at most `batch`; `give_back` frees them.
    pub(crate) fn filled(&self, batch: u32) -> Batch<'_> {
        // Acquire: the bytes of the slots were written before the head.
        let head = self.word(offset_of!(CaptureCpu, head)).load(Acquire);
        let ring_start = self.cpu as usize * self.shape.size_bytes();
        let parts = self.shape.filled(self.tail, head, batch).map(|range| {
            // SAFETY: the range lies in this CPU's ring, whose shape is the one that the map was
            // made with, and `bytes` checks it against the mapping. The program writes to slots
            // from `head` on up to a ring after the shared tail; that tail moves in `give_back`
            // only, which needs `self` exclusively and so waits for this borrow. No other mapping
            // of these rings is writable.
            unsafe { self.program.rings.bytes(ring_start + range.start, range.len()) }
        });
        Batch::new(self.shape.slot_size_bytes as usize, parts)
    }

    /// Gives the oldest `slots` slots back to the program.
    pub(crate) fn give_back(&mut self, slots: u64) {
        self.tail += slots;
        // Release: everything was read before the program may write again.
        self.word(offset_of!(CaptureCpu, tail)).store(self.tail, Release);
    }

    fn word(&self, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.program.cpus.atomic_u64(place(self.cpu, field))
    }
}

/// Sees how far the producer of one ring is, from any thread.
#[derive(Debug)]
pub(crate) struct RingWatch {
    program: Arc<CaptureProgram>,
    cpu: u32,
}

impl RingWatch {
    /// Slots ever filled.
    pub(crate) fn head(&self) -> u64 {
        self.program.cpus.atomic_u64(place(self.cpu, offset_of!(CaptureCpu, head))).load(Acquire)
    }
}
