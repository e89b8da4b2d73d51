//! Searches of simulated devices whose throughput is known: lower bound <= truth <= upper bound.

use proptest::prelude::*;
use search::{
    BILLION, Disturbance, GoalEnd, GoalResult, LoggedTrial, Method, Procedure, Purpose, SearchSettings,
    Start, ThroughputSearch, TrialRequest, TrialResult, Verdict,
};
use std::cell::Cell;

const SECOND: u64 = 1_000_000_000;

/// A device under test: how many frames of a trial pass.
trait Device {
    fn passes(&self, request: &TrialRequest) -> u64;
}

/// Drops all frames of a trial beyond the first `frames` per second.
struct CountCap(u64);

impl Device for CountCap {
    fn passes(&self, request: &TrialRequest) -> u64 {
        request.frames.min(search::frames_of(self.0, request.duration_ns))
    }
}

/// Passes `rate_pps` and a burst of `depth` frames per trial, frame by frame.
struct TokenBucket {
    rate_pps: u64,
    depth: u64,
}

impl Device for TokenBucket {
    fn passes(&self, request: &TrialRequest) -> u64 {
        // Tokens in billionths of a frame; each frame comes one interval after the last.
        let full = u128::from(self.depth) * u128::from(BILLION);
        let gained = u128::from(self.rate_pps) * u128::from(BILLION) / u128::from(request.load_pps);
        let (mut tokens, mut passed) = (full, 0);
        for _ in 0..request.frames {
            tokens = (tokens + gained).min(full);
            if tokens >= u128::from(BILLION) {
                tokens -= u128::from(BILLION);
                passed += 1;
            }
        }
        passed
    }
}

fn counted(request: &TrialRequest, unique: u64) -> TrialResult {
    let elapsed_ns = request.duration_ns;
    TrialResult { sent: request.frames, unique, elapsed_ns, ..TrialResult::default() }
}

/// Runs a search to its end; `spoil` may change the result of a trial, by its number.
fn run(
    settings: SearchSettings,
    device: &impl Device,
    mut spoil: impl FnMut(usize, &mut TrialResult),
) -> (Vec<GoalResult>, Vec<LoggedTrial>) {
    let mut search = ThroughputSearch::new(settings).expect("the goals are valid");
    while let Some(request) = search.next_trial() {
        let mut result = counted(&request, device.passes(&request));
        spoil(search.log().len(), &mut result);
        search.record(result);
        assert!(search.log().len() < 5000, "the search does not end");
    }
    (search.results(), search.log().to_vec())
}

fn mlr(limits: &[u64]) -> SearchSettings {
    let goals = limits.iter().map(|loss| Method::Mlr.goal(*loss)).collect();
    SearchSettings::new(goals, 1, 20_000_000)
}

#[track_caller]
fn assert_brackets(result: &GoalResult, truth: u64) {
    let (lower, upper) =
        (result.lower_pps.expect("a lower bound"), result.upper_pps.expect("an upper bound"));
    assert!(lower <= truth && truth <= upper, "{lower} <= {truth} <= {upper}");
    assert!((upper - lower) * 200 <= upper || upper - lower == 1, "{lower}..{upper} is too wide");
    assert_eq!(result.end, GoalEnd::Regular);
}

/// The lossless load and the load with loss `loss_ppb` of a cap.
fn truth_of(cap: u64, loss_ppb: u64) -> u64 {
    (u128::from(cap) * u128::from(BILLION) / u128::from(BILLION - loss_ppb)) as u64
}

#[test]
fn a_count_cap_is_found_in_fewer_than_forty_trials() {
    let losses = [0, BILLION / 200];
    let (results, log) = run(mlr(&losses), &CountCap(1_234_567), |_, _| {});
    for (result, loss) in results.iter().zip(losses) {
        assert_brackets(result, truth_of(1_234_567, loss));
        let conditional = result.conditional_pps.expect("a lower bound has a conditional throughput");
        assert!(conditional.abs_diff(1_234_567) * 200 <= 1_234_567, "{conditional}");
    }
    assert!(log.len() < 60, "{} trials", log.len());
    let first: Vec<_> = log.iter().take(3).map(|trial| trial.request.purpose).collect();
    assert_eq!(first, [Purpose::MaxLoad, Purpose::ForwardingRate, Purpose::ForwardingRate]);
}

