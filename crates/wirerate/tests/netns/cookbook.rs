//! docs/cookbook.md, docs/tutorial.md and the first part of README.md: every line runs as printed,
//! and prints what the page shows. The example of docs/search.md leads to a report.

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
        "cookbook::the_tutorial_runs_and_prints_what_it_shows",
        &["unshare", "tshark"],
        the_tutorial_runs_and_prints_what_it_shows,
    )
    .with_lock("measures rates"),
    case(
        "cookbook::the_first_page_runs_and_prints_what_it_shows",
        &["unshare"],
        the_first_page_runs_and_prints_what_it_shows,
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

/// Programs that begin a line of a page; an indented block that begins otherwise is output.
const PROGRAMS: &[&str] = &["wirerate", "printf", "ip", "kill", "tshark", "make"];

/// The end of a paragraph before lines that are typed in another terminal: they run beside the next
/// ones.
const BESIDE: &str = "second terminal:";

/// A page that can take its time, for tests that cannot.
const SHORT: &[(&str, &str)] =
    &[("--duration 30s", "--duration 5s"), ("-w - | tshark -i -", "-w - --duration 1s | tshark -i -")];

/// `make docs-numbers` sets this: rates must be near those of the page.
const NUMBERS: &str = "WIRERATE_DOCS_NUMBERS";
/// What a rate may be above or below that of the page.
const NEAR: f64 = 3.0;

/// Lines that are typed, and what they print: each shown line is the beginning of a printed one, in
/// this order.
#[derive(Debug, Default)]
struct Job {
    title: String,
    typed: String,
    shown: Vec<String>,
    /// Runs beside the jobs that follow.
    is_beside: bool,
    /// The job beside which it runs ends before the next one.
    is_last_beside: bool,
}

/// An indented block of a page.
#[derive(Debug, Default)]
struct DocBlock {
    title: String,
    text: String,
    /// The paragraph before it ends with [`BESIDE`].
    is_beside: bool,
}

fn doc_blocks(page: &str) -> Vec<DocBlock> {
    let (mut title, mut found, mut last) = (String::new(), Vec::<DocBlock>::new(), "");
    let mut is_open = false;
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("    ") {
            if !is_open {
                let is_beside = last.ends_with(BESIDE);
                found.push(DocBlock { title: title.clone(), text: String::new(), is_beside });
            }
            found.last_mut().unwrap().text.extend([text, "\n"]);
        } else if line.starts_with('#') {
            line.clone_into(&mut title);
        }
        is_open = line.starts_with("    ");
        last = if line.is_empty() { last } else { line };
    }
    found
}

/// The indented blocks of a page, with the title above each.
fn blocks(page: &str) -> Vec<(String, String)> {
    doc_blocks(page).into_iter().map(|block| (block.title, block.text)).collect()
}

/// The jobs of the parts of a page that `is_wanted` takes by their titles. The second output behind
/// a job is that of the job beside it.
fn jobs(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Job> {
    let mut jobs = Vec::<Job>::new();
    let mut beside: Option<usize> = None;
    for DocBlock { title, text, is_beside } in
        doc_blocks(page).into_iter().filter(|block| is_wanted(&block.title))
    {
        if PROGRAMS.contains(&text.split(' ').next().unwrap_or_default()) {
            let typed = SHORT.iter().fold(text.clone(), |text, (long, short)| text.replace(long, short));
            if let Some(job) = jobs.last_mut().filter(|job| beside.is_some() && !job.is_beside) {
                (job.is_last_beside, beside) = (true, None);
            }
            beside = if is_beside { Some(jobs.len()) } else { beside };
            jobs.push(Job { title, typed, is_beside, ..Job::default() });
            continue;
        }
        let last = jobs.len().checked_sub(1).expect("a command comes before its output");
        let place = match beside {
            Some(beside) if !jobs[last].shown.is_empty() => beside,
            _ => last,
        };
        assert_eq!(jobs[place].title, title, "output without a command:\n{text}");
        jobs[place].shown.extend(text.lines().map(str::to_owned));
    }
    if let Some(job) = jobs.last_mut().filter(|_| beside.is_some()) {
        job.is_last_beside = true;
    }
    // A fresh clone is built by another test.
    jobs.retain(|job| !job.typed.starts_with("make "));
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
            *a == b.trim_end_matches([',', ';'])
                || a == b
                || (is_measured(a, shown.get(at + 1)) && is_measured(b, line.get(at + 1)))
                || (is_unit(a) && is_unit(b))
                || (is_mac(a) && is_mac(b))
        })
}

