//! Rows of the bench, read back: the input of the page of results.

use crate::gaps::GapStats;
use crate::stats::Estimate;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Tools that are wirerate; what follows a slash does not matter.
const OURS: [&str; 9] = [
    "xdp",
    "skb",
    "af_packet",
    "af_xdp",
    "files",
    "wirerate",
    "wirerate-mirror",
    "wirerate-tpacket",
    "capture",
];
/// How cases begin that were measured in a virtual machine.
const MACHINE: &str = "vm ";
/// One row of any kind; fields that the kind does not have are zero or empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BenchRow {
    pub(crate) row: String,
    pub(crate) case: String,
    pub(crate) tool: String,
    /// A name in `result`, a number in `grown`.
    pub(crate) value: serde_json::Value,
    pub(crate) against: Option<String>,
    pub(crate) median: f64,
    pub(crate) spread: f64,
    pub(crate) rounds: usize,
    pub(crate) goal: Option<f64>,
    pub(crate) frame_len: Option<usize>,
    /// A number in `result`, a list in `host`.
    pub(crate) cpus: serde_json::Value,
    pub(crate) why: String,
    // Of a machine.
    pub(crate) time_s: u64,
    pub(crate) size: String,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    pub(crate) governor: Option<String>,
    pub(crate) mitigations: Vec<String>,
    pub(crate) iommu: bool,
    pub(crate) version: String,
    pub(crate) load: f64,
    pub(crate) steal: f64,
    // Of a pace.
    pub(crate) asked_pps: f64,
    pub(crate) rate_pps: f64,
    pub(crate) deviation: f64,
    pub(crate) gaps: Option<GapStats>,
    // Of a count.
    pub(crate) asked: u64,
    pub(crate) received: u64,
    // Of growth.
    pub(crate) what: String,
    pub(crate) cpu_ns_per_frame: f64,
    pub(crate) memory_bytes: u64,
    // Of a throughput search.
    pub(crate) truth_pps: f64,
    pub(crate) lower_pps: Option<f64>,
    pub(crate) upper_pps: Option<f64>,
    pub(crate) trials: u64,
    pub(crate) seconds: f64,
    // Of captures.
    pub(crate) factor: f64,
    pub(crate) arrived_pps: f64,
    pub(crate) lost: u64,
    pub(crate) told_lost: Option<u64>,
    pub(crate) is_true: bool,
    pub(crate) at_limit: bool,
}

/// A case, a frame length, a number of CPUs.
pub(crate) type CaseKey = (String, usize, usize);

/// Numbers of one tool in a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolNumbers {
    pub(crate) rate: Option<Estimate>,
    pub(crate) cost: Option<Estimate>,
    /// Ratios to the rates of other tools.
    pub(crate) ratios: BTreeMap<String, Estimate>,
}

/// Numbers of all tools in a cell, by tool.
pub(crate) type Entries = BTreeMap<String, ToolNumbers>;

/// All rows, and the rates among them by cell.
pub(crate) struct Known {
    pub(crate) rows: Vec<BenchRow>,
    pub(crate) cells: BTreeMap<CaseKey, Entries>,
}

impl BenchRow {
    /// The median and spread of a result.
    pub(crate) fn estimate(&self) -> Estimate {
        // Rows of virtual machines and of older benches may lack `rounds`.
        Estimate { median: self.median, spread: self.spread, count: self.rounds.max(2) }
    }
}

impl Known {
    /// Parses lines of JSON.
    pub(crate) fn of(text: &str) -> Result<Self> {
        let parse = |(number, line): (usize, &str)| {
            serde_json::from_str(line).with_context(|| format!("line {} is not a row of a bench", number + 1))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
        let rows: Vec<BenchRow> = lines.map(parse).collect::<Result<_>>()?;
        ensure!(rows.iter().any(|row| row.row == "host"), "there is no row of kind \"host\"");
        let mut cells: BTreeMap<CaseKey, Entries> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.row == "result") {
            let cpus = row.cpus.as_u64().unwrap_or(1) as usize;
            let cell = (row.case.clone(), row.frame_len.unwrap_or(0), cpus);
            let entry = cells.entry(cell).or_default().entry(row.tool.clone()).or_default();
            match (row.value.as_str().unwrap_or(""), &row.against) {
                ("rate_pps", _) => entry.rate = Some(row.estimate()),
                ("cpu_ns_per_frame", _) => entry.cost = Some(row.estimate()),
                ("rate_ratio", Some(against)) => {
                    entry.ratios.insert(against.clone(), row.estimate());
                }
                _ => {}
            }
        }
        Ok(Self { rows, cells })
    }

    /// All rows of a kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a BenchRow> + Clone {
        self.rows.iter().filter(move |row| row.row == kind)
    }

    /// All results of that name.
    pub(crate) fn results<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a BenchRow> + Clone {
        self.of_kind("result").filter(move |row| row.value == value)
    }

    /// Cells whose case is so.
    pub(crate) fn cells_of(&self, is_so: impl Fn(&str) -> bool) -> Vec<(&CaseKey, &Entries)> {
        self.cells.iter().filter(|((case, ..), _)| is_so(case)).collect()
    }
}

/// True for a tool that is wirerate: an engine, with what it sends or the options it was given.
pub(crate) fn is_ours(tool: &str) -> bool {
    OURS.contains(&tool.split(['/', ' ']).next().unwrap_or(tool))
}

/// True for what `make vm` measured.
pub(crate) fn is_of_machine(case: &str) -> bool {
    case.starts_with(MACHINE)
}

/// A cell for people.
pub(crate) fn title((case, frame_len, cpus): &CaseKey) -> String {
    let cpus = if *cpus == 1 { "one CPU".to_owned() } else { format!("{cpus} CPUs") };
    match case.as_str() {
        "plain" => format!("send, {frame_len} bytes, {cpus}"),
        "work" => format!("send ranges + checksums, {frame_len} bytes, {cpus}"),
        // `vm KERNEL DEVICE [MODE]`
        case if is_of_machine(case) => format!("send in a machine: {}", &case[MACHINE.len()..]),
        case => case.to_owned(),
    }
}

/// `1,234,567`.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.50 µs`, `20.00 ms`.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// `2026-11-22 02:15` of seconds since 1970.
pub(crate) fn date(time_s: u64) -> String {
    let time = jiff::Timestamp::from_second(time_s.cast_signed()).expect("the clock is before the year 9999");
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!([3.0, 1_500.0, 2e7, 1.5e9].map(time), ["3 ns", "1.50 µs", "20.00 ms", "1.50 s"]);
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59");
    }
}
