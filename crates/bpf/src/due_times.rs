//! Times at which a program that builds the frames of a plan sends them (`due_times.h`).

use crate::shared::SharedArray;
use crate::{BpfError, abi};
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

/// Frames of one call that can have times.
pub const DUE_TIMES_MAX: usize = abi::Limit::WR_DUE_TIMES_MAX.0 as usize;

/// Times of the next frames. Written by the worker between calls.
#[derive(Debug)]
pub struct DueTimes(SharedArray<abi::DueTimes>);

impl DueTimes {
    pub(crate) fn map(map: BorrowedFd<'_>) -> Result<Self, BpfError> {
        SharedArray::new(map, "due_times", 1).map(Self)
    }

    /// Each of the next frames waits until its time of `CLOCK_MONOTONIC`; frames behind them do
    /// not wait.
    ///
    /// # Panics
    /// With more than [`DUE_TIMES_MAX`].
    pub fn set(&self, due_ns: &[u64]) {
        assert!(due_ns.len() <= DUE_TIMES_MAX, "{} due times", due_ns.len());
        self.0.set_half_word(0, offset_of!(abi::DueTimes, count), due_ns.len() as u32);
        self.0.set_half_word(0, offset_of!(abi::DueTimes, next), 0);
        for (index, due_ns) in due_ns.iter().enumerate() {
            self.0.set_word(0, offset_of!(abi::DueTimes, due_ns) + 8 * index, *due_ns);
        }
    }

    /// When the waits of the first `frames` frames ended that [`Self::set`] gave times.
    pub fn sent_ns(&self, frames: usize) -> impl Iterator<Item = u64> {
        let place = |index: usize| offset_of!(abi::DueTimes, sent_ns) + 8 * index;
        (0..frames.min(DUE_TIMES_MAX)).map(move |index| self.0.counter(0, place(index)))
    }
}
