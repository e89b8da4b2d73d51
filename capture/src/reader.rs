//! One thread for each ring: takes what is filled, encodes it, gives the room back, hands it to the writer.

use crate::clock::UtcClock;
use crate::encode::Encoder;
use crate::limit::Limit;
use crate::part::Parts;
use crate::pool::BUFFER_LEN;
use crate::ring::{Record, TimeSource};
use crate::run::{Lane, Run};
use crate::source::Source;
use crate::sys;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Shortest and longest sleep over an empty ring. A ring of the default size holds 3 ms at 10 million frames a
/// second; a frame waits no longer than this in a quiet one.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// How long to wait for a buffer before looking again how full the ring is.
const BUFFER_WAIT: Duration = Duration::from_micros(200);

/// What readers and the writer share with each other and with whoever started them.
pub(crate) struct Shared {
    pub(crate) clock: UtcClock,
    pub(crate) limit: Limit,
    /// True when nothing is added to the rings any more, so that an empty one means the end.
    pub(crate) is_draining: Arc<AtomicBool>,
    /// True once the output refused something and nothing more is to be written.
    pub(crate) has_failed: AtomicBool,
}

/// One reader's place in the session.
pub(crate) struct Reader {
    pub(crate) shared: Arc<Shared>,
    /// Number of its ring in the session.
    pub(crate) ring: usize,
    pub(crate) encoder: Encoder,
    pub(crate) lane: Arc<Lane>,
    /// Where runs go; `None` when frames are only counted.
    pub(crate) writer: Option<Sender<Run>>,
    /// Frames that were read and then lost for want of a buffer, not told in the file yet.
    pub(crate) lost_here: u32,
    /// What the file is to be told of if surplus frames turn out to be lost.
    pub(crate) surplus_here: u32,
}

impl Reader {
    /// Empties one ring until the end.
    pub(crate) fn run(mut self, mut source: impl Source) {
        if let (Some(cpu), Ok(allowed)) = (self.lane.cpu, sched_getaffinity(Pid::from_raw(0))) {
            keep_off(allowed, &[cpu]);
        }
        // Without the right to it the reader is one thread among others, and losses are counted as ever.
        let _ = sys::run_before_others();
        // What a reader does from here on needs no right.
        let _ = host::keep_capabilities(&[]);
        let mut pause = Pause::new(source.much(BUFFER_LEN));
        loop {
            // Asked before looking: what came until then is seen.
            let is_last_look = self.shared.is_draining.load(Relaxed);
            let before_ns = self.shared.clock.now_ns();
            let taken = self.take_batch(&mut source);
            if taken == 0 {
                self.lane.progress.was_empty_at(before_ns);
                if is_last_look {
                    return;
                }
            }
            if !is_last_look {
                pause.after(taken);
            }
        }
    }

    /// Handles one batch; 0 when the ring was empty.
    fn take_batch(&mut self, source: &mut impl Source) -> u64 {
        let taken = source.look(BUFFER_LEN);
        if taken == 0 {
            return 0;
        }
        let given_back = self.shared.limit.given_back();
        let wanted = self.shared.limit.take(taken);
        self.judge_surplus();
        if wanted < taken {
            self.pass_over(source, wanted, taken, given_back);
        }
        if self.writer.is_none() {
            self.count(source, wanted);
            source.give_back();
        } else if wanted > 0 {
            self.hand_on(source, wanted);
        } else {
            source.give_back();
        }
        self.lane.progress.took(taken);
        taken
    }

    /// What came when nothing was left is lost if the writer has given something back since.
    fn judge_surplus(&mut self) {
        if self.lane.counts.judge_surplus(&self.shared.limit) {
            self.lost_here = self.lost_here.saturating_add(std::mem::take(&mut self.surplus_here));
        }
    }

    /// The records in view beyond the first `wanted` came when nothing was left.
    fn pass_over(&mut self, source: &impl Source, wanted: u64, taken: u64, given_back: u64) {
        let mut number = 0;
        source.for_each(taken, |record| {
            number += 1;
            if number > wanted {
                self.surplus_here = self.surplus_here.saturating_add(record.lost_before.saturating_add(1));
            }
        });
        self.lane.counts.surplus.add(taken - wanted, given_back);
    }

