//! Where each frame went.
//!
//! `received = filtered + captured + lost_ring`. After the end of a capture also `captured =
//! written + lost_disk + after_limit + not_kept`; before, the difference waits in a ring or on the
//! way to the file. Frames that the device itself lost are not received: `offered = received +
//! lost_nic`.

use facts::Described;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Frames counted at each place where one can go on or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Described)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Counts {
    /// Frames that reached the capture program: the device handed them over.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Bytes of the received frames, without FCS: the sum of their `frame_len`.
    pub received_bytes: u64,
    /// Frames that did not match the filter. `null` for packet sockets with a filter: the kernel
    /// does not count these frames, and `received` excludes them.
    #[fact(unit = "frames")]
    pub filtered: Option<u64>,
    /// Frames copied into a ring.
    #[serde(skip)]
    pub captured: u64,
    /// Frames lost because a ring was full.
    #[fact(unit = "frames")]
    pub lost_ring: u64,
    /// Frames in the file, or counted without a file.
    #[fact(unit = "frames")]
    pub written: u64,
    /// Of the frames written, those that no file has with all their bytes: they were cut to the
    /// snaplen.
    #[fact(unit = "frames")]
    pub cut: u64,
    /// Frames lost because the file failed or was too slow.
    #[fact(unit = "frames")]
    pub lost_disk: u64,
    /// Frames received after `--count` frames were written, or after the end of the files.
    #[fact(unit = "frames")]
    pub after_limit: u64,
    /// Frames that left the window of `--keep` before a trigger.
    #[fact(unit = "frames")]
    pub not_kept: u64,
    /// Frames written with device time; all others have kernel time.
    #[fact(unit = "frames")]
    pub hardware_time: u64,
}

impl Default for Counts {
    /// Nothing yet, and known to be nothing.
    fn default() -> Self {
        Self {
            received: 0,
            received_bytes: 0,
            filtered: Some(0),
            captured: 0,
            lost_ring: 0,
            written: 0,
            cut: 0,
            lost_disk: 0,
            after_limit: 0,
            not_kept: 0,
            hardware_time: 0,
        }
    }
}

/// The sum of two numbers, unknown when one of them is.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b?)
}

impl Counts {
    /// Frames lost on this side of the device.
    pub fn lost(&self) -> u64 {
        self.lost_ring + self.lost_disk
    }

    /// Frames in a ring or on their way to the file.
    pub fn waiting(&self) -> u64 {
        self.captured.saturating_sub(self.written + self.lost_disk + self.after_limit + self.not_kept)
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.filtered = sum(self.filtered, other.filtered);
        self.captured += other.captured;
        self.lost_ring += other.lost_ring;
        self.written += other.written;
        self.cut += other.cut;
        self.lost_disk += other.lost_disk;
        self.after_limit += other.after_limit;
        self.not_kept += other.not_kept;
        self.hardware_time += other.hardware_time;
    }
}

/// The counts of one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Number of the device in the order of the options.
    pub device: usize,
    /// The CPU that received the frames; of rings that belong to no CPU their number.
    pub cpu: u32,
    /// What became of them.
    pub counts: Counts,
}

/// The counts of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Frames that the device lost since the start; `None` if it does not count them.
    pub lost_nic: Option<u64>,
    /// Times that a ring of a packet socket became full; `None` for other rings.
    pub freezes: Option<u64>,
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Since the start; stands still after the end.
    pub elapsed: Duration,
    /// Every ring, and CPUs without one that received something.
    pub rings: Vec<RingStats>,
    /// Every device, in the order of the options.
    pub devices: Vec<DeviceStats>,
    /// Bytes of the output so far.
    pub output_bytes: u64,
}

impl Stats {
    /// The sum over all rings.
    pub fn total(&self) -> Counts {
        self.sum_of(|_| true)
    }

    /// The sum over the rings of one device.
    pub fn of_device(&self, device: usize) -> Counts {
        self.sum_of(|ring| ring.device == device)
    }

    /// The sum over the rings of each CPU, whatever the device.
    pub fn by_cpu(&self) -> BTreeMap<u32, Counts> {
        let mut cpus = BTreeMap::<u32, Counts>::new();
        self.rings.iter().for_each(|ring| cpus.entry(ring.cpu).or_default().add(&ring.counts));
        cpus
    }

