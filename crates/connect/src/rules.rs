//! What a connection does with a segment of the server.

use crate::connection::{Connection, Flag, SEGMENT_MAX_DEFAULT, SEGMENT_MAX_LEAST, State, is_after};
use crate::counts::{Counts, Events};
use crate::segment::{ACK, Arrival, Departure, FIN, PSH, RST, SYN, Verdict};
use crate::settings::{Close, ResponseEnd, Settings};

/// Bytes that the client accepts ahead of what it expects: window and scale of its SYN.
pub const WINDOW_LEN: u32 = 0xffff << 7;

/// Settings, counters and events of one step.
pub(crate) struct Step<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) counts: &'a mut Counts,
    pub(crate) events: &'a mut Events,
    pub(crate) now: u32,
}

impl Connection {
    /// Takes a segment of the server. `now` is the time in units of 256 ns.
    pub fn receive(
        &mut self,
        settings: &Settings,
        arrival: &Arrival,
        now: u32,
        counts: &mut Counts,
        events: &mut Events,
    ) -> Verdict {
        let step = &mut Step { settings, counts, events, now };
        if self.state == State::SynSent {
            return self.receive_in_syn_sent(arrival, step);
        }
        if !self.state.is_open() && self.state != State::Done {
            return refuse_stray(arrival, step);
        }
        let has_fin = arrival.flags & FIN != 0;
        let ahead = arrival.seq.wrapping_sub(self.rcv_nxt);
        if arrival.flags & RST != 0 {
            if self.state == State::Done || ahead >= WINDOW_LEN {
                step.counts.unusual.strays += 1;
                return Verdict::Ignore;
            }
            step.counts.failures.reset += 1;
            self.over(State::Reset, step);
            return Verdict::Over;
        }
        if arrival.flags & ACK == 0 || is_after(arrival.ack, self.snd_nxt) {
            step.counts.unusual.strays += 1;
            return Verdict::Ignore;
        }
        if arrival.flags & SYN != 0 {
            step.counts.unusual.syn_acks_repeated += 1;
            return self.answer(step);
        }
        let advanced = is_after(arrival.ack, self.snd_una);
        if advanced {
            self.snd_una = arrival.ack;
            self.progress(now);
        }
        if arrival.len == 0 && !has_fin {
            if ahead == u32::MAX && !advanced {
                step.counts.unusual.keepalive += 1;
                return self.answer(step);
            }
            return match self.state {
                State::Done => Verdict::Ignore,
                _ => self.receive_ack(advanced, step),
            };
        }
        if self.state == State::Done {
            step.counts.unusual.repeated += 1;
            return self.answer(step);
        }
        if ahead.cast_signed() > 0 {
            return self.receive_behind_gap(arrival, step);
        }
        let old = ahead.wrapping_neg();
        if old > arrival.len || (old == arrival.len && (!has_fin || self.has(Flag::FinSeen))) {
            step.counts.unusual.repeated += 1;
            return self.answer(step);
        }
        if self.has(Flag::FinSeen) {
            // Data behind the FIN.
            step.counts.unusual.strays += 1;
            return Verdict::Ignore;
        }
        self.receive_data(arrival, arrival.len - old, step)
    }

    /// The segment that the state asks for: used for first answers and for all repairs.
    pub fn state_segment(&self, settings: &Settings) -> Departure {
        let end = self.data_end();
        let left = end.wrapping_sub(self.snd_una);
        let has_fin = self.state == State::FinSent && is_after(self.snd_nxt, self.snd_una);
        let plain = Departure { seq: self.snd_nxt, ack: self.rcv_nxt, flags: ACK, ..Departure::default() };
        if self.state == State::SynSent {
            return Departure { seq: self.snd_una, ack: 0, flags: SYN, ..plain };
        }
        if self.state == State::Done && settings.close == Close::Reset {
            return Departure { flags: ACK | RST, ..plain };
        }
        let sacks = self.has(Flag::Sack) && self.state.is_open();
        let plain = Departure { gap_count: if sacks { self.gap_count } else { 0 }, ..plain };
        if !matches!(self.state, State::Asked | State::FinSent) {
            return plain;
        }
        if is_after(end, self.snd_una) && left <= settings.request_len {
            // The program has sums of whole words: an odd offset sends a byte again.
            let offset = (settings.request_len - left) & !1;
            let left = settings.request_len - offset;
            let len = left.min(u32::from(self.segment_max));
            let last = if has_fin { ACK | PSH | FIN } else { ACK | PSH };
            let flags = if len == left { last } else { ACK };
            return Departure { seq: end.wrapping_sub(left), offset, len, flags, ..plain };
        }
        match has_fin {
            true => Departure { seq: end, flags: ACK | FIN, ..plain },
            false => plain,
        }
    }

    fn answer(&self, step: &Step<'_>) -> Verdict {
        Verdict::Answer(self.state_segment(step.settings))
    }

