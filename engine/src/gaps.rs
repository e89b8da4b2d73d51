//! The gaps that a paced run really made between its frames.

use hdrhistogram::Histogram;

/// Longest gap that is told apart: 100 s.
const GAP_NS_MAX: u64 = 100_000_000_000;
/// Two digits: every value within 1 %.
const DIGITS: u8 = 2;

/// Gaps between the starts of frames, in nanoseconds.
///
/// A burst of several frames is known by its start and its end only; its frames count as evenly spread.
#[derive(Clone, Debug)]
pub struct Gaps {
    histogram: Histogram<u64>,
    last_ns: Option<u64>,
}

impl Gaps {
    /// No gaps yet.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram takes.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, GAP_NS_MAX, DIGITS).expect("constant bounds are good");
        Self { histogram, last_ns: None }
    }

    /// A burst of `frames` between two times.
    pub fn burst(&mut self, start_ns: u64, end_ns: u64, frames: u64) {
        if frames == 0 {
            return;
        }
        if let Some(last_ns) = self.last_ns {
            self.histogram.saturating_record(start_ns.saturating_sub(last_ns));
        }
        let spacing_ns = end_ns.saturating_sub(start_ns) / frames;
        if frames > 1 {
            self.histogram.saturating_record_n(spacing_ns, frames - 1);
        }
        self.last_ns = Some(start_ns + spacing_ns * (frames - 1));
    }

    /// Gaps recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The gap that this share of all gaps does not exceed (0.5 for the median), in nanoseconds.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    /// The mean gap in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// The longest gap in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.histogram.max()
    }

    /// Adds the gaps of another thread.
    pub fn add(&mut self, other: &Self) {
        self.histogram += &other.histogram;
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_frames_give_their_distance_and_bursts_their_spacing() {
        let mut gaps = Gaps::new();
        for start in [0, 10_000, 20_000] {
            gaps.burst(start, start + 300, 1);
        }
        assert_eq!((gaps.count(), gaps.quantile_ns(0.5) / 100), (2, 100));
        gaps.burst(30_000, 31_000, 10);
        assert_eq!(gaps.count(), 12);
        assert_eq!(gaps.quantile_ns(0.5), 100);
    }
}
