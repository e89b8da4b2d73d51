//! Frame loss rate (RFC 2544 section 26.3): loss over load, from 100 % down.

use crate::BILLION;
use crate::attempts::{Attempts, LoggedTrial, Settled};
use crate::procedure::Procedure;
use crate::trial::{Purpose, TesterLimits, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// One point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct LossPoint {
    /// The load as a share of the highest load.
    pub share_ppb: u64,
    /// The load.
    pub load_pps: u64,
    /// The loss ratio at this load.
    pub loss_ppb: u64,
}

/// Trials at 100 %, 90 % and so on, until two in a row have no loss.
#[derive(Clone, Debug)]
pub struct LossCurve {
    max_load_pps: u64,
    trial_ns: u64,
    step_ppb: u64,
    points: Vec<LossPoint>,
    /// Loads without a point: all repeats were disturbed.
    skipped: u64,
    attempts: Attempts,
}

impl LossCurve {
    /// A curve below `max_load_pps` in steps of `step_percent`. The RFC requires steps of at most
    /// 10 %, and allows finer ones; 0 is taken as 10.
    #[must_use]
    pub fn new(max_load_pps: u64, trial_ns: u64, step_percent: u64) -> Self {
        let step_percent = if step_percent == 0 { 10 } else { step_percent.min(100) };
        let attempts = Attempts::new(TesterLimits::default(), 3);
        Self {
            max_load_pps,
            trial_ns,
            step_ppb: step_percent * (BILLION / 100),
            points: Vec::new(),
            skipped: 0,
            attempts,
        }
    }

    /// The points so far, highest load first.
    #[must_use]
    pub fn points(&self) -> &[LossPoint] {
        &self.points
    }

    fn next_share(&self) -> Option<u64> {
        let is_lossless =
            self.points.len() >= 2 && self.points.iter().rev().take(2).all(|point| point.loss_ppb == 0);
        let share_ppb = BILLION.checked_sub((self.points.len() as u64 + self.skipped) * self.step_ppb)?;
        (!is_lossless && self.load(share_ppb) > 0).then_some(share_ppb)
    }

    fn load(&self, share_ppb: u64) -> u64 {
        (u128::from(self.max_load_pps) * u128::from(share_ppb) / u128::from(BILLION)) as u64
    }
}

impl Procedure for LossCurve {
    fn log(&self) -> &[LoggedTrial] {
        self.attempts.log()
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        let share_ppb = self.next_share()?;
        Some(TrialRequest::new(Purpose::LossPoint, self.load(share_ppb), self.trial_ns))
    }

    fn record(&mut self, result: TrialResult) {
        let share_ppb = self.next_share().expect("a trial is due");
        let request = self.next_trial().expect("a trial is due");
        match self.attempts.settle(request, result, 0) {
            Settled::Unused => {}
            Settled::Counts(loss) => {
                let loss_ppb = loss.ppb();
                self.points.push(LossPoint { share_ppb, load_pps: request.load_pps, loss_ppb });
            }
            Settled::GivenUp(_) => self.skipped += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(limit_pps: u64, step_percent: u64) -> Vec<LossPoint> {
        let mut curve = LossCurve::new(1000, BILLION, step_percent);
        while let Some(request) = curve.next_trial() {
            let unique = request.frames.min(limit_pps);
            curve.record(TrialResult { sent: request.frames, unique, ..TrialResult::default() });
        }
        curve.points().to_vec()
    }

    #[test]
    fn the_curve_ends_after_two_trials_without_loss() {
        let points = curve(750, 10);
        let loads: Vec<_> = points.iter().map(|point| point.load_pps).collect();
        assert_eq!(loads, [1000, 900, 800, 700, 600]);
        // 1 - limit / load.
        let losses: Vec<_> = points.iter().map(|point| point.loss_ppb).collect();
        assert_eq!(losses, [250_000_000, 166_666_667, 62_500_000, 0, 0]);
    }

    #[test]
    fn a_device_that_drops_everything_ends_the_curve_at_its_lowest_load() {
        assert_eq!(curve(0, 25).len(), 4);
    }

    #[test]
    fn a_device_at_line_rate_needs_two_trials() {
        assert_eq!(curve(1000, 10).len(), 2);
    }
}
