//! One thread per ring: takes filled slots, encodes them, releases them, and passes the batch to
//! the writer.

use crate::output::accounting::Limit;
use crate::record::batch::EncodedBatch;
use crate::record::consumer::{Found, Probe, RingConsumer};
use crate::record::encode::Encoder;
use crate::record::pool::BUFFER_LEN;
use crate::record::ring::{RingRecord, TimeSource};
use crate::record::ring_handle::RingHandle;
use crate::sys;
use crate::time::utc::UtcClock;
use crate::to_writer::ToWriter;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Shortest sleep over an empty ring.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// Batches that are sent together, at most: what the cache of a CPU still holds when they come back
/// as buffers.
const UNSENT_MAX: usize = 2;
/// How long to wait for a buffer before looking again how full the ring is.
const BUFFER_WAIT: Duration = Duration::from_micros(200);

/// State shared by the readers, the writer and the session.
pub(crate) struct Shared {
    pub(crate) clock: UtcClock,
    pub(crate) limit: Limit,
    /// True when nothing is added to the rings any more, so that an empty one means the end.
    pub(crate) is_draining: Arc<AtomicBool>,
    /// True once the output refused something and nothing more is to be written.
    pub(crate) has_failed: AtomicBool,
}

/// One reader's place in the session.
pub(crate) struct BatchReader {
    pub(crate) shared: Arc<Shared>,
    pub(crate) encoder: Encoder,
    pub(crate) ring: Arc<RingHandle>,
    /// Where batches go; `None` when frames are only counted.
    pub(crate) writer: Option<ToWriter>,
    /// Frames dropped because no buffer was free, and not yet reported in the file.
    pub(crate) lost_here: u32,
    /// What the next call of [`Self::send`] sends.
    pub(crate) unsent: Unsent,
}

/// Batches on their way to the writer. They are sent together: each time that the writer waits and
/// is woken costs as much as hundreds of frames.
#[derive(Default)]
pub(crate) struct Unsent {
    batches: Vec<EncodedBatch>,
    /// Records taken from the ring, those that are not to be written as well.
    records: u64,
}

impl BatchReader {
    /// Empties one ring until the end.
    pub(crate) fn run(mut self, mut source: impl RingConsumer) {
        if let (Some(cpu), Ok(allowed)) = (self.ring.cpu, sched_getaffinity(Pid::from_raw(0))) {
            keep_off(allowed, &[cpu]);
        }
        // Without the right to it the reader is one thread among others, and losses are counted as
        // ever.
        let _ = sys::run_before_others();
        // What a reader does from here on needs no right.
        let _ = host::keep_capabilities(&[]);
        source.begin(self.encoder.ring());
        let mut pause = Pause::default();
        loop {
            // Asked before looking: what came until then is seen.
            let is_last_look = self.shared.is_draining.load(Relaxed);
            let before_ns = self.shared.clock.now_ns();
            let taken = self.take_batch(&mut source);
            if taken == 0 {
                self.ring.progress.was_empty_at(before_ns);
                if is_last_look {
                    return;
                }
            }
            if !is_last_look {
                pause.after(&source);
            }
        }
    }

    /// Handles one batch; 0 when the ring was empty.
    fn take_batch(&mut self, source: &mut impl RingConsumer) -> u64 {
        source.set_utc_offset(self.shared.clock.offset_ns());
        let taken = source.peek(BUFFER_LEN);
        if taken == 0 {
            self.send();
            return 0;
        }
        let wanted = self.shared.limit.take(taken);
        self.ring.counts.after_limit.fetch_add(taken - wanted, Relaxed);
        if self.writer.is_none() {
            self.count(source, wanted);
            source.release();
        } else if wanted > 0 {
            self.encode_wanted(source, wanted);
        } else {
            source.release();
        }
        self.unsent.records += taken;
        if !source.found().has_more || self.unsent.batches.len() >= self.unsent_max() {
            self.send();
        }
        taken
    }

    /// Batches that are sent together, at most: the writer has the others meanwhile.
    fn unsent_max(&self) -> usize {
        UNSENT_MAX.min(self.ring.pool.count_max() / 2)
    }

