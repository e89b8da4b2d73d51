//! Losses that capture files tell of, by device.
//!
//! A packet may say how many were lost before it (`epb_dropcount`), and the statistics of an
//! interface how many were lost in all. Files of one capture repeat the statistics since its start,
//! so for each capture the largest number counts. With a file per CPU, that is so for the files of
//! each CPU, which are added up.

use columns::LossRow;
use pcapng::Statistics;
use std::collections::BTreeMap;

/// Drop counts of packets are added up over this time.
const SPAN_NS: u64 = 1_000_000_000;

/// See the top of the file.
#[derive(Default)]
pub(super) struct Losses {
    devices: BTreeMap<String, DeviceLosses>,
}

#[derive(Default)]
struct DeviceLosses {
    first_ns: Option<u64>,
    last_ns: u64,
    /// Sum of the drop counts.
    dropped: u64,
    rows: Vec<LossRow>,
    /// By the start of the capture, and the ring if its files are of one: its end, and frames lost
    /// by the device and behind it.
    captures: BTreeMap<(u64, Option<u32>), CaptureLosses>,
}

#[derive(Clone, Copy, Default)]
struct CaptureLosses {
    end_ns: u64,
    nic: Option<u64>,
    os: Option<u64>,
}

impl Losses {
    /// A packet of a device, and how many were lost before it.
    pub(super) fn packet(&mut self, device: &str, time_ns: u64, drop_count: u64) {
        if !self.devices.contains_key(device) {
            self.devices.insert(device.to_owned(), DeviceLosses::default());
        }
        let losses = self.devices.get_mut(device).expect("it is there now");
        let before_ns = if losses.first_ns.is_some() { losses.last_ns } else { time_ns };
        losses.first_ns.get_or_insert(time_ns);
        losses.last_ns = time_ns.max(losses.last_ns);
        if drop_count == 0 {
            return;
        }
        losses.dropped += drop_count;
        let is_near = |row: &&mut LossRow| (row.from_ns..row.from_ns + SPAN_NS).contains(&time_ns);
        match losses.rows.last_mut().filter(is_near) {
            Some(row) => {
                row.to_ns = row.to_ns.max(time_ns);
                row.lost_ring = row.lost_ring.map(|lost| lost + drop_count);
            }
            None => losses.rows.push(LossRow {
                device: device.to_owned(),
                from_ns: before_ns.min(time_ns),
                to_ns: time_ns,
                lost_ring: Some(drop_count),
                ..LossRow::default()
            }),
        }
    }

    /// The statistics of an interface of a device, which may have no packets.
    pub(super) fn statistics(&mut self, device: &str, statistics: &Statistics) {
        let losses = self.devices.entry(device.to_owned()).or_default();
        let start_ns = statistics.start_time_ns.or(losses.first_ns).unwrap_or(0);
        let ring = statistics.comment.as_deref().and_then(capture::ring_of_statistics);
        let capture = losses.captures.entry((start_ns, ring)).or_default();
        capture.end_ns = capture.end_ns.max(statistics.end_time_ns.unwrap_or(statistics.time_ns));
        capture.nic = capture.nic.max(statistics.dropped_by_interface);
        capture.os = capture.os.max(statistics.dropped_by_os);
    }

    /// All losses of each device: those that packets tell of, and one row for each capture with the
    /// others.
    pub(super) fn rows(self) -> BTreeMap<String, Vec<LossRow>> {
        self.devices.into_iter().map(|(device, losses)| (device.clone(), losses.into_rows(&device))).collect()
    }
}

impl DeviceLosses {
    fn into_rows(mut self, device: &str) -> Vec<LossRow> {
        if self.captures.is_empty() {
            let capture = CaptureLosses { end_ns: self.last_ns, ..CaptureLosses::default() };
            self.captures.insert((self.first_ns.unwrap_or(0), None), capture);
        }
        let mut told = self.dropped;
        for ((from_ns, _), capture) in self.captures {
            let others = capture.os.map(|os| os.saturating_sub(told));
            told = told.saturating_sub(capture.os.unwrap_or(0));
            self.rows.push(LossRow {
                device: device.to_owned(),
                from_ns,
                to_ns: capture.end_ns,
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

    #[test]
    fn statistics_add_what_packets_do_not_tell() {
        let mut losses = Losses::default();
        losses.packet("eth0", 100, 0);
        losses.packet("eth0", 300, 5);
        losses.packet("eth0", 400, 2);
        losses.packet("eth0", 2_000_000_000, 1);
        // Two files of one capture: the second one has the losses of both.
        for (lost, end_ns) in [(7, 500), (10, 2_000_000_000)] {
            let statistics = Statistics {
                start_time_ns: Some(90),
                end_time_ns: Some(end_ns),
                dropped_by_interface: Some(3),
                dropped_by_os: Some(lost),
                ..Statistics::default()
            };
            losses.statistics("eth0", &statistics);
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
        losses.packet("eth0", 300, 4);
        // The files of ring 1 are of two times.
        for (ring, lost) in [(0, 7), (1, 2), (1, 5)] {
            let statistics = Statistics {
                start_time_ns: Some(90),
                dropped_by_os: Some(lost),
                comment: Some(format!("of one ring alone, number {ring}")),
                ..Statistics::default()
            };
            losses.statistics("eth0", &statistics);
        }
        let rows = losses.rows().remove("eth0").unwrap();
        assert_eq!(rows.iter().filter_map(|row| row.lost_ring).sum::<u64>(), 12);
    }
}
