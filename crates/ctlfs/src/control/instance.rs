//! The run of one device instance: its start, its progress, and its split when a command changes
//! it.

use super::AdviseFn;
use command::{Counters, Device, NO_FRAME, fragments, interface_of};
use engine::{
    BATCH_MAX, End, EngineError, EngineKind, Limits, Pace, Request, RunHandle, RunReport, TxOptions,
};
use host::monotonic_ns;
use packet::{Config, Cursor, Plan};
use std::sync::Arc;
use std::time::Duration;

/// What the tree of `command` does not know of a device instance.
pub(super) struct InstanceRun {
    index: u32,
    /// The interface's name at the last look: what the engine knows it by.
    ifname: String,
    /// The name of the interface that the file is named after; `None` for one that was added by
    /// another of its names, which it keeps.
    named_after: Option<String>,
    run: Option<Live>,
    engine: Option<EngineKind>,
    /// When the next frame of a run that is cut by a command is due.
    next_ns: Option<u64>,
    /// What the last run came to, until the device file is read.
    unread: Option<String>,
    advise: AdviseFn,
}

/// A run that goes on.
struct Live {
    run: Arc<RunHandle>,
    /// A writer has cut it and will continue it.
    is_paused: bool,
    /// It was told to end for good: no writer may continue it.
    is_stopped: bool,
    plan: Plan,
    /// What earlier parts of this run came to, before commands cut it.
    base: Counters,
    /// This is the first part: the run begins when the engine is ready, not when it was asked for.
    is_first: bool,
}

impl InstanceRun {
    /// On the interface of that number and name, for the file `file`; nothing runs.
    pub(super) fn new(index: u32, ifname: &str, file: &str, advise: AdviseFn) -> Self {
        let named_after = (interface_of(file) == ifname).then(|| ifname.to_owned());
        Self {
            index,
            ifname: ifname.to_owned(),
            named_after,
            run: None,
            engine: None,
            next_ns: None,
            unread: None,
            advise,
        }
    }

    /// The interface is called `ifname` now. Returns the name that the file should have, where it
    /// should have another one.
    pub(super) fn look(&mut self, ifname: &str, file: &str) -> Option<String> {
        ifname.clone_into(&mut self.ifname);
        let old = self.named_after.as_deref().filter(|old| *old != ifname)?;
        Some(format!("{ifname}{}", file.strip_prefix(old)?))
    }

    /// The file has been named after the interface as it is called now.
    pub(super) fn renamed(&mut self) {
        self.named_after = Some(self.ifname.clone());
    }

