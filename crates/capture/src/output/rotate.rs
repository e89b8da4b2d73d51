//! Rotation: when a capture begins its next file, the names of files, and which old ones are
//! removed.
//!
//! Decisions only: nothing is opened, renamed or removed here, and no clock is read. Times are
//! those of the records.

use crate::output::names::{NamePattern, with_number};
use crate::output::prior_files::{EarlierFile, highest_numbers};
use std::collections::{BTreeMap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};

const NUMBER_DIGITS: usize = 5;
/// Even the slowest disk does not delay a record by so much, in nanoseconds. A record that seems
/// older was stamped before the clock was set.
const LATE_NS_MAX: u64 = 60_000_000_000;

/// When files end and how many of them stay. The default is one file that never ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotatePolicy {
    /// Most bytes of a file before compression. Only a record that is longer by itself makes a file
    /// longer.
    pub size_max_bytes: Option<NonZeroU64>,
    /// Most bytes of a file as it lies on the disk, about.
    pub disk_size_max_bytes: Option<NonZeroU64>,
    /// How long a file lasts.
    pub interval: Option<FileInterval>,
    /// Puts the number of each file, from 0 on, behind the time in its name: `part-TIME-0.parquet`.
    pub is_numbered: bool,
    /// Most files at a time, the one being written included.
    pub ring_files: Option<NonZeroU32>,
    /// Most bytes of all files at a time, the one being written included, as they lie on the disk.
    pub quota_bytes: Option<NonZeroU64>,
    /// The capture ends before its files together are longer than this, in bytes before
    /// compression.
    pub stop_after_bytes: Option<NonZeroU64>,
    /// The capture ends when this many of its files are complete.
    pub stop_after_files: Option<NonZeroU32>,
}

/// How long a file lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInterval {
    /// Its length in nanoseconds.
    pub length_ns: NonZeroU64,
    /// Whether files end where the clock on the wall has a multiple of the length (each full hour),
    /// instead of that long after their first record.
    pub is_aligned: bool,
}

/// Why a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The next record does not fit its size.
    Size,
    /// Its interval is over.
    FileInterval,
    /// With the next record this file alone would not fit the quota.
    Quota,
}

/// Why a policy is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum PolicyError {
    /// Files would never end, so none could be removed.
    #[error("a ring of {ring_files} files needs a size or an interval at which files end")]
    RingWithoutEnd { ring_files: NonZeroU32 },
    /// The only file would never be complete.
    #[error("an end after {files} files needs a size or an interval at which files end")]
    EndWithoutRotation { files: NonZeroU32 },
    /// A single file cannot lose its beginning.
    #[error("a quota of {quota_bytes} bytes needs a size or an interval at which files end")]
    QuotaWithoutEnd { quota_bytes: NonZeroU64 },
    /// One file may be larger than all of them.
    #[error("files of up to {size_max_bytes} bytes do not fit a quota of {quota_bytes} bytes")]
    SizeOverQuota { size_max_bytes: NonZeroU64, quota_bytes: NonZeroU64 },
}

impl RotatePolicy {
    /// Whether there can be more than one file.
    #[must_use]
    pub fn rotates(&self) -> bool {
        self.size_max_bytes.is_some() || self.disk_size_max_bytes.is_some() || self.interval.is_some()
    }

    /// Whether files are limited in a way that a single file cannot have.
    fn needs_rotation(&self) -> bool {
        self.ring_files.is_some() || self.quota_bytes.is_some() || self.stop_after_files.is_some()
    }

    /// Whether files get names of a rotation, or are refused because they would never end.
    pub(crate) fn is_rotation(&self) -> bool {
        self.rotates() || self.needs_rotation()
    }

