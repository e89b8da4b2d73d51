//! Frames before and behind the XDP program of a device.
//!
//! The programs that record them cannot run a translated filter, so the process runs it, on whole
//! frames.

use super::xdp::much;
use crate::backend::{AtFacts, Backend, RingCounts, SourceFacts, filter, quiesce};
use crate::memory::{MemoryBound, RingSize};
use crate::options::SNAPLEN_WHOLE;
use crate::reader::AttachedRing;
use crate::record::consumer::{Probe, RingConsumer};
use crate::record::pool::BUFFER_LEN;
use crate::record::ring::RingRecord;
use crate::sys::shared_ring::{self, RingReader, RingWatch};
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
    filter: Option<(Arc<Classic>, BesideFrame)>,
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
            filter: filter.map(|filter| (Arc::new(filter), beside)),
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
        let memory = self.programs.memory();
        let counts = (0..memory.geometry().cpus).map(|cpu| {
            let rejected = self.rejected.get(cpu as usize).map_or(0, |rejected| rejected.load(Relaxed));
            let program = shared_ring::counts(memory, cpu);
            RingCounts {
                cpu,
                received: program.captured + program.lost_ring,
                received_bytes: program.frame_bytes,
                filtered: Some(rejected),
                captured: program.captured.saturating_sub(rejected),
                lost_ring: program.lost_ring,
            }
        });
        counts.filter(|counts| counts.cpu < memory.geometry().rings || counts.received > 0).collect()
    }

    fn detach(&mut self) {
        self.programs.detach();
        quiesce::wait_for_last_frames(|| self.counts().iter().map(|ring| ring.received).sum());
    }
}

/// The ring of one CPU.
struct AtConsumer {
    reader: RingReader,
    filter: Option<(Arc<Classic>, BesideFrame)>,
    rejected: Arc<AtomicU64>,
    snaplen: usize,
    /// Of the records in view: their bytes, their number, and which the filter accepts; with no
    /// filter there is nothing in the list.
    in_view: usize,
    in_view_count: u64,
    accepted: Vec<bool>,
    /// Frames that were lost before the first record in view, and told by records that the filter
    /// rejected.
    lost_before: u32,
    /// The same for the next records.
    lost_behind: u32,
    /// Bytes that the ring held when it was looked at.
    pending: u64,
    /// More than this is much.
    much: u64,
}

impl AtConsumer {
    fn new(
        reader: RingReader,
        filter: Option<(Arc<Classic>, BesideFrame)>,
        rejected: Arc<AtomicU64>,
        snaplen: usize,
    ) -> Self {
        let much = much(reader.shape().size_bytes(), BUFFER_LEN as u64);
        Self {
            reader,
            filter,
            rejected,
            snaplen,
            in_view: 0,
            in_view_count: 0,
            accepted: Vec::new(),
            lost_before: 0,
            lost_behind: 0,
            pending: 0,
            much,
        }
    }

    /// Takes records into view, and says how many the filter accepts.
    fn look(&mut self, len_max: usize) -> u64 {
        self.pending = self.reader.pending();
        self.accepted.clear();
        self.lost_behind = self.lost_before;
        let batch = self.reader.filled();
        (self.in_view_count, self.in_view) = batch.measure_each(len_max, |raw| {
            let Some((filter, beside)) = &self.filter else { return };
            let record = raw.record();
            let is_accepted = filter.run_beside(record.data, record.frame_len, *beside) > 0;
            self.accepted.push(is_accepted);
            self.lost_behind = match is_accepted {
                true => 0,
                false => self.lost_behind.saturating_add(record.lost_before),
            };
        });
        if self.filter.is_none() {
            return self.in_view_count;
        }
        let count = self.accepted.iter().filter(|is_accepted| **is_accepted).count() as u64;
        self.rejected.fetch_add(self.in_view_count - count, Relaxed);
        count
    }
}

impl RingConsumer for AtConsumer {
    fn peek(&mut self, len_max: usize) -> u64 {
        loop {
            let count = self.look(len_max);
            if count > 0 || self.in_view_count == 0 {
                return count;
            }
            self.release();
        }
    }

    fn held_much(&self) -> bool {
        self.pending > self.much
    }

    fn held_little(&self) -> bool {
        self.pending <= self.much / 2
    }

    fn for_each(&self, count: u64, mut take: impl FnMut(RingRecord<'_>)) {
        let (mut left, mut lost, mut number) = (count, self.lost_before, 0);
        self.reader.filled().for_each(self.in_view_count, |_, raw| {
            let is_accepted = self.accepted.get(number).copied().unwrap_or(true);
            number += 1;
            if left == 0 {
                return;
            }
            let record = raw.record();
            lost = lost.saturating_add(record.lost_before);
            if is_accepted {
                left -= 1;
                let data = &record.data[..record.data.len().min(self.snaplen)];
                take(RingRecord { data, lost_before: std::mem::take(&mut lost), ..record });
            }
        });
    }

    fn release(&mut self) {
        self.in_view_count = 0;
        self.lost_before = self.lost_behind;
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
