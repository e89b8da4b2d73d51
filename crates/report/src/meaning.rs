//! What a line of a report means to its reader, and its colour on a terminal.
//!
//! Who writes a line says what it means; nothing reads the text to find out. Reports are displayed
//! without colours as `{}`, and with colours as `{:#}`.

use crate::human::printable;
use std::fmt;

/// Ends a colour.
const RESET: &str = "\x1b[0m";

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A fact: no colour.
    Fact,
    /// A loss, an error, or what does not work: red.
    Problem,
    /// Something to know or to do: yellow.
    Advice,
    /// What works as it should: green.
    Good,
}

impl Meaning {
    /// A number of frames that were lost or had an error: no problem if there are none.
    #[must_use]
    pub fn of_loss(count: u64) -> Self {
        if count > 0 { Self::Problem } else { Self::Fact }
    }

    /// `text` in the colour of its meaning.
    #[must_use]
    pub fn painted(self, text: &str) -> String {
        let colour = match self {
            Self::Fact => return text.to_owned(),
            Self::Problem => 31,
            Self::Advice => 33,
            Self::Good => 32,
        };
        format!("\x1b[{colour}m{text}{RESET}")
    }

    /// Writes `text` and the end of the line, in colour for `{:#}`.
    ///
    /// # Errors
    /// What the formatter reports.
    pub fn write_line(self, f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
        if f.alternate() { writeln!(f, "{}", self.painted(text)) } else { writeln!(f, "{text}") }
    }
}

/// A report or a message without control characters and those that change the direction of text,
/// but for the ends of lines and the colours of whole lines: names of files and words of other
/// programs may have them.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    text.split_inclusive('\n').map(printable_line).collect()
}

fn printable_line(line: &str) -> String {
    let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
    let of_colour = [Meaning::Problem, Meaning::Advice, Meaning::Good].into_iter().find_map(|meaning| {
        let painted = meaning.painted("");
        let begin = painted.strip_suffix(RESET)?;
        Some(meaning.painted(&printable(line.strip_prefix(begin)?.strip_suffix(RESET)?)))
    });
    of_colour.unwrap_or_else(|| printable(line).into_owned()) + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_others_are_shown_as_text() {
        let own = Meaning::Problem.painted("  lost  2");
        let text = format!("a\u{1b}[31mx.pcap: 5 frames\n{own}\n");
        assert_eq!(printable_lines(&text), format!("a\\u{{1b}}[31mx.pcap: 5 frames\n{own}\n"));
        let painted = Meaning::Problem.painted("no \u{1b}[2J");
        assert_eq!(printable_lines(&painted), Meaning::Problem.painted("no \\u{1b}[2J"));
        assert_eq!(printable_lines("one\ntwo"), "one\ntwo");
    }

    struct Line;

    impl fmt::Display for Line {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Meaning::Fact.write_line(f, "  sent  7")?;
            Meaning::of_loss(0).write_line(f, "  lost  0")?;
            Meaning::of_loss(2).write_line(f, "  lost  2")
        }
    }

    #[test]
    fn lines_have_colours_if_the_reader_asks_for_them() {
        assert_eq!(format!("{Line}"), "  sent  7\n  lost  0\n  lost  2\n");
        assert_eq!(format!("{Line:#}"), "  sent  7\n  lost  0\n\x1b[31m  lost  2\x1b[0m\n");
    }
}