    /// Counts the first `wanted` records in view as written, which nobody wants written.
    fn count(&self, source: &impl Source, wanted: u64) {
        // Only where it may say something is each looked at.
        if self.encoder.may_be_stamped() {
            let mut stamped = 0;
            source.for_each(wanted, |record| {
                stamped += u64::from(record.time_source == TimeSource::Hardware);
            });
            self.lane.counts.hardware_time.fetch_add(stamped, Relaxed);
        }
        self.lane.counts.written.fetch_add(wanted, Relaxed);
        self.shared.limit.wrote(wanted);
    }

    /// Encodes the first `wanted` records in view and sends them to the writer, or counts them as lost.
    fn hand_on(&mut self, source: &mut impl Source, wanted: u64) {
        let buffer = if self.shared.has_failed.load(Relaxed) { None } else { self.buffer(source) };
        let run = buffer.map(|buffer| self.encode(source, wanted, buffer));
        if run.is_none() {
            // The next frame that is written tells of these, and of those that these would have told of.
            source.for_each(wanted, |record| {
                self.lost_here = self.lost_here.saturating_add(record.lost_before.saturating_add(1));
            });
        }
        // The ring has room again before the bytes are on their way: writing may take long.
        source.give_back();
        let sent = match (run, &self.writer) {
            (Some(run), Some(writer)) => writer.send(run).is_ok(),
            _ => false,
        };
        if !sent {
            self.lane.counts.lost_disk.fetch_add(wanted, Relaxed);
            self.shared.limit.give_back(wanted);
        }
    }

    /// A buffer as soon as the writer has given one back, or none when waiting longer would make the ring overflow.
    fn buffer(&self, source: &impl Source) -> Option<Vec<u8>> {
        loop {
            let buffer = self.lane.pool.take(BUFFER_WAIT);
            if buffer.is_some() || source.is_filling() || self.shared.has_failed.load(Relaxed) {
                return buffer;
            }
        }
    }

    fn encode(&mut self, source: &impl Source, wanted: u64, mut bytes: Vec<u8>) -> Run {
        let utc_offset_ns = self.shared.clock.offset_ns();
        self.encoder.begin_batch();
        let (mut first_ns, mut last_ns, mut is_in_order) = (None, 0, true);
        let (encoder, mut lost_here) = (&mut self.encoder, std::mem::take(&mut self.lost_here));
        let (mut parts, mut number) = (Parts::new(self.ring, encoder.dial()), 0);
        source.for_each(wanted, |record| {
            // The first one tells of those that were lost here.
            let lost_before = record.lost_before.saturating_add(std::mem::take(&mut lost_here));
            let time_ns = encoder.emit(&Record { lost_before, ..record }, utc_offset_ns, &mut bytes);
            if record.time_source == TimeSource::Hardware {
                parts.stamped(number);
            }
            number += 1;
            first_ns.get_or_insert(time_ns);
            is_in_order &= time_ns >= last_ns;
            last_ns = last_ns.max(time_ns);
        });
        let (parts, first_ns) = (parts.end(number), first_ns.unwrap_or(0));
        Run { ring: self.ring, bytes, parts, first_ns, last_ns, is_in_order }
    }
}

/// Lets this thread run on the CPUs of `allowed` without those whose softirq fills a ring, where it would only get what
/// that leaves over. Best effort: when these are all there are, there is no choice.
pub(crate) fn keep_off(allowed: CpuSet, busy: &[u32]) {
    let is_left = |cpu: usize| allowed.is_set(cpu) == Ok(true) && !busy.contains(&(cpu as u32));
    let mut cpus = allowed;
    if (0..CpuSet::count()).any(is_left) && busy.iter().all(|cpu| cpus.unset(*cpu as usize).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    } else {
        let _ = sched_setaffinity(Pid::from_raw(0), &allowed);
    }
}

/// How long to sleep: long enough that a look at the ring finds a good batch, since each costs two wake-ups (the reader's and
/// the writer's) whatever its size, and short enough that the ring never fills.
#[derive(Debug)]
struct Pause {
    /// A look that found this many frames is followed by another at once.
    much: u64,
    sleep: Duration,
    /// Whether there was a sleep before the look at hand. Without one it says nothing about the rate.
    has_slept: bool,
}

impl Pause {
    fn new(much: u64) -> Self {
        Self { much, sleep: SLEEP_MIN, has_slept: false }
    }

    /// Sleeps after a look that found `taken` frames.
    fn after(&mut self, taken: u64) {
        if let Some(sleep) = self.next(taken) {
            std::thread::sleep(sleep);
        }
    }

