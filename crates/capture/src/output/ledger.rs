//! What several outputs did with each frame: a frame counts once, when all its outputs have
//! decided.

use crate::record::batch::IndexEntry;
use facts::Described;
use std::collections::VecDeque;

/// What became of the frames of one output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Described)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct OutputCounts {
    /// Frames that match the filter of another output, and not this one's.
    #[fact(unit = "frames")]
    pub not_matched: u64,
    /// Frames of this output in its files, as `written` of the capture.
    #[fact(unit = "frames")]
    pub written: u64,
    /// Of the frames written, those that this output has cut.
    #[fact(unit = "frames")]
    pub cut: u64,
    /// Frames of this output that are lost because its file failed or was too slow.
    #[fact(unit = "frames")]
    pub lost_disk: u64,
    /// Frames of this output received after `--count` frames were written, or after the end of its
    /// files.
    #[fact(unit = "frames")]
    pub after_limit: u64,
}

/// A frame about which not all of its outputs have decided.
struct PendingFrame {
    entry: IndexEntry,
    /// Outputs that have not decided.
    undecided: u32,
    is_written: bool,
    is_lost: bool,
}

/// What the outputs did with each frame.
pub(crate) struct Ledger {
    /// Frames in their order, from number `first` on.
    pending: VecDeque<PendingFrame>,
    first: u64,
    /// Numbers of the frames about which an output has not decided, for each output.
    undecided: Vec<VecDeque<u64>>,
    /// Frames that are written.
    pub(crate) written: u64,
    pub(crate) counts: Vec<OutputCounts>,
}

/// What an output did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Written,
    Lost,
    AfterLimit,
}

impl Ledger {
    pub(crate) fn new(outputs: usize) -> Self {
        Self {
            pending: VecDeque::new(),
            first: 0,
            undecided: vec![VecDeque::new(); outputs],
            written: 0,
            counts: vec![OutputCounts::default(); outputs],
        }
    }

    /// True if not all outputs have decided about all frames.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Frames that are written, or on their way.
    pub(crate) fn taken(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// A frame is on its way to the outputs whose bits are set.
    pub(crate) fn begin(&mut self, entry: IndexEntry, takers: u64) {
        let number = self.first + self.pending.len() as u64;
        let undecided = takers.count_ones();
        self.pending.push_back(PendingFrame { entry, undecided, is_written: false, is_lost: false });
        for (output, numbers) in self.undecided.iter_mut().enumerate() {
            if takers & 1 << output != 0 {
                numbers.push_back(number);
            }
        }
    }

    /// An output has decided about the next of its frames, in their order. Returns the frames about
    /// which all outputs have decided now, and what became of them.
    pub(crate) fn decide(
        &mut self,
        output: usize,
        decisions: impl Iterator<Item = Decision>,
    ) -> Vec<(IndexEntry, Decision)> {
        for decision in decisions {
            let counts = &mut self.counts[output];
            match decision {
                Decision::Written => counts.written += 1,
                Decision::Lost => counts.lost_disk += 1,
                Decision::AfterLimit => counts.after_limit += 1,
            }
            let number = self.undecided[output].pop_front().expect("each decision is about a frame");
            let frame = &mut self.pending[(number - self.first) as usize];
            frame.undecided -= 1;
            frame.is_written |= decision == Decision::Written;
            frame.is_lost |= decision == Decision::Lost;
        }
        let count = self.pending.iter().take_while(|frame| frame.undecided == 0).count();
        self.first += count as u64;
        let fate = |frame: PendingFrame| match (frame.is_lost, frame.is_written) {
            (true, _) => (frame.entry, Decision::Lost),
            (false, true) => (frame.entry, Decision::Written),
            (false, false) => (frame.entry, Decision::AfterLimit),
        };
        let decided: Vec<_> = self.pending.drain(..count).map(fate).collect();
        let is_written = |(_, fate): &&(IndexEntry, Decision)| *fate == Decision::Written;
        self.written += decided.iter().filter(is_written).count() as u64;
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{EncodedBatch, samples::add};
    use Decision::{AfterLimit, Lost, Written};

    fn entries(count: usize) -> Vec<IndexEntry> {
        let mut batch = EncodedBatch::default();
        (0..count).for_each(|_| add(&mut batch, 0, 0, 5, &[7; 60]));
        batch.index
    }

    #[test]
    fn a_frame_counts_once_when_all_its_outputs_have_decided() {
        let mut ledger = Ledger::new(2);
        for (entry, takers) in entries(5).into_iter().zip([0b11, 0b01, 0b11, 0b10, 0b11]) {
            ledger.begin(entry, takers);
        }
        let fates = |decided: Vec<(IndexEntry, Decision)>| -> Vec<Decision> {
            decided.into_iter().map(|(_, fate)| fate).collect()
        };
        // The second output packs its frames and decides later.
        let first = ledger.decide(0, [Written, Written, Lost, AfterLimit].into_iter());
        assert_eq!(first, [], "the first frame waits for the second output");
        assert_eq!(fates(ledger.decide(1, [Written].into_iter())), [Written, Written]);
        let last = ledger.decide(1, [Written, Written, AfterLimit].into_iter());
        assert_eq!(fates(last), [Lost, Written, AfterLimit]);
        assert_eq!((ledger.taken(), ledger.written), (3, 3));
        let told = |counts: &OutputCounts| (counts.written, counts.lost_disk, counts.after_limit);
        assert_eq!(ledger.counts.iter().map(told).collect::<Vec<_>>(), [(2, 1, 1), (3, 0, 1)]);
    }
}
