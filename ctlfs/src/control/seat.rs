//! The run of one device instance: begun, watched, cut in two by a command, ended.

use super::runner::{Ending, Order, Over, Runner, Running, Standing, Why};
use command::{Counters, Device, Facts, NO_FRAME, fragments, interface_of};
use engine::GoesOn;
use host::monotonic_ns;
use packet::{Config, Plan};
use std::time::Duration;

/// How long a run may take to end after it was told to.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// What the tree of `command` does not know of a device instance.
pub(super) struct Seat {
    index: u32,
    /// The interface's name at the last look: what the engine knows it by.
    ifname: String,
    /// The name of the interface that the file is named after; `None` for one that was added by another of its
    /// names, which it keeps.
    named_after: Option<String>,
    run: Option<Live>,
    engine: Option<&'static str>,
    /// What the run keeps while it is paused.
    goes_on: Option<GoesOn>,
    /// What the last run came to, until the device file is read.
    unread: Option<String>,
}

/// A run that goes on.
struct Live {
    run: Box<dyn Running>,
    plan: Plan,
    /// What earlier parts of this run came to, before commands cut it.
    base: Counters,
    /// This is the first part: the run begins when the engine is ready, not when it was asked for.
    is_first: bool,
    /// When the first part was ordered.
    ordered_ns: u64,
}

impl Seat {
    /// On the interface of that number and name, for the file `file`; nothing runs.
    pub(super) fn new(index: u32, ifname: &str, file: &str) -> Self {
        let named_after = (interface_of(file) == ifname).then(|| ifname.to_owned());
        Self {
            index,
            ifname: ifname.to_owned(),
            named_after,
            run: None,
            engine: None,
            goes_on: None,
            unread: None,
        }
    }

