//! The whole bench with tiny numbers, as root: every tool starts, sends the requested frames, and
//! is in the report. Rates are not checked.

use host::{Lab, LabOptions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use testkit::Folder;

/// The rights that are missing here.
fn missing_rights() -> Option<String> {
    let is_root = nix::unistd::geteuid().is_root();
    (!is_root).then(|| "root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF)".to_owned())
}

/// True when something is missing, which is said; CI has it all.
fn skips(missing: Option<String>) -> bool {
    if let Some(what) = &missing {
        testkit::skip(format_args!("needs {what}"));
    }
    missing.is_some()
}

/// Why this test cannot run here.
fn missing() -> Option<String> {
    if let Some(rights) = missing_rights() {
        return Some(rights);
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_there = |tool: &&str| path.split(':').any(|dir| Path::new(dir).join(tool).is_file());
    ["trafgen", "mausezahn", "tcpreplay", "tcpdump", "netsniff-ng", "dumpcap", "xdpdump"]
        .into_iter()
        .find(|tool| !is_there(tool))
        .map(str::to_owned)
}

/// The rows that a bench left in `folder`, all of one schema.
fn rows(folder: &Path) -> Vec<Value> {
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = files.as_slice() else { panic!("one file of rows, not {files:?}") };
    let text = std::fs::read_to_string(file).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().all(|row| row["schema"] == "wirerate.bench/1"), "{text}");
    rows
}

/// Rows of a kind in a case; `case` is how the name of the case begins.
fn of<'a>(rows: &'a [Value], kind: &str, case: &str) -> Vec<&'a Value> {
    let is_of = |row: &&Value| row["row"] == kind && row["case"].as_str().unwrap_or("").starts_with(case);
    rows.iter().filter(is_of).collect()
}

fn tools<'a>(rows: &[&'a Value]) -> BTreeSet<&'a str> {
    rows.iter().map(|row| row["tool"].as_str().expect("rows name their tool")).collect()
}

/// The tools of which frames were counted. On a busy machine a tool may send none in one window of
/// some milliseconds; one that works sends some in another.
fn delivering<'a>(rows: &[&'a Value]) -> BTreeSet<&'a str> {
    let delivers = |row: &&&'a Value| number(row, "rate_pps") > 0.0;
    tools(&rows.iter().filter(delivers).copied().collect::<Vec<_>>())
}

#[track_caller]
fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"))
}

/// One at a time: benches that fill the same CPU with frames learn nothing from each other.
static TURN: Mutex<()> = Mutex::new(());

/// One tiny run of the bench, its words and its rows.
fn bench(name: &str, words: &[&str]) -> (String, Vec<Value>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new(name);
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate-bench"))
        .args(["--size", "tiny", "--out"])
        .arg(&*folder)
        .args(words)
        .output()
        .expect("the bench starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    (said, rows(&folder))
}

#[test]
fn receivers_are_compared_with_a_program_that_drops() {
    if skips(missing_rights()) {
        return;
    }
    let (said, rows) = bench("receive", &["--only", "receive"]);
    let received = of(&rows, "received", "receive");
    assert_eq!(tools(&received), ["receive", "receive-64", "receive-window", "sink"].into(), "{said}");
    let results = of(&rows, "result", "receive");
    let ratios: Vec<_> = results.iter().filter(|row| row["against"] == "sink").collect();
    assert_eq!(ratios.iter().map(|row| number(row, "goal")).collect::<Vec<_>>(), [0.55, 0.88, 0.85]);
}

#[test]
fn every_tool_is_paced_at_every_rate_and_its_gaps_are_the_receivers() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("pacing", &["--only", "pacing"]);
    let paced = of(&rows, "paced", "pacing");
    let engines = [
        "af_packet",
        "af_xdp",
        "mausezahn",
        "replay",
        "skb",
        "tcpreplay",
        "trafgen",
        "trafgen-sendto",
        "xdp",
    ];
    assert_eq!(tools(&paced), engines.into(), "{said}");
    assert_eq!(paced.len(), 9 * 4 + 4);
    // trafgen sends the frames of each second at once, mostly not in this moment.
    let delivering = delivering(&paced);
    assert!(engines.iter().all(|tool| *tool == "trafgen" || delivering.contains(tool)), "{said}");
    assert!(paced.iter().all(|row| number(row, "window_ns") > 0.0), "{said}");
    // On a busy machine one capture or the other loses frames, which is then said; hardly all of
    // them.
    let seen: Vec<_> = paced.iter().filter(|row| !row["gaps"].is_null()).collect();
    assert!(!seen.is_empty(), "{said}");
    for row in seen {
        assert!(number(&row["gaps"], "p50_ns") <= number(&row["gaps"], "max_ns"), "{row}");
    }
    assert!(said.contains("longest gap") && said.contains("5000000"), "{said}");
}