    /// Number of the interface.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// The engine of this run or the last one.
    pub(super) fn engine(&self) -> Option<&'static str> {
        self.engine.map(EngineKind::name)
    }

    /// Asks the run to end.
    pub(super) fn stop(&mut self) {
        if let Some(live) = &mut self.run {
            (live.is_stopped, live.is_paused) = (true, false);
            live.run.stop();
        }
    }

    /// True when the run has ended and its device instance does not have the result yet.
    pub(super) fn has_ended(&self) -> bool {
        self.run.as_ref().is_some_and(|live| !live.is_paused && live.run.has_ended())
    }

    /// True while a writer waits for the end of a part of the run, to continue it.
    pub(super) fn is_paused(&self) -> bool {
        self.run.as_ref().is_some_and(|live| live.is_paused)
    }

    /// Brings the device instance up to now.
    pub(super) fn sync(&mut self, device: &mut Device) {
        let Some(live) = &self.run else { return };
        let report = if live.is_paused { None } else { live.run.wait(Duration::ZERO) };
        if let Some(report) = report {
            self.finish(device, report);
            return;
        }
        let (snapshot, total) = (live.run.snapshot(), live.run.progress().total());
        if snapshot.started_ns != 0 {
            let counters = Counters {
                sofar: total.sent,
                errors: total.errors.total(),
                idle_ns: snapshot.idle_ns,
                started_ns: snapshot.started_ns,
                stopped_ns: 0,
            };
            live.show(device, counters, &snapshot.cursor);
            self.engine = snapshot.engine.or(self.engine);
        }
    }

    /// Asks the run to end, for good; gives it back while it goes on.
    pub(super) fn end(&mut self, device: &mut Device) -> Option<Arc<RunHandle>> {
        self.stop();
        let live = self.run.as_ref()?;
        if !live.run.has_ended() {
            return Some(Arc::clone(&live.run));
        }
        self.sync(device);
        None
    }

    /// Gives up a run that did not end.
    pub(super) fn abandon(&mut self, device: &mut Device) {
        if self.run.take().is_some() {
            device.fail(monotonic_ns(), "the run did not end when it was told to");
        }
    }

    /// Ends this part of a run at the next frame, to continue with other frames. The caller waits
    /// for its end. `None` where there is nothing to continue.
    pub(super) fn pause(&mut self) -> Option<Arc<RunHandle>> {
        let live = self.run.as_mut().filter(|live| !live.is_stopped)?;
        live.is_paused = true;
        live.run.pause();
        Some(Arc::clone(&live.run))
    }

    /// Takes over what the part of the run did that was paused. False when that is not the run any
    /// more.
    pub(super) fn merge_part(&mut self, device: &mut Device, run: &Arc<RunHandle>) -> bool {
        let is_it = |live: &Live| live.is_paused && Arc::ptr_eq(&live.run, run);
        if !self.run.as_ref().is_some_and(is_it) {
            return false;
        }
        self.next_ns = None;
        match run.wait(Duration::ZERO) {
            None => self.abandon(device),
            Some(report) if !matches!(report.end, End::Failed(_)) => {
                if let Some(plan) = self.update_from(device, &report) {
                    device.cursor.end_repeats(plan.repeats);
                }
            }
            Some(report) => self.finish(device, report),
        }
        true
    }

    /// Goes on with the count and the pace that the settings have now.
    pub(super) fn set_limits(&self, device: &Device) {
        if let Some(live) = &self.run {
            live.run.set_limits(limits(&device.config, live.base.sofar));
        }
    }

    /// The request for a run, or, unless `is_first`, for the rest of one that was paused.
    pub(super) fn request(&mut self, device: &Device, plan: Plan, is_first: bool) -> Request {
        let config = &device.config;
        let burst = config.burst.min(BATCH_MAX);
        let mut cursor = device.cursor.clone();
        if cursor.repeats_left > 0 {
            // Built and not sent before the change: it goes out as often as is wanted now.
            cursor.repeats_left = plan.repeats;
        }
        Request {
            ifname: self.ifname.clone(),
            plan,
            cursor,
            mode: config.xmit_mode,
            options: TxOptions::of(config),
            limits: limits(config, device.counters.sofar),
            engine: None,
            batch: (burst > 1).then_some(burst),
            next_ns: self.next_ns.take().filter(|_| !is_first),
        }
    }

    /// The run of such a request has begun.
    pub(super) fn begun(&mut self, device: &Device, plan: Plan, is_first: bool, run: Arc<RunHandle>) {
        self.run =
            Some(Live { run, is_paused: false, is_stopped: false, plan, base: device.counters, is_first });
    }

    /// Takes over what the part of a run that has just ended did.
    fn update_from(&mut self, device: &mut Device, report: &RunReport) -> Option<Plan> {
        let live = self.run.take()?;
        let counters = Counters {
            sofar: report.total.sent,
            errors: report.total.errors.total(),
            idle_ns: report.idle_ns,
            started_ns: report.started_ns,
            stopped_ns: 0,
        };
        live.show(device, counters, &report.cursor);
        self.next_ns = report.next_ns;
        self.engine = report.engine.or(self.engine);
        Some(live.plan)
    }

    /// The run is over: result and all.
    fn finish(&mut self, device: &mut Device, report: RunReport) {
        let Some(plan) = self.update_from(device, &report) else { return };
        let has_frame = device.counters.sofar + device.counters.errors > 0;
        let fragments = if has_frame {
            fragments(&device.config, &plan, device.cursor[packet::Slot::FRAME_SIZE] as u32)
        } else {
            NO_FRAME
        };
        match &report.end {
            // Also for pktgen a device that goes away ends its run normally.
            End::Failed(error) if !error.is_device_gone() => {
                device.fail(report.stopped_ns, &in_words(error, self.advise));
            }
            _ => device.stop(report.stopped_ns, fragments),
        }
        self.keep_result(device);
    }

    /// Keeps the result of a run that has just ended for [`Self::take_unread`].
    pub(super) fn keep_result(&mut self, device: &Device) {
        let result = String::from_utf8_lossy(&device.result);
        let result = result.lines().map(str::trim).collect::<Vec<_>>().join(", ");
        let Counters { sofar, errors, .. } = device.counters;
        self.unread = Some(format!("{} sent {sofar} frames, {errors} errors: {result}", device.name()));
    }

    /// The result of the last run, unless it was taken before.
    pub(super) fn take_unread(&mut self) -> Option<String> {
        self.unread.take()
    }
}

impl Live {
    /// Shows the counters and the cursor of this part of the run in the device instance.
    fn show(&self, device: &mut Device, part: Counters, cursor: &Cursor) {
        let counters = &mut device.counters;
        counters.sofar = self.base.sofar + part.sofar;
        counters.errors = self.base.errors + part.errors;
        counters.idle_ns = self.base.idle_ns + part.idle_ns;
        if self.is_first {
            counters.started_ns = part.started_ns;
        }
        device.cursor.clone_from(cursor);
    }
}

/// When a run ends that has sent `sofar` frames, and how fast it goes.
fn limits(config: &Config, sofar: u64) -> Limits {
    // A count that is reached already must not become 0, which is no end.
    let count = if config.count == 0 { 0 } else { config.count.saturating_sub(sofar).max(1) };
    let pace = Pace::from_call_delay_ns(config.delay_ns, config.frames_each_call());
    // Late frames go out at once, as those of pktgen.
    Limits { count, pace, ..Limits::default() }
}

/// A run that is over before it begins.
pub(super) fn over(request: &Request, end: End) -> Arc<RunHandle> {
    let gone = EngineError::Gone { ifname: request.ifname.clone() };
    let mut report = RunReport::failed(gone, monotonic_ns(), request.cursor.clone());
    (report.end, report.next_ns) = (end, request.next_ns);
    RunHandle::ended(report)
}

/// The chain of causes and what to try, on one line.
fn in_words(error: &EngineError, advise: AdviseFn) -> String {
    let advice = advise(error).map(|advice| format!(" (try: {advice})"));
    error.in_one_line() + &advice.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_advice() {
        let error = EngineError::Down { ifname: "eth7".into() };
        let advised = in_words(&error, |_| Some("ip link set eth7 up".to_owned()));
        assert_eq!(advised, "eth7 is down (try: ip link set eth7 up)");
        assert_eq!(in_words(&error, |_| None), "eth7 is down");
    }
}
