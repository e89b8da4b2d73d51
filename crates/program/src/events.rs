//! Lines of JSON for programs that follow a command over HTTP (`--web`): the rows and reports that
//! `--json --every-second` prints, whether they are printed or not.

use metrics::EventLog;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The rows and reports of one command.
#[derive(Debug, Default)]
pub struct Events {
    log: OnceLock<Arc<EventLog>>,
    /// The reports so far as text.
    reports: Mutex<String>,
}

impl Events {
    fn reports(&self) -> MutexGuard<'_, String> {
        // A panic leaves text behind, which stays valid.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on lines are kept. Returns where.
    pub fn follow(&self) -> Arc<EventLog> {
        Arc::clone(self.log.get_or_init(Arc::default))
    }

    /// True after [`Self::follow`].
    pub fn are_followed(&self) -> bool {
        self.log.get().is_some()
    }

    /// Adds a line of JSON if lines are kept.
    pub fn add(&self, line: impl FnOnce() -> String) {
        if let Some(log) = self.log.get() {
            log.add(&line());
        }
    }

    /// Adds a report: its lines of JSON, and its text for people.
    pub fn add_report(&self, lines: &str, text: &str) {
        if let Some(log) = self.log.get() {
            lines.lines().for_each(|line| log.add(line));
            self.reports().push_str(text);
        }
    }

    /// The reports so far as text.
    pub fn report_text(&self) -> String {
        self.reports().clone()
    }
}