#[test]
fn a_token_bucket_passes_its_depth_once_per_trial() {
    let device = TokenBucket { rate_pps: 100_000, depth: 5000 };
    let settings = SearchSettings::new(vec![Method::Mlr.goal(0)], 1, 400_000);
    let (results, _) = run(settings, &device, |_, _| {});
    // Trials of 1 s: the rate, and the bucket that was full at the start.
    assert_brackets(&results[0], 105_000);
}

#[test]
fn each_method_finds_a_cap() {
    for method in Method::ALL {
        let mut settings = SearchSettings::new(vec![method.goal(0)], 1, 14_880_952);
        if method == Method::Binary {
            settings.start = Start::Range;
        }
        let (results, log) = run(settings, &CountCap(3_000_007), |_, _| {});
        assert_brackets(&results[0], 3_000_007);
        println!("{}: {} trials, {} s", method.name(), log.len(), seconds(&log));
    }
}

fn seconds(log: &[LoggedTrial]) -> u64 {
    log.iter().map(|trial| trial.request.duration_ns).sum::<u64>() / SECOND
}

#[test]
fn one_spoilt_trial_in_ten_changes_nothing_and_is_listed() {
    let device = CountCap(1_234_567);
    let (expected, clean_log) = run(mlr(&[0, 5_000_000]), &device, |_, _| {});
    let spoil = |number: usize, result: &mut TrialResult| {
        if number % 10 == 7 {
            result.unique -= result.unique / 3;
            result.gap_ns_max = SECOND;
        }
    };
    let (results, log) = run(mlr(&[0, 5_000_000]), &device, spoil);
    assert_eq!(results, expected);
    let disturbed: Vec<_> = log.iter().filter(|trial| trial.verdict == Verdict::Disturbed).collect();
    assert_eq!(log.len(), clean_log.len() + disturbed.len());
    assert!(disturbed.len() >= 3, "{}", disturbed.len());
    for trial in disturbed {
        assert!(!trial.is_counted);
        assert_eq!(trial.disturbances, [Disturbance::Gap, Disturbance::CatchUp]);
    }
}

/// The tester pauses in each trial for the time of 300 frames, so no load less than 300 frames per
/// second above the truth is decided.
#[test]
fn a_load_that_the_tester_cannot_decide_is_passed_over() {
    let pause = |_: usize, result: &mut TrialResult| result.gap_ns_max = 3_000_000;
    let (results, log) = run(mlr(&[0]), &CountCap(100_000), pause);
    let (lower, upper) = (results[0].lower_pps.expect("lower"), results[0].upper_pps.expect("upper"));
    assert!(lower <= 100_000 && 100_000 < upper, "{:?}", results[0]);
    assert!(upper - lower < 1500, "{:?}", results[0]);
    assert!(matches!(results[0].end, GoalEnd::Regular | GoalEnd::Disturbed));
    assert!(log.len() < 100, "{} trials", log.len());
    println!("{:?}, {} trials", results[0], log.len());
}

/// A tester that is disturbed whenever a frame is lost never finds an upper bound. It goes on below
/// the loads that it cannot decide, down to one that passes.
#[test]
fn a_tester_that_is_always_disturbed_finds_a_load_that_passes() {
    let stopped = |_: usize, result: &mut TrialResult| result.gap_ns_max = SECOND;
    let (results, log) = run(mlr(&[0, 5_000_000]), &CountCap(100_000), stopped);
    for result in &results {
        assert_eq!((result.end, result.upper_pps), (GoalEnd::LimitedByTester, None));
        let lower = result.lower_pps.expect("it never ends without a result");
        assert!(lower > 50_000 && lower <= truth_of(100_000, 5_000_000), "{result:?}");
    }
    assert!(log.len() < 60, "{} trials", log.len());
    println!("{results:?}, {} trials", log.len());
}

#[test]
fn spoilt_trials_that_the_tester_did_not_see_are_outvoted() {
    let spoil = |number: usize, result: &mut TrialResult| {
        if number % 10 == 7 {
            result.unique -= result.unique.min(1000);
        }
    };
    let (results, _) = run(mlr(&[0]), &CountCap(1_234_567), spoil);
    let lower = results[0].lower_pps.expect("a lower bound");
    assert!(lower <= 1_234_567 && lower > 1_234_567 * 99 / 100, "{lower}");
    assert_eq!(results[0].end, GoalEnd::Regular);
}

