//! The writer thread: batches of all readers in, files out.
//!
//! Readers do not wait for a disk while there are buffers. This thread orders batches, writes them,
//! returns buffers, and counts written and lost records.

use crate::options::WINDOW_NS_DEFAULT;
use crate::order::merge::MergeReport;
use crate::order::reorder::{ChunkSink, Reorderer};
use crate::output::accounting::Accounting;
use crate::output::display::DisplayWriter;
use crate::output::fileset::{FileSet, FilesEnd};
use crate::output::ledger::OutputCounts;
use crate::output::recorder::Recorder;
use crate::output::split::Splitter;
use crate::reader::{Shared, keep_off};
use crate::record::batch::{self, Chunk, EncodedBatch, IndexEntry};
use crate::record::ring_handle::RingHandle;
use crate::time::utc::utc_now_ns;
use crate::to_writer::receive;
use crate::{Order, sys};
use host::Capability;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// Time between two looks at rings that may have something older than what is at hand. While frames
/// come, runs come more often than this, and each is a reason to look.
const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// What the writer keeps of root's rights.
const KEPT: [Capability; 2] = [Capability::DacOverride, Capability::Fowner];
/// Time between two looks at what is due by time alone; others see what was written after two of
/// them.
const TICK: Duration = Duration::from_millis(100);

/// A time stamp so many nanoseconds in the future is from before the clock was set back. Errors of
/// the clocks of cards and of our offset to UTC are smaller.
const AHEAD_NS_MAX: u64 = 10_000_000;

/// What is known of the writer while it runs.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Bytes of all files.
    pub(crate) bytes: AtomicU64,
}

/// What the user asks of the writer while it runs.
#[derive(Debug)]
pub(crate) enum WriterOrder {
    /// End the file at hand and begin the next one. The answer has the names of the files that
    /// ended, or why none does.
    Rotate(SyncSender<Result<Vec<String>, String>>),
    /// Write what is in the files to the disk. The answer comes when it is there.
    Sync(SyncSender<()>),
    /// Save what the recorder keeps, for this reason. The answer has the name of the file.
    Save(String, SyncSender<Result<String, String>>),
}

/// The thread that orders batches and writes files.
pub(crate) struct CaptureWriter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) written: Arc<Written>,
    /// By number of the ring.
    pub(crate) rings: Vec<Arc<RingHandle>>,
    pub(crate) batches: Receiver<Vec<EncodedBatch>>,
    pub(crate) orders: Receiver<WriterOrder>,
    pub(crate) order: Order,
    /// One, one for each ring, device or output; none if frames are only shown.
    pub(crate) files: Vec<FileSet>,
    /// The place in `files` for the records of each ring.
    pub(crate) file_of_ring: Vec<usize>,
    /// Takes all records instead of files.
    pub(crate) recorder: Option<Recorder>,
    /// Shows records to people.
    pub(crate) display: Option<DisplayWriter>,
    /// Decides which of several outputs get a record: `files` has the files of each.
    pub(crate) splitter: Option<Splitter>,
}

/// How writing ended.
#[derive(Default)]
pub(crate) struct WriterReport {
    /// One for each of the writer's files.
    pub(crate) files: Vec<FilesEnd>,
    /// What became of the frames of each of several outputs.
    pub(crate) counts: Vec<OutputCounts>,
    /// How well the order of time was kept; `None` without that order.
    pub(crate) merge: Option<MergeReport>,
    /// The recorder, which has ended.
    pub(crate) recorder: Option<Recorder>,
}

impl CaptureWriter {
    /// Writes until the last reader has ended.
    pub(crate) fn run(self) -> WriterReport {
        // As readers do: what is slow here fills their rings.
        let _ = sys::run_before_others();
        // Files that follow may lie in folders of other users; nothing else needs a right.
        let _ = host::keep_capabilities(&KEPT);
        let window_ns = match self.order {
            Order::Time { window_ns } => Some(window_ns),
            Order::AsTheyCome | Order::FilePerRing => None,
        };
        let Self {
            shared,
            written,
            rings,
            batches,
            orders,
            files,
            file_of_ring,
            recorder,
            display,
            splitter,
            ..
        } = self;
        let placement = CpuPlacement::new(&rings);
        let margin_ns = window_ns.unwrap_or(WINDOW_NS_DEFAULT);
        let state = WriterState {
            shared,
            written,
            rings,
            files,
            file_of_ring,
            placement,
            margin_ns,
            ticked: Instant::now(),
            orders,
            recorder,
            display,
            splitter,
        };
        match window_ns {
            Some(window_ns) => in_order_of_time(state, &batches, window_ns),
            None => as_they_come(state, &batches),
        }
    }
}

