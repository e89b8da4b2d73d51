//! The state of one tree: device instances and their runs.
//!
//! Nothing here waits. The only query to the kernel is that for security associations, which
//! [`super::Control`] makes while it does not hold the lock.

use super::AdviseFn;
use super::instance::{InstanceRun, over};
use super::interfaces::{Interfaces, LiveInterface};
use command::{ControlTree, Device, Facts, Refusal, Touches};
use engine::{End, Event, Request, RunHandle};
use host::{HostError, monotonic_ns};
use packet::{DeviceFacts, Plan};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Begins runs, one handle per request.
type BeginRuns<'a> = dyn Fn(Vec<(u32, Request)>) -> Vec<Arc<RunHandle>> + 'a;

/// Unread results of removed device instances that are kept at most; `serve` removes and never
/// reports.
const UNREAD_MAX: usize = 64;

/// Everything behind the files.
pub(super) struct ControlState {
    pub(super) tree: ControlTree,
    instances: HashMap<String, InstanceRun>,
    /// Notified when a run ends.
    changed: Arc<Event>,
    /// The interfaces of the device instances, as of the last look.
    interfaces: HashMap<u32, LiveInterface>,
    /// Of device instances that have been removed, the newest last.
    unread: VecDeque<String>,
    /// The note about outer VLAN tags was logged.
    has_noted_outer_tag: bool,
    advise: AdviseFn,
}

impl ControlState {
    pub(super) fn new(cpus: Vec<u32>, changed: Arc<Event>, advise: AdviseFn) -> Self {
        Self {
            tree: ControlTree::new(cpus),
            instances: HashMap::new(),
            changed,
            interfaces: HashMap::new(),
            unread: VecDeque::new(),
            has_noted_outer_tag: false,
            advise,
        }
    }

    /// True while a run goes on; those that have ended have their results then.
    pub(super) fn is_running(&mut self) -> bool {
        self.finish_ended();
        self.tree.devices().any(|device| device.is_running)
    }

