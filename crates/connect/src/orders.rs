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
    /// Sends a request that did not fit into the frame of the answer, or an ACK that was delayed.
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
/// Longest delay of an ACK, before the next look at the connection. Servers repeat data after 200
/// ms.
const DELAYED_ACK: u32 = (40_000_000_u64 >> TIME_SHIFT) as u32;
/// The time of the last try is above the longest timeout, which is 5 minutes.
const TRIES_MAX: u8 = 8;

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
        if self.has(Flag::Skipped) && waited > DELAYED_ACK {
            return Due::Needs(Order::Later);
        }
        let has_outstanding = is_after(self.snd_nxt, self.snd_una) && self.state != State::Open;
        if scan.is_udp || !has_outstanding {
            return Due::Waits;
        }
        // Tries at 1, 3, 7, 15 s and so on, to 511 s, after the last progress.
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
                step.counts.failures.timeout += 1;
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
                if !self.state.is_open() {
                    return None;
                }
                if self.state == State::Open || self.snd_una == self.snd_nxt {
                    if !self.has(Flag::Skipped) {
                        return None;
                    }
                    self.clear(Flag::Skipped);
                } else if order == Order::Again {
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
            &mut counts.unusual.syn_resent
        } else if is_after(self.data_end(), self.snd_una) {
            &mut counts.unusual.requests_resent
        } else {
            &mut counts.unusual.fins_resent
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Close, ResponseEnd};

    const SETTINGS: Settings = Settings {
        request_len: 100,
        requests: 1,
        response_end: ResponseEnd::Push,
        close: Close::Client,
        holds: false,
        segment_max: 1460,
    };
    const SCAN: Scan =
        Scan { timeout: (30_000_000_000_u64 >> TIME_SHIFT) as u32, is_udp: false, closes: false };

    fn ms(ms: u64) -> u32 {
        ((ms * 1_000_000) >> TIME_SHIFT) as u32
    }

    #[test]
    fn a_syn_is_sent_again_after_1_3_7_and_15_s_and_then_given_up() {
        // Times wrap.
        let start = u32::MAX - 5;
        let mut c = Connection::opened(7, start);
        let mut sent_at = Vec::new();
        let (mut counts, mut events) = (Counts::default(), Events::default());
        for at in (0..40_000).step_by(100) {
            let now = start.wrapping_add(ms(at));
            match c.due(&SCAN, &SETTINGS, now) {
                Due::Needs(order) => {
                    c.obey(order, &SETTINGS, now, &mut counts, &mut events);
                    sent_at.push((at, order));
                }
                Due::Ended => break,
                Due::Waits => {}
            }
        }
        let again = |at| (at, Order::Again);
        let expected = [again(1_100), again(3_100), again(7_100), again(15_100), (30_100, Order::GiveUp)];
        assert_eq!(sent_at, expected);
        assert_eq!((c.state, counts.unusual.syn_resent, counts.failures.timeout), (State::Timeout, 4, 1));
        assert!(events.over);
    }

    /// From 255 s on, each look sent one more.
    #[test]
    fn the_longest_timeout_has_no_more_tries_at_its_end() {
        let scan = Scan { timeout: (300_000_000_000_u64 >> TIME_SHIFT) as u32, ..SCAN };
        let (mut c, mut tries) = (Connection::opened(7, 9), 0);
        let (mut counts, mut events) = (Counts::default(), Events::default());
        for at in (0..310_000).step_by(100) {
            let now = 9 + ms(at);
            if let Due::Needs(order) = c.due(&scan, &SETTINGS, now) {
                c.obey(order, &SETTINGS, now, &mut counts, &mut events);
                tries += u32::from(order == Order::Again);
            }
        }
        assert_eq!((tries, counts.unusual.syn_resent, c.state), (8, 8, State::Timeout));
    }

    #[test]
    fn held_connections_wait_until_they_are_closed() {
        let held = Settings { holds: true, ..SETTINGS };
        let c = Connection { state: State::Open, ..Connection::default() };
        assert_eq!(c.due(&SCAN, &held, ms(100_000)), Due::Waits);
        assert_eq!(c.due(&Scan { closes: true, ..SCAN }, &held, 0), Due::Needs(Order::Close));
        assert_eq!(
            c.due(&SCAN, &SETTINGS, ms(31_000)),
            Due::Needs(Order::GiveUp),
            "the server does not close"
        );
    }

    #[test]
    fn a_delayed_ack_is_sent_before_the_server_repeats() {
        let mut c = Connection { state: State::Open, rcv_nxt: 9, ..Connection::default() };
        c.set(Flag::Skipped);
        assert_eq!(c.due(&SCAN, &SETTINGS, ms(39)), Due::Waits);
        assert_eq!(c.due(&SCAN, &SETTINGS, ms(41)), Due::Needs(Order::Later));
        let ack = c.obey(Order::Later, &SETTINGS, ms(41), &mut Counts::default(), &mut Events::default());
        assert_eq!(ack.map(|ack| (ack.flags, ack.ack, ack.len)), Some((ACK, 9, 0)));
        assert_eq!(c.due(&SCAN, &SETTINGS, ms(100)), Due::Waits);
    }

    #[test]
    fn datagrams_are_not_sent_again() {
        let c = Connection { state: State::Asked, snd_nxt: 1, ..Connection::default() };
        let scan = Scan { is_udp: true, ..SCAN };
        assert_eq!(c.due(&scan, &SETTINGS, ms(10_000)), Due::Waits);
        assert_eq!(c.due(&scan, &SETTINGS, ms(30_001)), Due::Needs(Order::GiveUp));
    }
}
