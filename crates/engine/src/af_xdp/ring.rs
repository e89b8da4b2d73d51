//! One ring of an AF_XDP socket: 32-bit counters that only rise, and descriptors between them.
//!
//! All access goes through atomics, so the kernel may write at any time.

use super::sys::RingLayout;
use bpf::sys::MapMemory;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The kernel needs a wakeup for new entries.
const NEED_WAKEUP: u32 = 1;

/// A ring and our view of it.
#[derive(Debug)]
pub(super) struct Ring {
    memory: MapMemory,
    layout: RingLayout,
    mask: u32,
    entry_len: usize,
    /// Our own counter: of a ring that we fill the producer's, of one that we empty the consumer's.
    ours: u32,
}

impl Ring {
    /// Bytes to be mapped for `entries` of `entry_len` bytes.
    pub(super) fn map_len(layout: &RingLayout, entries: u32, entry_len: usize) -> usize {
        layout.descriptors + entries as usize * entry_len
    }

    pub(super) fn new(memory: MapMemory, layout: RingLayout, entries: u32, entry_len: usize) -> Self {
        assert!(entries.is_power_of_two(), "{entries} entries are no power of two");
        Self { memory, layout, mask: entries - 1, entry_len, ours: 0 }
    }

    /// Entries that we have given and the kernel has not taken.
    pub(super) fn not_taken(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.layout.consumer).load(Acquire))
    }

    /// Writes a transmit descriptor; the kernel sees it after [`Self::publish`]. There must be a
    /// free entry.
    pub(super) fn put(&mut self, address: u64, len: u32, options: u32) {
        let at = self.place(self.ours);
        self.memory.atomic_u64(at).store(address, Relaxed);
        self.memory.atomic_u32(at + 8).store(len, Relaxed);
        self.memory.atomic_u32(at + 12).store(options, Relaxed);
        self.ours = self.ours.wrapping_add(1);
    }

    /// Publishes the new entries to the kernel.
    pub(super) fn publish(&self) {
        self.word(self.layout.producer).store(self.ours, Release);
    }

    /// Takes all returned addresses, with one read and one write of the counters; returns their
    /// number.
    pub(super) fn take_all(&mut self, mut each: impl FnMut(u64)) -> u32 {
        let end = self.word(self.layout.producer).load(Acquire);
        let count = end.wrapping_sub(self.ours);
        if count == 0 {
            return 0;
        }
        while self.ours != end {
            each(self.memory.atomic_u64(self.place(self.ours)).load(Relaxed));
            self.ours = self.ours.wrapping_add(1);
        }
        self.word(self.layout.consumer).store(self.ours, Release);
        count
    }

    /// True if the kernel needs a wakeup.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.layout.flags).load(Relaxed) & NEED_WAKEUP != 0
    }

    fn place(&self, number: u32) -> usize {
        self.layout.descriptors + (number & self.mask) as usize * self.entry_len
    }

    fn word(&self, offset: usize) -> &std::sync::atomic::AtomicU32 {
        self.memory.atomic_u32(offset)
    }
}
