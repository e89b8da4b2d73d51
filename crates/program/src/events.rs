//! Lines of JSON for programs that follow a command over HTTP (`--web`): the rows and reports that
//! `--json --every-second` prints, whether they are printed or not.

use metrics::EventLog;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

static LOG: OnceLock<Arc<EventLog>> = OnceLock::new();
/// The reports so far as text.
static REPORTS: Mutex<String> = Mutex::new(String::new());

fn reports() -> MutexGuard<'static, String> {
    // A panic leaves text behind, which stays valid.
    REPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on lines are kept. Returns where.
pub fn follow() -> Arc<EventLog> {
    Arc::clone(LOG.get_or_init(Arc::default))
}

/// True after [`follow`].
pub fn are_followed() -> bool {
    LOG.get().is_some()
}

/// Adds a line of JSON if lines are kept.
pub fn add(line: impl FnOnce() -> String) {
    if let Some(log) = LOG.get() {
        log.add(&line());
    }
}

/// Adds a report: its lines of JSON, and its text for people.
pub fn add_report(lines: &str, text: &str) {
    if let Some(log) = LOG.get() {
        lines.lines().for_each(|line| log.add(line));
        reports().push_str(text);
    }
}

/// The reports so far as text.
pub fn report_text() -> String {
    reports().clone()
}
