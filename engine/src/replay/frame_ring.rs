//! Places of frames in the ring: one thread fills, one sends.
//!
//! The filler owns places from `tail` on until it moves `head` over them, the sender those from
//! `head` back to `tail`.

use super::{ReplayFrame, ReplaySource};
use bpf::{REPLAY_BYTES, REPLAY_LEN_MAX, REPLAY_RECORDS, ReplayRecord, ReplayRing};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Frames that become visible to the sender at once, so that the two CPUs share lines rarely.
const PUBLISH_EVERY: u64 = 64;
/// Pause of a filler with a full ring: a small part of the time that the ring lasts at top speed.
const PAUSE: Duration = Duration::from_micros(50);
/// Frames begin on a word.
const ALIGN: u32 = 8;

/// Progress of both threads.
#[derive(Debug, Default)]
pub(super) struct RingState {
    /// Frames that are complete.
    head: AtomicU64,
    /// Frames that were sent.
    tail: AtomicU64,
    /// The source is over.
    is_over: AtomicBool,
    /// The sender has ended.
    is_closed: AtomicBool,
    /// The sender waits for frames: each becomes visible at once.
    is_starved: AtomicBool,
}

impl RingState {
    /// Complete frames, and whether there will be no more.
    pub(super) fn head(&self) -> (u64, bool) {
        // In this order: after the end is seen, the head does not move.
        let is_over = self.is_over.load(Ordering::Acquire);
        (self.head.load(Ordering::Acquire), is_over)
    }

    /// Frees the places of all frames before `tail`.
    pub(super) fn free(&self, tail: u64) {
        self.tail.store(tail, Ordering::Release);
    }

    /// Sets whether the sender waits for frames.
    pub(super) fn set_starved(&self, is_starved: bool) {
        if self.is_starved.load(Ordering::Relaxed) != is_starved {
            self.is_starved.store(is_starved, Ordering::Relaxed);
        }
    }

    /// Ends the filler.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

/// Where the next frame goes, and how many bytes are in use.
#[derive(Debug)]
pub(super) struct Places {
    number: u64,
    offset: u32,
    /// Bytes of all frames so far, with those skipped at the end of the ring.
    given: u64,
    /// This sum behind each frame that may be in the ring.
    ends: Vec<u64>,
    /// Frames and bytes that were freed.
    tail: u64,
    freed: u64,
}

impl Places {
    pub(super) fn new() -> Self {
        let ends = vec![0; REPLAY_RECORDS as usize];
        Self { number: 0, offset: 0, given: 0, ends, tail: 0, freed: 0 }
    }

    /// The places of all frames before `tail` are free.
    pub(super) fn free(&mut self, tail: u64) {
        if tail > self.tail {
            self.freed = self.ends[((tail - 1) % REPLAY_RECORDS) as usize];
            self.tail = tail;
        }
    }

    /// Where a frame of `frame_len` bytes goes; `None` while there is no space.
    pub(super) fn take(&mut self, frame_len: u32) -> Option<u32> {
        let len = frame_len.next_multiple_of(ALIGN);
        // The program requires the longest length behind the start of each frame.
        let wraps = self.offset > REPLAY_BYTES - REPLAY_LEN_MAX;
        let skipped = if wraps { REPLAY_BYTES - self.offset } else { 0 };
        let end = self.given + u64::from(skipped + len);
        if self.number - self.tail == REPLAY_RECORDS || end - self.freed > u64::from(REPLAY_BYTES) {
            return None;
        }
        let offset = if wraps { 0 } else { self.offset };
        self.offset = offset + len;
        self.given = end;
        self.ends[(self.number % REPLAY_RECORDS) as usize] = end;
        self.number += 1;
        Some(offset)
    }
}

/// Fills the ring from `source` until it is over or the ring is closed. `due` has the due time of
/// each frame for the sender. Returns the number of frames that the source gave.
pub(super) fn fill(
    ring: &mut ReplayRing,
    state: &RingState,
    due: &[AtomicU64],
    source: &mut dyn ReplaySource,
) -> u64 {
    let mut places = Places::new();
    let mut number = 0;
    while let Some(ReplayFrame { due_ns, is_second }) = source.advance() {
        let bytes = source.bytes();
        let frame_len = bytes.len() as u32;
        let offset = loop {
            if let Some(offset) = places.take(frame_len) {
                break offset;
            }
            // Only now: the sender writes the tail, and each look costs a cache line of its CPU.
            let tail = state.tail.load(Ordering::Acquire);
            if tail > places.tail {
                places.free(tail);
                continue;
            }
            state.head.store(number, Ordering::Release);
            if state.is_closed.load(Ordering::Acquire) {
                return number + 1;
            }
            std::thread::sleep(PAUSE);
        };
        let record = ReplayRecord { offset, frame_len: frame_len as u16, port: u16::from(is_second), due_ns };
        ring.write(number, &record, bytes);
        due[(number % REPLAY_RECORDS) as usize].store(due_ns, Ordering::Relaxed);
        number += 1;
        if number.is_multiple_of(PUBLISH_EVERY) || state.is_starved.load(Ordering::Relaxed) {
            state.head.store(number, Ordering::Release);
            if state.is_closed.load(Ordering::Acquire) {
                return number;
            }
        }
    }
    state.head.store(number, Ordering::Release);
    state.is_over.store(true, Ordering::Release);
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Rng;
    use std::collections::VecDeque;

    #[test]
    fn frames_in_the_ring_never_overlap() {
        let (mut places, mut rng) = (Places::new(), Rng(7));
        let (mut live, mut tail) = (VecDeque::new(), 0);
        let mut full = 0;
        for _ in 0..200_000 {
            let frame_len = 14 + rng.below(3500);
            match places.take(frame_len) {
                Some(offset) => {
                    assert!(offset <= REPLAY_BYTES - REPLAY_LEN_MAX);
                    let end = offset + frame_len;
                    // The neighbours in the ring are the oldest and the newest.
                    for (from, to) in live.front().into_iter().chain(live.back()) {
                        assert!(end <= *from || offset >= *to, "{offset} to {end}, {from} to {to}");
                    }
                    live.push_back((offset, end));
                }
                None => {
                    full += 1;
                    for _ in 0..1 + rng.below(live.len() as u32) {
                        live.pop_front();
                        tail += 1;
                    }
                    places.free(tail);
                }
            }
        }
        assert!(full > 2, "the ring was never full");
    }
}
