//! The devices of a capture and their counts, for the session, the writer and the report.

use crate::backend::{Backend, RingCounts, SourceFacts};
use crate::group::{CaptureDevice, TapDevices};
use crate::memory::RingSize;
use crate::output::accounting::FileCounts;
use crate::record::ring_handle::RingHandle;
use crate::stats::{Counts, DeviceStats, RingStats, Stats};
use crate::time::utc::utc_now_ns;
use crate::writer::Written;
use crate::{CaptureError, Mode, PhcFacts};
use host::{Link, Stack};
use pcapng::Statistics;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Bytes of one block of statistics at most: its head, six counts, and the comment below.
pub(crate) const STATISTICS_LEN_MAX: usize = 256;
/// Time between two looks at whether devices are still in their namespace.
const LOOK_MS: u64 = 100;
/// What the first interface of a device or group with several tells for all of them. Neither the
/// program in the kernel nor the device counts them one by one.
const ALL_BUT_DELIVERED: &str = "of this interface and those that share its rings, except isb_usrdeliv";
/// What statistics begin with in a file that has the frames of one ring; the number of it follows.
const OF_RING: &str = "of one ring alone, number ";

/// One device of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CapturedDevice {
    /// As it was at the start.
    pub link: Link,
    /// How frames are taken off it.
    pub source: SourceFacts,
    /// True when it was deleted, left its namespace, or lost the XDP program that is recorded,
    /// before the end.
    pub is_gone: bool,
    /// Size of each of its rings.
    pub ring_size: RingSize,
    /// Its clock, where it stamps frames.
    pub clock: Option<PhcFacts>,
    /// Why frames get the kernel's time although the device stamps them.
    pub stamps_refusal: Option<String>,
    /// True if the capture made it promiscuous.
    pub is_promiscuous: bool,
    /// Why it could not be made promiscuous.
    pub promiscuous_refusal: Option<String>,
}

/// A way of taking frames off one device, or off a group of them by rings that they share.
pub(crate) struct Tap {
    pub(crate) devices: Arc<TapDevices>,
    /// Written to attach and to detach it.
    pub(crate) backend: RwLock<Box<dyn Backend>>,
    /// One for each ring, once it is attached.
    pub(crate) rings: OnceLock<Vec<Arc<RingHandle>>>,
}

/// The taps of a capture and their counts while it runs.
pub(crate) struct CaptureState {
    pub(crate) stack: Arc<Stack>,
    pub(crate) taps: Vec<Tap>,
    pub(crate) written: Arc<Written>,
    /// When every device was attached.
    started: OnceLock<Instant>,
    pub(crate) start_time_ns: u64,
    pub(crate) stopped_after: OnceLock<Duration>,
    /// When devices were last looked for, in milliseconds since the start.
    looked_ms: AtomicU64,
}

