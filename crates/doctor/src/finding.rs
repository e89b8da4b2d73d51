//! A finding: its severity, its effect on frames, and what to try.

use facts::Described;
use report::Meaning;
use serde::Serialize;
use std::fmt;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work, or costs much performance.
    Problem,
    /// Could be better, or is useful to know.
    Note,
    /// As it should be.
    Ok,
}

/// Subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The machine and its kernel.
    Host,
    /// The device.
    Device,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Finding {
    /// What it is about: the machine and its kernel, or the device.
    pub about: About,
    /// How severe it is.
    pub severity: Severity,
    /// Its [topic](when-it-does-not-work.md#what-works-on-this-machine), which identifies the check
    /// for programs.
    pub topic: &'static str,
    /// What was found.
    pub what: String,
    /// Why it matters: the effect on sending or capturing; may be empty.
    pub why: String,
    /// Suggested commands or options; may be empty.
    pub tries: Vec<String>,
}

impl Finding {
    /// As it should be.
    pub(super) fn ok(about: About, topic: &'static str, what: impl Into<String>) -> Self {
        let (what, why) = (what.into(), String::new());
        Self { about, severity: Severity::Ok, topic, what, why, tries: Vec::new() }
    }

    /// Could be better.
    pub(super) fn note(
        about: About,
        topic: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Note, why: why.into(), ..Self::ok(about, topic, what) }
    }

    /// Does not work, or costs much performance.
    pub(super) fn problem(
        about: About,
        topic: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Problem, ..Self::note(about, topic, what, why) }
    }

    /// Adds something to try.
    #[must_use]
    pub(super) fn try_this(mut self, what: impl Into<String>) -> Self {
        self.tries.push(what.into());
        self
    }
}

impl Severity {
    /// What a line with it means.
    pub(super) fn meaning(self) -> Meaning {
        match self {
            Self::Problem => Meaning::Problem,
            Self::Note => Meaning::Advice,
            Self::Ok => Meaning::Good,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Problem => "problem",
            Self::Note => "note",
            Self::Ok => "ok",
        })
    }
}
