//! Connections that stay open.

use super::lab::{Between, ConnectLab, count, json};
use super::{SERVER, accounted, complete, connect};
use crate::TestResult;
use crate::program::{Running, TIME_LIMIT, until, wirerate_start};
use nix::sys::signal::Signal;
use std::time::Duration;

const HELD: usize = 2000;

fn hold(lab: &ConnectLab, more: &str) -> Running {
    let client = &lab.client.name;
    let words = format!("connect c0@{client} --json {SERVER} --hold {HELD} --cps 20k {more}");
    let holding = wirerate_start(&words);
    until("all are established", || lab.established() == HELD);
    holding
}

/// The server's kernel counts as many; requests are answered on them; both ways to close.
pub(super) fn stay() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    for close in ["client", "reset"] {
        let holding = hold(&lab, &format!("-t 4s --close {close}"));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(lab.established(), HELD);
        let report = complete(holding.wait(TIME_LIMIT), HELD as u64);
        assert_eq!(count(&report, "open_max"), HELD as u64);
        assert!(count(&report, "keepalive") >= HELD as u64, "probes after 1 s: {report}");
        until("all are closed", || lab.established() == 0);
    }
    let report = complete(connect(&lab, &format!("{SERVER} --hold 100 -t 3s --ask-rate 1000")), 100);
    assert!((2_500..=3_001).contains(&count(&report, "responses")), "{report}");
    assert_eq!(report["requests"], report["responses"]);
    Ok(())
}

/// Ctrl-C closes what is held, and reports.
pub(super) fn signal() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let holding = hold(&lab, "");
    let start = std::time::Instant::now();
    holding.signal(Signal::SIGINT);
    let outcome = holding.wait(TIME_LIMIT);
    // 2 s, and what a busy machine adds.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let report = accounted(&outcome);
    assert_eq!(json(&outcome.stdout)["completed"], HELD as u64, "{report}");
    until("all are closed", || lab.established() == 0);
    assert!(!lab.has_xdp());
    Ok(())
}

/// The kernel detaches the program of a killed process.
pub(super) fn killed() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let holding = hold(&lab, "");
    assert!(lab.has_xdp());
    holding.signal(Signal::SIGKILL);
    holding.wait(TIME_LIMIT);
    until("nothing is attached", || !lab.has_xdp());
    // The next run is not disturbed by what the server still has.
    complete(connect(&lab, &format!("{SERVER} --open 50 -c 3000")), 3000);
    Ok(())
}

const MANY: usize = 200_000;

/// As many as the server's kernel counts, with 64 bytes of memory for each.
pub(super) fn many() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx_for(250_000);
    let client = &lab.client.name;
    let words = format!("connect c0@{client} --json --quiet {SERVER} --hold 200k --cps 20k --timeout 60s");
    let holding = wirerate_start(&words);
    until("the client has its table", || table_of(&holding).0 > 0);
    // 782 ports of each of 256 addresses.
    assert_eq!(table_of(&holding), (782 * 256, 64));
    let started = std::time::Instant::now();
    while lab.established() < MANY && started.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(lab.established(), MANY);
    holding.signal(Signal::SIGINT);
    let report = accounted(&holding.wait(TIME_LIMIT));
    assert_eq!(count(&report, "established"), MANY as u64, "{report}");
    assert_eq!(count(&report, "open_max"), MANY as u64, "{report}");
    assert_eq!(count(&report, "failed"), 0, "{report}");
    Ok(())
}

/// Entries and bytes of each in the largest table of a process that has an entry for each held
/// connection; 0 without one.
fn table_of(running: &Running) -> (u64, u64) {
    let Ok(files) = std::fs::read_dir(format!("/proc/{}/fdinfo", running.id())) else { return (0, 0) };
    let of = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    let table = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        Some((of(&text, "max_entries:")?, of(&text, "value_size:")?))
    };
    let is_of_connections = |(entries, _): &(u64, u64)| (MANY as u64..MANY as u64 * 2).contains(entries);
    files.flatten().filter_map(|file| table(file.path())).filter(is_of_connections).max().unwrap_or((0, 0))
}
