//! Result lines of simulated devices.

use search::record::{
    Provenance, ResultLine, Rfc2544Record, SearchRecord, SizeRecord, TrafficShape, TrialRecord,
};
use search::{
    BurstSummary, GoalEnd, LatencyFigures, LatencySummary, LossPoint, Method, Procedure, Purpose,
    RecoverySummary, SearchSettings, ThroughputSearch, TrialRequest, TrialResult,
};

const SECOND: u64 = 1_000_000_000;

/// Frames per second of 10 Gbit/s Ethernet for a frame size with FCS.
fn medium_pps(size: u64) -> u64 {
    10_000_000_000 / ((size + 20) * 8)
}

fn provenance() -> Provenance {
    let host = [("kernel", "6.12.0"), ("driver", "example"), ("CPU", "4 x 2.6 GHz")];
    Provenance {
        command: "wirerate report short.jsonl -o report.html".to_owned(),
        start_ns: 1_790_000_000 * SECOND,
        host: host.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        deviations: vec!["Trials of 1 s instead of 60 s.".to_owned()],
    }
}

fn text(lines: &[ResultLine]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).expect("it is JSON") + "\n").collect()
}

/// A search of a device that passes `cap` frames per second. In each tenth trial, the sender pauses
/// for 5 % of the time, and 4 % of the frames are lost.
fn search(shape: &TrafficShape, method: Method, losses: &[u64], cap: u64, max_pps: u64) -> Vec<ResultLine> {
    let goals = losses.iter().map(|loss| method.goal(*loss)).collect();
    let mut search = ThroughputSearch::new(SearchSettings::new(goals, 1000, max_pps)).expect("valid");
    let mut lines = Vec::new();
    while let Some(request) = search.next_trial() {
        let mut result = passed(&request, cap);
        if search.log().len() % 10 == 8 {
            (result.unique, result.gap_ns_max) = (result.unique * 24 / 25, SECOND / 20);
        }
        search.record(result);
        let number = search.log().len();
        let trial =
            TrialRecord::new(number as u64, shape.clone(), &search.log()[number - 1], &search.results());
        lines.push(ResultLine::Trial(Box::new(trial)));
    }
    let end = SearchRecord::new(provenance(), method, shape.clone(), Some(max_pps), &search);
    lines.push(ResultLine::Search(end));
    lines
}

fn passed(request: &TrialRequest, cap: u64) -> TrialResult {
    let unique = request.frames.min(search::frames_of(cap, request.duration_ns));
    let elapsed_ns = request.duration_ns + 60_000_000;
    TrialResult { sent: request.frames, unique, elapsed_ns, gap_ns_max: 3000, ..TrialResult::default() }
}

fn shape(size: u64, flows: u64) -> TrafficShape {
    TrafficShape { frame_size: Some(size), flows: Some(flows), ..TrafficShape::default() }
}

/// A quick search of one size.
pub(crate) fn short() -> String {
    text(&search(&shape(64, 1), Method::Quick, &[0], 1_234_567, medium_pps(64)))
}

/// A search of one size.
pub(crate) fn sized(size: u64, cap: u64) -> String {
    text(&search(&shape(size, 1), Method::Quick, &[0], cap, medium_pps(size)))
}

/// Searches of all sizes and several numbers of flows, and the tests of RFC 2544.
pub(crate) fn full() -> String {
    let mut lines = search(&shape(64, 1), Method::Mlr, &[0, 5_000_000], 6_200_000, medium_pps(64));
    for (flows, cap) in [(100, 5_900_000), (10_000, 5_100_000), (1_000_000, 2_300_000)] {
        lines.extend(search(&shape(64, flows), Method::Quick, &[0], cap, medium_pps(64)));
    }
    for percent in [10, 50, 90] {
        lines.push(ResultLine::Trial(Box::new(latency_trial(percent))));
    }
    let sizes = [64, 128, 256, 512, 1024, 1280, 1518].map(size_record).to_vec();
    lines.push(ResultLine::Rfc2544(Rfc2544Record { provenance: provenance(), sizes }));
    text(&lines)
}

fn latency_trial(percent: u64) -> TrialRecord {
    // The median grows with the load, the tail faster.
    let median = 4000 + 60 * percent;
    let points = [0.0, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0_f64];
    let curve = points
        .iter()
        .enumerate()
        .map(|(index, share)| ((share * 1e9) as u64, median * 8 / 10 + index as u64 * percent * percent * 2));
    let seconds = (0..60).map(|second| {
        let wave = (second * 7919) % 400;
        (median + wave, median * 2 + 5 * wave, median * 8 + wave * percent)
    });
    let latency = LatencyFigures {
        p50_ns: median,
        mean_ns: median,
        frames: 1000,
        curve: curve.collect(),
        seconds: seconds.collect(),
        ..LatencyFigures::default()
    };
    let load_pps = 6_200_000 * percent / 100;
    let frames = search::frames_of(load_pps, 60 * SECOND);
    let result =
        TrialResult { sent: frames, unique: frames, latency: Some(latency), ..TrialResult::default() };
    let request =
        TrialRequest { purpose: Purpose::Latency, load_pps, duration_ns: 60 * SECOND, frames, then: None };
    TrialRecord {
        number: percent,
        shape: shape(64, 1),
        request,
        result,
        lost: 0,
        not_sent: 0,
        lost_ppb: 0,
        loss_ppb: 0,
        verdict: search::Verdict::Clean,
        disturbances: Vec::new(),
        is_counted: true,
        bounds: Vec::new(),
    }
}

fn size_record(size: u64) -> SizeRecord {
    let medium = medium_pps(size);
    let throughput = medium.min(6_200_000);
    let latency = |percent| LatencySummary {
        percent,
        load_pps: throughput * percent / 100,
        trials: 20,
        mean_ns: 5000 + 50 * percent,
        typical_ns: 4900 + 50 * percent,
        worst_case_ns: 20_000 + 900 * percent,
        variation_ns: 16_000 + 900 * percent,
        min_ns: 4000,
        max_ns: 90_000 + 1000 * percent,
    };
    let point = |share_ppb: u64| {
        let load_pps = (u128::from(medium) * u128::from(share_ppb) / 1_000_000_000) as u64;
        let loss_ppb =
            (load_pps.saturating_sub(throughput) as u128 * 1_000_000_000 / u128::from(load_pps)) as u64;
        LossPoint { share_ppb, load_pps, loss_ppb }
    };
    SizeRecord {
        shape: shape(size, 1),
        medium_pps: Some(medium),
        throughput_pps: Some(throughput),
        throughput_end: Some(match throughput < medium {
            true => GoalEnd::Regular,
            false => GoalEnd::MaxLoadReached,
        }),
        throughput_upper_pps: (throughput < medium).then_some(throughput + 31_000),
        throughput_trials: 17,
        limited_by: None,
        latency: vec![latency(10), latency(50), latency(90)],
        loss: (3..=10).rev().map(|tenth| point(tenth * 100_000_000)).collect(),
        back_to_back: (throughput < medium).then_some(BurstSummary {
            tests: 50,
            mean_frames: 12_502,
            min_frames: 12_480,
            max_frames: 12_510,
            sd_frames: 7,
            implied_buffer_ns: 840_000,
            corrected_buffer_ns: 490_000,
        }),
        recovery: Some(RecoverySummary {
            tests: 5,
            mean_ns: 200_000_000,
            min_ns: 1,
            max_ns: 300_000_000,
            unrecovered: 0,
        }),
    }
}
