//! The control room: what the files of one network namespace mean, and what they start.
//!
//! [`Control`] is the [`Tree`] that `exec` and `serve` mount. It hands bytes to `command`, orders to a
//! [`Runner`], and asks [`Links`] about interfaces. One lock guards it; nobody holds it while a run goes on.

mod dry;
mod engine;
mod guard;
mod links;
mod runner;
mod seat;
mod state;
#[cfg(test)]
mod tests;

pub use self::engine::EngineRunner;
pub use dry::DryRunner;
pub use links::{HostLinks, Interface, Links};
pub use runner::{Ending, Order, Runner, Running, Standing, Why};

use crate::tree::{Cancel, Errno, Tree};
use ::engine::EngineError;
use command::{Entry, PgctrlCommand, Refused, ThreadCommand, VERSION_LINE};
use host::CpuList;
use state::State;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A writer that waits for runs looks after them first after this time, then less and less often.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(10);
/// How long `stop`, or a signal to the writer of `start`, waits for the results.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The control tree of one network namespace.
pub struct Control {
    state: Mutex<State>,
    links: Box<dyn Links>,
    runner: Box<dyn Runner>,
    is_closed: AtomicBool,
}

impl Control {
    /// A tree without device instances, with one thread for each of `cpus`.
    pub fn new(cpus: Vec<u32>, links: impl Links, runner: impl Runner) -> Self {
        Self {
            state: Mutex::new(State::new(cpus)),
            links: Box::new(links),
            runner: Box::new(runner),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The real one, for the network namespace that the calling thread is in: a thread for each CPU online.
    ///
    /// # Errors
    /// When the threads or the netlink sockets cannot be had.
    pub fn here() -> Result<Self, EngineError> {
        let cpus: Vec<u32> = CpuList::online()?.iter().collect();
        let links = HostLinks::here()?;
        let runner = EngineRunner::new(&cpus, links.netns())?;
        Ok(Self::new(cpus, links, runner))
    }

    /// The real one, but for the sending: frames are made and thrown away.
    ///
    /// # Errors
    /// When the netlink sockets cannot be had.
    pub fn dry() -> Result<Self, EngineError> {
        Ok(Self::new(CpuList::online()?.iter().collect(), HostLinks::here()?, DryRunner))
    }

    /// The state, up to now.
    fn synced(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sync(&*self.links);
        state
    }

    fn write_pgctrl(&self, bytes: &[u8], cancel: &Cancel) -> Result<(), Refused> {
        match PgctrlCommand::parse(bytes)? {
            PgctrlCommand::Start => self.start(cancel),
            PgctrlCommand::Stop => self.stop(),
            PgctrlCommand::Reset => self.synced().remove(None)?,
        }
        Ok(())
    }

    fn write_thread(&self, cpu: u32, bytes: &[u8]) -> Result<(), Refused> {
        let command = ThreadCommand::parse(bytes)?;
        let mut state = self.synced();
        match command {
            ThreadCommand::AddDevice { name } => state.add_device(&*self.links, cpu, &name),
            ThreadCommand::RemoveAll => state.remove(Some(cpu)),
            ThreadCommand::MaxBeforeSoftirq => state.tree.max_before_softirq(cpu),
        }
    }

    /// Runs everything and waits for the end; a signal to the writer ends all runs.
    fn start(&self, cancel: &Cancel) {
        if !self.is_closed.load(Ordering::Relaxed) {
            self.synced().start(&*self.links, &*self.runner);
        }
        let mut interval = LOOK_FIRST;
        while self.synced().is_running() {
            if cancel.wait(interval) {
                self.stop();
                return;
            }
            interval = (interval * 2).min(LOOK_LAST);
        }
    }

    /// Ends all runs. The kernel comes back at once; the results are then there a moment later, here before.
    fn stop(&self) {
        self.synced().stop(None);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.synced().is_running() && Instant::now() < deadline {
            std::thread::sleep(LOOK_FIRST);
        }
    }
}

impl Tree for Control {
    fn names(&self) -> Vec<OsString> {
        self.synced().tree.names().into_iter().map(OsString::from).collect()
    }

    fn contains(&self, name: &OsStr) -> bool {
        name.to_str().is_some_and(|name| self.synced().tree.entry(name).is_some())
    }

    fn read(&self, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let mut state = self.synced();
        match state.tree.entry(name).ok_or(Errno::ENOENT)? {
            Entry::Pgctrl => Ok(VERSION_LINE.as_bytes().to_vec()),
            Entry::Thread { cpu } => state.tree.thread(cpu).map(command::Thread::read).ok_or(Errno::ENOENT),
            Entry::Device { .. } => state.read_device(&*self.links, name).ok_or(Errno::ENOENT),
        }
    }

    fn needs_net_admin(&self, name: &OsStr) -> bool {
        name == "pgctrl"
    }

    fn write(&self, name: &OsStr, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let entry = self.synced().tree.entry(name).ok_or(Errno::ENOENT)?;
        let written = match entry {
            Entry::Pgctrl => self.write_pgctrl(bytes, cancel),
            Entry::Thread { cpu } => self.write_thread(cpu, bytes),
            Entry::Device { .. } => self.synced().write_device(&*self.links, &*self.runner, name, bytes),
        };
        written.map_err(|refused| {
            tracing::debug!(name, text = %String::from_utf8_lossy(bytes), %refused, "refused");
            Errno::from_raw(refused.errno().raw())
        })
    }

    fn unread(&self) -> Vec<String> {
        self.synced().unread()
    }

    fn drain(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.stop();
        // Writers that wait look up within `LOOK_LAST`; then their answers are on the way.
        std::thread::sleep(2 * LOOK_LAST);
    }
}
