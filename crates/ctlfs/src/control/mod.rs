//! The control files of one network namespace, and the runs that they start.
//!
//! [`Control`] is the [`Tree`] that `exec` and `serve` mount. It passes bytes to `command`,
//! requests to the workers of `engine`, and reads [`Interfaces`]. One lock guards the state. It is
//! not held while an engine is built, a run ends or the kernel is queried, so other writers and
//! look-ups do not wait for these.

mod default_route_warning;
mod instance;
mod interfaces;
mod state;
#[cfg(test)]
mod tests;

pub use interfaces::{HostInterfaces, Interfaces, LiveInterface};

use crate::tree::{Cancel, Errno, REFUSED, Tree, lock};
use command::{Fault, PgctrlCommand, Refusal, ThreadCommand, TreeFile, VERSION_LINE, interface_of};
use engine::{EngineError, EngineKind, Event, Request, RunHandle, Worker, Workers};
use host::{CpuList, HostError, Netns, StartTime};
use state::ControlState;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a run may take to end after it was told to.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long `stop`, or a signal to the writer of `start`, waits for the results.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Characters of a refused write that are logged at most.
const REFUSED_LEN_MAX: usize = 80;

/// Begins runs, each on the thread of its CPU, all at the same instant, at the given time if there
/// is one. Returns one handle per request.
pub type StartRuns = dyn Fn(Vec<(u32, Request)>, Option<StartTime>) -> Vec<Arc<RunHandle>> + Send + Sync;

/// What the reader of a result can try about an error, if anything.
pub type AdviseFn = fn(&EngineError) -> Option<String>;

/// A run that has been started.
#[derive(Clone, Debug)]
pub struct StartedRun {
    /// The CPU of its thread.
    pub cpu: u32,
    /// Its device.
    pub ifname: String,
    /// The run.
    pub handle: Arc<RunHandle>,
}

/// The control tree of one network namespace.
pub struct Control {
    state: Mutex<ControlState>,
    /// A run has ended or was continued, an interface has changed, or the writer of `start` was
    /// interrupted.
    changed: Arc<Event>,
    /// Held by who starts or removes device instances; how many writes of `start` it has served.
    starts_served: Mutex<u64>,
    starts_asked: AtomicU64,
    /// The state may not have the interfaces as they are; held while they are read.
    has_old_links: Mutex<bool>,
    links: Box<dyn Interfaces>,
    start_runs: Box<StartRuns>,
    is_closed: AtomicBool,
}

