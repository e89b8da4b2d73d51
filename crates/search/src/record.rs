//! The JSON lines of a measurement: every trial, each search, and the results of RFC 2544.
//!
//! `docs/json.md` describes the fields. Reports are made from these lines alone, so old results can
//! be rendered again.

use crate::attempts::{LoggedTrial, Verdict};
use crate::burst::BurstSummary;
use crate::goal::Method;
use crate::latency::LatencySummary;
use crate::loss_curve::LossPoint;
use crate::procedure::Procedure;
use crate::recovery::RecoverySummary;
use crate::throughput::{GoalEnd, GoalResult, ThroughputSearch};
use crate::trial::{Disturbance, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of a result file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "schema")]
pub enum ResultLine {
    /// A trial.
    #[serde(rename = "wirerate.trial/1")]
    Trial(Box<TrialRecord>),
    /// The end of a search.
    #[serde(rename = "wirerate.search/1")]
    Search(SearchRecord),
    /// The end of the tests of RFC 2544.
    #[serde(rename = "wirerate.rfc2544/1")]
    Rfc2544(Rfc2544Record),
    /// A line of another schema.
    #[serde(other)]
    Other,
}

/// What the trials of one search have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Described)]
pub struct TrafficShape {
    /// Frame size with FCS, as RFC 2544 counts it; `null` for a mix of sizes.
    #[fact(unit = "bytes")]
    pub frame_size: Option<u64>,
    /// Number of flows; `null` without `--flows`: the options of the frames decide.
    pub flows: Option<u64>,
    /// Number of sending threads, if `--threads` says so; else the options of the frames decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// `true` if all loads and counts are sums of both directions; else absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bidirectional: bool,
    /// What the loads of `--connections` are, whose "frames" are connections: `rate`: new ones per
    /// second, `held`: those held at a time. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionsShape>,
}

/// What the loads of a search of connections are. A frame of a trial is a connection then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionsShape {
    /// New connections per second.
    Rate,
    /// Connections held at a time.
    Held,
}

impl ConnectionsShape {
    /// The loads in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Rate => "new connections per second",
            Self::Held => "connections held at a time",
        }
    }
}

/// The bounds of one goal after a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct BoundsRecord {
    /// Relevant lower bound, or of a coarser target as long as the goal has none; `null` if there
    /// is none.
    pub lower_pps: Option<u64>,
    /// Relevant upper bound, or of a coarser target as long as the goal has none; `null` if there
    /// is none.
    pub upper_pps: Option<u64>,
}

/// `wirerate.trial/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct TrialRecord {
    /// Number of the trial, from 1.
    pub number: u64,
    /// Frame size and flows.
    #[serde(flatten)]
    pub shape: TrafficShape,
    /// The request.
    #[serde(flatten)]
    pub request: TrialRequest,
    /// The counts.
    #[serde(flatten)]
    pub result: TrialResult,
    /// Frames that were sent and did not arrive: `sent` minus `unique`.
    #[fact(unit = "frames")]
    pub lost: u64,
    /// Frames of the trial that the tester did not send.
    #[fact(unit = "frames")]
    #[serde(default)]
    pub not_sent: u64,
    /// Share of the lost frames in the frames that were sent.
    #[serde(default)]
    pub lost_ppb: u64,
    /// The loss ratio that the verdict is about: frames that were not sent count as lost (RFC
    /// 9971).
    pub loss_ppb: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Faults of the tester, as in [search.md](search.md#disturbed-trials).
    pub disturbances: Vec<Disturbance>,
    /// Whether the result was used: false for a warm-up and for a disturbed trial.
    pub is_counted: bool,
    /// The bounds of each goal after this trial; empty outside a search.
    #[serde(default)]
    pub bounds: Vec<BoundsRecord>,
}

impl TrialRecord {
    /// The record of trial `number`.
    #[must_use]
    pub fn new(number: u64, shape: TrafficShape, trial: &LoggedTrial, results: &[GoalResult]) -> Self {
        let bounds = results
            .iter()
            .map(|goal| BoundsRecord { lower_pps: goal.lower_pps, upper_pps: goal.upper_pps })
            .collect();
        Self {
            number,
            shape,
            request: trial.request,
            result: trial.result.clone(),
            lost: trial.result.lost().lost,
            not_sent: trial.result.not_sent(&trial.request),
            lost_ppb: trial.result.lost().ppb(),
            loss_ppb: trial.result.loss(trial.request.all_frames()).ppb(),
            verdict: trial.verdict,
            disturbances: trial.disturbances.clone(),
            is_counted: trial.is_counted,
            bounds,
        }
    }
}

