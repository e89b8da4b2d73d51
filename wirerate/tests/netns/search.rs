//! `wirerate search`: its trials are what was sent and what arrived, and a report is made of them.

use crate::faults::FaultyLab;
use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, Scratch, TX_DEV};
use crate::program::wirerate_run;
use crate::{Case, TestResult, case};
use bpf::abi::Faults;
use serde_json::Value;

/// Tests of the search.
pub(crate) const CASES: &[Case] = &[
    case("search::counts_what_arrives_in_each_trial", &[], counts_what_arrives_in_each_trial),
    case("search::a_count_cap_lies_between_the_bounds", &[], a_count_cap_lies_between_the_bounds),
    case("search::a_token_bucket_lies_between_the_bounds", &[], a_token_bucket_lies_between_the_bounds),
    case("search::a_sender_that_falls_behind_is_no_loss", &[], a_sender_that_falls_behind_is_no_loss),
    case("search::sizes_count_the_fcs_and_each_has_a_search", &[], sizes_count_the_fcs_and_each_has_a_search),
    case("search::resume_repeats_no_finished_trial", &[], resume_repeats_no_finished_trial),
    case("search::rfc2544_finds_the_bucket_of_the_box", &[], rfc2544_finds_the_bucket_of_the_box),
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

/// A search through the box.
#[track_caller]
fn search_box(faults: Faults, options: &str) -> (Value, Vec<Value>) {
    let faulty = FaultyLab::new(faults);
    let home = &faulty.lab.tx_netns;
    let said = wirerate_run(&format!(
        "search --tx {TX_DEV}@{home} --rx back0@{home} --json {options} -- --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    let mut lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let end = lines.pop().unwrap_or_else(|| panic!("no result: {}", said.stderr));
    (end, lines)
}

/// Lower bound <= truth <= upper bound, wherever the search ended; and close where it ended well.
#[track_caller]
fn assert_brackets(end: &Value, trials: &[Value], truth: u64) {
    let goal = &end["goals"][0];
    let bound = |name: &str| goal[name].as_u64();
    let (lower, upper) = (bound("lower_pps"), bound("upper_pps"));
    assert!(lower.is_none_or(|lower| lower <= truth), "{goal}");
    assert!(upper.is_none_or(|upper| truth <= upper), "{goal}");
    match goal["end"].as_str() {
        Some("regular") => {
            let (lower, upper) = (lower.expect("regular"), upper.expect("regular"));
            assert!((upper - lower) * 200 <= upper, "{goal}");
        }
        // A machine too busy to measure says so, and lists the trials.
        Some("disturbed" | "unfinished" | "max_load_reached") => {
            let disturbed = trials.iter().filter(|trial| trial["verdict"] == "disturbed").count();
            assert!(disturbed >= 3, "{end}");
            assert_eq!(end["disturbed"].as_u64(), Some(disturbed as u64));
        }
        other => panic!("{other:?}: {end}"),
    }
    let is_used = |trial: &&Value| trial["verdict"] == "disturbed" && trial["is_counted"] == true;
    assert_eq!(trials.iter().filter(is_used).count(), 0, "a disturbed trial counts");
}

/// Check 19: no clock is involved, so the truth is exact on any machine.
fn a_count_cap_lies_between_the_bounds() -> TestResult {
    let faults = Faults { lose_above: 20_000, ..Faults::default() };
    let (end, trials) = search_box(faults, "--method quick --max-pps 60k --budget 120s");
    // Numbers begin at 0 or 1.
    assert_brackets(&end, &trials, 20_000);
    Ok(())
}

/// Check 19: R + D / T for trials of T = 1 s.
fn a_token_bucket_lies_between_the_bounds() -> TestResult {
    let faults = Faults { bucket_pps: 20_000, bucket_depth: 1000, ..Faults::default() };
    let (end, trials) = search_box(faults, "--method quick --max-pps 60k --budget 120s");
    assert_brackets(&end, &trials, 21_000);
    Ok(())
}

/// No sender reaches this load. The bound is what it reached, and what it did not send is not lost.
fn a_sender_that_falls_behind_is_no_loss() -> TestResult {
    let (end, trials) = search_box(Faults::default(), "--method quick --max-pps 500M --budget 60s");
    let goal = &end["goals"][0];
    assert_eq!(goal["upper_pps"], Value::Null, "{goal}");
    let first = &trials[0];
    assert_eq!((&first["verdict"], &first["is_counted"]), (&"disturbed".into(), &false.into()), "{first}");
    let causes = first["disturbances"].as_array().expect("causes");
    assert!(causes.contains(&"behind".into()), "{first}");
    Ok(())
}

fn sizes_count_the_fcs_and_each_has_a_search() -> TestResult {
    let (end, lines) = search_box(
        Faults { lose_every: 1, ..Faults::default() },
        "--method quick --max-pps 2000 --min-pps 1900 --size 128,imix --budget 10s",
    );
    let searches: Vec<&Value> =
        lines.iter().chain([&end]).filter(|line| line["schema"] == "wirerate.search/1").collect();
    let sizes: Vec<_> = searches.iter().map(|search| search["frame_size"].as_u64()).collect();
    assert_eq!(sizes, [Some(128), None]);
    for search in searches {
        // Every frame is lost. A machine too busy to send 2000 frames per second finds no bound.
        assert_eq!(search["goals"][0]["lower_pps"], Value::Null, "{search}");
    }
    Ok(())
}

fn resume_repeats_no_finished_trial() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_above: 1000, ..Faults::default() });
    let (home, folder) = (&faulty.lab.tx_netns, Scratch::new());
    let results = folder.file("results");
    let search = |max_pps: u32| {
        wirerate_run(&format!(
            "search --tx {TX_DEV}@{home} --rx back0@{home} --json --method quick --max-pps {max_pps} --budget 4s \
             --resume {} -- --dst 198.18.0.2 --dst-mac {RX_MAC}",
            results.display()
        ))
    };
    let first: Vec<String> = search(3000).stdout.lines().map(str::to_owned).collect();
    assert!(first.len() > 3, "{first:?}");
    let journal = results.join("trials.jsonl");
    let kept: String =
        std::fs::read_to_string(&journal)?.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(kept, format!("{}\n{}\n", first[0], first[1]));
    // The interruption has cut a line.
    std::fs::write(&journal, kept + "{\"schema\":\"wire")?;
    let before = faulty.faults.counts().received;
    let second: Vec<String> = search(3000).stdout.lines().map(str::to_owned).collect();
    assert_eq!(second[..2], first[..2]);
    // The first trial alone has 3000 frames.
    let new: Vec<Value> = second[2..].iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sent: u64 = new.iter().filter_map(|line| line["sent"].as_u64()).sum();
    assert_eq!(faulty.faults.counts().received - before, sent);
    let other = search(5000).expect_code(2);
    assert!(other.stderr.contains("is not of this measurement") && other.stderr.contains("try: --resume"));
    Ok(())
}

