//! `wirerate search`: its trials are what was sent and what arrived, and a report is made of them.

use crate::faults::FaultyLab;
use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, Scratch, TX_DEV, TX_MAC};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use bpf::abi::Faults;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Where `tools/install.sh test` puts Python packages.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

/// Tests of the search.
pub(crate) const CASES: &[Case] = &[
    case("search::counts_what_arrives_in_each_trial", &[], counts_what_arrives_in_each_trial),
    case("search::any_frames_are_searched_and_tested", &[], any_frames_are_searched_and_tested),
    case("search::a_count_cap_lies_between_the_bounds", &[], a_count_cap_lies_between_the_bounds)
        .with_lock("measures throughput"),
    case("search::disturbed_trials_are_listed_beside_busy_loops", &[], disturbed_trials_are_listed)
        .with_lock("keeps all CPUs busy"),
    case("search::a_token_bucket_lies_between_the_bounds", &[], a_token_bucket_lies_between_the_bounds)
        .with_lock("measures throughput"),
    case(
        "search::a_bucket_on_the_egress_of_a_bridge_lies_between_the_bounds",
        &["tc"],
        a_bucket_on_the_egress_of_a_bridge_lies_between_the_bounds,
    )
    .with_lock("measures throughput"),
    case(
        "search::both_directions_are_summed_for_each_number_of_flows",
        &["ethtool"],
        both_directions_are_summed_for_each_number_of_flows,
    ),
    case("search::no_load_passes_a_box_that_loses_at_each", &[], no_load_passes_a_box_that_loses_at_each)
        .with_lock("measures throughput"),
    case("search::a_sender_that_falls_behind_is_no_loss", &[], a_sender_that_falls_behind_is_no_loss),
    case("search::sizes_count_the_fcs_and_each_has_a_search", &[], sizes_count_the_fcs_and_each_has_a_search),
    case("search::resume_repeats_no_finished_trial", &[], resume_repeats_no_finished_trial),
    case("search::rfc2544_finds_what_the_box_does", &[], rfc2544_finds_what_the_box_does)
        .with_lock("measures throughput"),
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
    // Beside JSON in a file, the first trial and then one each 10 s are shown.
    assert!(said.stderr.contains("trial   1"), "{}", said.stderr);
    let (end, trials) = lines.split_last().expect("the search ends");
    assert_eq!(end["schema"], "wirerate.search/1", "{}", said.stdout);
    assert!(end["start_ns"].as_u64() > Some(1 << 60), "{end}");
    assert!(end["command"].as_str().is_some_and(|command| command.contains("--max-pps 2000")), "{end}");
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
    assert!(report.stdout.contains("Search history: 60 bytes, 64 with FCS"), "{}", report.stderr);
    let start_s = end["start_ns"].as_u64().expect("a time") / 1_000_000_000;
    let start = run(&["date", "--utc", "--date", &format!("@{start_s}"), "+%Y-%m-%d"]);
    for fact in [concat!("wirerate ", env!("CARGO_PKG_VERSION")), start.trim(), TX_DEV, RX_DEV, "veth"] {
        assert!(report.stdout.contains(fact), "no {fact} in the report: {}", report.stdout);
    }
    Ok(())
}

