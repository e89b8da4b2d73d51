//! The order of flows in full: exact reordering extent and n-reordering (RFC 4737), densities
//! (RFC 5236).
//!
//! [`Arrivals`] keeps all numbers of a flow, unlike [`crate::FlowLine`]: it tells first copies from
//! duplicates at any distance. Consecutive numbers take one entry, so a flow in order takes little
//! memory. It is for captured frames; the receiver in the kernel has no memory for it.

use facts::Described;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Extents, places and displacements above this are counted as this plus 1.
const LISTED_MAX: u64 = 64;

/// The numbers of a flow in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// First copies in the order of arrival.
    runs: Vec<NumberRun>,
    /// First number of each interval of received numbers, and the number behind its last one.
    seen: BTreeMap<u64, u64>,
    duplicate: u64,
}

/// Consecutive numbers that arrived one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRun {
    first: u64,
    len: u64,
}

impl Arrivals {
    /// Counts a frame with this number. Returns true for a first copy.
    pub fn receive(&mut self, number: u64) -> bool {
        // The next number of a flow in order.
        if let (Some(mut highest), Some(run)) = (self.seen.last_entry(), self.runs.last_mut())
            && *highest.get() == number
            && run.first + run.len == number
        {
            *highest.get_mut() += 1;
            run.len += 1;
            return true;
        }
        let below = self.seen.range_mut(..=number).next_back();
        match below {
            Some((_, end)) if number < *end => {
                self.duplicate += 1;
                return false;
            }
            Some((_, end)) if number == *end => *end += 1,
            _ => {
                self.seen.insert(number, number + 1);
            }
        }
        if let Some(end) = self.seen.remove(&(number + 1)) {
            let (_, grown) = self.seen.range_mut(..=number).next_back().expect("it holds the number");
            *grown = end;
        }
        match self.runs.last_mut() {
            Some(run) if run.first + run.len == number => run.len += 1,
            _ => self.runs.push(NumberRun { first: number, len: 1 }),
        }
        true
    }

    /// Received numbers above this one.
    pub(crate) fn count_above(&self, number: u64) -> u64 {
        let within =
            self.seen.range(..=number).next_back().map_or(0, |(_, end)| end.saturating_sub(number + 1));
        within + self.seen.range(number + 1..).map(|(first, end)| end - first).sum::<u64>()
    }

    /// True if no first copy arrived after one with a higher number.
    fn is_in_order(&self) -> bool {
        self.runs.is_sorted_by(|before, behind| before.first + before.len <= behind.first)
    }

    /// First copies in the order of arrival.
    fn in_arrival_order(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| run.first..run.first + run.len)
    }

    /// Numbers of the first copies, the lowest first.
    fn in_sent_order(&self) -> impl Iterator<Item = u64> + '_ {
        self.seen.iter().flat_map(|(first, end)| *first..*end)
    }
}

/// Order of all flows of a capture. A number that the capture does not have is lost: no threshold
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct OrderFigures {
    /// First copies.
    #[fact(unit = "frames")]
    pub unique: u64,
    /// Further copies, at any distance.
    #[fact(unit = "frames")]
    pub duplicate: u64,
    /// First copies with a number below the next expected one (RFC 4737 section 3.3).
    #[fact(unit = "frames")]
    pub reordered: u64,
    /// Longest reordering extent (RFC 4737 section 4.2): places between a reordered frame and the
    /// first frame before it that has a higher number.
    #[fact(unit = "frames")]
    pub extent_max: u64,
    /// Mean extent of the reordered frames; `null` without one.
    #[fact(unit = "frames")]
    pub extent_mean: Option<f64>,
    /// Reordered frames by extent; 65 for all above 64.
    pub extents: Vec<FramesAt>,
    /// Frames that are n-reordered: the n frames before them have higher numbers (RFC 4737 section
    /// 5), for each n up to 64. TCP takes a 3-reordered frame for lost.
    pub n_reordered: Vec<FramesAt>,
    /// Reorder density (RFC 5236): frames by displacement, the place of arrival minus the place in
    /// the order of numbers. Negative for an early frame; -65 and 65 for all beyond 64.
    pub density: Vec<FramesAt>,
    /// Reorder buffer-occupancy density (RFC 5236): arrivals by the number of early frames that a
    /// receiver holds after them to restore the order; 65 for all above 64.
    pub buffer_density: Vec<FramesAt>,
}

/// A count of frames for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct FramesAt {
    /// A value; 65 or -65 stands for all beyond 64.
    pub value: i64,
    /// The number of frames with it.
    #[fact(unit = "frames")]
    pub frames: u64,
}