fn as_they_come(mut state: WriterState, batches: &Receiver<Vec<EncodedBatch>>) -> WriterReport {
    loop {
        match receive(batches, TICK) {
            Ok(sent) => sent.into_iter().for_each(|batch| state.write_batch(batch)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return state.end(None),
        }
        state.write_packed_at_limit();
        state.obey();
        if state.is_tick_due() {
            let empty_ns = state.empty_ns();
            // After the rings were looked at: what they held is in the channel, if not further.
            let late =
                batches.try_recv().map(|sent| sent.into_iter().for_each(|batch| state.write_batch(batch)));
            state.tick(late.is_err().then_some(empty_ns));
        }
    }
}

fn in_order_of_time(
    mut state: WriterState,
    batches: &Receiver<Vec<EncodedBatch>>,
    window_ns: u64,
) -> WriterReport {
    let mut reorderer = Reorderer::new(state.rings.len(), window_ns);
    loop {
        let timeout = if reorderer.holds_any() { POLL_INTERVAL } else { TICK };
        match receive(batches, timeout) {
            Ok(sent) => sent.into_iter().for_each(|batch| reorderer.push(batch, &mut state)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                reorderer.end();
                reorderer.advance(false, &mut state);
                reorderer.flush(&mut state);
                return state.end(Some(reorderer.report()));
            }
        }
        while poll_rings(&mut reorderer, &mut state, batches) {}
        reorderer.flush(&mut state);
        state.write_packed_at_limit();
        state.obey();
        if state.is_tick_due() {
            let settled = all_handed_on(&mut reorderer, &mut state, batches);
            state.tick(settled);
        }
    }
}

/// When each ring was empty, if everything that they had until then is in the files.
fn all_handed_on(
    reorderer: &mut Reorderer,
    state: &mut WriterState,
    batches: &Receiver<Vec<EncodedBatch>>,
) -> Option<Vec<u64>> {
    let empty_ns = state.empty_ns();
    // After the rings were looked at: what they held is in the channel, if not further.
    batches.try_iter().take(1).flatten().for_each(|batch| reorderer.push(batch, state));
    (!reorderer.holds_any()).then_some(empty_ns)
}

/// Takes the batches that came meanwhile, finds out which rings are empty, and writes the records
/// that are due. True if there were any.
fn poll_rings(
    reorderer: &mut Reorderer,
    state: &mut WriterState,
    batches: &Receiver<Vec<EncodedBatch>>,
) -> bool {
    let empty: Vec<(usize, u64)> = match reorderer.holds_any() {
        true => reorderer.empty_rings().map(|ring| (ring, state.empty_at_ns(ring))).collect(),
        false => Vec::new(),
    };
    // After the rings were looked at: what they held is here now.
    batches.try_iter().flatten().for_each(|batch| reorderer.push(batch, state));
    for (ring, checked_ns) in empty {
        reorderer.was_empty(ring, checked_ns);
    }
    if !reorderer.holds_any() {
        return false;
    }
    let latest_ns = state.shared.clock.now_ns() + AHEAD_NS_MAX;
    reorderer.detect_clock_step(latest_ns);
    let has_moved = reorderer.advance(false, state);
    has_moved
        || reorderer.flush_future(latest_ns, state)
        || (state.is_pressed() && reorderer.advance(true, state))
}

/// What the writer works with.
struct WriterState {
    shared: Arc<Shared>,
    written: Arc<Written>,
    rings: Vec<Arc<RingHandle>>,
    files: Vec<FileSet>,
    file_of_ring: Vec<usize>,
    placement: CpuPlacement,
    /// From the stamp of a frame until it can be seen in its ring, at most, in nanoseconds; beyond
    /// what the ring says.
    margin_ns: u64,
    ticked: Instant,
    orders: Receiver<WriterOrder>,
    recorder: Option<Recorder>,
    display: Option<DisplayWriter>,
    splitter: Option<Splitter>,
}

impl ChunkSink for WriterState {
    fn chunk(&mut self, chunk: &Chunk<'_>) {
        let accounting = Accounting::new(&self.rings, &self.shared.limit);
        if let Some(splitter) = &mut self.splitter {
            splitter.append(chunk, &mut self.files, self.display.as_mut(), &accounting);
            return self.note();
        }
        if let Some(display) = &mut self.display {
            display.take(chunk, &self.rings);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.append(chunk, &accounting);
        } else if self.files.is_empty() {
            // Frames that are only shown and counted.
            accounting.settle_chunk(chunk, chunk.index.len());
        } else if let [file] = &mut self.files[..] {
            file.append(chunk, &accounting);
        } else {
            let file_of = |entry: &IndexEntry| self.file_of_ring[entry.ring()];
            let mut rest = chunk.bytes;
            for index in chunk.index.chunk_by(|a, b| file_of(a) == file_of(b)) {
                let (bytes, behind) = rest.split_at(batch::len_of(index));
                self.files[file_of(&index[0])].append(&Chunk::new(bytes, index), &accounting);
                rest = behind;
            }
        }
        self.note();
    }

    fn recycle(&mut self, ring: usize, batch: EncodedBatch) {
        self.rings[ring].pool.give_back(batch);
    }
}

impl WriterState {
    fn empty_at_ns(&self, ring: usize) -> u64 {
        self.rings[ring].empty_at_ns(&self.shared.clock)
    }

    /// For each ring a time, in nanoseconds since 1970: all records stamped before it are in the
    /// channel by now. 0 for a ring without one.
    fn empty_ns(&self) -> Vec<u64> {
        (0..self.rings.len()).map(|ring| self.empty_at_ns(ring)).collect()
    }

    /// Writes a batch as it came.
    fn write_batch(&mut self, batch: EncodedBatch) {
        self.chunk(&batch.chunk());
        self.recycle(batch.index[0].ring(), batch);
    }

    /// Calls `act` for all files, with the accounting of each.
    fn for_each_file(&mut self, mut act: impl FnMut(&mut FileSet, &Accounting<'_>)) {
        let accounting = Accounting::new(&self.rings, &self.shared.limit);
        match &self.splitter {
            Some(splitter) => splitter.of_outputs(&mut self.files, &accounting, act),
            None => self.files.iter_mut().for_each(|file| act(file, &accounting)),
        }
    }

    /// True when a reader is about to run out of buffers.
    fn is_pressed(&self) -> bool {
        self.rings.iter().any(|ring| ring.pool.is_short())
    }

    /// When all records are handed out, the end of the capture waits only for the packer.
    fn write_packed_at_limit(&mut self) {
        let limit = &self.shared.limit;
        if limit.is_spent() && !limit.is_reached() {
            self.for_each_file(|file, accounting| file.write_packed(accounting));
            self.note();
        }
    }

    fn is_tick_due(&self) -> bool {
        self.ticked.elapsed() >= TICK
    }

    /// Carries out what the user asked for.
    fn obey(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            let accounting = Accounting::new(&self.rings, &self.shared.limit);
            match order {
                WriterOrder::Rotate(answer) if self.recorder.is_some() => {
                    let why = "it makes a file for each trigger; `wirerate ctl DEV save` makes one now";
                    let _ = answer.send(Err(why.to_owned()));
                }
                WriterOrder::Rotate(answer) => {
                    let mut ended = Vec::new();
                    self.for_each_file(|file, accounting| ended.push(file.rotate_now(accounting)));
                    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>();
                    // Who asked may have stopped waiting.
                    let _ = answer.send(ended.map(|names| names.into_iter().flatten().collect()));
                }
                WriterOrder::Save(reason, answer) => {
                    let now_ns = self.shared.clock.now_ns();
                    let saved = match &mut self.recorder {
                        Some(recorder) => recorder.save_now(&reason, now_ns, &accounting),
                        None => Err("it keeps no frames for a save (--keep 30s)".to_owned()),
                    };
                    let _ = answer.send(saved);
                }
                WriterOrder::Sync(answer) => {
                    self.for_each_file(FileSet::sync);
                    let _ = answer.send(());
                }
            }
            self.note();
        }
    }

    /// `empty_ns` says when each ring was empty, with everything from before in the files; `None`
    /// when records are on their way, which may belong to the files at hand whatever the clock
    /// says.
    fn tick(&mut self, empty_ns: Option<Vec<u64>>) {
        self.ticked = Instant::now();
        let accounting = Accounting::new(&self.rings, &self.shared.limit);
        let empty_ns = empty_ns.unwrap_or_default();
        if let Some(recorder) = &mut self.recorder {
            let settled_ns = empty_ns.iter().min().map_or(0, |ns| ns.saturating_sub(self.margin_ns));
            recorder.tick(settled_ns, self.shared.clock.now_ns(), &accounting);
        }
        let (mut number, margin_ns) = (0, self.margin_ns);
        let (is_split, file_of_ring) = (self.splitter.is_some(), std::mem::take(&mut self.file_of_ring));
        self.for_each_file(|file, accounting| {
            let is_of_file = |(_, file): &(&u64, &usize)| is_split || **file == number;
            let of_file = empty_ns.iter().zip(&file_of_ring).filter(is_of_file);
            let empty_ns = of_file.map(|(empty_ns, _)| *empty_ns).min().unwrap_or(0);
            file.tick(empty_ns.saturating_sub(margin_ns), accounting);
            number += 1;
        });
        self.file_of_ring = file_of_ring;
        self.display.iter_mut().for_each(DisplayWriter::tick);
        self.placement.choose(&self.rings);
        self.note();
    }

    fn note(&self) {
        let saved = self.recorder.as_ref().map_or(0, |recorder| recorder.file_bytes);
        self.written.bytes.store(self.files.iter().map(FileSet::len).sum::<u64>() + saved, Relaxed);
        if self.files.iter().any(FileSet::has_failed) {
            self.shared.has_failed.store(true, Relaxed);
        }
    }

    fn end(mut self, merge: Option<MergeReport>) -> WriterReport {
        let accounting = Accounting::new(&self.rings, &self.shared.limit);
        self.display.into_iter().for_each(DisplayWriter::finish);
        self.recorder.iter_mut().for_each(|recorder| recorder.finish(&accounting));
        let saved = self.recorder.as_ref().map_or(0, |recorder| recorder.file_bytes);
        let now_ns = utc_now_ns();
        let end = |(number, file): (usize, FileSet)| match &self.splitter {
            Some(splitter) => file.finish(now_ns, &accounting.of_output(&splitter.ledger, number)),
            None => file.finish(now_ns, &accounting),
        };
        let files: Vec<FilesEnd> = self.files.into_iter().enumerate().map(end).collect();
        let counts = self.splitter.map_or_else(Vec::new, |splitter| splitter.ledger.into_inner().counts);
        self.written.bytes.store(files.iter().map(|file| file.bytes).sum::<u64>() + saved, Relaxed);
        WriterReport { files, counts, merge, recorder: self.recorder }
    }
}

/// Where the writer runs: off the CPUs that receive much, where it would only get what softirqs
/// leave over.
struct CpuPlacement {
    allowed: Option<CpuSet>,
    /// What each ring had been taken from it when last looked.
    taken: Vec<u64>,
    busy: Vec<u32>,
}

impl CpuPlacement {
    /// Frames of a ring within a tick that make its CPU a busy one: a hundred thousand a second.
    const BUSY: u64 = 10_000;

    fn new(rings: &[Arc<RingHandle>]) -> Self {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok();
        Self { allowed, taken: vec![0; rings.len()], busy: Vec::new() }
    }

    fn choose(&mut self, rings: &[Arc<RingHandle>]) {
        let mut busy = Vec::new();
        for (ring, before) in rings.iter().zip(&mut self.taken) {
            let taken = ring.progress.taken();
            if taken - *before > Self::BUSY {
                busy.extend(ring.cpu);
            }
            *before = taken;
        }
        if busy != self.busy {
            self.busy = busy;
            self.allowed.iter().for_each(|allowed| keep_off(*allowed, &self.busy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::interfaces::FileHead;
    use crate::output::accounting::Limit;
    use crate::output::fileset::FileSettings;
    use crate::output::rotate::{FileInterval, RotatePolicy};
    use crate::record::batch::samples;
    use crate::time::utc::UtcClock;
    use crate::{OnError, Output};
    use std::num::NonZeroU64;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use testkit::Folder;

    const S: u64 = 1_000_000_000;
    const MARGIN_NS: u64 = 100;

    /// The files that are complete.
    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.ends_with(".part"));
        names.sort();
        names
    }

    /// A file for each full second, of two rings.
    fn state(folder: &Path) -> WriterState {
        let interval = FileInterval { length_ns: NonZeroU64::new(S).unwrap(), is_aligned: true };
        let settings = FileSettings {
            head: FileHead::for_test(Format::Pcapng),
            trailer: Arc::new(|_: &crate::output::accounting::FileCounts| Vec::new()),
            statistics_len_max: 0,
            counts_interfaces: false,
            rotate: RotatePolicy { interval: Some(interval), ..RotatePolicy::default() },
            utc_offset_s: 0,
            compression: None,
            columns: None,
            on_error: OnError::default(),
            preallocate_bytes: 0,
            is_direct: false,
            is_ending: Arc::default(),
            unpacked_bytes: AtomicU64::new(0),
        };
        let files = FileSet::create(Output::File(folder.join("%s.pcapng")), Arc::new(settings), None, 0);
        let rings = vec![RingHandle::for_test(), RingHandle::for_test()];
        let shared = Shared {
            clock: UtcClock::new(),
            limit: Limit::new(None),
            is_draining: Arc::default(),
            has_failed: AtomicBool::new(false),
        };
        WriterState {
            shared: Arc::new(shared),
            written: Arc::default(),
            placement: CpuPlacement::new(&rings),
            rings,
            files: vec![files.unwrap().unwrap()],
            file_of_ring: vec![0; 2],
            margin_ns: MARGIN_NS,
            ticked: Instant::now(),
            orders: channel().1,
            recorder: None,
            display: None,
            splitter: None,
        }
    }

    fn batch(state: &WriterState, ring: u16, time_ns: u64) -> EncodedBatch {
        let mut batch = state.rings[usize::from(ring)].pool.take(Duration::ZERO).unwrap();
        samples::add(&mut batch, ring, 0, time_ns, &[7; 60]);
        batch
    }

    impl WriterState {
        fn write_one(&mut self, ring: u16, time_ns: u64) {
            let batch = batch(self, ring, time_ns);
            self.write_batch(batch);
        }
    }

    #[test]
    fn a_file_of_an_interval_waits_for_records_of_it_that_are_still_in_a_ring() {
        let folder = Folder::new("interval");
        let mut state = state(&folder);
        state.write_one(0, 15 * S / 10);
        // By the clock the second is over, but one ring was last seen empty before its end.
        state.rings[0].progress.was_empty_at(9 * S);
        state.rings[1].progress.was_empty_at(2 * S + MARGIN_NS - 1);
        state.tick(Some(state.empty_ns()));
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
        state.write_one(1, 2 * S - 1);
        state.rings[1].progress.was_empty_at(2 * S + MARGIN_NS);
        state.tick(None);
        assert!(names(&folder).is_empty(), "records are on their way");
        state.tick(Some(state.empty_ns()));
        assert_eq!(names(&folder), ["1.pcapng"]);
        state.write_one(0, 2 * S);
        assert_eq!(state.end(None).files[0].count, Some(2));
        assert_eq!(names(&folder), ["1.pcapng", "2.pcapng"], "and none that is named like another");
    }

    /// The UTC goes back by an hour while records of before wait for another ring.
    #[test]
    fn records_of_a_time_to_come_do_not_wait_for_it() {
        let folder = Folder::new("step");
        let mut state = state(&folder);
        let mut reorderer = Reorderer::new(2, MARGIN_NS);
        let (sender, batches) = channel();
        let now_ns = state.shared.clock.now_ns();
        sender.send(vec![batch(&state, 0, now_ns + 3_600 * S)]).unwrap();
        sender.send(vec![batch(&state, 1, now_ns - S)]).unwrap();
        while poll_rings(&mut reorderer, &mut state, &batches) {}
        reorderer.flush(&mut state);
        assert_eq!([0, 1].map(|ring| state.rings[ring].counts.get().written), [1, 1]);
        assert_eq!(reorderer.report().ahead, 1);
    }

    #[test]
    fn records_in_the_channel_or_waiting_for_their_turn_are_not_handed_on_yet() {
        let folder = Folder::new("channel");
        let mut state = state(&folder);
        let mut reorderer = Reorderer::new(2, MARGIN_NS);
        let (sender, batches) = channel();
        state.rings.iter().for_each(|ring| ring.progress.was_empty_at(5 * S));
        sender.send(vec![batch(&state, 0, S)]).unwrap();
        assert_eq!(all_handed_on(&mut reorderer, &mut state, &batches), None, "one is in the channel");
        assert_eq!(all_handed_on(&mut reorderer, &mut state, &batches), None, "it is in the reorderer now");
        while poll_rings(&mut reorderer, &mut state, &batches) {}
        reorderer.flush(&mut state);
        assert_eq!(all_handed_on(&mut reorderer, &mut state, &batches), Some(vec![5 * S, 5 * S]));
        assert_eq!(state.rings[0].counts.get().written, 1);
    }
}
