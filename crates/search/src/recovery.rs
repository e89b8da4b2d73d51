//! System recovery (RFC 2544 section 26.5): how long a device loses frames after an overload.

use crate::BILLION;
use crate::attempts::{Attempts, LoggedTrial, Settled};
use crate::procedure::Procedure;
use crate::trial::{Purpose, SecondPhase, TesterLimits, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// What a recovery test is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Throughput without loss.
    pub throughput_pps: u64,
    /// The rate of the medium limits the overload.
    pub max_load_pps: u64,
    /// Duration of the overload; the RFC requires 60 s at least.
    pub overload_ns: u64,
    /// Duration of the lower load that follows.
    pub reduced_ns: u64,
    /// Number of tests.
    pub tests: u32,
}

/// The result of all tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct RecoverySummary {
    /// Number of tests.
    pub tests: u32,
    /// Mean recovery time: from the change of load to the last lost frame. 0 if no frame was lost
    /// after the change.
    pub mean_ns: u64,
    /// Shortest recovery time.
    pub min_ns: u64,
    /// Longest recovery time.
    pub max_ns: u64,
    /// Tests in which frames were lost until the end, the last frame of all among them: their
    /// recovery takes at least their time.
    #[serde(default)]
    pub unrecovered: u32,
}

/// Trials of 110 % of the throughput, then half of that.
#[derive(Clone, Debug)]
pub struct Recovery {
    settings: RecoverySettings,
    times_ns: Vec<u64>,
    unrecovered: u32,
    /// Tests without a result: all repeats were disturbed.
    abandoned: u32,
    attempts: Attempts,
}

impl Recovery {
    /// Tests that have not run yet.
    #[must_use]
    pub fn new(settings: RecoverySettings) -> Self {
        Self {
            settings,
            times_ns: Vec::new(),
            unrecovered: 0,
            abandoned: 0,
            attempts: Attempts::new(TesterLimits::default(), 3),
        }
    }

    /// The summary of the finished tests; `None` before the first.
    #[must_use]
    pub fn summary(&self) -> Option<RecoverySummary> {
        let (min_ns, max_ns) = (*self.times_ns.iter().min()?, *self.times_ns.iter().max()?);
        let sum: u64 = self.times_ns.iter().sum();
        let tests = self.times_ns.len() as u64;
        let (tests, mean_ns) = (tests as u32, sum / tests);
        Some(RecoverySummary { tests, mean_ns, min_ns, max_ns, unrecovered: self.unrecovered })
    }
}

impl Procedure for Recovery {
    fn log(&self) -> &[LoggedTrial] {
        self.attempts.log()
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        let settings = &self.settings;
        if self.times_ns.len() + self.abandoned as usize >= settings.tests as usize {
            return None;
        }
        let overload =
            (u128::from(settings.throughput_pps) * 11 / 10).min(settings.max_load_pps.into()) as u64;
        let then = SecondPhase { load_pps: (overload / 2).max(1), duration_ns: settings.reduced_ns };
        let request = TrialRequest::new(Purpose::Recovery, overload, settings.overload_ns);
        Some(TrialRequest { then: Some(then), ..request })
    }

    fn record(&mut self, result: TrialResult) {
        let request = self.next_trial().expect("a trial is due");
        // The RFC's text subtracts the other way round, which gives negative times.
        let switched_ns = result.switched_ns.unwrap_or(request.duration_ns);
        let time_ns = result.last_lost_ns.map_or(0, |last| last.saturating_sub(switched_ns));
        let interval_ns = BILLION.div_ceil(request.then.map_or(1, |phase| phase.load_pps));
        let is_at_end = |last: u64| last.saturating_add(interval_ns) >= request.sending_ns();
        let is_unrecovered = result.last_lost_ns.is_some_and(is_at_end);
        match self.attempts.settle(request, result, 0) {
            Settled::Unused => {}
            Settled::Counts(_) => {
                self.times_ns.push(time_ns);
                self.unrecovered += u32::from(is_unrecovered);
            }
            Settled::GivenUp(_) => self.abandoned += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: RecoverySettings = RecoverySettings {
        throughput_pps: 1000,
        max_load_pps: 1050,
        overload_ns: 60 * BILLION,
        reduced_ns: 10 * BILLION,
        tests: 2,
    };

    #[test]
    fn recovery_is_the_time_from_the_change_to_the_last_lost_frame() {
        let mut test = Recovery::new(SETTINGS);
        for after_ns in [200_000_000, 100_000_000] {
            let request = test.next_trial().expect("two tests");
            assert_eq!((request.load_pps, request.then.map(|then| then.load_pps)), (1050, Some(525)));
            test.record(TrialResult {
                sent: 63_000 + 5250,
                unique: 60_000 + 5000,
                switched_ns: Some(60 * BILLION),
                last_lost_ns: Some(60 * BILLION + after_ns),
                ..TrialResult::default()
            });
        }
        assert_eq!(test.next_trial(), None);
        let summary = test.summary().expect("two tests");
        assert_eq!(
            (summary.mean_ns, summary.min_ns, summary.max_ns),
            (150_000_000, 100_000_000, 200_000_000)
        );
    }

    #[test]
    fn loss_until_the_end_is_no_recovery() {
        let mut test = Recovery::new(RecoverySettings { tests: 1, ..SETTINGS });
        let last_lost_ns = Some(70 * BILLION - BILLION / 525);
        test.record(TrialResult { sent: 68_250, unique: 60_000, last_lost_ns, ..TrialResult::default() });
        assert_eq!(test.summary().map(|summary| summary.unrecovered), Some(1));
    }

    #[test]
    fn loss_during_the_overload_alone_is_no_recovery_time() {
        let mut test = Recovery::new(RecoverySettings { tests: 1, ..SETTINGS });
        let last_lost_ns = Some(59 * BILLION);
        test.record(TrialResult { sent: 68_250, unique: 60_000, last_lost_ns, ..TrialResult::default() });
        let summary = test.summary().expect("one test");
        assert_eq!((summary.mean_ns, summary.unrecovered), (0, 0));
    }
}