    fn check(&self) -> Result<(), PolicyError> {
        if let Some(ring_files) = self.ring_files
            && !self.rotates()
        {
            return Err(PolicyError::RingWithoutEnd { ring_files });
        }
        if let Some(files) = self.stop_after_files
            && !self.rotates()
        {
            return Err(PolicyError::EndWithoutRotation { files });
        }
        if let Some(quota_bytes) = self.quota_bytes
            && !self.rotates()
        {
            return Err(PolicyError::QuotaWithoutEnd { quota_bytes });
        }
        match (self.size_max_bytes, self.quota_bytes) {
            (Some(size_max_bytes), Some(quota_bytes)) if size_max_bytes > quota_bytes => {
                Err(PolicyError::SizeOverQuota { size_max_bytes, quota_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its name, from the time of its first record. A file of that name from an earlier turn of a
    /// pattern that repeats (`%H`) is replaced; one that was there at the start is not, in the
    /// first turn.
    pub name: String,
    /// Its length in bytes, as it lies on the disk.
    pub bytes: u64,
}

/// Follows one capture from file to file.
///
/// ```
/// # use capture::rotate::{RotatePolicy, Rotator};
/// # use capture::names::NamePattern;
/// # use std::num::NonZeroU64;
/// let policy = RotatePolicy { size_max_bytes: NonZeroU64::new(1_000), ..RotatePolicy::default() };
/// let mut rotator = Rotator::new(policy, NamePattern::parse("cap.pcapng")?, 0)?;
/// rotator.begin(100);
/// let mut names = Vec::new();
/// for time_ns in 0..10 {
///     if rotator.due(time_ns, 400).is_some() {
///         names.push(rotator.finish().unwrap().name);
///         rotator.begin(100);
///     }
///     rotator.wrote(time_ns, 400);
/// }
/// assert_eq!(names, ["cap_00001.pcapng", "cap_00002.pcapng", "cap_00003.pcapng", "cap_00004.pcapng"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rotator {
    policy: RotatePolicy,
    pattern: NamePattern,
    utc_offset_s: i32,
    file: OpenFile,
    /// Files that were named.
    named: u64,
    /// Finished files that are still there, the oldest first; empty when nothing limits them.
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    /// The name last given before any number was put into it, and how often running.
    last_base: Option<(String, u64)>,
    /// Names of files that were there at the start, without their numbers, and the highest number
    /// of each.
    taken: BTreeMap<String, u64>,
}

/// The file being written.
#[derive(Clone, Copy, Debug, Default)]
struct OpenFile {
    bytes: u64,
    /// Bytes on the disk: not `bytes` when the file is compressed or was cut.
    disk_bytes: u64,
    first_record_ns: Option<u64>,
    /// When its interval is over.
    end_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Kept {
    name: String,
    bytes: u64,
}

impl Rotator {
    /// A capture that has no file yet. `utc_offset_s` is that of local time, in seconds east of
    /// UTC, for names and for aligned intervals.
    ///
    /// # Errors
    /// A [`PolicyError`] for options that contradict each other.
    pub fn new(policy: RotatePolicy, pattern: NamePattern, utc_offset_s: i32) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self {
            policy,
            pattern,
            utc_offset_s,
            file: OpenFile::default(),
            named: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            last_base: None,
            taken: BTreeMap::new(),
        })
    }

    /// Files that earlier captures have left, the oldest first: numbers go on after theirs, and the
    /// limits on files and bytes are for all together.
    pub(crate) fn go_on_after(&mut self, earlier: Vec<EarlierFile>) {
        self.taken = highest_numbers(&earlier);
        for EarlierFile { name, bytes, .. } in earlier {
            if self.policy.ring_files.is_some() || self.policy.quota_bytes.is_some() {
                self.keep(Kept { name, bytes });
            }
        }
    }

    /// A file was begun that has `own_bytes` bytes beside its records, at its beginning and end.
    pub fn begin(&mut self, own_bytes: u64) {
        self.file = OpenFile { bytes: own_bytes, disk_bytes: own_bytes, ..OpenFile::default() };
    }

    /// True while the file at hand has no record.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file.first_record_ns.is_none()
    }

    /// Whether the file must be finished before a record of this time and length in bytes. A file
    /// without records never is. With a length of 0 it asks for the time alone, as a writer does
    /// that has nothing to write. A record from long before the file begins the next one: the clock
    /// was set back, and the end of this file is as far away.
    #[inline]
    #[must_use]
    pub fn due(&self, time_ns: u64, record_bytes: u64) -> Option<Reason> {
        self.file.first_record_ns?;
        let file_bytes = self.file.bytes.saturating_add(record_bytes);
        let is_over = self.file.end_ns.is_some_and(|end_ns| time_ns >= end_ns);
        if is_over || (record_bytes > 0 && self.is_from_before(time_ns)) {
            Some(Reason::FileInterval)
        } else if self.policy.size_max_bytes.is_some_and(|most| file_bytes > most.get())
            || self.policy.disk_size_max_bytes.is_some_and(|most| self.file.disk_bytes >= most.get())
        {
            Some(Reason::Size)
        } else if self.is_over_quota(self.file.disk_bytes.saturating_add(record_bytes)) {
            Some(Reason::Quota)
        } else {
            None
        }
    }

    /// True for a record that no delay explains: older than the first one by an interval and more
    /// than any is late.
    fn is_from_before(&self, time_ns: u64) -> bool {
        let interval = self.policy.interval.zip(self.file.first_record_ns);
        interval.is_some_and(|(interval, first_ns)| {
            first_ns.saturating_sub(time_ns) >= interval.length_ns.get().max(LATE_NS_MAX)
        })
    }

    /// A file to remove before `bytes` more may be written, be they a record or the header of a new
    /// file. Ask again until there is none.
    #[inline]
    pub fn evict(&mut self, bytes: u64) -> Option<String> {
        let wanted_bytes = self.kept_bytes.saturating_add(self.file.disk_bytes).saturating_add(bytes);
        if !self.is_over_quota(wanted_bytes) {
            return None;
        }
        self.forget_oldest()
    }

    /// A file to remove before the first record of the file at hand is written, for which the ring
    /// of files has no place left. Ask again until there is none. Not earlier: should there never
    /// be a record, the ring stays whole.
    #[inline]
    pub fn displace(&mut self) -> Option<String> {
        let is_full = |files: NonZeroU32| self.kept.len() >= files.get() as usize;
        let has_no_place = self.is_empty() && self.policy.ring_files.is_some_and(is_full);
        if has_no_place { self.forget_oldest() } else { None }
    }

    /// A record, or bytes that belong to it, was written. A record from before the file's interval,
    /// which comes late, stays in the file at hand.
    #[inline]
    pub fn wrote(&mut self, time_ns: u64, bytes: u64) {
        self.file.bytes += bytes;
        self.file.disk_bytes += bytes;
        if self.file.first_record_ns.is_none() {
            self.file.first_record_ns = Some(time_ns);
            self.file.end_ns =
                self.policy.interval.and_then(|interval| interval.end_ns(time_ns, self.utc_offset_s));
        }
    }

    /// Bytes that are no record, and belong to no other file, were added to the file at hand.
    pub fn grows(&mut self, bytes: u64) {
        self.file.bytes += bytes;
        self.file.disk_bytes += bytes;
    }

    /// The file at hand takes `bytes` of the disk now, whatever was written into it: it is
    /// compressed, or was cut.
    pub fn takes(&mut self, bytes: u64) {
        self.file.disk_bytes = bytes;
    }

    /// The file is complete: gives its name. Nothing when it has no record, so that
    /// its name is not known; [`Rotator::finish_at`] names such a file.
    pub fn finish(&mut self) -> Option<Finished> {
        let first_record_ns = self.file.first_record_ns?;
        Some(self.finish_at(first_record_ns))
    }

    /// Completes the file and gives its name. `time_ns` names a file that has no record.
    pub fn finish_at(&mut self, time_ns: u64) -> Finished {
        let name = self.name(self.file.first_record_ns.unwrap_or(time_ns));
        let bytes = self.file.disk_bytes;
        self.file = OpenFile::default();
        if self.policy.ring_files.is_some() || self.policy.quota_bytes.is_some() {
            self.keep(Kept { name: name.clone(), bytes });
        }
        Finished { name, bytes }
    }

    fn is_over_quota(&self, bytes: u64) -> bool {
        self.policy.quota_bytes.is_some_and(|quota_bytes| bytes > quota_bytes.get())
    }

    /// Remembers a finished file; one of the same name is the same file, written anew.
    fn keep(&mut self, file: Kept) {
        if let Some(replaced) = self.kept.iter().position(|kept| kept.name == file.name)
            && let Some(replaced) = self.kept.remove(replaced)
        {
            self.kept_bytes -= replaced.bytes;
        }
        self.kept_bytes += file.bytes;
        self.kept.push_back(file);
    }

    fn forget_oldest(&mut self) -> Option<String> {
        let oldest = self.kept.pop_front()?;
        self.kept_bytes -= oldest.bytes;
        Some(oldest.name)
    }

    /// The name of a file whose first record is of `time_ns`: never that of the file before it.
    fn name(&mut self, time_ns: u64) -> String {
        let base = self.pattern.expand(time_ns, self.utc_offset_s);
        if self.policy.is_numbered {
            let (stem, extension) = base.rsplit_once('.').unwrap_or((&base, ""));
            self.named += 1;
            return format!("{stem}-{}.{extension}", self.named - 1);
        }
        let number = match &self.last_base {
            Some((last, number)) if *last == base => number + 1,
            // Numbers of names without a time begin at 1.
            _ => match self.taken.remove(&base) {
                Some(highest) if self.pattern.has_time() => highest + 1,
                Some(highest) => highest,
                None => 0,
            },
        };
        self.last_base = Some((base.clone(), number));
        if !self.policy.rotates() {
            base
        } else if !self.pattern.has_time() {
            with_number(&base, number + 1, NUMBER_DIGITS)
        } else if number > 0 {
            // As many digits as all have, so that names sort in order of time.
            with_number(&base, number, NUMBER_DIGITS)
        } else {
            base
        }
    }
}

impl FileInterval {
    /// When the interval of a file is over whose first record is of `time_ns`; nothing beyond the
    /// year 2554.
    fn end_ns(self, time_ns: u64, utc_offset_s: i32) -> Option<u64> {
        let length_ns = self.length_ns.get();
        if !self.is_aligned {
            return time_ns.checked_add(length_ns);
        }
        let offset_ns = i128::from(utc_offset_s) * 1_000_000_000;
        let into_ns = (i128::from(time_ns) + offset_ns).rem_euclid(i128::from(length_ns));
        u64::try_from(i128::from(time_ns) - into_ns + i128::from(length_ns)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const HEADER_BYTES: u64 = 100;
    const S: u64 = 1_000_000_000;

    fn rotator(policy: RotatePolicy, pattern: &str) -> Rotator {
        Rotator::new(policy, NamePattern::parse(pattern).unwrap(), 0).unwrap()
    }

    fn size(bytes: u64) -> RotatePolicy {
        RotatePolicy { size_max_bytes: NonZeroU64::new(bytes), ..RotatePolicy::default() }
    }

    fn interval(length_s: u64, is_aligned: bool) -> Option<FileInterval> {
        Some(FileInterval { length_ns: NonZeroU64::new(length_s * S).unwrap(), is_aligned })
    }

    /// A file as it lies on the disk: its length and the times of its records.
    type DiskFiles = BTreeMap<String, (u64, Vec<u64>)>;

    /// A disk that does what the rotator says.
    struct TestWriter {
        rotator: Rotator,
        disk: DiskFiles,
        times_ns: Vec<u64>,
        /// Names of finished files in order.
        names: Vec<String>,
        files_max: usize,
        bytes_max: u64,
        removed_records: usize,
    }

    impl TestWriter {
        fn new(rotator: Rotator) -> Self {
            let mut writer = Self {
                rotator,
                disk: DiskFiles::new(),
                times_ns: vec![],
                names: vec![],
                files_max: 0,
                bytes_max: 0,
                removed_records: 0,
            };
            writer.begin();
            writer
        }

        fn begin(&mut self) {
            self.evict(HEADER_BYTES);
            self.rotator.begin(HEADER_BYTES);
        }

        fn look(&mut self) {
            self.files_max = self.files_max.max(self.disk.len() + 1);
            let finished: u64 = self.disk.values().map(|(bytes, _)| bytes).sum();
            self.bytes_max = self.bytes_max.max(finished + self.rotator.file.bytes);
        }

        fn evict(&mut self, bytes: u64) {
            while let Some(name) = self.rotator.evict(bytes) {
                self.remove(&name);
            }
        }

        fn remove(&mut self, name: &str) {
            let (_, times_ns) = self.disk.remove(name).expect("only files that are there are removed");
            self.removed_records += times_ns.len();
        }

        fn record(&mut self, time_ns: u64, bytes: u64) {
            if self.rotator.due(time_ns, bytes).is_some() {
                self.finish();
                self.begin();
            }
            self.evict(bytes);
            while let Some(name) = self.rotator.displace() {
                self.remove(&name);
            }
            self.rotator.wrote(time_ns, bytes);
            self.times_ns.push(time_ns);
            self.look();
        }

        fn finish(&mut self) {
            let Some(finished) = self.rotator.finish() else { return };
            let file = (finished.bytes, std::mem::take(&mut self.times_ns));
            if let Some((_, replaced)) = self.disk.insert(finished.name.clone(), file) {
                self.removed_records += replaced.len();
            }
            self.names.push(finished.name);
        }

        fn end(mut self) -> Self {
            self.finish();
            self
        }
    }

    fn write(rotator: Rotator, records: impl IntoIterator<Item = (u64, u64)>) -> TestWriter {
        let mut writer = TestWriter::new(rotator);
        records.into_iter().for_each(|(time_ns, bytes)| writer.record(time_ns, bytes));
        writer.end()
    }

    #[test]
    fn a_quota_is_of_what_lies_on_the_disk() {
        let quota_bytes = NonZeroU64::new(1_000);
        let policy = RotatePolicy { quota_bytes, ..size(2_000) };
        assert!(policy.check().is_err(), "a file may be larger than all of them");
        let mut rotator = rotator(RotatePolicy { quota_bytes, ..size(900) }, "x.pcapng.zst");
        for file in 1..=3 {
            rotator.begin(HEADER_BYTES);
            rotator.wrote(0, 800);
            rotator.takes(300);
            assert_eq!(rotator.evict(0), None, "file {file}: three of 300 bytes fit");
            assert_eq!(rotator.due(0, 1), Some(Reason::Size), "900 bytes before compression");
            assert_eq!(rotator.finish().unwrap().bytes, 300);
        }
        rotator.begin(HEADER_BYTES);
        assert_eq!(rotator.evict(1), Some("x_00001.pcapng.zst".to_owned()));
        assert_eq!(rotator.evict(1), None);
    }

    #[test]
    fn without_a_policy_there_is_one_file_of_the_plain_name() {
        let writer =
            write(rotator(RotatePolicy::default(), "cap.pcapng"), (0..1_000).map(|s| (s * S, 1_000)));
        assert_eq!(writer.names, ["cap.pcapng"]);
    }

    #[test]
    fn a_record_longer_than_a_file_gets_one_for_itself() {
        let writer = write(rotator(size(500), "c"), [(0, 100), (1, 9_000), (2, 100), (3, 300), (4, 1)]);
        let records: Vec<usize> = writer.disk.values().map(|(_, times_ns)| times_ns.len()).collect();
        assert_eq!(records, [1, 1, 2, 1]);
    }

    #[test]
    fn aligned_files_end_on_the_wall_clock() {
        let policy = RotatePolicy { interval: interval(3_600, true), ..RotatePolicy::default() };
        // 22:13:20 UTC.
        let start_s = 1_700_000_000;
        let times_s = [start_s, start_s + 2_799, start_s + 2_800, start_s + 6_399, start_s + 20_000];
        let hours = write(rotator(policy, "%H%M%S"), times_s.map(|s| (s * S, 1)));
        assert_eq!(hours.names, ["221320", "230000", "034640"]);
        // Half an hour off, as in Newfoundland, the full hour comes half an hour later.
        let mut there = rotator(policy, "%H%M%S");
        there.utc_offset_s = -12_600;
        assert_eq!(write(there, times_s.map(|s| (s * S, 1))).names, ["184320", "192959", "202959", "001640"]);
    }

    #[test]
    fn unaligned_files_last_from_their_first_record() {
        let policy = RotatePolicy { interval: interval(10, false), ..RotatePolicy::default() };
        let writer = write(rotator(policy, "%s"), [7, 16, 17, 26, 100, 109].map(|s| (s * S, 1)));
        assert_eq!(writer.names, ["7", "17", "100"]);
    }

    #[test]
    fn an_idle_line_ends_a_file_but_makes_no_empty_ones() {
        let policy = RotatePolicy { interval: interval(10, false), ..RotatePolicy::default() };
        let mut rotator = rotator(policy, "%s");
        rotator.begin(HEADER_BYTES);
        assert_eq!(rotator.due(1_000 * S, 0), None);
        assert_eq!(rotator.finish(), None);
        rotator.wrote(1_000 * S, 50);
        assert_eq!(rotator.due(1_010 * S - 1, 0), None);
        assert_eq!(rotator.due(1_010 * S, 0), Some(Reason::FileInterval));
        let finished = rotator.finish().unwrap();
        assert_eq!((finished.name.as_str(), finished.bytes), ("1000", 150));
        assert_eq!(rotator.finish_at(5 * S).name, "5");
    }

    #[test]
    fn a_late_record_stays_in_the_file_at_hand() {
        let policy = RotatePolicy { interval: interval(10, true), ..RotatePolicy::default() };
        let writer = write(rotator(policy, "%s"), [9, 10, 8, 19, 7, 20].map(|s| (s * S, 1)));
        assert_eq!(writer.disk["10"].1, [10, 8, 19, 7].map(|s| s * S));
    }

    /// A file of ten minutes took an hour and ten minutes when the clock was set back by one.
    #[test]
    fn a_clock_that_is_set_back_ends_the_file_of_an_interval() {
        let policy = RotatePolicy { interval: interval(600, true), ..RotatePolicy::default() };
        let writer = write(rotator(policy, "%s"), [6_000, 6_100, 2_401, 2_500, 3_000].map(|s| (s * S, 1)));
        assert_eq!(writer.names, ["6000", "2401", "3000"]);
        assert_eq!(writer.disk["2401"].1, [2_401, 2_500].map(|s| s * S));
    }

    #[test]
    fn two_files_of_one_second_have_two_names() {
        let writer = write(rotator(size(200), "%s.pcapng"), [1, 1, 1, 2, 2].map(|s| (s * S, 100)));
        assert_eq!(
            writer.names,
            ["1.pcapng", "1_00001.pcapng", "1_00002.pcapng", "2.pcapng", "2_00001.pcapng"]
        );
    }

    #[test]
    fn a_pattern_that_comes_round_replaces_its_files() {
        let policy = RotatePolicy {
            interval: interval(3_600, true),
            ring_files: NonZeroU32::new(100),
            ..size(1 << 40)
        };
        let writer = write(rotator(policy, "%H"), (0..30).map(|hour| (hour * 3_600 * S, 1)));
        assert_eq!((writer.disk.len(), writer.removed_records), (24, 6));
        assert_eq!(writer.rotator.kept_bytes, 24 * (HEADER_BYTES + 1));
    }

    #[test]
    fn a_ring_keeps_its_last_files() {
        let policy = RotatePolicy { ring_files: NonZeroU32::new(3), ..size(200) };
        let writer = write(rotator(policy, "r"), (0..10).map(|s| (s, 100)));
        assert_eq!(writer.files_max, 3);
        assert_eq!(writer.disk.keys().collect::<Vec<_>>(), ["r_00008", "r_00009", "r_00010"]);
    }

    #[test]
    fn a_ring_of_one_file_keeps_the_last_one() {
        let policy = RotatePolicy { ring_files: NonZeroU32::new(1), ..size(200) };
        let mut writer = write(rotator(policy, "r"), (0..10).map(|s| (s, 100)));
        assert_eq!((writer.files_max, writer.disk.len()), (1, 1));
        writer.begin();
        assert_eq!(writer.rotator.finish(), None, "begun after the last record, it displaces nothing");
        assert_eq!(writer.disk.keys().collect::<Vec<_>>(), ["r_00010"]);
    }

    #[test]
    fn wishes_that_contradict_each_other_are_refused() {
        let refuse =
            |policy| Rotator::new(policy, NamePattern::parse("c").unwrap(), 0).unwrap_err().to_string();
        assert_eq!(
            refuse(RotatePolicy { ring_files: NonZeroU32::new(3), ..RotatePolicy::default() }),
            "a ring of 3 files needs a size or an interval at which files end"
        );
        assert_eq!(
            refuse(RotatePolicy { quota_bytes: NonZeroU64::new(10), ..size(20) }),
            "files of up to 20 bytes do not fit a quota of 10 bytes"
        );
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        for is_aligned in [false, true] {
            let policy = RotatePolicy { interval: interval(3_600, is_aligned), ..size(u64::MAX) };
            let mut rotator = rotator(policy, "%s");
            rotator.begin(u64::MAX - 5);
            rotator.wrote(u64::MAX, 5);
            assert_eq!(rotator.due(u64::MAX, u64::MAX), None);
        }
    }

    fn policies() -> impl Strategy<Value = RotatePolicy> {
        let interval = (1..100_u64, any::<bool>()).prop_map(|(length_ns, is_aligned)| FileInterval {
            length_ns: NonZeroU64::new(length_ns).unwrap(),
            is_aligned,
        });
        let option = |range: std::ops::Range<u64>| {
            proptest::option::of(range.prop_map(|n| NonZeroU64::new(n).unwrap()))
        };
        let ring = proptest::option::of((1..6_u32).prop_map(|files| NonZeroU32::new(files).unwrap()));
        (option(150..600), proptest::option::of(interval), ring, option(600..3_000))
            .prop_map(|(size_max_bytes, interval, ring_files, quota_bytes)| RotatePolicy {
                size_max_bytes,
                interval,
                ring_files,
                quota_bytes,
                ..RotatePolicy::default()
            })
            .prop_filter("contradiction", |policy| policy.check().is_ok())
    }

    fn records() -> impl Strategy<Value = Vec<(u64, u64)>> {
        vec((0..60_u64, 20..700_u64), 0..80).prop_map(|steps| {
            let mut time_ns = 0;
            let mut record = |(step_ns, bytes)| {
                time_ns += step_ns;
                (time_ns, bytes)
            };
            steps.into_iter().map(&mut record).collect()
        })
    }

    #[test]
    fn a_restarted_rotation_goes_on_after_the_files_of_the_run_before() {
        let earlier = |name: &str, base: &str, number| EarlierFile {
            name: name.to_owned(),
            numbered: Some((base.to_owned(), number)),
            bytes: 400,
        };
        let policy = RotatePolicy { ring_files: NonZeroU32::new(3), ..size(500) };
        let mut again = rotator(policy, "c.pcapng");
        again.go_on_after(vec![
            earlier("c_00007.pcapng", "c.pcapng", 7),
            earlier("c_00008.pcapng", "c.pcapng", 8),
            EarlierFile { name: "c.pcapng.part.1".to_owned(), numbered: None, bytes: 10 },
        ]);
        again.begin(HEADER_BYTES);
        let displaced: Vec<String> = std::iter::from_fn(|| again.displace()).collect();
        assert_eq!(displaced, ["c_00007.pcapng"], "two old ones and the one being written");
        again.wrote(0, 300);
        assert_eq!(again.finish().unwrap().name, "c_00009.pcapng");
        // A name with a time: in the first turn nothing is replaced, the day after it is.
        let mut again =
            rotator(RotatePolicy { interval: interval(3_600, true), ..RotatePolicy::default() }, "x%H");
        again.go_on_after(vec![earlier("x00", "x00", 0), earlier("x00_2", "x00", 2)]);
        let mut names = Vec::new();
        for hour in [0, 1, 24] {
            again.begin(HEADER_BYTES);
            again.wrote(hour * 3_600 * S, 300);
            names.push(again.finish().unwrap().name);
        }
        assert_eq!(names, ["x00_00003", "x01", "x00"]);
        // All together stay below the quota.
        let quota_bytes = NonZeroU64::new(1_000);
        let mut again = rotator(RotatePolicy { quota_bytes, ..size(500) }, "c");
        again.go_on_after(vec![earlier("c_00001", "c", 1), earlier("c_00002", "c", 2)]);
        again.begin(HEADER_BYTES);
        assert_eq!(again.evict(300), Some("c_00001".to_owned()));
        assert_eq!(again.evict(300), None);
    }

    #[test]
    fn parts_are_numbered_behind_their_time_and_end_by_their_length_on_the_disk() {
        let policy = RotatePolicy {
            disk_size_max_bytes: NonZeroU64::new(1_000),
            is_numbered: true,
            ..RotatePolicy::default()
        };
        let mut rotator = rotator(policy, "part-%s%N.parquet");
        rotator.begin(4);
        rotator.wrote(5_000_000_007, 5_000);
        rotator.takes(999);
        assert_eq!(rotator.due(5_000_000_008, 5_000), None);
        rotator.takes(1_000);
        assert_eq!(rotator.due(5_000_000_008, 1), Some(Reason::Size));
        assert_eq!(rotator.finish().unwrap().name, "part-5000000007-0.parquet");
        assert_eq!(rotator.finish_at(6_000_000_000).name, "part-6000000000-1.parquet");
    }

    proptest! {
        #[test]
        fn every_limit_holds_and_every_record_is_somewhere(
            policy in policies(),
            records in records(),
            pattern in prop_oneof![Just("c.pcapng"), Just("%s_%N"), Just("%S")],
        ) {
            let writer = write(rotator(policy, pattern), records.iter().copied());
            let left: usize = writer.disk.values().map(|(_, times_ns)| times_ns.len()).sum();
            prop_assert_eq!(left + writer.removed_records, records.len());
            if let Some(files) = policy.ring_files {
                prop_assert!(writer.files_max <= files.get() as usize);
                let last = writer.names.len().min(files.get() as usize);
                prop_assert!(policy.quota_bytes.is_some() || pattern == "%S" || writer.disk.len() == last);
            }
            if let Some(quota) = policy.quota_bytes {
                // A record that fits no quota is written all the same: losing it is not for a file
                // name to decide.
                let longest = records.iter().map(|(_, bytes)| HEADER_BYTES + bytes).max().unwrap_or(0);
                prop_assert!(writer.bytes_max <= quota.get().max(longest));
            }
            for (bytes, times_ns) in writer.disk.values() {
                if let Some(size) = policy.size_max_bytes {
                    prop_assert!(*bytes <= size.get() || times_ns.len() == 1);
                }
                if let Some(FileInterval { length_ns, is_aligned }) = policy.interval {
                    let (first, last) = (times_ns[0], times_ns[times_ns.len() - 1]);
                    prop_assert!(last - first < length_ns.get());
                    prop_assert!(!is_aligned || first / length_ns == last / length_ns);
                }
            }
        }

        #[test]
        fn without_a_ring_no_name_comes_twice(
            size_max in 150..600_u64,
            records in records(),
            pattern in prop_oneof![Just("c.pcapng"), Just("%s_%N"), Just("%F")],
        ) {
            let mut names = write(rotator(size(size_max), pattern), records).names;
            let count = names.len();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), count);
        }
    }
}