#[test]
fn a_file_is_replayed_with_its_gaps_and_at_top_speed() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("replay", &["--only", "replay-file"]);
    // A capture on a busy machine may lose frames, and a small file may be too fast for a rate.
    assert!(said.contains("gaps of 1 us to 1 ms") && said.contains("  a file of "), "{said}");
    for row in of(&rows, "replayed", "replay-file") {
        assert!(number(row, "error_p50_ns") <= number(row, "error_max_ns"), "{row}");
        assert!(number(row, "frames") > 100.0, "{row}");
    }
    for row in of(&rows, "streamed", "replay-file") {
        assert!(number(row, "memory_bytes") > 1e6, "{row}");
    }
}

#[test]
fn exports_are_measured() {
    if skips(missing_rights()) {
        return;
    }
    let (said, rows) = bench("export", &["--only", "export"]);
    assert!(said.contains("million packets per CPU second"), "{said}");
    let exported = of(&rows, "exported", "export");
    assert_eq!(exported.len(), 2, "{said}");
    for row in exported {
        assert!(number(row, "packets") > 0.0 && number(row, "cpu_ns") > 0.0, "{row}");
        assert!(number(row, "percent") < 100.0, "{row}");
    }
}

#[test]
fn commands_that_read_files_are_measured() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("read-files", &["--only", "read-files"]);
    assert!(said.contains("  info: ") && said.contains(" x of tcpdump (goal: at most 1)"), "{said}");
    let read = of(&rows, "file_read", "read-files");
    let tools: Vec<&str> = read.iter().filter_map(|row| row["tool"].as_str()).collect();
    assert_eq!(tools, ["tcpdump", "info", "analyze", "export", "replay --dry-run"]);
    for row in read {
        assert!(number(row, "packets") > 1_000.0 && number(row, "median") > 0.0, "{row}");
    }
}

#[test]
fn starts_stops_and_counts_are_measured() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("prompt", &["--only", "prompt"]);
    let all = ["af_packet", "af_xdp", "files", "sendmmsg", "skb", "tcpreplay", "trafgen", "xdp"];
    let prompt = of(&rows, "prompt", "prompt");
    assert_eq!(tools(&prompt), all.into(), "{said}");
    assert!(prompt.iter().all(|row| number(row, "start_ns") > 0.0), "{prompt:?}");
    let counts = of(&rows, "count", "prompt");
    assert_eq!(counts.len(), 3 * all.len());
    assert!(counts.iter().all(|row| row["asked"] == row["received"]), "{counts:?}");
}

#[test]
fn growth_of_time_instances_and_captures_is_measured() {
    if skips(missing_rights()) {
        return;
    }
    let page = Folder::new("the-page");
    let (said, rows) = bench("growth", &["--only", "growth", "--page", page.to_str().expect("it is UTF-8")]);
    let text = std::fs::read_to_string(page.join("RESULTS.md")).expect("there is a page");
    for part in ["# Where wirerate stands", "size tiny", "## What more costs", "| 64 instances |"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let grown = of(&rows, "grown", "growth");
    let steps: Vec<_> = grown.iter().map(|row| row["what"].as_str().expect("a word")).collect();
    let expected = ["seconds", "seconds", "instances", "instances", "instances", "frames", "frames"];
    assert_eq!(steps, expected, "{said}");
    for row in grown {
        assert!(number(row, "rate_pps") > 0.0 && number(row, "memory_bytes") > 1e6, "{row}");
    }
    assert!(said.contains("64 instances"), "{said}");
}

/// All that are compared.
const CAPTURES: [&str; 7] =
    ["dumpcap", "netsniff-ng", "tcpdump", "wirerate", "wirerate-mirror", "wirerate-tpacket", "xdpdump"];

#[test]
fn every_generator_delivers_what_it_is_asked_for_and_is_reported() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("generate", &["--only", "generate"]);
    let left_out: BTreeSet<_> = rows
        .iter()
        .filter(|row| row["row"] == "left_out")
        .map(|row| row["tool"].as_str().expect("a name"))
        .collect();
    // Whether the kernel has ESP is its own affair.
    assert!(left_out.is_subset(&["skb/ipsec"].into()), "{said}");
    let plain = ["af_packet", "af_xdp", "sendmmsg", "skb", "tcpreplay", "trafgen", "trafgen-sendto", "xdp"];
    let proofs = of(&rows, "proof", "plain");
    assert_eq!(tools(&proofs), plain.into());
    let works = ["xdp/rich", "xdp/imix", "xdp/flows-65536", "trafgen/rich", "trafgen/imix", "skb/rich"];
    assert!(tools(&of(&rows, "proof", "work")).is_superset(&works.into()), "{said}");
    assert_eq!(
        tools(&of(&rows, "run", "watched")),
        ["xdp", "xdp-tui", "xdp-web", "xdp-metrics"].into(),
        "{said}"
    );
    let replays = ["replay", "replay/imix", "tcpreplay", "tcpreplay/imix", "trafgen", "trafgen/imix"];
    assert_eq!(tools(&of(&rows, "proof", "replay")), replays.into());
    for proof in rows.iter().filter(|row| row["row"] == "proof") {
        assert_eq!((&proof["received"], &proof["sink"]), (&proof["asked"], &proof["asked"]), "{proof}");
    }
    let runs = of(&rows, "run", "plain");
    assert_eq!(tools(&runs), plain.into());
    assert_eq!(delivering(&runs), plain.into(), "{runs:?}");
    let cells: BTreeSet<_> =
        runs.iter().map(|run| (run["frame_len"].as_u64(), run["cpus"].as_u64())).collect();
    let cells_wanted =
        [(60, 1), (60, 2), (256, 1), (1514, 1), (1514, 2)].map(|(len, cpus)| (Some(len), Some(cpus)));
    assert_eq!(cells, cells_wanted.into(), "{said}");
    let noise = rows.iter().filter(|row| row["row"] == "run" && row["part"] == "noise");
    assert_eq!(noise.count(), 2, "A against A comes first");
    let ratio_is_reported = |row: &&&Value| row["value"] == "rate_ratio" && row["against"] == "trafgen";
    assert!(of(&rows, "result", "plain").iter().filter(ratio_is_reported).count() >= 4);
    for text in ["host: ", "against itself: the noise", " x of trafgen, tx ring, goal 12 (", "stolen by"] {
        assert!(said.contains(text), "no {text:?} in:\n{said}");
    }
}

