//! Page pools that calls of the xdp engine leave behind.
//!
//! Each call makes a pool. If frames are still under way when the call ends, for example in a queue
//! behind the device, the kernel tries to free the pool each second, on the CPU that sent. This
//! work disturbs the run that follows.

use crate::select::tx_stats;
use bpf::TxStats;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the number is looked at.
const INTERVAL: Duration = Duration::from_millis(20);
/// Wait where the kernel does not tell the number: it looks at a pool after a second.
const UNKNOWN_WAIT: Duration = Duration::from_millis(1200);

/// The page pools of all sending threads of this process.
#[derive(Debug)]
pub struct PagePools {
    /// Kept, so that the count goes on between two runs; `None` without the privilege to load it.
    stats: Option<Arc<TxStats>>,
}

impl PagePools {
    /// Counts from now on, also while no run sends.
    pub fn watch() -> Self {
        Self { stats: tx_stats().ok() }
    }

    /// Pools that the kernel could not free yet; `None` if the kernel does not tell.
    pub fn left(&self) -> Option<u64> {
        self.stats.as_ref()?.page_pools_left()
    }

    /// Waits until no pool is left, up to `timeout` or until `is_stopped`. Returns the time that
    /// passed and the pools that are left. Where the kernel does not tell their number, it waits
    /// for the time in which the kernel frees most of them. A process without the privilege to
    /// count them makes none.
    pub fn wait(&self, timeout: Duration, is_stopped: impl Fn() -> bool) -> (Duration, u64) {
        if self.stats.is_none() {
            return (Duration::ZERO, 0);
        }
        let started = Instant::now();
        loop {
            let (elapsed, left) = (started.elapsed(), self.left());
            let is_done = left.map_or(elapsed >= UNKNOWN_WAIT, |left| left == 0);
            if is_done || elapsed >= timeout || is_stopped() {
                return (elapsed, left.unwrap_or(0));
            }
            std::thread::sleep(INTERVAL);
        }
    }
}
