//! The state of one tree: device instances, their runs, and how the two follow each other and the interfaces.
//!
//! Nothing here waits for long; ends of runs and changes of interfaces are noticed whenever somebody looks.

use super::links::{Interface, Links};
use super::runner::{Ending, Order, Over, Runner, Running, Standing, Why};
use command::{ControlTree, Counters, Device, Facts, NO_FRAME, Refused, fragments, interface_of};
use host::monotonic_ns;
use packet::{Config, DeviceFacts, Plan};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// How long a run may take to end after it was told to.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The interfaces are asked after at most this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// What the tree of `command` does not know of a device instance.
struct Seat {
    /// Number of the interface.
    index: u32,
    run: Option<Live>,
    /// The engine of this run or the last one.
    engine: Option<&'static str>,
}

/// A run that goes on.
struct Live {
    run: Box<dyn Running>,
    plan: Plan,
    /// What earlier parts of this run came to, before commands cut it.
    base: Counters,
    /// This is the first part: the run begins when the engine is ready, not when it was asked for.
    is_first: bool,
}

/// Everything behind the files.
pub(super) struct State {
    pub(super) tree: ControlTree,
    seats: HashMap<String, Seat>,
    /// The interfaces of the device instances, as of the last look.
    interfaces: HashMap<u32, Interface>,
    last_look: Option<Instant>,
}