impl OrderFigures {
    /// Sums up all flows.
    pub fn new<'a>(flows: impl IntoIterator<Item = &'a Arrivals>) -> Self {
        let mut sums = OrderSums::default();
        flows.into_iter().for_each(|arrivals| sums.add(arrivals));
        let reordered = sums.extents.values().sum();
        Self {
            unique: sums.unique,
            duplicate: sums.duplicate,
            reordered,
            extent_max: sums.extent_max,
            extent_mean: (reordered > 0).then(|| sums.extent_sum as f64 / reordered as f64),
            extents: listed(&sums.extents),
            n_reordered: sums.n_reordered(),
            density: listed(&sums.displacements),
            buffer_density: listed(&sums.held),
        }
    }

    /// Frames that are `n`-reordered.
    pub fn n_reordered(&self, n: i64) -> u64 {
        self.n_reordered.iter().find(|row| row.value == n).map_or(0, |row| row.frames)
    }
}

fn listed(counts: &BTreeMap<i64, u64>) -> Vec<FramesAt> {
    counts.iter().map(|(value, frames)| FramesAt { value: *value, frames: *frames }).collect()
}

/// Sums over flows.
#[derive(Debug, Default)]
struct OrderSums {
    unique: u64,
    duplicate: u64,
    extent_max: u64,
    extent_sum: u64,
    extents: BTreeMap<i64, u64>,
    /// Frames by the highest n for which they are n-reordered.
    highest_n: BTreeMap<u64, u64>,
    displacements: BTreeMap<i64, u64>,
    held: BTreeMap<i64, u64>,
}

impl OrderSums {
    fn add(&mut self, arrivals: &Arrivals) {
        let frames = arrivals.runs.iter().map(|run| run.len).sum::<u64>();
        self.unique += frames;
        self.duplicate += arrivals.duplicate;
        if arrivals.is_in_order() {
            if frames > 0 {
                *self.displacements.entry(0).or_default() += frames;
                *self.held.entry(0).or_default() += frames;
            }
            return;
        }
        let (mut highest, mut ascending) = (Rising::default(), Rising::default());
        let mut buffer = ReorderBuffer::new(arrivals.in_sent_order());
        let both = arrivals.in_arrival_order().zip(arrivals.in_sent_order());
        for (place, (number, receive_index)) in (0..).zip(both) {
            if let Some(higher) = highest.first_above(number) {
                let extent = place - higher;
                self.extent_max = self.extent_max.max(extent);
                self.extent_sum += extent;
                count(&mut self.extents, false, extent);
            } else {
                highest.push(number, place);
            }
            ascending.pop_above(number);
            let higher_before = ascending.last_place().map_or(place, |lower| place - lower - 1);
            ascending.push(number, place);
            if higher_before > 0 {
                *self.highest_n.entry(higher_before).or_default() += 1;
            }
            count(&mut self.displacements, receive_index < number, receive_index.abs_diff(number));
            count(&mut self.held, false, buffer.receive(number));
        }
    }

    /// A frame that is n-reordered is (n - 1)-reordered as well.
    fn n_reordered(&self) -> Vec<FramesAt> {
        let highest = self.highest_n.keys().next_back().copied().unwrap_or(0).min(LISTED_MAX);
        let frames = |n| self.highest_n.range(n..).map(|(_, frames)| frames).sum();
        (1..=highest).map(|n| FramesAt { value: n as i64, frames: frames(n) }).collect()
    }
}

fn count(counts: &mut BTreeMap<i64, u64>, is_negative: bool, distance: u64) {
    let distance = distance.min(LISTED_MAX + 1) as i64;
    *counts.entry(if is_negative { -distance } else { distance }).or_default() += 1;
}

/// Numbers that rise, each with its place of arrival, as runs in which both rise by 1.
#[derive(Debug, Default)]
struct Rising {
    runs: Vec<(NumberRun, u64)>,
}

impl Rising {
    /// Appends a number above all others.
    fn push(&mut self, number: u64, place: u64) {
        match self.runs.last_mut() {
            Some((run, first)) if run.first + run.len == number && *first + run.len == place => run.len += 1,
            _ => self.runs.push((NumberRun { first: number, len: 1 }, place)),
        }
    }

    /// Place of the first number above `number`.
    fn first_above(&self, number: u64) -> Option<u64> {
        let at = self.runs.partition_point(|(run, _)| run.first + run.len <= number + 1);
        let (run, place) = self.runs.get(at)?;
        Some(place + (number + 1).saturating_sub(run.first))
    }

    /// Removes all numbers above `number`.
    fn pop_above(&mut self, number: u64) {
        while let Some((run, _)) = self.runs.last_mut() {
            if run.first < number {
                run.len = run.len.min(number - run.first);
                return;
            }
            self.runs.pop();
        }
    }

    /// Place of the highest number.
    fn last_place(&self) -> Option<u64> {
        self.runs.last().map(|(run, place)| place + run.len - 1)
    }
}

