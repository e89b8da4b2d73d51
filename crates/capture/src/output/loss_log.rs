//! What a device lost while a capture ran, second by second, for the files of losses of a data set.

use crate::CaptureError;
use crate::output::open;
use crate::output::packer::PART_SUFFIX;
use crate::stats::{Counts, RingStats, Stats};
use columns::Key;
use measure::LossRow;
use std::io::Write;
use std::path::PathBuf;

/// Losses are added up over this time.
const SPAN_NS: u64 = 1_000_000_000;

/// The losses of one device since its last file of them.
#[derive(Debug)]
pub struct LossLog {
    /// Where its files are.
    folder: PathBuf,
    host: String,
    device: String,
    /// Number of the device in the order of the options.
    number: usize,
    rows: Vec<LossRow>,
    /// Until when losses are in the rows, and the counts of then.
    until_ns: u64,
    rings: Vec<RingStats>,
    lost_nic: Option<u64>,
    /// Number of the next file.
    files: u64,
}

impl LossLog {
    /// Continues the numbers of files that an earlier capture left in the folder.
    pub(crate) fn new(folder: PathBuf, host: &str, device: &str, number: usize, start_ns: u64) -> Self {
        let is_free = |number: &u64| !folder.join(columns::loss_name(*number)).exists();
        let files = (0..).find(is_free).expect("a folder has fewer files");
        Self {
            folder,
            host: host.to_owned(),
            device: device.to_owned(),
            number,
            rows: Vec::new(),
            until_ns: start_ns,
            rings: Vec::new(),
            lost_nic: None,
            files,
        }
    }

