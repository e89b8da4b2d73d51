//! The terminal: its width, lines wrapped to it, and one live line while stderr is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Time between two redraws; fast enough to feel alive, slow enough to read.
pub const REDRAW: Duration = Duration::from_millis(250);

/// Columns where standard output is not a terminal.
const WIDTH_OF_NO_TERMINAL: usize = 80;

/// Columns of the terminal on standard output.
pub fn stdout_columns() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(WIDTH_OF_NO_TERMINAL, |(terminal_size::Width(columns), _)| usize::from(columns))
}

/// `text` in lines of at most `columns`, broken at blanks. All lines but the first begin with
/// `indent` blanks. A word longer than a line stays whole.
pub fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for (index, word) in text.split(' ').enumerate() {
        let len = word.chars().count();
        if index > 0 && used + 1 + len > columns {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            used = indent;
        } else if index > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += len;
    }
    lines
}

/// The live line. Dropping it takes it off the screen.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A live line for a run of `total` steps, 0 for no known end. Silent when `wanted` is false or
    /// stderr is not a terminal.
    pub fn new(wanted: bool, total: u64) -> Self {
        let visible = wanted && io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let (length, template) = match total {
            0 => (None, "{spinner} {elapsed} {msg}"),
            total => (Some(total), "{wide_bar} {percent}% {elapsed} {msg}"),
        };
        let bar = ProgressBar::with_draw_target(length, target);
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are valid"));
        Self { bar }
    }

    /// True when the line is visible, so that its text is worth making.
    pub fn is_visible(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Shows that `done` steps are behind us, and `text`.
    pub fn show(&self, done: u64, text: String) {
        self.bar.set_position(done);
        self.bar.set_message(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_no_word_is_cut() {
        assert_eq!(wrapped("  ok  the driver runs", 12, 6), "  ok  the\n      driver\n      runs");
        assert_eq!(wrapped("fits in one line", 16, 2), "fits in one line");
        assert_eq!(wrapped("/a/long/path x", 4, 1), "/a/long/path\n x");
        assert_eq!(wrapped("µs µs", 5, 0), "µs µs", "columns, not bytes");
    }

    #[test]
    fn nothing_is_drawn_when_not_wanted() {
        let progress = Progress::new(false, 10);
        progress.show(5, "half".into());
        assert!(!progress.is_visible());
    }
}
