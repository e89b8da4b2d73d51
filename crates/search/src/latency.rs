//! Latency (RFC 2544 section 26.2, RFC 8219 section 7): repeated trials at shares of the
//! throughput.

use crate::BILLION;
use crate::attempts::{Attempts, LoggedTrial, Settled};
use crate::procedure::Procedure;
use crate::trial::{LatencyFigures, Purpose, TesterLimits, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// What a latency test is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySettings {
    /// Throughput.
    pub throughput_pps: u64,
    /// Loads as percent of the throughput.
    pub percents: Vec<u64>,
    /// Duration of a trial; the RFC requires 120 s at least.
    pub trial_ns: u64,
    /// Trials at each load; the RFC requires 20 at least.
    pub repeats: u32,
}

impl LatencySettings {
    /// The loads of FD.io CSIT and the throughput itself, with the durations of RFC 2544.
    #[must_use]
    pub fn new(throughput_pps: u64) -> Self {
        Self { throughput_pps, percents: vec![10, 50, 90, 100], trial_ns: 120 * BILLION, repeats: 20 }
    }
}

/// Latency at one load, over all of its trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct LatencySummary {
    /// The load as a share of the throughput.
    #[fact(unit = "percent")]
    pub percent: u64,
    /// The load.
    pub load_pps: u64,
    /// Trials at this load that have timestamps.
    pub trials: u32,
    /// Mean of the means: RFC 2544.
    pub mean_ns: u64,
    /// Typical latency of RFC 8219: the median of the medians.
    pub typical_ns: u64,
    /// Worst case latency of RFC 8219: the median of the 99.9th percentiles.
    pub worst_case_ns: u64,
    /// Packet delay variation of RFC 8219: the median of 99.9th percentile minus minimum.
    pub variation_ns: u64,
    /// Lowest latency of all trials.
    pub min_ns: u64,
    /// Highest latency of all trials.
    pub max_ns: u64,
}

/// The trials of a latency test, in order of the loads.
#[derive(Clone, Debug)]
pub struct LatencyAtLoads {
    settings: LatencySettings,
    /// Latency of each finished trial; `None` without timestamps, or if all repeats were disturbed.
    figures: Vec<Option<LatencyFigures>>,
    attempts: Attempts,
}

impl LatencyAtLoads {
    /// A test that has not run yet.
    #[must_use]
    pub fn new(settings: LatencySettings) -> Self {
        Self { settings, figures: Vec::new(), attempts: Attempts::new(TesterLimits::default(), 3) }
    }

    fn load(&self, percent: u64) -> u64 {
        (u128::from(self.settings.throughput_pps) * u128::from(percent) / 100).max(1) as u64
    }

    /// One entry for each load that has at least one trial with timestamps.
    #[must_use]
    pub fn summaries(&self) -> Vec<LatencySummary> {
        let per_load = self.figures.chunks(self.settings.repeats.max(1) as usize);
        per_load
            .zip(&self.settings.percents)
            .filter_map(|(trials, percent)| {
                let figures: Vec<&LatencyFigures> = trials.iter().flatten().collect();
                let median = |value: fn(&LatencyFigures) -> u64| median(figures.iter().map(|one| value(one)));
                Some(LatencySummary {
                    percent: *percent,
                    load_pps: self.load(*percent),
                    trials: figures.len() as u32,
                    mean_ns: figures.iter().map(|one| one.mean_ns).sum::<u64>()
                        / (figures.len() as u64).max(1),
                    typical_ns: median(|one| one.p50_ns),
                    worst_case_ns: median(|one| one.p99_9_ns),
                    variation_ns: median(|one| one.p99_9_ns.saturating_sub(one.min_ns)),
                    min_ns: figures.iter().map(|one| one.min_ns).min()?,
                    max_ns: figures.iter().map(|one| one.max_ns).max()?,
                })
            })
            .collect()
    }
}

/// The middle value; of two, the lower one.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

impl Procedure for LatencyAtLoads {
    fn log(&self) -> &[LoggedTrial] {
        self.attempts.log()
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        let index = self.figures.len() / self.settings.repeats.max(1) as usize;
        let percent = *self.settings.percents.get(index)?;
        Some(TrialRequest::new(Purpose::Latency, self.load(percent), self.settings.trial_ns))
    }

    fn record(&mut self, result: TrialResult) {
        let request = self.next_trial().expect("a trial is due");
        let latency = result.latency.clone();
        match self.attempts.settle(request, result, 0) {
            Settled::Unused => {}
            Settled::Counts(_) => self.figures.push(latency),
            Settled::GivenUp(_) => self.figures.push(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_is_repeated_and_summarized_by_rfc_8219() {
        let settings =
            LatencySettings { percents: vec![10, 90], repeats: 3, ..LatencySettings::new(1_000_000) };
        let mut test = LatencyAtLoads::new(settings);
        let mut loads = Vec::new();
        while let Some(request) = test.next_trial() {
            loads.push(request.load_pps);
            let number = loads.len() as u64;
            let latency = LatencyFigures {
                min_ns: 100 - number,
                mean_ns: 1000 * number,
                p50_ns: 900 * number,
                p99_9_ns: 5000 * number,
                max_ns: 9000 * number,
                ..LatencyFigures::default()
            };
            let (sent, unique) = (request.frames, request.frames);
            test.record(TrialResult { sent, unique, latency: Some(latency), ..TrialResult::default() });
        }
        assert_eq!(loads, [100_000, 100_000, 100_000, 900_000, 900_000, 900_000]);
        let summaries = test.summaries();
        assert_eq!(summaries.len(), 2);
        let first = &summaries[0];
        assert_eq!((first.trials, first.mean_ns, first.typical_ns), (3, 2000, 1800));
        assert_eq!((first.worst_case_ns, first.variation_ns), (10_000, 9_902));
        assert_eq!((first.min_ns, first.max_ns), (97, 27_000));
    }

    #[test]
    fn a_load_without_timestamps_has_no_summary() {
        let settings = LatencySettings { percents: vec![10], repeats: 1, ..LatencySettings::new(1000) };
        let mut test = LatencyAtLoads::new(settings);
        let frames = test.next_trial().expect("one trial").frames;
        test.record(TrialResult { sent: frames, unique: frames, ..TrialResult::default() });
        assert_eq!(test.summaries(), []);
    }
}