/// Trials of TCP, of a tunnel and of packets in trafgen's language, over the pair, which loses
/// nothing; and the recovery from an overload, which needs to know the first number.
fn any_frames_are_searched_and_tested() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let path = format!("--tx {TX_DEV}@{} --rx {RX_DEV}@{} --json", lab.tx_netns, lab.rx_netns);
    let to = format!("--dst 198.18.0.2 --dst-mac {RX_MAC}");
    let packets = lab.file("two.cfg");
    let udp = format!("eth(da={RX_MAC}), ipv4(sa=drnd(), da=198.18.0.2), udp(dp=9)");
    std::fs::write(&packets, format!("{{ {udp}, fill(0, 18) }} {{ {udp}, fill(1, 12), fill(0, 18) }}"))?;
    let packets = format!("--frames {}", packets.display());
    let rfc2544 = "rfc2544 --quick --throughput 1000 --tests recovery --frame-sizes";
    for (command, frames, sizes) in [
        ("search --method quick --frame-sizes 128,512", format!("--tcp --syn --flows 3 {to}"), 2),
        ("search --method quick", format!("--vxlan 7 --size 200 {to}"), 1),
        ("search --method quick", packets.clone(), 1),
        (&format!("{rfc2544} 128"), format!("--tcp {to}"), 1),
    ] {
        let words = format!("{command} {path} --max-pps 2000 --min-pps 1000 --budget 20s -- {frames}");
        let said = wirerate_run(&words);
        let (_, lines) = lines_of(&said);
        let trials: Vec<&Value> = lines.iter().filter(|line| line["schema"] == "wirerate.trial/1").collect();
        assert!(trials.len() >= sizes, "{words}: {}", said.stderr);
        for trial in trials {
            assert_eq!((&trial["unique"], &trial["duplicate"]), (&trial["sent"], &Value::from(0)), "{trial}");
            assert_eq!(trial["last_lost_ns"], Value::Null, "{trial}");
        }
    }
    for (words, said) in [
        (
            format!("search {path} -- --tcp {to}"),
            "there are 0; frames of 72 bytes have them\n  try: --size 72",
        ),
        // Before the trials of the size that is long enough.
        (format!("search {path} --frame-sizes 128,64 -- --tcp {to}"), "try: --size 72"),
        (format!("search {path} -- {to} --clone-skb 2"), "copies have the same one"),
        (format!("search {path} -- {to} --signature full"), "a search chooses the signature"),
        (format!("{rfc2544} 128 {path} -- {packets}"), "each packet of these frames has numbers of its own"),
    ] {
        let refused = wirerate_run(&words).expect_code(2);
        let (end, trials) = lines_of(&refused);
        assert_eq!((end["schema"].as_str(), trials.len()), (Some("wirerate.error/1"), 0), "{words}");
        refused.says(&[said]);
    }
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
    lines_of(&said)
}

/// The last line, and those before it.
#[track_caller]
fn lines_of(said: &Outcome) -> (Value, Vec<Value>) {
    let mut lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let end = lines.pop().unwrap_or_else(|| panic!("no result: {}", said.stderr));
    (end, lines)
}

/// Lower bound <= truth <= upper bound, wherever the search ended; and close where it ended well.
#[track_caller]
fn assert_brackets(end: &Value, trials: &[Value], truth: u64) {
    assert_brackets_about(end, trials, truth, 0);
}

/// Checks that the bounds enclose `truth`, which is known to within `frames` frames; and that they
/// are close where the search ended well.
#[track_caller]
fn assert_brackets_about(end: &Value, trials: &[Value], truth: u64, frames: u64) {
    let goal = &end["goals"][0];
    let (lower, upper) = bounds_of(end);
    assert!(lower.is_none_or(|lower| lower <= truth + frames), "{goal}");
    assert!(upper.is_none_or(|upper| truth <= upper + frames), "{goal}");
    let disturbed: Vec<_> = trials.iter().filter(|trial| trial["verdict"] == "disturbed").collect();
    assert_eq!(end["disturbed"].as_u64(), Some(disturbed.len() as u64), "{end}");
    for trial in &disturbed {
        assert!(!is_calm(trial) && trial["is_counted"] == false, "{trial}");
    }
    match goal["end"].as_str() {
        Some("regular") => {
            let (lower, upper) = (lower.expect("regular"), upper.expect("regular"));
            assert!((upper - lower) * 200 <= upper, "{goal}");
        }
        // A machine too busy to measure says so.
        Some("disturbed" | "max_load_reached" | "limited_by_tester") => {
            assert!(disturbed.len() >= 3, "{end}")
        }
        Some("unfinished") => {}
        other => panic!("{other:?}: {end}"),
    }
}

/// The bounds of the first goal.
fn bounds_of(end: &Value) -> (Option<u64>, Option<u64>) {
    let bound = |name: &str| end["goals"][0][name].as_u64();
    (bound("lower_pps"), bound("upper_pps"))
}

