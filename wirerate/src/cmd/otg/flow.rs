//! A flow of the configuration in force: its run, its counts, and its state.

use super::reading::FlowReading;
use super::setup::FlowSetup;
use engine::{End, Request, RunHandle};
use otg::metrics::{FlowState, TrafficCounts};
use packet::Cursor;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Without a frame for this time, no more frames of an ended flow are expected.
const QUIET: Duration = Duration::from_millis(300);
/// The wait for late frames ends after this even if frames still arrive.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// Rates are means over this time.
const RATE_TIME: Duration = Duration::from_secs(1);
/// Shortest time from one sample of the counts to the next.
const SAMPLE_TIME: Duration = Duration::from_millis(50);

/// What a flow does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Stopped,
    Sending,
    /// Frames may be on their way; then it is stopped, or paused.
    Draining(FlowDrain),
    Paused,
}

/// The wait for the last frames of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowDrain {
    since: Instant,
    received: u64,
    changed: Instant,
    pauses: bool,
}

/// Frames and their bytes, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentFrames {
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

/// Counts at one time.
#[derive(Clone, Copy, Debug)]
struct CountSample {
    at: Instant,
    sent: u64,
    received: u64,
}

/// A flow.
#[derive(Debug, Default)]
pub(super) struct FlowRun {
    /// Its number in the marks of its frames, and in the lines of the receivers.
    pub(super) number: u32,
    handle: Option<Arc<RunHandle>>,
    phase: Phase,
    /// Of runs that have ended.
    past: SentFrames,
    /// Where a paused flow goes on, and the time that it was on air.
    resume: Option<(Cursor, u64)>,
    samples: VecDeque<CountSample>,
    /// Why its last run failed.
    failure: Option<String>,
}

impl FlowRun {
    /// Starts again with counts at 0, as number `number`.
    pub(super) fn start(&mut self, number: u32) {
        *self = Self { number, ..Self::default() };
    }

    /// The request of its next run.
    pub(super) fn request(&self, setup: &FlowSetup, stagger_ns: u64) -> Option<Request> {
        setup.request(self.past.frames, self.resume.as_ref(), stagger_ns)
    }

    /// Its run was requested.
    pub(super) fn runs(&mut self, handle: Arc<RunHandle>) {
        self.handle = Some(handle);
        self.phase = Phase::Sending;
        self.samples.clear();
    }

    pub(super) fn handle(&self) -> Option<&Arc<RunHandle>> {
        self.handle.as_ref()
    }

    pub(super) fn is_sending(&self) -> bool {
        self.phase == Phase::Sending
    }

    pub(super) fn is_paused(&self) -> bool {
        self.phase == Phase::Paused || matches!(self.phase, Phase::Draining(FlowDrain { pauses: true, .. }))
    }

    /// Asks its run to end.
    pub(super) fn ask_to_end(&self) {
        if let Some(handle) = &self.handle {
            handle.stop();
        }
    }

    /// Takes the report of a run that has ended. `pauses`: it may go on later.
    pub(super) fn take_end(&mut self, received: u64, pauses: bool, timeout: Duration) {
        let Some(report) = self.handle.as_ref().and_then(|handle| handle.wait(timeout)) else { return };
        self.handle = None;
        let total = &report.total;
        self.past.frames += total.sent;
        self.past.bytes += total.sent_bytes();
        let air_ns = self.resume.as_ref().map_or(0, |(_, air_ns)| *air_ns) + report.elapsed_ns();
        self.resume = Some((report.cursor, air_ns));
        if let End::Failed(error) = report.end {
            self.failure = Some(error.in_one_line());
        }
        let now = Instant::now();
        self.phase = Phase::Draining(FlowDrain { since: now, received, changed: now, pauses });
    }

    /// Why its last run failed.
    pub(super) fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Frames accepted by the driver since the start, as far as the worker has counted them.
    pub(super) fn counted(&self) -> SentFrames {
        let Some(handle) = &self.handle else { return self.past };
        let total = handle.progress().total();
        SentFrames { frames: self.past.frames + total.sent, bytes: self.past.bytes + total.sent_bytes() }
    }

