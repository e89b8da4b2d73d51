//! Something that threads wait for, any number of times.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts how often something has happened, and wakes the threads that wait for it.
#[derive(Debug, Default)]
pub struct Event {
    times: Mutex<u64>,
    happened: Condvar,
}

impl Event {
    /// How often it has happened.
    pub fn times(&self) -> u64 {
        *self.lock()
    }

    /// It has happened once more.
    pub fn notify(&self) {
        *self.lock() += 1;
        self.happened.notify_all();
    }

    /// Waits at most `timeout` until it has happened more than `seen` times.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        drop(self.happened.wait_timeout_while(self.lock(), timeout, |times| *times <= seen));
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