/// No clock is involved, so the truth is exact on any machine. The tester is stopped for
/// the whole of its fourth trial, so one of ten trials is spoilt.
fn a_count_cap_lies_between_the_bounds() -> TestResult {
    const SPOILT: usize = 3;
    let faulty = FaultyLab::new(Faults { lose_above: 20_000, ..Faults::default() });
    let home = &faulty.lab.tx_netns;
    let running = wirerate_start(&format!(
        "search --tx {TX_DEV}@{home} --rx back0@{home} --json --method quick --max-pps 60k --budget 120s -- \
         --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    until("three trials", || running.printed().lines().count() >= SPOILT);
    let before = faulty.faults.counts().received;
    until("the fourth trial has begun", || faulty.faults.counts().received > before);
    running.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1200));
    running.signal(Signal::SIGCONT);
    let (end, trials) = lines_of(&running.wait(TIME_LIMIT));
    // Numbers begin at 0 or 1.
    assert_brackets(&end, &trials, 20_000);
    let spoilt = &trials[SPOILT];
    assert_eq!((&spoilt["verdict"], &spoilt["is_counted"]), (&"disturbed".into(), &false.into()), "{spoilt}");
    // There are a few repeats, which earlier trials on a busy machine may have used up.
    if trials[..SPOILT].iter().all(is_calm) {
        assert_eq!(trials[SPOILT + 1]["load_pps"], spoilt["load_pps"], "it is repeated");
    }
    mlrsearch_agrees(faulty, &end);
    Ok(())
}

/// PyPI MLRsearch finds the same cap of 20,000 frames per second, by trials of 0.2 s.
fn mlrsearch_agrees(faulty: FaultyLab, end: &Value) {
    let is_there = Command::new(PYTHON).args(["-c", "import MLRsearch"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return testkit::skip("needs PyPI MLRsearch (tools/install.sh test)");
    }
    let faulty = faulty.with(Faults { lose_above: 4000, ..Faults::default() });
    let home = &faulty.lab.tx_netns;
    for _ in 0..3 {
        let before = faulty.faults.counts().lost;
        let mut command = Command::new(PYTHON);
        command
            .args(["-c", include_str!("../../../../lab/bench/mlrsearch.py")])
            .arg(wirerate().get_program());
        command.args([&format!("{TX_DEV}@{home}"), &format!("back0@{home}")]);
        command.args(["9001", "60000", "0.2", "0.6", "--dst", "198.18.0.2", "--dst-mac", RX_MAC]);
        let said = Running::start(command).wait(TIME_LIMIT).expect_code(0);
        let theirs: Value = serde_json::from_str(&said.stdout).expect("one object");
        // A frame that the box did not drop was lost by a busy machine.
        if count(&theirs, "lost") != faulty.faults.counts().lost - before {
            continue;
        }
        let goal = &theirs["goals"][0];
        let theirs = ["lower_pps", "upper_pps"].map(|name| goal[name].as_f64().expect("a bound"));
        // One frame in 0.2 s are 5 per second.
        assert!(theirs[0] <= 20_005.0 && theirs[1] >= 19_995.0, "{theirs:?}");
        if let (Some(lower), Some(upper)) = bounds_of(end)
            && end["goals"][0]["end"] == "regular"
        {
            let width = theirs[1] * 0.005 + 5.0;
            assert!((theirs[0] - lower as f64).abs() <= width, "{theirs:?} {lower}");
            assert!((theirs[1] - upper as f64).abs() <= width, "{theirs:?} {upper}");
        }
        return;
    }
    println!("the machine disturbed each search of MLRsearch");
}

/// Beside eight busy loops: the bounds hold, and disturbed trials are listed.
fn disturbed_trials_are_listed() -> TestResult {
    let busy = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        Running::start(shell)
    };
    let _loops: Vec<Running> = (0..8).map(|_| busy()).collect();
    let faults = Faults { lose_above: 20_000, ..Faults::default() };
    let (end, trials) = search_box(faults, "--method quick --max-pps 60k --budget 8s");
    assert!(!trials.is_empty());
    assert_brackets(&end, &trials, 20_000);
    Ok(())
}