    /// The interface is called `ifname` now. Returns the name that the file should have, where it should have
    /// another one.
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
        self.engine
    }

    /// Asks the run to end.
    pub(super) fn stop(&self) {
        if let Some(live) = &self.run {
            live.run.stop();
        }
    }

    /// Brings the device instance up to now.
    pub(super) fn sync(&mut self, device: &mut Device) {
        let Some(live) = &self.run else { return };
        if let Some(ending) = live.run.wait(Duration::ZERO) {
            self.finish(device, ending);
        } else if let Some(standing) = live.run.standing() {
            self.engine = standing.engine.or(self.engine);
            live.show(device, &standing);
        }
    }

    /// Waits for the end of a run that was asked to end.
    pub(super) fn wait_for_end(&mut self, device: &mut Device) {
        self.wait_and(device, Self::finish);
    }

    /// Ends this part of a run at the next frame, to go on with other frames.
    pub(super) fn pause(&mut self, device: &mut Device) {
        self.goes_on = None;
        if let Some(live) = &self.run {
            live.run.pause();
        }
        self.wait_and(device, Self::absorb);
    }

    fn wait_and(&mut self, device: &mut Device, then: fn(&mut Self, &mut Device, Ending)) {
        let Some(live) = &self.run else { return };
        match live.run.wait(END_TIMEOUT) {
            Some(ending) => then(self, device, ending),
            None => {
                self.run = None;
                device.fail(monotonic_ns(), "the run did not end when it was told to");
            }
        }
    }

    /// Goes on with the count and the pace that the settings have now.
    pub(super) fn change_terms(&self, device: &Device, cpu: u32) {
        if let Some(live) = &self.run {
            live.run.change_terms(self.order(device, cpu, live.plan.clone(), &live.base));
        }
    }

    /// Begins a run, or, unless `is_first`, goes on with one that was paused.
    pub(super) fn begin(
        &mut self,
        device: &Device,
        cpu: u32,
        plan: Plan,
        is_first: bool,
        runner: &dyn Runner,
    ) {
        let base = device.counters;
        let mut order = self.order(device, cpu, plan.clone(), &base);
        order.goes_on = self.goes_on.take().filter(|_| !is_first);
        let ordered_ns = order.goes_on.map_or_else(monotonic_ns, |goes_on| goes_on.ordered_ns);
        if order.cursor.repeats_left > 0 {
            // Built and not sent before the change: it goes out as often as is wanted now.
            order.cursor.repeats_left = plan.repeats;
        }
        // A count lowered below what was sent already: one frame more would be one too many.
        let is_reached = device.config.count != 0 && base.sofar >= device.config.count;
        let run = if is_reached { over(&order, Why::Done) } else { runner.begin(order) };
        self.run = Some(Live { run, plan, base, is_first, ordered_ns });
    }

    /// As [`Self::begin`] on a device that is down: a normal end before the first frame.
    pub(super) fn begin_down(&mut self, device: &Device, cpu: u32, plan: Plan) {
        let base = device.counters;
        let order = self.order(device, cpu, plan.clone(), &base);
        let ordered_ns = monotonic_ns();
        let run = over(&order, Why::DeviceGone);
        self.run = Some(Live { run, plan, base, is_first: true, ordered_ns });
    }

    fn order(&self, device: &Device, cpu: u32, plan: Plan, base: &Counters) -> Order {
        let count = device.config.count;
        Order {
            ifname: self.ifname.clone(),
            cpu,
            config: device.config.clone(),
            plan,
            cursor: device.cursor.clone(),
            // A count that is reached already must not become 0, which is no end.
            count: if count == 0 { 0 } else { count.saturating_sub(base.sofar).max(1) },
            goes_on: None,
        }
    }

    /// Takes over what the part of a run that has just ended did.
    fn take_over(&mut self, device: &mut Device, last: &Standing) -> Option<Plan> {
        let live = self.run.take()?;
        live.show(device, last);
        self.goes_on = Some(GoesOn { ordered_ns: live.ordered_ns, next_ns: last.next_ns });
        self.engine = last.engine.or(self.engine);
        Some(live.plan)
    }

    /// The run is over: result and all.
    fn finish(&mut self, device: &mut Device, ending: Ending) {
        let Some(plan) = self.take_over(device, &ending.last) else { return };
        let has_frame = device.counters.sofar + device.counters.errors > 0;
        let fragments =
            if has_frame { fragments(&device.config, &plan, device.cursor.frame_size) } else { NO_FRAME };
        match ending.why {
            Why::Done | Why::DeviceGone => device.stop(ending.stopped_ns, fragments),
            Why::Failed(why) => device.fail(ending.stopped_ns, &why),
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

    /// A part is over and the run is to go on, unless it cannot.
    fn absorb(&mut self, device: &mut Device, ending: Ending) {
        match ending.why {
            Why::Done => {
                if let Some(plan) = self.take_over(device, &ending.last) {
                    device.cursor.end_repeats(plan.repeats);
                }
            }
            Why::DeviceGone | Why::Failed(_) => self.finish(device, ending),
        }
    }
}

impl Live {
    /// Shows in the device instance where its run stands.
    fn show(&self, device: &mut Device, standing: &Standing) {
        let counters = &mut device.counters;
        counters.sofar = self.base.sofar + standing.sent;
        counters.errors = self.base.errors + standing.errors;
        counters.idle_ns = self.base.idle_ns + standing.idle_ns;
        if self.is_first {
            counters.started_ns = standing.started_ns;
        }
        device.cursor.clone_from(&standing.cursor);
    }
}

/// What a write does to a run that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, or there is no run.
    Nothing,
    /// When it ends and how fast it goes.
    Terms,
    /// What the frames are.
    Frames,
}

/// Tries a write on a copy.
pub(super) fn effect_of(device: &Device, bytes: &[u8], facts: &Facts) -> Effect {
    if !device.is_running {
        return Effect::Nothing;
    }
    let mut before = device.clone();
    before.cursor.write_back(&mut before.config);
    let mut after = device.clone();
    // A refused write can change settings too.
    let _ = after.write(bytes, facts);
    let frames = |config: &Config| Config { count: 0, delay_ns: 0, ..config.clone() };
    let is_same_frames = frames(&before.config) == frames(&after.config)
        && before.cursor == after.cursor
        && before.counters == after.counters;
    match is_same_frames {
        false => Effect::Frames,
        true if before.config == after.config => Effect::Nothing,
        true => Effect::Terms,
    }
}

fn over(order: &Order, why: Why) -> Box<dyn Running> {
    Box::new(Over::with(Ending::at_once(order, monotonic_ns(), why)))
}
