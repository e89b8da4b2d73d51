//! Trials that the tester disturbed: they are repeated, and every repeat stays in the log.
//!
//! A disturbed trial is one whose loss the tester itself could have caused. Loss beyond what the
//! tester could have caused is loss of the device, however busy the tester was.

use crate::trial::{Disturbance, Purpose, TesterLimits, TrialLoss, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// The verdict on one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No loss beyond the goals.
    Clean,
    /// Loss that the device under test caused, as far as the tester can see.
    Lossy,
    /// Loss that the tester itself could have caused.
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
    /// Whether the result was used. That of a disturbed trial is not.
    pub is_counted: bool,
}

/// What becomes of the result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is not used: the trial was a warm-up, or it is repeated.
    Unused,
    /// It counts.
    Counts(TrialLoss),
    /// Every repeat was disturbed, and none is used. The loss is that of the last one.
    GivenUp(TrialLoss),
}

/// The log of a procedure, and how often the trial that is due was repeated.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    limits: TesterLimits,
    repeats_max: u32,
    repeats: u32,
    /// Highest rate of the sender in the repeats of one trial that was behind.
    reached_pps: u64,
    /// Highest rate of the sender in any trial.
    fastest_pps: u64,
    log: Vec<LoggedTrial>,
}

impl Attempts {
    pub(crate) fn new(limits: TesterLimits, repeats_max: u32) -> Self {
        Self { limits, repeats_max, repeats: 0, reached_pps: 0, fastest_pps: 0, log: Vec::new() }
    }

    pub(crate) fn log(&self) -> &[LoggedTrial] {
        &self.log
    }

    /// Time of all trials so far.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.log.iter().map(|trial| trial.result.elapsed_ns.max(trial.request.sending_ns())).sum()
    }

    /// Logs a trial and decides whether its result counts: not after a warm-up, and not if the
    /// loss ratio is above `loss_ratio_ppb` only by frames that the tester could have lost.
    pub(crate) fn settle(
        &mut self,
        request: TrialRequest,
        mut result: TrialResult,
        loss_ratio_ppb: u64,
    ) -> Settled {
        let loss = result.loss(request.all_frames());
        let disturbances = result.disturbances(&request, &self.limits);
        if disturbances.is_empty() {
            result.causes.clear();
        }
        let lost_by_tester = result.lost_by_tester(&request, &self.limits);
        let by_device = TrialLoss { lost: loss.lost.saturating_sub(lost_by_tester), ..loss };
        let verdict = match (loss.exceeds(loss_ratio_ppb), by_device.exceeds(loss_ratio_ppb)) {
            (false, _) => Verdict::Clean,
            (true, true) => Verdict::Lossy,
            (true, false) => Verdict::Disturbed,
        };
        let is_behind = disturbances.contains(&Disturbance::Behind);
        let sent_pps = rate_pps(result.sent, request.sending_ns());
        self.fastest_pps = self.fastest_pps.max(sent_pps);
        let is_counted = request.purpose != Purpose::WarmUp && verdict != Verdict::Disturbed;
        let is_warm_up = request.purpose == Purpose::WarmUp;
        self.log.push(LoggedTrial { request, result, verdict, disturbances, is_counted });
        if is_warm_up {
            return Settled::Unused;
        }
        if is_counted {
            (self.repeats, self.reached_pps) = (0, 0);
            return Settled::Counts(loss);
        }
        self.reached_pps = self.reached_pps.max(if is_behind { sent_pps } else { 0 });
        if self.repeats < self.repeats_max {
            self.repeats += 1;
            return Settled::Unused;
        }
        self.repeats = 0;
        Settled::GivenUp(loss)
    }

    /// The highest rate of the sender, if it was behind in several repeats of the trial due. A
    /// sender that has sent twice as fast before was stopped by something else. The count of
    /// repeats starts anew.
    pub(crate) fn take_reached_pps(&mut self) -> Option<u64> {
        let is_behind = |trial: &LoggedTrial| {
            trial.verdict == Verdict::Disturbed && trial.disturbances.contains(&Disturbance::Behind)
        };
        let last = self.log.iter().rev().take(BEHIND_MAX);
        if last.len() < BEHIND_MAX || !last.clone().all(is_behind) || self.reached_pps == 0 {
            return None;
        }
        let request = self.log.last()?.request;
        let is_fast_enough = self.fastest_pps / 2 >= request.load_pps;
        if is_fast_enough || !last.clone().all(|trial| trial.request == request) {
            return None;
        }
        self.repeats = 0;
        Some(std::mem::take(&mut self.reached_pps))
    }
}

