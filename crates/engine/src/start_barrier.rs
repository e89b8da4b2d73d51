//! A barrier at which runs of several threads start at the same instant, also if a thread fails.

use crate::clock::{Clock, SystemClock};
use host::StartTime;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A barrier for a number of threads.
#[derive(Debug)]
pub struct StartBarrier {
    state: Mutex<BarrierState>,
    all_here: Condvar,
    /// The runs start at a requested time, which may be set later.
    is_timed: bool,
}

/// Runs that wait for the time to start at, once their engines are built.
#[derive(Clone, Debug)]
pub struct StartGate(Arc<StartBarrier>);

impl StartGate {
    /// A gate, and its barrier for the orders of this number of threads.
    pub fn with_barrier(threads: usize) -> (Self, Arc<StartBarrier>) {
        let barrier = Arc::new(StartBarrier::held(threads));
        (Self::of(Arc::clone(&barrier)), barrier)
    }

    /// Of a barrier that is held.
    pub(crate) fn of(barrier: Arc<StartBarrier>) -> Self {
        Self(barrier)
    }

    /// Waits up to `timeout` until all runs are ready to start, or have failed; true if they are.
    pub fn wait_until_ready(&self, timeout: Duration) -> bool {
        let is_early = |state: &mut BarrierState| state.missing > 0;
        let waited = self.0.all_here.wait_timeout_while(self.0.lock(), timeout, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0.missing == 0
    }

    /// Lets the runs start at `time`, or once all are ready. The first call counts. Runs that are
    /// not ready at the time fail with [`crate::EngineError::ReadyTooLate`].
    pub fn open(&self, time: Option<StartTime>) {
        let mut state = self.0.lock();
        if let BarrierTime::Held = state.time {
            state.time = time.map_or(BarrierTime::Ready, BarrierTime::At);
            self.0.decide(&mut state);
        }
    }
}

/// When the runs of a barrier are to start.
#[derive(Clone, Copy, Debug)]
enum BarrierTime {
    Ready,
    At(StartTime),
    /// At a time that a [`StartGate`] gets later.
    Held,
}

/// When the runs of a barrier start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupStart {
    /// At this `CLOCK_MONOTONIC`, when the last thread arrived.
    Ready(u64),
    /// At the requested time.
    At(StartTime),
    /// Not at all: the last thread arrived this long after the requested time.
    TooLate(u64),
}

#[derive(Debug)]
struct BarrierState {
    missing: usize,
    time: BarrierTime,
    /// Set when the last thread arrives.
    start: Option<GroupStart>,
}

impl StartBarrier {
    /// For this number of threads, each with one order. The runs start when all are ready, or at
    /// `start_at` if all are ready before.
    pub fn new(threads: usize, start_at: Option<StartTime>) -> Self {
        Self::with_time(threads, start_at.map_or(BarrierTime::Ready, BarrierTime::At))
    }

    /// For runs that start at a time that is set later.
    pub(crate) fn held(threads: usize) -> Self {
        Self::with_time(threads, BarrierTime::Held)
    }

    fn with_time(threads: usize, time: BarrierTime) -> Self {
        Self {
            state: Mutex::new(BarrierState { missing: threads, time, start: None }),
            all_here: Condvar::new(),
            is_timed: !matches!(time, BarrierTime::Ready),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another thread is ready, or has failed.
    fn arrive(&self) {
        let mut state = self.lock();
        state.missing = state.missing.saturating_sub(1);
        self.decide(&mut state);
    }

    /// Sets the start once all threads are here and its time is known.
    fn decide(&self, state: &mut BarrierState) {
        if state.missing > 0 {
            return;
        }
        let start = match state.time {
            BarrierTime::Ready => Some(GroupStart::Ready(SystemClock.now_ns())),
            BarrierTime::At(time) => Some(time.late_ns().map_or(GroupStart::At(time), GroupStart::TooLate)),
            BarrierTime::Held => None,
        };
        state.start = state.start.or(start);
        self.all_here.notify_all();
    }

    /// Waits up to `timeout` for the last thread; returns the start.
    fn wait(&self, timeout: Duration) -> Option<GroupStart> {
        let is_early = |state: &mut BarrierState| state.start.is_none();
        let waited = self.all_here.wait_timeout_while(self.lock(), timeout, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0.start
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
        Self { barrier: barrier.unwrap_or_else(|| Arc::new(StartBarrier::new(1, None))), has_arrived: false }
    }

    /// Arrives, and waits up to `timeout` for the others; returns the start, or `None` while one is
    /// missing.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<GroupStart> {
        self.arrive();
        self.barrier.wait(timeout)
    }

    /// True if the runs start at a requested time.
    pub(crate) fn has_start_time(&self) -> bool {
        self.barrier.is_timed
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
        let barrier = Arc::new(StartBarrier::new(4, None));
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

    #[test]
    fn a_gate_gives_runs_that_are_ready_their_time() {
        let barrier = Arc::new(StartBarrier::held(2));
        let gate = StartGate::of(Arc::clone(&barrier));
        let mut tickets = [(); 2].map(|()| Ticket::of(Some(Arc::clone(&barrier))));
        assert_eq!(tickets[0].wait(Duration::ZERO), None);
        assert!(!gate.wait_until_ready(Duration::ZERO), "one is missing");
        assert_eq!(tickets[1].wait(Duration::ZERO), None, "all are here, without a time");
        assert!(gate.wait_until_ready(Duration::ZERO));
        let time = StartTime { unix_ns: SystemClock.wall_ns() + 3_600_000_000_000 };
        gate.open(Some(time));
        gate.open(Some(StartTime { unix_ns: 1 }));
        let starts = tickets.each_mut().map(|ticket| ticket.wait(Duration::ZERO));
        assert_eq!(starts, [Some(GroupStart::At(time)); 2], "the first time counts");
    }

    #[test]
    fn who_is_ready_after_the_requested_time_does_not_start() {
        let at = |unix_ns| Ticket::of(Some(Arc::new(StartBarrier::new(1, Some(StartTime { unix_ns })))));
        let later = StartTime { unix_ns: SystemClock.wall_ns() + 3_600_000_000_000 };
        assert_eq!(at(later.unix_ns).wait(Duration::ZERO), Some(GroupStart::At(later)));
        let past = at(SystemClock.wall_ns() - 300_000_000).wait(Duration::ZERO);
        assert!(matches!(past, Some(GroupStart::TooLate(late_ns)) if late_ns >= 300_000_000), "{past:?}");
    }
}
