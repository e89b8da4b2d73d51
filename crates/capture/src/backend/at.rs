//! Frames before and behind the XDP program of a device.
//!
//! The programs that record them cannot run a translated filter, so the process runs it, on whole
//! frames.

use crate::backend::{AtFacts, Backend, RingCounts, SourceFacts, counts_of_rings, filter, quiesce};
use crate::memory::{MemoryBound, RingSize};
use crate::options::SNAPLEN_WHOLE;
use crate::reader::AttachedRing;
use crate::record::consumer::{Found, Probe, RingConsumer};
use crate::record::ring::{Batch, RingRecord};
use crate::sys::shared_ring::{RingReader, RingWatch};
use crate::{CaptureError, Mode, Options, cpus};
use ::filter::{BesideFrame, Classic};
use bpf::capture::RecordFormat;
use bpf::capture_at::{AtPlace, CaptureAt};
use host::Link;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The programs around that of a device, with a ring and counters per CPU.
pub(crate) struct AtBackend {
    programs: CaptureAt,
    ifname: String,
    filter: ProcessFilter,
    /// Frames of each ring that the filter rejected.
    rejected: Vec<Arc<AtomicU64>>,
    snaplen: usize,
    facts: SourceFacts,
    ring_size: RingSize,
}

impl AtBackend {
    /// Loads the programs.
    ///
    /// # Errors
    /// [`CaptureError::BadOption`]; those of filters; [`CaptureError::Bpf`] when the device has no
    /// program, or none that can be traced.
    pub(crate) fn open(link: &Link, options: &Options, at: AtPlace) -> Result<Self, CaptureError> {
        let possible = bpf::capture::possible_cpus()?;
        let bound = MemoryBound::of_this_process();
        let compile = |expression| filter::for_device(expression, link, SNAPLEN_WHOLE, &options.interrupted);
        let filter = options.filter.as_deref().map(compile).transpose()?;
        // A filter sees the frame, whatever is kept of it.
        let kept_len = match filter {
            Some(_) => Options::whole_len(link.mtu),
            None => options.kept_len(link.mtu),
        };
        let cpus = (cpus::online_end(possible), possible);
        let (geometry, ring_size) = options.geometry(kept_len, cpus, RecordFormat::Records, bound)?;
        let programs = CaptureAt::load(geometry, at, link.index, &link.name)?;
        let facts = SourceFacts::At(AtFacts { at, program: programs.traced().clone() });
        let beside = BesideFrame { is_outgoing: false, ifindex: link.index };
        Ok(Self {
            programs,
            ifname: link.name.clone(),
            filter: ProcessFilter {
                program: filter.map(|filter| (Arc::new(filter), beside)),
                ..ProcessFilter::default()
            },
            rejected: (0..geometry.rings).map(|_| Arc::default()).collect(),
            snaplen: options.snaplen as usize,
            facts,
            ring_size,
        })
    }
}

impl Backend for AtBackend {
    fn attach(&mut self, _: i64) -> Result<Vec<AttachedRing>, CaptureError> {
        self.programs.attach(&self.ifname)?;
        let readers = RingReader::all(self.programs.memory()).into_iter().zip(&self.rejected);
        let ring = |(reader, rejected): (RingReader, &Arc<AtomicU64>)| AttachedRing {
            cpu: Some(reader.cpu()),
            knows_queues: true,
            source: Box::new(AtConsumer::new(
                reader,
                self.filter.clone(),
                Arc::clone(rejected),
                self.snaplen,
            )),
        };
        Ok(readers.map(ring).collect())
    }

    fn facts(&self) -> SourceFacts {
        self.facts.clone()
    }

    fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    fn needs_program(&self) -> Option<u32> {
        Some(self.programs.traced().id)
    }

    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        match mode {
            Mode::Mirror => Ok(()),
            Mode::Drop => Err(CaptureError::DropAtProgram { ifname: self.ifname.clone() }),
        }
    }

    /// The session looks for the device and its program.
    fn is_gone(&self) -> bool {
        false
    }

    fn counts(&self) -> Vec<RingCounts> {
        let rejected = |cpu: u32| self.rejected.get(cpu as usize);
        counts_of_rings(self.programs.memory(), |cpu| rejected(cpu).map_or(0, |count| count.load(Relaxed)))
    }

    fn detach(&mut self) {
        self.programs.detach();
        quiesce::wait_for_last_frames(|| self.counts().iter().map(|ring| ring.received).sum());
    }
}

