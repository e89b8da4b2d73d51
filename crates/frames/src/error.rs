//! Errors of a configuration, with the place and the line.

use std::fmt;

/// Columns of the source line that an error shows before and after the place.
const EXCERPT_COLUMNS: usize = 60;

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What was expected there, or what is wrong.
    pub message: String,
    /// The part of the source line around the place.
    pub excerpt: String,
    /// Bytes of `excerpt` before the place.
    pub caret: usize,
}

impl ConfigError {
    /// The error `message` at byte `at` of `text`.
    pub(crate) fn at(text: &[u8], at: usize, message: impl Into<String>) -> Self {
        let at = at.min(text.len());
        let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |len| at + len);
        let from = at.saturating_sub(EXCERPT_COLUMNS).max(start);
        let to = (at + EXCERPT_COLUMNS).min(end);
        Self {
            line: text[..start].iter().filter(|byte| **byte == b'\n').count() + 1,
            column: at - start + 1,
            message: message.into(),
            excerpt: printable(&text[from..to]),
            caret: at - from,
        }
    }
}

/// One character per byte, so that the caret fits.
fn printable(bytes: &[u8]) -> String {
    let letter = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { ' ' };
    bytes.iter().map(letter).collect()
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        writeln!(f, "  | {}", self.excerpt.trim_end())?;
        write!(f, "  | {:width$}^", "", width = self.caret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_a_line_and_a_column_with_a_caret() {
        let text = b"{ 1 }\n{ fill(0xff,) }\n";
        let error = ConfigError::at(text, 18, "expected a number");
        let shown = "line 2, column 13: expected a number\n  | { fill(0xff,) }\n  |             ^";
        assert_eq!(error.to_string(), shown);
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = [b'1'; 100_000];
        let error = ConfigError::at(&text, 50_000, "x");
        assert_eq!((error.line, error.column, error.caret), (1, 50_001, EXCERPT_COLUMNS));
        assert_eq!(error.excerpt.len(), 2 * EXCERPT_COLUMNS);
    }
}
