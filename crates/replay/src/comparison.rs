//! Compares the frames that a receiver got with those that were sent.
//!
//! A sent frame is identical, changed or missing; a received one is identical, changed, a duplicate
//! or unexpected. Frames are known by a digest of their bytes (XXH64) and their length, and only
//! those on their way and the last before them are kept, so memory does not grow with the run.

use crate::outer::flow_hash;
use facts::Described;
use std::collections::{HashMap, VecDeque};
use twox_hash::XxHash64;

/// Frames that are kept behind the last one that arrived, for those that come late or twice.
const FRAMES_BEHIND: u64 = 1 << 18;
/// Most frames that are kept. A frame that is this far behind the last one sent is missing.
const FRAMES_MAX: usize = 1 << 20;

/// A frame by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDigest {
    digest: u64,
    frame_len: u32,
    queue: u16,
}

impl FrameDigest {
    /// Of a frame that leaves by queue `queue`.
    pub fn new(frame: &[u8], queue: u16) -> Self {
        Self { digest: XxHash64::oneshot(0, frame), frame_len: frame.len() as u32, queue }
    }
}

/// A frame that was sent.
#[derive(Clone, Copy, Debug)]
struct SentFrame {
    frame: FrameDigest,
    has_arrived: bool,
}

/// Frames of one run so far.
#[derive(Debug)]
pub struct Comparison {
    /// Frames in the order of sending.
    window: VecDeque<SentFrame>,
    /// Number of the first of them in the run, from 0 on.
    first: u64,
    /// How many frames of the window have a digest.
    digests: HashMap<u64, u32>,
    /// For each queue, the number behind the last frame of it that arrived in order.
    next: Vec<u64>,
    /// Frames of each queue.
    sent: Vec<u64>,
    /// Missing frames and frames with unknown bytes, by their length.
    missing: HashMap<u32, u64>,
    unexpected: HashMap<u32, u64>,
    counts: ComparisonResult,
}

/// What the comparison found.
///
/// `sent = identical + changed + missing`, `received = identical + changed + duplicate +
/// unexpected`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, Described)]
pub struct ComparisonResult {
    /// Frames that were sent: `identical` + `changed` + `missing` ([replay.md](replay.md)).
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Frames that arrived: `identical` + `changed` + `duplicate` + `unexpected`.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames that arrived with the same bytes.
    #[fact(unit = "frames")]
    pub identical: u64,
    /// Frames that did not arrive, while one of their length with other bytes did.
    #[fact(unit = "frames")]
    pub changed: u64,
    /// Frames that did not arrive.
    #[fact(unit = "frames")]
    pub missing: u64,
    /// Identical frames that arrived behind a later frame of their queue.
    #[fact(unit = "frames")]
    pub reordered: u64,
    /// Further copies of frames.
    #[fact(unit = "frames")]
    pub duplicate: u64,
    /// Frames that were not sent, such as those of other hosts.
    #[fact(unit = "frames")]
    pub unexpected: u64,
    /// Number from 1 on of the first sent frame that differs: it did not arrive once, as it was and
    /// in order. `null` if none does.
    pub first_difference: Option<u64>,
}

impl ComparisonResult {
    /// True if every frame arrived once, as it was, and in order.
    pub fn is_good(&self) -> bool {
        self.identical == self.sent && self.reordered == 0 && self.duplicate == 0
    }

    fn differs_at(&mut self, place: u64) {
        self.first_difference = Some(self.first_difference.map_or(place, |first| first.min(place)));
    }
}

impl Comparison {
    /// Of frames that leave by this number of queues, each of which keeps the order of its frames.
    pub fn new(queues: u16) -> Self {
        let queues = usize::from(queues.max(1));
        Self {
            window: VecDeque::new(),
            first: 0,
            digests: HashMap::new(),
            next: vec![0; queues],
            sent: vec![0; queues],
            missing: HashMap::new(),
            unexpected: HashMap::new(),
            counts: ComparisonResult::default(),
        }
    }

    /// The digest of a frame with the queue of its flow.
    pub fn digest_of(frame: &[u8], queues: u16) -> FrameDigest {
        FrameDigest::new(frame, queue_of(frame, queues))
    }

    /// A frame will be sent. Called before it can arrive. Returns its number in the run, from 0 on.
    pub fn expect(&mut self, frame: FrameDigest) -> u64 {
        let number = self.first + self.window.len() as u64;
        self.sent[usize::from(frame.queue)] += 1;
        *self.digests.entry(frame.digest).or_default() += 1;
        self.window.push_back(SentFrame { frame, has_arrived: false });
        let latest = self.next.iter().max().copied().unwrap_or(0);
        while self.window.len() > FRAMES_MAX || self.first + FRAMES_BEHIND < latest {
            self.settle_first();
        }
        number
    }