/// The ring of one CPU.
struct AtConsumer {
    reader: RingReader,
    filter: ProcessFilter,
    rejected: Arc<AtomicU64>,
    snaplen: usize,
    /// Bytes of the records in view.
    in_view: usize,
    found: Found,
}

impl AtConsumer {
    fn new(reader: RingReader, filter: ProcessFilter, rejected: Arc<AtomicU64>, snaplen: usize) -> Self {
        Self { reader, filter, rejected, snaplen, in_view: 0, found: Found::default() }
    }
}

impl RingConsumer for AtConsumer {
    fn peek(&mut self, len_max: usize) -> u64 {
        loop {
            let pending = self.reader.pending();
            let (accepted, len) = self.filter.look(self.reader.filled(), len_max);
            self.in_view = len;
            self.found = Found::of_bytes(pending, len as u64, self.reader.shape().size_bytes());
            self.rejected.fetch_add(self.filter.count - accepted, Relaxed);
            if accepted > 0 || len == 0 {
                return accepted;
            }
            self.release();
        }
    }

    fn found(&self) -> Found {
        self.found
    }

    fn for_each(&self, count: u64, mut take: impl FnMut(RingRecord<'_>)) {
        self.filter.for_each(self.reader.filled(), count, |record| {
            take(RingRecord { data: &record.data[..record.data.len().min(self.snaplen)], ..record });
        });
    }

    fn release(&mut self) {
        self.filter.release();
        self.reader.give_back(std::mem::take(&mut self.in_view) as u64);
    }

    fn is_filling(&self) -> bool {
        let size_bytes = self.reader.shape().size_bytes();
        self.reader.pending() >= size_bytes - size_bytes / 4
    }

    fn probe(&self) -> Option<Box<dyn Probe>> {
        Some(Box::new(AtProbe { watch: self.reader.watch(), rejected: Arc::clone(&self.rejected) }))
    }
}

/// A filter over the records in view.
#[derive(Clone, Debug, Default)]
struct ProcessFilter {
    /// `None` accepts all records.
    program: Option<(Arc<Classic>, BesideFrame)>,
    /// Records in view.
    count: u64,
    /// For each of them, whether it is accepted; empty without a program.
    accepted: Vec<bool>,
    /// Frames that were lost before records that were rejected, since the last one that was
    /// accepted: the next one tells of them.
    lost_before: u32,
    /// The value of `lost_before` once the records in view are released.
    lost_behind: u32,
}

impl ProcessFilter {
    /// Takes the first records of `batch`, of about `len_max` bytes, into view. Returns how many
    /// are accepted, and the bytes of all.
    fn look(&mut self, batch: Batch<'_>, len_max: usize) -> (u64, usize) {
        let Self { program, count, accepted, lost_before, lost_behind } = self;
        accepted.clear();
        *lost_behind = *lost_before;
        let (measured, len) = batch.measure_each(len_max, |raw| {
            let Some((filter, beside)) = program else { return };
            let record = raw.record();
            let is_accepted = filter.run_beside(record.data, record.frame_len, *beside) > 0;
            accepted.push(is_accepted);
            *lost_behind = if is_accepted { 0 } else { lost_behind.saturating_add(record.lost_before) };
        });
        *count = measured;
        let rejected = accepted.iter().filter(|is_accepted| !**is_accepted).count() as u64;
        (measured - rejected, len)
    }

    /// Shows the first `count` accepted records in view.
    fn for_each(&self, batch: Batch<'_>, count: u64, mut take: impl FnMut(RingRecord<'_>)) {
        let (mut left, mut lost, mut accepted) = (count, self.lost_before, self.accepted.iter());
        batch.for_each(self.count, |_, raw| {
            let is_accepted = accepted.next().copied().unwrap_or(true);
            if left == 0 {
                return;
            }
            let record = raw.record();
            lost = lost.saturating_add(record.lost_before);
            if is_accepted {
                left -= 1;
                take(RingRecord { lost_before: std::mem::take(&mut lost), ..record });
            }
        });
    }

