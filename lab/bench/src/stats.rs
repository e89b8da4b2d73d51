//! Medians, spreads, and ratios of values that were measured side by side.
//!
//! One slow run on a busy machine must not change a result, so every result is a median.

use std::fmt;

/// Makes the median absolute deviation of normally distributed values their standard deviation.
const NORMAL: f64 = 1.4826;

/// What many measurements of one thing say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The median.
    pub(crate) median: f64,
    /// Median distance from the median, times 1.4826; zero for a single value.
    pub(crate) spread: f64,
    /// Number of measurements.
    pub(crate) count: usize,
}

impl Estimate {
    /// Of `values`; `None` when there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let middle = median(values)?;
        let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        Some(Self { median: middle, spread: NORMAL * median(&distances)?, count: values.len() })
    }

    /// Of `ours[i] / theirs[i]`, each pair being neighbours in time. Pairs without a second value,
    /// or with a second value of zero, do not count.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let pairs = ours.iter().zip(theirs).filter(|(_, their)| **their > 0.0);
        Self::of(&pairs.map(|(our, their)| our / their).collect::<Vec<_>>())
    }

    /// In a larger unit.
    pub(crate) fn text(self, unit: f64) -> String {
        Self { median: self.median / unit, spread: self.spread / unit, ..self }.to_string()
    }
}

/// `12.4 ± 0.6`, or `12.4` for a single measurement: as many decimals as fit the size of the
/// median.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.median.abs() {
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        match self.count {
            1 => write!(f, "{:.decimals$}", self.median),
            _ => write!(f, "{:.decimals$} ± {:.decimals$}", self.median, self.spread),
        }
    }
}

/// The middle value, or the mean of the two middle values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn one_bad_run_moves_neither_median_nor_spread() {
        let estimate = Estimate::of(&[10.0, 10.1, 9.9, 10.0, 0.2]).unwrap();
        assert_eq!(estimate.median, 10.0);
        assert!(estimate.spread < 0.2, "{estimate:?}");
        assert_eq!(Estimate::of(&[7.0]).unwrap().spread, 0.0);
    }

    #[test]
    fn ratios_are_of_neighbours() {
        // Both drift by the same factor; the ratio does not.
        let estimate = Estimate::of_ratios(&[10.0, 20.0, 30.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.median, estimate.spread, estimate.count), (10.0, 0.0, 3));
        assert_eq!(Estimate::of_ratios(&[1.0, 2.0], &[0.0, 1.0]).unwrap().count, 1);
        assert_eq!(Estimate::of_ratios(&[1.0], &[]), None);
    }

    #[test]
    fn decimals_fit_the_size() {
        let text = |median, spread| Estimate { median, spread, count: 3 }.to_string();
        assert_eq!(text(12.43, 0.61), "12.4 ± 0.6");
        assert_eq!(text(1.083, 0.034), "1.08 ± 0.03");
        assert_eq!(text(1234.5, 9.9), "1234 ± 10");
        assert_eq!(Estimate::of(&[3.456]).unwrap().to_string(), "3.46");
    }

    proptest! {
        #[test]
        fn the_median_lies_among_the_values(values in prop::collection::vec(0.0..1e9_f64, 1..20)) {
            let estimate = Estimate::of(&values).unwrap();
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
            prop_assert!(estimate.median >= low && estimate.median <= high && estimate.spread >= 0.0);
            let not_above = values.iter().filter(|value| **value <= estimate.median).count();
            prop_assert!(2 * not_above >= values.len());
        }
    }
}
