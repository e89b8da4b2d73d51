//! Runs of several threads that begin at the same time, whatever becomes of one of the threads.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Where threads wait for each other; made for their number.
#[derive(Debug)]
pub struct Together {
    missing: Mutex<usize>,
    all_here: Condvar,
}

impl Together {
    /// For so many runs, each on a thread of its own.
    pub fn new(runs: usize) -> Self {
        Self { missing: Mutex::new(runs), all_here: Condvar::new() }
    }

    /// One more is here, or will not come.
    fn arrive(&self) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.all_here.notify_all();
        }
    }

    fn wait(&self) {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |missing: &mut usize| *missing > 0;
        drop(self.all_here.wait_while(missing, is_early).unwrap_or_else(PoisonError::into_inner));
    }
}

/// The part of one run in it: a run that is dropped before its turn keeps nobody waiting.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Together>>);

impl Turn {
    /// Of a run that begins with others, or alone.
    pub(crate) fn of(together: Option<Arc<Together>>) -> Self {
        Self(together)
    }

    /// Waits until all others are here or will not come.
    pub(crate) fn wait(&mut self) {
        if let Some(together) = self.0.take() {
            together.arrive();
            together.wait();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(together) = self.0.take() {
            together.arrive();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn all_wait_for_the_last_and_for_nobody_who_will_not_come() {
        let together = Arc::new(Together::new(4));
        let (here, begun) = channel();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (mut turn, here) = (Turn::of(Some(Arc::clone(&together))), here.clone());
                thread::spawn(move || {
                    turn.wait();
                    here.send(()).expect("the test listens");
                })
            })
            .collect();
        let [stopped, panics] = [0; 2].map(|_| Turn::of(Some(Arc::clone(&together))));
        drop(stopped);
        assert_eq!(begun.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        let panicked = thread::spawn(move || {
            let _turn = panics;
            panic!("on purpose, before its turn");
        });
        assert!(panicked.join().is_err());
        waiters.into_iter().for_each(|waiter| waiter.join().expect("it goes on"));
        assert_eq!(begun.try_iter().count(), 2);
    }
}
