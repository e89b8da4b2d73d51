//! Places of frames in the rings: one thread fills all, one thread sends each.
//!
//! The filler owns places from `tail` on until it moves `head` over them, the sender those from
//! `head` back to `tail`.

use super::{ReplayFrame, ReplaySource, ReplayStep};
use bpf::{REPLAY_BYTES, REPLAY_LEN_MAX, REPLAY_RECORDS, ReplayRecord, ReplayRing};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Pause of a filler with a full ring: a small part of the time that the ring lasts at top speed.
const PAUSE: Duration = Duration::from_micros(50);
/// The filler checks this often whether the run has ended.
const CHECK_EVERY: u64 = 64;
/// Frames begin on a word.
const ALIGN: u32 = 8;

/// Progress of a ring, for both threads.
#[derive(Debug, Default)]
pub(super) struct RingState {
    /// Frames that are complete.
    head: AtomicU64,
    /// Frames that were sent.
    tail: AtomicU64,
    /// The source is over.
    is_over: AtomicBool,
    /// With a number, the ring keeps so many frames and the sender begins again behind them.
    loop_len: AtomicU64,
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

    /// Frames of one loop, once the ring keeps them. Read after [`Self::head`].
    pub(super) fn loop_len(&self) -> Option<u64> {
        Some(self.loop_len.load(Ordering::Relaxed)).filter(|frames| *frames > 0)
    }

    /// The `frames` frames of the ring come again, `more` of them.
    fn repeat(&self, frames: u64, more: u64) {
        self.loop_len.store(frames, Ordering::Relaxed);
        self.head.store(frames.saturating_add(more), Ordering::Release);
    }
}

/// What the sender knows of the frame of a record.
#[derive(Debug, Default)]
pub(super) struct FrameNote {
    due_ns: AtomicU64,
    is_second: AtomicBool,
}

impl FrameNote {
    /// When the frame is due.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    /// The place of its device: 1 for the other one.
    pub(super) fn port(&self) -> usize {
        usize::from(self.is_second.load(Ordering::Relaxed))
    }

    fn set(&self, frame: ReplayFrame) {
        self.due_ns.store(frame.due_ns, Ordering::Relaxed);
        self.is_second.store(frame.is_second, Ordering::Relaxed);
    }
}

/// The thread that fills, as the senders see it.
#[derive(Debug, Default)]
pub(super) struct FillerState {
    /// The senders have ended.
    is_closed: AtomicBool,
    /// It waits for space in one of the rings: an empty ring does not wait for the source.
    is_blocked: AtomicBool,
}

impl FillerState {
    /// Ends the filler.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// True while a ring is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
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

    /// True if all frames so far are still in the ring, from its start on.
    fn keep_all(&self) -> bool {
        self.number <= REPLAY_RECORDS && self.given == u64::from(self.offset)
    }
}

/// One ring, for the thread that fills it.
pub(super) struct FilledRing<'a> {
    ring: ReplayRing,
    state: &'a RingState,
    /// Of each record, for the sender.
    notes: &'a [FrameNote],
    places: Places,
    /// Frames that the source gave.
    given: u64,
}

impl<'a> FilledRing<'a> {
    pub(super) fn new(ring: ReplayRing, state: &'a RingState, notes: &'a [FrameNote]) -> Self {
        Self { ring, state, notes, places: Places::new(), given: 0 }
    }

    /// Adds a frame, once there is space for it; false if the run ended before.
    fn add(&mut self, frame: ReplayFrame, bytes: &[u8], filler: &FillerState) -> bool {
        let ReplayFrame { due_ns, is_second, .. } = frame;
        let frame_len = bytes.len() as u32;
        let number = self.given;
        self.given += 1;
        let offset = loop {
            if let Some(offset) = self.places.take(frame_len) {
                break offset;
            }
            // Only now: the sender writes the tail, and each look costs a cache line of its CPU.
            let tail = self.state.tail.load(Ordering::Acquire);
            if tail > self.places.tail {
                self.places.free(tail);
                continue;
            }
            if filler.is_closed.load(Ordering::Acquire) {
                return false;
            }
            filler.is_blocked.store(true, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
            filler.is_blocked.store(false, Ordering::Relaxed);
        };
        let record = ReplayRecord { offset, frame_len: frame_len as u16, port: u16::from(is_second), due_ns };
        self.ring.write(number, &record, bytes);
        self.notes[(number % REPLAY_RECORDS) as usize].set(frame);
        self.state.head.store(number + 1, Ordering::Release);
        true
    }
}

/// Fills the rings from `source` until it is over or the run has ended. Returns the number of
/// frames that the source gave for each ring.
pub(super) fn fill(
    mut rings: Vec<FilledRing<'_>>,
    filler: &FillerState,
    source: &mut dyn ReplaySource,
) -> Vec<u64> {
    let mut frames = 0_u64;
    loop {
        let frame = match (source.advance(), &rings[..]) {
            (ReplayStep::Frame(frame), _) => frame,
            (ReplayStep::Repeat(more), [ring]) if ring.places.keep_all() => {
                ring.state.repeat(ring.given, more);
                break;
            }
            (ReplayStep::Repeat(_), _) => continue,
            (ReplayStep::End, _) => break,
        };
        let queue = usize::from(frame.queue) % rings.len();
        let is_added = rings[queue].add(frame, source.bytes(), filler);
        frames += 1;
        let is_checked = frames.is_multiple_of(CHECK_EVERY);
        if !is_added || (is_checked && filler.is_closed.load(Ordering::Acquire)) {
            break;
        }
    }
    rings.iter().for_each(|ring| ring.state.is_over.store(true, Ordering::Release));
    rings.iter().map(|ring| ring.given).collect()
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
