//! Trials that the tester disturbed: they are repeated, and every repeat stays in the log.

use crate::trial::{Disturbance, Loss, Purpose, TesterLimits, TrialRequest, TrialResult};
use serde::{Deserialize, Serialize};

/// The verdict on one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No loss beyond the goals.
    Clean,
    /// Loss that the device under test caused, as far as the tester can see.
    Lossy,
    /// Loss while the tester was at fault.
    Disturbed,
}

/// One trial as it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedTrial {
    /// The request.
    pub request: TrialRequest,
    /// The result.
    pub result: TrialResult,
    /// The verdict.
    pub verdict: Verdict,
    /// Faults of the tester, also where the trial had no loss.
    pub disturbances: Vec<Disturbance>,
    /// Whether the result was used. A disturbed trial is not, unless it was the last repeat.
    pub is_counted: bool,
}

/// The log of a procedure, and how often the trial that is due was repeated.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    limits: TesterLimits,
    repeats_max: u32,
    repeats: u32,
    log: Vec<LoggedTrial>,
}

impl Attempts {
    pub(crate) fn new(limits: TesterLimits, repeats_max: u32) -> Self {
        Self { limits, repeats_max, repeats: 0, log: Vec::new() }
    }

    pub(crate) fn log(&self) -> &[LoggedTrial] {
        &self.log
    }

    /// Time of all trials so far.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.log.iter().map(|trial| trial.result.elapsed_ns.max(trial.request.sending_ns())).sum()
    }

    /// Logs a trial. Returns its loss if the result counts. It does not count after a warm-up, or
    /// if the trial must be repeated: it was disturbed, with a loss ratio above `loss_ratio_ppb`.
    pub(crate) fn settle(
        &mut self,
        request: TrialRequest,
        result: TrialResult,
        loss_ratio_ppb: u64,
    ) -> Option<Loss> {
        let loss = result.loss(request.all_frames());
        let disturbances = result.disturbances(&request, &self.limits);
        let verdict = match (loss.exceeds(loss_ratio_ppb), disturbances.is_empty()) {
            (false, _) => Verdict::Clean,
            (true, true) => Verdict::Lossy,
            (true, false) => Verdict::Disturbed,
        };
        let is_warm_up = request.purpose == Purpose::WarmUp;
        let is_repeated = !is_warm_up && verdict == Verdict::Disturbed && self.repeats < self.repeats_max;
        self.repeats = if is_repeated { self.repeats + 1 } else { 0 };
        let is_counted = !is_repeated && !is_warm_up;
        self.log.push(LoggedTrial { request, result, verdict, disturbances, is_counted });
        is_counted.then_some(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_trial_is_repeated_three_times_and_then_counts() {
        let mut attempts = Attempts::new(TesterLimits::default(), 3);
        let request = TrialRequest::new(Purpose::Bisect, 100, crate::BILLION);
        let spoilt = TrialResult { sent: 90, refused: 10, unique: 90, ..TrialResult::default() };
        let settled: Vec<bool> =
            (0..5).map(|_| attempts.settle(request, spoilt.clone(), 0).is_some()).collect();
        assert_eq!(settled, [false, false, false, true, false]);
        assert!(attempts.log().iter().all(|trial| trial.verdict == Verdict::Disturbed));
    }

    #[test]
    fn a_disturbed_trial_without_loss_counts() {
        let mut attempts = Attempts::new(TesterLimits::default(), 3);
        let request = TrialRequest::new(Purpose::Bisect, 100, crate::BILLION);
        let late =
            TrialResult { sent: 100, unique: 100, gap_ns_max: crate::BILLION, ..TrialResult::default() };
        assert_eq!(attempts.settle(request, late, 0), Some(Loss { lost: 0, whole: 100 }));
        assert_eq!(attempts.log()[0].verdict, Verdict::Clean);
        assert_eq!(attempts.log()[0].disturbances, [Disturbance::Gap, Disturbance::CatchUp]);
    }
}