    /// Sends what was encoded, or counts it as lost when the writer has ended.
    fn send(&mut self) {
        let batches = std::mem::take(&mut self.unsent.batches);
        if let Some(writer) = self.writer.as_ref().filter(|_| !batches.is_empty())
            && let Err(batches) = writer.send(batches)
        {
            let records = batches.iter().map(|batch| batch.index.len() as u64).sum();
            self.ring.counts.lost_disk.fetch_add(records, Relaxed);
            self.shared.limit.give_back(records);
        }
        self.ring.progress.took(std::mem::take(&mut self.unsent.records));
    }

    /// Counts the first `wanted` records in view, for a capture without a file.
    fn count(&self, source: &impl RingConsumer, wanted: u64) {
        // Only where it may say something is each looked at.
        if self.encoder.may_be_stamped() {
            let mut stamped = 0;
            source.for_each(wanted, |record| {
                stamped += u64::from(record.time_source == TimeSource::Hardware);
            });
            self.ring.counts.hardware_time.fetch_add(stamped, Relaxed);
        }
        self.ring.counts.written.fetch_add(wanted, Relaxed);
        self.shared.limit.wrote(wanted);
    }

    /// Encodes the first `wanted` records in view and sends them to the writer, or counts them as
    /// lost.
    fn encode_wanted(&mut self, source: &mut impl RingConsumer, wanted: u64) {
        let buffer = if self.shared.has_failed.load(Relaxed) { None } else { self.buffer(source) };
        let batch = buffer.map(|buffer| self.encode(source, wanted, buffer));
        if batch.is_none() {
            // The next frame that is written reports these as lost, and those that these would
            // have reported.
            source.for_each(wanted, |record| {
                self.lost_here = self.lost_here.saturating_add(record.lost_before.saturating_add(1));
            });
        }
        // Slots are released before the bytes are sent, because writing may take long.
        source.release();
        match batch {
            Some(batch) => self.unsent.batches.push(batch),
            None => {
                self.ring.counts.lost_disk.fetch_add(wanted, Relaxed);
                self.shared.limit.give_back(wanted);
            }
        }
    }

    /// A buffer as soon as the writer has given one back, or none when waiting longer would make
    /// the ring overflow.
    fn buffer(&mut self, source: &impl RingConsumer) -> Option<EncodedBatch> {
        if self.ring.pool.is_empty() {
            self.send();
        }
        loop {
            let buffer = self.ring.pool.take(BUFFER_WAIT);
            if buffer.is_some() || source.is_filling() || self.shared.has_failed.load(Relaxed) {
                return buffer;
            }
        }
    }

    fn encode(
        &mut self,
        source: &mut impl RingConsumer,
        wanted: u64,
        mut batch: EncodedBatch,
    ) -> EncodedBatch {
        let utc_offset_ns = self.shared.clock.offset_ns();
        self.encoder.begin_batch();
        let lost_here = std::mem::take(&mut self.lost_here);
        source.encode(wanted, &mut self.encoder, (utc_offset_ns, lost_here), &mut batch);
        batch
    }
}

/// Lets this thread run on the CPUs of `allowed` without those whose softirq fills a ring, where it
/// would only get what that leaves over. Best effort: when these are all there are, there is no
/// choice.
pub(crate) fn keep_off(allowed: CpuSet, busy: &[u32]) {
    let is_left = |cpu: usize| allowed.is_set(cpu) == Ok(true) && !busy.contains(&(cpu as u32));
    let mut cpus = allowed;
    if (0..CpuSet::count()).any(is_left) && busy.iter().all(|cpu| cpus.unset(*cpu as usize).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    } else {
        let _ = sched_setaffinity(Pid::from_raw(0), &allowed);
    }
}

/// One ring with its reader's place in the session, ready for a thread.
pub(crate) struct AttachedRing {
    /// The CPU whose softirq fills it, when that is always the same one: its reader keeps off it.
    pub(crate) cpu: Option<u32>,
    /// True when its records know their queue.
    pub(crate) knows_queues: bool,
    /// The source, whatever its kind.
    pub(crate) source: Box<dyn DynRingConsumer>,
}

