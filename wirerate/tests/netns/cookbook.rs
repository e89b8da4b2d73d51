//! docs/cookbook.md: every line runs as printed, and prints what the page shows. The example of
//! docs/search.md leads to a report.

use crate::lab::Scratch;
use crate::program::{Running, wirerate};
use crate::{Case, TestResult, case};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Tests of the pages.
pub(crate) const CASES: &[Case] = &[
    case(
        "cookbook::every_line_runs_and_prints_what_the_page_shows",
        &["unshare", "tshark", "jq"],
        every_line_runs_and_prints_what_the_page_shows,
    )
    .with_lock("measures rates"),
    case(
        "cookbook::the_router_of_the_search_page_gets_a_report",
        &["unshare", "tc"],
        the_router_of_the_search_page_gets_a_report,
    )
    .with_lock("measures throughput"),
    case(
        "cookbook::the_firewall_of_the_connect_page_passes_connections",
        &["unshare", "ethtool"],
        the_firewall_of_the_connect_page_passes_connections,
    )
    .with_lock("measures rates"),
];

/// Programs that begin a line of the page; an indented block that begins otherwise is output.
const PROGRAMS: &[&str] = &["wirerate", "printf", "ip", "kill"];

/// Stands before the output of each block.
const MARK: &str = "\u{1e}";

/// Lines that are typed, and what they print: each shown line is the beginning of a printed one, in
/// this order.
#[derive(Debug, Default)]
struct Job {
    title: String,
    typed: String,
    shown: Vec<String>,
}

/// The indented blocks of a page, with the title above each.
fn blocks(page: &str) -> Vec<(String, String)> {
    let (mut title, mut found) = (String::new(), Vec::<(String, String)>::new());
    let mut is_open = false;
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("    ") {
            if !is_open {
                found.push((title.clone(), String::new()));
            }
            found.last_mut().unwrap().1.extend([text, "\n"]);
        } else if line.starts_with('#') {
            line.clone_into(&mut title);
        }
        is_open = line.starts_with("    ");
    }
    found
}

fn jobs(page: &str) -> Vec<Job> {
    let mut jobs = Vec::<Job>::new();
    for (title, block) in blocks(page) {
        if PROGRAMS.contains(&block.split(' ').next().unwrap_or_default()) {
            jobs.push(Job { title, typed: block, shown: Vec::new() });
        } else {
            let job = jobs.last_mut().expect("a command comes before its output");
            assert_eq!(job.title, title, "output without a command:\n{block}");
            job.shown.extend(block.lines().map(str::to_owned));
        }
    }
    jobs
}

/// A quantity that differs between machines: it has a decimal point or a unit of time behind it.
fn is_measured(word: &str, next: Option<&&str>) -> bool {
    let trimmed = |word: &str| word.trim_end_matches([',', ')']).to_owned();
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
    let has_point = trimmed(word).replace(',', "").parse::<f64>().is_ok() && word.contains('.');
    let unit = next.map(|next| trimmed(next)).unwrap_or_default();
    is_number && (has_point || ["ns", "µs", "ms", "s", "usec"].contains(&unit.as_str()))
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', ')']);
    ["ns", "µs", "ms", "s"].contains(&word) || word.ends_with("pps") || word.ends_with("bit/s")
}

fn is_mac(word: &str) -> bool {
    word.trim_matches(['(', ')', ',']).split(':').filter(|byte| byte.len() == 2).count() == 6
}

/// Whether `line` begins with the words of `shown`, but for measured quantities and MAC addresses.
fn agrees(shown: &str, line: &str) -> bool {
    let (shown, line): (Vec<_>, Vec<_>) =
        (shown.split_whitespace().collect(), line.split_whitespace().collect());
    shown.len() <= line.len()
        && shown.iter().zip(&line).enumerate().all(|(at, (a, b))| {
            *a == b.trim_end_matches(',')
                || a == b
                || (is_measured(a, shown.get(at + 1)) && is_measured(b, line.get(at + 1)))
                || (is_unit(a) && is_unit(b))
                || (is_mac(a) && is_mac(b))
        })
}

/// A shell script with the jobs. Its namespaces `tx` and `rx` exist only in its mount namespace.
fn script(jobs: &[Job], set_up: &str, folder: &Path) -> String {
    let mut script = format!(
        "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && cd {} || exit 1\n{set_up}",
        folder.display()
    );
    for job in jobs {
        script += &format!("printf '\\n{MARK}'\n{}", job.typed);
    }
    script
}

