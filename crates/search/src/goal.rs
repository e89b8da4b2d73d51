//! Search goals as data (RFC 9971), and the methods that are sets of them.
//!
//! A goal is reached through a ladder of targets: coarser ones first, with a wider interval and
//! fewer trials, then the goal itself.

use crate::BILLION;
use facts::Described;
use serde::{Deserialize, Serialize};

const SECOND_NS: u64 = 1_000_000_000;

/// What a search looks for, in the attributes of RFC 9971. Ratios are in parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct Goal {
    /// The goal: the largest loss ratio of a good trial.
    pub loss_ratio_ppb: u64,
    /// The goal: the share of the trial time at one load that may have a higher loss ratio.
    pub exceed_ratio_ppb: u64,
    /// Shortest trial duration: that of the coarsest target.
    #[fact(unit = "ns")]
    pub trial_ns_min: u64,
    /// Final trial duration: shorter trials are short trials in the sense of RFC 9971.
    pub trial_ns: u64,
    /// Duration sum: the trial time after which a load is always classified.
    pub duration_sum_ns: u64,
    /// The goal: (upper - lower) / upper at the end of the search.
    pub width_ppb: u64,
    /// Number of coarser targets before the goal itself; each has twice the width of the next one.
    pub coarser_targets: u32,
}

/// A goal that cannot be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// No goal at all.
    #[error("a search needs at least one goal")]
    None,
    /// A ratio of 100 % or more, or a width of zero.
    #[error("loss ratio, exceed ratio and width must be below 100 %, and the width above 0")]
    Ratio,
    /// A duration of zero, or a shortest trial that is longer than the final one.
    #[error("trial durations must be above 0, and the shortest trial at most as long as the final one")]
    Duration,
    /// The loads are not in order.
    #[error("the lowest load must be at least 1 frame per second and below the highest load")]
    Loads,
}

/// Named sets of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// RFC 9971 with the attributes of FD.io CSIT: 21 trials of 1 s, half of them may have loss.
    Mlr,
    /// RFC 2544 section 26.1: one trial of 60 s without loss.
    Rfc2544,
    /// ETSI GS NFV-TST 009 with loss verification: a trial with loss is repeated once.
    Tst009,
    /// Three trials of 1 s, half of them may have loss.
    Quick,
    /// A plain binary search: one trial of 10 s per load, no first estimate.
    Binary,
}

impl Method {
    /// All methods, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Mlr, Self::Rfc2544, Self::Tst009, Self::Quick, Self::Binary];

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mlr => "mlr",
            Self::Rfc2544 => "rfc2544",
            Self::Tst009 => "tst009",
            Self::Quick => "quick",
            Self::Binary => "binary",
        }
    }

    /// The method of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The goal of this method for one loss ratio.
    #[must_use]
    pub const fn goal(self, loss_ratio_ppb: u64) -> Goal {
        let (exceed_percent, trial_s_min, trial_s, sum_s, coarser_targets) = match self {
            Self::Mlr => (50, 1, 1, 21, 2),
            Self::Rfc2544 => (0, 1, 60, 60, 2),
            Self::Tst009 => (50, 1, 10, 20, 2),
            Self::Quick => (50, 1, 1, 3, 2),
            Self::Binary => (0, 10, 10, 10, 0),
        };
        Goal {
            loss_ratio_ppb,
            exceed_ratio_ppb: exceed_percent * (BILLION / 100),
            trial_ns_min: trial_s_min * SECOND_NS,
            trial_ns: trial_s * SECOND_NS,
            duration_sum_ns: sum_s * SECOND_NS,
            width_ppb: BILLION / 200,
            coarser_targets,
        }
    }
}

impl Goal {
    /// Checks the attributes.
    ///
    /// # Errors
    /// The rule that they break.
    pub const fn check(&self) -> Result<(), GoalError> {
        let is_share = self.loss_ratio_ppb < BILLION && self.exceed_ratio_ppb < BILLION;
        if !is_share || self.width_ppb == 0 || self.width_ppb >= BILLION {
            return Err(GoalError::Ratio);
        }
        if self.trial_ns_min == 0 || self.trial_ns_min > self.trial_ns || self.duration_sum_ns == 0 {
            return Err(GoalError::Duration);
        }
        Ok(())
    }