/// Check 20: a bucket of D frames at rate R, sent at L: bursts of D L / (L - R) frames pass, and
/// the loss is 1 - R / load - D / frames.
fn rfc2544_finds_the_bucket_of_the_box() -> TestResult {
    let faulty = FaultyLab::new(Faults { bucket_pps: 20_000, bucket_depth: 1000, ..Faults::default() });
    let home = &faulty.lab.tx_netns;
    let said = wirerate_run(&format!(
        "rfc2544 --tx {TX_DEV}@{home} --rx back0@{home} --json --quick --sizes 64 --max-pps 60k -- \
         --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    let lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let size = &lines.last().expect("a result")["sizes"][0];
    assert_eq!(size["frame_size"], 64, "{}", said.stderr);
    let is_calm = |trial: &&Value| trial["disturbances"].as_array().is_some_and(Vec::is_empty);
    let trials =
        |purpose: &str| lines.iter().filter(move |line| line["purpose"] == purpose).collect::<Vec<_>>();
    let [points, bursts, latency] = ["loss_point", "burst", "latency"].map(trials);
    if let Some(throughput) = size["throughput_pps"].as_u64() {
        assert!(throughput <= 21_000, "{size}");
        // A calm machine finds all of it.
        assert!(!points.is_empty(), "{}", said.stderr);
    }
    for point in points.iter().filter(|point| is_calm(point)) {
        let [load, frames, lost] =
            ["load_pps", "frames", "lost"].map(|name| point[name].as_f64().expect(name));
        let truth = (1.0 - 20_000.0 / load - 1000.0 / frames).max(0.0);
        assert!((lost / frames - truth).abs() < 0.005, "{point}: {truth}");
    }
    let has_summary = size["back_to_back"].is_object();
    if has_summary && bursts.iter().all(is_calm) {
        let frames = size["back_to_back"]["mean_frames"].as_u64().expect("a mean");
        assert!(frames.abs_diff(1500) <= 15, "{size}");
    }
    assert!(latency.iter().all(|trial| trial["latency"]["frames"].as_u64() > Some(0)), "{latency:?}");
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