    /// Frames accepted by the driver since the start. Frames that were received were sent, also if
    /// the worker has not counted their burst yet.
    pub(super) fn sent(&self, received: &FlowReading) -> SentFrames {
        let (counted, frames) = (self.counted(), received.first_copies);
        if self.handle.is_none() || frames <= counted.frames {
            return counted;
        }
        let arrived = SentFrames { frames: received.frames, bytes: received.bytes };
        let mean = if counted.frames == 0 { arrived } else { counted };
        SentFrames { frames, bytes: share(mean.bytes, frames, mean.frames) }
    }

    /// What it does, now that `received` frames have arrived. `waits`: frames are counted
    /// somewhere.
    pub(super) fn settle(&mut self, received: u64, waits: bool, now: Instant) -> FlowState {
        if self.is_sending() && self.handle.as_ref().is_some_and(|handle| handle.has_ended()) {
            self.take_end(received, false, Duration::ZERO);
        }
        if let Phase::Draining(drain) = &mut self.phase {
            if received != drain.received {
                (drain.received, drain.changed) = (received, now);
            }
            let has_all = !waits || received >= self.past.frames;
            if has_all || now - drain.changed >= QUIET || now - drain.since >= DRAIN_MAX {
                self.phase = if drain.pauses { Phase::Paused } else { Phase::Stopped };
            }
        }
        match self.phase {
            Phase::Stopped => FlowState::Stopped,
            Phase::Paused => FlowState::Paused,
            Phase::Sending | Phase::Draining(_) => FlowState::Started,
        }
    }

    /// Its engine sends now: rates count from here.
    pub(super) fn has_started(&mut self, received: &FlowReading, now: Instant) {
        let sent = self.sent(received).frames;
        self.samples = VecDeque::from([CountSample { at: now, sent, received: received.frames }]);
    }

    /// Frames per second sent and received, over the last second.
    pub(super) fn rates(&mut self, sent: u64, received: u64, now: Instant) -> (f64, f64) {
        let sample = CountSample { at: now, sent, received };
        let first = *self.samples.front().unwrap_or(&sample);
        if self.samples.back().is_none_or(|last| sample.at - last.at >= SAMPLE_TIME) {
            self.samples.push_back(sample);
        }
        while self.samples.get(1).is_some_and(|second| sample.at - second.at >= RATE_TIME) {
            self.samples.pop_front();
        }
        let seconds = (sample.at - first.at).as_secs_f64();
        if !self.is_sending() || seconds == 0.0 {
            return (0.0, 0.0);
        }
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (rate(sent, first.sent), rate(received, first.received))
    }
}

/// The share of `total` that `part` of `whole` has.
fn share(total: u64, part: u64, whole: u64) -> u64 {
    (u128::from(total) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0) as u64
}

impl SentFrames {
    /// As the model counts them: with FCS.
    pub(super) fn counts(self, rate: f64) -> TrafficCounts {
        TrafficCounts { frames: self.frames, bytes: self.bytes + 4 * self.frames, rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_received_was_sent_before_the_worker_counts_it() {
        let running = FlowRun { handle: Some(Arc::default()), ..FlowRun::default() };
        let one = FlowReading { frames: 1, first_copies: 1, bytes: 60, ..FlowReading::default() };
        assert_eq!(running.sent(&one), SentFrames { frames: 1, bytes: 60 });
        // Each frame arrived at two ports, or twice.
        let twice = FlowReading { frames: 2, bytes: 120, ..one };
        assert_eq!(running.sent(&twice), SentFrames { frames: 1, bytes: 60 });
        let resumed = FlowRun { past: SentFrames { frames: 10, bytes: 1000 }, ..running };
        assert_eq!(resumed.sent(&one), resumed.past);
        let more = FlowReading { first_copies: 11, ..one };
        assert_eq!(resumed.sent(&more), SentFrames { frames: 11, bytes: 1100 });
    }
}