    /// A frame has arrived. If it was not sent, returns the number of the frame that was to come
    /// next.
    pub fn receive(&mut self, frame: FrameDigest) -> Option<u64> {
        self.counts.received += 1;
        let known = self.digests.contains_key(&frame.digest);
        match known.then(|| self.find(frame)).flatten() {
            Some(place) => {
                self.found(place, usize::from(frame.queue));
                None
            }
            None => {
                *self.unexpected.entry(frame.frame_len).or_default() += 1;
                Some(self.next[usize::from(frame.queue)])
            }
        }
    }

    /// Frames that have arrived and are identical.
    pub fn identical(&self) -> u64 {
        self.counts.identical
    }

    fn found(&mut self, place: u64, queue: usize) {
        let sent = &mut self.window[(place - self.first) as usize];
        if std::mem::replace(&mut sent.has_arrived, true) {
            self.counts.duplicate += 1;
            return self.counts.differs_at(place + 1);
        }
        self.counts.identical += 1;
        if place < self.next[queue] {
            self.counts.reordered += 1;
            return self.counts.differs_at(place + 1);
        }
        self.next[queue] = place + 1;
    }

    /// The frame of the window that arrived: the next one of its queue, or the nearest to it. One
    /// before the next may have arrived already.
    fn find(&self, frame: FrameDigest) -> Option<u64> {
        let next = self.next[usize::from(frame.queue)].max(self.first);
        let is_it = |place: u64| {
            let sent = self.window.get(place.checked_sub(self.first)? as usize)?;
            (sent.frame == frame).then_some(sent.has_arrived)
        };
        let end = self.first + self.window.len() as u64;
        let distance_max = (end - next).max(next - self.first);
        (0..=distance_max).find_map(|distance| {
            let (ahead, behind) = (next + distance, next.checked_sub(distance));
            match (is_it(ahead), behind.and_then(is_it)) {
                // What arrived ahead of the next one is not of this queue's order.
                (Some(false), _) => Some(ahead),
                (_, Some(_)) if distance > 0 => behind,
                _ => None,
            }
        })
    }

    /// The first frame leaves the window.
    fn settle_first(&mut self) {
        let Some(sent) = self.window.pop_front() else { return };
        let digest = sent.frame.digest;
        let left = self.digests.get_mut(&digest).expect("it was entered");
        *left -= 1;
        if *left == 0 {
            self.digests.remove(&digest);
        }
        if !sent.has_arrived {
            *self.missing.entry(sent.frame.frame_len).or_default() += 1;
            self.counts.differs_at(self.first + 1);
        }
        self.first += 1;
    }

    /// The result, where the first `offered` frames of each queue were offered to the driver.
    pub fn finish(mut self, offered: &[u64]) -> ComparisonResult {
        let queues = self.sent.iter().zip(offered.iter().chain(std::iter::repeat(&0)));
        let mut unsent: Vec<u64> = queues.map(|(sent, offered)| sent.saturating_sub(*offered)).collect();
        self.counts.sent = self.sent.iter().sum::<u64>() - unsent.iter().sum::<u64>();
        // The last frames of each queue were not sent: they are not missing.
        for sent in self.window.iter_mut().rev() {
            let left = &mut unsent[usize::from(sent.frame.queue)];
            if *left > 0 {
                (*left, sent.has_arrived) = (*left - 1, true);
            }
        }
        while !self.window.is_empty() {
            self.settle_first();
        }
        let mut counts = self.counts;
        for (frame_len, missing) in self.missing {
            let unexpected = self.unexpected.entry(frame_len).or_default();
            let changed = missing.min(*unexpected);
            *unexpected -= changed;
            counts.changed += changed;
            counts.missing += missing - changed;
        }
        counts.unexpected = self.unexpected.values().sum();
        counts
    }
}

