//! What goes from readers to the writer: stretches of encoded records.

use crate::clock::UtcClock;
use crate::part::{self, Part};
use crate::pool::Pool;
use crate::source::Probe;
use crate::stats::ReaderCounts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Encoded records of one ring, in the order of the ring.
#[derive(Debug)]
pub(crate) struct Run {
    /// Number of the ring in the session.
    pub(crate) ring: usize,
    pub(crate) bytes: Vec<u8>,
    /// Of that ring alone.
    pub(crate) parts: Vec<Part>,
    /// Time of the first record, in nanoseconds since 1970.
    pub(crate) first_ns: u64,
    /// The largest time.
    pub(crate) last_ns: u64,
    /// False when a record is older than one before it.
    pub(crate) is_in_order: bool,
}

/// What the writer knows of one ring without asking its reader.
pub(crate) struct Lane {
    pub(crate) pool: Pool,
    pub(crate) counts: Arc<ReaderCounts>,
    pub(crate) progress: Progress,
    pub(crate) probe: Option<Box<dyn Probe>>,
    /// The CPU that fills the ring, when that is always the same.
    pub(crate) cpu: Option<u32>,
    /// How long a record may lie in the ring before its reader can see it.
    pub(crate) delay_ns: u64,
}

impl Run {
    /// How many records it has.
    pub(crate) fn count(&self) -> u64 {
        part::count(&self.parts)
    }
}

/// How far a reader is. Written by the reader alone.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Records ever taken from the ring; all of them that are to be written have been sent before.
    taken: AtomicU64,
    /// At this time, in nanoseconds since 1970, the ring was empty and everything from it had been sent.
    empty_ns: AtomicU64,
}

impl Progress {
    /// The reader has sent on (or counted) so many more records.
    pub(crate) fn took(&self, records: u64) {
        // Release: whoever sees this finds the run in the channel.
        self.taken.fetch_add(records, Ordering::Release);
    }

    /// Records ever taken from the ring.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The reader found the ring empty after `time_ns`.
    pub(crate) fn was_empty_at(&self, time_ns: u64) {
        self.empty_ns.store(time_ns, Ordering::Release);
    }
}

impl Lane {
    /// That of a ring with two buffers, of which only its reader tells when it is empty.
    #[cfg(test)]
    pub(crate) fn for_test() -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(0),
            counts: Arc::default(),
            progress: Progress::default(),
            probe: None,
            cpu: None,
            delay_ns: 0,
        })
    }

    /// A time at which the ring had nothing that is not in the channel by now, in nanoseconds since 1970. 0 when there
    /// is none to be told.
    pub(crate) fn empty_at_ns(&self, clock: &UtcClock) -> u64 {
        let empty_ns = match &self.probe {
            None => self.progress.empty_ns.load(Ordering::Acquire),
            Some(probe) => {
                // The time first: what was filled before it is seen by the probe.
                let now_ns = clock.now_ns();
                let filled = probe.filled();
                if filled == self.progress.taken.load(Ordering::Acquire) { now_ns } else { 0 }
            }
        };
        empty_ns.saturating_sub(self.delay_ns)
    }
}
