//! PyPI MLRsearch 1.2.1 as an oracle: the same simulated device, results within one width.

use search::{BILLION, Method, Procedure, SearchSettings, ThroughputSearch, TrialResult};
use serde_json::Value;
use std::process::Command;

/// Where `tools/install.sh test` puts the package.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";
const MAX_LOAD: u64 = 20_000_000;

/// What the oracle finds for each loss ratio; `None` where it is not installed.
fn oracle(cap: u64, losses: &[&str]) -> Option<Vec<Value>> {
    let is_there = Command::new(PYTHON).args(["-c", "import MLRsearch"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        testkit::skip("needs PyPI MLRsearch (tools/install.sh test)");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mlrsearch.py");
    let output = Command::new(PYTHON)
        .args([script, &cap.to_string(), &MAX_LOAD.to_string()])
        .args(losses)
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect())
}

#[test]
fn results_are_within_one_width_of_mlrsearch() {
    for cap in [100_000, 1_234_567, 9_999_999] {
        let Some(expected) = oracle(cap, &["0", "0.005"]) else { return };
        let goals = [0, BILLION / 200].map(|loss| Method::Mlr.goal(loss)).to_vec();
        let mut search = ThroughputSearch::new(SearchSettings::new(goals, 9001, MAX_LOAD)).expect("valid");
        while let Some(request) = search.next_trial() {
            let unique = request.frames.min(search::frames_of(cap, request.duration_ns));
            search.record(TrialResult { sent: request.frames, unique, ..TrialResult::default() });
        }
        for (found, expected) in search.results().iter().zip(&expected) {
            let within = |name: &str, value: Option<u64>| {
                let other = expected[name].as_f64().expect("a number");
                let value = value.expect("a bound") as f64;
                assert!(
                    (value - other).abs() <= 0.005 * other.max(value) + 1.0,
                    "{name}: {value} and {other}"
                );
            };
            within("lower_pps", found.lower_pps);
            within("upper_pps", found.upper_pps);
            within("conditional_pps", found.conditional_pps);
        }
        let oracle_trials = expected[0]["trials"].as_u64().expect("a count");
        let trials = search.log().len() as u64;
        println!("cap {cap}: {trials} trials, MLRsearch {oracle_trials}");
        assert!(trials <= 2 * oracle_trials, "{trials} trials, MLRsearch {oracle_trials}");
    }
}