/// The queue of a frame's flow.
pub fn queue_of(frame: &[u8], queues: u16) -> u16 {
    if queues > 1 { (flow_hash(frame) % u32::from(queues)) as u16 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest(number: u32) -> FrameDigest {
        FrameDigest::new(&number.to_be_bytes().repeat(20), 0)
    }

    /// The result for frames that are sent and then received.
    fn compared(
        sent: impl IntoIterator<Item = u32>,
        received: impl IntoIterator<Item = u32>,
    ) -> ComparisonResult {
        let mut comparison = Comparison::new(1);
        let count = sent.into_iter().map(|number| comparison.expect(digest(number))).count();
        received.into_iter().for_each(|number| {
            comparison.receive(digest(number));
        });
        comparison.finish(&[count as u64])
    }

    #[test]
    fn a_lost_a_duplicated_a_swapped_and_a_changed_frame_are_found() {
        let all = ComparisonResult { sent: 100, received: 100, identical: 100, ..Default::default() };
        assert_eq!(compared(0..100, 0..100), all);
        assert!(all.is_good());
        let lost = (0..100).filter(|number| *number != 50);
        let result =
            ComparisonResult { received: 99, identical: 99, missing: 1, first_difference: Some(51), ..all };
        assert_eq!(compared(0..100, lost), result);
        let twice = (0..=50).chain(50..100);
        let result = ComparisonResult { received: 101, duplicate: 1, first_difference: Some(51), ..all };
        assert_eq!(compared(0..100, twice), result);
        let swapped = (0..50).chain([51, 50]).chain(52..100);
        assert_eq!(
            compared(0..100, swapped),
            ComparisonResult { reordered: 1, first_difference: Some(51), ..all }
        );
        let changed = (0..50).chain([1000]).chain(51..100);
        let result = ComparisonResult { identical: 99, changed: 1, first_difference: Some(51), ..all };
        assert_eq!(compared(0..100, changed), result);
        let foreign = (0..100).chain([1000]);
        let result = ComparisonResult { received: 101, unexpected: 1, ..all };
        assert_eq!(compared(0..100, foreign), result);
        assert!(result.is_good(), "frames of other hosts are not differences");
    }

    #[test]
    fn a_lost_frame_of_a_loop_does_not_shift_the_loops_behind_it() {
        let sent = || (0..1000).map(|number| number % 10);
        let received = sent().enumerate().filter(|(place, _)| *place != 333).map(|(_, number)| number);
        let result = compared(sent(), received);
        assert_eq!((result.missing, result.reordered, result.duplicate), (1, 0, 0), "{result:?}");
        assert_eq!(result.first_difference, Some(334));
        // All frames alike: the last is the missing one.
        let result = compared([7; 100], [7; 99]);
        assert_eq!((result.identical, result.missing, result.reordered), (99, 1, 0));
    }

    #[test]
    fn frames_that_were_not_offered_are_not_missing() {
        let mut comparison = Comparison::new(1);
        (0..100).for_each(|number| {
            comparison.expect(digest(number));
        });
        (0..60).for_each(|number| {
            comparison.receive(digest(number));
        });
        let result = comparison.finish(&[60]);
        assert!(result.is_good() && result.sent == 60, "{result:?}");
    }

    #[test]
    fn a_frame_that_was_not_sent_is_compared_with_the_next_one() {
        let mut comparison = Comparison::new(1);
        assert_eq!([0, 1, 2].map(|number| comparison.expect(digest(number))), [0, 1, 2]);
        assert_eq!(comparison.receive(digest(0)), None);
        assert_eq!(comparison.receive(digest(9)), Some(1));
    }

    #[test]
    fn each_queue_has_an_order_of_its_own() {
        let frame = |number: u32| FrameDigest { queue: (number % 2) as u16, ..digest(number) };
        let mut comparison = Comparison::new(2);
        (0..100).for_each(|number| {
            comparison.expect(frame(number));
        });
        // Queue 1 runs ahead of queue 0.
        let order = (0..50).map(|place| 2 * place + 1).chain((0..50).map(|place| 2 * place));
        order.for_each(|number| {
            comparison.receive(frame(number));
        });
        let result = comparison.finish(&[50, 50]);
        assert!(result.is_good() && result.sent == 100, "{result:?}");
    }

    #[test]
    fn memory_does_not_grow_with_the_run() {
        let mut comparison = Comparison::new(1);
        for number in 0..(FRAMES_BEHIND as u32 + 1000) {
            comparison.expect(digest(number));
            comparison.receive(digest(number));
        }
        assert!(comparison.window.len() as u64 <= FRAMES_BEHIND + 1);
        assert_eq!(comparison.window.len(), comparison.digests.len());
    }

    proptest! {
        #[test]
        fn all_frames_are_counted_once(
            sent in prop::collection::vec(0..20_u32, 0..200),
            received in prop::collection::vec(0..25_u32, 0..200),
        ) {
            let result = compared(sent.clone(), received.clone());
            prop_assert_eq!(result.sent, sent.len() as u64);
            prop_assert_eq!(result.received, received.len() as u64);
            prop_assert_eq!(result.identical + result.changed + result.missing, result.sent);
            let arrived = result.identical + result.changed + result.duplicate + result.unexpected;
            prop_assert_eq!(arrived, result.received);
        }

        #[test]
        fn losses_and_duplicates_of_different_frames_are_exact(
            faults in prop::collection::vec(0..8_u8, 300),
        ) {
            let copies = |number: u32| match faults[number as usize] { 0 => 0, 1 => 2, _ => 1 };
            let received = (0..300).flat_map(|number| vec![number; copies(number)]);
            let result = compared(0..300, received);
            let count = |fault| faults.iter().filter(|found| **found == fault).count() as u64;
            prop_assert_eq!((result.missing, result.duplicate, result.reordered), (count(0), count(1), 0));
        }
    }
}
