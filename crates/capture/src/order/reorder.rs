//! Batches of several rings become chunks in one order of time.
//!
//! A batch that sorts before all others is passed on as it is, without inspecting its records. With
//! one active ring that is always the case. Where rings overlap, records are copied to one chunk.
//! `merge` decides which record is next; the writer decides when a ring that is empty may be passed
//! over.

use crate::order::merge::{Head, MergeReport, MergeStep, Merger};
use crate::record::batch::{Chunk, EncodedBatch};
use crate::record::pool::BUFFER_LEN;
use std::collections::VecDeque;

/// A batch shorter than this is copied to the one before it, so that a slow ring does not take all
/// buffers.
const SHORT_LEN: usize = BUFFER_LEN / 8;

/// Takes chunks in order of time, and batches that are no longer needed.
pub(crate) trait ChunkSink {
    fn chunk(&mut self, chunk: &Chunk<'_>);
    fn recycle(&mut self, ring: usize, batch: EncodedBatch);
}

/// The batches of one ring.
#[derive(Debug, Default)]
struct PendingBatches {
    batches: VecDeque<EncodedBatch>,
    /// Records of the first batch that were taken.
    taken: usize,
    /// Bytes of these records.
    taken_len: usize,
}

impl PendingBatches {
    fn head(&self, has_ended: bool) -> Head {
        match self.batches.front() {
            Some(batch) => Head::Record(batch.index[self.taken].time_ns),
            None if has_ended => Head::Ended,
            None => Head::Empty { checked_ns: 0 },
        }
    }

    /// The records of the first batch that were not taken.
    fn rest(&self) -> Chunk<'_> {
        let batch = &self.batches[0];
        let (bytes, index) = (&batch.bytes[self.taken_len..], &batch.index[self.taken..]);
        Chunk { bytes, index, ..batch.chunk() }
    }

    fn pop(&mut self) -> EncodedBatch {
        (self.taken, self.taken_len) = (0, 0);
        self.batches.pop_front().expect("the merger takes from rings with a record")
    }
}

/// Merges the batches of several rings into one order of time.
#[derive(Debug)]
pub(crate) struct Reorderer {
    merger: Merger,
    /// By number of the ring.
    pending: Vec<PendingBatches>,
    has_ended: bool,
    /// Records of several batches, not passed on yet.
    mixed: EncodedBatch,
}

impl Reorderer {
    /// For `ring_count` rings; `window_ns` as in [`Merger::new`].
    pub(crate) fn new(ring_count: usize, window_ns: u64) -> Self {
        let pending = (0..ring_count).map(|_| PendingBatches::default()).collect();
        let merger = Merger::new(ring_count, window_ns);
        Self { merger, pending, has_ended: false, mixed: EncodedBatch::default() }
    }

    /// How well the order was kept so far.
    pub(crate) fn report(&self) -> MergeReport {
        self.merger.report()
    }

    /// True if records wait for their turn.
    pub(crate) fn holds_any(&self) -> bool {
        self.pending.iter().any(|pending| !pending.batches.is_empty())
    }