    /// The targets on the way to this goal, coarsest first, the goal itself last.
    pub(crate) fn ladder(&self) -> Vec<GoalTarget> {
        (0..=self.coarser_targets).map(|step| self.target(step)).collect()
    }

    /// Target `step` of 0 (coarsest) to `coarser_targets` (the goal). Durations grow by the same
    /// factor from target to target, from one shortest trial to the goal's duration sum.
    fn target(&self, step: u32) -> GoalTarget {
        let below = self.coarser_targets - step;
        let widest = BILLION / 2;
        let width_ppb = self.width_ppb.checked_shl(below).unwrap_or(widest).min(widest.max(self.width_ppb));
        if below == 0 {
            return GoalTarget { goal: *self, width_ppb };
        }
        let between = |first: u64, last: u64| geometric(first, last.max(first), step, self.coarser_targets);
        let trial_ns = between(self.trial_ns_min, self.trial_ns);
        let duration_sum_ns = between(self.trial_ns_min, self.duration_sum_ns);
        GoalTarget { goal: Self { trial_ns, duration_sum_ns, width_ppb, ..*self }, width_ppb }
    }
}

/// One target on the way to a goal: the goal's attributes with its own durations and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoalTarget {
    pub(crate) goal: Goal,
    pub(crate) width_ppb: u64,
}

/// `first * (last / first) ^ (step / steps)`, by bisection: the largest x with
/// `x ^ steps <= first ^ (steps - step) * last ^ step`, in units that fit into 128 bits.
fn geometric(first: u64, last: u64, step: u32, steps: u32) -> u64 {
    if step == 0 || steps == 0 {
        return first;
    }
    // Each halving of the exponent is an integer square root, so any ladder works without floats.
    let (mut low, mut high) = (first, last);
    let (mut numerator, mut denominator) = (u64::from(step), u64::from(steps));
    for _ in 0..32 {
        if numerator == 0 || low == high {
            return low;
        }
        let middle = (u128::from(low) * u128::from(high)).isqrt() as u64;
        numerator *= 2;
        if numerator >= denominator {
            (low, numerator) = (middle, numerator - denominator);
        } else {
            high = middle;
        }
        denominator = denominator.max(1);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_of_mlr_goes_from_one_trial_to_twenty_one() {
        let ladder = Method::Mlr.goal(0).ladder();
        let sums: Vec<u64> = ladder.iter().map(|target| target.goal.duration_sum_ns / 1_000_000).collect();
        assert_eq!(sums, [1000, 4582, 21000]);
        assert_eq!(
            ladder.iter().map(|target| target.width_ppb).collect::<Vec<_>>(),
            [20_000_000, 10_000_000, 5_000_000]
        );
    }

    #[test]
    fn durations_grow_by_the_same_factor() {
        assert_eq!(geometric(1, 60_000, 0, 2), 1);
        assert_eq!(geometric(100, 10_000, 1, 2), 1000);
        let third = geometric(1_000_000_000, 8_000_000_000, 1, 3);
        assert!((1_999_000_000..=2_000_000_000).contains(&third), "{third}");
    }

    #[test]
    fn a_method_is_found_by_its_name() {
        for method in Method::ALL {
            assert_eq!(Method::of_name(method.name()), Some(method));
            assert_eq!(method.goal(0).check(), Ok(()));
        }
        assert_eq!(Method::of_name("fast"), None);
    }

    #[test]
    fn goals_that_cannot_be_reached_are_refused() {
        let goal = Method::Mlr.goal(0);
        assert_eq!(Goal { exceed_ratio_ppb: BILLION, ..goal }.check(), Err(GoalError::Ratio));
        assert_eq!(Goal { width_ppb: 0, ..goal }.check(), Err(GoalError::Ratio));
        assert_eq!(Goal { trial_ns_min: goal.trial_ns + 1, ..goal }.check(), Err(GoalError::Duration));
    }
}
