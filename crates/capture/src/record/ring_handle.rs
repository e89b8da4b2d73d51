//! One ring as the writer sees it: its buffers, its counts, and how far its reader is.

use crate::describe;
use crate::record::batch::IndexEntry;
use crate::record::consumer::Probe;
#[cfg(test)]
use crate::record::pool::BUFFER_LEN;
use crate::record::pool::Pool;
use crate::stats::ReaderCounts;
use crate::time::utc::UtcClock;
use host::Link;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The device that fills a ring.
#[derive(Clone, Debug)]
pub(crate) struct RingDevice {
    pub(crate) name: Arc<str>,
    pub(crate) index: u32,
    /// Link type of its frames, as capture files number them.
    pub(crate) link_type: u16,
}

/// The devices of a group, which share a ring.
pub(crate) trait RingDevices: Send + Sync {
    /// The device with this interface.
    fn of_interface(&self, interface: usize) -> RingDevice;
}

impl RingDevice {
    /// Of a device whose kind of frames has a number in files; 0 for another.
    pub(crate) fn of(link: &Link) -> Self {
        let link_type = describe::link_type(link).unwrap_or_default();
        Self { name: link.name.as_str().into(), index: link.index, link_type }
    }
}

/// Buffers, counts and read position of one ring, for the writer.
pub(crate) struct RingHandle {
    pub(crate) pool: Pool,
    pub(crate) counts: Arc<ReaderCounts>,
    pub(crate) progress: ReaderProgress,
    pub(crate) probe: Option<Box<dyn Probe>>,
    /// The only device that fills it, or one of a group.
    pub(crate) device: RingDevice,
    /// The group.
    pub(crate) group: Option<Arc<dyn RingDevices>>,
    /// The CPU that fills the ring, if it is always the same one.
    pub(crate) cpu: Option<u32>,
    /// The longest time that a record stays in the ring before its reader can see it.
    pub(crate) delay_ns: u64,
}

/// How far a reader is. Only the reader writes it.
#[derive(Debug, Default)]
pub(crate) struct ReaderProgress {
    /// Records ever taken from the ring; those to be written have been sent before.
    taken: AtomicU64,
    /// At this time, in nanoseconds since 1970, the ring was empty and all its records had been
    /// sent.
    empty_ns: AtomicU64,
}

impl ReaderProgress {
    /// The reader has sent or counted `records` more records.
    pub(crate) fn took(&self, records: u64) {
        // Release: a thread that reads this number finds the batch in the channel.
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

impl RingHandle {
    /// A ring with two buffers and no probe.
    #[cfg(test)]
    pub(crate) fn for_test() -> Arc<Self> {
        Self::with_buffers_for_test(2)
    }

    /// A ring with `count` buffers and no probe.
    #[cfg(test)]
    pub(crate) fn with_buffers_for_test(count: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(count * BUFFER_LEN),
            counts: Arc::default(),
            progress: ReaderProgress::default(),
            probe: None,
            device: RingDevice { name: "eth0".into(), index: 1, link_type: 1 },
            group: None,
            cpu: None,
            delay_ns: 0,
        })
    }

    /// The device that a record is from.
    pub(crate) fn device_of(&self, entry: IndexEntry) -> Cow<'_, RingDevice> {
        match &self.group {
            None => Cow::Borrowed(&self.device),
            Some(group) => Cow::Owned(group.of_interface(entry.interface())),
        }
    }

    /// The part of the ring that is filled; `None` if the kernel does not report it.
    pub(crate) fn used(&self) -> Option<f64> {
        self.probe.as_ref().map(|probe| probe.used())
    }

    /// A time, in nanoseconds since 1970: all records stamped before it are in the channel by now.
    /// 0 if there is no such time.
    pub(crate) fn empty_at_ns(&self, clock: &UtcClock) -> u64 {
        let empty_ns = match &self.probe {
            None => self.progress.empty_ns.load(Ordering::Acquire),
            Some(probe) => {
                // The time first: the probe counts everything that was filled in before it.
                let now_ns = clock.now_ns();
                let filled = probe.filled();
                if filled == self.progress.taken.load(Ordering::Acquire) { now_ns } else { 0 }
            }
        };
        empty_ns.saturating_sub(self.delay_ns)
    }
}
