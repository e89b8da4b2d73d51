//! Collects the output of libbpf while an object is loaded.
//!
//! libbpf has one print function per process and calls it on the loading thread, so the lines are
//! kept per thread.

use crate::error::BpfError;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static LINES: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Loads or attaches `object`. An error has the output of libbpf on this thread.
///
/// # Errors
/// [`BpfError::Load`].
pub fn loading<T>(object: &'static str, work: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, BpfError> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep)));
    });
    LINES.with_borrow_mut(|lines| *lines = Some(String::new()));
    let result = work();
    let log = LINES.with_borrow_mut(Option::take).unwrap_or_default();
    result.map_err(|error| BpfError::Load { object, reason: error.to_string(), log })
}

/// Adds to the output of libbpf on this thread.
pub(crate) fn add(text: String) {
    keep(libbpf_rs::PrintLevel::Warn, text);
}

fn keep(_level: libbpf_rs::PrintLevel, text: String) {
    LINES.with_borrow_mut(|lines| {
        if let Some(lines) = lines {
            lines.push_str(&text);
        }
    });
}