    /// Gives the runs that have ended their results.
    pub(super) fn finish_ended(&mut self) {
        let ended = self.instances.iter().filter(|(_, instance)| instance.has_ended());
        for name in ended.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.sync(&name);
        }
    }

    /// Brings counters, cursor and result of a device instance up to now.
    pub(super) fn sync(&mut self, name: &str) {
        if let Some((device, instance)) = self.both(name) {
            instance.sync(device);
        }
    }

    /// The text of a device file.
    pub(super) fn read_device(&mut self, links: &dyn Interfaces, name: &str) -> Option<Vec<u8>> {
        self.sync(name);
        let facts = self.facts(links, name)?;
        let instance = self.instances.get_mut(name)?;
        // The reader sees it now.
        instance.take_unread();
        let engine = instance.engine();
        Some(self.tree.device(name)?.read(&facts, monotonic_ns(), engine))
    }

    /// Adds a device instance on `interface`, which is what its name stands for.
    pub(super) fn add_device(
        &mut self,
        links: &dyn Interfaces,
        cpu: u32,
        name: &[u8],
        interface: Option<LiveInterface>,
    ) -> Result<(), Refusal> {
        let state = interface.as_ref().map(|interface| interface.state);
        let name = self.tree.add_device(cpu, name, state)?.name().to_owned();
        // `add_device` refuses a name without an interface.
        let Some(interface) = interface else { return Ok(()) };
        let index = interface.index;
        links.warn_of_default_route(&name, index);
        let instance = InstanceRun::new(index, &interface.name, &name, self.advise);
        self.instances.insert(name.clone(), instance);
        self.interfaces.insert(index, interface);
        Ok(())
    }

    /// Takes the device instances of one thread, or of all, out; their runs have ended.
    pub(super) fn remove(&mut self, cpu: Option<u32>) -> Result<(), Refusal> {
        let removed = match cpu {
            Some(cpu) => self.tree.remove_all(cpu)?,
            None => self.tree.reset(),
        };
        for device in removed {
            self.remove_instance(device.name());
        }
        Ok(())
    }

    fn remove_instance(&mut self, name: &str) {
        let unread = self.instances.remove(name).and_then(|mut instance| instance.take_unread());
        self.unread.extend(unread);
        if self.unread.len() > UNREAD_MAX {
            self.unread.pop_front();
        }
    }

    /// The results that no reader has seen, once.
    pub(super) fn unread(&mut self) -> Vec<String> {
        let mut lines: Vec<String> = self.unread.drain(..).collect();
        for (_, name) in self.places(None) {
            lines.extend(self.instances.get_mut(&name).and_then(InstanceRun::take_unread));
        }
        lines
    }

    /// Starts every device instance from the beginning, with what `facts` has of its interface; no
    /// run goes on. Returns the runs.
    pub(super) fn start(
        &mut self,
        facts: &HashMap<u32, DeviceFacts>,
        links: &dyn Interfaces,
        start_runs: &BeginRuns<'_>,
    ) -> Vec<Arc<RunHandle>> {
        let (mut names, mut plans, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for (cpu, name) in self.places(None) {
            let Some(instance) = self.instances.get(&name) else { continue };
            // Added since the interfaces were asked: it waits for the next start.
            let Some(facts) = facts.get(&instance.index()) else { continue };
            let facts = DeviceFacts { cpu, ..*facts };
            let can_send = self.interfaces.get(&instance.index()).is_some_and(LiveInterface::can_send);
            let Some((device, instance)) = self.both(&name) else { continue };
            learn_associations(device, links);
            let seed = RandomState::new().hash_one(monotonic_ns());
            // A plan that cannot be made is told in the result text.
            let Ok(plan) = device.start(&facts, monotonic_ns(), seed) else {
                instance.keep_result(device);
                continue;
            };
            let request = instance.request(device, plan.clone(), true);
            if can_send {
                names.push(name);
                plans.push(plan);
                requests.push((cpu, request));
            } else {
                instance.begun(device, plan, true, over(&request, End::Stopped));
                self.changed.notify();
            }
        }
        let runs = start_runs(requests);
        for ((name, plan), run) in names.iter().zip(plans).zip(&runs) {
            run.notify_end(&self.changed);
            if let Some((device, instance)) = self.both(name) {
                instance.begun(device, plan, true, Arc::clone(run));
            }
        }
        runs
    }

    /// Asks all runs to end.
    pub(super) fn stop(&mut self) {
        self.instances.values_mut().for_each(InstanceRun::stop);
    }

    /// Asks the runs of a thread, or of all, to end, and returns one that goes on; the others have
    /// their results.
    pub(super) fn end(&mut self, cpu: Option<u32>) -> Option<Arc<RunHandle>> {
        let mut live = None;
        for (_, name) in self.places(cpu) {
            if let Some((device, instance)) = self.both(&name) {
                live = instance.end(device).or(live);
            }
        }
        live
    }

    /// Gives up the runs of a thread, or of all, that did not end.
    pub(super) fn abandon(&mut self, cpu: Option<u32>) {
        for (_, name) in self.places(cpu) {
            if let Some((device, instance)) = self.both(&name) {
                instance.abandon(device);
            }
        }
    }

    /// True while a writer waits to continue the run of a device instance.
    pub(super) fn is_paused(&self, name: &str) -> bool {
        self.instances.get(name).is_some_and(InstanceRun::is_paused)
    }

    /// One write to a device file. What it changes in a run takes effect from the next frame built.
    /// Where that needs the end of the run's present part nothing is written yet: the caller waits
    /// for the end of what this returns.
    pub(super) fn write_device(
        &mut self,
        links: &dyn Interfaces,
        name: &str,
        bytes: &[u8],
    ) -> Result<Option<Arc<RunHandle>>, Refusal> {
        self.sync(name);
        let Some(facts) = self.facts(links, name) else {
            return self.tree.write_device(name, bytes, &Facts::default()).map(|_| None);
        };
        let is_running = self.tree.device(name).is_some_and(|device| device.is_running);
        let touches = if is_running { command::touches(bytes, &facts) } else { Touches::Nothing };
        if touches == Touches::Frames
            && let Some(run) = self.instances.get_mut(name).and_then(InstanceRun::pause)
        {
            return Ok(Some(run));
        }
        let written = self.tree.write_device(name, bytes, &facts).map(|_| None);
        if touches == Touches::Pace {
            self.set_limits(name);
        }
        self.note_outer_tag(name);
        written
    }

    /// Notes once that the tags of pktgen are not those of IEEE 802.1ad.
    fn note_outer_tag(&mut self, name: &str) {
        let has_outer_tag = self.tree.device(name).is_some_and(|device| device.config.svlan_id.is_some());
        if has_outer_tag && !self.has_noted_outer_tag {
            self.has_noted_outer_tag = true;
            tracing::warn!(
                "svlan_id of {name} is an outer tag with type 0x8100, as in pktgen; `wirerate send --vlan \
                 OUTER,INNER` sends 802.1ad (0x88a8 outside)"
            );
        }
    }

    /// The write for which `run` was paused; it continues after that. `None` when another writer
    /// has ended it meanwhile.
    pub(super) fn write_paused(
        &mut self,
        links: &dyn Interfaces,
        start_runs: &BeginRuns<'_>,
        (name, bytes): (&str, &[u8]),
        run: &Arc<RunHandle>,
        facts: &DeviceFacts,
    ) -> Option<Result<(), Refusal>> {
        let (device, instance) = self.both(name)?;
        if !instance.merge_part(device, run) {
            return None;
        }
        let command_facts = self.facts(links, name).unwrap_or_default();
        let written = self.tree.write_device(name, bytes, &command_facts).map(drop);
        self.resume(links, start_runs, name, facts);
        Some(written)
    }

    /// The interfaces that device instances are on, or only that of `name`.
    pub(super) fn indexes(&self, name: Option<&str>) -> Vec<u32> {
        let instances = self.instances.iter().filter(|(own, _)| name.is_none_or(|name| name == *own));
        let mut indexes: Vec<u32> = instances.map(|(_, instance)| instance.index()).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
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

    fn facts(&self, links: &dyn Interfaces, name: &str) -> Option<Facts> {
        self.interfaces.get(&self.instances.get(name)?.index()).map(|interface| links.facts(interface))
    }

    /// The device instance of that name with its instance.
    fn both(&mut self, name: &str) -> Option<(&mut Device, &mut InstanceRun)> {
        Some((self.tree.device_mut(name)?, self.instances.get_mut(name)?))
    }

    fn resume(
        &mut self,
        links: &dyn Interfaces,
        start_runs: &BeginRuns<'_>,
        name: &str,
        facts: &DeviceFacts,
    ) {
        let (cpu, changed) = (self.cpu_of(name), Arc::clone(&self.changed));
        let Some((device, instance)) = self.both(name).filter(|(device, _)| device.is_running) else {
            return;
        };
        let facts = DeviceFacts { cpu, ..*facts };
        learn_associations(device, links);
        match Plan::new(&device.config, &facts, &device.cursor) {
            Ok(plan) => {
                let request = instance.request(device, plan.clone(), false);
                // A count lowered below what was sent already: one frame more would be one too
                // many.
                let is_reached = device.config.count != 0 && device.counters.sofar >= device.config.count;
                let run = match is_reached {
                    true => Some(over(&request, End::Count)),
                    false => start_runs(vec![(cpu, request)]).pop(),
                };
                if let Some(run) = run {
                    run.notify_end(&changed);
                    instance.begun(device, plan, false, run);
                }
            }
            Err(error) => device.fail(monotonic_ns(), &error.to_string()),
        }
    }

    fn set_limits(&mut self, name: &str) {
        if let Some((device, instance)) = self.both(name) {
            instance.set_limits(device);
        }
    }

    /// Renames, ends and removes device instances as their interfaces do, which were `found` by
    /// their numbers.
    pub(super) fn follow_interfaces(&mut self, found: Vec<(u32, Result<Option<LiveInterface>, HostError>)>) {
        let indexes = self.indexes(None);
        self.interfaces.retain(|index, _| indexes.binary_search(index).is_ok());
        for (index, interface) in found {
            match interface {
                Err(error) => tracing::warn!(%error, "an interface is taken to be as it was"),
                Ok(None) => self.remove_index(index),
                Ok(Some(interface)) if indexes.binary_search(&index).is_ok() => self.follow(interface),
                Ok(Some(_)) => {}
            }
        }
        self.follow_names();
    }

    fn follow(&mut self, interface: LiveInterface) {
        if !interface.can_send() {
            self.stop_index(interface.index);
        }
        self.interfaces.insert(interface.index, interface);
    }

    fn names_on(&self, index: u32) -> Vec<String> {
        let on_it = self.instances.iter().filter(|(_, instance)| instance.index() == index);
        on_it.map(|(name, _)| name.clone()).collect()
    }

    fn remove_index(&mut self, index: u32) {
        self.stop_index(index);
        self.interfaces.remove(&index);
        for name in self.names_on(index) {
            self.remove_instance(&name);
            self.tree.remove_device(&name);
        }
    }

    fn stop_index(&mut self, index: u32) {
        self.instances.values_mut().filter(|instance| instance.index() == index).for_each(InstanceRun::stop);
    }

    /// Names the files after their interfaces, all at once: two interfaces may have swapped their
    /// names. A name that is taken is tried again at the next look, since that may have been half
    /// way through a swap.
    fn follow_names(&mut self) {
        let mut wanted = Vec::new();
        for (name, instance) in &mut self.instances {
            let interface = self.interfaces.get(&instance.index());
            let new_name = interface.and_then(|interface| instance.look(&interface.name, name));
            wanted.extend(new_name.map(|new_name| (name.clone(), new_name)));
        }
        let done = self.tree.rename_devices(wanted);
        let instances: Vec<_> = done.iter().map(|(old, _)| self.instances.remove(old)).collect();
        for ((old, new), instance) in done.into_iter().zip(instances) {
            tracing::info!(old, new, "a device instance follows its interface");
            self.instances.extend(instance.map(|mut instance| {
                instance.renamed();
                (new, instance)
            }));
        }
    }
}

/// Reads the security associations as they are now, for frames with IPsec.
fn learn_associations(device: &mut Device, links: &dyn Interfaces) {
    if device.config.asks_for_ipsec() {
        device.cursor.associations = links.associations();
    }
}
