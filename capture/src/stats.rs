//! Where each frame went.
//!
//! `received = captured + lost_ring`, and after the end `captured = written + lost_disk + after_limit`. While a
//! capture runs, frames that wait in a ring are the difference.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Frames counted at each place where one can go on or end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that the device handed to the XDP program.
    pub received: u64,
    /// Their lengths in bytes, without FCS.
    pub received_bytes: u64,
    /// Frames copied into a ring.
    pub captured: u64,
    /// Frames lost because the ring was full.
    pub lost_ring: u64,
    /// Frames handed to the output.
    pub written: u64,
    /// Frames lost because the output failed.
    pub lost_disk: u64,
    /// Frames not wanted any more: enough were written.
    pub after_limit: u64,
}

impl Counts {
    /// Frames lost, wherever.
    pub fn lost(&self) -> u64 {
        self.lost_ring + self.lost_disk
    }

    /// Frames in a ring, not read yet.
    pub fn waiting(&self) -> u64 {
        self.captured.saturating_sub(self.written + self.lost_disk + self.after_limit)
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.captured += other.captured;
        self.lost_ring += other.lost_ring;
        self.written += other.written;
        self.lost_disk += other.lost_disk;
        self.after_limit += other.after_limit;
    }
}

/// The counts of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// The CPU that received the frames.
    pub cpu: u32,
    /// What became of them.
    pub counts: Counts,
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Since the program was attached; stands still after the end.
    pub elapsed: Duration,
    /// Every CPU that has a ring, and others that received something.
    pub cpus: Vec<CpuStats>,
    /// Bytes of the output so far.
    pub output_bytes: u64,
}

impl Stats {
    /// The sum over all CPUs.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for cpu in &self.cpus {
            total.add(&cpu.counts);
        }
        total
    }
}

/// What one writer counts, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct WriterCounts {
    pub(crate) written: AtomicU64,
    pub(crate) lost_disk: AtomicU64,
    pub(crate) after_limit: AtomicU64,
}

impl WriterCounts {
    /// Adds these counts to what the program counted.
    pub(crate) fn add_to(&self, counts: &mut Counts) {
        counts.written += self.written.load(Relaxed);
        counts.lost_disk += self.lost_disk.load(Relaxed);
        counts.after_limit += self.after_limit.load(Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_adds_every_field() {
        let counts = Counts {
            received: 1,
            received_bytes: 2,
            captured: 3,
            lost_ring: 4,
            written: 5,
            lost_disk: 6,
            after_limit: 7,
        };
        let cpus = (0..3).map(|cpu| CpuStats { cpu, counts }).collect();
        let total = Stats { cpus, ..Stats::default() }.total();
        let expected = Counts {
            received: 3,
            received_bytes: 6,
            captured: 9,
            lost_ring: 12,
            written: 15,
            lost_disk: 18,
            after_limit: 21,
        };
        assert_eq!(total, expected);
        assert_eq!(total.lost(), 30);
    }

    #[test]
    fn frames_between_ring_and_output_are_waiting() {
        let counts = Counts { captured: 10, written: 3, lost_disk: 2, after_limit: 1, ..Counts::default() };
        assert_eq!(counts.waiting(), 4);
    }
}