/// A bridge whose egress has a token bucket filter of 10,000 frames of 1,000 bytes per second. In a
/// trial of 1 s, its bucket passes 1,000 frames more, and its queue holds 100.
fn a_bucket_on_the_egress_of_a_bridge_lies_between_the_bounds() -> TestResult {
    let lab = FaultyLab::cabled();
    let (dut, home) = (&lab.rx_netns, &lab.tx_netns);
    let there = |words: &str| {
        run(&["ip", "-n", dut].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
    };
    there("link add br0 type bridge mcast_snooping 0");
    for words in ["rx0 master br0", "out0 master br0", "br0 up"] {
        there(&format!("link set {words}"));
    }
    run(&[
        "tc", "-n", dut, "qdisc", "add", "dev", "out0", "root", "tbf", "rate", "80mbit", "burst", "1000000",
        "limit", "100000",
    ]);
    let said = wirerate_run(&format!(
        "search --tx {TX_DEV}@{home} --rx back0@{home} --json --method quick --frame-sizes 1004 --max-pps 14k \
         --min-pps 9k --budget 60s -- --dst 198.18.0.2 --dst-mac 02:00:00:00:00:99"
    ));
    let (end, trials) = lines_of(&said);
    // Two frames more or less are a matter of when the first one is counted.
    assert_brackets_about(&end, &trials, 11_100, 11);
    Ok(())
}

/// Half of the frames go each way, and a search for each number of flows counts them all.
fn both_directions_are_summed_for_each_number_of_flows() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    run(&["ip", "netns", "exec", tx, "ethtool", "-K", TX_DEV, "gro", "on"]);
    let said = wirerate_run(&format!(
        "search --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} --method quick --max-pps 2001 --budget 1500ms --flows 1,1k \
         --json --reverse=--dst-mac={TX_MAC} -- --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    let lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let of_schema = |schema: &'static str| lines.iter().filter(move |line| line["schema"] == schema);
    let flows: Vec<_> = of_schema("wirerate.search/1").map(|search| search["flows"].as_u64()).collect();
    assert_eq!(flows, [Some(1), Some(1000)], "{}{}", said.stdout, said.stderr);
    for trial in of_schema("wirerate.trial/1") {
        assert_eq!(trial["is_bidirectional"], true, "{trial}");
        assert_eq!((&trial["unique"], &trial["duplicate"]), (&trial["sent"], &Value::from(0)), "{trial}");
        // One direction has 1,001 frames.
        assert!(!is_calm(trial) || count(trial, "unique") == 2001, "{trial}");
    }
    Ok(())
}

/// R + D / T for trials of T = 1 s.
fn a_token_bucket_lies_between_the_bounds() -> TestResult {
    let faults = Faults { bucket_pps: 20_000, bucket_depth: 1000, ..Faults::default() };
    let (end, trials) = search_box(faults, "--method quick --max-pps 60k --budget 120s");
    // A first frame that is late by 0.5 ms shortens the trial, and 10 fewer frames pass.
    assert_brackets_about(&end, &trials, 21_000, 11);
    Ok(())
}

/// The box loses 1 frame in 10,000 at any load: 0.01 %.
fn no_load_passes_a_box_that_loses_at_each() -> TestResult {
    let faults = Faults { lose_every: 10_000, ..Faults::default() };
    let (end, trials) = search_box(faults, "--method quick --max-pps 20k --loss 0 --loss 0.05% --budget 60s");
    let disturbed = trials.iter().filter(|trial| !is_calm(trial)).count();
    let [strict, loose] = [0, 1].map(|goal| &end["goals"][goal]);
    let ends = [strict, loose].map(|goal| goal["end"].as_str());
    // A machine too busy to tell its own losses from those of the box says so.
    assert!(ends == [Some("no_load_passes"), Some("max_load_reached")] || disturbed >= 4, "{end}");
    if disturbed == 0 {
        assert_eq!((&strict["lower_pps"], &loose["lower_pps"]), (&Value::Null, &20_000.into()), "{end}");
    }
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
    // What was not sent is not lost.
    let [frames, sent, unique, lost, not_sent] =
        ["frames", "sent", "unique", "lost", "not_sent"].map(|name| first[name].as_u64().expect("a count"));
    assert_eq!((not_sent, lost), (frames - sent, sent - unique), "{first}");
    assert!(not_sent > 0 && first["causes"].as_array().is_some_and(|causes| !causes.is_empty()), "{first}");
    Ok(())
}

fn sizes_count_the_fcs_and_each_has_a_search() -> TestResult {
    let (end, lines) = search_box(
        Faults { lose_every: 1, ..Faults::default() },
        "--method quick --max-pps 2000 --min-pps 1900 --frame-sizes 128,imix --budget 10s",
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
    assert!(first.len() > 2, "{first:?}");
    let journal = results.join("trials.jsonl");
    let kept: String =
        std::fs::read_to_string(&journal)?.lines().take(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(kept, format!("{}\n", first[0]));
    // The interruption has cut a line.
    std::fs::write(&journal, kept + "{\"schema\":\"wire")?;
    let before = faulty.faults.counts().received;
    let second: Vec<String> = search(3000).stdout.lines().map(str::to_owned).collect();
    assert_eq!(second[0], first[0]);
    // The first trial alone has 3000 frames.
    let new: Vec<Value> = second[1..].iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sent: u64 = new.iter().filter_map(|line| line["sent"].as_u64()).sum();
    assert_eq!(faulty.faults.counts().received - before, sent);
    let other = search(5000).expect_code(2);
    assert!(other.stderr.contains("is not of this measurement") && other.stderr.contains("try: --resume"));
    // Other frames, the other way: the earlier results were printed as theirs.
    let command = format!(
        "search --tx back0@{home} --rx {TX_DEV}@{home} --json --method quick --max-pps 3000 --budget 4s \
         --resume {} -- --dst 198.18.0.3 --dst-mac {RX_MAC}",
        results.display()
    );
    let other = wirerate_run(&command).expect_code(2);
    assert!(other.stderr.contains("another measurement") && other.stderr.contains("198.18.0.3"), "{other:?}");
    Ok(())
}

/// Runs tests of RFC 2544 through the box. Returns the results for its one frame size, and the
/// lines before them.
#[track_caller]
fn rfc2544_box(faulty: &FaultyLab, options: &str) -> (Value, Vec<Value>) {
    let home = &faulty.lab.tx_netns;
    let said = wirerate_run(&format!(
        "rfc2544 --tx {TX_DEV}@{home} --rx back0@{home} --json --quick --sizes 64 --max-pps 60k {options} -- \
         --dst 198.18.0.2 --dst-mac {RX_MAC}"
    ));
    let (end, lines) = lines_of(&said);
    assert_eq!(end["sizes"][0]["frame_size"], 64, "{}", said.stderr);
    (end["sizes"][0].clone(), lines)
}

fn of_purpose<'a>(lines: &'a [Value], purpose: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["purpose"] == purpose).collect()
}

fn is_calm(trial: &Value) -> bool {
    trial["disturbances"].as_array().is_some_and(Vec::is_empty)
}

#[track_caller]
fn count(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name}: {line}"))
}

/// A bucket of D frames at rate R: the loss is 1 - R / load - D / frames, and bursts of
/// about D L / (L - R) frames pass at load L. After an overload the device drops all for 200 ms.
fn rfc2544_finds_what_the_box_does() -> TestResult {
    let bucket = Faults { bucket_pps: 20_000, bucket_depth: 1000, ..Faults::default() };
    let faulty = FaultyLab::new(bucket);
    let (size, lines) = rfc2544_box(&faulty, "--tests throughput,latency,loss");
    let [points, latency] = ["loss_point", "latency"].map(|purpose| of_purpose(&lines, purpose));
    if let Some(throughput) = size["throughput_pps"].as_u64() {
        assert!(throughput <= 21_000, "{size}");
        // A calm machine finds all of it.
        assert!(!points.is_empty(), "{lines:?}");
    }
    for point in points.iter().filter(|point| is_calm(point)) {
        let [load, frames, lost] = ["load_pps", "frames", "lost"].map(|name| count(point, name) as f64);
        let truth = (1.0 - 20_000.0 / load - 1000.0 / frames).max(0.0);
        assert!((lost / frames - truth).abs() < 0.005, "{point}: {truth}");
    }
    assert!(latency.iter().all(|trial| trial["latency"]["frames"].as_u64() > Some(0)), "{latency:?}");
    let faulty = faulty.with(Faults { clock_pps: 60_000, ..bucket });
    bursts_are_those_of_the_recursion(&faulty);
    let holding = Faults { bucket_depth: 100, hold_usec: 200_000, ..bucket };
    recovery_is_that_of_the_box(&faulty.with(holding));
    Ok(())
}

/// The longest burst from the box's own recursion.
fn longest_burst(rate_pps: u64, depth: u64, load_pps: u64) -> u64 {
    let interval_ns = 1_000_000_000 / rate_pps;
    let mut full_at_ns = 0;
    let passes = |number: &u64| {
        let now_ns = number * 1_000_000_000 / load_pps;
        full_at_ns = now_ns.max(full_at_ns) + interval_ns;
        full_at_ns <= now_ns + depth * interval_ns
    };
    (1..).take_while(passes).count() as u64
}

/// The time of the box is that of the frame numbers, so no busy machine changes its answer.
fn bursts_are_those_of_the_recursion(faulty: &FaultyLab) {
    let (size, lines) = rfc2544_box(faulty, "--tests back-to-back --throughput 20k");
    let truth = longest_burst(20_000, 1000, 60_000);
    assert!(truth.abs_diff(1500) <= 2, "{truth}");
    let bursts = of_purpose(&lines, "burst");
    assert!(!bursts.is_empty(), "{lines:?}");
    for burst in bursts.iter().filter(|burst| burst["is_counted"] == true) {
        assert_eq!(count(burst, "lost") > 0, count(burst, "frames") > truth, "{burst}");
    }
    if size["back_to_back"].is_null() {
        assert!(!bursts.iter().all(|burst| is_calm(burst)), "{size}");
        return;
    }
    assert!(count(&size["back_to_back"], "mean_frames").abs_diff(truth) <= 1, "{size}");
    // D / L, give or take a frame.
    let corrected_ns = count(&size["back_to_back"], "corrected_buffer_ns");
    assert!(corrected_ns.abs_diff(16_666_667) <= 17_000, "{size}");
}

/// 22,000 frames per second for 1 s, then 11,000.
fn recovery_is_that_of_the_box(faulty: &FaultyLab) {
    let (size, lines) = rfc2544_box(faulty, "--tests recovery --throughput 20k");
    let trials = of_purpose(&lines, "recovery");
    let trial = trials.last().expect("a trial");
    assert_eq!([count(trial, "load_pps"), count(&trial["then"], "load_pps")], [22_000, 11_000], "{trial}");
    assert_eq!(count(trial, "switched_ns"), 1_000_000_000, "{trial}");
    // Numbers begin at 1.
    let before = faulty.faults.counts().last_lost - 1;
    let due_ns = before.min(22_000) * 1_000_000 / 22 + before.saturating_sub(22_000) * 1_000_000 / 11;
    assert!(count(trial, "last_lost_ns").abs_diff(due_ns) <= 2, "{trial}: {due_ns}");
    if is_calm(trial) {
        // Every eleventh frame of the overload is above the rate.
        let mean_ns = count(&size["recovery"], "mean_ns");
        assert!(mean_ns.abs_diff(200_000_000) <= 1_000_000, "{size}");
    }
}

fn refuses_unknown_options() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    let said = wirerate_run(&format!("search --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} -- --no-such 64"));
    let said = said.expect_code(2);
    assert!(
        said.stderr.contains("--no-such") && said.stderr.contains("try: wirerate send --help"),
        "{}",
        said.stderr
    );
    // The default of the lowest load follows the highest one; a wrong one is named, with a good
    // one.
    let words =
        format!("search --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} --method quick --max-pps 500 --budget 20s");
    wirerate_run(&format!("{words} --quiet -- --dst 198.18.0.2")).expect_code(0);
    let said = wirerate_run(&format!("{words} --min-pps 500 -- --dst 198.18.0.2")).expect_code(2);
    said.says(&["--min-pps 500", "the highest load is 500", "try: ", "--min-pps 50"]);
    Ok(())
}
