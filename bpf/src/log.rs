//! Keeps what libbpf prints while an object is loaded, instead of letting it write to the terminal.
//!
//! libbpf has one print function for the whole process and calls it on the thread that loads, so the lines are
//! kept for each thread.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static LINES: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` and returns its result with everything that libbpf printed meanwhile on this thread.
pub fn collect<T>(work: impl FnOnce() -> T) -> (T, String) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep)));
    });
    LINES.with_borrow_mut(|lines| *lines = Some(String::new()));
    let result = work();
    let printed = LINES.with_borrow_mut(Option::take).unwrap_or_default();
    (result, printed)
}

fn keep(_level: libbpf_rs::PrintLevel, text: String) {
    LINES.with_borrow_mut(|lines| {
        if let Some(lines) = lines {
            lines.push_str(&text);
        }
    });
}
