//! A barrier at which runs of several threads start at the same instant, also if a thread fails.

use crate::clock::{Clock, SystemClock};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A barrier for a number of threads.
#[derive(Debug)]
pub struct StartBarrier {
    state: Mutex<BarrierState>,
    all_here: Condvar,
}

#[derive(Debug)]
struct BarrierState {
    missing: usize,
    /// `CLOCK_MONOTONIC` when the last thread arrived, which is the start of all runs.
    start_ns: Option<u64>,
}

impl StartBarrier {
    /// For this number of threads, each with one order.
    pub fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(BarrierState { missing: threads, start_ns: None }),
            all_here: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another thread is ready, or has failed.
    fn arrive(&self) {
        let mut state = self.lock();
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 {
            state.start_ns.get_or_insert_with(|| SystemClock.now_ns());
            self.all_here.notify_all();
        }
    }

    /// Waits up to `timeout` for the last thread; returns the start.
    fn wait(&self, timeout: Duration) -> Option<u64> {
        let is_early = |state: &mut BarrierState| state.start_ns.is_none();
        let waited = self.all_here.wait_timeout_while(self.lock(), timeout, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0.start_ns
    }
}

/// Ticket of one thread. If it is dropped before the start, the other threads do not wait for it.
#[derive(Debug)]
pub(crate) struct Ticket {
    barrier: Arc<StartBarrier>,
    has_arrived: bool,
}

impl Ticket {
    /// For an order with a barrier, or a single one.
    pub(crate) fn of(barrier: Option<Arc<StartBarrier>>) -> Self {
        Self { barrier: barrier.unwrap_or_else(|| Arc::new(StartBarrier::new(1))), has_arrived: false }
    }

    /// Arrives, and waits up to `timeout` for the others; returns the start, or `None` while one is
    /// missing.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<u64> {
        self.arrive();
        self.barrier.wait(timeout)
    }

    fn arrive(&mut self) {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.barrier.arrive();
        }
    }
}

impl Drop for Ticket {
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
        let barrier = Arc::new(StartBarrier::new(4));
        let (here, begun) = channel();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (mut ticket, here) = (Ticket::of(Some(Arc::clone(&barrier))), here.clone());
                thread::spawn(move || {
                    let early = ticket.wait(Duration::ZERO);
                    here.send(early).expect("the test listens");
                    ticket.wait(Duration::from_secs(60)).expect("it goes on")
                })
            })
            .collect();
        let [stopped, panics] = [0; 2].map(|_| Ticket::of(Some(Arc::clone(&barrier))));
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
