//! Back-to-back frames (RFC 9004): the longest burst at the highest rate that passes without loss.
//!
//! Each test is a search of its own over the burst length, with loss verification (ETSI GS NFV-TST
//! 009): a burst with loss is repeated, and only loss again makes it an upper bound.

use crate::BILLION;
use crate::attempts::{Attempts, LoggedTrial, Settled};
use crate::procedure::Procedure;
use crate::trial::{Purpose, TesterLimits, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// What a back-to-back test is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSettings {
    /// The rate of the medium: frames follow each other with the smallest gap.
    pub max_load_pps: u64,
    /// Throughput without loss, for the corrected buffer time.
    pub throughput_pps: u64,
    /// Longest burst, as time. RFC 9004 starts with 30 s at most.
    pub burst_ns_max: u64,
    /// Number of tests; RFC 2544 recommends 50.
    pub tests: u32,
    /// How often a burst with loss is repeated before its length is an upper bound.
    pub verifications: u32,
}

/// The result of all tests, in the terms of RFC 9004.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct BurstSummary {
    /// Number of tests.
    pub tests: u32,
    /// Longest burst without loss: mean of the tests, rounded down.
    #[fact(unit = "frames")]
    pub mean_frames: u64,
    /// Longest burst without loss: least of the tests.
    #[fact(unit = "frames")]
    pub min_frames: u64,
    /// Longest burst without loss: most of the tests.
    #[fact(unit = "frames")]
    pub max_frames: u64,
    /// Longest burst without loss: standard deviation of the tests.
    #[fact(unit = "frames")]
    pub sd_frames: u64,
    /// Implied buffer time of the device: the mean burst at the rate of the medium.
    pub implied_buffer_ns: u64,
    /// Corrected buffer time: without the frames that the device forwarded during the burst.
    pub corrected_buffer_ns: u64,
}

/// The state of the tests.
#[derive(Clone, Debug)]
pub struct BackToBack {
    settings: BurstSettings,
    /// Longest burst without loss of each finished test.
    bursts: Vec<u64>,
    /// Tests without a result: all repeats of a burst were disturbed.
    abandoned: u32,
    lower: u64,
    /// Shortest burst with loss; `None` before the longest burst was tried.
    upper: Option<u64>,
    losses: u32,
    attempts: Attempts,
}

impl BackToBack {
    /// Tests that have not run yet. RFC 9004 excludes frame sizes that the device forwards at the
    /// rate of the medium: they have no trial.
    #[must_use]
    pub fn new(settings: BurstSettings) -> Self {
        let attempts = Attempts::new(TesterLimits::default(), 3);
        Self { settings, bursts: Vec::new(), abandoned: 0, lower: 0, upper: None, losses: 0, attempts }
    }

    /// The summary of the finished tests; `None` before the first.
    #[must_use]
    pub fn summary(&self) -> Option<BurstSummary> {
        let (min_frames, max_frames) = (*self.bursts.iter().min()?, *self.bursts.iter().max()?);
        let tests = self.bursts.len() as u128;
        let sum: u128 = self.bursts.iter().map(|frames| u128::from(*frames)).sum();
        let mean = sum / tests;
        let squares: u128 = self.bursts.iter().map(|frames| u128::from(*frames).abs_diff(mean).pow(2)).sum();
        let time_ns = |frames: u128| frames * u128::from(BILLION) / u128::from(self.settings.max_load_pps);
        let forwarded =
            mean * u128::from(self.settings.throughput_pps) / u128::from(self.settings.max_load_pps);
        Some(BurstSummary {
            tests: tests as u32,
            mean_frames: mean as u64,
            min_frames,
            max_frames,
            sd_frames: (squares / tests).isqrt() as u64,
            implied_buffer_ns: time_ns(mean) as u64,
            corrected_buffer_ns: time_ns(mean.saturating_sub(forwarded)) as u64,
        })
    }

    fn longest(&self) -> u64 {
        crate::frames_of(self.settings.max_load_pps, self.settings.burst_ns_max)
    }

    /// The length to try: the longest first, then halves of the interval.
    fn next_frames(&self) -> Option<u64> {
        let is_excluded = self.settings.throughput_pps >= self.settings.max_load_pps;
        if is_excluded
            || self.bursts.len() + self.abandoned as usize >= self.settings.tests as usize
            || self.longest() == 0
        {
            return None;
        }
        Some(self.upper.map_or(self.longest(), |upper| self.lower + (upper - self.lower) / 2))
    }

