//! Reads and writes that have no answer yet, and signals to the processes that wait for them.

use crate::tree::Cancel;
use std::collections::{HashMap, VecDeque};

/// Interrupts remembered for requests that have not begun yet.
const EARLY_INTERRUPTS: usize = 64;

/// Requests by their numbers, and interrupts that overtook theirs.
#[derive(Debug, Default)]
pub(super) struct Pending {
    requests: HashMap<u64, Cancel>,
    early: VecDeque<u64>,
}

impl Pending {
    /// Registers a request; an interrupt that overtook it has fired its token already.
    pub(super) fn begin(&mut self, unique: u64) -> Cancel {
        let cancel = Cancel::new();
        if let Some(index) = self.early.iter().position(|early| *early == unique) {
            self.early.remove(index);
            cancel.fire();
        }
        self.requests.insert(unique, cancel.clone());
        cancel
    }

    /// The request has its answer.
    pub(super) fn end(&mut self, unique: u64) {
        self.requests.remove(&unique);
    }

    /// The process that waits for the request got a signal.
    pub(super) fn interrupt(&mut self, unique: u64) {
        if let Some(cancel) = self.requests.get(&unique) {
            cancel.fire();
            return;
        }
        if self.early.len() == EARLY_INTERRUPTS {
            self.early.pop_front();
        }
        self.early.push_back(unique);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_overtakes_its_request_is_not_lost() {
        let mut pending = Pending::default();
        pending.interrupt(12);
        assert!(!pending.begin(10).is_fired());
        assert!(pending.begin(12).is_fired());
        assert!(!pending.begin(12).is_fired(), "it is spent");
        (0..1000).for_each(|unique| pending.interrupt(1000 + unique));
        assert_eq!(
            pending.early.len(),
            EARLY_INTERRUPTS,
            "those whose request has ended are not kept for good"
        );
    }
}
