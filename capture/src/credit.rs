//! Counts what became of records that were handed to an output.

use crate::limit::Limit;
use crate::part::Part;
use crate::run::Lane;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// See the top of the file.
pub(crate) struct Credit<'a> {
    /// By number of the ring.
    pub(crate) lanes: &'a [Arc<Lane>],
    pub(crate) limit: &'a Limit,
}

impl Credit<'_> {
    /// The first `kept` records are in the output, the others are lost at the disk.
    pub(crate) fn give(&mut self, parts: &[Part], mut kept: u64) {
        for part in parts {
            let written = part.count.min(kept);
            kept -= written;
            let (counts, lost) = (&self.lanes[part.ring].counts, part.count - written);
            counts.written.fetch_add(written, Relaxed);
            counts.lost_disk.fetch_add(lost, Relaxed);
            if part.dial.is_hardware() {
                counts.hardware_time.fetch_add(written, Relaxed);
            }
            self.limit.wrote(written);
            self.limit.give_back(lost);
        }
    }

    /// These records were in the output, and are lost at the disk after all.
    pub(crate) fn take_back(&mut self, parts: &[Part]) {
        for part in parts {
            let counts = &self.lanes[part.ring].counts;
            counts.lost_disk.fetch_add(part.count, Relaxed);
            counts.written.fetch_sub(part.count, Relaxed);
            if part.dial.is_hardware() {
                counts.hardware_time.fetch_sub(part.count, Relaxed);
            }
            self.limit.take_back(part.count);
        }
    }
}
