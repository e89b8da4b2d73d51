//! Throughput searches of a device whose limit is known: time and error of each method.
//!
//! The device is a token bucket (`bpf::FaultBox`), which sends back what passes. In a trial of T
//! seconds it passes its rate times T, and once the depth of its bucket.

use crate::generate::LeftOut;
use crate::process::{Tool, find_json};
use crate::rig::Rig;
use crate::table::BenchSize;
use anyhow::{Context, Result};
use bpf::FaultBox;
use bpf::abi::Faults;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const CASE: &str = "throughput";
const RATE_PPS: u32 = 20_000;
const DEPTH: u32 = 100;
/// A highest load that one CPU reaches anywhere, and the lowest one of MLRsearch.
const LOADS_PPS: [u32; 2] = [9_001, 60_000];
/// Where `tools/install.sh bench` puts the package.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";
const SCRIPT: &str = include_str!("../mlrsearch.py");
const TIMEOUT: Duration = Duration::from_secs(900);

/// A way to search.
#[derive(Clone, Copy, Debug)]
struct SearchTool {
    /// Its name in rows.
    name: &'static str,
    /// The smallest size that measures it.
    from: BenchSize,
    /// Duration of its trials in seconds.
    trial_s: u32,
    program: SearchProgram,
}

#[derive(Clone, Copy, Debug)]
enum SearchProgram {
    /// `wirerate search --method`.
    Method(&'static str),
    /// PyPI MLRsearch with this duration sum in seconds: the goal of the method before it.
    Package(u32),
}

const TOOLS: [SearchTool; 5] = [
    SearchTool {
        name: "search/quick",
        from: BenchSize::Tiny,
        trial_s: 1,
        program: SearchProgram::Method("quick"),
    },
    SearchTool {
        name: "MLRsearch/quick",
        from: BenchSize::Quick,
        trial_s: 1,
        program: SearchProgram::Package(3),
    },
    SearchTool {
        name: "search/mlr",
        from: BenchSize::Full,
        trial_s: 1,
        program: SearchProgram::Method("mlr"),
    },
    SearchTool {
        name: "MLRsearch/mlr",
        from: BenchSize::Full,
        trial_s: 1,
        program: SearchProgram::Package(21),
    },
    SearchTool {
        name: "search/binary",
        from: BenchSize::Full,
        trial_s: 10,
        program: SearchProgram::Method("binary"),
    },
];

/// The end of a search, as either program prints it.
#[derive(Debug, Deserialize)]
struct SearchEnd {
    goals: Vec<SearchBounds>,
    trials: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct SearchBounds {
    lower_pps: Option<f64>,
    upper_pps: Option<f64>,
}

/// One search.
#[derive(Debug, Serialize)]
struct ThroughputRow<'a> {
    case: &'a str,
    tool: &'a str,
    truth_pps: f64,
    lower_pps: Option<f64>,
    upper_pps: Option<f64>,
    trials: u64,
    seconds: f64,
}

/// Runs each search once, on devices of the bench.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, size, deadline, report, .. } = rig;
    if !bed.is_ours() {
        return Ok(());
    }
    report
        .say(&format!("\n{CASE}: a device that passes {RATE_PPS} frames per second and bursts of {DEPTH}"))?;
    let end = bed.rx();
    let faults = Faults { bucket_pps: RATE_PPS, bucket_depth: DEPTH, ..Faults::default() };
    let attach = || FaultBox::attach(end.index, end.ifname, end.index, faults);
    let _device = end.netns().run(attach)??;
    let script = bed.file("mlrsearch.py");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    for tool in TOOLS.iter().filter(|tool| tool.from <= size) {
        if deadline.is_over() {
            report.warn("time is up")?;
            break;
        }
        if matches!(tool.program, SearchProgram::Package(_)) && !Path::new(PYTHON).exists() {
            report.row("left_out", &LeftOut { case: CASE, tool: tool.name, why: "not installed" })?;
            report.say(&format!("  {}: not installed", tool.name))?;
            continue;
        }
        let row = measure(rig, tool, &script).with_context(|| format!("cannot measure {}", tool.name))?;
        report.row(CASE, &row)?;
        report.say(&line(&row))?;
    }
    Ok(())
}

fn measure<'a>(rig: Rig<'_>, tool: &SearchTool, script: &Path) -> Result<ThroughputRow<'a>> {
    let Rig { bed, programs, size, .. } = rig;
    let end = bed.tx();
    let device = end.ifname;
    let frames = "--dst 198.18.0.2 --dst-mac 02:00:00:00:00:02";
    let [min, max] = LOADS_PPS;
    let (program, words) = match tool.program {
        SearchProgram::Method(method) => {
            // The tiny size shows that it works, and nothing else.
            let budget = if size == BenchSize::Tiny { "--budget 2s" } else { "" };
            let words = format!(
                "search --tx {device} --rx {device} --json --method {method} --min-pps {min} --max-pps {max} {budget} \
                 -- {frames}"
            );
            (programs.wirerate.as_path(), words)
        }
        SearchProgram::Package(sum_s) => {
            let wirerate = programs.wirerate.display();
            let words = format!(
                "{} {wirerate} {device} {device} {min} {max} {} {sum_s} {frames}",
                script.display(),
                tool.trial_s
            );
            (Path::new(PYTHON), words)
        }
    };
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let started = Instant::now();
    let ended = Tool::start_on(program, &words, end.netns(), None)?.wait(TIMEOUT, &bed.stop)?;
    let seconds = started.elapsed().as_secs_f64();
    let said: SearchEnd =
        find_json(&ended.said).with_context(|| format!("no result in: {}", ended.said.trim()))?;
    let bounds = said.goals.first().context("a search has a goal")?;
    Ok(ThroughputRow {
        case: CASE,
        tool: tool.name,
        truth_pps: f64::from(RATE_PPS) + f64::from(DEPTH) / f64::from(tool.trial_s),
        lower_pps: bounds.lower_pps,
        upper_pps: bounds.upper_pps,
        trials: said.trials,
        seconds,
    })
}

/// One line of the report.
fn line(row: &ThroughputRow<'_>) -> String {
    let bound = |bound: Option<f64>| bound.map_or("unknown".to_owned(), |pps| format!("{pps:.0}"));
    let (lower, upper) = (bound(row.lower_pps), bound(row.upper_pps));
    let ThroughputRow { tool, truth_pps, trials, seconds, .. } = row;
    format!("  {seconds:>6.1} s, {trials:>3} trials, {lower} to {upper}, truth {truth_pps:.0}  {tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_print_the_same_words() {
        let said = "{\"goals\":[{\"lower_pps\":19990.5,\"upper_pps\":null}],\"trials\":9}";
        let end: SearchEnd = find_json(said).expect("it is the end of a search");
        let SearchBounds { lower_pps, upper_pps } = end.goals[0];
        assert_eq!((lower_pps, upper_pps, end.trials), (Some(19_990.5), None, 9));
    }
}
