//! Counts of written and lost records, per ring and per interface, and the limit of frames.

use crate::output::ledger::{Decision, Ledger};
use crate::record::batch::{Chunk, IndexEntry};
use crate::record::ring_handle::RingHandle;
use crate::stats::ReaderCounts;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Counts what became of records that were passed to an output.
pub(crate) struct Accounting<'a> {
    /// By number of the ring.
    pub(crate) rings: &'a [Arc<RingHandle>],
    pub(crate) limit: &'a Limit,
    /// Of one output of several: where its decisions are collected, and its number.
    output: Option<(&'a RefCell<Ledger>, usize)>,
}

impl<'a> Accounting<'a> {
    /// Of all frames of these rings.
    pub(crate) fn new(rings: &'a [Arc<RingHandle>], limit: &'a Limit) -> Self {
        Self { rings, limit, output: None }
    }

    /// Of one output of several.
    pub(crate) fn of_output<'b>(&self, ledger: &'b RefCell<Ledger>, number: usize) -> Accounting<'b>
    where
        'a: 'b,
    {
        Accounting { output: Some((ledger, number)), ..*self }
    }
}

impl Accounting<'_> {
    /// Counts the first `kept` records of a chunk as written, the others as lost at the disk.
    pub(crate) fn settle_chunk(&self, chunk: &Chunk<'_>, kept: usize) {
        if self.output.is_some() || !chunk.is_alike || kept < chunk.index.len() {
            return self.settle(chunk.index, kept);
        }
        self.add_written(chunk.index);
        self.limit.wrote(kept as u64);
    }

    /// The first `kept` records are in the output, the others are lost at the disk.
    pub(crate) fn settle(&self, index: &[IndexEntry], kept: usize) {
        if let Some((ledger, number)) = self.output {
            let (cut, lost) = (cut_of(&index[..kept]), index.len() - kept);
            ledger.borrow_mut().counts[number].cut += cut;
            return self.decide(&[(Decision::Written, kept), (Decision::Lost, lost)]);
        }
        let (written, lost) = index.split_at(kept);
        written.chunk_by(|a, b| a.is_counted_as(*b)).for_each(|alike| self.add_written(alike));
        self.add(lost, |counts| &counts.lost_disk);
        self.limit.wrote(written.len() as u64);
        self.limit.give_back(lost.len() as u64);
    }

    /// These records came after the limit of the files was reached.
    pub(crate) fn after_limit(&self, index: &[IndexEntry]) {
        if self.output.is_some() {
            return self.decide(&[(Decision::AfterLimit, index.len())]);
        }
        self.add(index, |counts| &counts.after_limit);
    }

    /// One output of several has decided about the next of its frames.
    fn decide(&self, decisions: &[(Decision, usize)]) {
        let Some((ledger, number)) = self.output else { return };
        let decisions = decisions.iter().flat_map(|(decision, count)| repeat_n(*decision, *count));
        let decided = ledger.borrow_mut().decide(number, decisions);
        let of_all = Accounting { output: None, ..*self };
        for alike in decided.chunk_by(|a, b| a.1 == b.1) {
            let index: Vec<IndexEntry> = alike.iter().map(|(entry, _)| *entry).collect();
            match alike[0].1 {
                Decision::Written => of_all.settle(&index, index.len()),
                Decision::Lost => of_all.settle(&index, 0),
                Decision::AfterLimit => of_all.after_limit(&index),
            }
        }
    }

    /// These records match the filter of no output.
    pub(crate) fn filtered(&self, index: &[IndexEntry]) {
        self.add(index, |counts| &counts.filtered);
    }

    /// These records left the window of a recorder that saved none of them.
    pub(crate) fn not_kept(&self, index: &[IndexEntry]) {
        self.add(index, |counts| &counts.not_kept);
    }

    /// Adds records that are all counted as the first one is.
    fn add_written(&self, alike: &[IndexEntry]) {
        let Some(first) = alike.first() else { return };
        let (counts, count) = (&self.rings[first.ring()].counts, alike.len() as u64);
        counts.written.fetch_add(count, Relaxed);
        if first.is_hardware() {
            counts.hardware_time.fetch_add(count, Relaxed);
        }
        if first.is_cut() {
            counts.cut.fetch_add(count, Relaxed);
        }
    }

    /// Adds records to one count of their rings, once for those of a ring that follow each other.
    fn add(&self, index: &[IndexEntry], count: fn(&ReaderCounts) -> &AtomicU64) {
        for alike in index.chunk_by(|a, b| a.ring() == b.ring()) {
            count(&self.rings[alike[0].ring()].counts).fetch_add(alike.len() as u64, Relaxed);
        }
    }

    /// Frames of a file that never got its end are lost at the disk after all.
    pub(crate) fn lose(&self, frames: UnfinishedFrames) {
        for (ring, FrameSums { written, cut, hardware_time }) in frames.0 {
            let counts = &self.rings[ring].counts;
            counts.written.fetch_sub(written, Relaxed);
            counts.cut.fetch_sub(cut, Relaxed);
            counts.hardware_time.fetch_sub(hardware_time, Relaxed);
            counts.lost_disk.fetch_add(written, Relaxed);
            self.limit.lost_after_all(written);
        }
    }
}

