//! `wirerate search`: its trials are what was sent and what arrived, and a report is made of them.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, Scratch, TX_DEV};
use crate::program::wirerate_run;
use crate::{Case, TestResult, case};
use serde_json::Value;

/// Tests of the search.
pub(crate) const CASES: &[Case] = &[
    case("search::counts_what_arrives_in_each_trial", &[], counts_what_arrives_in_each_trial),
    case("search::refuses_options_that_send_does_not_have", &[], refuses_unknown_options),
];

/// A search over the pair, which loses nothing: whether a loaded machine sends every frame in time
/// is not decided here.
fn counts_what_arrives_in_each_trial() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    let said = wirerate_run(&format!(
        "search --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} --method quick --max-pps 2000 --min-pps 100 --budget 10s \
         --json -- --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    let lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let (end, trials) = lines.split_last().expect("the search ends");
    assert_eq!(end["schema"], "wirerate.search/1", "{}", said.stdout);
    assert_eq!(end["trials"].as_u64(), Some(trials.len() as u64), "{end}");
    assert!(!trials.is_empty(), "{end}");
    for trial in trials {
        assert_eq!(trial["schema"], "wirerate.trial/1");
        assert_eq!((&trial["unique"], &trial["duplicate"]), (&trial["sent"], &Value::from(0)), "{trial}");
        assert!(trial["frames"].as_u64() >= trial["sent"].as_u64(), "{trial}");
    }
    let folder = Scratch::new();
    let file = folder.file("results.jsonl");
    std::fs::write(&file, &said.stdout)?;
    let report = wirerate_run(&format!("report {}", file.display()));
    let report = report.expect_code(0);
    assert!(report.stdout.contains("Search history: 64 bytes"), "{}", report.stderr);
    Ok(())
}

fn refuses_unknown_options() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    let said = wirerate_run(&format!("search --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} -- --sizes 64"));
    let said = said.expect_code(2);
    assert!(
        said.stderr.contains("--sizes") && said.stderr.contains("try: wirerate send --help"),
        "{}",
        said.stderr
    );
    Ok(())
}