/// How, where and on what a result was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct Provenance {
    /// The command that repeats the measurement.
    pub command: String,
    /// When the measurement started, in nanoseconds since 1970-01-01 UTC.
    pub start_ns: u64,
    /// Facts about the host by name: kernel, driver, CPU and so on.
    #[serde(default)]
    pub host: BTreeMap<String, String>,
    /// Deviations from the RFC, one sentence each.
    #[serde(default)]
    pub deviations: Vec<String>,
}

/// `wirerate.search/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct SearchRecord {
    /// How it was measured.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: Method,
    /// Frame size and flows.
    #[serde(flatten)]
    pub shape: TrafficShape,
    /// Highest rate of the medium for this frame size; `null` if the medium has no rate.
    pub medium_pps: Option<u64>,
    /// Number of trials.
    pub trials: u64,
    /// Number of trials with the verdict `disturbed`.
    pub disturbed: u64,
    /// Time of all trials.
    pub elapsed_ns: u64,
    /// What limited the tester, in words, if it could not try or decide higher loads; absent if
    /// nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// One entry for each goal: the goal and its result.
    pub goals: Vec<GoalResult>,
}

impl SearchRecord {
    /// The record of a search.
    #[must_use]
    pub fn new(
        provenance: Provenance,
        method: Method,
        shape: TrafficShape,
        medium_pps: Option<u64>,
        search: &ThroughputSearch,
    ) -> Self {
        let disturbed = search.log().iter().filter(|trial| trial.verdict == Verdict::Disturbed).count();
        Self {
            provenance,
            method,
            shape,
            medium_pps,
            trials: search.log().len() as u64,
            disturbed: disturbed as u64,
            elapsed_ns: search.elapsed_ns(),
            limited_by: search.limited_by(),
            goals: search.results(),
        }
    }
}

/// `wirerate.rfc2544/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct Rfc2544Record {
    /// How it was measured.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// One entry for each frame size. A test that was not run is empty or `null`.
    pub sizes: Vec<SizeRecord>,
}

/// The results of RFC 2544 for one frame size. A test that was not run is empty or `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct SizeRecord {
    /// Frame size and flows.
    #[serde(flatten)]
    pub shape: TrafficShape,
    /// Highest rate of the medium; `null` if the medium has no rate.
    pub medium_pps: Option<u64>,
    /// Throughput: the lower bound that the search for it found, or the one that was given; `null`
    /// if there is none.
    pub throughput_pps: Option<u64>,
    /// How the search for the throughput ended; absent if the throughput was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_end: Option<GoalEnd>,
    /// The upper bound of the throughput; absent if the search found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_upper_pps: Option<u64>,
    /// Trials of the search for the throughput.
    #[serde(default)]
    pub throughput_trials: u64,
    /// What limited the tester in the search for the throughput, in words; absent if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Latency at each load (RFC 8219).
    #[serde(default)]
    pub latency: Vec<LatencySummary>,
    /// Frame loss rate at each load.
    #[serde(default)]
    pub loss: Vec<LossPoint>,
    /// Back-to-back frames.
    #[serde(default)]
    pub back_to_back: Option<BurstSummary>,
    /// System recovery.
    #[serde(default)]
    pub recovery: Option<RecoverySummary>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::SearchSettings;

    fn search() -> ThroughputSearch {
        let settings = SearchSettings::new(vec![Method::Quick.goal(0)], 1, 1_000_000);
        let mut search = ThroughputSearch::new(settings).expect("valid");
        while let Some(request) = search.next_trial() {
            let unique = request.frames.min(500_000);
            search.record(TrialResult { sent: request.frames, unique, ..TrialResult::default() });
        }
        search
    }

    #[test]
    fn lines_are_read_back_as_they_were_written() {
        let search = search();
        let shape = TrafficShape { frame_size: Some(64), flows: Some(1), ..TrafficShape::default() };
        let trial = TrialRecord::new(1, shape.clone(), &search.log()[0], &search.results());
        assert_eq!((trial.lost, trial.loss_ppb), (500_000, 500_000_000));
        let record = SearchRecord::new(Provenance::default(), Method::Quick, shape, Some(1_488_095), &search);
        let size = SizeRecord { throughput_pps: Some(1), ..SizeRecord::default() };
        let table = Rfc2544Record { provenance: Provenance::default(), sizes: vec![size] };
        let lines =
            [ResultLine::Trial(Box::new(trial)), ResultLine::Search(record), ResultLine::Rfc2544(table)];
        for line in lines {
            let text = serde_json::to_string(&line).expect("it is JSON");
            assert!(text.starts_with("{\"schema\":\"wirerate."), "{text}");
            assert_eq!(serde_json::from_str::<ResultLine>(&text).expect("it is a line"), line);
        }
    }

    #[test]
    fn lines_of_other_schemas_are_passed_over() {
        let text = r#"{"schema":"wirerate.send/2","sent":1}"#;
        assert_eq!(serde_json::from_str::<ResultLine>(text).expect("it is a line"), ResultLine::Other);
    }
}
