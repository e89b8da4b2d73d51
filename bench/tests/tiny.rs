//! The whole bench with tiny numbers, as root: every tool still starts, delivers what it is asked for, and is
//! reported. What the rates are is not asked.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why this test cannot run here.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF)".to_owned());
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

#[test]
fn every_tool_delivers_what_it_is_asked_for_and_is_reported() {
    if let Some(what) = missing() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot run: needs {what}");
        eprintln!("skip: needs {what}");
        return;
    }
    let folder = Folder(std::env::temp_dir().join(format!("wirerate-bench-tiny-{}", std::process::id())));
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate-bench"))
        .args(["--size", "tiny", "--out"])
        .arg(&folder.0)
        .output()
        .expect("the bench starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let rows = rows(&folder.0);

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

    let captures = ["dumpcap", "netsniff-ng", "tcpdump", "wirerate", "wirerate-mirror"].into();
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