    fn progress(&mut self, now: u32) {
        self.tries = 0;
        self.progress_at = now;
    }

    pub(crate) fn over(&mut self, state: State, step: &mut Step<'_>) {
        self.state = state;
        self.gap_count = 0;
        step.events.over = true;
        let total = step.now.wrapping_sub(self.begun_at);
        step.events.completed = (state == State::Done).then_some(total);
    }

    fn complete(&mut self, step: &mut Step<'_>) {
        if self.has(Flag::Cut) {
            step.counts.failures.cut_off += 1;
            self.over(State::CutOff, step);
        } else {
            step.counts.completed += 1;
            self.over(State::Done, step);
        }
    }

    /// The client ends the connection.
    pub(crate) fn finish(&mut self, step: &mut Step<'_>) {
        if step.settings.close == Close::Reset {
            self.complete(step);
            return;
        }
        self.state = State::FinSent;
        self.snd_nxt = self.snd_nxt.wrapping_add(1);
        self.progress(step.now);
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, step: &mut Step<'_>) {
        self.state = State::Asked;
        self.snd_nxt = self.snd_nxt.wrapping_add(step.settings.request_len);
        [Flag::Begun, Flag::Sized, Flag::Skipped].into_iter().for_each(|flag| self.clear(flag));
        self.left = 0;
        self.requests = self.requests.wrapping_add(1);
        self.asked_at = step.now;
        self.progress(step.now);
        step.counts.requests += 1;
    }

    fn receive_in_syn_sent(&mut self, arrival: &Arrival, step: &mut Step<'_>) -> Verdict {
        let has_ack = arrival.flags & ACK != 0;
        if arrival.flags & RST != 0 {
            if !has_ack || arrival.ack != self.snd_nxt {
                step.counts.unusual.strays += 1;
                return Verdict::Ignore;
            }
            step.counts.failures.refused += 1;
            self.over(State::Refused, step);
            return Verdict::Over;
        }
        if !has_ack {
            step.counts.unusual.strays += 1;
            return Verdict::Ignore;
        }
        if arrival.ack != self.snd_nxt {
            // The server still has an earlier connection of this port: a reset ends that one
            // (RFC 9293, 3.5.1), and the SYN is sent again.
            step.counts.unusual.challenged += 1;
            self.set(Flag::Due);
            return Verdict::Answer(Departure { flags: RST, seq: arrival.ack, ..Departure::default() });
        }
        if arrival.flags & SYN == 0 {
            step.counts.unusual.strays += 1;
            return Verdict::Ignore;
        }
        self.receive_syn_ack(arrival, step)
    }

    fn receive_syn_ack(&mut self, arrival: &Arrival, step: &mut Step<'_>) -> Verdict {
        let settings = step.settings;
        step.counts.established += 1;
        step.events.connected = Some(step.now.wrapping_sub(self.begun_at));
        self.rcv_nxt = arrival.seq.wrapping_add(1);
        self.snd_una = arrival.ack;
        self.progress(step.now);
        self.flags = if arrival.sack { Flag::Sack as u8 } else { 0 };
        let accepted = if arrival.segment_max == 0 { SEGMENT_MAX_DEFAULT } else { arrival.segment_max };
        // Parts of a request begin at even offsets.
        self.segment_max = accepted.min(settings.segment_max).max(SEGMENT_MAX_LEAST) & !1;
        self.state = State::Open;
        if settings.requests > 0 && settings.request_len > 0 {
            self.ask(step);
        } else if !settings.holds && settings.close != Close::Server {
            self.finish(step);
        }
        self.answer(step)
    }

    /// A segment without data and FIN.
    fn receive_ack(&mut self, advanced: bool, step: &mut Step<'_>) -> Verdict {
        let settings = step.settings;
        let all = self.snd_una == self.snd_nxt;
        if self.state == State::FinSent && self.has(Flag::FinSeen) && all {
            self.complete(step);
            return Verdict::Over;
        }
        if !advanced {
            return Verdict::Ignore;
        }
        if self.state == State::Asked && all && settings.response_end == ResponseEnd::Bytes(0) {
            self.count_response(step);
            if self.requests < settings.requests {
                self.ask(step);
            } else if !settings.holds && settings.close != Close::Server {
                self.finish(step);
            } else {
                return Verdict::Ignore;
            }
            return self.answer(step);
        }
        let has_more = is_after(self.data_end(), self.snd_una);
        match self.state {
            // The next part of a request that is longer than a segment.
            State::Asked | State::FinSent if has_more => self.answer(step),
            _ => Verdict::Ignore,
        }
    }

    /// Data or a FIN behind the expected number.
    fn receive_behind_gap(&mut self, arrival: &Arrival, step: &mut Step<'_>) -> Verdict {
        step.counts.unusual.gaps += 1;
        let end = arrival.seq.wrapping_add(arrival.len);
        if arrival.len > 0 && end.wrapping_sub(self.rcv_nxt) < WINDOW_LEN {
            self.add_gap(arrival.seq, end);
            if arrival.flags & PSH != 0 {
                self.set(Flag::GapPush);
            }
        }
        self.answer(step)
    }

