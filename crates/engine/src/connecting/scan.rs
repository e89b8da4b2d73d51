//! Looks through the connections, a part at a time, for those that need an order.

use bpf::{ConnectProgram, LIST_MAX};
use connect::{Due, Order, Scan, Settings, State, TIME_SHIFT};

/// Entries of one step: about 10 µs if none is in the caches.
const STEP: usize = 512;
/// Time from the begin of one pass to that of the next, while connections are opened.
const PASS_NS: u64 = 100_000_000;
/// Time while connections are closed.
const CLOSING_PASS_NS: u64 = 5_000_000;

/// A place in the table.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    next: usize,
    pass_at_ns: u64,
}

impl Scanner {
    /// Appends the orders of the next part of the table, at most as many as a list holds. Returns
    /// false if no pass is due.
    pub(super) fn step(
        &mut self,
        program: &ConnectProgram,
        scan: &Scan,
        settings: &Settings,
        has_client_limit: bool,
        now_ns: u64,
        orders: &mut Vec<(u32, Order)>,
    ) -> bool {
        if self.next == 0 {
            let pass_ns = if scan.closes { CLOSING_PASS_NS } else { PASS_NS };
            if now_ns < self.pass_at_ns + pass_ns {
                return false;
            }
            self.pass_at_ns = now_ns;
        }
        // With a limit for each client, the program uses places all over the table.
        let used = match has_client_limit {
            true => program.len(),
            false => program.next_index().min(program.len() as u64) as usize,
        };
        let end = used.min(self.next + STEP);
        let now = (now_ns >> TIME_SHIFT) as u32;
        while self.next < end && orders.len() < LIST_MAX {
            let index = self.next;
            self.next += 1;
            let state = program.state(index);
            let waits = state == State::Open && settings.holds && !scan.closes;
            if !state.is_open() || waits {
                continue;
            }
            if let Due::Needs(order) = program.connection(index).due(scan, settings, now) {
                orders.push((index as u32, order));
            }
        }
        if self.next >= used {
            self.next = 0;
        }
        true
    }
}
