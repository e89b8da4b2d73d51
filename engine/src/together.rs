//! Runs of several threads that begin at the same instant, whatever becomes of one of the threads.

use crate::clock::{Clock, SystemClock};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where threads wait for each other; made for their number.
#[derive(Debug)]
pub struct Together {
    state: Mutex<State>,
    all_here: Condvar,
}

#[derive(Debug)]
struct State {
    missing: usize,
    /// `CLOCK_MONOTONIC` when the last thread arrived: all runs begin then.
    start_ns: Option<u64>,
}

impl Together {
    /// For that many threads, each with one order.
    pub fn new(threads: usize) -> Self {
        Self { state: Mutex::new(State { missing: threads, start_ns: None }), all_here: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more thread has its engines, or will not come.
    fn arrive(&self) {
        let mut state = self.lock();
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 {
            state.start_ns.get_or_insert_with(|| SystemClock.now_ns());
            self.all_here.notify_all();
        }
    }

    /// Waits for the last thread, `timeout` at most; the instant at which all begin.
    fn wait(&self, timeout: Duration) -> Option<u64> {
        let is_early = |state: &mut State| state.start_ns.is_none();
        let waited = self.all_here.wait_timeout_while(self.lock(), timeout, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0.start_ns
    }
}

/// The part of one thread in it: an order that is dropped before it has begun keeps no other thread waiting.
#[derive(Debug)]
pub(crate) struct Turn {
    together: Arc<Together>,
    has_arrived: bool,
}

impl Turn {
    /// Of an order that begins with those of other threads, or alone.
    pub(crate) fn of(together: Option<Arc<Together>>) -> Self {
        Self { together: together.unwrap_or_else(|| Arc::new(Together::new(1))), has_arrived: false }
    }

    /// This thread is ready. Waits for the others, `timeout` at most; the instant at which all begin, `None` while one is
    /// missing.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<u64> {
        self.arrive();
        self.together.wait(timeout)
    }

    fn arrive(&mut self) {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.together.arrive();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.arrive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn all_wait_for_the_last_and_for_no_thread_that_will_not_come() {
        let together = Arc::new(Together::new(4));
        let (here, begun) = channel();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (mut turn, here) = (Turn::of(Some(Arc::clone(&together))), here.clone());
                thread::spawn(move || {
                    let early = turn.wait(Duration::ZERO);
                    here.send(early).expect("the test listens");
                    turn.wait(Duration::from_secs(60)).expect("it goes on")
                })
            })
            .collect();
        let [stopped, panics] = [0; 2].map(|_| Turn::of(Some(Arc::clone(&together))));
        drop(stopped);
        assert_eq!([begun.recv(), begun.recv()], [Ok(None), Ok(None)], "one thread is missing");
        let panicked = thread::spawn(move || {
            let _turn = panics;
            panic!("on purpose, before its turn");
        });
        assert!(panicked.join().is_err());
        let starts: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().expect("it goes on")).collect();
        assert_eq!(starts[0], starts[1], "one instant for all");
    }
}
