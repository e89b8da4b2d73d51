//! Words that cannot be read: which part is bad, what the word should have been, what is accepted.

use std::fmt;
use std::ops::Range;

/// Text that is not what it should be. Its message underlines the bad part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadText {
    text: String,
    bad: Range<usize>,
    why: String,
    accepted: &'static str,
}

impl BadText {
    /// `bad` is the range of bytes of `text` to underline.
    ///
    /// # Panics
    /// When `bad` is not a range of characters of `text`.
    pub fn new(text: &str, bad: Range<usize>, why: impl Into<String>, accepted: &'static str) -> Self {
        assert!(text.get(bad.clone()).is_some(), "{bad:?} lies in {text:?}");
        Self { text: text.to_owned(), bad, why: why.into(), accepted }
    }

    /// The whole of `text` is bad.
    pub fn whole(text: &str, why: impl Into<String>, accepted: &'static str) -> Self {
        Self::new(text, 0..text.len(), why, accepted)
    }

    /// Makes the message about a word one about `text`, in which the word begins at byte `offset`.
    #[must_use]
    pub fn within(mut self, text: &str, offset: usize) -> Self {
        self.bad = self.bad.start + offset..self.bad.end + offset;
        self.text = text.to_owned();
        self
    }

    /// The bytes that are underlined.
    pub fn bad(&self) -> Range<usize> {
        self.bad.clone()
    }
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.bad.start].chars().count();
        let marks = self.text[self.bad.clone()].chars().count().max(1);
        writeln!(f, "{}", self.why)?;
        writeln!(f, "      {}", self.text)?;
        writeln!(f, "      {}{}", " ".repeat(before), "^".repeat(marks))?;
        write!(f, "  accepted: {}", self.accepted)
    }
}

impl std::error::Error for BadText {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bad_part_is_underlined() {
        let bad = BadText::new("10parsec", 2..8, "\"parsec\" is not a unit of time", "10s, 500ms");
        assert_eq!(
            bad.to_string(),
            "\"parsec\" is not a unit of time\n      10parsec\n        ^^^^^^\n  accepted: 10s, 500ms"
        );
    }

    #[test]
    fn a_part_keeps_its_mark_inside_the_whole() {
        let bad = BadText::whole("x", "no", "y").within("12-x", 3);
        assert_eq!(bad.bad(), 3..4);
        assert!(bad.to_string().contains("      12-x\n         ^\n"), "{bad}");
    }
}