/// Runs the jobs in the folder `work` of `scratch`. Returns what each printed.
#[track_caller]
fn printed_by(jobs: &[Job], set_up: &str, scratch: &Scratch) -> Vec<String> {
    std::fs::create_dir(scratch.file("work")).expect("the folder is new");
    let file = scratch.file("jobs.sh");
    std::fs::write(&file, script(jobs, set_up, &scratch.file("work"))).expect("the script is written");
    // The program under test has the name that the page calls it by.
    std::os::unix::fs::symlink(wirerate().get_program(), scratch.file("wirerate")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", "exec bash \"$0\" 2>&1"]).arg(&file);
    command.env("PATH", format!("{}:{path}", scratch.file("").display()));
    let outcome = Running::start(command).wait(Duration::from_secs(600));
    let printed: Vec<_> = outcome.stdout.split(MARK).skip(1).map(str::to_owned).collect();
    assert_eq!(printed.len(), jobs.len(), "{}\n{}", outcome.stdout, outcome.stderr);
    printed
}

fn every_line_runs_and_prints_what_the_page_shows() -> TestResult {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = std::fs::read_to_string(docs.join("cookbook.md"))?;
    let tutorial = std::fs::read_to_string(docs.join("tutorial.md"))?;
    let (_, set_up) = blocks(&tutorial).into_iter().next().expect("the tutorial begins with the devices");
    let jobs = jobs(&page);
    let numbers = jobs.iter().filter(|job| job.title.starts_with("### ")).map(|job| &job.title);
    assert_eq!(numbers.collect::<std::collections::BTreeSet<_>>().len(), 41);

    let scratch = Scratch::new();
    let printed = printed_by(&jobs, &set_up, &scratch);
    let mut missing = String::new();
    for (job, printed) in jobs.iter().zip(&printed) {
        let mut lines = printed.lines();
        for shown in &job.shown {
            if !lines.any(|line| agrees(shown, line)) {
                missing += &format!("{}\n{}shows {shown:?}, and prints:\n{printed}\n", job.title, job.typed);
                break;
            }
        }
        // A command that was refused names what to try.
        if printed.contains("  try: wirerate") {
            missing += &format!("{}\n{}was refused:\n{printed}\n", job.title, job.typed);
        }
    }
    assert!(missing.is_empty(), "docs/cookbook.md is not what happens:\n{missing}");
    Ok(())
}

/// The lines of the page, with a budget that leaves time for the first trials only.
fn the_router_of_the_search_page_gets_a_report() -> TestResult {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = std::fs::read_to_string(docs.join("search.md"))?;
    let is_example = |(title, _): &(String, String)| title.contains("a Linux router");
    let short = |typed: &str| typed.replace("--method quick", "--method quick --budget 2s");
    let job = |(title, typed): (String, String)| {
        let typed = format!("{}cat results.jsonl\n", short(&typed));
        Job { title, typed, shown: Vec::new() }
    };
    let jobs: Vec<Job> = blocks(&page).into_iter().filter(is_example).map(job).collect();
    assert_eq!(jobs.len(), 2, "a router and a bridge");
    let scratch = Scratch::new();
    for printed in printed_by(&jobs, "", &scratch) {
        let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let trials: Vec<Value> = lines.filter(|line| line["schema"] == "wirerate.trial/1").collect();
        let passed = |trial: &Value| trial["unique"].as_u64() > Some(100);
        assert!(!trials.is_empty() && trials.iter().all(passed), "{printed}");
    }
    let report = std::fs::read_to_string(scratch.file("work").join("report.html"))?;
    assert!(report.contains("<svg") && report.contains("1514 bytes, 1518 with FCS"), "{report}");
    Ok(())
}

fn the_firewall_of_the_connect_page_passes_connections() -> TestResult {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = std::fs::read_to_string(docs.join("connect.md"))?;
    let is_example = |(title, _): &(String, String)| title.contains("A firewall test");
    let job = |(title, typed): (String, String)| Job { title, typed, shown: Vec::new() };
    let jobs: Vec<Job> = blocks(&page).into_iter().filter(is_example).map(job).collect();
    assert_eq!(jobs.len(), 1, "one test");
    let scratch = Scratch::new();
    let printed = printed_by(&jobs, "", &scratch).concat();
    assert_eq!(printed.matches("completed").count(), 2, "two runs: {printed}");
    assert_eq!(printed.matches("100.00 %").count(), 2, "{printed}");
    // 5,000 per second in 3 s, if the machine is not busy.
    let tried = printed.split("tried").nth(1).and_then(|rest| rest.split_whitespace().next());
    let tried: u64 = tried.and_then(|text| text.replace(',', "").parse().ok()).expect("a count");
    assert!((8_000..=15_001).contains(&tried), "{printed}");
    Ok(())
}
