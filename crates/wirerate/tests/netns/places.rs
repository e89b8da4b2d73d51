//! Places for a number of users at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of places.
#[derive(Debug)]
pub(crate) struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    pub(crate) const fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Adds `count` places.
    pub(crate) fn add(&self, count: usize) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += count;
        self.freed.notify_all();
    }

    /// Waits for a place.
    pub(crate) fn take(&'static self) -> Place {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.freed.wait_while(free, |free| *free == 0);
        *found.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self)
    }
}

/// One of the places. It is free again when this is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Place(&'static Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.add(1);
    }
}
