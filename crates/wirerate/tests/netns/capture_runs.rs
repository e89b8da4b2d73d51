//! Captures at the receiver of a lab, frames for them, and the numbers of their reports.

use crate::lab::{Lab, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, until, wirerate, wirerate_run};
use std::path::Path;
use std::process::Command;

/// A capture that has begun.
#[track_caller]
pub(crate) fn capture(lab: &Lab, words: &[&str]) -> Running {
    let running = Running::start(command(lab, words));
    running.until_it_says("capturing on rx0");
    running
}

/// The command of a capture with a report in JSON.
pub(crate) fn command(lab: &Lab, words: &[&str]) -> Command {
    let mut command = wirerate();
    command.args(["capture", RX_DEV, "--netns", &lab.rx_netns, "--json"]).args(words);
    command
}

/// Sends frames with these options, and waits until the receiver has them.
#[track_caller]
pub(crate) fn send_with(lab: &Lab, count: u32, words: &str) {
    let before = lab.received();
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count {count} {words}", lab.tx_netns);
    wirerate_run(words.trim()).expect_code(0);
    until("the receiver has them all", || lab.received() >= before + u64::from(count));
}

/// Sends frames, and waits until the receiver has them.
#[track_caller]
pub(crate) fn send(lab: &Lab, count: u32) {
    send_with(lab, count, "");
}

/// A number of the report.
#[track_caller]
pub(crate) fn number(outcome: &Outcome, field: &str) -> u64 {
    let last = outcome.stdout.lines().last().expect("there is a report");
    let report: serde_json::Value = serde_json::from_str(last).expect("one line of JSON");
    report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// All frames of a report have one fate. Those that the kernel filters without counting are not
/// received.
#[track_caller]
pub(crate) fn adds_up(outcome: &Outcome) {
    let is_counted = !outcome.stdout.contains("\"filtered\":null");
    let fates = ["written", "after_limit", "not_kept", "lost"];
    let fates = fates.into_iter().chain(is_counted.then_some("filtered"));
    let sum: u64 = fates.map(|field| number(outcome, field)).sum();
    assert_eq!(number(outcome, "received"), sum, "{}", outcome.stdout);
}

/// A path as a word of a command.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("our paths are plain")
}