/// How many of these records are of frames that were cut.
fn cut_of(index: &[IndexEntry]) -> u64 {
    index.iter().map(|entry| u64::from(entry.is_cut())).sum()
}

/// Frames in a file that is of no use without its end, by number of the ring.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedFrames(BTreeMap<usize, FrameSums>);

/// Frames, and of these the ones that were cut and the ones with the device's time.
#[derive(Debug, Default)]
struct FrameSums {
    written: u64,
    cut: u64,
    hardware_time: u64,
}

impl UnfinishedFrames {
    /// These records were written.
    pub(crate) fn add(&mut self, index: &[IndexEntry]) {
        for entry in index {
            let sums = self.0.entry(entry.ring()).or_default();
            sums.written += 1;
            sums.cut += u64::from(entry.is_cut());
            sums.hardware_time += u64::from(entry.is_hardware());
        }
    }
}

/// The number of frames that may still be written, shared by all readers.
///
/// A reader takes frames from it before it encodes them and gives back those that are lost, so that
/// others are written instead: taken, written and left always add up to the limit.
#[derive(Debug)]
pub(crate) struct Limit {
    frames_max: Option<u64>,
    left: AtomicU64,
    written: AtomicU64,
    /// The files are complete: nothing more is to be written.
    is_closed: AtomicBool,
}

impl Limit {
    /// `None` is no limit.
    pub(crate) fn new(frames_max: Option<u64>) -> Self {
        let (left, written) = (AtomicU64::new(frames_max.unwrap_or(0)), AtomicU64::new(0));
        Self { frames_max, left, written, is_closed: AtomicBool::new(false) }
    }

    /// The files are complete: what comes from now on is after the limit.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Release);
    }

    /// Takes up to `wanted` frames and returns how many were left.
    pub(crate) fn take(&self, wanted: u64) -> u64 {
        if self.is_closed.load(Acquire) {
            return 0;
        }
        if self.frames_max.is_none() {
            return wanted;
        }
        let before = self.left.fetch_update(AcqRel, Acquire, |left| Some(left.saturating_sub(wanted)));
        before.unwrap_or_else(|left| left).min(wanted)
    }

    /// `frames` of the frames that were taken are lost; others may be written instead.
    pub(crate) fn give_back(&self, frames: u64) {
        if self.frames_max.is_some() {
            self.left.fetch_add(frames, AcqRel);
        }
    }

    /// `frames` of the frames that were taken are in the output.
    pub(crate) fn wrote(&self, frames: u64) {
        if self.frames_max.is_some() {
            self.written.fetch_add(frames, AcqRel);
        }
    }

    /// `frames` of the frames that were in the output are lost; others may be written instead.
    fn lost_after_all(&self, frames: u64) {
        if self.frames_max.is_some() {
            self.written.fetch_sub(frames, AcqRel);
        }
        self.give_back(frames);
    }

    /// True while nothing is left: everything is written, or on its way to be.
    pub(crate) fn is_spent(&self) -> bool {
        self.frames_max.is_some() && self.left.load(Acquire) == 0
    }

    /// True when enough is written.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_closed.load(Acquire)
            || self.frames_max.is_some_and(|frames_max| self.written.load(Acquire) >= frames_max)
    }
}

/// What the files of one name have of a capture: all rings or one, and the frames of each
/// interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCounts {
    /// The number of the ring, if each ring has a file.
    pub(crate) ring: Option<usize>,
    /// True if the files get only a part of what the capture's own filter lets pass.
    pub(crate) is_part: bool,
    /// Interfaces that the file at hand describes.
    pub(crate) interfaces: usize,
    /// Frames of each interface that were written; `None` if they are not counted.
    frames: Option<Vec<u64>>,
}