impl Control {
    /// A tree without device instances, with one thread for each of `cpus`. The results of runs
    /// that fail include what `advise` returns.
    pub fn new(
        cpus: Vec<u32>,
        links: impl Interfaces,
        advise: AdviseFn,
        start_runs: impl Fn(Vec<(u32, Request)>, Option<StartTime>) -> Vec<Arc<RunHandle>> + Send + Sync + 'static,
    ) -> Self {
        let changed = Arc::new(Event::default());
        links.notify_changes(Arc::clone(&changed));
        Self {
            state: Mutex::new(ControlState::new(cpus, Arc::clone(&changed), advise)),
            changed,
            starts_served: Mutex::new(0),
            starts_asked: AtomicU64::new(0),
            has_old_links: Mutex::new(false),
            links: Box::new(links),
            start_runs: Box::new(start_runs),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The real one, for the network namespace that the calling thread is in: a thread for each CPU
    /// online. `engine` is the one to send by, `None` for the best for each run. The results of
    /// runs that fail include what `advise` returns. `watch` gets the runs of each start.
    ///
    /// # Errors
    /// When the threads or the netlink sockets cannot be had.
    pub fn here(
        engine: Option<EngineKind>,
        advise: AdviseFn,
        watch: impl Fn(Vec<StartedRun>) + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let cpus: Vec<u32> = CpuList::online()?.iter().collect();
        let links = HostInterfaces::here()?;
        let workers = workers(&cpus, links.netns())?;
        Ok(Self::new(cpus, links, advise, move |mut requests, start_at| {
            requests.iter_mut().for_each(|(_, request)| request.engine = engine);
            let started = |(cpu, request): &(u32, Request)| (*cpu, request.ifname.clone());
            let started: Vec<_> = requests.iter().map(started).collect();
            let handles = workers.start(requests, None, start_at);
            let runs = started.into_iter().zip(&handles);
            watch(
                runs.map(|((cpu, ifname), handle)| StartedRun { cpu, ifname, handle: Arc::clone(handle) })
                    .collect(),
            );
            handles
        }))
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        lock(&self.state)
    }

    /// The state, with the interfaces as they are now.
    fn current(&self) -> MutexGuard<'_, ControlState> {
        let mut has_old_links = lock(&self.has_old_links);
        let has_changed = self.links.take_change();
        if has_changed || *has_old_links {
            let indexes = self.state().indexes(None);
            let found: Vec<_> =
                indexes.into_iter().map(|index| (index, self.links.numbered(index))).collect();
            *has_old_links = found.iter().any(|(_, interface)| interface.is_err());
            self.state().follow_interfaces(found);
        }
        drop(has_old_links);
        if has_changed {
            // Runs may have been stopped.
            self.changed.notify();
        }
        self.state()
    }

    fn write_pgctrl(&self, bytes: &[u8], cancel: &Cancel) -> Result<(), Refusal> {
        match PgctrlCommand::parse(bytes)? {
            PgctrlCommand::Start => self.start(cancel, None)?,
            PgctrlCommand::StartAt { unix_ns } => self.start(cancel, Some(StartTime { unix_ns }))?,
            PgctrlCommand::Stop => self.stop(),
            PgctrlCommand::Reset => self.remove(None)?,
        }
        Ok(())
    }

    fn write_thread(&self, cpu: u32, bytes: &[u8]) -> Result<(), Refusal> {
        match ThreadCommand::parse(bytes)? {
            ThreadCommand::AddDevice { name } => {
                // A change from here on may be taken by a thread that does not find the new device
                // instance yet.
                let mut has_old_links = lock(&self.has_old_links);
                let interface = self.links.named(interface_of(&String::from_utf8_lossy(&name)));
                *has_old_links = true;
                self.state().add_device(&*self.links, cpu, &name, interface)
            }
            ThreadCommand::RemoveAll => self.remove(Some(cpu)),
            ThreadCommand::MaxBeforeSoftirq => self.state().tree.max_before_softirq(cpu),
        }
    }

    fn write_device(&self, name: &str, bytes: &[u8]) -> Result<(), Refusal> {
        loop {
            let seen = self.changed.times();
            let mut state = self.state();
            if state.is_paused(name) {
                drop(state);
                self.changed.wait(seen, END_TIMEOUT);
                continue;
            }
            let Some(run) = state.write_device(&*self.links, name, bytes)? else { return Ok(()) };
            let indexes = state.indexes(Some(name));
            drop(state);
            let facts = indexes.first().map(|index| self.links.device_facts(*index)).unwrap_or_default();
            run.wait_for_end(END_TIMEOUT);
            let write = (name, bytes);
            let start_runs = |requests| (self.start_runs)(requests, None);
            let written = self.state().write_paused(&*self.links, &start_runs, write, &run, &facts);
            self.changed.notify();
            if let Some(written) = written {
                return written;
            }
        }
    }

    /// Runs everything, from `start_at` on if that is given, and waits for the end; a signal to the
    /// writer ends all runs.
    fn start(&self, cancel: &Cancel, start_at: Option<StartTime>) -> Result<(), Refusal> {
        let refusal = |late_ns| Refusal { fault: Fault::TooLate { late_ns }, span: 0..0 };
        if let Some(late_ns) = start_at.and_then(StartTime::late_ns) {
            return Err(refusal(late_ns));
        }
        let ticket = self.starts_asked.fetch_add(1, Ordering::Relaxed) + 1;
        let mut served = lock(&self.starts_served);
        let mut runs = Vec::new();
        // Of several writers that wait here the first begins the runs of all, at its own time.
        if *served < ticket && !self.is_closed.load(Ordering::Relaxed) {
            *served = self.starts_asked.load(Ordering::Relaxed);
            self.end_runs(None);
            let indexes = self.current().indexes(None);
            let facts = indexes.into_iter().map(|index| (index, self.links.device_facts(index))).collect();
            let start_runs = |requests| (self.start_runs)(requests, start_at);
            runs = self.state().start(&facts, &*self.links, &start_runs);
        }
        drop(served);
        cancel.notify(&self.changed);
        loop {
            let seen = self.changed.times();
            if !self.current().is_running() {
                let late_ns = runs.iter().find_map(|run| run.ready_late_ns());
                return late_ns.map_or(Ok(()), |late_ns| Err(refusal(late_ns)));
            }
            if cancel.is_fired() {
                self.stop();
                return Ok(());
            }
            self.changed.wait(seen, Duration::MAX);
        }
    }

    /// Ends all runs. The kernel comes back at once; the results are then there a moment later,
    /// here before.
    fn stop(&self) {
        self.state().stop();
        self.changed.notify();
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            let seen = self.changed.times();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.state().is_running() {
                return;
            }
            self.changed.wait(seen, left);
        }
    }

