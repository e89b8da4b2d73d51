//! Losses that capture files record, by device.
//!
//! A packet may have the number of packets lost before it (`epb_dropcount`), and the statistics of
//! an interface the number lost since the start of the capture. Files of one capture repeat the
//! statistics since its start, so for each capture the largest number counts. With a file per CPU,
//! that is so for the files of each CPU, which are added up. Sections of one file are different
//! captures, and so are interfaces, except those of wirerate, which writes one interface per queue
//! and the losses of all of them once.

use super::records::InterfaceStatistics;
use measure::LossRow;
use pcapng::Statistics;
use std::collections::BTreeMap;

/// Drop counts of packets are added up over this time.
const SPAN_NS: u64 = 1_000_000_000;

/// Losses of the captures that wrote some files.
#[derive(Debug, Default)]
pub struct Losses {
    devices: Vec<DeviceLosses>,
    /// Number of each device.
    numbers: BTreeMap<String, usize>,
    /// Files so far.
    files: u64,
}

#[derive(Debug, Default)]
struct DeviceLosses {
    name: String,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Sum of the drop counts; `None` if no packet had one.
    dropped: Option<u64>,
    rows: Vec<LossRow>,
    captures: BTreeMap<CaptureKey, CaptureLosses>,
}

/// Statistics with one key are of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CaptureKey {
    start_ns: Option<u64>,
    /// The file, if it has no time of the start.
    file: Option<u64>,
    section: u64,
    /// The interface; `None` in files of wirerate.
    interface: Option<u32>,
    /// The ring, if the file is of one CPU.
    ring: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CaptureLosses {
    end_ns: Option<u64>,
    nic: Option<u64>,
    os: Option<u64>,
}

/// Packets that the host lost. Some programs write only what passed the filter and what of that
/// they received.
fn lost_by_os(statistics: &Statistics) -> Option<u64> {
    let passed = statistics.accepted_by_filter.zip(statistics.delivered);
    let not_delivered = passed.map(|(accepted, delivered)| accepted.saturating_sub(delivered));
    statistics.dropped_by_os.or(not_delivered)
}

/// Packets that an interface lost, as its statistics say; `None` if they do not.
pub fn lost_by(statistics: &Statistics) -> Option<u64> {
    let lost = [statistics.dropped_by_interface, lost_by_os(statistics)];
    lost.into_iter().flatten().reduce(u64::saturating_add)
}

impl Losses {
    /// The number of a device.
    pub fn device(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.devices.push(DeviceLosses { name: name.to_owned(), ..DeviceLosses::default() });
        self.numbers.insert(name.to_owned(), self.devices.len() - 1);
        self.devices.len() - 1
    }

    /// A packet of the device with this number, and how many were lost before it.
    ///
    /// # Panics
    /// Unless [`Self::device`] returned the number.
    pub fn packet(&mut self, device: usize, time_ns: Option<u64>, drop_count: Option<u64>) {
        let losses = &mut self.devices[device];
        // A packet without a time is beside the packet before it.
        let time_ns = time_ns.or(losses.first_ns.map(|_| losses.last_ns));
        let before_ns = losses.first_ns.map(|_| losses.last_ns).or(time_ns);
        if let Some(time_ns) = time_ns {
            losses.first_ns.get_or_insert(time_ns);
            losses.last_ns = time_ns.max(losses.last_ns);
        }
        let Some(drop_count) = drop_count else { return };
        let dropped = losses.dropped.get_or_insert(0);
        *dropped = dropped.saturating_add(drop_count);
        if drop_count == 0 {
            return;
        }
        let (from_ns, to_ns) = (before_ns.min(time_ns).unwrap_or(0), time_ns.unwrap_or(0));
        let is_near =
            |row: &&mut LossRow| (row.from_ns..row.from_ns.saturating_add(SPAN_NS)).contains(&to_ns);
        match losses.rows.last_mut().filter(is_near) {
            Some(row) => {
                row.to_ns = row.to_ns.max(to_ns);
                row.lost_ring = row.lost_ring.map(|lost| lost.saturating_add(drop_count));
            }
            None => losses.rows.push(LossRow {
                device: losses.name.clone(),
                from_ns,
                to_ns,
                lost_ring: Some(drop_count),
                ..LossRow::default()
            }),
        }
    }

    /// The statistics of an interface of a device, which may have no packets.
    pub fn statistics(&mut self, device: &str, found: &InterfaceStatistics) {
        let InterfaceStatistics { number, interface, section, statistics } = found;
        let device = self.device(device);
        let losses = &mut self.devices[device];
        let key = CaptureKey {
            start_ns: statistics.start_time_ns,
            file: statistics.start_time_ns.is_none().then_some(self.files),
            section: *section,
            interface: (!interface.is_ours).then_some(*number),
            ring: statistics.comment.as_deref().and_then(capture::ring_of_statistics),
        };
        let capture = losses.captures.entry(key).or_default();
        let end_ns = statistics.end_time_ns.or((statistics.time_ns > 0).then_some(statistics.time_ns));
        capture.end_ns = capture.end_ns.max(end_ns);
        capture.nic = capture.nic.max(statistics.dropped_by_interface);
        capture.os = capture.os.max(lost_by_os(statistics));
    }

