//! The state of one tree: device instances, their runs, and how the two follow each other and the interfaces.
//!
//! Nothing here waits for long; ends of runs and changes of interfaces are noticed whenever somebody looks.

use super::links::{Interface, Links};
use super::runner::Runner;
use super::seat::{Effect, Seat, effect_of};
use command::{ControlTree, Device, Facts, Refused, interface_of};
use host::monotonic_ns;
use packet::{DeviceFacts, Plan};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The interfaces are asked after at most this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Unread results of removed device instances that are kept at most; `serve` removes and never reports.
const UNREAD_MAX: usize = 64;

/// Everything behind the files.
pub(super) struct State {
    pub(super) tree: ControlTree,
    seats: HashMap<String, Seat>,
    /// The interfaces of the device instances, as of the last look.
    interfaces: HashMap<u32, Interface>,
    last_look: Option<Instant>,
    /// Of device instances that have been removed, the newest last.
    unread: VecDeque<String>,
}

impl State {
    pub(super) fn new(cpus: Vec<u32>) -> Self {
        Self {
            tree: ControlTree::new(cpus),
            seats: HashMap::new(),
            interfaces: HashMap::new(),
            last_look: None,
            unread: VecDeque::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.tree.devices().any(|device| device.is_running)
    }

    /// The text of a device file.
    pub(super) fn read_device(&mut self, links: &dyn Links, name: &str) -> Option<Vec<u8>> {
        let facts = self.facts(links, name)?;
        let seat = self.seats.get_mut(name)?;
        // The reader sees it now.
        seat.take_unread();
        let engine = seat.engine();
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
        links.warn_of_default_route(&name, index);
        self.seats.insert(name.clone(), Seat::new(index, &interface.name, &name));
        self.interfaces.insert(index, interface);
        Ok(())
    }

    /// Takes the device instances of one thread, or of all, out; their runs end first.
    pub(super) fn remove(&mut self, cpu: Option<u32>) -> Result<(), Refused> {
        self.end(cpu);
        let removed = match cpu {
            Some(cpu) => self.tree.remove_all(cpu)?,
            None => self.tree.reset(),
        };
        for device in removed {
            self.remove_seat(device.name());
        }
        Ok(())
    }

    fn remove_seat(&mut self, name: &str) {
        let unread = self.seats.remove(name).and_then(|mut seat| seat.take_unread());
        self.unread.extend(unread);
        if self.unread.len() > UNREAD_MAX {
            self.unread.pop_front();
        }
    }

    /// The results that no reader has seen, once.
    pub(super) fn unread(&mut self) -> Vec<String> {
        let mut lines: Vec<String> = self.unread.drain(..).collect();
        for (_, name) in self.places(None) {
            lines.extend(self.seats.get_mut(&name).and_then(Seat::take_unread));
        }
        lines
    }

    /// Starts every device instance from the beginning.
    pub(super) fn start(&mut self, links: &dyn Links, runner: &dyn Runner) {
        self.end(None);
        for (cpu, name) in self.places(None) {
            let Some(seat) = self.seats.get(&name) else { continue };
            let facts = DeviceFacts { cpu, ..links.device_facts(seat.index()) };
            let can_send = self.interfaces.get(&seat.index()).is_some_and(Interface::can_send);
            let Some((device, seat)) = self.both(&name) else { continue };
            learn_associations(device, links);
            let seed = RandomState::new().hash_one(monotonic_ns());
            // A plan that cannot be made is told in the result text.
            match device.start(&facts, monotonic_ns(), seed) {
                Ok(plan) if can_send => seat.begin(device, cpu, plan, true, runner),
                Ok(plan) => seat.begin_down(device, cpu, plan),
                Err(_) => seat.keep_result(device),
            }
        }
    }

    /// Asks all runs of a thread, or of all threads, to end.
    pub(super) fn stop(&self, cpu: Option<u32>) {
        for (_, name) in self.places(cpu) {
            if let Some(seat) = self.seats.get(&name) {
                seat.stop();
            }
        }
    }

    /// Ends them and waits.
    fn end(&mut self, cpu: Option<u32>) {
        self.stop(cpu);
        for (_, name) in self.places(cpu) {
            if let Some((device, seat)) = self.both(&name) {
                seat.wait_for_end(device);
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
        for (_, name) in self.places(None) {
            if let Some((device, seat)) = self.both(&name) {
                seat.sync(device);
            }
        }
        if self.last_look.is_none_or(|look| look.elapsed() >= LOOK_INTERVAL) {
            self.follow_interfaces(links);
            self.last_look = Some(Instant::now());
        }
    }

    /// The device instances of a thread, or of all, with their CPU; newest first within a thread.
    fn places(&self, cpu: Option<u32>) -> Vec<(u32, String)> {
        let threads = self.tree.threads().iter().filter(|thread| cpu.is_none_or(|cpu| cpu == thread.cpu()));
        threads
            .flat_map(|thread| thread.devices().iter().map(|device| (thread.cpu(), device.name().to_owned())))
            .collect()
    }

    fn cpu_of(&self, name: &str) -> u32 {
        let has_it = |thread: &&command::Thread| thread.devices().iter().any(|device| device.name() == name);
        self.tree.threads().iter().find(has_it).map_or(0, command::Thread::cpu)
    }

    fn facts(&self, links: &dyn Links, name: &str) -> Option<Facts> {
        self.interfaces.get(&self.seats.get(name)?.index()).map(|interface| links.facts(interface))
    }

    /// The device instance of that name with its seat.
    fn both(&mut self, name: &str) -> Option<(&mut Device, &mut Seat)> {
        Some((self.tree.device_mut(name)?, self.seats.get_mut(name)?))
    }

    fn pause(&mut self, name: &str) {
        if let Some((device, seat)) = self.both(name) {
            seat.pause(device);
        }
    }

    fn resume(&mut self, links: &dyn Links, runner: &dyn Runner, name: &str) {
        let cpu = self.cpu_of(name);
        let Some((device, seat)) = self.both(name).filter(|(device, _)| device.is_running) else { return };
        let facts = DeviceFacts { cpu, ..links.device_facts(seat.index()) };
        learn_associations(device, links);
        match Plan::new(&device.config, &facts, &device.cursor) {
            Ok(plan) => seat.begin(device, cpu, plan, false, runner),
            Err(error) => device.fail(monotonic_ns(), &error.to_string()),
        }
    }

    fn change_terms(&mut self, name: &str) {
        let cpu = self.cpu_of(name);
        if let Some((device, seat)) = self.both(name) {
            seat.change_terms(device, cpu);
        }
    }

    /// Renames, ends and removes device instances as their interfaces do.
    fn follow_interfaces(&mut self, links: &dyn Links) {
        let mut indexes: Vec<u32> = self.seats.values().map(Seat::index).collect();
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
        self.follow_names();
    }

    fn follow(&mut self, interface: Interface) {
        if !interface.can_send() {
            self.stop_index(interface.index);
        }
        self.interfaces.insert(interface.index, interface);
    }

    fn names_on(&self, index: u32) -> Vec<String> {
        let on_it = self.seats.iter().filter(|(_, seat)| seat.index() == index);
        on_it.map(|(name, _)| name.clone()).collect()
    }

    fn remove_index(&mut self, index: u32) {
        self.stop_index(index);
        self.interfaces.remove(&index);
        for name in self.names_on(index) {
            self.remove_seat(&name);
            self.tree.remove_device(&name);
        }
    }

    fn stop_index(&self, index: u32) {
        self.seats.values().filter(|seat| seat.index() == index).for_each(Seat::stop);
    }

    /// Names the files after their interfaces, all at once: two interfaces may have swapped their names. A name that
    /// is taken is tried again at the next look, since that may have been half way through a swap.
    fn follow_names(&mut self) {
        let mut wanted = Vec::new();
        for (name, seat) in &mut self.seats {
            let interface = self.interfaces.get(&seat.index());
            let new_name = interface.and_then(|interface| seat.look(&interface.name, name));
            wanted.extend(new_name.map(|new_name| (name.clone(), new_name)));
        }
        let done = self.tree.rename_devices(wanted);
        let seats: Vec<_> = done.iter().map(|(old, _)| self.seats.remove(old)).collect();
        for ((old, new), seat) in done.into_iter().zip(seats) {
            tracing::info!(old, new, "a device instance follows its interface");
            self.seats.extend(seat.map(|mut seat| {
                seat.renamed();
                (new, seat)
            }));
        }
    }
}

/// Asks for the security associations as they are now, where frames are to be sealed.
fn learn_associations(device: &mut Device, links: &dyn Links) {
    if device.config.asks_for_ipsec() {
        device.cursor.associations = links.associations();
    }
}
