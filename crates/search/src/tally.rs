//! Load classification of RFC 9971 in integers: is a load a lower or an upper bound for a goal?
//!
//! Floats decide ties by rounding errors; sums of nanoseconds do not. All sums are scaled by
//! `1 - exceed ratio`, which makes each term of the RFC's rule a whole number.

use crate::BILLION;
use crate::goal::Goal;
use crate::trial::TrialLoss;

/// What the trials at one load say about a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadClass {
    /// No further trial can show that the exceed ratio is broken.
    Lower,
    /// No further trial can keep the exceed ratio.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Trial time at one load, by length and loss of the trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    full_low_ns: u64,
    full_high_ns: u64,
    short_low_ns: u64,
    short_high_ns: u64,
}

impl Tally {
    fn of(goal: &Goal, trials: &[(u64, TrialLoss)]) -> Self {
        let mut tally = Self::default();
        for &(duration_ns, loss) in trials {
            let sum = match (duration_ns >= goal.trial_ns, loss.exceeds(goal.loss_ratio_ppb)) {
                (true, false) => &mut tally.full_low_ns,
                (true, true) => &mut tally.full_high_ns,
                (false, false) => &mut tally.short_low_ns,
                (false, true) => &mut tally.short_high_ns,
            };
            *sum += duration_ns;
        }
        tally
    }

    fn class(&self, goal: &Goal) -> LoadClass {
        let exceed = u128::from(goal.exceed_ratio_ppb);
        let kept = u128::from(BILLION) - exceed;
        let scaled = |ns: u64| u128::from(ns) * kept;
        // Short trials with loss count as far as short trials without loss do not balance them.
        let balance = u128::from(self.short_low_ns) * exceed;
        let high = scaled(self.full_high_ns) + scaled(self.short_high_ns).saturating_sub(balance);
        let whole = (scaled(self.full_low_ns) + high).max(scaled(goal.duration_sum_ns));
        let allowed = whole * exceed;
        let in_allowed = |sum: u128| sum * u128::from(BILLION) <= allowed;
        match (in_allowed(high), in_allowed(whole - scaled(self.full_low_ns))) {
            (true, true) => LoadClass::Lower,
            (true, false) => LoadClass::Undecided,
            (false, _) => LoadClass::Upper,
        }
    }
}

/// Classifies a load by its trials: duration and loss of each.
#[must_use]
pub fn classify(goal: &Goal, trials: &[(u64, TrialLoss)]) -> LoadClass {
    Tally::of(goal, trials).class(goal)
}

