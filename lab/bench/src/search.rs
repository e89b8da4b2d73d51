//! The highest rate without loss, found by a bounded number of short trials.
//!
//! The rate rises in steps until frames are lost, then lies between the highest rate without loss
//! and the lowest rate with loss. The result is the rate at the receiver, not the requested rate.

/// Below this part of what was asked for, the generator or the way to the receiver is at its limit.
const KEEPS_UP: f64 = 0.93;
/// Close enough: the gap between "went well" and "did not" as a factor.
const CLOSE: f64 = 1.04;

/// What one trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    /// Frames a second that the generator was asked for.
    pub(crate) asked_pps: f64,
    /// Frames a second that arrived at the receiver.
    pub(crate) arrived_pps: f64,
    /// Frames that arrived and were not kept.
    pub(crate) lost: u64,
}

/// A search under way.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    start_pps: f64,
    growth: f64,
    trials_left: u32,
    /// Highest rate asked for that went well.
    good_pps: Option<f64>,
    /// Lowest rate asked for that did not.
    bad_pps: Option<f64>,
    /// A rate that went badly, maybe by accident: asked for once more.
    doubtful_pps: Option<f64>,
    best_pps: f64,
    at_limit: bool,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SearchResult {
    /// The highest rate that arrived and was kept whole; zero when every trial lost something.
    pub(crate) pps: f64,
    /// True when nothing more could be offered, so that the tool's own limit lies higher.
    pub(crate) at_limit: bool,
}

impl Search {
    /// Begins at `start_pps` and goes up by the factor `growth`; makes no more than `trials`
    /// trials.
    pub(crate) fn new(start_pps: f64, growth: f64, trials: u32) -> Self {
        assert!(start_pps > 0.0 && growth > 1.0, "a search from {start_pps} by {growth}");
        Self {
            start_pps,
            growth,
            trials_left: trials,
            good_pps: None,
            bad_pps: None,
            doubtful_pps: None,
            best_pps: 0.0,
            at_limit: false,
        }
    }

    /// The rate to try next, `None` when the search is over.
    pub(crate) fn next_pps(&self) -> Option<f64> {
        if self.trials_left == 0 {
            return None;
        }
        if self.doubtful_pps.is_some() {
            return self.doubtful_pps;
        }
        match (self.good_pps, self.bad_pps) {
            (None, None) => Some(self.start_pps),
            (Some(good), None) => Some(good * self.growth),
            (None, Some(bad)) => Some(bad / self.growth),
            (Some(good), Some(bad)) if bad / good < CLOSE => None,
            (Some(good), Some(bad)) => Some((good * bad).sqrt()),
        }
    }

    /// Takes in what the trial of [`Search::next_pps`] showed.
    pub(crate) fn learn(&mut self, trial: &Trial) {
        self.trials_left = self.trials_left.saturating_sub(1);
        let is_second = self.doubtful_pps.take().is_some();
        let keeps_up = trial.arrived_pps >= KEEPS_UP * trial.asked_pps;
        if trial.lost == 0 {
            self.best_pps = self.best_pps.max(trial.arrived_pps);
        }
        match (trial.lost, keeps_up) {
            (0, true) => self.good_pps = Some(trial.asked_pps),
            _ if !is_second => self.doubtful_pps = Some(trial.asked_pps),
            // Nothing was lost of what there was: this says nothing about the tool, and more cannot
            // be offered.
            (0, false) => (self.at_limit, self.trials_left) = (true, 0),
            _ => self.bad_pps = Some(trial.asked_pps),
        }
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> SearchResult {
        SearchResult { pps: self.best_pps, at_limit: self.at_limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches with a tool that keeps up to `limit_pps`, with a generator that gives up to
    /// `offer_pps`; trials whose number is in `accidents` lose a frame for no reason.
    fn search(mut search: Search, limit_pps: f64, offer_pps: f64, accidents: &[u32]) -> (SearchResult, u32) {
        let mut trials = 0;
        while let Some(asked_pps) = search.next_pps() {
            let arrived_pps = asked_pps.min(offer_pps);
            let accident = u64::from(accidents.contains(&trials));
            let lost = accident + ((arrived_pps - limit_pps).max(0.0) * 0.4) as u64;
            search.learn(&Trial { asked_pps, arrived_pps, lost });
            trials += 1;
        }
        (search.found(), trials)
    }

    #[test]
    fn finds_the_limit_of_the_tool() {
        let (found, trials) = search(Search::new(1e6, 2.0, 12), 3.5e6, 20e6, &[]);
        assert!(found.pps > 3.3e6 && found.pps <= 3.5e6 && !found.at_limit, "{found:?}");
        assert!(trials <= 12);
    }

    #[test]
    fn a_single_accident_does_not_count() {
        let (found, _) = search(Search::new(1e6, 2.0, 12), 3.5e6, 20e6, &[1]);
        assert!(found.pps > 3.3e6, "{found:?}");
    }

    #[test]
    fn says_when_no_more_could_be_offered() {
        let (found, trials) = search(Search::new(1e6, 2.0, 10), 30e6, 5e6, &[]);
        // 1, 2, 4, and twice 8 million, of which five arrive.
        assert_eq!((found, trials), (SearchResult { pps: 5e6, at_limit: true }, 5));
    }

    #[test]
    fn a_generator_that_was_held_up_once_does_not_end_the_search() {
        let mut search = Search::new(1e6, 2.0, 9);
        let trial = |asked_pps, arrived_pps| Trial { asked_pps, arrived_pps, lost: 0 };
        search.learn(&trial(1e6, 0.3e6));
        assert_eq!((search.next_pps(), search.found().at_limit), (Some(1e6), false));
        search.learn(&trial(1e6, 1e6));
        assert_eq!((search.next_pps(), search.found().pps), (Some(2e6), 1e6));
    }

    #[test]
    fn goes_down_when_the_start_is_too_high_and_gives_up_at_last() {
        let (found, _) = search(Search::new(8e6, 2.0, 12), 1.5e6, 20e6, &[]);
        assert!(found.pps > 1.3e6 && found.pps <= 1.5e6, "{found:?}");
        assert_eq!(
            search(Search::new(8e6, 2.0, 4), 0.0, 20e6, &[]),
            (SearchResult { pps: 0.0, at_limit: false }, 4)
        );
    }

    proptest! {
        #[test]
        fn never_claims_more_than_the_tool_keeps(
            limit in 1e5..3e7_f64, offer in 1e5..3e7_f64, start in 1e5..1e7_f64, trials in 0..20u32,
        ) {
            let (found, made) = search(Search::new(start, 1.5, trials), limit, offer, &[]);
            // A trial of 0.4 s shows a loss of 2.5 frames per second and more.
            prop_assert!(found.pps <= limit + 2.5 && found.pps <= offer);
            prop_assert!(made <= trials);
        }
    }
}