    /// What follows is of the next file.
    pub fn end_file(&mut self) {
        self.files += 1;
    }

    /// All losses of each device: those that packets record, and one row for each capture with the
    /// others.
    pub fn rows(self) -> BTreeMap<String, Vec<LossRow>> {
        self.devices.into_iter().map(|losses| (losses.name.clone(), losses.into_rows())).collect()
    }

    /// Frames that the captures lost; `None` if the files do not say.
    pub fn total(self) -> Option<u64> {
        total(&self.rows())
    }
}

/// Frames that captures lost, of the rows of all devices; `None` if the files do not say.
pub fn total(rows: &BTreeMap<String, Vec<LossRow>>) -> Option<u64> {
    LossTimeline::new(rows.values().flatten()).map(|losses| losses.total())
}

/// Frames that captures lost up to any time.
#[derive(Debug)]
pub struct LossTimeline {
    /// Span of each row, and the frames of this row and those before it.
    sums: Vec<(u64, u64, u64)>,
}

impl LossTimeline {
    /// The losses of all devices; `None` if the rows do not say.
    pub fn new<'a>(rows: impl IntoIterator<Item = &'a LossRow>) -> Option<Self> {
        let known = rows.into_iter().filter(|row| row.lost_ring.is_some() || row.lost_nic.is_some());
        let lost = |row: &LossRow| row.lost_ring.unwrap_or(0).saturating_add(row.lost_nic.unwrap_or(0));
        let mut sums: Vec<(u64, u64, u64)> = known.map(|row| (row.from_ns, row.to_ns, lost(row))).collect();
        sums.sort_unstable();
        let mut total = 0_u64;
        for (_, _, lost) in &mut sums {
            total = total.saturating_add(*lost);
            *lost = total;
        }
        (!sums.is_empty()).then_some(Self { sums })
    }

    /// Frames that were lost in spans that begin before a time, or end by it.
    pub fn lost_until(&self, time_ns: u64) -> u64 {
        let rows = self.sums.partition_point(|(from_ns, to_ns, _)| *from_ns < time_ns || *to_ns <= time_ns);
        rows.checked_sub(1).map_or(0, |last| self.sums[last].2)
    }

    /// Frames that were lost at all.
    pub fn total(&self) -> u64 {
        self.lost_until(u64::MAX)
    }
}