/// The rates of a line, in frames or bits per second.
fn rates(line: &str) -> Vec<f64> {
    let words: Vec<_> = line.split_whitespace().map(|word| word.trim_end_matches([',', ')'])).collect();
    let rate = |pair: &[&str]| {
        let unit = pair[1].strip_suffix("pps").or_else(|| pair[1].strip_suffix("bit/s"))?;
        let scale =
            [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)].into_iter().find(|(name, _)| *name == unit)?.1;
        Some(pair[0].trim_start_matches('(').parse::<f64>().ok()? * scale)
    };
    words.windows(2).filter_map(rate).collect()
}

/// Whether the rates of `line` are near those of `shown`.
fn is_near(shown: &str, line: &str) -> bool {
    let ratio = |(shown, line): (f64, f64)| if shown > line { shown / line } else { line / shown };
    rates(shown).into_iter().zip(rates(line)).map(ratio).all(|ratio| ratio <= NEAR)
}

/// The file with what a job printed.
fn output_file(number: usize) -> String {
    format!("../output-{number}")
}

/// A shell script with the jobs. Its namespaces `tx` and `rx` exist only in its mount namespace.
fn script(jobs: &[Job], set_up: &str, folder: &Path) -> String {
    let mut script = format!(
        "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && cd {} || exit 1\n{set_up}",
        folder.display()
    );
    for (number, job) in jobs.iter().enumerate() {
        let file = output_file(number);
        let end = match (job.is_beside, job.is_last_beside) {
            (true, _) => format!(" &\nbeside=$!\nuntil [ -s {file} ]; do sleep 0.1; done"),
            (false, true) => "\nwait $beside".to_owned(),
            (false, false) => String::new(),
        };
        script += &format!("{{\n{}}} >{file} 2>&1{end}\n", job.typed);
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
    let printed = |number| {
        let file = scratch.file("work").join(output_file(number));
        std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("job {number}: {why}: {outcome:?}"))
    };
    (0..jobs.len()).map(printed).collect()
}

/// What the jobs print where that is not what they show.
fn differences(jobs: &[Job], printed: &[String]) -> String {
    let needs_numbers = std::env::var_os(NUMBERS).is_some();
    let mut found = String::new();
    for (Job { title, typed, shown, .. }, printed) in jobs.iter().zip(printed) {
        let mut lines = printed.lines();
        for shown in shown {
            let Some(line) = lines.find(|line| agrees(shown, line)) else {
                found += &format!("{title}\n{typed}shows {shown:?}, and prints:\n{printed}\n");
                break;
            };
            if needs_numbers && !is_near(shown, line) {
                found += &format!("{title}\n{typed}shows {shown:?}, and prints {line:?}\n");
            }
        }
        // A command that was refused names what to try.
        if printed.contains("  try: wirerate") {
            found += &format!("{title}\n{typed}was refused:\n{printed}\n");
        }
    }
    found
}

/// The lines of the tutorial that make the devices, for other pages.
fn set_up() -> String {
    let (_, typed) =
        blocks(&page("docs/tutorial.md")).into_iter().next().expect("it begins with the devices");
    typed
}