/// Any [`RingConsumer`], to be asked once for each thread instead of once for each frame.
pub(crate) trait DynRingConsumer: Send {
    /// Takes what a look finds out of the ring at once, for those who read without a thread.
    fn take(&mut self, len_max: usize, take: &mut dyn FnMut(RingRecord<'_>));

    /// Handle with which other threads read how much the ring was ever given; `None` if they learn
    /// only from the reader thread, which sleeps, that the ring is empty.
    fn probe(&self) -> Option<Box<dyn Probe>>;

    /// How long a record may lie in the ring before [`RingConsumer::peek`] shows it, in
    /// nanoseconds, beyond the few microseconds that stamping and filling take: a block that is
    /// handed over when it is full or old, a stamp taken by the device.
    fn delay_ns(&self) -> u64;

    /// Empties the ring until the end.
    fn run(self: Box<Self>, reader: BatchReader);
}

impl<S: RingConsumer> DynRingConsumer for S {
    fn take(&mut self, len_max: usize, take: &mut dyn FnMut(RingRecord<'_>)) {
        let count = self.peek(len_max);
        self.for_each(count, take);
        self.release();
    }

    fn probe(&self) -> Option<Box<dyn Probe>> {
        RingConsumer::probe(self)
    }

    fn delay_ns(&self) -> u64 {
        RingConsumer::delay_ns(self)
    }

    fn run(self: Box<Self>, reader: BatchReader) {
        reader.run(*self);
    }
}

/// How long to sleep: long enough that a look at the ring finds a good batch, since each costs two
/// wake-ups (the reader's and the writer's) whatever its size, and short enough that the ring never
/// fills.
#[derive(Debug)]
struct Pause {
    sleep: Duration,
    /// Whether there was a sleep before the look at hand. Without one it says nothing about the
    /// rate.
    has_slept: bool,
}

impl Default for Pause {
    fn default() -> Self {
        Self { sleep: SLEEP_MIN, has_slept: false }
    }
}

impl Pause {
    /// Sleeps after a look at the ring.
    fn after(&mut self, source: &impl RingConsumer) {
        if let Some(sleep) = self.next(source.found()) {
            std::thread::sleep(sleep);
        }
    }

    /// No sleep while there is more; the less a sleep brought, the longer the next one.
    fn next(&mut self, found: Found) -> Option<Duration> {
        if self.has_slept {
            self.sleep = match found.than_wanted {
                Greater => (self.sleep * 3 / 4).max(SLEEP_MIN),
                Equal => self.sleep,
                Less => (self.sleep * 2).min(found.sleep_max),
            };
        }
        self.has_slept = !found.has_more;
        self.has_slept.then_some(self.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::Numbering;
    use crate::output::accounting::Accounting;
    use crate::record::consumer::fake::FakeConsumer;
    use crate::record::encode::{DeviceEncoding, StampConversion};
    use crate::record::format::Format;
    use crate::stats::Counts;
    use crate::time::phc::PhcClock;
    use pcapng::{Block, Interface, Section};
    use std::sync::mpsc::{Receiver, channel};

    /// A reader with two buffers, and the other end of what it sends.
    fn reader(frames_max: Option<u64>) -> (BatchReader, Receiver<Vec<EncodedBatch>>) {
        let (writer, runs) = channel();
        let shared = Shared {
            clock: UtcClock::new(),
            limit: Limit::new(frames_max),
            is_draining: Arc::new(AtomicBool::new(true)),
            has_failed: AtomicBool::new(false),
        };
        let reader = BatchReader {
            shared: Arc::new(shared),
            encoder: Encoder::new(
                Format::Pcapng,
                DeviceEncoding::new(Numbering::single(), None, None),
                0,
                96,
            ),
            ring: RingHandle::for_test(),
            writer: Some(ToWriter::new(writer, std::thread::current())),
            lost_here: 0,
            unsent: Unsent::default(),
        };
        (reader, runs)
    }

    fn source(times_ns: std::ops::Range<u64>) -> FakeConsumer {
        FakeConsumer { times_ns: times_ns.collect(), ..FakeConsumer::default() }
    }

    /// Time and drop count of each packet of a batch.
    fn packets(batch: &EncodedBatch) -> Vec<(u64, Option<u64>)> {
        let mut file = Vec::new();
        Section::default().emit(&mut file);
        Interface::default().emit(&mut file);
        file.extend_from_slice(&batch.bytes);
        let (mut reader, mut packets) = (pcapng::Reader::new(&file[..]), Vec::new());
        while let Some(block) = reader.next_block().unwrap() {
            if let Block::Packet(packet) = block {
                packets.push((packet.time_ns, packet.drop_count));
            }
        }
        packets
    }

    #[test]
    fn everything_of_a_ring_is_sent_in_its_order_until_it_is_empty() {
        let (reader, runs) = reader(None);
        let ring = Arc::clone(&reader.ring);
        let writer = std::thread::spawn(move || {
            let mut times_ns = Vec::new();
            for run in runs.into_iter().flatten() {
                let sent = packets(&run);
                let indexed: Vec<u64> = run.index.iter().map(|entry| entry.time_ns).collect();
                assert!(indexed.iter().eq(sent.iter().map(|packet| &packet.0)));
                assert!(!run.is_disordered && Some(&run.last_ns) == indexed.last());
                times_ns.extend(indexed);
                ring.pool.give_back(run);
            }
            times_ns
        });
        let (ring, end) = (Arc::clone(&reader.ring), 30_000);
        reader.run(source(0..end));
        assert!(writer.join().unwrap().into_iter().eq(0..end));
        assert_eq!(ring.progress.taken(), end);
        assert_eq!(ring.counts.get(), Counts::default(), "what is written the writer counts");
    }

    /// They were all said to have the kernel's time.
    #[test]
    fn frames_that_are_only_counted_are_counted_by_their_clock() {
        for (has_clock, hardware_time) in [(true, 30), (false, 0)] {
            let (mut reader, _) = reader(Some(30));
            let stamps = has_clock.then(|| StampConversion { clock: PhcClock::for_test(), raw_phc: false });
            reader.writer = None;
            let device = DeviceEncoding::new(Numbering::single(), stamps, None);
            reader.encoder = Encoder::new(Format::Pcapng, device, 0, 96);
            reader.take_batch(&mut source(0..50));
            let counts = reader.ring.counts.get();
            assert_eq!((counts.written, counts.after_limit, counts.hardware_time), (30, 20, hardware_time));
        }
    }

    #[test]
    fn frames_that_find_no_buffer_in_a_filling_ring_are_told_by_the_next_one() {
        let (mut reader, runs) = reader(None);
        let mut ring = FakeConsumer { is_filling: true, ..source(0..10_000) };
        while reader.take_batch(&mut ring) > 0 {}
        let held: Vec<EncodedBatch> = runs.try_iter().flatten().collect();
        assert_eq!(
            held.iter().map(|batch| batch.index.len()).collect::<Vec<_>>(),
            [2048, 2048],
            "there are two buffers"
        );
        let lost = 10_000 - 2 * 2048;
        assert_eq!(reader.ring.counts.get().lost_disk, lost);
        held.into_iter().for_each(|run| reader.ring.pool.give_back(run));
        ring.times_ns.extend([20_000, 20_001]);
        assert_eq!(reader.take_batch(&mut ring), 2);
        assert_eq!(packets(&runs.try_recv().unwrap()[0]), [(20_000, Some(lost)), (20_001, None)]);
    }

    #[test]
    fn nothing_is_encoded_after_the_limit_or_for_an_output_that_failed() {
        let (mut limited, runs) = reader(Some(7));
        while limited.take_batch(&mut source(0..10)) > 0 && !limited.shared.limit.is_spent() {}
        assert_eq!(packets(&runs.try_recv().unwrap()[0]).len(), 7);
        limited.shared.limit.wrote(7);
        assert_eq!(limited.ring.counts.get(), Counts { after_limit: 3, ..Counts::default() });
        let (mut failed, runs) = reader(None);
        failed.shared.has_failed.store(true, Relaxed);
        failed.take_batch(&mut source(0..10));
        assert!(runs.try_recv().is_err());
        assert_eq!(failed.ring.counts.get().lost_disk, 10);
    }

    #[test]
    fn frames_lost_on_the_way_to_the_file_do_not_count_for_the_limit() {
        let (mut reader, runs) = reader(Some(5_000));
        let mut ring = FakeConsumer { is_filling: true, ..source(0..10_000) };
        while reader.take_batch(&mut ring) > 0 {}
        let held: Vec<EncodedBatch> = runs.try_iter().flatten().collect();
        // Two buffers are full; what found none was given back, again and again.
        assert_eq!(held.iter().map(|batch| batch.index.len()).sum::<usize>(), 4096);
        assert!(!reader.shared.limit.is_spent(), "904 more may be written");
        let counts = reader.ring.counts.get();
        assert_eq!(counts.lost_disk + counts.after_limit, 10_000 - 4096);
        // The disk refuses one of them and takes the other.
        let (shared, rings) = (Arc::clone(&reader.shared), [Arc::clone(&reader.ring)]);
        let accounting = Accounting::new(&rings, &shared.limit);
        for (run, kept) in held.into_iter().zip([0, 2048]) {
            accounting.settle(&run.index, kept);
            reader.ring.pool.give_back(run);
        }
        ring.times_ns.extend(20_000..30_000);
        while reader.take_batch(&mut ring) > 0 {
            for run in runs.try_iter().flatten() {
                accounting.settle(&run.index, run.index.len());
                reader.ring.pool.give_back(run);
            }
        }
        assert!(shared.limit.is_reached());
        let counts = reader.ring.counts.get();
        // The fake's frames are stamped by the device: as many as were written.
        assert_eq!((counts.written, counts.hardware_time), (5_000, 5_000));
        assert_eq!(counts.lost_disk + counts.after_limit, 15_000);
    }

    #[test]
    fn frames_after_a_limit_that_is_never_reached_are_lost() {
        let (mut reader, _runs) = reader(Some(100));
        reader.take_batch(&mut source(0..150));
        assert_eq!(reader.ring.counts.get().after_limit, 50);
        reader.ring.counts.limit_not_reached();
        assert_eq!(reader.ring.counts.get(), Counts { lost_disk: 50, ..Counts::default() });
    }

    /// A wake-up of the writer for each batch was a tenth of the CPU time.
    #[test]
    fn batches_are_sent_together_before_the_reader_sleeps() {
        let (mut reader, runs) = reader(None);
        reader.ring = RingHandle::with_buffers_for_test(8);
        let mut ring = source(0..2048 * 6 + 10);
        let mut sent = Vec::new();
        while reader.take_batch(&mut ring) > 0 {
            let frames: usize = runs.try_iter().flatten().map(|batch| batch.index.len()).sum();
            sent.push(frames);
            // The writer takes an empty ring for one whose records have been sent.
            assert_eq!(reader.ring.progress.taken(), sent.iter().sum::<usize>() as u64);
        }
        assert_eq!(sent, [0, 2 * 2048, 0, 2 * 2048, 0, 2 * 2048, 10]);
    }

    #[test]
    fn batches_are_sent_when_there_is_no_other_buffer() {
        let (mut reader, runs) = reader(None);
        reader.ring = RingHandle::with_buffers_for_test(4);
        let held: Vec<_> = (0..3).map(|_| reader.ring.pool.take(BUFFER_WAIT).unwrap()).collect();
        let mut ring = source(0..2048 * 2);
        reader.take_batch(&mut ring);
        assert_eq!(runs.try_iter().count(), 0);
        held.into_iter().for_each(|buffer| reader.ring.pool.give_back(buffer));
        let held: Vec<_> = (0..3).map(|_| reader.ring.pool.take(BUFFER_WAIT).unwrap()).collect();
        let ring_of_writer = Arc::clone(&reader.ring);
        let writer = std::thread::spawn(move || {
            // Nothing is given back before it came.
            let batches = runs.recv_timeout(Duration::from_secs(60)).unwrap();
            batches.into_iter().for_each(|batch| ring_of_writer.pool.give_back(batch));
            drop(held);
        });
        assert_eq!(reader.take_batch(&mut ring), 2048);
        writer.join().unwrap();
    }

    #[test]
    fn a_busy_ring_is_not_slept_over_and_a_quiet_one_longer_and_longer() {
        let mut pause = Pause::default();
        let mut sleeps = |has_more: bool, than_wanted, times: usize| -> Vec<u128> {
            let sleep_max = Duration::from_millis(2);
            let mut sleep = || pause.next(Found { has_more, than_wanted, sleep_max });
            (0..times).map(|_| sleep().map_or(0, |sleep| sleep.as_micros())).collect()
        };
        assert_eq!(sleeps(true, Equal, 1), [0]);
        // What was found without a sleep before says nothing.
        assert_eq!(sleeps(false, Less, 8), [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(sleeps(false, Equal, 3), [2000, 2000, 2000]);
        // Too much for a sleep of that length; the looks that follow take the rest.
        assert_eq!(sleeps(true, Greater, 3), [0, 0, 0]);
        assert_eq!(sleeps(false, Less, 2), [1500, 2000]);
        for _ in 0..15 {
            assert_eq!(sleeps(true, Greater, 1), [0]);
            sleeps(false, Less, 1);
        }
        assert_eq!(sleeps(false, Equal, 1), [50], "never shorter than that");
    }
}
