//! A flow of the configuration in force: its run, its counts, and its state.

use super::flow_setup::FlowSetup;
use super::progress::{DrainRule, FlowProgress};
use engine::{End, Request, RunHandle, RunReport};
use fleet::{FlowArrivals, SentFrames};
use otg::metrics::{FlowState, TrafficCounts};
use packet::Cursor;
use sender::limits::limits;
use sender::rate::Asked;
use sender::workers::WorkerResult;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::{human_pps, quantity_of};

/// A flow.
#[derive(Debug, Default)]
pub(super) struct FlowRun {
    /// Its number in the marks of its frames, and in the lines of the receivers; `None` before its
    /// first start.
    pub(super) number: Option<u32>,
    /// Its size was changed after its start, so its frames have several.
    pub(super) has_several_sizes: bool,
    handle: Option<Arc<RunHandle>>,
    /// Its run was asked to end by a pause.
    pauses: bool,
    progress: FlowProgress,
    /// Of runs that have ended.
    past: SentFrames,
    /// Where a paused flow goes on, and the time that it was on air.
    resume: Option<(Cursor, u64)>,
    /// Why its last run failed, or did not send all frames.
    failure: Option<String>,
    /// The rate of its run, and the CPU that sends it.
    asked: Option<(Asked, u32)>,
    /// What its run did not reach.
    shortfall: Option<String>,
}

impl FlowRun {
    /// Starts again with counts at 0, as number `number`.
    pub(super) fn start(&mut self, number: u32) {
        *self = Self { number: Some(number), ..Self::default() };
    }

    /// The request of its next run.
    pub(super) fn request(&self, setup: &FlowSetup, stagger_ns: u64) -> Option<Request> {
        setup.request(self.past.frames, self.resume.as_ref(), stagger_ns)
    }

    /// Its run was requested, at this rate if it has one, on this CPU.
    pub(super) fn runs(&mut self, handle: Arc<RunHandle>, asked: Option<Asked>, cpu: u32) {
        self.handle = Some(handle);
        self.pauses = false;
        self.asked = asked.map(|asked| (asked, cpu));
        self.progress.sends();
    }

    pub(super) fn handle(&self) -> Option<&Arc<RunHandle>> {
        self.handle.as_ref()
    }

    pub(super) fn is_sending(&self) -> bool {
        self.progress.is_sending()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.progress.is_paused()
    }

    /// Asks its run to end. `pauses`: it may go on later. A paused flow is stopped otherwise.
    pub(super) fn ask_to_end(&mut self, pauses: bool) {
        self.pauses = pauses;
        if !pauses {
            self.progress.stops();
        }
        if let Some(handle) = &self.handle {
            handle.stop();
        }
    }

    /// It has no run: it has sent all, so it does not go on later.
    pub(super) fn stops_without_run(&mut self) {
        if self.handle.is_none() {
            self.progress.stops();
        }
    }

    /// Takes the report of a run that has ended. One that has ended by itself is not paused.
    pub(super) fn take_end(&mut self, received: u64, timeout: Duration) {
        let Some(report) = self.handle.as_ref().and_then(|handle| handle.wait(timeout)) else { return };
        self.handle = None;
        let (report, shortfall) = match self.asked.take() {
            Some((asked, cpu)) => shortfall_of(report, &asked, cpu),
            None => (report, None),
        };
        self.shortfall = shortfall;
        let total = &report.total;
        self.past.frames += total.sent;
        self.past.bytes += total.sent_bytes();
        let air_ns = self.resume.as_ref().map_or(0, |(_, air_ns)| *air_ns) + report.elapsed_ns();
        self.resume = Some((report.cursor, air_ns));
        let pauses = self.pauses && matches!(report.end, End::Stopped);
        if let End::Failed(error) = report.end {
            self.failure = Some(error.in_one_line());
        } else if total.errors.causes.no_carrier > 0 {
            let frames = quantity_of(total.errors.causes.no_carrier, "frame");
            self.failure = Some(format!("{frames} not sent: they were due while the link was down"));
        }
        self.progress.drains(received, pauses, Instant::now());
    }

    /// Why its last run failed, or did not send all frames; once.
    pub(super) fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// What its last run did not reach of its rate; once.
    pub(super) fn shortfall(&mut self) -> Option<String> {
        self.shortfall.take()
    }

    /// Frames accepted by the driver since the start, as far as the worker has counted them.
    pub(super) fn counted(&self) -> SentFrames {
        let Some(handle) = &self.handle else { return self.past };
        let total = handle.progress().total();
        SentFrames { frames: self.past.frames + total.sent, bytes: self.past.bytes + total.sent_bytes() }
    }

    /// Frames accepted by the driver since the start. Frames that were received were sent, also if
    /// the worker has not counted their burst yet.
    pub(super) fn sent(&self, received: &FlowArrivals) -> SentFrames {
        let counted = self.counted();
        if self.handle.is_some() { counted.at_least(received) } else { counted }
    }

    /// What it does, now that these frames have arrived. `due`: how many are to arrive for those
    /// that were sent. `rule`: how long it waits for the last ones; none if frames are counted
    /// nowhere.
    pub(super) fn settle(
        &mut self,
        arrived: &FlowArrivals,
        due: impl FnOnce(u64) -> u64,
        rule: Option<DrainRule>,
        now: Instant,
    ) -> FlowState {
        if self.is_sending() && self.handle.as_ref().is_some_and(|handle| handle.has_ended()) {
            self.take_end(arrived.frames, Duration::ZERO);
        }
        self.progress.settle(due(self.past.frames), arrived, rule, now)
    }

    /// Its engine sends now: rates count from here.
    pub(super) fn has_started(&mut self, received: &FlowArrivals, now: Instant) {
        self.progress.has_started(self.sent(received).frames, received.frames, now);
    }

    /// Frames per second sent and received, over the last second.
    pub(super) fn rates(&mut self, sent: u64, received: u64, now: Instant) -> (f64, f64) {
        self.progress.rates(sent, received, now)
    }
}

/// The report of a run, and the rate that it was asked for and reached, with the causes, if it was
/// too slow.
fn shortfall_of(run: RunReport, asked: &Asked, cpu: u32) -> (RunReport, Option<String>) {
    let (sent, elapsed_ns) = (run.total.sent, run.elapsed_ns());
    if !asked.is_missed(sent, elapsed_ns) {
        return (run, None);
    }
    let reached = sent as f64 * 1e9 / elapsed_ns.max(1) as f64;
    let percent = 100.0 * asked.reached(sent, elapsed_ns);
    let mut text = format!("asked {}, reached {} ({percent:.1} %)", human_pps(asked.pps), human_pps(reached));
    let done = [WorkerResult { cpu, run, why: String::new() }];
    let causes: Vec<String> = limits(&done).into_iter().map(|limit| limit.meaning).collect();
    if !causes.is_empty() {
        text = format!("{text}: {}", causes.join(", "));
    }
    let [done] = done;
    (done.run, Some(text))
}

/// Sent frames as the model counts them: with FCS.
pub(super) fn with_fcs(sent: SentFrames, rate: f64) -> TrafficCounts {
    TrafficCounts { frames: sent.frames, bytes: sent.bytes + 4 * sent.frames, rate }
}
