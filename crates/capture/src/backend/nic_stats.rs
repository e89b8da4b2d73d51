//! Frames that a network card lost because its buffers were full, from the counters of its driver.
//!
//! The kernel has a counter for them (`rx_missed_errors`). Some drivers count them in other
//! counters as well, some in two, and some count events instead of frames. So the table below names
//! the counters of known drivers; for all others `rx_missed_errors` is used.

use host::{Link, LinkCounters, Stack};

/// Where a driver counts frames that are not in `rx_missed_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    /// In `rx_fifo_errors`, together with those in `rx_missed_errors`: a queue without descriptors
    /// (RQDPC), and the card without memory (MPC).
    FifoHasAll,
    /// In one of the driver's own counters (`ethtool -S`), without those in `rx_missed_errors`.
    Own(&'static str),
}

/// As of Linux 6.18; from the sources of the drivers.
const ELSEWHERE: &[(&str, Elsewhere)] = &[
    ("igb", Elsewhere::FifoHasAll),
    ("igc", Elsewhere::FifoHasAll),
    ("ixgbe", Elsewhere::Own("rx_no_dma_resources")),
];

/// Counts the losses of one device from now on.
#[derive(Debug)]
pub(crate) struct NicLoss {
    elsewhere: Option<Elsewhere>,
    /// What its counters said at the start.
    before: u64,
}

impl NicLoss {
    /// Begins to count.
    pub(crate) fn new(stack: &Stack, link: &Link) -> Self {
        // A driver that cannot be asked for its name is none of those.
        let driver = stack.driver(link.index).ok().flatten().map(|driver| driver.name);
        let elsewhere = ELSEWHERE.iter().find(|(name, _)| driver.as_deref() == Some(*name));
        let mut loss = Self { elsewhere: elsewhere.map(|(_, elsewhere)| *elsewhere), before: 0 };
        loss.before = loss.total(stack, link.index, &link.counters);
        loss
    }

    /// Frames lost since then; `None` when the device does not say, because it is gone.
    pub(crate) fn now(&self, stack: &Stack, index: u32) -> Option<u64> {
        let now = stack.link(index).ok()?;
        Some(self.total(stack, index, &now.counters).wrapping_sub(self.before))
    }

    fn total(&self, stack: &Stack, index: u32, counters: &LinkCounters) -> u64 {
        let own = |wanted| {
            let counters = stack.driver_counters(index).unwrap_or_default();
            counters.into_iter().find(|(name, _)| name == wanted).map_or(0, |(_, count)| count)
        };
        match self.elsewhere {
            None => counters.rx_missed,
            Some(Elsewhere::FifoHasAll) => counters.rx_fifo.max(counters.rx_missed),
            Some(Elsewhere::Own(name)) => counters.rx_missed + own(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_two_counters_are_counted_once() {
        let counters = LinkCounters { rx_missed: 3, rx_fifo: 10, ..LinkCounters::default() };
        let total = |elsewhere| {
            let loss = NicLoss { elsewhere, before: 0 };
            // Nothing is asked of the kernel for these.
            loss.total(&Stack::here().unwrap(), 1, &counters)
        };
        assert_eq!(total(None), 3, "who knows what else is in the other one");
        assert_eq!(total(Some(Elsewhere::FifoHasAll)), 10);
        // The loopback device has no such counter.
        assert_eq!(total(Some(Elsewhere::Own("rx_no_dma_resources"))), 3);
    }
}
