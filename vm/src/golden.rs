//! Texts that are to stay as they are: what cases found out, kernel by kernel, in files of the repository.
//!
//! A file has a section for each kernel. `UPDATE=1` writes what was found; the difference is then reviewed.

use crate::{Ending, Outcome};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// In front of the name of a kernel.
const HEAD: &str = "== ";

/// Where they are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Fails those that found out something else than the repository says, or writes that down if so asked.
pub(crate) fn check(kernel: &str, outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let is_update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    outcomes.into_iter().map(|outcome| checked(kernel, outcome, is_update)).collect()
}

fn checked(kernel: &str, mut outcome: Outcome, is_update: bool) -> Outcome {
    for (name, found) in &outcome.golden {
        let path = folder().join(format!("{name}.txt"));
        // One that is not there yet holds nothing.
        let all = Sections::of(&std::fs::read_to_string(&path).unwrap_or_default());
        let expected = all.get(kernel).unwrap_or_default().to_owned();
        if expected == *found {
            continue;
        }
        let why = match is_update.then(|| std::fs::write(&path, all.with(kernel, found).to_text())) {
            Some(Ok(())) => continue,
            Some(Err(error)) => format!("cannot write {}: {error}", path.display()),
            None => format!(
                "{} says something else of {kernel} (UPDATE=1 changes it):\n{}",
                path.display(),
                difference(&expected, found)
            ),
        };
        if outcome.ending == Ending::Passed {
            outcome.ending = Ending::Failed(why);
        }
    }
    outcome
}

/// A file, by kernels, in the order in which they stand there.
#[derive(Debug, Default)]
struct Sections(Vec<(String, String)>);

impl Sections {
    fn of(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            match (line.strip_prefix(HEAD), all.0.last_mut()) {
                (Some(kernel), _) => all.0.push((kernel.to_owned(), String::new())),
                (None, Some((_, section))) => *section += &format!("{line}\n"),
                (None, None) => {}
            }
        }
        all
    }

    fn get(&self, kernel: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == kernel).map(|(_, text)| text.as_str())
    }

    fn with(mut self, kernel: &str, text: &str) -> Self {
        match self.0.iter_mut().find(|(name, _)| name == kernel) {
            Some((_, section)) => text.clone_into(section),
            None => self.0.push((kernel.to_owned(), text.to_owned())),
        }
        self
    }

    fn to_text(&self) -> String {
        self.0.iter().map(|(kernel, text)| format!("{HEAD}{kernel}\n{text}")).collect()
    }
}

/// Lines that only one of the two has.
fn difference(expected: &str, found: &str) -> String {
    let mut out = String::new();
    let mut only = |sign: char, of: &str, other: &str| {
        for line in of.lines().filter(|line| !other.lines().any(|one| one == *line)) {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{sign} {line}");
        }
    };
    only('-', expected, found);
    only('+', found, expected);
    if out.is_empty() { "the same lines in another order".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_changes_its_own_section_only() {
        let text = "== 6.1\na\nb\n== newest\nc\n";
        assert_eq!(Sections::of(text).to_text(), text);
        assert_eq!(Sections::of(text).get("6.1"), Some("a\nb\n"));
        assert_eq!(Sections::of(text).with("6.1", "d\n").to_text(), "== 6.1\nd\n== newest\nc\n");
        assert_eq!(Sections::of("").with("6.12", "e\n").to_text(), "== 6.12\ne\n");
    }

    #[test]
    fn the_difference_names_the_lines_of_either_side() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "- b\n+ c\n");
        assert_eq!(difference("a\nb\n", "b\na\n"), "the same lines in another order");
    }

    #[test]
    fn what_nobody_wrote_down_is_a_failure() {
        let outcome = Outcome {
            case: "x".to_owned(),
            ending: Ending::Passed,
            facts: Default::default(),
            rows: Vec::new(),
            golden: [("no_such_file".to_owned(), "a\n".to_owned())].into(),
            took_ms: 0,
        };
        let Ending::Failed(why) = checked("6.1", outcome, false).ending else { panic!("it passed") };
        assert!(why.ends_with("\n+ a\n"), "{why}");
    }
}
