//! `wirerate demo`: every frame accounted for, and nothing left behind however it ends.

use crate::lab::{Scratch, namespaces};
use crate::program::{Outcome, TIME_LIMIT, run, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Tests of the demo.
pub(crate) const CASES: &[Case] = &[
    case("demo::accounts_for_every_frame", &["capinfos"], accounts_for_every_frame),
    case("demo::cleans_up_after_ctrl_c", &[], cleans_up_after_ctrl_c),
    case("demo::sweeps_what_a_killed_one_left", &[], sweeps_what_a_killed_one_left),
    case("demo::says_that_the_file_cannot_be_written", &[], says_that_the_file_cannot_be_written),
];

/// The namespaces that this demo said it made. Others on this machine may run demos of their own.
fn made(outcome: &Outcome) -> Vec<String> {
    let words = outcome.stderr.split_whitespace().filter(|word| word.starts_with("wirerate-"));
    let names: Vec<_> = words.map(str::to_owned).collect();
    assert_eq!(names.len(), 2, "{}", outcome.stderr);
    names
}

/// Of these, those that are still there.
fn left_behind(outcome: &Outcome) -> Vec<String> {
    made(outcome).into_iter().filter(|name| namespaces().contains(name)).collect()
}

#[track_caller]
fn report(outcome: &Outcome) -> impl Fn(&str) -> u64 {
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one line of JSON");
    assert_eq!(report["schema"], "wirerate.demo/2");
    move |field| report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

fn accounts_for_every_frame() -> TestResult {
    let scratch = Scratch::new();
    for count in [1, 65, 1_000_000] {
        let file = scratch.file("demo.pcapng");
        let outcome =
            wirerate_run(&format!("demo --json --count {count} -w {}", file.display())).expect_code(0);
        let number = report(&outcome);
        assert_eq!((number("sent"), number("received"), number("unexplained")), (count, count, 0));
        assert_eq!(number("captured") + number("lost"), count);
        let packets = run(&["capinfos", "-M", "-c", file.to_str().expect("a plain path")]);
        let expected = format!(" {}\n", number("written"));
        assert!(packets.ends_with(&expected), "{packets} {expected}");
        assert_eq!(left_behind(&outcome), [""; 0]);
    }
    Ok(())
}

fn cleans_up_after_ctrl_c() -> TestResult {
    let scratch = Scratch::new();
    for moment_ms in [0, 300, 900] {
        let file = scratch.file("demo.pcapng");
        let running = wirerate_start(&format!("demo --json --count 1G -w {}", file.display()));
        running.until_it_says("sends to rx0");
        std::thread::sleep(Duration::from_millis(moment_ms));
        running.signal(Signal::SIGINT);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert_eq!(report(&outcome)("unexplained"), 0);
        assert_eq!(left_behind(&outcome), [""; 0]);
    }
    Ok(())
}

fn sweeps_what_a_killed_one_left() -> TestResult {
    let scratch = Scratch::new();
    let file = scratch.file("demo.pcapng");
    let running = wirerate_start(&format!("demo --json --count 1G -w {}", file.display()));
    running.until_it_says("sends to rx0");
    running.signal(Signal::SIGKILL);
    let killed = running.wait(TIME_LIMIT);
    assert_eq!(killed.code, None);
    wirerate_run(&format!("demo --json --count 10 -w {}", file.display())).expect_code(0);
    assert_eq!(left_behind(&killed), [""; 0]);
    Ok(())
}

fn says_that_the_file_cannot_be_written() -> TestResult {
    // Folders that are missing are made, but not below a file.
    let outcome = wirerate_run("demo --count 10 -w /dev/null/demo.pcapng").expect_code(3);
    assert!(outcome.stderr.contains("/dev/null/demo.pcapng"), "{}", outcome.stderr);
    assert_eq!(left_behind(&outcome), [""; 0]);
    Ok(())
}
