//! What user space orders for a connection, and which connections need an order.

use crate::connection::{Connection, Flag, State, TIME_SHIFT, is_after};
use crate::counts::{Counts, Events};
use crate::rules::Step;
use crate::segment::{ACK, Departure, RST};
use crate::settings::Settings;

/// What the sending program does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Order {
    /// Sends a request that did not fit into the frame of the answer.
    Later = 0,
    /// Sends again what the server has not acknowledged.
    Again = 1,
    /// Gives it up: timeout.
    GiveUp = 2,
    /// Ends a held connection.
    Close = 3,
    /// Sends a request on a held connection.
    Ask = 4,
}

/// First retransmission time, in units of a connection's times; it doubles with each try.
const RETRANSMIT_AFTER: u32 = (1_000_000_000_u64 >> TIME_SHIFT) as u32;
/// More tries would overflow the time.
const TRIES_MAX: u8 = 7;

/// How connections are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Timeout without progress, in units of a connection's times; at most 2^31.
    pub timeout: u32,
    /// True if datagrams are sent: they are not sent again.
    pub is_udp: bool,
    /// True once held connections are to be closed.
    pub closes: bool,
}

/// What a look at a connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is not open.
    Ended,
    /// It needs nothing now.
    Waits,
    /// It needs this.
    Needs(Order),
}

impl Connection {
    /// What the connection needs at the time `now`.
    pub fn due(&self, scan: &Scan, settings: &Settings, now: u32) -> Due {
        if !self.state.is_open() {
            return Due::Ended;
        }
        if self.state == State::Open && settings.holds {
            return if scan.closes { Due::Needs(Order::Close) } else { Due::Waits };
        }
        // The program may have made progress after the time was read.
        let waited = now.wrapping_sub(self.progress_at).cast_signed().max(0).cast_unsigned();
        if waited > scan.timeout {
            return Due::Needs(Order::GiveUp);
        }
        let has_outstanding = is_after(self.snd_nxt, self.snd_una) && self.state != State::Open;
        if scan.is_udp || !has_outstanding {
            return Due::Waits;
        }
        // Tries at 1, 3, 7, 15 s after the last progress.
        let after = (RETRANSMIT_AFTER << (self.tries.min(TRIES_MAX) + 1)) - RETRANSMIT_AFTER;
        if self.has(Flag::Due) || waited > after { Due::Needs(Order::Again) } else { Due::Waits }
    }

    /// Carries out an order; the segment to send, if any.
    pub fn obey(
        &mut self,
        order: Order,
        settings: &Settings,
        now: u32,
        counts: &mut Counts,
        events: &mut Events,
    ) -> Option<Departure> {
        let step = &mut Step { settings, counts, events, now };
        match order {
            Order::GiveUp => {
                if !self.state.is_open() {
                    return None;
                }
                let reset = Departure {
                    flags: RST | ACK,
                    seq: self.snd_nxt,
                    ack: self.rcv_nxt,
                    ..Departure::default()
                };
                let sends = self.state != State::SynSent;
                step.counts.timeout += 1;
                self.over(State::Timeout, step);
                return sends.then_some(reset);
            }
            Order::Close => {
                if self.state != State::Open {
                    return None;
                }
                self.finish(step);
            }
            Order::Ask => {
                if self.state != State::Open || settings.request_len == 0 {
                    return None;
                }
                self.ask(step);
            }
            Order::Later | Order::Again => {
                if !self.state.is_open() || self.state == State::Open || self.snd_una == self.snd_nxt {
                    return None;
                }
                if order == Order::Again {
                    self.count_try(step.counts);
                }
            }
        }
        Some(self.state_segment(settings))
    }

    fn count_try(&mut self, counts: &mut Counts) {
        self.clear(Flag::Due);
        self.tries = self.tries.saturating_add(1);
        let count = if self.state == State::SynSent {
            &mut counts.syn_resent
        } else if is_after(self.data_end(), self.snd_una) {
            &mut counts.requests_resent
        } else {
            &mut counts.fins_resent
        };
        *count += 1;
    }
}
