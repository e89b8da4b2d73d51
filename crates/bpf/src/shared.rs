//! Structures in memory shared with a running program: copied word by word, counters read in place.

use crate::BpfError;
use crate::sys::MapMemory;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

/// The entries of an array map made with `BPF_F_MMAPABLE`. The kernel rounds the size of an entry
/// up to 8 bytes.
#[derive(Debug)]
pub(crate) struct SharedArray<T> {
    memory: MapMemory,
    entries: usize,
    entry: PhantomData<T>,
}

impl<T: Pod> SharedArray<T> {
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    /// Maps all `entries` of the map called `name`.
    pub(crate) fn new(map: BorrowedFd<'_>, name: &'static str, entries: usize) -> Result<Self, BpfError> {
        const { assert!(size_of::<T>().is_multiple_of(4), "entries are copied in words of 4 bytes") };
        let bytes = Self::STRIDE * entries;
        let memory = MapMemory::new(map, bytes, true).map_err(|source| BpfError::MapMemory {
            map: name,
            bytes,
            source,
        })?;
        Ok(Self { memory, entries, entry: PhantomData })
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// A copy of one entry. If a program writes it meanwhile, the copy may mix old and new words.
    pub(crate) fn get(&self, index: usize) -> T {
        let at = self.at(index);
        let mut value = T::zeroed();
        let words: &mut [u32] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut value));
        for (word, place) in words.iter_mut().enumerate() {
            *place = self.memory.atomic_u32(at + 4 * word).load(Relaxed);
        }
        value
    }

    /// Overwrites one entry. The caller ensures that no program writes it now.
    pub(crate) fn set(&self, index: usize, value: &T) {
        let at = self.at(index);
        let words: &[u32] = bytemuck::cast_slice(std::slice::from_ref(value));
        for (word, value) in words.iter().enumerate() {
            self.memory.atomic_u32(at + 4 * word).store(*value, Relaxed);
        }
    }

    /// The 64-bit counter `offset` bytes into an entry; may be read while a program runs.
    pub(crate) fn counter(&self, index: usize, offset: usize) -> u64 {
        self.memory.atomic_u64(self.at(index) + offset).load(Relaxed)
    }

    /// The 32-bit word `offset` bytes into an entry; may be read while a program runs.
    pub(crate) fn half_word(&self, index: usize, offset: usize) -> u32 {
        self.memory.atomic_u32(self.at(index) + offset).load(Relaxed)
    }

    /// Sets the 64-bit word `offset` bytes into an entry.
    pub(crate) fn set_word(&self, index: usize, offset: usize, value: u64) {
        self.memory.atomic_u64(self.at(index) + offset).store(value, Relaxed);
    }

    /// Sets the 32-bit word `offset` bytes into an entry.
    pub(crate) fn set_half_word(&self, index: usize, offset: usize, value: u32) {
        self.memory.atomic_u32(self.at(index) + offset).store(value, Relaxed);
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.entries, "entry {index} of {}", self.entries);
        index * Self::STRIDE
    }
}
