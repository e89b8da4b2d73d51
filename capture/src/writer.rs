//! One thread for each ring: takes what is filled, encodes it, gives the slots back, writes.

use crate::clock::UtcClock;
use crate::encode::Encoder;
use crate::limit::Limit;
use crate::ring::Batch;
use crate::sink::Sink;
use crate::stats::WriterCounts;
use crate::sys::{self, RingReader};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A batch ends when so many bytes are encoded: few enough to stay in a CPU's own cache until they are written.
const BUFFER_LEN: usize = 256 << 10;
/// Shortest and longest sleep over an empty ring. A ring of the default size holds 3 ms at 10 million frames a
/// second; a frame waits no longer than this in a quiet one.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What a writer shares with the others and with whoever started it.
pub(crate) trait Shared: Send + Sync {
    fn clock(&self) -> &UtcClock;
    fn limit(&self) -> &Limit;
    fn sink(&self) -> Option<&Sink>;
    fn counts(&self, cpu: u32) -> &WriterCounts;
    /// True when nothing is added to the rings any more, so that an empty one means the end.
    fn is_draining(&self) -> bool;
}

/// Empties one ring until the end.
pub(crate) fn run(mut reader: RingReader, mut encoder: Encoder, shared: &dyn Shared) {
    leave_to_producer(reader.cpu());
    // Without the right to it the writer is one thread among others, and losses are counted as ever.
    let _ = sys::run_before_others();
    let mut buffer = Vec::with_capacity(BUFFER_LEN + BUFFER_LEN / 4);
    let mut pause = Pause::new(reader.shape().slots, batch_slots(reader.shape().slot_size_bytes));
    loop {
        // Asked before looking: what came until then is seen.
        let is_last_look = shared.is_draining();
        let taken = take_batch(&mut reader, &mut encoder, &mut buffer, shared);
        if taken == 0 && is_last_look {
            return;
        }
        if !is_last_look {
            pause.after(taken);
        }
    }
}

/// Keeps this thread off the CPU whose softirq fills the ring, where it would only get what that leaves over.
/// Best effort: on one CPU, or when that is all the process may use, there is no choice.
fn leave_to_producer(cpu: u32) {
    let this_thread = Pid::from_raw(0);
    let Ok(mut cpus) = sched_getaffinity(this_thread) else { return };
    let others = (0..CpuSet::count()).any(|other| other != cpu as usize && cpus.is_set(other) == Ok(true));
    if others && cpus.unset(cpu as usize).is_ok() {
        let _ = sched_setaffinity(this_thread, &cpus);
    }
}

/// Handles one batch; 0 when the ring was empty.
fn take_batch(
    reader: &mut RingReader,
    encoder: &mut Encoder,
    buffer: &mut Vec<u8>,
    shared: &dyn Shared,
) -> u64 {
    buffer.clear();
    let batch = reader.filled(batch_slots(reader.shape().slot_size_bytes));
    let taken = batch.len() as u64;
    if taken == 0 {
        return 0;
    }
    let wanted = shared.limit().take(taken);
    if shared.sink().is_some_and(|sink| !sink.has_failed()) {
        encode(&batch, wanted, encoder, shared.clock().offset_ns(), buffer);
    }
    // The slots are free again before the bytes are on their way: writing may take long.
    reader.give_back(taken);
    let written = match shared.sink() {
        None => wanted,
        Some(_) if buffer.is_empty() => 0,
        Some(sink) => sink.append(buffer, wanted),
    };
    let counts = shared.counts(reader.cpu());
    counts.written.fetch_add(written, Relaxed);
    counts.lost_disk.fetch_add(wanted - written, Relaxed);
    counts.after_limit.fetch_add(taken - wanted, Relaxed);
    taken
}

/// Slots whose blocks fill the buffer, when all of them are full.
fn batch_slots(slot_size_bytes: u32) -> u32 {
    (BUFFER_LEN as u32 / slot_size_bytes).max(1)
}

fn encode(batch: &Batch<'_>, wanted: u64, encoder: &mut Encoder, utc_offset_ns: i64, buffer: &mut Vec<u8>) {
    for record in batch.records().take(wanted as usize) {
        encoder.emit(&record, utc_offset_ns, buffer);
    }
}

/// How long to sleep: long enough that a look at the ring finds a batch, short enough that it never fills.
#[derive(Debug)]
struct Pause {
    /// A look that found this many frames is followed by another at once.
    much: u64,
    sleep: Duration,
}

impl Pause {
    /// For a ring of `slots` that is emptied `batch` slots at a time: however large the ring is, a full batch
    /// is much.
    fn new(slots: u32, batch: u32) -> Self {
        Self { much: u64::from((slots / 32).min(batch / 2)), sleep: SLEEP_MIN }
    }

    /// Sleeps after a look that found `taken` frames.
    fn after(&mut self, taken: u64) {
        if let Some(sleep) = self.next(taken) {
            std::thread::sleep(sleep);
        }
    }

    /// No sleep while there is much to do; the less was found, the longer the next sleep.
    fn next(&mut self, taken: u64) -> Option<Duration> {
        if taken > self.much {
            self.sleep = SLEEP_MIN;
            return None;
        }
        let sleep = self.sleep;
        self.sleep = if taken > self.much / 4 { SLEEP_MIN } else { (sleep * 2).min(SLEEP_MAX) };
        Some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_ring_is_not_slept_over_and_a_quiet_one_longer_and_longer() {
        let mut pause = Pause::new(32_768, 2048);
        assert_eq!(pause.next(2048), None);
        let sleeps: Vec<u128> = (0..7).map(|_| pause.next(1).unwrap().as_micros()).collect();
        assert_eq!(sleeps, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pause.next(500), Some(SLEEP_MAX));
        assert_eq!(pause.next(500), Some(SLEEP_MIN));
    }

    #[test]
    fn full_batches_of_a_large_ring_are_not_slept_over() {
        let mut pause = Pause::new(1 << 20, 2048);
        assert_eq!(pause.next(2048), None);
        assert_eq!(pause.next(1025), None);
        assert_eq!(pause.next(3), Some(SLEEP_MIN));
    }

    #[test]
    fn a_batch_is_at_least_one_slot_and_fits_the_buffer() {
        assert_eq!(batch_slots(128), 2048);
        assert_eq!(batch_slots(65_600), 3);
        assert_eq!(batch_slots(1 << 20), 1);
    }
}