    fn abandon_test(&mut self) {
        self.abandoned += 1;
        (self.lower, self.upper, self.losses) = (0, None, 0);
    }

    fn end_test(&mut self, frames: u64) {
        self.bursts.push(frames);
        (self.lower, self.upper) = (0, None);
    }
}

impl Procedure for BackToBack {
    fn log(&self) -> &[LoggedTrial] {
        self.attempts.log()
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        let frames = self.next_frames()?;
        let load_pps = self.settings.max_load_pps;
        let duration_ns = (u128::from(frames) * u128::from(BILLION)).div_ceil(u128::from(load_pps)) as u64;
        Some(TrialRequest { purpose: Purpose::Burst, load_pps, duration_ns, frames, then: None })
    }

    fn record(&mut self, result: TrialResult) {
        let request = self.next_trial().expect("a trial is due");
        let loss = match self.attempts.settle(request, result, 0) {
            Settled::Unused => return,
            Settled::Counts(loss) => loss,
            Settled::GivenUp(_) => return self.abandon_test(),
        };
        if loss.lost > 0 && self.losses < self.settings.verifications {
            self.losses += 1;
            return;
        }
        self.losses = 0;
        if loss.lost > 0 {
            self.upper = Some(request.frames);
        } else if self.upper.is_none() {
            return self.end_test(request.frames);
        } else {
            self.lower = request.frames;
        }
        if self.upper.is_some_and(|upper| upper - self.lower <= 1) {
            self.end_test(self.lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BurstSettings = BurstSettings {
        max_load_pps: 1_000_000,
        throughput_pps: 600_000,
        burst_ns_max: 2 * BILLION,
        tests: 3,
        verifications: 1,
    };

    /// A buffer of `depth` frames that is emptied at the throughput: a burst of N frames at rate L
    /// needs N (L - R) / L of it.
    fn loss_of(frames: u64, depth: u64) -> u64 {
        (frames * 400_000 / 1_000_000).saturating_sub(depth)
    }

    fn run(settings: BurstSettings, mut lost: impl FnMut(usize, u64) -> u64) -> BackToBack {
        let mut test = BackToBack::new(settings);
        while let Some(request) = test.next_trial() {
            let unique = request.frames - lost(test.log().len(), request.frames);
            test.record(TrialResult { sent: request.frames, unique, ..TrialResult::default() });
        }
        test
    }

    #[test]
    fn the_burst_that_fills_the_buffer_is_found_to_one_frame() {
        let summary = run(SETTINGS, |_, frames| loss_of(frames, 5000)).summary().expect("three tests");
        // The buffer takes D L / (L - R) = 12,500 frames, and 2 more by rounding.
        assert_eq!((summary.tests, summary.mean_frames, summary.sd_frames), (3, 12_502, 0));
        assert_eq!(summary.implied_buffer_ns, 12_502_000);
        // The corrected time is the buffer at the rate of the medium: D / L = 5 ms.
        assert_eq!(summary.corrected_buffer_ns / 10_000, 500);
    }

    #[test]
    fn one_spoilt_burst_is_verified_and_changes_nothing() {
        let spoilt = run(SETTINGS, |trial, frames| loss_of(frames, 5000).max(u64::from(trial % 9 == 5)));
        assert_eq!(spoilt.summary().expect("three tests").mean_frames, 12_502);
    }

    #[test]
    fn a_test_whose_bursts_are_all_disturbed_has_no_result() {
        let mut test = BackToBack::new(SETTINGS);
        while let Some(request) = test.next_trial() {
            let sent = request.frames - 1;
            test.record(TrialResult { sent, unique: sent, ..TrialResult::default() });
        }
        assert_eq!((test.summary(), test.log().len()), (None, 12));
    }

    #[test]
    fn a_frame_size_at_line_rate_has_no_trial() {
        let settings = BurstSettings { throughput_pps: 1_000_000, ..SETTINGS };
        assert_eq!(BackToBack::new(settings).next_trial(), None);
    }

    #[test]
    fn a_device_that_loses_every_burst_has_a_buffer_of_zero() {
        let summary = run(SETTINGS, |_, frames| frames).summary().expect("three tests");
        assert_eq!((summary.max_frames, summary.corrected_buffer_ns), (0, 0));
    }

    #[test]
    fn the_longest_burst_without_loss_ends_a_test() {
        let test = run(SETTINGS, |_, _| 0);
        assert_eq!(test.log().len(), 3);
        assert_eq!(test.summary().expect("three tests").min_frames, 2_000_000);
    }
}
