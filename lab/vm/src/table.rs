//! All results side by side, for the terminal and for docs/kernels.md.

use crate::{CaseOutcome, Ending};
use std::fmt::Write;

/// The outcomes of one kernel.
type OfKernel = (String, Vec<CaseOutcome>);

/// A line for each case of a kernel, for a person who waits.
#[must_use]
pub fn plain(kernel: &str, outcomes: &[CaseOutcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let seconds = outcome.took_ms as f64 / 1000.0;
        // Writing to a string does not fail.
        let _ = write!(out, "{kernel:>8}  {:<24} {:<7} {seconds:6.1} s", outcome.case, word(&outcome.ending));
        let facts: Vec<String> =
            outcome.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(out, "  {}", facts.join(", "));
    }
    out
}

/// A table with a column for each kernel.
#[must_use]
pub fn markdown(kernels: &[OfKernel], what: impl Fn(&str) -> String) -> String {
    let mut out = String::from("| what |");
    kernels.iter().for_each(|(kernel, _)| out += &format!(" {kernel} |"));
    out += "\n|---|";
    kernels.iter().for_each(|_| out += "---|");
    out += "\n";
    let cases = kernels.first().map(|(_, outcomes)| outcomes.as_slice()).unwrap_or_default();
    for (row, case) in cases.iter().enumerate() {
        out += &format!("| {} |", what(&case.case));
        for (_, outcomes) in kernels {
            let cell = outcomes.get(row).map_or_else(String::new, cell);
            out += &format!(" {cell} |");
        }
        out += "\n";
    }
    out
}

fn cell(outcome: &CaseOutcome) -> String {
    let facts: Vec<String> = outcome.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    match &outcome.ending {
        Ending::Passed if facts.is_empty() => "yes".to_owned(),
        Ending::Passed => facts.join("<br>"),
        Ending::Failed(_) => "**failed**".to_owned(),
        Ending::Lacks(why) => why.clone(),
    }
}

fn word(ending: &Ending) -> &'static str {
    match ending {
        Ending::Passed => "passed",
        Ending::Failed(_) => "FAILED",
        Ending::Lacks(_) => "lacks",
    }
}
