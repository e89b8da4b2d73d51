//! One thing that was found: how grave it is, what it means for frames, and what to type.

use serde::Serialize;
use std::fmt;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work, or costs much.
    Problem,
    /// Something could be better, or is good to know.
    Note,
    /// As it should be.
    Ok,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The machine and its kernel.
    Host,
    /// The device.
    Device,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub about: About,
    /// How grave it is.
    pub severity: Severity,
    /// One word for it, for programs.
    pub topic: &'static str,
    /// What was found.
    pub what: String,
    /// What it means for sending or capturing; empty where that goes without saying.
    pub why: String,
    /// What to type, or where to turn; empty where there is nothing to improve.
    pub tries: Vec<String>,
}

impl Finding {
    /// All is well.
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

    /// Does not work, or costs much.
    pub(super) fn problem(
        about: About,
        topic: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Problem, ..Self::note(about, topic, what, why) }
    }

    /// Adds what to type.
    #[must_use]
    pub(super) fn try_this(mut self, what: impl Into<String>) -> Self {
        self.tries.push(what.into());
        self
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

/// One line, and two more where there is something to say and to do.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const INDENT: &str = "            ";
        writeln!(f, "  {:8}  {}", self.severity, self.what)?;
        if !self.why.is_empty() {
            writeln!(f, "{INDENT}{}", self.why)?;
        }
        self.tries.iter().try_for_each(|what| writeln!(f, "{INDENT}try: {what}"))
    }
}
