//! A runner that makes every frame, at its pace, and throws it away: for tests, and to try scripts.

use super::runner::{Ending, Order, Runner, Running, Standing, Why};
use crate::Cancel;
use host::{monotonic_ns, realtime_ns};
use packet::{NEVER_NS, WallTime};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Frames between two looks at the wishes of others, when nothing is paced.
const CHUNK: u32 = 1000;
/// A waiting run looks up at least this often.
const NAP_NS: u64 = 5_000_000;

/// Sends nothing. Runs of one thread of the tree go on side by side, each on a thread of its own.
#[derive(Debug, Default)]
pub struct DryRunner;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    stop: Cancel,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    count: u64,
    delay_ns: u64,
    ending: Option<Ending>,
    has_ended: bool,
}

impl Runner for DryRunner {
    fn begin(&self, orders: Vec<Order>) -> Vec<Arc<dyn Running>> {
        orders.into_iter().map(begin).collect()
    }
}

fn begin(order: Order) -> Arc<dyn Running> {
    let standing = Standing {
        sent: 0,
        errors: 0,
        idle_ns: 0,
        started_ns: monotonic_ns(),
        cursor: order.cursor.clone(),
        engine: Some("dry"),
        next_ns: None,
    };
    let (count, delay_ns) = (order.count, order.config.delay_ns);
    let state = State { standing, count, delay_ns, ending: None, has_ended: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new(), stop: Cancel::new() });
    let work = Arc::clone(&shared);
    thread::spawn(move || work.serve(order));
    Arc::new(DryRun(shared))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut order: Order) {
        let mut frame = vec![0; order.plan.frame_len_max() as usize];
        let mut next_ns = order.next_ns.unwrap_or_else(monotonic_ns);
        let burst = u64::from(order.config.frames_each_call());
        while !self.stop.is_fired() {
            let (left, delay_ns) = {
                let state = self.lock();
                let left =
                    if state.count == 0 { u64::MAX } else { state.count.saturating_sub(state.standing.sent) };
                (left, state.delay_ns)
            };
            if left == 0 {
                break;
            }
            let waited_ns = self.wait_for(next_ns, delay_ns);
            let frames = match delay_ns {
                0 => u64::from(CHUNK).min(left),
                NEVER_NS => 0,
                _ if monotonic_ns() >= next_ns => burst.min(u64::from(CHUNK)).min(left),
                _ => 0,
            };
            for _ in 0..frames {
                order.plan.emit(&mut order.cursor, WallTime::from_ns(realtime_ns()), &mut frame);
            }
            if frames > 0 && delay_ns != NEVER_NS {
                next_ns += delay_ns;
            }
            let mut state = self.lock();
            state.standing.sent += frames;
            state.standing.idle_ns += waited_ns;
            state.standing.cursor.clone_from(&order.cursor);
        }
        let mut state = self.lock();
        state.standing.next_ns = Some(next_ns);
        state.ending =
            Some(Ending { last: state.standing.clone(), stopped_ns: monotonic_ns(), why: Why::Done });
        state.has_ended = true;
        self.ended.notify_all();
    }

    /// Waits a little for the next frame; the time that took.
    fn wait_for(&self, next_ns: u64, delay_ns: u64) -> u64 {
        let before_ns = monotonic_ns();
        let left_ns =
            if delay_ns == NEVER_NS { NAP_NS } else { next_ns.saturating_sub(before_ns).min(NAP_NS) };
        if delay_ns == 0 || left_ns == 0 {
            return 0;
        }
        self.stop.wait(Duration::from_nanos(left_ns));
        monotonic_ns() - before_ns
    }
}

struct DryRun(Arc<Shared>);

impl Running for DryRun {
    fn standing(&self) -> Option<Standing> {
        Some(self.0.lock().standing.clone())
    }

    fn change_terms(&self, order: Order) {
        let mut state = self.0.lock();
        state.count = order.count;
        state.delay_ns = order.config.delay_ns;
    }

    fn stop(&self) {
        self.0.stop.fire();
    }

    fn wait_for_end(&self, timeout: Duration) -> bool {
        let goes_on = |state: &mut State| !state.has_ended;
        let waited = self.0.ended.wait_timeout_while(self.0.lock(), timeout, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    fn take_ending(&self) -> Option<Ending> {
        self.0.lock().ending.take()
    }
}

impl Drop for DryRun {
    fn drop(&mut self) {
        self.stop();
    }
}
