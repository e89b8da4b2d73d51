//! Throughput over a quantity: number of flows, frame size or cores. Each point is a search of its
//! own.

use crate::attempts::LoggedTrial;
use crate::goal::GoalError;
use crate::procedure::Procedure;
use crate::throughput::{GoalResult, SearchSettings, ThroughputSearch};
use crate::trial::{TrialRequest, TrialResult};

/// A finished or current point.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    /// The value of the quantity, such as the number of flows.
    pub value: u64,
    /// Its search.
    pub search: ThroughputSearch,
}

/// Searches one after the other.
#[derive(Clone, Debug)]
pub struct ScaleSweep {
    points: Vec<SweepPoint>,
}

impl ScaleSweep {
    /// A sweep over values with the settings of each, since the highest load may depend on it.
    ///
    /// # Errors
    /// As [`ThroughputSearch::new`].
    pub fn new(points: impl IntoIterator<Item = (u64, SearchSettings)>) -> Result<Self, GoalError> {
        let points = points.into_iter().map(|(value, settings)| {
            ThroughputSearch::new(settings).map(|search| SweepPoint { value, search })
        });
        Ok(Self { points: points.collect::<Result<_, _>>()? })
    }

    /// 1, 10, 100 and so on up to `max`, and `max` itself: the usual numbers of flows.
    #[must_use]
    pub fn decades(max: u64) -> Vec<u64> {
        let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
        powers.take_while(|power| *power < max).chain([max.max(1)]).collect()
    }

    /// The point whose search has a trial due, for the caller to set up the traffic.
    #[must_use]
    pub fn current(&self) -> Option<u64> {
        self.points.iter().find(|point| point.search.next_trial().is_some()).map(|point| point.value)
    }

    /// All points in order; those that have not begun have no trials.
    #[must_use]
    pub fn points(&self) -> &[SweepPoint] {
        &self.points
    }

    /// Value and results of each point that has a trial.
    pub fn results(&self) -> impl Iterator<Item = (u64, Vec<GoalResult>)> {
        let begun = self.points.iter().filter(|point| !point.search.log().is_empty());
        begun.map(|point| (point.value, point.search.results()))
    }
}

impl Procedure for ScaleSweep {
    fn last_trial(&self) -> Option<&LoggedTrial> {
        self.points.iter().rev().find_map(|point| point.search.last_trial())
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        self.points.iter().find_map(|point| point.search.next_trial())
    }

    fn record(&mut self, result: TrialResult) {
        let current = self.points.iter_mut().find(|point| point.search.next_trial().is_some());
        current.expect("a trial is due").search.record(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Method;
    use crate::throughput::GoalEnd;

    #[test]
    fn flows_go_up_by_decades() {
        assert_eq!(ScaleSweep::decades(1_000_000), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(ScaleSweep::decades(64), [1, 10, 64]);
        assert_eq!(ScaleSweep::decades(0), [1]);
    }

    #[test]
    fn each_point_has_a_search_of_its_own() {
        let settings = SearchSettings::new(vec![Method::Quick.goal(0)], 1, 1_000_000);
        let flows = ScaleSweep::decades(100).into_iter().map(|flows| (flows, settings.clone()));
        let mut sweep = ScaleSweep::new(flows).expect("valid");
        while let (Some(request), Some(flows)) = (sweep.next_trial(), sweep.current()) {
            // More flows, less throughput.
            let unique = request.frames.min(crate::frames_of(900_000 / (1 + flows), request.duration_ns));
            sweep.record(TrialResult { sent: request.frames, unique, ..TrialResult::default() });
        }
        let results: Vec<_> = sweep.results().collect();
        assert_eq!(results.iter().map(|(flows, _)| *flows).collect::<Vec<_>>(), [1, 10, 100]);
        for (flows, results) in results {
            let truth = 900_000 / (1 + flows);
            assert_eq!(results[0].end, GoalEnd::Regular);
            assert!(results[0].lower_pps <= Some(truth) && Some(truth) <= results[0].upper_pps);
        }
    }
}