/// Conditional throughput at a lower bound: the forwarding rate of the full-length trial at the
/// quantile of the exceed ratio. Time that the duration sum lacks counts as complete loss.
pub(crate) fn conditional_pps(goal: &Goal, load_pps: u64, trials: &[(u64, TrialLoss)]) -> u64 {
    let mut full: Vec<_> = trials.iter().filter(|(duration_ns, _)| *duration_ns >= goal.trial_ns).collect();
    full.sort_by_key(|(_, loss)| loss.ppb());
    let measured: u64 = full.iter().map(|(duration_ns, _)| duration_ns).sum();
    let kept = i128::from(BILLION - goal.exceed_ratio_ppb);
    let mut remaining = i128::from(measured.max(goal.duration_sum_ns)) * kept;
    for (duration_ns, loss) in full {
        remaining -= i128::from(*duration_ns) * i128::from(BILLION);
        if remaining <= 0 {
            return loss.forwarded_pps(load_pps);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Method;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const NONE: TrialLoss = TrialLoss { lost: 0, whole: 100 };
    const HALF: TrialLoss = TrialLoss { lost: 50, whole: 100 };

    /// The rule in the words of RFC 9971, with whole seconds and an exceed ratio of `p / q`: a load
    /// is an upper bound if even further trials without loss would exceed the ratio, and a lower
    /// bound if further trials with complete loss would not.
    fn by_the_text(p: i128, q: i128, sum: i128, [low, high, short_low, short_high]: [i128; 4]) -> LoadClass {
        // All durations times (q - p), because short trials without loss balance p / (q - p) of
        // those with loss.
        let short_excess = (short_high * (q - p) - short_low * p).max(0);
        let bad = high * (q - p) + short_excess;
        let good = low * (q - p);
        let missing = (sum * (q - p) - good - bad).max(0);
        let whole = good + bad + missing;
        let best_case = bad;
        let worst_case = bad + missing;
        if best_case * q > p * whole {
            LoadClass::Upper
        } else if worst_case * q <= p * whole {
            LoadClass::Lower
        } else {
            LoadClass::Undecided
        }
    }

    fn trials(counts: [u64; 4]) -> Vec<(u64, TrialLoss)> {
        let kinds = [(2 * SECOND, NONE), (2 * SECOND, HALF), (SECOND, NONE), (SECOND, HALF)];
        kinds.into_iter().zip(counts).flat_map(|(trial, count)| vec![trial; count as usize]).collect()
    }

    proptest! {
        #[test]
        fn classification_follows_the_text_of_rfc_9971(
            percent in 0_u64..100, sum in 1_u64..60,
            low in 0_u64..30, high in 0_u64..30, short_low in 0_u64..30, short_high in 0_u64..30,
        ) {
            let goal = Goal {
                exceed_ratio_ppb: percent * (BILLION / 100),
                trial_ns: 2 * SECOND,
                duration_sum_ns: sum * SECOND,
                ..Method::Mlr.goal(0)
            };
            let seconds = [2 * low, 2 * high, short_low, short_high].map(i128::from);
            let expected = by_the_text(percent.into(), 100, sum.into(), seconds);
            prop_assert_eq!(classify(&goal, &trials([low, high, short_low, short_high])), expected);
        }

        #[test]
        fn conditional_throughput_of_a_lower_bound_keeps_the_goal_loss_ratio(
            losses in proptest::collection::vec(0_u64..10, 1..30), goal_loss in 0_u64..10,
        ) {
            let goal = Method::Mlr.goal(goal_loss * (BILLION / 1000));
            let trials: Vec<_> =
                losses.iter().map(|lost| (SECOND, TrialLoss { lost: *lost, whole: 1000 })).collect();
            if classify(&goal, &trials) == LoadClass::Lower {
                prop_assert!(conditional_pps(&goal, 1_000_000, &trials) >= 1_000_000 - goal_loss * 1000);
            }
        }
    }

    #[test]
    fn the_duration_sum_decides_every_load() {
        for high in 0..=21 {
            let trials = [vec![(SECOND, HALF); high], vec![(SECOND, NONE); 21 - high]].concat();
            let expected = if high <= 10 { LoadClass::Lower } else { LoadClass::Upper };
            assert_eq!(classify(&Method::Mlr.goal(0), &trials), expected, "{high}");
        }
    }

    #[test]
    fn half_of_the_trials_with_loss_is_exactly_the_exceed_ratio() {
        let goal = Method::Tst009.goal(0);
        assert_eq!(classify(&goal, &[(10 * SECOND, NONE)]), LoadClass::Lower);
        assert_eq!(classify(&goal, &[(10 * SECOND, HALF)]), LoadClass::Undecided);
        assert_eq!(classify(&goal, &[(10 * SECOND, HALF), (10 * SECOND, NONE)]), LoadClass::Lower);
        assert_eq!(classify(&goal, &[(10 * SECOND, HALF), (10 * SECOND, HALF)]), LoadClass::Upper);
    }

    #[test]
    fn a_short_trial_with_loss_makes_an_upper_bound_only_without_exceed_ratio() {
        assert_eq!(classify(&Method::Rfc2544.goal(0), &[(SECOND, HALF)]), LoadClass::Upper);
        assert_eq!(classify(&Method::Rfc2544.goal(0), &[(SECOND, NONE)]), LoadClass::Undecided);
        assert_eq!(classify(&Method::Tst009.goal(0), &[(SECOND, HALF)]), LoadClass::Undecided);
    }

    #[test]
    fn conditional_throughput_is_the_median_of_mlr_trials() {
        let goal = Method::Mlr.goal(BILLION / 100);
        let trials: Vec<_> = (0..21).map(|lost| (SECOND, TrialLoss { lost, whole: 1000 })).collect();
        assert_eq!(conditional_pps(&goal, 1000, &trials), 990);
        let without_loss = conditional_pps(&Method::Rfc2544.goal(0), 1000, &[(60 * SECOND, NONE)]);
        assert_eq!(without_loss, 1000);
        assert_eq!(conditional_pps(&Method::Rfc2544.goal(0), 1000, &[(SECOND, NONE)]), 0);
    }
}
