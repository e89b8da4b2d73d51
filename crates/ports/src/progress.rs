//! What a flow does over time: whether its late frames are waited for, and its rates.

use fleet::FlowArrivals;
use otg::metrics::FlowState;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Without a frame for this time, no more frames of an ended flow are expected.
const QUIET: Duration = Duration::from_millis(300);
/// Before the first frame of a flow has come, its latency is unknown: then this is the time.
const QUIET_BEFORE_FIRST: Duration = Duration::from_secs(2);
/// The wait for late frames ends after this even if frames still arrive.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// Rates are means over this time.
const RATE_TIME: Duration = Duration::from_secs(1);
/// Shortest time from one sample of the counts to the next.
const SAMPLE_TIME: Duration = Duration::from_millis(50);

/// How long the last frames of a flow may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRule {
    /// Time without a frame after which no more are expected.
    quiet: Duration,
    /// Time without a frame after which no more are expected, before the first frame has come.
    before_first: Duration,
}

impl Default for DrainRule {
    fn default() -> Self {
        Self { quiet: QUIET, before_first: QUIET_BEFORE_FIRST }
    }
}

impl DrainRule {
    /// The time that a user gives.
    pub fn of(time: Duration) -> Self {
        Self { quiet: time, before_first: time }
    }

    /// The time without a frame after which no more are expected: at least twice the highest
    /// latency so far.
    fn quiet(self, arrived: &FlowArrivals) -> Duration {
        match (arrived.frames, arrived.stamped) {
            (0, _) => self.before_first,
            (_, 0) => self.quiet,
            _ => self.quiet.max(2 * Duration::from_nanos(arrived.latency_max_ns)),
        }
    }
}

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

/// Counts at one time.
#[derive(Clone, Copy, Debug)]
struct CountSample {
    at: Instant,
    sent: u64,
    received: u64,
}

/// Counts at several times, of which the last second is left: the first is that of a start.
#[derive(Debug, Default)]
pub(super) struct CountSamples(VecDeque<CountSample>);

impl CountSamples {
    /// The counts at a start.
    pub(super) fn new(at: Instant, sent: u64, received: u64) -> Self {
        Self(VecDeque::from([CountSample { at, sent, received }]))
    }

    /// Frames per second sent and received, over the last second or since the start.
    pub(super) fn rates(&mut self, sent: u64, received: u64, now: Instant) -> (f64, f64) {
        let Self(samples) = self;
        let sample = CountSample { at: now, sent, received };
        while samples.get(1).is_some_and(|second| sample.at - second.at >= RATE_TIME) {
            samples.pop_front();
        }
        let first = *samples.front().unwrap_or(&sample);
        if samples.back().is_none_or(|last| sample.at - last.at >= SAMPLE_TIME) {
            samples.push_back(sample);
        }
        let seconds = (sample.at - first.at).as_secs_f64();
        if seconds == 0.0 {
            return (0.0, 0.0);
        }
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (rate(sent, first.sent), rate(received, first.received))
    }
}

/// The progress of a flow.
#[derive(Debug, Default)]
pub(super) struct FlowProgress {
    phase: Phase,
    samples: CountSamples,
}

impl FlowProgress {
    /// It is sent from now on.
    pub(super) fn sends(&mut self) {
        self.phase = Phase::Sending;
        self.samples = CountSamples::default();
    }

    /// Its run has ended, when `received` frames had arrived. `pauses`: it may go on later.
    pub(super) fn drains(&mut self, received: u64, pauses: bool, now: Instant) {
        self.phase = Phase::Draining(FlowDrain { since: now, received, changed: now, pauses });
    }

    /// It does not go on later.
    pub(super) fn stops(&mut self) {
        match &mut self.phase {
            Phase::Paused => self.phase = Phase::Stopped,
            Phase::Draining(drain) => drain.pauses = false,
            Phase::Stopped | Phase::Sending => {}
        }
    }

    /// Follows a flow that another host sends.
    pub(super) fn follow(&mut self, is_sending: bool, is_paused: bool, received: u64, now: Instant) {
        match (self.is_sending(), is_sending) {
            (false, true) => self.phase = Phase::Sending,
            (true, false) => self.drains(received, is_paused, now),
            (false, false) if !is_paused => self.stops(),
            _ => {}
        }
    }

    pub(super) fn is_sending(&self) -> bool {
        self.phase == Phase::Sending
    }

    /// True while it is sent, or its last frames are waited for.
    pub(super) fn is_started(&self) -> bool {
        matches!(self.phase, Phase::Sending | Phase::Draining(_))
    }

    pub(super) fn is_paused(&self) -> bool {
        self.phase == Phase::Paused || matches!(self.phase, Phase::Draining(FlowDrain { pauses: true, .. }))
    }