impl State {
    pub(super) fn new(cpus: Vec<u32>) -> Self {
        Self {
            tree: ControlTree::new(cpus),
            seats: HashMap::new(),
            interfaces: HashMap::new(),
            last_look: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.tree.devices().any(|device| device.is_running)
    }

    /// The text of a device file.
    pub(super) fn read_device(&mut self, links: &dyn Links, name: &str) -> Option<Vec<u8>> {
        let facts = self.facts(links, name)?;
        let engine = self.seats.get(name).and_then(|seat| seat.engine);
        Some(self.tree.device(name)?.read(&facts, monotonic_ns(), engine))
    }

    pub(super) fn add_device(&mut self, links: &dyn Links, cpu: u32, name: &[u8]) -> Result<(), Refused> {
        let text = String::from_utf8_lossy(name);
        let interface = links.named(interface_of(&text));
        let state = interface.as_ref().map(|interface| interface.state);
        let name = self.tree.add_device(cpu, name, state)?.name().to_owned();
        // `add_device` refuses a name without an interface.
        let Some(interface) = interface else { return Ok(()) };
        let index = interface.index;
        if links.carries_default_route(index) {
            tracing::warn!("{name} carries the default route of this host: `start` will send there");
        }
        self.interfaces.insert(index, interface);
        self.seats.insert(name, Seat { index, run: None, engine: None });
        Ok(())
    }

    /// Takes the device instances of one thread, or of all, out; their runs end first.
    pub(super) fn remove(&mut self, cpu: Option<u32>) -> Result<(), Refused> {
        self.stop(cpu);
        self.wait_for_ends();
        let removed = match cpu {
            Some(cpu) => self.tree.remove_all(cpu)?,
            None => self.tree.reset(),
        };
        for device in removed {
            self.seats.remove(device.name());
        }
        Ok(())
    }

    /// Starts every device instance from the beginning.
    pub(super) fn start(&mut self, links: &dyn Links, runner: &dyn Runner) {
        self.stop(None);
        self.wait_for_ends();
        for (cpu, name) in self.places() {
            let (Some(device), Some(seat)) = (self.tree.device_mut(&name), self.seats.get_mut(&name)) else {
                continue;
            };
            let facts = DeviceFacts { cpu, ..links.device_facts(seat.index) };
            let seed = RandomState::new().hash_one(monotonic_ns());
            // A plan that cannot be made is told in the result text.
            if let Ok(plan) = device.start(&facts, monotonic_ns(), seed) {
                match self.interfaces.get(&seat.index).is_some_and(Interface::can_send) {
                    true => seat.begin(device, cpu, plan, true, runner),
                    false => seat.begin_down(device, cpu, plan),
                }
            }
        }
    }

    /// Asks all runs of a thread, or of all threads, to end.
    pub(super) fn stop(&self, cpu: Option<u32>) {
        for (at, name) in self.places() {
            if cpu.is_none_or(|cpu| cpu == at)
                && let Some(live) = self.seats.get(&name).and_then(|seat| seat.run.as_ref())
            {
                live.run.stop();
            }
        }
    }

    /// One write to a device file. What it changes in a run takes effect from the next frame built.
    pub(super) fn write_device(
        &mut self,
        links: &dyn Links,
        runner: &dyn Runner,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let Some(facts) = self.facts(links, name) else {
            return self.tree.write_device(name, bytes, &Facts::default()).map(drop);
        };
        let effect =
            self.tree.device(name).map_or(Effect::Nothing, |device| effect_of(device, bytes, &facts));
        if effect == Effect::Frames {
            self.pause(name);
        }
        let written = self.tree.write_device(name, bytes, &facts).map(drop);
        match effect {
            Effect::Frames => self.resume(links, runner, name),
            Effect::Terms => self.change_terms(name),
            Effect::Nothing => {}
        }
        written
    }

    /// Brings counters, cursors and results up to now, and follows the interfaces.
    pub(super) fn sync(&mut self, links: &dyn Links) {
        for (_, name) in self.places() {
            self.sync_run(&name);
        }
        if self.last_look.is_none_or(|look| look.elapsed() >= LOOK_INTERVAL) {
            self.follow_interfaces(links);
            self.last_look = Some(Instant::now());
        }
    }

    /// Each device instance and the CPU of its thread, newest first within a thread.
    fn places(&self) -> Vec<(u32, String)> {
        let threads = self.tree.threads().iter();
        threads
            .flat_map(|thread| thread.devices().iter().map(|device| (thread.cpu(), device.name().to_owned())))
            .collect()
    }

    fn cpu_of(&self, name: &str) -> u32 {
        let has_it = |thread: &&command::Thread| thread.devices().iter().any(|device| device.name() == name);
        self.tree.threads().iter().find(has_it).map_or(0, command::Thread::cpu)
    }

    fn facts(&self, links: &dyn Links, name: &str) -> Option<Facts> {
        self.interfaces.get(&self.seats.get(name)?.index).map(|interface| links.facts(interface))
    }

    fn sync_run(&mut self, name: &str) {
        let (Some(device), Some(seat)) = (self.tree.device_mut(name), self.seats.get_mut(name)) else {
            return;
        };
        let Some(live) = &seat.run else { return };
        if let Some(ending) = live.run.wait(Duration::ZERO) {
            seat.finish(device, ending);
        } else if let Some(standing) = live.run.standing() {
            seat.engine = standing.engine.or(seat.engine);
            live.show(device, &standing);
        }
    }

    /// Waits for all runs that were told to stop; those that were not go on.
    fn wait_for_ends(&mut self) {
        for (_, name) in self.places() {
            self.wait_for_end(&name, Seat::finish);
        }
    }

    fn wait_for_end(&mut self, name: &str, then: fn(&mut Seat, &mut Device, Ending)) {
        let (Some(device), Some(seat)) = (self.tree.device_mut(name), self.seats.get_mut(name)) else {
            return;
        };
        let Some(live) = &seat.run else { return };
        match live.run.wait(END_TIMEOUT) {
            Some(ending) => then(seat, device, ending),
            None => {
                seat.run = None;
                device.fail(monotonic_ns(), "the run did not end when it was told to");
            }
        }
    }

    /// Ends this part of a run at the next frame, to go on with other frames.
    fn pause(&mut self, name: &str) {
        if let Some(live) = self.seats.get(name).and_then(|seat| seat.run.as_ref()) {
            live.run.stop();
            self.wait_for_end(name, Seat::absorb);
        }
    }

    fn resume(&mut self, links: &dyn Links, runner: &dyn Runner, name: &str) {
        let cpu = self.cpu_of(name);
        let (Some(device), Some(seat)) = (self.tree.device_mut(name), self.seats.get_mut(name)) else {
            return;
        };
        if !device.is_running {
            return;
        }
        let facts = DeviceFacts { cpu, ..links.device_facts(seat.index) };
        match Plan::new(&device.config, &facts, &device.cursor) {
            Ok(plan) => seat.begin(device, cpu, plan, false, runner),
            Err(error) => device.fail(monotonic_ns(), &error.to_string()),
        }
    }

    fn change_terms(&mut self, name: &str) {
        let cpu = self.cpu_of(name);
        let (Some(device), Some(seat)) = (self.tree.device(name), self.seats.get(name)) else { return };
        if let Some(live) = &seat.run {
            live.run.change_terms(order(device, cpu, live.plan.clone(), &live.base));
        }
    }

    /// Renames, ends and removes device instances as their interfaces do.
    fn follow_interfaces(&mut self, links: &dyn Links) {
        let mut indexes: Vec<u32> = self.seats.values().map(|seat| seat.index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        self.interfaces.retain(|index, _| indexes.binary_search(index).is_ok());
        for index in indexes {
            match links.numbered(index) {
                Err(error) => tracing::warn!(%error, "an interface is taken to be as it was"),
                Ok(None) => self.remove_index(index),
                Ok(Some(interface)) => self.follow(interface),
            }
        }
    }

    fn follow(&mut self, interface: Interface) {
        self.follow_rename(&interface);
        if !interface.can_send() {
            self.stop_index(interface.index);
        }
        self.interfaces.insert(interface.index, interface);
    }

    fn names_on(&self, index: u32) -> Vec<String> {
        let on_it = self.seats.iter().filter(|(_, seat)| seat.index == index);
        on_it.map(|(name, _)| name.clone()).collect()
    }

    fn remove_index(&mut self, index: u32) {
        self.stop_index(index);
        self.interfaces.remove(&index);
        for name in self.names_on(index) {
            self.seats.remove(&name);
            self.tree.remove_interface(interface_of(&name));
        }
    }

    fn stop_index(&self, index: u32) {
        for name in self.names_on(index) {
            if let Some(live) = self.seats.get(&name).and_then(|seat| seat.run.as_ref()) {
                live.run.stop();
            }
        }
    }

    fn follow_rename(&mut self, interface: &Interface) {
        for name in self.names_on(interface.index) {
            let old = interface_of(&name);
            if old == interface.name {
                continue;
            }
            let new_name = format!("{}{}", interface.name, &name[old.len()..]);
            self.tree.rename_interface(old, &interface.name);
            // A name that is taken leaves the device instance under its old one.
            if self.tree.device(&name).is_none()
                && let Some(seat) = self.seats.remove(&name)
            {
                tracing::info!(old = name, new = new_name, "a device instance follows its interface");
                self.seats.insert(new_name, seat);
            }
        }
    }
}

impl Seat {
    fn begin(&mut self, device: &Device, cpu: u32, plan: Plan, is_first: bool, runner: &dyn Runner) {
        let base = device.counters;
        let order = order(device, cpu, plan.clone(), &base);
        // A count lowered below what was sent already: one frame more would be one too many.
        let is_reached = device.config.count != 0 && base.sofar >= device.config.count;
        let run = if is_reached { over(&order, Why::Done) } else { runner.begin(order) };
        self.run = Some(Live { run, plan, base, is_first });
    }

    /// As [`Self::begin`] on a device that is down: a normal end before the first frame.
    fn begin_down(&mut self, device: &Device, cpu: u32, plan: Plan) {
        let base = device.counters;
        let order = order(device, cpu, plan.clone(), &base);
        self.run = Some(Live { run: over(&order, Why::DeviceGone), plan, base, is_first: true });
    }

    /// Takes over what the part of a run that has just ended did.
    fn take_over(&mut self, device: &mut Device, last: &Standing) -> Option<Plan> {
        let live = self.run.take()?;
        live.show(device, last);
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
    }

    /// A part is over and the run is to go on, unless it cannot.
    fn absorb(&mut self, device: &mut Device, ending: Ending) {
        match ending.why {
            Why::Done => drop(self.take_over(device, &ending.last)),
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
enum Effect {
    /// Nothing, or there is no run.
    Nothing,
    /// When it ends and how fast it goes.
    Terms,
    /// What the frames are.
    Frames,
}

/// Tries a write on a copy.
fn effect_of(device: &Device, bytes: &[u8], facts: &Facts) -> Effect {
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

fn order(device: &Device, cpu: u32, plan: Plan, base: &Counters) -> Order {
    let count = device.config.count;
    Order {
        ifname: device.interface().to_owned(),
        cpu,
        config: device.config.clone(),
        plan,
        cursor: device.cursor.clone(),
        // A count that is reached already must not become 0, which is no end.
        count: if count == 0 { 0 } else { count.saturating_sub(base.sofar).max(1) },
    }
}
