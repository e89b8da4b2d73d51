//! All trials of a search by load, and the relevant bounds that they give a goal.

use crate::BILLION;
use crate::goal::Goal;
use crate::tally::{LoadClass, classify, conditional_pps};
use crate::trial::TrialLoss;
use std::collections::BTreeMap;

/// The relevant bounds of RFC 9971 for one goal, in frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The largest lower bound below the relevant upper bound.
    pub lower_pps: Option<u64>,
    /// The smallest upper bound.
    pub upper_pps: Option<u64>,
}

impl Bounds {
    /// Whether both bounds exist and are at most `width_ppb` apart, or are neighbours.
    pub(crate) fn are_within(&self, width_ppb: u64) -> bool {
        let (Some(lower), Some(upper)) = (self.lower_pps, self.upper_pps) else { return false };
        let apart = u128::from(upper - lower) * u128::from(BILLION);
        apart <= u128::from(upper) * u128::from(width_ppb) || upper - lower <= 1
    }
}

/// Trials by load.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrialsByLoad {
    loads: BTreeMap<u64, Vec<(u64, TrialLoss)>>,
}

impl TrialsByLoad {
    pub(crate) fn add(&mut self, load_pps: u64, duration_ns: u64, loss: TrialLoss) {
        self.loads.entry(load_pps).or_default().push((duration_ns, loss));
    }

    /// All trials, by load.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, TrialLoss)> {
        self.loads.iter().flat_map(|(load, trials)| trials.iter().map(|(_, loss)| (*load, *loss)))
    }

    /// True for a load that is not decided yet, and has passed trials as well as failed ones.
    pub(crate) fn is_mixed(&self, goal: &Goal, load_pps: u64) -> bool {
        self.loads.get(&load_pps).is_some_and(|trials| {
            let failed = trials.iter().filter(|(_, loss)| loss.exceeds(goal.loss_ratio_ppb)).count();
            (1..trials.len()).contains(&failed) && classify(goal, trials) == LoadClass::Undecided
        })
    }

    /// The load between the bounds that is mixed, if it is the only one.
    pub(crate) fn only_mixed(&self, goal: &Goal, bounds: Bounds) -> Option<u64> {
        let lowest = bounds.lower_pps.map_or(0, |lower| lower + 1);
        let loads = self.loads.range(lowest..bounds.upper_pps.unwrap_or(u64::MAX));
        let mut mixed = loads.map(|(load, _)| *load).filter(|load| self.is_mixed(goal, *load));
        mixed.next().filter(|_| mixed.next().is_none())
    }

    /// All trials count for all goals: an upper bound at a low load makes lower bounds above it
    /// irrelevant.
    pub(crate) fn bounds(&self, goal: &Goal) -> Bounds {
        let mut lower_pps = None;
        for (load_pps, trials) in &self.loads {
            match classify(goal, trials) {
                LoadClass::Lower => lower_pps = Some(*load_pps),
                LoadClass::Upper => return Bounds { lower_pps, upper_pps: Some(*load_pps) },
                LoadClass::Undecided => {}
            }
        }
        Bounds { lower_pps, upper_pps: None }
    }

    /// The highest load below `load_pps`, and not below `least_pps`, at which a trial lost no more
    /// than `loss_ratio_ppb`.
    pub(crate) fn passed_below(&self, load_pps: u64, least_pps: u64, loss_ratio_ppb: u64) -> Option<u64> {
        let has_passed =
            |trials: &[(u64, TrialLoss)]| trials.iter().any(|(_, loss)| !loss.exceeds(loss_ratio_ppb));
        let mut loads = self.loads.range(least_pps..load_pps).rev();
        loads.find(|(_, trials)| has_passed(trials)).map(|(load, _)| *load)
    }

    pub(crate) fn conditional_pps(&self, goal: &Goal, load_pps: u64) -> u64 {
        self.loads.get(&load_pps).map_or(0, |trials| conditional_pps(goal, load_pps, trials))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Method;

    #[test]
    fn a_lower_bound_above_an_upper_bound_is_irrelevant() {
        let goal = Method::Rfc2544.goal(0);
        let mut trials = TrialsByLoad::default();
        for (load_pps, lost) in [(100, 0), (200, 1), (300, 0)] {
            trials.add(load_pps, goal.trial_ns, TrialLoss { lost, whole: 1000 });
        }
        assert_eq!(trials.bounds(&goal), Bounds { lower_pps: Some(100), upper_pps: Some(200) });
    }

    #[test]
    fn the_width_is_relative_to_the_upper_bound() {
        let bounds = Bounds { lower_pps: Some(995), upper_pps: Some(1000) };
        assert!(bounds.are_within(5_000_000));
        assert!(!bounds.are_within(4_999_999));
        assert!(Bounds { lower_pps: Some(9), upper_pps: Some(10) }.are_within(1));
        assert!(!Bounds { lower_pps: Some(9), upper_pps: None }.are_within(BILLION));
    }
}
