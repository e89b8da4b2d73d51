//! The result of a case, sent from the guest to the host as a line of JSON after a mark.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In front of every line that the host reads.
const MARK: &str = "wirerate-guest: ";

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All that was to be shown was shown.
    Passed,
    /// In words for a person, many lines if need be.
    Failed(String),
    /// This kernel lacks what the case needs, and that is how it is.
    Lacks(String),
}

/// How a case ended, with what it measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseOutcome {
    /// The name of the case.
    pub case: String,
    /// How it ended.
    pub ending: Ending,
    /// What it found out, by a short name: for the table.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// Texts that the repository knows, by the names of their files.
    #[serde(default)]
    pub golden: BTreeMap<String, String>,
    /// Rows for the page of the bench.
    #[serde(default)]
    pub rows: Vec<serde_json::Value>,
    /// How long it took in there, in milliseconds.
    pub took_ms: u64,
}

impl CaseOutcome {
    /// The line that carries it.
    #[must_use]
    pub fn to_line(&self) -> String {
        // A struct of strings and numbers always is JSON.
        format!("{MARK}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// All outcomes in what a machine wrote; other lines are the kernel's or a tool's.
    pub(crate) fn all_in(console: &str) -> Vec<Self> {
        let lines = console.lines().filter_map(|line| line.trim_end().split_once(MARK));
        lines.filter_map(|(_, json)| serde_json::from_str(json).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_found_between_the_words_of_a_kernel() {
        let outcome = CaseOutcome {
            case: "a".to_owned(),
            ending: Ending::Failed("two\nlines, \"quoted\"".to_owned()),
            facts: BTreeMap::from([("ratio".to_owned(), "1.5".to_owned())]),
            golden: BTreeMap::from([("b".to_owned(), "c\n".to_owned())]),
            rows: vec![serde_json::json!({"case": "veth"})],
            took_ms: 7,
        };
        let console = format!("[ 1.0] hello\r\n{}\r\nwirerate-guest: {{half\n", outcome.to_line());
        assert_eq!(CaseOutcome::all_in(&console), [outcome]);
    }
}