    /// The rings without a batch.
    pub(crate) fn empty_rings(&self) -> impl Iterator<Item = usize> + '_ {
        self.merger.empty_sources()
    }

    /// A batch came from its ring.
    pub(crate) fn push(&mut self, batch: EncodedBatch, sink: &mut impl ChunkSink) {
        let ring = batch.index[0].ring();
        let batches = &mut self.pending[ring].batches;
        match batches.back_mut() {
            None => {
                self.merger.set_head(ring, Head::Record(batch.index[0].time_ns));
                batches.push_back(batch);
            }
            Some(last)
                if batch.bytes.len() < SHORT_LEN && last.bytes.len() + batch.bytes.len() < BUFFER_LEN =>
            {
                last.append(&batch.chunk());
                sink.recycle(ring, batch);
            }
            Some(_) => batches.push_back(batch),
        }
    }

    /// A ring was empty at this time. Has no effect if a batch has come from it.
    pub(crate) fn was_empty(&mut self, ring: usize, checked_ns: u64) {
        if self.pending[ring].batches.is_empty() {
            self.merger.set_head(ring, Head::Empty { checked_ns });
        }
    }

    /// No batch will come any more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        let rings: Vec<usize> = self.empty_rings().collect();
        rings.into_iter().for_each(|ring| self.merger.set_head(ring, Head::Ended));
    }

    /// Passes on what is due; with `is_pressed` the oldest batch, whatever the order. Returns
    /// whether any record was taken.
    pub(crate) fn advance(&mut self, is_pressed: bool, sink: &mut impl ChunkSink) -> bool {
        let mut has_moved = false;
        loop {
            let next = if is_pressed { self.merger.next_regardless() } else { self.merger.next() };
            let MergeStep::Take { source, until_ns } = next else { return has_moved };
            if !is_pressed && self.should_wait(source, until_ns) {
                return has_moved;
            }
            has_moved = true;
            self.take(source, until_ns, sink);
            if is_pressed {
                // One batch frees one buffer; then the caller checks again.
                return true;
            }
        }
    }

    /// Detects that the clock was set back: a record later than `latest_ns`, which is now, was
    /// taken. What follows is not late for it.
    pub(crate) fn detect_clock_step(&mut self, latest_ns: u64) {
        self.merger.detect_clock_step(latest_ns);
    }

    /// Passes on a batch that begins later than `latest_ns`. The clock was set back since its
    /// records were stamped; in order of time it would wait as long, with all that came after it.
    /// Returns whether there was one.
    pub(crate) fn flush_future(&mut self, latest_ns: u64, sink: &mut impl ChunkSink) -> bool {
        let Some(ring) = self.merger.source_beyond(latest_ns) else { return false };
        let rest = self.pending[ring].rest();
        for entry in rest.index {
            match entry.time_ns > latest_ns {
                true => self.merger.took_future(),
                false => self.merger.took(entry.time_ns),
            }
        }
        self.mixed.append(&rest);
        self.flush(sink);
        sink.recycle(ring, self.pending[ring].pop());
        self.merger.set_head(ring, self.pending[ring].head(self.has_ended));
        true
    }

    /// Passes on records that were copied together.
    pub(crate) fn flush(&mut self, sink: &mut impl ChunkSink) {
        if !self.mixed.index.is_empty() {
            sink.chunk(&self.mixed.chunk());
            self.mixed.clear();
        }
    }

    /// True if only this ring has records and some of its first batch are too young to be taken.
    /// Waiting for the youngest takes little time; splitting the batch would inspect and copy its
    /// records.
    fn should_wait(&self, ring: usize, until_ns: u64) -> bool {
        let is_alone =
            || self.pending.iter().enumerate().all(|(other, of)| other == ring || of.batches.is_empty());
        self.pending[ring].batches.front().is_some_and(|batch| batch.last_ns > until_ns) && is_alone()
    }

    /// Takes records of one ring up to a time, from its first batch only.
    fn take(&mut self, ring: usize, until_ns: u64, sink: &mut impl ChunkSink) {
        let pending = &mut self.pending[ring];
        let batch = &pending.batches[0];
        let is_whole = pending.taken == 0 && !batch.is_disordered && batch.last_ns <= until_ns;
        let count = batch.index.len();
        if is_whole && self.merger.took_run(count as u64, batch.index[0].time_ns, batch.last_ns) {
            if batch.bytes.len() < SHORT_LEN {
                self.mixed.append(&batch.chunk());
            } else {
                if !self.mixed.index.is_empty() {
                    sink.chunk(&self.mixed.chunk());
                    self.mixed.clear();
                }
                sink.chunk(&batch.chunk());
            }
            pending.taken = count;
        } else {
            let rest = pending.rest();
            // The first one is due, even if its batch is not in order.
            let due = 1 + rest.index[1..].iter().take_while(|entry| entry.time_ns <= until_ns).count();
            let (now, _) = rest.split_at(due);
            now.index.iter().for_each(|entry| self.merger.took(entry.time_ns));
            self.mixed.append(&now);
            (pending.taken, pending.taken_len) = (pending.taken + due, pending.taken_len + now.bytes.len());
        }
        if pending.taken == count {
            sink.recycle(ring, pending.pop());
        }
        if self.mixed.bytes.len() >= BUFFER_LEN {
            self.flush(sink);
        }
        self.merger.set_head(ring, self.pending[ring].head(self.has_ended));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::samples::{batch, batch_of_card};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Remembers times and rings of what it takes.
    #[derive(Default)]
    struct Seen {
        records: Vec<(u64, usize)>,
        chunks: usize,
        recycled: usize,
    }

    impl ChunkSink for Seen {
        fn chunk(&mut self, chunk: &Chunk<'_>) {
            assert_eq!(chunk.index.iter().map(|entry| entry.time_ns).max(), Some(chunk.last_ns));
            assert_eq!(chunk.bytes.len(), crate::record::batch::len_of(chunk.index));
            let mut bytes = chunk.bytes;
            for entry in chunk.index {
                // A block has its length at 4.
                assert_eq!(bytes[4..8], entry.len.to_le_bytes());
                self.records.push((entry.time_ns, entry.ring()));
                bytes = &bytes[entry.len as usize..];
            }
            self.chunks += 1;
        }

        fn recycle(&mut self, _: usize, _: EncodedBatch) {
            self.recycled += 1;
        }
    }

    #[test]
    fn one_ring_in_use_goes_through_whole_once_the_other_was_empty() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        let times_ns: Vec<u64> = (1_000..1_500).collect();
        reorderer.push(batch(0, &times_ns, 96), &mut seen);
        assert!(!reorderer.advance(false, &mut seen), "the other ring may have something older");
        reorderer.was_empty(1, 1_599);
        assert!(reorderer.advance(false, &mut seen));
        assert_eq!((seen.chunks, seen.recycled), (1, 1));
        assert_eq!(seen.records.len(), 500);
        assert!(!reorderer.holds_any());
    }

    #[test]
    fn a_run_is_not_cut_for_a_ring_that_is_empty() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        reorderer.push(batch(0, &[1_000, 1_100, 1_200], 60), &mut seen);
        reorderer.was_empty(1, 1_250);
        assert!(!reorderer.advance(false, &mut seen), "half of it would be due");
        reorderer.was_empty(1, 1_300);
        assert!(reorderer.advance(false, &mut seen));
        reorderer.flush(&mut seen);
        assert_eq!(seen.records.len(), 3);
    }

    #[test]
    fn a_run_is_cut_where_an_older_record_has_come() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        reorderer.push(batch(0, &[1_000, 1_100, 1_200], 60), &mut seen);
        reorderer.push(batch(1, &[1_150], 60), &mut seen);
        assert!(reorderer.advance(false, &mut seen));
        reorderer.flush(&mut seen);
        assert_eq!(seen.records, [(1_000, 0), (1_100, 0), (1_150, 1)]);
        reorderer.end();
        assert!(reorderer.advance(false, &mut seen));
        reorderer.flush(&mut seen);
        assert_eq!(seen.records[3..], [(1_200, 0)]);
        assert_eq!(reorderer.report(), MergeReport { taken: 4, ..MergeReport::default() });
    }

    /// With `--clock phc` and a card that keeps TAI, what was left of a run waited 37 s for its
    /// turn.
    #[test]
    fn a_run_of_a_card_that_is_ahead_is_cut_by_the_time_of_day() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        reorderer.push(batch_of_card(0, &[1_000, 1_100, 1_200], 60, 37_000), &mut seen);
        reorderer.push(batch_of_card(0, &[1_300], 60, 37_001), &mut seen);
        reorderer.push(batch(1, &[1_150, 1_250, 1_350], 60), &mut seen);
        reorderer.end();
        assert!(reorderer.advance(false, &mut seen));
        reorderer.flush(&mut seen);
        let expected = [(1_000, 0), (1_100, 0), (1_150, 1), (1_200, 0), (1_250, 1), (1_300, 0), (1_350, 1)];
        assert_eq!(seen.records, expected);
        assert_eq!(reorderer.report(), MergeReport { taken: 7, ..MergeReport::default() });
    }

    #[test]
    fn under_pressure_the_oldest_goes_and_what_comes_late_is_counted() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        reorderer.push(batch(0, &[1_000], 60), &mut seen);
        assert!(reorderer.advance(true, &mut seen));
        reorderer.push(batch(1, &[900, 1_100], 60), &mut seen);
        reorderer.end();
        reorderer.advance(false, &mut seen);
        assert_eq!(
            reorderer.report(),
            MergeReport { taken: 3, late: 1, late_max_ns: 100, ..MergeReport::default() }
        );
    }

    /// For as long as UTC had been set back, nothing was written until buffers ran
    /// short.
    #[test]
    fn a_step_back_of_the_time_of_day_holds_nothing() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        reorderer.push(batch(1, &[10_000], 60), &mut seen);
        reorderer.was_empty(0, 10_200);
        assert!(reorderer.advance(false, &mut seen));
        reorderer.push(batch(0, &[10_100, 10_200], 60), &mut seen);
        // The UTC is 1,000 now; what comes stands behind what was stamped before.
        reorderer.push(batch(0, &[1_000, 1_100], 60), &mut seen);
        reorderer.was_empty(1, 1_200);
        reorderer.detect_clock_step(1_300);
        assert!(!reorderer.advance(false, &mut seen), "their time has not come");
        assert!(reorderer.flush_future(1_300, &mut seen));
        assert!(!reorderer.flush_future(1_300, &mut seen) && !reorderer.holds_any());
        reorderer.push(batch(1, &[1_050, 1_150], 60), &mut seen);
        reorderer.push(batch(0, &[1_120], 60), &mut seen);
        reorderer.end();
        reorderer.advance(false, &mut seen);
        reorderer.flush(&mut seen);
        let times: Vec<u64> = seen.records.iter().map(|record| record.0).collect();
        assert_eq!(times, [10_000, 10_100, 10_200, 1_000, 1_100, 1_050, 1_120, 1_150]);
        let report = reorderer.report();
        assert_eq!((report.taken, report.ahead, report.set_back), (8, 2, 1));
        assert_eq!((report.late, report.late_max_ns), (1, 50), "of the new order");
    }

    #[test]
    fn short_runs_do_not_keep_their_buffers() {
        let (mut reorderer, mut seen) = (Reorderer::new(2, 100), Seen::default());
        (0..100).for_each(|n| reorderer.push(batch(0, &[n], 60), &mut seen));
        assert_eq!((seen.recycled, reorderer.pending[0].batches.len()), (99, 1));
    }

    proptest! {
        /// Whatever runs the rings send, in order or not: every record comes out, those of a ring
        /// in their order, and all in order of time when each ring was.
        #[test]
        fn every_record_comes_out_in_order(
            rings in vec(vec((vec(0..50_u64, 1..30), 0..3000_usize), 0..8), 1..4),
            is_sorted in any::<bool>(),
            ahead_ns in 0..3_000_u64,
        ) {
            let mut reorderer = Reorderer::new(rings.len(), 10);
            let (mut seen, mut sent, mut expected) = (Seen::default(), 0, Vec::new());
            for (ring, runs) in rings.iter().enumerate() {
                let mut now_ns = 0;
                for (steps_ns, len) in runs {
                    let mut times_ns: Vec<u64> = steps_ns.iter().map(|step| { now_ns += step; now_ns }).collect();
                    if !is_sorted {
                        times_ns.reverse();
                    }
                    expected.extend(times_ns.iter().map(|time| (*time, ring)));
                    // Each ring has a card of its own.
                    let ahead_ns = ahead_ns * ring as u64;
                    reorderer.push(batch_of_card(ring as u16, &times_ns, *len, ahead_ns), &mut seen);
                    sent += 1;
                    if sent % 3 == 0 {
                        reorderer.advance(false, &mut seen);
                    }
                }
            }
            reorderer.end();
            reorderer.advance(false, &mut seen);
            reorderer.flush(&mut seen);
            prop_assert!(!reorderer.holds_any());
            prop_assert_eq!(seen.recycled, sent);
            prop_assert_eq!(reorderer.report().taken, expected.len() as u64);
            prop_assert_eq!(reorderer.report().late == 0, seen.records.is_sorted_by_key(|record| record.0));
            for ring in 0..rings.len() {
                let of_ring = |records: &[(u64, usize)]| -> Vec<u64> {
                    records.iter().filter(|record| record.1 == ring).map(|record| record.0).collect()
                };
                prop_assert_eq!(of_ring(&seen.records), of_ring(&expected));
            }
            if is_sorted {
                prop_assert_eq!(reorderer.report().late, 0);
            }
        }
    }
}