impl DeviceLosses {
    fn into_rows(mut self) -> Vec<LossRow> {
        if self.captures.is_empty() {
            let key = CaptureKey { start_ns: None, file: None, section: 0, interface: None, ring: None };
            // Drop counts without statistics are all that the file has to say.
            let os = self.dropped;
            self.captures.insert(key, CaptureLosses { os, ..CaptureLosses::default() });
        }
        let mut told = self.dropped.unwrap_or(0);
        let first_ns = self.first_ns.unwrap_or(0);
        for (key, capture) in self.captures {
            let others = capture.os.map(|os| os.saturating_sub(told));
            told = told.saturating_sub(capture.os.unwrap_or(0));
            let from_ns = key.start_ns.unwrap_or(first_ns);
            self.rows.push(LossRow {
                device: self.name.clone(),
                from_ns,
                to_ns: capture.end_ns.unwrap_or(self.last_ns).max(from_ns),
                lost_nic: capture.nic,
                lost_ring: others,
                ..LossRow::default()
            });
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FileInterface;

    #[test]
    fn counts_of_a_broken_file_do_not_overflow() {
        let mut losses = Losses::default();
        let device = losses.device("eth0");
        losses.packet(device, Some(1), Some(u64::MAX));
        losses.packet(device, Some(2), Some(5));
        assert_eq!(losses.total(), Some(u64::MAX));
        let both = Statistics {
            dropped_by_interface: Some(u64::MAX),
            dropped_by_os: Some(7),
            ..Statistics::default()
        };
        assert_eq!(lost_by(&both), Some(u64::MAX));
        let passed =
            Statistics { accepted_by_filter: Some(60), delivered: Some(50), ..Statistics::default() };
        assert_eq!((lost_by(&passed), lost_by(&Statistics::default())), (Some(10), None));
    }

    #[test]
    fn losses_up_to_a_time_are_those_of_spans_that_have_begun() {
        let row = |from_ns, to_ns, lost_ring| LossRow { from_ns, to_ns, lost_ring, ..LossRow::default() };
        let rows = [row(50, 90, Some(4)), row(10, 20, Some(1)), row(50, 50, Some(2)), row(0, 99, None)];
        let losses = LossTimeline::new(&rows).unwrap();
        let at = [0, 10, 11, 49, 50, 51, 90].map(|time_ns| losses.lost_until(time_ns));
        assert_eq!((at, losses.total()), ([0, 0, 1, 1, 3, 7, 7], 7));
        assert!(LossTimeline::new(&[row(0, 99, None)]).is_none(), "it is not known");
    }

    fn of(is_ours: bool, number: u32, section: u64, statistics: Statistics) -> InterfaceStatistics {
        let interface = FileInterface { is_ours, ..FileInterface::default() };
        InterfaceStatistics { number, interface, section, statistics }
    }

    #[test]
    fn statistics_add_what_packets_do_not_record() {
        let mut losses = Losses::default();
        let eth0 = losses.device("eth0");
        losses.packet(eth0, Some(100), None);
        losses.packet(eth0, Some(300), Some(5));
        losses.packet(eth0, Some(400), Some(2));
        losses.packet(eth0, Some(2_000_000_000), Some(1));
        // Two files of one capture: the second one has the losses of both.
        for (lost, end_ns) in [(7, 500), (10, 2_000_000_000)] {
            let statistics = Statistics {
                start_time_ns: Some(90),
                end_time_ns: Some(end_ns),
                dropped_by_interface: Some(3),
                dropped_by_os: Some(lost),
                ..Statistics::default()
            };
            losses.statistics("eth0", &of(true, 0, 1, statistics));
            losses.end_file();
        }
        let rows = losses.rows().remove("eth0").unwrap();
        let facts: Vec<_> =
            rows.iter().map(|row| (row.from_ns, row.to_ns, row.lost_ring, row.lost_nic)).collect();
        assert_eq!(
            facts,
            [
                (100, 400, Some(7), None),
                (400, 2_000_000_000, Some(1), None),
                (90, 2_000_000_000, Some(2), Some(3))
            ]
        );
    }

    /// Only the ring with the most losses counted.
    #[test]
    fn losses_of_one_file_per_cpu_are_added_up() {
        let mut losses = Losses::default();
        let eth0 = losses.device("eth0");
        losses.packet(eth0, Some(300), Some(4));
        // The files of ring 1 are of two times.
        for (ring, lost) in [(0, 7), (1, 2), (1, 5)] {
            let statistics = Statistics {
                start_time_ns: Some(90),
                dropped_by_os: Some(lost),
                comment: Some(format!("of one ring alone, number {ring}")),
                ..Statistics::default()
            };
            losses.statistics("eth0", &of(true, 0, 1, statistics));
            losses.end_file();
        }
        assert_eq!(losses.total(), Some(12));
    }

    #[test]
    fn sections_interfaces_and_files_without_a_start_are_added_up() {
        let lost = |nic, os| Statistics {
            dropped_by_interface: Some(nic),
            dropped_by_os: Some(os),
            ..Statistics::default()
        };
        let mut losses = Losses::default();
        (1..=3).for_each(|section| losses.statistics("eth0", &of(false, 0, section, lost(3, 4))));
        losses.statistics("eth0", &of(false, 1, 3, lost(10, 0)));
        losses.end_file();
        losses.statistics("eth0", &of(false, 0, 1, lost(100, 0)));
        assert_eq!(losses.total(), Some(21 + 10 + 100));
    }

    #[test]
    fn no_record_of_losses_is_no_zero() {
        let mut losses = Losses::default();
        let eth0 = losses.device("eth0");
        losses.packet(eth0, Some(1), None);
        assert_eq!(losses.total(), None);
        let mut losses = Losses::default();
        let eth0 = losses.device("eth0");
        losses.packet(eth0, Some(1), Some(0));
        assert_eq!(losses.total(), Some(0));
        let mut losses = Losses::default();
        let accepted =
            Statistics { accepted_by_filter: Some(10), delivered: Some(4), ..Statistics::default() };
        losses.statistics("eth0", &of(false, 0, 1, accepted));
        assert_eq!(losses.total(), Some(6));
    }

    #[test]
    fn no_loss_ends_before_it_begins() {
        let mut losses = Losses::default();
        let eth0 = losses.device("eth0");
        losses.packet(eth0, None, Some(1));
        losses.packet(eth0, Some(500), None);
        losses.packet(eth0, None, Some(2));
        losses.statistics(
            "eth0",
            &of(false, 0, 1, Statistics { dropped_by_os: Some(9), ..Statistics::default() }),
        );
        let rows = losses.rows().remove("eth0").unwrap();
        assert!(rows.iter().all(|row| row.from_ns <= row.to_ns), "{rows:?}");
        assert_eq!(rows.iter().filter_map(|row| row.lost_ring).sum::<u64>(), 9);
    }
}