    /// Takes the device instances of one thread, or of all, out; their runs end first.
    fn remove(&self, cpu: Option<u32>) -> Result<(), Refusal> {
        let _served = lock(&self.starts_served);
        self.end_runs(cpu);
        self.state().remove(cpu)
    }

    /// Ends the runs of a thread, or of all, and waits for that. No run begins meanwhile.
    fn end_runs(&self, cpu: Option<u32>) {
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let live = self.state().end(cpu);
            self.changed.notify();
            let Some(run) = live else { break };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.state().abandon(cpu);
                self.changed.notify();
                break;
            }
            run.wait_for_end(left);
        }
    }
}

/// A worker on each of `cpus` that this process may use: a container or a systemd unit may be kept
/// from some. The others are named in the log, and in the result of what is to run there.
fn workers(cpus: &[u32], netns: &Netns) -> Result<Workers, EngineError> {
    let spawn = |cpu: &u32| match Worker::spawn(*cpu, netns) {
        Err(EngineError::Host(HostError::NoCpu { .. })) => {
            tracing::warn!(
                "{}: nothing can be sent from kpktgend_{cpu}",
                EngineError::NoWorker { cpu: *cpu }
            );
            None
        }
        spawned => Some(spawned),
    };
    cpus.iter().filter_map(spawn).collect()
}

/// A write as one line of log.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(REFUSED_LEN_MAX) {
        words.truncate(end);
        words.push_str("...");
    }
    if words.is_empty() { "(empty write)".to_owned() } else { words }
}

impl Tree for Control {
    fn names(&self) -> Vec<OsString> {
        self.current().tree.names().into_iter().map(OsString::from).collect()
    }

    fn contains(&self, name: &OsStr) -> bool {
        name.to_str().is_some_and(|name| self.current().tree.entry(name).is_some())
    }

    fn read(&self, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let mut state = self.current();
        match state.tree.entry(name).ok_or(Errno::ENOENT)? {
            TreeFile::Pgctrl => Ok(VERSION_LINE.as_bytes().to_vec()),
            TreeFile::Thread { cpu } => {
                state.finish_ended();
                state.tree.thread(cpu).map(command::Thread::read).ok_or(Errno::ENOENT)
            }
            TreeFile::Device { .. } => state.read_device(&*self.links, name).ok_or(Errno::ENOENT),
        }
    }

    fn needs_net_admin(&self, name: &OsStr) -> bool {
        name == "pgctrl"
    }

    fn write(&self, name: &OsStr, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let entry = self.current().tree.entry(name).ok_or(Errno::ENOENT)?;
        let written = match entry {
            TreeFile::Pgctrl => self.write_pgctrl(bytes, cancel),
            TreeFile::Thread { cpu } => self.write_thread(cpu, bytes),
            TreeFile::Device { .. } => self.write_device(name, bytes),
        };
        written.map_err(|refused| {
            tracing::info!(target: REFUSED, "{name}: {}: {refused}", shortened(bytes));
            Errno::from_raw(refused.errno().raw())
        })
    }

    fn unread(&self) -> Vec<String> {
        let mut state = self.state();
        state.finish_ended();
        state.unread()
    }

    fn drain(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.stop();
    }
}