#[test]
fn a_device_without_a_limit_is_at_least_the_highest_load() {
    let (results, log) = run(mlr(&[0]), &CountCap(u64::MAX / SECOND), |_, _| {});
    assert_eq!(results[0].end, GoalEnd::MaxLoadReached);
    assert_eq!((results[0].lower_pps, results[0].upper_pps), (Some(20_000_000), None));
    assert_eq!(results[0].conditional_pps, Some(20_000_000));
    assert!(log.len() <= 11, "half of the duration sum is enough: {}", log.len());
}

/// Loses each frame whose number is a multiple of `every`, beside what a cap loses.
struct OneIn {
    every: u64,
    cap: u64,
    count: Cell<u64>,
}

impl Device for OneIn {
    fn passes(&self, request: &TrialRequest) -> u64 {
        let before = self.count.replace(self.count.get() + request.frames);
        let lost = self.count.get() / self.every - before / self.every;
        CountCap(self.cap).passes(request) - lost.min(CountCap(self.cap).passes(request))
    }
}

/// The load at which half of the trials lost none was said to be the throughput.
#[test]
fn a_link_that_loses_at_each_load_has_none_that_passes() {
    for (max_pps, cap, trials_max) in [(20_000, u64::MAX / SECOND, 20), (1_000_000, 100_000, 60)] {
        for first in [0, 3_000, 9_999] {
            let device = OneIn { every: 10_000, cap, count: Cell::new(first) };
            let goals = vec![Method::Mlr.goal(0), Method::Mlr.goal(500_000)];
            let (results, log) = run(SearchSettings::new(goals, 1_000, max_pps), &device, |_, _| {});
            assert_eq!((results[0].end, results[0].lower_pps), (GoalEnd::NoLoadPasses, None), "{results:?}");
            let lower = results[1].lower_pps.expect("a load with 0.05 %");
            assert!(lower.abs_diff(cap.min(max_pps)) * 200 <= lower, "{results:?}");
            assert!(log.len() < trials_max, "{} trials", log.len());
        }
    }
}

/// One frame is lost at the highest load, once.
#[test]
fn a_frame_lost_by_accident_does_not_end_a_search() {
    let spoil = |number: usize, result: &mut TrialResult| result.unique -= u64::from(number == 0);
    let (results, log) = run(mlr(&[0]), &CountCap(u64::MAX / SECOND), spoil);
    assert_eq!((results[0].end, results[0].lower_pps), (GoalEnd::MaxLoadReached, Some(20_000_000)));
    assert!(log.len() < 40, "{} trials", log.len());
}

/// The edge moves from trial to trial, so half of the trials at the rate of the first one pass.
#[test]
fn loads_at_the_edge_are_not_tried_again_and_again() {
    let moved = |number: usize, result: &mut TrialResult| {
        result.unique = result.unique.min(10_110 + (7 * number as u64 + 4) % 8);
    };
    let settings = SearchSettings::new(vec![Method::Mlr.goal(0)], 1_000, 20_000);
    let (results, log) = run(settings, &CountCap(20_000), moved);
    assert_brackets(&results[0], 10_114);
    // 55 if the load at the edge is tried until it is decided.
    assert!(log.len() < 45, "{} trials", log.len());
}

#[test]
fn a_device_that_drops_everything_is_below_the_lowest_load() {
    let (results, _) = run(mlr(&[0]), &CountCap(0), |_, _| {});
    assert_eq!(results[0].end, GoalEnd::BelowMinLoad);
    assert_eq!((results[0].lower_pps, results[0].upper_pps), (None, Some(1)));
}

#[test]
fn the_budget_ends_a_search_with_the_bounds_so_far() {
    let budget_ns = Some(8 * SECOND);
    let settings = SearchSettings { budget_ns, ..mlr(&[0]) };
    let (results, log) = run(settings, &CountCap(1_234_567), |_, _| {});
    assert_eq!(results[0].end, GoalEnd::Unfinished);
    assert!(results[0].is_coarse, "{results:?}");
    let (lower, upper) = (results[0].lower_pps.expect("coarse"), results[0].upper_pps.expect("coarse"));
    assert!(lower <= 1_234_567 && 1_234_567 <= upper);
    assert!(seconds(&log) <= 8);
}

