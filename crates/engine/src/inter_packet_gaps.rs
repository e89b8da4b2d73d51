//! Measured inter-packet gaps of a paced run.

use hdrhistogram::Histogram;

/// Longest gap that is recorded exactly: 100 s.
const GAP_NS_MAX: u64 = 100_000_000_000;
/// Two digits: every value within 1 %.
const DIGITS: u8 = 2;

/// InterPacketGaps between the starts of frames, in nanoseconds.
///
/// Of a burst of several frames only start and end are known; its frames count as evenly spaced.
#[derive(Clone, Debug)]
pub struct InterPacketGaps {
    histogram: Histogram<u64>,
    /// Exact sum of all gaps; the histogram rounds.
    sum_ns: u128,
    last_ns: Option<u64>,
}

impl InterPacketGaps {
    /// No gaps yet.
    ///
    /// # Panics
    /// Never: the bounds are valid constants.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, GAP_NS_MAX, DIGITS).expect("constant bounds are good");
        Self { histogram, sum_ns: 0, last_ns: None }
    }

    /// A burst of `frames` between two times. Returns the gap before it and the gaps within it,
    /// with their counts.
    pub fn burst(&mut self, start_ns: u64, end_ns: u64, frames: u64) -> [(u64, u64); 2] {
        if frames == 0 {
            return [(0, 0); 2];
        }
        let before = self.last_ns.map_or((0, 0), |last_ns| (start_ns.saturating_sub(last_ns), 1));
        let spacing_ns = end_ns.saturating_sub(start_ns) / frames;
        let gaps = [before, (spacing_ns, frames - 1)];
        gaps.into_iter().for_each(|(gap_ns, count)| self.record(gap_ns, count));
        self.last_ns = Some(start_ns + spacing_ns * (frames - 1));
        gaps
    }

    /// The gap before the next frame does not count.
    pub(crate) fn skip_next(&mut self) {
        self.last_ns = None;
    }

    fn record(&mut self, gap_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.histogram.saturating_record_n(gap_ns, count);
        self.sum_ns += u128::from(gap_ns) * u128::from(count);
    }

    /// InterPacketGaps recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Quantile of the gaps in nanoseconds (0.5 for the median): the middle of the recorded
    /// interval that it lies in, within 0.4 %.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.median_equivalent(self.histogram.value_at_quantile(share)).min(self.max_ns())
    }

    /// The mean gap in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// The longest gap in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.histogram.max()
    }

    /// The recorded lengths and their counts, shortest first; lengths are within 1 %.
    pub fn lengths(&self) -> Vec<(u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    /// Number of gaps below each power of two nanoseconds and not below the previous one; empty
    /// buckets are omitted.
    pub fn log2_buckets(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (gap_ns, count) in self.lengths() {
            let below_ns = (gap_ns + 1).next_power_of_two();
            match buckets.last_mut().filter(|last| last.0 == below_ns) {
                Some(last) => last.1 += count,
                None => buckets.push((below_ns, count)),
            }
        }
        buckets
    }

    /// Adds the gaps of another thread.
    pub fn add(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.sum_ns += other.sum_ns;
    }
}

impl Default for InterPacketGaps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_frames_give_their_distance_and_bursts_their_spacing() {
        let mut gaps = InterPacketGaps::new();
        for start in [0, 10_000, 20_000] {
            gaps.burst(start, start + 300, 1);
        }
        assert_eq!((gaps.count(), gaps.quantile_ns(0.5) / 100), (2, 100));
        gaps.burst(30_000, 31_000, 10);
        assert_eq!(gaps.count(), 12);
        assert_eq!(gaps.quantile_ns(0.5), 100);
        assert_eq!(gaps.mean_ns(), (2.0 * 10_000.0 + 10_000.0 + 9.0 * 100.0) / 12.0);
    }

    #[test]
    fn octaves_hold_every_gap_once_and_in_order() {
        let mut gaps = InterPacketGaps::new();
        let mut now_ns = 0;
        for gap_ns in [0, 1, 2, 3, 4, 1023, 1024, 5000, 5000, 1 << 40] {
            gaps.burst(now_ns, now_ns, 1);
            now_ns += gap_ns;
        }
        gaps.burst(now_ns, now_ns, 1);
        let buckets = gaps.log2_buckets();
        assert_eq!(buckets[..5], [(1, 1), (2, 1), (4, 2), (8, 1), (1024, 1)]);
        assert_eq!(buckets[5..7], [(2048, 1), (8192, 2)]);
        assert_eq!(buckets.iter().map(|octave| octave.1).sum::<u64>(), gaps.count());
        assert!(buckets.last().is_some_and(|octave| octave.0 >= GAP_NS_MAX));
    }
}
