//! One live line on the terminal: shown while stderr is a terminal, nothing at all otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Time between two redraws; fast enough to feel alive, slow enough to read.
pub const REDRAW: Duration = Duration::from_millis(250);

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
    fn nothing_is_drawn_when_not_wanted() {
        let progress = Progress::new(false, 10);
        progress.show(5, "half".into());
        assert!(!progress.is_visible());
    }
}