    /// No record is in view any more.
    fn release(&mut self) {
        self.count = 0;
        self.lost_before = self.lost_behind;
    }
}

struct AtProbe {
    watch: RingWatch,
    rejected: Arc<AtomicU64>,
}

impl Probe for AtProbe {
    fn filled(&self) -> u64 {
        self.watch.captured().saturating_sub(self.rejected.load(Relaxed))
    }

    fn used(&self) -> f64 {
        RingWatch::used(&self.watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ring::samples;
    use ::filter::Instruction;
    use bpf::abi::{Record, RecordKind};

    /// Records of frames: their length, and the frames lost before each.
    fn ring(frames: &[(u32, u32)]) -> Vec<u8> {
        let kind = (RecordKind::WR_RECORD.0 | RecordKind::WR_RECORD_VERDICT.0) as u16;
        let record = |(frame_len, lost_before): &(u32, u32)| {
            let head = Record {
                kind,
                frame_len: *frame_len,
                captured_len: 8,
                lost_before: *lost_before,
                ..bpf::abi::zeroed()
            };
            samples::record(&head, &[7; 8], frame_len % 5)
        };
        frames.iter().flat_map(record).collect()
    }

    /// Accepts frames of 100 bytes or more.
    fn long_frames() -> ProcessFilter {
        let step = |code, jf, k| Instruction { code, jt: 0, jf, k };
        // Load the length; jump behind the next one unless it is at least 100; all; nothing.
        let program = [step(0x80, 0, 0), step(0x35, 1, 100), step(0x06, 0, u32::MAX), step(0x06, 0, 0)];
        let program = Classic::new(program.to_vec()).expect("a filter");
        let beside = BesideFrame { is_outgoing: false, ifindex: 1 };
        ProcessFilter { program: Some((Arc::new(program), beside)), ..ProcessFilter::default() }
    }

    /// Length, losses and verdict of the records that are shown.
    fn shown(filter: &ProcessFilter, bytes: &[u8], count: u64) -> Vec<(u32, u32, Option<u32>)> {
        let mut shown = Vec::new();
        filter.for_each(Batch::new(bytes, bytes.len()), count, |record| {
            shown.push((record.frame_len, record.lost_before, record.xdp_verdict));
        });
        shown
    }

    #[test]
    fn the_next_accepted_frame_tells_of_losses_before_rejected_ones() {
        let mut filter = long_frames();
        let bytes = ring(&[(60, 3), (100, 4), (60, 5), (60, 6)]);
        assert_eq!(filter.look(Batch::new(&bytes, bytes.len()), usize::MAX), (1, bytes.len()));
        assert_eq!(shown(&filter, &bytes, 1), [(100, 7, Some(0))]);
        assert_eq!(shown(&filter, &bytes, 0), []);
        filter.release();
        let bytes = ring(&[(60, 1)]);
        assert_eq!(filter.look(Batch::new(&bytes, bytes.len()), usize::MAX), (0, bytes.len()));
        filter.release();
        let bytes = ring(&[(101, 0), (103, 2), (104, 0)]);
        assert_eq!(filter.look(Batch::new(&bytes, bytes.len()), usize::MAX), (3, bytes.len()));
        assert_eq!(shown(&filter, &bytes, 2), [(101, 12, Some(1)), (103, 2, Some(3))]);
    }

    #[test]
    fn without_a_filter_all_frames_are_shown() {
        let mut filter = ProcessFilter::default();
        let bytes = ring(&[(60, 3), (100, 0)]);
        assert_eq!(filter.look(Batch::new(&bytes, bytes.len()), usize::MAX), (2, bytes.len()));
        assert_eq!(shown(&filter, &bytes, 2), [(60, 3, Some(0)), (100, 0, Some(0))]);
    }
}
