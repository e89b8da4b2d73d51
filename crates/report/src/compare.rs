//! Comparison of runs: throughput of each file against the first, as a ratio with its spread.
//!
//! The truth of a run lies between its bounds. So the ratio of two runs lies between the smallest
//! and the largest ratio of their bounds, and a difference is shown only if 1 is outside.

use crate::results::{Results, shape_name};
use crate::units;
use search::record::TrafficShape;

/// Whether a difference is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Slower,
    Faster,
    NotShown,
}

impl Change {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Slower => "regression",
            Self::Faster => "faster",
            Self::NotShown => "no difference shown",
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Slower => "bad",
            Self::Faster => "good",
            Self::NotShown => "",
        }
    }
}

/// The bounds of one goal over all searches of a file.
#[derive(Clone, Copy, Debug)]
struct BoundInterval {
    lower_pps: u64,
    upper_pps: u64,
}

/// One row of the comparison.
#[derive(Clone, Debug)]
pub(crate) struct ComparisonRow {
    pub(crate) what: String,
    pub(crate) file: String,
    pub(crate) base: String,
    pub(crate) other: String,
    pub(crate) ratio: String,
    pub(crate) change: Change,
}

/// The rows for all files after the first.
pub(crate) fn rows(files: &[Results]) -> Vec<ComparisonRow> {
    let Some((base, others)) = files.split_first() else { return Vec::new() };
    let mut rows = Vec::new();
    for other in others {
        for (shape, loss_ppb) in keys(base) {
            let pair = (interval(base, &shape, loss_ppb), interval(other, &shape, loss_ppb));
            if let (Some(first), Some(second)) = pair {
                rows.push(row(&other.name, &shape, loss_ppb, first, second));
            }
        }
    }
    rows
}

fn row(
    file: &str,
    shape: &TrafficShape,
    loss_ppb: u64,
    first: BoundInterval,
    second: BoundInterval,
) -> ComparisonRow {
    let ratio = |a: u64, b: u64| a as f64 / (b as f64).max(1.0);
    let low = ratio(second.lower_pps, first.upper_pps);
    let high = ratio(second.upper_pps, first.lower_pps);
    let change = if high < 1.0 {
        Change::Slower
    } else if low > 1.0 {
        Change::Faster
    } else {
        Change::NotShown
    };
    ComparisonRow {
        what: format!("{}, {}", shape_name(shape), units::goal_name(loss_ppb)),
        file: file.to_owned(),
        base: range(first),
        other: range(second),
        ratio: format!("{:.3} ± {:.3}", f64::midpoint(low, high), (high - low) / 2.0),
        change,
    }
}

fn range(interval: BoundInterval) -> String {
    format!("{} to {}", units::si(interval.lower_pps as f64), units::pps(interval.upper_pps))
}

/// Shape and loss goal of each search, once.
fn keys(results: &Results) -> Vec<(TrafficShape, u64)> {
    let mut keys: Vec<_> = Vec::new();
    for search in &results.searches {
        for goal in &search.goals {
            let key = (search.shape.clone(), goal.goal.loss_ratio_ppb);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// From the lowest lower bound to the highest upper bound: repeats in one file widen it.
fn interval(results: &Results, shape: &TrafficShape, loss_ppb: u64) -> Option<BoundInterval> {
    let searches = results.searches.iter().filter(|search| search.shape == *shape);
    let goals = searches.flat_map(|search| &search.goals).filter(|goal| goal.goal.loss_ratio_ppb == loss_ppb);
    let bounds = goals.filter_map(|goal| Some((goal.lower_pps?, goal.upper_pps?)));
    bounds.fold(None, |whole: Option<BoundInterval>, (lower_pps, upper_pps)| {
        let whole = whole.unwrap_or(BoundInterval { lower_pps, upper_pps });
        Some(BoundInterval {
            lower_pps: whole.lower_pps.min(lower_pps),
            upper_pps: whole.upper_pps.max(upper_pps),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(first: (u64, u64), second: (u64, u64)) -> (String, Change) {
        let interval = |(lower_pps, upper_pps)| BoundInterval { lower_pps, upper_pps };
        let row = row("b", &TrafficShape::default(), 0, interval(first), interval(second));
        (row.ratio, row.change)
    }

    #[test]
    fn a_difference_within_the_bounds_is_not_shown() {
        assert_eq!(change((995, 1000), (994, 999)), ("0.999 ± 0.005".to_owned(), Change::NotShown));
        assert_eq!(change((995, 1000), (990, 995)).1, Change::NotShown);
    }

    #[test]
    fn a_difference_beyond_the_bounds_is_a_regression_or_faster() {
        assert_eq!(change((995, 1000), (895, 900)), ("0.900 ± 0.005".to_owned(), Change::Slower));
        assert_eq!(change((895, 900), (995, 1000)).1, Change::Faster);
    }
}
