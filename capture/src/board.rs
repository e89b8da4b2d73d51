//! The devices of a capture and the counts of all of them: what the session, the writer and the report look at.

use crate::clock::utc_now_ns;
use crate::interfaces::Numbering;
use crate::nic_loss::NicLoss;
use crate::phc::PhcClock;
use crate::run::Lane;
use crate::stats::{Counts, DeviceStats, RingStats, Stats};
use crate::tap::{RingCounts, SourceFacts, Tap};
use crate::writer::Written;
use crate::{CaptureError, Mode, PhcFacts};
use host::{Link, Stack};
use pcapng::Statistics;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Bytes of one block of statistics at most: its head and six counts, no comment.
const STATISTICS_LEN_MAX: usize = 256;

/// One device of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// As it was at the start.
    pub link: Link,
    /// How frames are taken off it.
    pub source: SourceFacts,
    /// True when it was deleted, or left its namespace, before the end.
    pub is_gone: bool,
    /// Its clock, where it stamps frames.
    pub clock: Option<PhcFacts>,
}

/// One device and the way of taking frames off it.
pub(crate) struct Device {
    pub(crate) link: Link,
    pub(crate) numbering: Numbering,
    /// Since it was opened.
    pub(crate) nic_loss: NicLoss,
    /// Its clock, where it stamps frames.
    pub(crate) clock: Option<Arc<PhcClock>>,
    /// Written to attach and to detach it.
    pub(crate) tap: RwLock<Box<dyn Tap>>,
    /// One for each ring, once it is attached.
    pub(crate) lanes: OnceLock<Vec<Arc<Lane>>>,
}

/// See the top of the file.
pub(crate) struct Board {
    pub(crate) stack: Stack,
    pub(crate) devices: Vec<Device>,
    pub(crate) written: Arc<Written>,
    pub(crate) started: Instant,
    pub(crate) start_time_ns: u64,
    pub(crate) stopped_after: OnceLock<Duration>,
}

impl Board {
    pub(crate) fn new(stack: Stack, devices: Vec<Device>) -> Self {
        Self {
            stack,
            devices,
            written: Arc::default(),
            started: Instant::now(),
            start_time_ns: utc_now_ns(),
            stopped_after: OnceLock::new(),
        }
    }

    pub(crate) fn facts(&self) -> Vec<DeviceFacts> {
        let facts = |device: &Device| {
            let (source, is_gone) = device.with_tap(|tap| (tap.facts(), tap.is_gone()));
            let clock = device.clock.as_ref().map(|clock| clock.facts());
            DeviceFacts { link: device.link.clone(), source, is_gone, clock }
        };
        self.devices.iter().map(facts).collect()
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        for (number, device) in self.devices.iter().enumerate() {
            if let Err(error) = device.with_tap(|tap| tap.set_mode(mode)) {
                // Drop mode, on a device that can only mirror: none of the others stays behind in it.
                for device in &self.devices[..number] {
                    device.with_tap(|tap| tap.set_mode(Mode::Mirror))?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn are_all_gone(&self) -> bool {
        self.devices.iter().all(|device| device.with_tap(|tap| tap.is_gone()))
    }

    /// Those of all rings.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.devices.iter().filter_map(|device| device.lanes.get()).flatten().map(|lane| &**lane)
    }

    /// Ends all taps.
    pub(crate) fn detach(&self) {
        for device in &self.devices {
            device.tap.write().unwrap_or_else(PoisonError::into_inner).detach();
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let rings = self.devices.iter().enumerate().flat_map(|(number, device)| device.stats(number));
        Stats {
            elapsed: self.stopped_after.get().copied().unwrap_or_else(|| self.started.elapsed()),
            rings: rings.collect(),
            devices: self.devices.iter().map(|device| self.device_stats(device)).collect(),
            output_bytes: self.written.bytes.load(Relaxed),
        }
    }

    fn device_stats(&self, device: &Device) -> DeviceStats {
        let lost_nic = device.nic_loss.now(&self.stack, device.link.index);
        DeviceStats { lost_nic, freezes: device.with_tap(|tap| tap.freezes()) }
    }

    /// What is known of each interface now, for the end of a file.
    pub(crate) fn closing_blocks(&self) -> Vec<u8> {
        let (stats, now_ns) = (self.stats(), utc_now_ns());
        let mut blocks = Vec::new();
        for (number, device) in self.devices.iter().enumerate() {
            let (counts, lost_nic) = (stats.of_device(number), stats.devices[number].lost_nic);
            for interface in device.numbering.numbers() {
                let statistics = Statistics {
                    interface,
                    time_ns: now_ns,
                    start_time_ns: Some(self.start_time_ns),
                    end_time_ns: Some(now_ns),
                    ..statistics(&counts, lost_nic)
                };
                statistics.emit(&mut blocks);
            }
        }
        blocks
    }

    /// Bytes of the closing blocks at most.
    pub(crate) fn closing_len_max(&self) -> usize {
        let count: usize = self.devices.iter().map(|device| device.numbering.numbers().len()).sum();
        count * STATISTICS_LEN_MAX
    }
}

/// The counts of a device in the words of the format.
fn statistics(counts: &Counts, lost_nic: Option<u64>) -> Statistics {
    Statistics {
        received: lost_nic.map(|lost_nic| counts.received + lost_nic).or(Some(counts.received)),
        dropped_by_interface: lost_nic,
        accepted_by_filter: counts.filtered.map(|filtered| counts.received - filtered),
        dropped_by_os: Some(counts.lost()),
        delivered: Some(counts.written),
        ..Statistics::default()
    }
}

impl Device {
    fn with_tap<T>(&self, look: impl FnOnce(&dyn Tap) -> T) -> T {
        look(&**self.tap.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn stats(&self, device: usize) -> Vec<RingStats> {
        // The readers' numbers first: what they wrote was captured before.
        let lanes = self.lanes.get().map_or(&[][..], Vec::as_slice);
        let read: Vec<Counts> = lanes.iter().map(|lane| lane.counts.get()).collect();
        let kernel = self.with_tap(|tap| tap.counts()).into_iter().enumerate();
        let ring = |(number, ring): (usize, RingCounts)| {
            let read = read.get(number).copied().unwrap_or_default();
            RingStats { device, cpu: ring.cpu, counts: with_kernel(read, &ring) }
        };
        kernel.map(ring).collect()
    }
}

/// A reader's counts with those of the kernel.
fn with_kernel(read: Counts, ring: &RingCounts) -> Counts {
    Counts {
        received: ring.received,
        received_bytes: ring.received_bytes,
        filtered: ring.filtered,
        captured: ring.captured,
        lost_ring: ring.lost_ring,
        ..read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_format_add_up() {
        let counts = Counts {
            received: 100,
            filtered: Some(30),
            captured: 60,
            lost_ring: 10,
            written: 55,
            lost_disk: 5,
            ..Counts::default()
        };
        let told = statistics(&counts, Some(7));
        assert_eq!((told.received, told.dropped_by_interface), (Some(107), Some(7)));
        assert_eq!(
            (told.accepted_by_filter, told.dropped_by_os, told.delivered),
            (Some(70), Some(15), Some(55))
        );
        let told = statistics(&Counts { filtered: None, ..counts }, None);
        assert_eq!(
            (told.received, told.dropped_by_interface, told.accepted_by_filter),
            (Some(100), None, None)
        );
        let mut block = Vec::new();
        statistics(&counts, Some(7)).emit(&mut block);
        assert!(block.len() + 32 <= STATISTICS_LEN_MAX);
    }
}