#[test]
fn every_capture_keeps_what_it_is_offered_and_is_reported() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("capture", &["--only", "capture"]);

    let captures = CAPTURES.into();
    let proofs = of(&rows, "proof", "capture");
    assert_eq!(tools(&proofs), captures);
    assert!(proofs.iter().all(|proof| proof["kept"] == proof["asked"]), "{proofs:?}");
    for case in [
        "capture into /dev/null",
        "capture into a file in memory",
        "capture of whole frames into /dev/null",
        "capture of whole frames into a file in memory",
    ] {
        let trials = of(&rows, "trial", case);
        assert_eq!(tools(&trials), captures);
        for trial in trials {
            let [arrived, kept, lost] = ["arrived", "kept", "lost"].map(|field| number(trial, field));
            assert!(kept > 0.0 && arrived == kept + lost, "{trial}");
        }
        assert_eq!(tools(&of(&rows, "search", case)), captures);
    }
    // A tool that lost something in its only trial has no rate to be multiplied.
    let losses = of(&rows, "loss", "losses into a file in memory");
    assert!(!losses.is_empty(), "{said}");
    for loss in
        losses.iter().filter(|loss| loss["tool"].as_str().is_some_and(|tool| tool.starts_with("wirerate")))
    {
        assert_eq!(loss["is_true"], true, "{loss}");
    }
    assert!(said.contains("Mpps  tcpdump"), "{said}");
}

#[test]
fn captures_take_other_frame_lengths_and_two_queues() {
    if skips(missing()) {
        return;
    }
    let words = [
        "--only",
        "capture",
        "--tools",
        "wirerate-mirror",
        "--frame-lens",
        "64",
        "--queues",
        "2",
        "--snaplens",
        "96",
    ];
    let (said, rows) = bench("queues", &words);
    for output in ["into /dev/null", "into a file in memory"] {
        let trials = of(&rows, "trial", &format!("capture, 64 bytes, queues: 2, {output}"));
        assert_eq!(tools(&trials), ["wirerate", "wirerate-mirror"].into(), "{said}");
        assert!(trials.iter().all(|trial| trial["frame_len"] == 64 && trial["queues"] == 2), "{trials:?}");
    }
}

#[test]
fn wirerate_measures_itself_on_a_pair_that_is_named() {
    if skips(missing_rights()) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("own");
    let lab = Lab::new(&LabOptions { rx_gro: true, ..LabOptions::default() }).expect("a lab can be made");
    let [tx, rx] = [&lab.tx, &lab.rx].map(|end| format!("{}@{}", end.ifname, end.netns_name));
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate-bench"))
        .args(["own", "--tiny", "--only", "generate", "--tx", &tx, "--rx", &rx, "--rows"])
        .arg(&*folder)
        .output()
        .expect("wirerate starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(", tx0 to rx0"), "{said}");
    let rows = rows(&folder);
    let runs = of(&rows, "run", "plain");
    assert_eq!(tools(&runs), ["af_packet", "af_xdp", "skb", "xdp"].into(), "peers take no part: {said}");
    let link = lab.rx.link().expect("the receiver is still there");
    assert!(link.counters.rx_packets > 0, "{said}");
}
