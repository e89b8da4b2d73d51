//! What a running command shows, and what shows it.
//!
//! A command writes text, rows and reports to its [`Console`], a live line, and the counters of
//! what sends and receives. By itself that is standard output. `--tui`, `--web` and `--metrics`
//! attach to the console: a full screen keeps what is printed until its end, a page follows rows
//! and reports, and all three read the counters and change the run that sends. Each command has a
//! console of its own, so two commands of one process do not meet.

use crate::events::Events;
use crate::monitor::{Counted, Registry};
use crate::out::{self, OutError, RowFormat};
use crate::run_control::{Offered, RunControl, RunControls};
use crate::term::LiveLine;
use metrics::MetricSet;
use report::printable_lines;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The console of one command; clones are the same one.
#[derive(Clone, Default)]
pub struct Console(Arc<Shown>);

#[derive(Default)]
struct Shown {
    /// What is to be printed once the terminal is no longer a full screen; `None` without one.
    kept: Mutex<Option<String>>,
    /// True if progress is shown by a full screen, or by lines of its own.
    progress_is_elsewhere: AtomicBool,
    events: Events,
    registry: Arc<Registry>,
    controls: Arc<RunControls>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    fn kept(&self) -> MutexGuard<'_, Option<String>> {
        // A panic leaves text behind, which is as good.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, what would be printed is kept.
    pub fn keep(&self) {
        self.kept().get_or_insert_default();
    }

    /// What was kept; nothing is kept from now on.
    pub fn take_kept(&self) -> Option<String> {
        self.kept().take()
    }

    /// Prints `text` as it is.
    ///
    /// # Errors
    /// When stdout is closed or full.
    pub fn text(&self, text: &str) -> Result<(), OutError> {
        if let Some(kept) = self.kept().as_mut() {
            kept.push_str(text);
            return Ok(());
        }
        out::text(text)
    }

    /// Prints the report of a command, and adds it to the events. With rows of CSV it goes to
    /// standard error.
    ///
    /// # Errors
    /// When stdout is closed or full.
    pub fn report(&self, format: RowFormat, json_lines: &str, report: &impl Display) -> Result<(), OutError> {
        self.0.events.add_report(json_lines, &report.to_string());
        match format {
            RowFormat::Json => return self.text(json_lines),
            RowFormat::Csv => self.aside(&printable_lines(&report.to_string())),
            RowFormat::Text => return self.text(&out::text_of(report)),
        }
        Ok(())
    }

    /// Tells people something that is not a result, as it is.
    pub fn aside(&self, text: &str) {
        eprint!("{text}");
    }

    /// Tells people a sentence that is not a result.
    pub fn note(&self, note: impl Display) {
        out::note(note);
    }

    /// True if people watch progress on a terminal.
    pub fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// From now on there is no progress line, and no rows for people unless they are asked for.
    pub fn show_progress_elsewhere(&self) {
        self.0.progress_is_elsewhere.store(true, Relaxed);
    }

    /// True after [`Self::show_progress_elsewhere`].
    pub fn is_progress_elsewhere(&self) -> bool {
        self.0.progress_is_elsewhere.load(Relaxed)
    }

    /// A live line for a run of `total` steps, 0 for no known end. Silent when `wanted` is false,
    /// when progress is shown elsewhere, or when stderr is not a terminal.
    pub fn live_line(&self, wanted: bool, total: u64) -> LiveLine {
        LiveLine::new(wanted && !self.is_progress_elsewhere(), total)
    }

    /// Rows and reports for programs that follow the command.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// From now on counts are kept.
    pub fn keep_counts(&self) {
        self.0.registry.enable();
    }

    /// Lets `read` add its counts at each scrape until the result is dropped.
    pub fn count_in(&self, read: impl Fn(&mut MetricSet) + Send + 'static) -> Counted {
        Registry::enter(&self.0.registry, Box::new(read), false)
    }

    /// Lets `read` add the counts of a sender at each scrape until the result is dropped. Senders
    /// are read last, so that no more was received than sent.
    pub fn count_sender_in(&self, read: impl Fn(&mut MetricSet) + Send + 'static) -> Counted {
        Registry::enter(&self.0.registry, Box::new(read), true)
    }

    /// The present counts of everything that counts, and the sums of what has ended; and true once
    /// something has counted.
    pub fn counts(&self) -> (MetricSet, bool) {
        self.0.registry.read()
    }

    /// Offers the control of a run that sends until the result is dropped.
    pub fn offer(&self, control: Arc<dyn RunControl>) -> Offered {
        RunControls::offer(&self.0.controls, control)
    }

    /// The control of the run that sends at present.
    pub fn control(&self) -> Option<Arc<dyn RunControl>> {
        self.0.controls.present()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::TextFormat;
    use metrics::families::RECEIVE_FRAMES;

    /// All of it belonged to the process.
    #[test]
    fn two_commands_of_one_process_do_not_meet() {
        let commands = [3, 7].map(|frames| {
            let console = Console::default();
            let run = move || {
                console.keep();
                console.keep_counts();
                console.events().follow();
                let count = move |set: &mut MetricSet| set.count(&RECEIVE_FRAMES, &["x", ""], frames);
                drop(console.count_in(count));
                console.text("begins\n").unwrap();
                console.report(RowFormat::Json, &format!("{{\"frames\":{frames}}}\n"), &frames).unwrap();
                console
            };
            (frames, std::thread::spawn(run))
        });
        for (frames, command) in commands {
            let console = command.join().unwrap();
            let counts = console.counts().0.text(TextFormat::Prometheus);
            assert!(counts.ends_with(&format!("netns=\"\"}} {frames}\n")), "{counts}");
            let line = format!("{{\"frames\":{frames}}}");
            assert_eq!(console.take_kept(), Some(format!("begins\n{line}\n")));
            assert_eq!(console.events().report_text(), frames.to_string());
            assert_eq!(console.events().follow().lines_from(0).0, [line]);
        }
    }
}