    /// True if the last look is long enough ago for another one.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns.saturating_add(SPAN_NS)
    }

    /// Adds a row for each ring that lost something since the last look, and one for the device.
    pub(crate) fn look(&mut self, now_ns: u64, stats: &Stats) {
        self.add(now_ns, stats, false);
    }

    /// Writes a file with the losses since the last one, and with the report of the capture (a
    /// line of JSON) if it has ended. Rows that could not be written are in the next file.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn write(&mut self, now_ns: u64, stats: &Stats, report: Option<&str>) -> Result<(), CaptureError> {
        let keys: Vec<Key> = report.map(|report| Key::capture(report.to_owned())).into_iter().collect();
        let rows = self.take(now_ns, stats);
        let path = self.folder.join(columns::loss_name(self.files));
        let part = PathBuf::from(format!("{}{PART_SUFFIX}", path.display()));
        let bytes = columns::loss_file(&rows, &keys);
        let written = open::create_folders(&part)
            .and_then(|()| open::create_part(&part)?.write_all(&bytes))
            .and_then(|()| open::rename(&part, &path));
        if let Err(source) = written {
            // Should an unfinished file stay, its name says so.
            let _ = open::remove(&part);
            self.rows = rows;
            return Err(CaptureError::Write { name: path.display().to_string(), len: 0, source });
        }
        self.files += 1;
        Ok(())
    }

    /// The rows since the last file, at least one for each ring: the others say that nothing was
    /// lost.
    fn take(&mut self, now_ns: u64, stats: &Stats) -> Vec<LossRow> {
        self.add(now_ns, stats, true);
        std::mem::take(&mut self.rows)
    }

    fn add(&mut self, now_ns: u64, stats: &Stats, all: bool) {
        let rings: Vec<RingStats> =
            stats.rings.iter().filter(|ring| ring.device == self.number).copied().collect();
        let (from_ns, to_ns) = (self.until_ns, now_ns.max(self.until_ns));
        let row = |cpu, lost_nic, lost_ring, lost_disk| LossRow {
            host: self.host.clone(),
            device: self.device.clone(),
            cpu,
            from_ns,
            to_ns,
            lost_nic,
            lost_ring,
            lost_disk,
        };
        for (place, ring) in rings.iter().enumerate() {
            let before = self.rings.get(place).map_or(Counts::default(), |ring| ring.counts);
            let lost_ring = ring.counts.lost_ring.saturating_sub(before.lost_ring);
            let lost_disk = ring.counts.lost_disk.saturating_sub(before.lost_disk);
            if all || lost_ring + lost_disk > 0 {
                self.rows.push(row(Some(ring.cpu), Some(0), Some(lost_ring), Some(lost_disk)));
            }
        }
        let lost_nic = stats.devices.get(self.number).and_then(|device| device.lost_nic);
        let since = lost_nic.map(|lost| lost.saturating_sub(self.lost_nic.unwrap_or(0)));
        if all || since.is_some_and(|lost| lost > 0) {
            self.rows.push(row(None, since, Some(0), Some(0)));
        }
        // The counts go on from the last known one if this query failed.
        (self.until_ns, self.rings, self.lost_nic) = (to_ns, rings, lost_nic.or(self.lost_nic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::DeviceStats;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn stats(lost: [(u64, u64); 2], lost_nic: u64) -> Stats {
        let ring = |cpu: u32, (lost_ring, lost_disk): (u64, u64)| RingStats {
            device: 1,
            cpu,
            counts: Counts { lost_ring, lost_disk, ..Counts::default() },
        };
        let of_another =
            RingStats { counts: Counts { lost_ring: 99, ..Counts::default() }, ..RingStats::default() };
        let device = |lost_nic| DeviceStats { lost_nic: Some(lost_nic), ..DeviceStats::default() };
        Stats {
            rings: vec![of_another, ring(4, lost[0]), ring(5, lost[1])],
            devices: vec![device(77), device(lost_nic)],
            ..Stats::default()
        }
    }

    #[test]
    fn rows_add_up_to_the_counts() {
        let folder = testkit::Folder::new("losses");
        let mut log = LossLog::new(folder.join("d"), "h", "eth0", 1, 100);
        assert!(!log.is_due(SPAN_NS) && log.is_due(SPAN_NS + 100));
        log.look(SPAN_NS, &stats([(0, 0), (7, 0)], 0));
        log.look(2 * SPAN_NS, &stats([(0, 0), (7, 0)], 0));
        let rows = log.take(3 * SPAN_NS, &stats([(0, 2), (10, 0)], 5));
        let facts: Vec<_> = rows
            .iter()
            .map(|row| (row.cpu, row.from_ns, row.lost_ring, row.lost_disk, row.lost_nic))
            .collect();
        assert_eq!(
            facts,
            [
                (Some(5), 100, Some(7), Some(0), Some(0)),
                (Some(4), 2 * SPAN_NS, Some(0), Some(2), Some(0)),
                (Some(5), 2 * SPAN_NS, Some(3), Some(0), Some(0)),
                (None, 2 * SPAN_NS, Some(0), Some(0), Some(5)),
            ]
        );
        assert_eq!(log.take(3 * SPAN_NS, &stats([(0, 2), (10, 0)], 5)).len(), 3, "nothing lost, and said so");
        log.write(4 * SPAN_NS, &stats([(0, 2), (10, 0)], 5), None).unwrap();
        log.write(5 * SPAN_NS, &stats([(0, 2), (10, 0)], 5), None).unwrap();
        let names = || {
            let entries = fs::read_dir(folder.join("d")).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["loss-0.parquet", "loss-1.parquet"]);
        let mode = fs::metadata(folder.join("d/loss-0.parquet")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Another capture of the same run overwrote the files of the first.
        let mut again = LossLog::new(folder.join("d"), "h", "eth0", 1, 100);
        again.write(5 * SPAN_NS, &stats([(0, 0), (0, 0)], 0), None).unwrap();
        assert_eq!(names(), ["loss-0.parquet", "loss-1.parquet", "loss-2.parquet"]);
    }

    /// After a failed query, all losses of the device so far were counted again.
    #[test]
    fn losses_of_a_device_whose_query_fails_once_count_once() {
        let mut log = LossLog::new(PathBuf::from("losses"), "h", "eth0", 1, 0);
        for (second, lost_nic) in (1..).zip([Some(5), None, Some(5)]) {
            let device = DeviceStats { lost_nic, ..DeviceStats::default() };
            let devices = vec![DeviceStats::default(), device];
            log.look(second * SPAN_NS, &Stats { devices, ..Stats::default() });
        }
        assert_eq!(log.rows.iter().filter_map(|row| row.lost_nic).sum::<u64>(), 5);
    }
}