    /// New data, or a FIN, at the expected number; `len` bytes are new.
    fn receive_data(&mut self, arrival: &Arrival, mut len: u32, step: &mut Step<'_>) -> Verdict {
        let settings = step.settings;
        let mut is_pushed = arrival.flags & PSH != 0;
        self.rcv_nxt = self.rcv_nxt.wrapping_add(len);
        step.counts.segments += u64::from(len > 0);
        if self.gap_count > 0 {
            len += self.take_gaps();
            if self.gap_count == 0 && self.has(Flag::GapPush) {
                is_pushed = true;
                self.clear(Flag::GapPush);
            }
        }
        // A FIN before the end of what has arrived cannot be: a hostile server.
        let is_end = arrival.seq.wrapping_add(arrival.len) == self.rcv_nxt;
        let has_fin = arrival.flags & FIN != 0 && is_end;
        self.progress(step.now);
        step.counts.payload_bytes += u64::from(len);
        let mut is_complete = false;
        if self.state == State::Asked && len > 0 {
            is_complete = self.take_response(arrival.http_len, len, is_pushed, step);
        }
        if self.state == State::Asked && has_fin && !self.has(Flag::Sized) {
            is_complete |= self.has(Flag::Begun);
        }
        if is_complete {
            self.count_response(step);
            if self.requests < settings.requests && !has_fin && !settings.holds {
                self.ask(step);
                return self.answer(step);
            }
        }
        if has_fin {
            self.receive_fin(step);
        } else if is_complete && !settings.holds && settings.close != Close::Server {
            self.finish(step);
        } else if self.may_delay_ack(is_pushed, settings) {
            self.set(Flag::Skipped);
            return Verdict::Ignore;
        }
        self.clear(Flag::Skipped);
        self.answer(step)
    }

    /// An ACK for every second segment (RFC 9293, 3.8.6.3), at once behind a segment with PSH. But
    /// where the server ends the connection after this response, its FIN is awaited.
    fn may_delay_ack(&self, is_pushed: bool, settings: &Settings) -> bool {
        let is_last = self.is_last_of_server(settings);
        !self.has(Flag::Skipped) && (is_last || self.state == State::Asked && !is_pushed)
    }

    /// True if the server ends the connection behind the current response.
    fn is_last_of_server(&self, settings: &Settings) -> bool {
        settings.close == Close::Server && !settings.holds && self.requests >= settings.requests
    }

    fn receive_fin(&mut self, step: &mut Step<'_>) {
        self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
        self.set(Flag::FinSeen);
        match self.state {
            State::Asked => self.set(Flag::Cut),
            State::Open if step.settings.holds => step.counts.ended_by_server += 1,
            // It was to answer more requests.
            State::Open if self.requests < step.settings.requests => self.set(Flag::Cut),
            _ => {}
        }
        match self.state {
            State::FinSent if self.snd_una == self.snd_nxt => self.complete(step),
            State::FinSent => {}
            _ => self.finish(step),
        }
    }

    /// Data of the current response, in order. True if that is complete.
    fn take_response(&mut self, http_len: u32, len: u32, is_pushed: bool, step: &mut Step<'_>) -> bool {
        let end = step.settings.response_end;
        let ends_with_fin = match end {
            ResponseEnd::Close => true,
            ResponseEnd::Http => self.is_last_of_server(step.settings),
            _ => false,
        };
        if !self.has(Flag::Begun) {
            self.set(Flag::Begun);
            step.events.first_byte = Some(step.now.wrapping_sub(self.asked_at));
            let sized = match end {
                ResponseEnd::Bytes(bytes) => Some(bytes),
                ResponseEnd::Http if http_len > 0 => Some(http_len),
                _ => None,
            };
            if end == ResponseEnd::Http && sized.is_none() && !ends_with_fin {
                step.counts.unsized_responses += 1;
            }
            if let Some(left) = sized {
                self.set(Flag::Sized);
                self.left = left;
            }
        }
        if self.has(Flag::Sized) {
            self.left = self.left.saturating_sub(len);
            return self.left == 0;
        }
        match end {
            _ if ends_with_fin => false,
            ResponseEnd::First => true,
            _ => is_pushed,
        }
    }

    fn count_response(&mut self, step: &mut Step<'_>) {
        step.counts.responses += 1;
        self.state = State::Open;
        self.progress_at = step.now;
    }
}

/// Answers a segment that belongs to no connection with a reset, as TCP does.
fn refuse_stray(arrival: &Arrival, step: &mut Step<'_>) -> Verdict {
    step.counts.unusual.strays += 1;
    if arrival.flags & (RST | ACK) != ACK {
        return Verdict::Ignore;
    }
    Verdict::Answer(Departure { flags: RST, seq: arrival.ack, ..Departure::default() })
}