    /// The counts of one ring of a device, by its number there.
    pub(crate) fn of_ring(&self, device: usize, ring: usize) -> Counts {
        let rings = self.rings.iter().filter(|ring| ring.device == device);
        rings.map(|ring| ring.counts).nth(ring).unwrap_or_default()
    }

    /// Frames that the devices lost; `None` if one of them does not count them.
    pub fn lost_nic(&self) -> Option<u64> {
        self.devices.iter().map(|device| device.lost_nic).try_fold(0, |total, lost| Some(total + lost?))
    }

    /// Times that rings of packet sockets became full; `None` when there are none.
    pub fn freezes(&self) -> Option<u64> {
        self.devices.iter().filter_map(|device| device.freezes).reduce(|total, freezes| total + freezes)
    }

    fn sum_of(&self, is_wanted: impl Fn(&RingStats) -> bool) -> Counts {
        let mut total = Counts::default();
        self.rings.iter().filter(|ring| is_wanted(ring)).for_each(|ring| total.add(&ring.counts));
        total
    }
}

/// What the reader of one ring and the writer count, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct ReaderCounts {
    /// Frames that the process rejected, because they match the filter of no output.
    pub(crate) filtered: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) lost_disk: AtomicU64,
    pub(crate) after_limit: AtomicU64,
    pub(crate) not_kept: AtomicU64,
    pub(crate) hardware_time: AtomicU64,
}

impl ReaderCounts {
    /// The limit was not reached: frames that came after it are lost, too, because the output has
    /// space for them.
    pub(crate) fn limit_not_reached(&self) {
        self.lost_disk.fetch_add(self.after_limit.swap(0, Relaxed), Relaxed);
    }

    /// These counts as of now.
    pub(crate) fn get(&self) -> Counts {
        Counts {
            filtered: Some(self.filtered.load(Relaxed)),
            written: self.written.load(Relaxed),
            cut: self.cut.load(Relaxed),
            lost_disk: self.lost_disk.load(Relaxed),
            after_limit: self.after_limit.load(Relaxed),
            not_kept: self.not_kept.load(Relaxed),
            hardware_time: self.hardware_time.load(Relaxed),
            ..Counts::default()
        }
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
            filtered: Some(8),
            captured: 3,
            lost_ring: 4,
            written: 5,
            cut: 9,
            lost_disk: 6,
            after_limit: 7,
            not_kept: 10,
            hardware_time: 8,
        };
        let rings = (0..3).map(|cpu| RingStats { device: cpu as usize / 2, cpu, counts }).collect();
        let stats = Stats { rings, ..Stats::default() };
        let total = stats.total();
        assert_eq!((stats.of_device(0).received, stats.of_device(1).received), (2, 1));
        assert_eq!((stats.of_ring(1, 0), stats.of_ring(1, 1)), (counts, Counts::default()));
        let expected = Counts {
            received: 3,
            received_bytes: 6,
            filtered: Some(24),
            captured: 9,
            lost_ring: 12,
            written: 15,
            cut: 27,
            lost_disk: 18,
            after_limit: 21,
            not_kept: 30,
            hardware_time: 24,
        };
        assert_eq!(total, expected);
        assert_eq!(total.lost(), 30);
    }

    #[test]
    fn a_sum_with_an_unknown_number_is_unknown() {
        let ring =
            |filtered| RingStats { counts: Counts { filtered, ..Counts::default() }, ..RingStats::default() };
        let stats = Stats { rings: vec![ring(Some(3)), ring(None)], ..Stats::default() };
        assert_eq!(stats.total().filtered, None);
        let device = |lost_nic| DeviceStats { lost_nic, freezes: lost_nic };
        let stats = Stats { devices: vec![device(Some(1)), device(Some(2))], ..Stats::default() };
        assert_eq!((stats.lost_nic(), stats.freezes()), (Some(3), Some(3)));
        assert_eq!(
            Stats { devices: vec![device(Some(1)), device(None)], ..Stats::default() }.lost_nic(),
            None
        );
    }

    #[test]
    fn frames_between_ring_and_output_are_waiting() {
        let counts = Counts { captured: 10, written: 3, lost_disk: 2, after_limit: 1, ..Counts::default() };
        assert_eq!(counts.waiting(), 4);
    }
}
