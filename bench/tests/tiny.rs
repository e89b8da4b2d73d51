//! The whole bench with tiny numbers, as root: every tool still starts, delivers what it is asked for, and is
//! reported. What the rates are is not asked.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rights that are missing here.
fn missing_rights() -> Option<String> {
    let is_root = nix::unistd::geteuid().is_root();
    (!is_root).then(|| "root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF)".to_owned())
}

/// True when something is missing, which is said; CI has it all.
fn skips(missing: Option<String>) -> bool {
    if let Some(what) = &missing {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot run: needs {what}");
        eprintln!("skip: needs {what}");
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
    ["trafgen", "tcpdump", "netsniff-ng", "dumpcap"]
        .into_iter()
        .find(|tool| !is_there(tool))
        .map(str::to_owned)
}

/// A folder that goes when the test is over.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // In a panic as well, so no `unwrap`.
        let _ = std::fs::remove_dir_all(&self.0);
    }
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

#[track_caller]
fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"))
}

/// One tiny run of the bench, its words and its rows.
fn bench(name: &str, words: &[&str]) -> (String, Vec<Value>) {
    let folder = std::env::temp_dir().join(format!("wirerate-bench-{name}-{}", std::process::id()));
    let folder = Folder(folder);
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate-bench"))
        .args(["--size", "tiny", "--out"])
        .arg(&folder.0)
        .args(words)
        .output()
        .expect("the bench starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    (said, rows(&folder.0))
}

#[test]
fn every_engine_is_paced_at_every_rate_and_reports_its_gaps() {
    if skips(missing_rights()) {
        return;
    }
    let (said, rows) = bench("pacing", &["--only", "pacing"]);
    let paced = of(&rows, "paced", "pacing");
    let engines: BTreeSet<_> = paced.iter().map(|row| row["engine"].as_str().expect("a name")).collect();
    assert_eq!(engines, ["af_packet", "af_xdp", "skb", "xdp"].into(), "{said}");
    assert_eq!(paced.len(), 4 * 5);
    for row in paced {
        assert!(number(row, "rate_pps") > 0.0 && number(row, "window_ns") > 0.0, "{row}");
        assert!(number(&row["gaps"], "p50_ns") <= number(&row["gaps"], "max_ns"), "{row}");
    }
    assert!(said.contains("longest gap") && said.contains("5000000"), "{said}");
}

#[test]
fn more_flows_and_instances_are_measured_and_deliver_what_they_are_asked_for() {
    if skips(missing_rights()) {
        return;
    }
    let (said, rows) = bench("scaling", &["--only", "scaling"]);
    let proofs = of(&rows, "proof", "scaling");
    assert!(
        tools(&proofs).is_superset(&["plain", "flows-1", "flows-1000", "flows-65536", "skb"].into()),
        "{said}"
    );
    assert!(proofs.iter().all(|proof| proof["received"] == proof["asked"]), "{proofs:?}");
    let ratios = rows.iter().filter(|row| row["value"] == "rate_ratio" && row["against"] == "plain");
    assert!(ratios.count() >= 3, "{said}");
    let [length] = of(&rows, "length", "scaling")[..] else { panic!("one row of a long run: {said}") };
    let best = |part: &str| number(&length[part], "best_pps");
    // Text and back costs the last digit.
    assert!((number(length, "ratio") - best("last") / best("first")).abs() < 1e-9, "{length}");
}

/// All that are compared.
const CAPTURES: [&str; 6] =
    ["dumpcap", "netsniff-ng", "tcpdump", "wirerate", "wirerate-mirror", "wirerate-tpacket"];

#[test]
fn the_page_of_captures_has_a_line_for_each_output_and_counts_every_loss() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("page", &["--only", "page", "--frame-lens", "64", "--queues", "2"]);
    for case in ["page: 64 bytes, 2 queues into /dev/null", "page: 64 bytes, 2 queues into a file in memory"]
    {
        let trials = of(&rows, "trial", case);
        assert_eq!(tools(&trials), CAPTURES.into());
        assert!(trials.iter().all(|trial| trial["frame_len"] == 64 && trial["queues"] == 2), "{trials:?}");
        // A tool that lost something in its only trial has no rate to be doubled.
        for overload in of(&rows, "overload", case) {
            assert!(number(overload, "sent") > 0.0 && overload["is_exact"] == true, "{overload}");
            assert_eq!(overload["sent"], overload["offered"], "{overload}");
        }
    }
    assert!(!of(&rows, "overload", "page").is_empty(), "{said}");
    assert!(said.contains("queues") && said.contains("of the best peer"), "{said}");
}

#[test]
fn every_tool_delivers_what_it_is_asked_for_and_is_reported() {
    if skips(missing()) {
        return;
    }
    let (said, rows) = bench("tiny", &[]);

    let generators =
        ["sendmmsg", "trafgen", "trafgen-moving", "trafgen-sendto", "wirerate", "wirerate-rich"].into();
    let proofs = of(&rows, "proof", "generate");
    assert_eq!(tools(&proofs), generators);
    for proof in proofs {
        assert_eq!((&proof["received"], &proof["sink"]), (&proof["asked"], &proof["asked"]), "{proof}");
    }
    let runs = of(&rows, "run", "generate");
    assert_eq!(tools(&runs), generators);
    assert!(runs.iter().all(|run| number(run, "frames") > 0.0 && number(run, "rate_pps") > 0.0), "{runs:?}");
    assert_eq!(runs.iter().filter(|run| run["part"] == "noise").count(), 2, "A against A comes first");

    let captures = CAPTURES.into();
    let proofs = of(&rows, "proof", "capture");
    assert_eq!(tools(&proofs), captures);
    assert!(proofs.iter().all(|proof| proof["kept"] == proof["asked"]), "{proofs:?}");
    for case in ["capture into /dev/null", "capture into a file in memory"] {
        let trials = of(&rows, "trial", case);
        assert_eq!(tools(&trials), captures);
        for trial in trials {
            let [arrived, kept, lost] = ["arrived", "kept", "lost"].map(|field| number(trial, field));
            assert!(kept > 0.0 && arrived == kept + lost, "{trial}");
        }
        assert_eq!(tools(&of(&rows, "search", case)), captures);
    }

    let ratio_is_reported = |row: &&Value| row["value"] == "rate_ratio" && row["against"] == "trafgen";
    assert_eq!(of(&rows, "result", "generate").into_iter().filter(ratio_is_reported).count(), 2);
    for text in [
        "host: ",
        "against itself: the noise",
        " x of trafgen, tx ring, goal 12 (",
        "Mpps  tcpdump",
        "stolen by",
    ] {
        assert!(said.contains(text), "no {text:?} in:\n{said}");
    }
}