/// The buffer of a receiver that restores the order of the numbers that arrive.
struct ReorderBuffer<I> {
    /// The numbers behind `expected`, in order.
    rest: I,
    expected: Option<u64>,
    early: BTreeSet<u64>,
}

impl<I: Iterator<Item = u64>> ReorderBuffer<I> {
    fn new(mut sent: I) -> Self {
        let expected = sent.next();
        Self { rest: sent, expected, early: BTreeSet::new() }
    }

    /// Takes a number. Returns how many numbers are held then.
    fn receive(&mut self, number: u64) -> u64 {
        if self.expected != Some(number) {
            self.early.insert(number);
            return self.early.len() as u64;
        }
        self.expected = self.rest.next();
        while self.expected.is_some_and(|expected| self.early.remove(&expected)) {
            self.expected = self.rest.next();
        }
        self.early.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(numbers: &[u64]) -> OrderFigures {
        let mut arrivals = Arrivals::default();
        for number in numbers {
            arrivals.receive(*number);
        }
        OrderFigures::new([&arrivals])
    }

    fn rows(rows: &[FramesAt]) -> Vec<(i64, u64)> {
        rows.iter().map(|row| (row.value, row.frames)).collect()
    }

    #[test]
    fn a_flow_in_order_is_one_entry_and_all_zero() {
        let mut arrivals = Arrivals::default();
        (7..100_007).for_each(|number| assert!(arrivals.receive(number)));
        assert_eq!((arrivals.runs.len(), arrivals.seen.len()), (1, 1));
        let figures = OrderFigures::new([&arrivals]);
        assert_eq!((figures.unique, figures.reordered, figures.extent_mean), (100_000, 0, None));
        assert_eq!(rows(&figures.density), [(0, 100_000)]);
        assert_eq!(rows(&figures.buffer_density), [(0, 100_000)]);
        assert_eq!(figures.n_reordered, []);
    }

    #[test]
    fn a_flow_in_order_with_losses_and_copies_is_all_zero() {
        let figures = figures(&[1, 2, 2, 5, 6, 1, 9]);
        assert_eq!((figures.unique, figures.duplicate, figures.reordered), (5, 2, 0));
        assert_eq!((rows(&figures.density), rows(&figures.buffer_density)), (vec![(0, 5)], vec![(0, 5)]));
        assert_eq!((figures.extents, figures.n_reordered), (vec![], vec![]));
    }

    #[test]
    fn a_frame_overtaken_by_three_is_3_reordered() {
        let figures = figures(&[1, 2, 4, 5, 6, 3, 7]);
        assert_eq!((figures.reordered, figures.extent_max, figures.extent_mean), (1, 3, Some(3.0)));
        assert_eq!(rows(&figures.n_reordered), [(1, 1), (2, 1), (3, 1)]);
        assert_eq!((figures.n_reordered(3), figures.n_reordered(4)), (1, 0));
        // 4, 5 and 6 are early by one place, 3 is late by three.
        assert_eq!(rows(&figures.density), [(-1, 3), (0, 3), (3, 1)]);
        assert_eq!(rows(&figures.buffer_density), [(0, 4), (1, 1), (2, 1), (3, 1)]);
    }

    /// Of two late frames one behind the other, the second has a lower neighbour before it: its
    /// extent counts and its n does not.
    #[test]
    fn a_burst_of_late_frames_is_1_reordered_once() {
        let figures = figures(&[1, 5, 6, 7, 2, 3, 4]);
        assert_eq!(rows(&figures.extents), [(3, 1), (4, 1), (5, 1)]);
        assert_eq!(rows(&figures.n_reordered), [(1, 1), (2, 1), (3, 1)]);
    }

    #[test]
    fn lost_numbers_take_no_place_and_copies_are_not_counted_twice() {
        let figures = figures(&[1, 4, 3, 5, 3, 8, 7, 6]);
        assert_eq!((figures.unique, figures.duplicate, figures.reordered), (7, 1, 3));
        assert_eq!(rows(&figures.density), [(-2, 1), (-1, 1), (0, 3), (1, 1), (2, 1)]);
    }

    #[test]
    fn what_lies_far_away_is_counted_at_65() {
        let late: Vec<u64> = (1..=100).chain([0]).collect();
        let figures = figures(&late);
        assert_eq!((figures.extent_max, figures.n_reordered(64)), (100, 1));
        assert_eq!(rows(&figures.extents), [(65, 1)]);
        assert_eq!(figures.n_reordered.len(), 64);
        assert_eq!(rows(&figures.density), [(-1, 100), (65, 1)]);
        assert_eq!(rows(&figures.buffer_density).last(), Some(&(65, 36)));
    }
}
