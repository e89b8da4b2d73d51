//! The seam to what sends: orders go out, and what became of them comes back.
//!
//! The control room knows files and commands; a [`Runner`] knows threads, engines and devices. An order is a
//! plan and where to start in it, so that a run can be ended, changed and gone on with at any frame.

use packet::{Config, Cursor, Plan};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One run to be made.
#[derive(Clone, Debug)]
pub struct Order {
    /// The interface, by its name in the tree's network namespace.
    pub ifname: String,
    /// The CPU of the thread that sends.
    pub cpu: u32,
    /// What was asked for: mode, pace, batch.
    pub config: Config,
    /// What each frame will be.
    pub plan: Plan,
    /// Where the first frame starts from.
    pub cursor: Cursor,
    /// Frames to send, 0 for no end. Frames that meet an error do not count.
    pub count: u64,
    /// When its first frame is due, on the monotonic clock, where it continues a run after a command; `None` for at once.
    pub next_ns: Option<u64>,
}

/// Where a run stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Frames handed over.
    pub sent: u64,
    /// Frames that failed.
    pub errors: u64,
    /// Time spent waiting.
    pub idle_ns: u64,
    /// When it began, on the monotonic clock.
    pub started_ns: u64,
    /// Where the next frame starts from.
    pub cursor: Cursor,
    /// The engine at work.
    pub engine: Option<&'static str>,
    /// When the next frame is due, on the monotonic clock; told at the end, `None` where there is no such time.
    pub next_ns: Option<u64>,
}

/// Why a run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All frames were sent, or it was told to stop.
    Done,
    /// The device is gone, down, or without carrier: for pktgen a normal end.
    DeviceGone,
    /// It could not be begun, or not gone on with; in words for the `Result:` line.
    Failed(String),
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Where it stood at the end.
    pub last: Standing,
    /// When it ended, on the monotonic clock.
    pub stopped_ns: u64,
    /// Why.
    pub why: Why,
}

impl Ending {
    /// Of an order that was over as soon as it was given, at `now_ns`.
    pub fn at_once(order: &Order, now_ns: u64, why: Why) -> Self {
        let last = Standing {
            sent: 0,
            errors: 0,
            idle_ns: 0,
            started_ns: now_ns,
            cursor: order.cursor.clone(),
            engine: None,
            next_ns: order.next_ns,
        };
        Self { last, stopped_ns: now_ns, why }
    }
}

/// A run that was over as soon as it was ordered: it only has its end to tell.
pub(super) struct Over(Mutex<Option<Ending>>);

impl Over {
    /// With this end.
    pub(super) fn with(ending: Ending) -> Self {
        Self(Mutex::new(Some(ending)))
    }
}

impl Running for Over {
    fn standing(&self) -> Option<Standing> {
        None
    }

    fn change_terms(&self, _order: Order) {}

    fn stop(&self) {}

    fn wait_for_end(&self, _timeout: Duration) -> bool {
        true
    }

    fn take_ending(&self) -> Option<Ending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A run in progress. All calls come back at once, but for [`Running::wait_for_end`].
pub trait Running: Send + Sync {
    /// Where it stands, at most some 10 ms old; `None` before it began.
    fn standing(&self) -> Option<Standing>;

    /// Goes on with another count and another pace. Everything else in `order` is as it was.
    fn change_terms(&self, order: Order);

    /// Asks it to end soon.
    fn stop(&self);

    /// As [`Running::stop`], for one that another order continues.
    fn pause(&self) {
        self.stop();
    }

    /// Waits for its end, `timeout` at most; true once it has ended.
    fn wait_for_end(&self, timeout: Duration) -> bool;

    /// What became of it, once it has ended; it can be taken once.
    fn take_ending(&self) -> Option<Ending>;
}

/// Threads that send, one a CPU. Runs of one thread share it in turns.
pub trait Runner: Send + Sync + 'static {
    /// Begins runs, all at the same instant, as soon as their engines are built; one for each order. What keeps a run
    /// from beginning is its end.
    fn begin(&self, orders: Vec<Order>) -> Vec<Arc<dyn Running>>;
}
