//! `wirerate capture --format parquet`: rows and losses add up, whatever ends the capture. DuckDB
//! reads the files, with the views of the documents.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, until, wirerate, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

/// Tests of captures into data sets.
pub(crate) const CASES: &[Case] = &[
    case("parquet::rows_and_losses_are_what_was_received", &[PYTHON], rows_and_losses),
    case("parquet::killed_it_leaves_files_that_are_read", &[PYTHON], killed),
    case("parquet::a_file_that_is_refused_is_counted", &[PYTHON, "sh"], refused),
];

/// One row of integers from the data set `packets` in the folder of the lab.
fn answer(lab: &Lab, query: &str) -> Vec<u64> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut child = Command::new(PYTHON)
        .arg(root.join("tests/export/queries.py"))
        .arg(testkit::root().join("docs/views-duckdb.sql"))
        .current_dir(lab.file("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python runs");
    let queries = serde_json::to_vec(&[query]).expect("text is JSON");
    child.stdin.take().expect("it is a pipe").write_all(&queries).expect("python reads");
    let output = child.wait_with_output().expect("python ends");
    assert!(output.status.success(), "DuckDB has no answer to {query}");
    let rows: Vec<Vec<Value>> = serde_json::from_slice(&output.stdout).expect("rows are JSON");
    // Sums of DuckDB have 128 bits and come as text.
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().expect("a number"),
        value => value.as_u64().unwrap_or_else(|| panic!("a count is not {value}")),
    };
    rows[0].iter().map(number).collect()
}

fn capture(lab: &Lab, arguments: &str) -> Running {
    let running = wirerate_start(&format!(
        "capture {RX_DEV} --netns {} --format parquet -w {} --json {arguments}",
        lab.rx_netns,
        lab.file("packets").display()
    ));
    running.until_it_says("capturing on rx0 (XDP, native)");
    running
}

fn send(lab: &Lab, count: u32, more: &str) -> Outcome {
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count {count} {more}", lab.tx_netns);
    wirerate_run(&words).expect_paced()
}

/// Files below a folder whose names start and end so.
fn files(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("readable").path());
    let found = paths.flat_map(|path| match path.file_name().and_then(|name| name.to_str()) {
        _ if path.is_dir() => files(&path, start, end),
        Some(name) if name.starts_with(start) && name.ends_with(end) => vec![path],
        _ => Vec::new(),
    });
    found.collect()
}

/// The report of a capture that ended.
fn report(outcome: &Outcome) -> Value {
    let last = outcome.stdout.lines().last().expect("there is a report");
    serde_json::from_str(last).expect("one line of JSON")
}

const ACCOUNT: &str = "select (select count(*) from packets), \
    (select sum(lost_nic + lost_ring + lost_disk) from losses), \
    (select (report->>'received')::ubigint from captures), \
    (select (report->>'lost')::ubigint from captures)";

fn rows_and_losses() -> TestResult {
    const COUNT: u32 = 200_000;
    let lab = Lab::new(Peer::Gro);
    // A ring for 64 frames loses most of what comes at full speed.
    let running = capture(&lab, "--ring 64KiB --rotate-every 1s --run lossy");
    send(&lab, COUNT, "--size 60-300");
    send(&lab, 3000, "--pps 1500");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT);
    let report = report(&outcome);
    let [rows, lost, received, said] = answer(&lab, ACCOUNT)[..] else { panic!("four numbers") };
    assert!(lost > 0, "nothing was lost: {report}");
    assert_eq!(received, u64::from(COUNT) + 3000, "{report}");
    assert_eq!((rows + lost, lost), (received, said), "{report}");
    assert_eq!(report["written"], rows);
    let parts = files(&lab.file("packets/run=lossy"), "part-", ".parquet");
    assert!(parts.len() >= 2, "files of 1 s: {parts:?}");
    let checks = "select count(distinct wr_seq), count(distinct cpu), max(time_source), count(*) filter (queue is null) \
                  from packets where device = 'rx0' and src = '198.18.0.1'";
    let answers = answer(&lab, checks);
    assert!(answers[0] > 3000 && answers[1] >= 1, "{answers:?}");
    assert_eq!(answers[2..], [0, 0], "the kernel stamped them, and queues are known");
    // Back to pcapng: as many packets.
    let back = wirerate_run(&format!(
        "export {} --to pcapng -o {} --json",
        lab.file("packets").display(),
        lab.file("back.pcapng").display()
    ));
    assert_eq!(crate::readers::packet_count(&lab.file("back.pcapng")), rows, "{}", back.stderr);
    Ok(())
}

fn killed() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, "--rotate-every 1s");
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count 0 --pps 20k", lab.tx_netns);
    let sender = wirerate_start(&words);
    let folder = lab.file("packets");
    until("some files are complete", || files(&folder, "part-", ".parquet").len() > 2);
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait(TIME_LIMIT).code, None);
    sender.signal(Signal::SIGINT);
    sender.wait(TIME_LIMIT).expect_paced();
    // One file is being written at a time; a file of losses goes with each complete one.
    assert!(files(&folder, "part-", ".part").len() <= 1);
    let rows = answer(&lab, "select count(*), count(distinct wr_seq) from packets");
    assert!(rows[0] > 10_000 && rows[0] == rows[1], "{rows:?}");
    assert!(answer(&lab, "select count(*) from losses")[0] >= 2);
    Ok(())
}

fn refused() -> TestResult {
    const COUNT: u32 = 5000;
    let lab = Lab::new(Peer::Gro);
    let mut command = Command::new("sh");
    // Blocks of 512 bytes. Without the trap the signal would be the end of the program.
    command.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]);
    command.arg(wirerate().get_program()).args(["capture", RX_DEV, "--netns", &lab.rx_netns, "--json"]);
    command.args(["--format", "parquet", "-w"]).arg(lab.file("packets"));
    let running = Running::start(command);
    running.until_it_says("capturing on rx0 (XDP, native)");
    send(&lab, COUNT, "");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(3);
    outcome.says(&["File too large"]);
    let [rows, lost, received, said] = answer(&lab, ACCOUNT)[..] else { panic!("four numbers") };
    assert_eq!((rows + lost, lost, received), (received, said, COUNT.into()), "{}", report(&outcome));
    assert!(lost > 0);
    Ok(())
}