fn page(name: &str) -> String {
    let path = testkit::root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn every_line_runs_and_prints_what_the_page_shows() -> TestResult {
    let jobs = jobs(&page("docs/cookbook.md"), |_| true);
    let numbers = jobs.iter().filter(|job| job.title.starts_with("### ")).map(|job| &job.title);
    assert_eq!(numbers.collect::<std::collections::BTreeSet<_>>().len(), 41);
    let found = differences(&jobs, &printed_by(&jobs, &set_up(), &Scratch::new()));
    assert!(found.is_empty(), "docs/cookbook.md is not what happens:\n{found}");
    Ok(())
}

fn the_tutorial_runs_and_prints_what_it_shows() -> TestResult {
    let jobs = jobs(&page("docs/tutorial.md"), |_| true);
    assert_eq!(jobs.iter().filter(|job| job.is_beside).count(), 2, "{jobs:?}");
    let found = differences(&jobs, &printed_by(&jobs, "", &Scratch::new()));
    assert!(found.is_empty(), "docs/tutorial.md is not what happens:\n{found}");
    Ok(())
}

fn the_first_page_runs_and_prints_what_it_shows() -> TestResult {
    let is_wanted = |title: &str| ["# wirerate", "## A first measurement"].contains(&title);
    let jobs = jobs(&page("README.md"), is_wanted);
    assert_eq!(jobs.len(), 6, "{jobs:?}");
    let found = differences(&jobs, &printed_by(&jobs, "", &Scratch::new()));
    assert!(found.is_empty(), "README.md is not what happens:\n{found}");
    Ok(())
}

/// The lines of the page, with a budget that leaves time for the first trials only.
fn the_router_of_the_search_page_gets_a_report() -> TestResult {
    let docs = testkit::root().join("docs");
    let page = std::fs::read_to_string(docs.join("search.md"))?;
    let is_example = |(title, _): &(String, String)| title.contains("a Linux router");
    let short = |typed: &str| typed.replace("--method quick", "--method quick --budget 2s");
    let job = |(title, typed): (String, String)| {
        let typed = format!("{}cat results.jsonl\n", short(&typed));
        Job { title, typed, ..Job::default() }
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
    let docs = testkit::root().join("docs");
    let page = std::fs::read_to_string(docs.join("connect.md"))?;
    let is_example = |(title, _): &(String, String)| title.contains("A firewall test");
    let job = |(title, typed): (String, String)| Job { title, typed, ..Job::default() };
    let jobs: Vec<Job> = blocks(&page).into_iter().filter(is_example).map(job).collect();
    assert_eq!(jobs.len(), 1, "one test");
    let scratch = Scratch::new();
    let printed = printed_by(&jobs, "", &scratch).concat();
    assert_eq!(printed.matches("completed").count(), 2, "two runs: {printed}");
    assert_eq!(printed.matches("100.00 %").count(), 2, "{printed}");
    // 5,000 per second in 3 s. A busy machine may reach less: if more than 2 % are missing, the
    // report has the rate that was reached.
    let numbers_behind = |text: &str| -> Vec<f64> {
        let words = printed.split(text).skip(1).filter_map(|rest| rest.split_whitespace().next());
        words.filter_map(|word| word.trim_end_matches("/s").replace(',', "").parse().ok()).collect()
    };
    let tried = numbers_behind("tried")[0];
    let rate = (tried - 1.0) / numbers_behind("connections in")[0];
    let missed = numbers_behind("missed       5,000/s requested,");
    let is_told = missed.iter().any(|reached| (reached / rate - 1.0).abs() < 0.01);
    assert!((1.0..=15_001.0).contains(&tried) && (rate >= 4_890.0 || is_told), "{printed}");
    // The server has counted all connections of both runs.
    let completed: f64 = numbers_behind("completed").iter().sum();
    assert!(numbers_behind("  accepted").iter().any(|accepted| *accepted >= completed), "{printed}");
    Ok(())
}