    /// No sleep while there is much to do; the less a sleep brought, the longer the next one.
    fn next(&mut self, taken: u64) -> Option<Duration> {
        let has_slept = std::mem::replace(&mut self.has_slept, taken <= self.much);
        if taken > self.much {
            if has_slept {
                self.sleep = (self.sleep / 2).max(SLEEP_MIN);
            }
            return None;
        }
        if has_slept && taken <= self.much / 2 {
            self.sleep = (self.sleep * 2).min(SLEEP_MAX);
        }
        Some(self.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Credit;
    use crate::encode::Stamps;
    use crate::format::Format;
    use crate::interfaces::Numbering;
    use crate::phc::PhcClock;
    use crate::source::fake::FakeSource;
    use crate::stats::Counts;
    use pcapng::{Block, Interface, Section};
    use std::sync::mpsc::{Receiver, channel};

    /// A reader with two buffers, and the other end of what it sends.
    fn reader(frames_max: Option<u64>) -> (Reader, Receiver<Run>) {
        let (writer, runs) = channel();
        let shared = Shared {
            clock: UtcClock::new(),
            limit: Limit::new(frames_max),
            is_draining: Arc::new(AtomicBool::new(true)),
            has_failed: AtomicBool::new(false),
        };
        let reader = Reader {
            shared: Arc::new(shared),
            ring: 0,
            encoder: Encoder::new(Format::Pcapng, Numbering::single(), 96),
            lane: Lane::for_test(),
            writer: Some(writer),
            lost_here: 0,
            surplus_here: 0,
        };
        (reader, runs)
    }

    fn source(times_ns: std::ops::Range<u64>) -> FakeSource {
        FakeSource { times_ns: times_ns.collect(), ..FakeSource::default() }
    }

    /// Time and drop count of each packet of a run.
    fn packets(run: &Run) -> Vec<(u64, Option<u64>)> {
        let mut file = Vec::new();
        Section::default().emit(&mut file);
        Interface::default().emit(&mut file);
        file.extend_from_slice(&run.bytes);
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
        let lane = Arc::clone(&reader.lane);
        let writer = std::thread::spawn(move || {
            let mut times_ns = Vec::new();
            for run in runs {
                let sent = packets(&run);
                assert_eq!((run.count(), run.is_in_order), (sent.len() as u64, true));
                assert_eq!((run.first_ns, run.last_ns), (sent[0].0, sent[sent.len() - 1].0));
                times_ns.extend(sent.iter().map(|packet| packet.0));
                lane.pool.give_back(run.bytes);
            }
            times_ns
        });
        let (lane, end) = (Arc::clone(&reader.lane), 30_000);
        reader.run(source(0..end));
        assert!(writer.join().unwrap().into_iter().eq(0..end));
        assert_eq!(lane.progress.taken(), end);
        assert_eq!(lane.counts.get(), Counts::default(), "what is written the writer counts");
    }

    /// They were all said to have the kernel's time.
    #[test]
    fn frames_that_are_only_counted_are_counted_by_their_clock() {
        for (has_clock, hardware_time) in [(true, 30), (false, 0)] {
            let (mut reader, _) = reader(Some(30));
            let stamps = has_clock.then(|| Stamps { clock: PhcClock::for_test(), as_they_are: false });
            reader.writer = None;
            reader.encoder = reader.encoder.with_stamps(stamps);
            reader.take_batch(&mut source(0..50));
            reader.judge_surplus();
            let counts = reader.lane.counts.get();
            assert_eq!((counts.written, counts.after_limit, counts.hardware_time), (30, 20, hardware_time));
        }
    }

    #[test]
    fn frames_that_find_no_buffer_in_a_filling_ring_are_told_by_the_next_one() {
        let (mut reader, runs) = reader(None);
        let mut ring = FakeSource { is_filling: true, ..source(0..10_000) };
        while reader.take_batch(&mut ring) > 0 {}
        let held: Vec<Run> = runs.try_iter().collect();
        assert_eq!(held.iter().map(Run::count).collect::<Vec<_>>(), [2048, 2048], "there are two buffers");
        let lost = 10_000 - 2 * 2048;
        assert_eq!(reader.lane.counts.get().lost_disk, lost);
        held.into_iter().for_each(|run| reader.lane.pool.give_back(run.bytes));
        ring.times_ns.extend([20_000, 20_001]);
        assert_eq!(reader.take_batch(&mut ring), 2);
        assert_eq!(packets(&runs.try_recv().unwrap()), [(20_000, Some(lost)), (20_001, None)]);
    }

    #[test]
    fn nothing_is_encoded_after_the_limit_or_for_an_output_that_failed() {
        let (mut limited, runs) = reader(Some(7));
        while limited.take_batch(&mut source(0..10)) > 0 && !limited.shared.limit.is_spent() {}
        assert_eq!(packets(&runs.try_recv().unwrap()).len(), 7);
        limited.shared.limit.wrote(7);
        limited.judge_surplus();
        assert_eq!(limited.lane.counts.get(), Counts { after_limit: 3, ..Counts::default() });
        let (mut failed, runs) = reader(None);
        failed.shared.has_failed.store(true, Relaxed);
        failed.take_batch(&mut source(0..10));
        assert!(runs.try_recv().is_err());
        assert_eq!(failed.lane.counts.get().lost_disk, 10);
    }

    #[test]
    fn frames_lost_on_the_way_to_the_file_do_not_count_for_the_limit() {
        let (mut reader, runs) = reader(Some(5_000));
        let mut ring = FakeSource { is_filling: true, ..source(0..10_000) };
        while reader.take_batch(&mut ring) > 0 {}
        let held: Vec<Run> = runs.try_iter().collect();
        // Two buffers are full; what found none was given back, again and again.
        assert_eq!(held.iter().map(Run::count).sum::<u64>(), 4096);
        assert!(!reader.shared.limit.is_spent(), "904 more may be written");
        assert_eq!(reader.lane.counts.get().lost_disk, 5_000);
        assert_eq!(reader.lane.counts.get().after_limit, 0, "the last 904 stand open");
        // The disk refuses one of them and takes the other.
        let (shared, lanes) = (Arc::clone(&reader.shared), [Arc::clone(&reader.lane)]);
        let mut credit = Credit { lanes: &lanes, limit: &shared.limit };
        for (run, kept) in held.into_iter().zip([0, 2048]) {
            credit.give(&run.parts, kept);
            reader.lane.pool.give_back(run.bytes);
        }
        ring.times_ns.extend(20_000..30_000);
        while reader.take_batch(&mut ring) > 0 {
            for run in runs.try_iter() {
                credit.give(&run.parts, run.count());
                reader.lane.pool.give_back(run.bytes);
            }
        }
        reader.judge_surplus();
        assert!(shared.limit.is_reached());
        let told = Counts { written: 5_000, lost_disk: 7_952, after_limit: 7_048, ..Counts::default() };
        // The fake's frames are stamped by the device: as many as were written.
        assert_eq!(reader.lane.counts.get(), Counts { hardware_time: 5_000, ..told });
    }

    #[test]
    fn frames_passed_over_while_the_limit_was_on_its_way_are_lost_if_it_never_arrives() {
        let (mut reader, runs) = reader(Some(100));
        let mut ring = source(0..150);
        reader.take_batch(&mut ring);
        assert_eq!(reader.lane.counts.get().after_limit, 0, "not known yet");
        let run = runs.try_recv().unwrap();
        reader.shared.limit.give_back(run.count());
        ring.times_ns.extend([500, 501]);
        reader.take_batch(&mut ring);
        assert_eq!(packets(&runs.try_recv().unwrap()), [(500, Some(50)), (501, None)]);
        assert_eq!(reader.lane.counts.get().lost_disk, 50);
    }

    #[test]
    fn a_busy_ring_is_not_slept_over_and_a_quiet_one_longer_and_longer() {
        let mut pause = Pause::new(1024);
        assert_eq!(pause.next(2048), None);
        let mut sleeps = |taken, times: usize| -> Vec<u128> {
            (0..times).map(|_| pause.next(taken).map_or(0, |sleep| sleep.as_micros())).collect()
        };
        assert_eq!(sleeps(1, 7), [50, 100, 200, 400, 800, 1000, 1000]);
        // More than half of what is much: just right.
        assert_eq!(sleeps(600, 3), [1000, 1000, 1000]);
        // Too much for a sleep of that length; what comes without a sleep says nothing.
        assert_eq!(sleeps(1025, 3), [0, 0, 0]);
        assert_eq!(sleeps(100, 2), [500, 1000]);
        for _ in 0..9 {
            assert_eq!(sleeps(1025, 1), [0]);
            sleeps(600, 1);
        }
        assert_eq!(sleeps(600, 1), [50], "never shorter than that");
    }
}
