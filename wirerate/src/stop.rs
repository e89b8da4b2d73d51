//! When to stop: Ctrl-C, SIGTERM and the end of the terminal set one flag that every worker reads; a second Ctrl-C or
//! SIGTERM quits at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after the second signal: what a shell reports for a command that died of SIGINT.
const STATUS_QUIT: i32 = 130;

/// The kernel refused a signal handler.
#[derive(Debug, thiserror::Error)]
#[error("no handler for signal {signal}")]
pub struct SignalError {
    signal: i32,
    source: io::Error,
}

/// A flag that says "end politely", shared by the signal handler and every worker.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that the first SIGINT, SIGTERM or SIGHUP sets; SIGINT or SIGTERM after that ends the process at once with
    /// status 130. Who was started by nohup(1) goes on.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn on_signals() -> Result<Self, SignalError> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of registration: this one sees the flag of the signal before.
            flag::register_conditional_shutdown(signal, STATUS_QUIT, stop.flag())
                .and_then(|_| flag::register(signal, stop.flag()))
                .map_err(|source| SignalError { signal, source })?;
        }
        if !is_ignored(SIGHUP) {
            flag::register(SIGHUP, stop.flag()).map_err(|source| SignalError { signal: SIGHUP, source })?;
        }
        Ok(stop)
    }

    /// True once somebody asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks everybody to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for workers that know nothing of this room.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// True for a signal that whoever started us wants us not to hear.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores(&status("0000000000001001"), SIGHUP));
        assert!(!ignores(&status("0000000000001000"), SIGHUP));
        assert!(!ignores("", SIGHUP));
    }

    #[test]
    fn a_signal_sets_the_flag_of_every_clone() {
        let stop = Stop::on_signals().unwrap();
        let clone = stop.clone();
        assert!(!clone.is_set());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(clone.is_set());
    }
}
