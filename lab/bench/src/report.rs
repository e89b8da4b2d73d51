//! The report of a bench: text on stdout, and rows of JSON in a file.
//!
//! A row is one object on one line; `schema` and `row` come first, and names contain their unit.
//! Rows of kinds `run` and `trial` are raw measurements; rows of kind `result` are computed from
//! them.

use crate::stats::Estimate;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name and version of the rows.
const SCHEMA: &str = "wirerate.bench/1";

/// Where both go.
#[derive(Debug)]
pub(crate) struct BenchReport {
    rows: File,
    path: PathBuf,
    /// Things that should have been otherwise; the answer of the bench is then no.
    warnings: Cell<u32>,
}

#[derive(Serialize)]
struct RowLine<'a, T> {
    schema: &'static str,
    row: &'a str,
    #[serde(flatten)]
    fields: &'a T,
}

/// What frames, sent from how many CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LoadPoint {
    /// Without FCS.
    pub(crate) frame_len: usize,
    /// Number of CPUs.
    pub(crate) cpus: usize,
}

/// What was made of all rounds of one tool.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ResultRow<'a> {
    case: &'a str,
    tool: &'a str,
    /// What the numbers are: `rate_pps`, `cpu_ns_per_frame`, `rate_ratio`, `cpu_ratio`.
    value: &'a str,
    /// Of a ratio: the other tool.
    against: Option<&'a str>,
    median: f64,
    /// How far the rounds lie apart, in the same unit.
    spread: f64,
    rounds: usize,
    /// Of a ratio: what is aimed at.
    goal: Option<f64>,
    #[serde(flatten)]
    cell: Option<LoadPoint>,
}

impl<'a> ResultRow<'a> {
    /// Frames a second.
    pub(crate) fn rate(case: &'a str, tool: &'a str, estimate: Estimate) -> Self {
        Self::new(case, tool, "rate_pps", None, estimate)
    }

    /// CPU time of a frame.
    pub(crate) fn cost(case: &'a str, tool: &'a str, estimate: Estimate) -> Self {
        Self::new(case, tool, "cpu_ns_per_frame", None, estimate)
    }

    /// A time; `value` says of what.
    pub(crate) fn time(case: &'a str, tool: &'a str, value: &'a str, estimate: Estimate) -> Self {
        Self::new(case, tool, value, None, estimate)
    }

    /// How many times the rate of another.
    pub(crate) fn ratio(
        case: &'a str,
        tool: &'a str,
        against: &'a str,
        estimate: Estimate,
        goal: Option<f64>,
    ) -> Self {
        Self { goal, ..Self::new(case, tool, "rate_ratio", Some(against), estimate) }
    }

    /// How many times as much CPU time the other one needs for a frame.
    pub(crate) fn cost_ratio(case: &'a str, tool: &'a str, against: &'a str, estimate: Estimate) -> Self {
        Self::new(case, tool, "cpu_ratio", Some(against), estimate)
    }

    /// Measured with these frames.
    pub(crate) fn at(self, cell: LoadPoint) -> Self {
        Self { cell: Some(cell), ..self }
    }

    fn new(
        case: &'a str,
        tool: &'a str,
        value: &'a str,
        against: Option<&'a str>,
        estimate: Estimate,
    ) -> Self {
        let Estimate { median, spread, count } = estimate;
        Self { case, tool, value, against, median, spread, rounds: count, goal: None, cell: None }
    }
}

impl BenchReport {
    /// Begins a file of rows in `folder`, which is made where needed. `time_s` (since 1970) names
    /// it.
    pub(crate) fn create(folder: &Path, time_s: u64) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("{time_s}.jsonl"));
        let rows = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { rows, path, warnings: Cell::new(0) })
    }

    /// The file of rows.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a row of that kind.
    pub(crate) fn row(&self, kind: &str, fields: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(&RowLine { schema: SCHEMA, row: kind, fields })?;
        writeln!(&self.rows, "{line}").with_context(|| format!("cannot write to {}", self.path.display()))
    }

    /// A line for people.
    pub(crate) fn say(&self, line: &str) -> Result<()> {
        writeln!(io::stdout().lock(), "{line}").context("cannot write to standard output")
    }

    /// A warning.
    pub(crate) fn warn(&self, line: &str) -> Result<()> {
        self.warnings.update(|count| count + 1);
        self.say(&format!("  !  {line}"))
    }

    /// True when there was nothing to warn about.
    pub(crate) fn is_good(&self) -> bool {
        self.warnings.get() == 0
    }
}

/// What is aimed at, as a part of a line.
pub(crate) fn goal(goal: Option<f64>) -> String {
    goal.map_or_else(String::new, |goal| format!(", goal {goal}"))
}

/// A rate: `14.9 ± 0.3 Mpps`.
pub(crate) fn mpps(rate: Estimate) -> String {
    format!("{} Mpps", rate.text(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects_with_schema_and_kind_first() {
        let folder = testkit::Folder::new("bench-report");
        let report = BenchReport::create(&folder, 7).unwrap();
        let estimate = Estimate { median: 12.5, spread: 0.5, count: 3 };
        report.row("result", &ResultRow::ratio("generate", "a", "b", estimate, Some(12.0))).unwrap();
        let text = fs::read_to_string(folder.join("7.jsonl")).unwrap();
        assert_eq!(
            text,
            "{\"schema\":\"wirerate.bench/1\",\"row\":\"result\",\"case\":\"generate\",\"tool\":\"a\",\
             \"value\":\"rate_ratio\",\"against\":\"b\",\"median\":12.5,\"spread\":0.5,\"rounds\":3,\"goal\":12.0}\n"
        );
        assert!(report.is_good());
        report.warn("something").unwrap();
        assert!(!report.is_good());
    }

    #[test]
    fn rates_are_in_millions() {
        assert_eq!(mpps(Estimate { median: 14.88e6, spread: 0.31e6, count: 3 }), "14.9 ± 0.3 Mpps");
    }
}