    /// What it does, now that these of `sent` frames have arrived. `rule`: how long it waits for
    /// the last ones; none if frames are counted nowhere.
    pub(super) fn settle(
        &mut self,
        sent: u64,
        arrived: &FlowArrivals,
        rule: Option<DrainRule>,
        now: Instant,
    ) -> FlowState {
        let received = arrived.frames;
        if let Phase::Draining(drain) = &mut self.phase {
            if received != drain.received {
                (drain.received, drain.changed) = (received, now);
            }
            let is_quiet = |rule: DrainRule| now - drain.changed >= rule.quiet(arrived);
            let has_all = received >= sent || rule.is_none_or(is_quiet);
            if has_all || now - drain.since >= DRAIN_MAX {
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
    pub(super) fn has_started(&mut self, sent: u64, received: u64, now: Instant) {
        self.samples = CountSamples::new(now, sent, received);
    }

    /// Frames per second sent and received, over the last second; 0 while it is not sent.
    pub(super) fn rates(&mut self, sent: u64, received: u64, now: Instant) -> (f64, f64) {
        let rates = self.samples.rates(sent, received, now);
        if self.is_sending() { rates } else { (0.0, 0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(frames: u64, latency_max_ns: u64) -> FlowArrivals {
        FlowArrivals { frames, stamped: frames, latency_max_ns, ..FlowArrivals::default() }
    }

    #[test]
    fn a_long_line_is_waited_for() {
        let start = Instant::now();
        let second = 1_000_000_000;
        for (rule, received, latency_ns, quiet_ms) in [
            (DrainRule::default(), 0, 0, 2000),
            (DrainRule::default(), 1, 1_000, 300),
            (DrainRule::default(), 1, second, 2000),
            (DrainRule::of(Duration::from_secs(5)), 0, 0, 5000),
            (DrainRule::of(Duration::from_secs(5)), 1, 3 * second, 6000),
        ] {
            let mut flow = FlowProgress::default();
            flow.sends();
            flow.drains(received, false, start);
            let mut at = |ms: u64| {
                let arrived = arrived(received, latency_ns);
                flow.settle(10, &arrived, Some(rule), start + Duration::from_millis(ms))
            };
            assert_eq!(at(quiet_ms - 1), FlowState::Started, "{rule:?}");
            assert_eq!(at(quiet_ms), FlowState::Stopped, "{rule:?}");
        }
        let mut flow = FlowProgress::default();
        flow.drains(0, false, start);
        assert_eq!(flow.settle(10, &arrived(0, 0), None, start), FlowState::Stopped, "nothing is counted");
    }

    #[test]
    fn a_flow_of_another_host_is_stopped_once_its_frames_are_there() {
        let (mut flow, start) = (FlowProgress::default(), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        let mut at = |ms: u64, is_sending: bool, is_paused: bool, received: u64| {
            flow.follow(is_sending, is_paused, received, after(ms));
            flow.settle(10, &arrived(received, 1_000), Some(DrainRule::default()), after(ms))
        };
        assert_eq!(at(0, false, false, 0), FlowState::Stopped);
        assert_eq!(at(1, true, false, 3), FlowState::Started);
        assert_eq!(at(2, false, true, 9), FlowState::Started, "a frame is on its way");
        assert_eq!(at(3, false, true, 10), FlowState::Paused);
        assert_eq!(at(4, true, false, 10), FlowState::Started);
        assert_eq!(at(5, false, false, 9), FlowState::Started);
        assert_eq!(at(304, false, false, 9), FlowState::Started);
        assert_eq!(at(305, false, false, 9), FlowState::Stopped, "none came for 0.3 s");
    }

    #[test]
    fn rates_are_those_of_the_last_second_or_since_the_start() {
        let start = Instant::now();
        let mut samples = CountSamples::new(start, 0, 500);
        let mut at = |ms: u64, received: u64| samples.rates(0, received, start + Duration::from_millis(ms)).1;
        assert_eq!(at(0, 500), 0.0);
        assert_eq!(at(500, 1000), 1000.0, "the first look");
        assert_eq!(at(510, 1010), 1000.0);
        assert_eq!(at(1500, 2000), 1000.0);
        // From the look before that is at least a second ago.
        assert_eq!(at(3500, 4000), 1000.0);
        assert_eq!(at(5500, 4000), 0.0);
    }

    #[test]
    fn a_paused_flow_that_is_stopped_does_not_go_on() {
        let (mut flow, start) = (FlowProgress::default(), Instant::now());
        let mut at = |is_sending: bool, is_paused: bool| {
            flow.follow(is_sending, is_paused, 10, start);
            flow.settle(10, &arrived(10, 1_000), Some(DrainRule::default()), start)
        };
        assert_eq!(at(true, false), FlowState::Started);
        assert_eq!(at(false, true), FlowState::Paused);
        assert_eq!(at(false, false), FlowState::Stopped);
        for received in [0, 10] {
            let mut flow = FlowProgress::default();
            flow.drains(received, true, start);
            flow.settle(10, &arrived(received, 0), Some(DrainRule::default()), start);
            assert!(flow.is_paused(), "{received} frames have arrived");
            flow.stops();
            assert!(!flow.is_paused(), "{received} frames have arrived");
        }
    }
}
