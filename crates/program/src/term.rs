//! The terminal: its width, lines wrapped to it, and one live line while stderr is a terminal.

use anstream::{AutoStream, ColorChoice, stream::RawStream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Time between two redraws; fast enough to feel alive, slow enough to read.
pub const REDRAW: Duration = Duration::from_millis(250);

/// Columns of the progress line before its text (spinner, percent, time), and after it for the
/// `^C` that a terminal echoes: in a full line it would break the line, and half of it would stay.
const BEFORE_PARTS: usize = 2 + 5 + 5 + 3;

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

/// True if `stream` is a terminal with colours: NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb
/// decide as everywhere.
pub fn has_colours(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// As many parts of `text` as fit into `columns`, where commas separate parts. The first is always
/// there.
fn fitting(text: &str, columns: usize) -> &str {
    let ends = text.match_indices(", ").map(|(end, _)| end).chain([text.len()]);
    let heads: Vec<&str> = ends.map(|end| &text[..end]).collect();
    let fits = |head: &&&str| head.chars().count() <= columns;
    heads.iter().rev().find(fits).or(heads.first()).copied().unwrap_or_default()
}

/// Columns that the live line leaves free: the terminal writes `^C` there, which would otherwise
/// move to the next line and leave the live line behind.
const FREE_COLUMNS: u16 = 3;

/// Moves the cursor of the terminal. A count of 0 writes nothing: terminals take it for 1, and the
/// report would overwrite the lines above the live line.
fn move_cursor(count: usize, direction: char) -> io::Result<()> {
    io::stderr().write_all(cursor_moved(count, direction).as_bytes())
}

fn cursor_moved(count: usize, direction: char) -> String {
    if count == 0 { String::new() } else { format!("\x1b[{count}{direction}") }
}

/// Standard error, narrower than it is.
#[derive(Debug)]
struct NarrowStderr;

impl TermLike for NarrowStderr {
    fn width(&self) -> u16 {
        let size = terminal_size::terminal_size_of(io::stderr());
        size.map_or(WIDTH_OF_NO_TERMINAL as u16, |(columns, _)| columns.0).saturating_sub(FREE_COLUMNS)
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        move_cursor(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        move_cursor(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        move_cursor(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        move_cursor(count, 'D')
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{line}")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        write!(io::stderr(), "{text}")
    }

    fn clear_line(&self) -> io::Result<()> {
        write!(io::stderr(), "\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The live line. Dropping it takes it off the screen.
#[derive(Debug)]
pub struct LiveLine {
    bar: ProgressBar,
}

impl LiveLine {
    /// A live line for a run of `total` steps, 0 for no known end. Silent when `wanted` is false or
    /// stderr is not a terminal.
    pub fn new(wanted: bool, total: u64) -> Self {
        // A dumb terminal cannot erase a line.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let visible = wanted && io::stderr().is_terminal() && !is_dumb;
        let target = match visible {
            true => ProgressDrawTarget::term_like(Box::new(NarrowStderr)),
            false => ProgressDrawTarget::hidden(),
        };
        let (length, template) = match total {
            0 => (None, "{spinner} {elapsed} {msg}"),
            total => (Some(total), "{spinner} {percent}% {elapsed} {msg}"),
        };
        let bar = ProgressBar::with_draw_target(length, target);
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are valid"));
        Self { bar }
    }

    /// True when the line is visible, so that its text is worth making.
    pub fn is_visible(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Shows that `done` steps are behind us, and as many parts of `text` (separated by
    /// commas) as fit into the line.
    pub fn show(&self, done: u64, text: &str) {
        let columns = usize::from(NarrowStderr.width());
        self.bar.set_position(done);
        self.bar.set_message(fitting(text, columns.saturating_sub(BEFORE_PARTS)).to_owned());
    }
}

impl Drop for LiveLine {
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
    fn a_cursor_that_stays_writes_nothing() {
        assert_eq!(cursor_moved(0, 'A'), "");
        assert_eq!(cursor_moved(2, 'A'), "\x1b[2A");
    }

    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let text = "5,000 sent, 3.000 kpps, 1 error";
        assert_eq!(fitting(text, 40), text);
        assert_eq!(fitting(text, 25), "5,000 sent, 3.000 kpps");
        assert_eq!(fitting(text, 3), "5,000 sent");
    }

    #[test]
    fn nothing_is_drawn_when_not_wanted() {
        let progress = LiveLine::new(false, 10);
        progress.show(5, "half");
        assert!(!progress.is_visible());
    }
}