impl FileCounts {
    /// All rings; counts the frames of each interface if it is asked to.
    pub(crate) fn new(counts_interfaces: bool) -> Self {
        let frames = counts_interfaces.then(Vec::new);
        Self { ring: None, is_part: false, interfaces: 0, frames }
    }

    /// Frames of an interface that were written; `None` if they are not counted.
    pub(crate) fn written(&self, interface: u32) -> Option<u64> {
        Some(self.frames.as_ref()?.get(interface as usize).copied().unwrap_or(0))
    }

    /// These records were written.
    pub(crate) fn add(&mut self, index: &[IndexEntry]) {
        let Some(frames) = &mut self.frames else { return };
        for entry in index {
            if entry.interface() >= frames.len() {
                frames.resize(entry.interface() + 1, 0);
            }
            frames[entry.interface()] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{EncodedBatch, samples::add};

    #[test]
    fn records_count_for_their_ring_clock_and_interface() {
        let (rings, limit) = ([0, 1].map(|_| RingHandle::for_test()), Limit::new(Some(10)));
        let mut batch = EncodedBatch::default();
        for (ring, interface) in [(0, 1), (0, 1), (1, 0), (0, 2), (1, 1)] {
            add(&mut batch, ring, interface, 5, &[7; 33]);
        }
        limit.take(5);
        Accounting::new(&rings, &limit).settle(&batch.index, 3);
        let counts = rings.each_ref().map(|ring| ring.counts.get());
        let counts = counts.map(|counts| (counts.written, counts.hardware_time, counts.lost_disk));
        assert_eq!(counts, [(2, 2, 1), (1, 0, 1)]);
        assert_eq!(limit.take(100), 7);
        // A chunk of alike records is counted as each of them is.
        for (count, cuts) in [(3, [true; 3]), (3, [true, false, true]), (2, [false; 3])] {
            let (rings, limit) = ([RingHandle::for_test()], Limit::new(None));
            let mut batch = EncodedBatch::default();
            for is_cut in &cuts[..count] {
                batch.push(IndexEntry::new(5, 0, 0, 1, true).with_cut(*is_cut));
            }
            let is_alike = cuts.iter().all(|cut| *cut == cuts[0]);
            assert_eq!(batch.chunk().is_alike, is_alike);
            let accounting = Accounting::new(&rings, &limit);
            accounting.settle_chunk(&batch.chunk(), count);
            accounting.settle_chunk(&batch.chunk(), 1);
            let counts = rings[0].counts.get();
            let cut = cuts[..count].iter().chain(&cuts[..1]).filter(|cut| **cut).count();
            let expected = (count as u64 + 1, count as u64 + 1, cut as u64, count as u64 - 1);
            assert_eq!((counts.written, counts.hardware_time, counts.cut, counts.lost_disk), expected);
        }
        let mut counts = FileCounts::new(true);
        counts.add(&batch.index);
        assert_eq!([0, 1, 2, 3].map(|n| counts.written(n)), [1, 3, 1, 0].map(Some));
        let mut none = FileCounts::new(false);
        none.add(&batch.index);
        assert_eq!(none.written(0), None);
    }

    #[test]
    fn exactly_the_limit_is_handed_out_by_many_takers() {
        let limit = Limit::new(Some(1000));
        let taken: u64 = std::thread::scope(|scope| {
            let takers: Vec<_> = (1..5)
                .map(|step| {
                    scope.spawn({
                        let limit = &limit;
                        move || (0..200).map(|_| limit.take(step)).sum::<u64>()
                    })
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        assert!(limit.is_spent());
        assert_eq!(limit.take(5), 0);
    }

    #[test]
    fn no_limit_never_ends_and_zero_ends_at_once() {
        let endless = Limit::new(None);
        assert_eq!((endless.take(u64::MAX), endless.take(u64::MAX)), (u64::MAX, u64::MAX));
        endless.give_back(1);
        endless.wrote(u64::MAX);
        assert!(!endless.is_spent() && !endless.is_reached());
        let zero = Limit::new(Some(0));
        assert!(zero.is_spent() && zero.is_reached());
    }

    #[test]
    fn what_is_lost_is_taken_again_until_enough_is_written() {
        let limit = Limit::new(Some(10));
        assert_eq!(limit.take(20), 10);
        limit.wrote(7);
        assert!(limit.is_spent() && !limit.is_reached());
        limit.give_back(3);
        assert_eq!(limit.take(20), 3);
        limit.wrote(3);
        assert!(limit.is_reached());
    }
}