/// So many trials in a row show that the sender does not reach a load.
const BEHIND_MAX: usize = 3;

fn rate_pps(frames: u64, duration_ns: u64) -> u64 {
    let pps = u128::from(frames) * u128::from(crate::BILLION) / u128::from(duration_ns.max(1));
    u64::try_from(pps).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> TrialRequest {
        TrialRequest::new(Purpose::Bisect, 100, crate::BILLION)
    }

    #[test]
    fn a_disturbed_trial_is_repeated_and_never_counts() {
        let mut attempts = Attempts::new(TesterLimits::default(), 3);
        let spoilt = TrialResult { sent: 90, refused: 10, unique: 90, ..TrialResult::default() };
        let settled: Vec<Settled> = (0..5).map(|_| attempts.settle(request(), spoilt.clone(), 0)).collect();
        let (unused, given_up) = (Settled::Unused, Settled::GivenUp(TrialLoss { lost: 10, whole: 100 }));
        assert_eq!(settled, [unused, unused, unused, given_up, unused]);
        assert!(attempts.log().iter().all(|trial| trial.verdict == Verdict::Disturbed && !trial.is_counted));
    }

    #[test]
    fn a_disturbed_trial_without_loss_counts() {
        let mut attempts = Attempts::new(TesterLimits::default(), 3);
        let late =
            TrialResult { sent: 100, unique: 100, gap_ns_max: crate::BILLION, ..TrialResult::default() };
        assert_eq!(attempts.settle(request(), late, 0), Settled::Counts(TrialLoss { lost: 0, whole: 100 }));
        assert_eq!(attempts.log()[0].verdict, Verdict::Clean);
        assert_eq!(attempts.log()[0].disturbances, [Disturbance::Gap, Disturbance::CatchUp]);
    }

    #[test]
    fn loss_beyond_what_the_tester_could_have_caused_is_of_the_device() {
        let mut attempts = Attempts::new(TesterLimits::default(), 3);
        // A pause of a tenth of the trial explains 10 frames.
        let paused = |unique| TrialResult {
            sent: 100,
            unique,
            gap_ns_max: crate::BILLION / 10,
            ..TrialResult::default()
        };
        // At 100 frames per second a gap of 64 frames is not long, but 0.1 % of the trial is short.
        assert_eq!(attempts.settle(request(), paused(90), 0), Settled::Unused);
        assert_eq!(
            attempts.settle(request(), paused(89), 0),
            Settled::Counts(TrialLoss { lost: 11, whole: 100 })
        );
        assert_eq!(attempts.log()[1].verdict, Verdict::Lossy);
    }

    #[test]
    fn a_sender_that_was_twice_as_fast_is_not_too_slow() {
        let mut attempts = Attempts::new(TesterLimits::default(), 10);
        let behind = |sent| TrialResult { sent, unique: sent, ..TrialResult::default() };
        let fast = TrialRequest::new(Purpose::MaxLoad, 1000, crate::BILLION);
        attempts.settle(fast, behind(200), 0);
        for _ in 0..5 {
            assert_eq!(attempts.settle(request(), behind(99), 0), Settled::Unused);
            assert_eq!(attempts.take_reached_pps(), None);
        }
    }

    #[test]
    fn three_trials_behind_show_the_rate_of_the_sender() {
        let mut attempts = Attempts::new(TesterLimits::default(), 10);
        let behind = |sent| TrialResult { sent, unique: sent, ..TrialResult::default() };
        for (sent, reached) in [(50, None), (70, None), (60, Some(70))] {
            assert_eq!(attempts.settle(request(), behind(sent), 0), Settled::Unused);
            assert_eq!(attempts.take_reached_pps(), reached);
        }
    }
}
