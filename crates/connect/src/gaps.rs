//! Data that has arrived behind a gap: the ranges that selective acknowledgements (RFC 2018) name.
//!
//! Only the ranges are kept. The bytes are not needed to count them, so nothing is reassembled.

use crate::connection::{Connection, GAPS_MAX, Gap, is_after};

impl Connection {
    /// The remembered ranges, the most recent one first. They neither overlap nor touch.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps[..usize::from(self.gap_count)]
    }

    /// Remembers a range. Of more than [`GAPS_MAX`] ranges the oldest one is forgotten: the server
    /// sends it again.
    pub(crate) fn add_gap(&mut self, mut first: u32, mut end: u32) {
        let mut kept = Vec::with_capacity(GAPS_MAX);
        for gap in self.gaps() {
            if !is_after(first, gap.end) && !is_after(gap.first, end) {
                first = if is_after(first, gap.first) { gap.first } else { first };
                end = if is_after(gap.end, end) { gap.end } else { end };
            } else {
                kept.push(*gap);
            }
        }
        kept.truncate(GAPS_MAX - 1);
        self.gap_count = kept.len() as u8 + 1;
        self.gaps = [Gap::default(); GAPS_MAX];
        self.gaps[0] = Gap { first, end };
        self.gaps[1..=kept.len()].copy_from_slice(&kept);
    }

    /// Moves the next expected number behind the ranges that it has reached. Returns their bytes
    /// behind it.
    pub(crate) fn take_gaps(&mut self) -> u32 {
        let mut kept = Vec::with_capacity(GAPS_MAX);
        let mut next = self.rcv_nxt;
        for gap in self.gaps() {
            if is_after(gap.first, next) {
                kept.push(*gap);
            } else if is_after(gap.end, next) {
                next = gap.end;
            }
        }
        let taken = next.wrapping_sub(self.rcv_nxt);
        self.gap_count = kept.len() as u8;
        self.gaps[..GAPS_MAX - 1].fill(Gap::default());
        self.gaps[..kept.len()].copy_from_slice(&kept);
        self.rcv_nxt = next;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(c: &Connection) -> Vec<(u32, u32)> {
        c.gaps().iter().map(|gap| (gap.first, gap.end)).collect()
    }

    #[test]
    fn ranges_that_touch_become_one_and_the_newest_is_first() {
        let mut c = Connection { rcv_nxt: 100, ..Connection::default() };
        c.add_gap(200, 300);
        c.add_gap(400, 500);
        assert_eq!(ranges(&c), [(400, 500), (200, 300)]);
        c.add_gap(300, 400);
        assert_eq!(ranges(&c), [(200, 500)]);
        c.rcv_nxt = 200;
        assert_eq!((c.take_gaps(), c.rcv_nxt, ranges(&c)), (300, 500, vec![]));
    }

    #[test]
    fn the_oldest_of_four_ranges_is_forgotten() {
        let mut c = Connection { rcv_nxt: 0, ..Connection::default() };
        (1..=4).for_each(|i| c.add_gap(i * 100, i * 100 + 50));
        assert_eq!(ranges(&c), [(400, 450), (300, 350), (200, 250)]);
    }

    proptest! {
        /// Segments in any order, also across the wrap of numbers: each byte is counted once, and
        /// the end is reached when all have come often enough.
        #[test]
        fn every_byte_is_counted_once(start in any::<u32>(), order in prop::collection::vec(0_u32..20, 0..80)) {
            let mut c = Connection { rcv_nxt: start, ..Connection::default() };
            let mut counted = 0;
            let sweep = 0..20;
            for part in order.into_iter().chain(sweep) {
                let (first, end) = (start.wrapping_add(part * 10), start.wrapping_add(part * 10 + 10));
                if is_after(first, c.rcv_nxt) {
                    c.add_gap(first, end);
                } else if is_after(end, c.rcv_nxt) {
                    counted += end.wrapping_sub(c.rcv_nxt);
                    c.rcv_nxt = end;
                    counted += c.take_gaps();
                }
                for (place, gap) in c.gaps().iter().enumerate() {
                    prop_assert!(is_after(gap.first, c.rcv_nxt) && is_after(gap.end, gap.first));
                    for other in &c.gaps()[place + 1..] {
                        prop_assert!(is_after(gap.first, other.end) || is_after(other.first, gap.end));
                    }
                }
            }
            prop_assert_eq!(counted, 200);
            prop_assert_eq!(c.rcv_nxt, start.wrapping_add(200));
            prop_assert_eq!(c.gaps().len(), 0);
        }
    }
}