#[test]
fn the_estimate_of_the_time_left_falls_with_the_search() {
    for method in Method::ALL {
        let mut settings = SearchSettings::new(vec![method.goal(0)], 1000, 14_880_952);
        if method == Method::Binary {
            settings.start = Start::Range;
        }
        let mut search = ThroughputSearch::new(settings).expect("valid");
        let mut estimates = Vec::new();
        while let Some(request) = search.next_trial() {
            estimates.push((search.elapsed_ns(), search.time_left_ns().expect("a trial is due")));
            search.record(counted(&request, CountCap(3_000_007).passes(&request)));
        }
        assert_eq!(search.time_left_ns(), None);
        let whole_ns = search.elapsed_ns();
        let half_way = estimates.iter().filter(|(elapsed_ns, _)| *elapsed_ns * 2 <= whole_ns);
        for (elapsed_ns, left_ns) in half_way {
            let truth_ns = whole_ns - elapsed_ns;
            let is_near = *left_ns <= 3 * truth_ns && truth_ns <= 3 * left_ns;
            assert!(is_near, "{}: {left_ns} ns left of {truth_ns}", method.name());
        }
        let last = estimates.last().expect("a trial").1;
        assert!(last > 0 && last <= estimates[0].1, "{}: {last}", method.name());
    }
}

#[test]
fn a_warm_up_is_logged_and_not_counted() {
    let settings = SearchSettings { warm_up_ns: SECOND, ..mlr(&[0]) };
    let (results, log) = run(settings, &CountCap(1_000_000), |number, result| {
        if number == 0 {
            result.unique = 0;
        }
    });
    assert_eq!((log[0].request.purpose, log[0].is_counted), (Purpose::WarmUp, false));
    assert_eq!(log[1].request.purpose, Purpose::MaxLoad);
    assert_brackets(&results[0], 1_000_000);
}

#[test]
fn a_search_takes_less_time_than_a_plain_binary_search_of_the_same_trials() {
    let device = CountCap(777_777);
    let (_, with_estimate) = run(mlr(&[0]), &device, |_, _| {});
    let mut goal = Method::Mlr.goal(0);
    goal.coarser_targets = 0;
    let plain = SearchSettings { start: Start::Range, ..SearchSettings::new(vec![goal], 1, 20_000_000) };
    let (_, without) = run(plain, &device, |_, _| {});
    assert!(with_estimate.len() * 2 < without.len(), "{} against {}", with_estimate.len(), without.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cap_lies_between_the_bounds(
        cap in 1_u64..15_000_000, loss in 0_u64..50_000_000, method in 0_usize..5,
    ) {
        let method = Method::ALL[method];
        let mut settings = SearchSettings::new(vec![method.goal(0), method.goal(loss)], 1, 20_000_000);
        if method == Method::Binary {
            settings.start = Start::Range;
        }
        let device = CountCap(cap);
        let (results, _) = run(settings, &device, |_, _| {});
        for result in results {
            let (lower, upper) = (result.lower_pps.expect("lower"), result.upper_pps.expect("upper"));
            let truth = truth_of(cap, result.goal.loss_ratio_ppb);
            // Frames are whole, so the truth of short trials is exact to one frame.
            prop_assert!(lower <= truth + 1 && truth <= upper + 1, "{} <= {} <= {}", lower, truth, upper);
            prop_assert!((upper - lower) * 200 <= upper || upper - lower == 1);
        }
    }

    #[test]
    fn every_search_ends_whatever_the_device_does(seed in any::<u64>(), share in 0_u64..100) {
        // Losses at random: no truth, but an end, and bounds in order.
        let mut state = seed;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let spoil = move |_: usize, result: &mut TrialResult| {
            if noise() % 100 < share {
                result.unique -= noise() % (result.unique + 1);
            }
            if noise() % 10 == 0 {
                result.steal_ppb = BILLION / 10;
            }
        };
        let (results, _) = run(mlr(&[0, 5_000_000]), &CountCap(1_234_567), spoil);
        for result in results {
            if let (Some(lower), Some(upper)) = (result.lower_pps, result.upper_pps) {
                prop_assert!(lower < upper);
            }
            prop_assert!(result.end != GoalEnd::Unfinished);
        }
    }
}