impl CaptureState {
    pub(crate) fn new(stack: Arc<Stack>, taps: Vec<Tap>) -> Self {
        Self {
            stack,
            taps,
            written: Arc::default(),
            started: OnceLock::new(),
            start_time_ns: utc_now_ns(),
            stopped_after: OnceLock::new(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// Every device is attached.
    pub(crate) fn begin(&self) {
        self.started.set(Instant::now()).expect("a capture begins once");
    }

    /// Time since then.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn facts(&self) -> Vec<CapturedDevice> {
        let facts = |tap: &Tap, device: &CaptureDevice| {
            let (source, is_gone) = (tap.with_backend(|backend| backend.facts()), tap.is_gone(device));
            let clock = device.hardware.clock.as_ref().map(|clock| clock.facts());
            let (refusal, ring_size) =
                tap.with_backend(|backend| (backend.stamps_refusal(), backend.ring_size()));
            let stamps_refusal = device.hardware.refusal.clone().or(refusal);
            CapturedDevice {
                link: device.link.clone(),
                source,
                is_gone,
                ring_size,
                clock,
                stamps_refusal,
                is_promiscuous: device.promiscuity.is_on(),
                promiscuous_refusal: device.promiscuity.refusal().map(str::to_owned),
            }
        };
        let of_tap = |tap: &Tap| -> Vec<CapturedDevice> {
            tap.devices.all().iter().map(|device| facts(tap, device)).collect()
        };
        self.taps.iter().flat_map(of_tap).collect()
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        for (number, tap) in self.taps.iter().enumerate() {
            if let Err(error) = tap.with_backend(|backend| backend.set_mode(mode)) {
                // Drop mode, on a device that can only mirror: none of the others stays behind in
                // it.
                for tap in &self.taps[..number] {
                    tap.with_backend(|backend| backend.set_mode(Mode::Mirror))?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn are_all_gone(&self) -> bool {
        let elapsed_ms = self.elapsed().as_millis() as u64;
        let looked_ms = self.looked_ms.load(Relaxed);
        // Asking costs a message to the kernel and its answer.
        if elapsed_ms >= looked_ms + LOOK_MS && self.looked_ms.swap(elapsed_ms, Relaxed) == looked_ms {
            self.taps.iter().for_each(|tap| tap.look_for_it(&self.stack));
        }
        self.taps.iter().all(Tap::are_all_gone)
    }

    /// The rings of all devices.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &RingHandle> {
        self.taps.iter().filter_map(|tap| tap.rings.get()).flatten().map(|ring| &**ring)
    }

    /// Ends all taps.
    pub(crate) fn detach(&self) {
        for tap in &self.taps {
            tap.backend.write().unwrap_or_else(PoisonError::into_inner).detach();
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let rings = self.taps.iter().enumerate().flat_map(|(number, tap)| tap.stats(number));
        Stats {
            elapsed: self.stopped_after.get().copied().unwrap_or_else(|| self.elapsed()),
            rings: rings.collect(),
            devices: self.taps.iter().map(|tap| self.tap_stats(tap)).collect(),
            output_bytes: self.written.bytes.load(Relaxed),
        }
    }

    /// Frames received on all devices so far, and their bytes, as [`Self::stats`] has them. Asks no
    /// device what it lost, which costs a message to the kernel for each.
    pub(crate) fn received(&self) -> (u64, u64) {
        let rings = self.taps.iter().flat_map(|tap| tap.with_backend(|backend| backend.counts()));
        rings.fold((0, 0), |(frames, bytes), ring| (frames + ring.received, bytes + ring.received_bytes))
    }

    fn tap_stats(&self, tap: &Tap) -> DeviceStats {
        let (devices, is_group) = (tap.devices.all(), tap.devices.is_group());
        // A device that came and went is no reason to know nothing of the others.
        let asked = devices.iter().filter(|device| !is_group || !device.has_moved.load(Relaxed));
        let mut lost_nic = asked.map(|device| device.nic_loss.now(&self.stack, device.link.index));
        let lost_nic = lost_nic.try_fold(0, |total, lost| Some(total + lost?));
        DeviceStats { lost_nic, freezes: tap.with_backend(|backend| backend.freezes()) }
    }

    /// The statistics of each interface as of now, for the end of a file with these counts.
    pub(crate) fn trailer(&self, file: &FileCounts) -> Vec<u8> {
        let (stats, now_ns) = (self.stats(), utc_now_ns());
        let mut blocks = Vec::new();
        for (number, tap) in self.taps.iter().enumerate() {
            let (counts, lost_nic) = match file.ring.map(|ring| self.place_of_ring(ring)) {
                None => (stats.of_device(number), stats.devices[number].lost_nic),
                // The ring that a frame lost by the device would have gone to is unknown.
                Some((of, ring)) if of == number => (stats.of_ring(number, ring), None),
                Some(_) => continue,
            };
            for statistics in of_interfaces(&tap.devices.numbers(file.interfaces), &counts, lost_nic, file) {
                let statistics = Statistics {
                    time_ns: now_ns,
                    start_time_ns: Some(self.start_time_ns),
                    end_time_ns: Some(now_ns),
                    ..statistics
                };
                statistics.emit(&mut blocks);
            }
        }
        blocks
    }

    /// The device of a ring and the ring's number there.
    fn place_of_ring(&self, ring: usize) -> (usize, usize) {
        let mut before = 0;
        for (number, tap) in self.taps.iter().enumerate() {
            let count = tap.rings.get().map_or(0, Vec::len);
            if ring < before + count {
                return (number, ring - before);
            }
            before += count;
        }
        unreachable!("ring {ring} of {before}")
    }

    /// True if files have to count the frames of each interface, because a tap has several.
    pub(crate) fn counts_interfaces(&self) -> bool {
        self.taps.iter().any(|tap| tap.devices.is_group() || tap.devices.numbers(usize::MAX).len() > 1)
    }
}

/// The ring that the statistics with this comment are of; `None` if they are of all rings.
pub fn ring_of_statistics(comment: &str) -> Option<u32> {
    let number = comment.strip_prefix(OF_RING)?.split(';').next()?;
    number.parse().ok()
}

/// The statistics of the interfaces of one tap that has these counts.
fn of_interfaces(
    numbers: &[u32],
    counts: &Counts,
    lost_nic: Option<u64>,
    file: &FileCounts,
) -> Vec<Statistics> {
    let (first, is_only) = (numbers.first().copied(), numbers.len() == 1);
    let ring = file.ring.map(|ring| format!("{OF_RING}{ring}"));
    let mut all = statistics(counts, lost_nic);
    // The counts tell how many frames match the filter of any output, not that of this one.
    all.accepted_by_filter = all.accepted_by_filter.filter(|_| !file.is_part);
    let of_interface = |interface: &u32| {
        let interface = *interface;
        if is_only {
            let delivered = file.written(interface).or(all.delivered);
            return Statistics { interface, comment: ring.clone(), delivered, ..all.clone() };
        }
        let delivered = file.written(interface);
        let shared = ring.clone().into_iter().chain([ALL_BUT_DELIVERED.to_owned()]);
        let comment = Some(shared.collect::<Vec<_>>().join("; "));
        match Some(interface) == first {
            true => Statistics { interface, delivered, comment, ..all.clone() },
            false => Statistics { interface, delivered, ..Statistics::default() },
        }
    };
    numbers.iter().map(of_interface).collect()
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

impl Tap {
    /// True when a device of it was deleted, left its namespace, or lost the XDP program that is
    /// recorded.
    fn is_gone(&self, device: &CaptureDevice) -> bool {
        device.has_moved.load(Relaxed) || self.with_backend(|backend| backend.is_gone())
    }

    /// True when nothing can come any more.
    fn are_all_gone(&self) -> bool {
        !self.devices.is_group() && self.devices.all().iter().all(|device| self.is_gone(device))
    }

    /// An XDP program goes with its device to another namespace, and its link does not tell.
    fn look_for_it(&self, stack: &Stack) {
        if self.devices.is_group() {
            return self.devices.look_at_networks();
        }
        let needed = self.with_backend(|backend| backend.needs_program());
        for device in self.devices.all().iter() {
            let is_there = match stack.find_link(device.link.index) {
                Ok(None) => false,
                Ok(Some(link)) => needed.is_none() || link.xdp.map(|xdp| xdp.program_id) == needed,
                Err(_) => true,
            };
            if !is_there {
                device.has_moved.store(true, Relaxed);
            }
        }
    }

    fn with_backend<T>(&self, look: impl FnOnce(&dyn Backend) -> T) -> T {
        look(&**self.backend.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The part of its fullest ring that holds frames.
    pub(crate) fn ring_used(&self) -> Option<f64> {
        let used = self.rings.get()?.iter().map(|ring| ring.used());
        used.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }

    fn stats(&self, device: usize) -> Vec<RingStats> {
        // The readers' numbers first: what they wrote was captured before.
        let rings = self.rings.get().map_or(&[][..], Vec::as_slice);
        let read: Vec<Counts> = rings.iter().map(|ring| ring.counts.get()).collect();
        let kernel = self.with_backend(|backend| backend.counts()).into_iter().enumerate();
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
        filtered: ring.filtered.map(|filtered| filtered + read.filtered.unwrap_or(0)),
        captured: ring.captured.saturating_sub(read.filtered.unwrap_or(0)),
        lost_ring: ring.lost_ring,
        ..read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{EncodedBatch, samples::add};

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
    }

    #[test]
    fn of_several_interfaces_each_tells_its_frames_and_the_first_what_they_share() {
        let counts = Counts { received: 100, captured: 100, written: 98, lost_disk: 2, ..Counts::default() };
        let (mut file, mut records) = (FileCounts::new(true), EncodedBatch::default());
        [2, 3, 3].iter().for_each(|interface| add(&mut records, 0, *interface, 5, &[7; 60]));
        file.add(&records.index);
        let told = of_interfaces(&[2, 3, 4], &counts, Some(7), &file);
        let summary = |told: &Statistics| (told.interface, told.received, told.dropped_by_os, told.delivered);
        assert_eq!(
            told.iter().map(summary).collect::<Vec<_>>(),
            [(2, Some(107), Some(2), Some(1)), (3, None, None, Some(2)), (4, None, None, Some(0))]
        );
        assert!(told[0].comment.is_some() && told[1].comment.is_none());
        assert_eq!(told[0].comment.as_deref().and_then(ring_of_statistics), None);
        file.ring = Some(1023);
        let told = of_interfaces(&[2, 3, 4], &counts, Some(7), &file);
        assert_eq!(told[0].comment.as_deref().and_then(ring_of_statistics), Some(1023));
        let mut block = Vec::new();
        Statistics { start_time_ns: Some(1), end_time_ns: Some(2), ..told[0].clone() }.emit(&mut block);
        assert!(block.len() <= STATISTICS_LEN_MAX);
        let told = of_interfaces(&[1], &counts, None, &FileCounts::new(false));
        assert_eq!(
            (told.len(), told[0].interface, told[0].delivered, &told[0].comment),
            (1, 1, Some(98), &None)
        );
    }

    #[test]
    fn files_of_a_part_do_not_tell_what_all_filters_let_pass() {
        let counts = Counts { received: 100, filtered: Some(30), written: 70, ..Counts::default() };
        for numbers in [&[0][..], &[0, 1]] {
            let mut file = FileCounts::new(true);
            let accepted =
                |file: &FileCounts| of_interfaces(numbers, &counts, None, file)[0].accepted_by_filter;
            assert_eq!(accepted(&file), Some(70));
            file.is_part = true;
            assert_eq!(accepted(&file), None);
        }
    }
}
