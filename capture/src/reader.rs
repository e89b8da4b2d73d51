//! One thread for each ring: takes what is filled, encodes it, gives the room back, writes.

use crate::clock::UtcClock;
use crate::encode::Encoder;
use crate::limit::Limit;
use crate::sink::Sink;
use crate::source::Source;
use crate::stats::ReaderCounts;
use crate::sys;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A batch ends when so many bytes are encoded: few enough to stay in a CPU's own cache until they are written.
const BUFFER_LEN: usize = 256 << 10;
/// Shortest and longest sleep over an empty ring. A ring of the default size holds 3 ms at 10 million frames a
/// second; a frame waits no longer than this in a quiet one.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What readers share with each other and with whoever started them.
pub(crate) struct Shared {
    pub(crate) clock: UtcClock,
    pub(crate) limit: Limit,
    pub(crate) sink: Option<Sink>,
    /// True when nothing is added to the rings any more, so that an empty one means the end.
    pub(crate) is_draining: AtomicBool,
}

/// One reader's place in the session.
pub(crate) struct Reader {
    pub(crate) shared: Arc<Shared>,
    /// The CPU to keep off.
    pub(crate) cpu: Option<u32>,
    pub(crate) encoder: Encoder,
    pub(crate) counts: Arc<ReaderCounts>,
}

impl Reader {
    /// Empties one ring until the end.
    pub(crate) fn run(mut self, mut source: impl Source) {
        if let Some(cpu) = self.cpu {
            leave_to_producer(cpu);
        }
        // Without the right to it the reader is one thread among others, and losses are counted as ever.
        let _ = sys::run_before_others();
        let mut buffer = Vec::with_capacity(BUFFER_LEN + BUFFER_LEN / 4);
        let mut pause = Pause::new(source.much(BUFFER_LEN));
        loop {
            // Asked before looking: what came until then is seen.
            let is_last_look = self.shared.is_draining.load(Relaxed);
            let taken = self.take_batch(&mut source, &mut buffer);
            if taken == 0 && is_last_look {
                return;
            }
            if !is_last_look {
                pause.after(taken);
            }
        }
    }

    /// Handles one batch; 0 when the ring was empty.
    fn take_batch(&mut self, source: &mut impl Source, buffer: &mut Vec<u8>) -> u64 {
        buffer.clear();
        let taken = source.look(BUFFER_LEN);
        if taken == 0 {
            return 0;
        }
        let shared = &*self.shared;
        let wanted = shared.limit.take(taken);
        if shared.sink.as_ref().is_some_and(|sink| !sink.has_failed()) {
            let (encoder, utc_offset_ns) = (&mut self.encoder, shared.clock.offset_ns());
            source.for_each(wanted, |record| encoder.emit(&record, utc_offset_ns, buffer));
        }
        // The ring has room again before the bytes are on their way: writing may take long.
        source.give_back();
        let written = match &shared.sink {
            None => wanted,
            Some(_) if buffer.is_empty() => 0,
            Some(sink) => sink.append(buffer, wanted),
        };
        self.counts.written.fetch_add(written, Relaxed);
        self.counts.lost_disk.fetch_add(wanted - written, Relaxed);
        self.counts.after_limit.fetch_add(taken - wanted, Relaxed);
        taken
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

/// How long to sleep: long enough that a look at the ring finds a batch, short enough that it never fills.
#[derive(Debug)]
struct Pause {
    /// A look that found this many frames is followed by another at once.
    much: u64,
    sleep: Duration,
}

impl Pause {
    fn new(much: u64) -> Self {
        Self { much, sleep: SLEEP_MIN }
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
        let mut pause = Pause::new(1024);
        assert_eq!(pause.next(2048), None);
        let sleeps: Vec<u128> = (0..7).map(|_| pause.next(1).unwrap().as_micros()).collect();
        assert_eq!(sleeps, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pause.next(500), Some(SLEEP_MAX));
        assert_eq!(pause.next(500), Some(SLEEP_MIN));
    }
}
