//! Pins: what keeps the program of a run in the kernel's XDP dispatcher.
//!
//! The dispatcher has 48 places. A program that is in it starts in microseconds, and so does one that finds no place
//! free. But a call for several frames whose program finds a place and may not keep it takes the place and gives it back,
//! which is two grace periods of RCU (24 ms each, measured). So each program is attached to the loopback device of an
//! empty namespace, which keeps its place; and while runs go on that came too late for a place, the places of runs that
//! have ended stay taken. A call for one frame does not ask the dispatcher, so a run sends single frames until its
//! program is attached. Attaching waits for RCU and holds the kernel's RTNL lock: one thread does it for all runs, when no
//! engine is being built, and only for runs that have several frames to send at once.

use crate::EngineError;
use bpf::xdp::XdpLink;
use bpf::{Attachable, Sender};
use host::Netns;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvError};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The kernel's `BPF_DISPATCHER_MAX`; not to be asked for.
const PLACES_MAX: usize = 48;
/// Engines are built in a few milliseconds each; where that never ends, programs are attached all the same.
const QUIET_TIMEOUT: Duration = Duration::from_millis(200);

/// An attached program; fields drop in order, the link before its namespace.
#[derive(Debug)]
struct Attachment {
    _link: XdpLink,
    _netns: Netns,
}

/// What an engine and the thread that attaches share.
#[derive(Debug, Default)]
struct Slot {
    /// Its engine is gone.
    is_dropped: AtomicBool,
    attached: OnceLock<Result<(), String>>,
}

/// Keeps the program of one engine in the dispatcher, from the first burst of several frames on.
#[derive(Debug)]
pub(super) struct Pin {
    /// Until it is handed to the thread that attaches.
    program: Option<Attachable>,
    slot: Arc<Slot>,
    is_ready: bool,
}

impl Pin {
    /// For the program of `sender`, which is not attached yet.
    ///
    /// # Errors
    /// When this process may not make namespaces, or has no file descriptor left.
    pub(super) fn new(sender: &Sender) -> Result<Self, EngineError> {
        static MAY_MAKE_NAMESPACES: OnceLock<()> = OnceLock::new();
        if MAY_MAKE_NAMESPACES.get().is_none() {
            // CAP_SYS_ADMIN, which the other engines do without.
            drop(Netns::anonymous().map_err(|source| EngineError::XdpAttach { source })?);
            let _ = MAY_MAKE_NAMESPACES.set(());
        }
        let failed = |source| EngineError::Syscall { call: "dup", ifname: "a program".to_owned(), source };
        let program = Some(sender.attachable().map_err(failed)?);
        Ok(Self { program, slot: Arc::default(), is_ready: false })
    }

    /// True once the program may be called for several frames at a time. The first call asks for that.
    ///
    /// # Errors
    /// When the kernel has refused to attach the program.
    pub(super) fn is_ready(&mut self) -> Result<bool, EngineError> {
        if self.is_ready {
            return Ok(true);
        }
        if let Some(program) = self.program.take() {
            post(Task::Attach(Arc::clone(&self.slot), program));
        }
        match self.slot.attached.get() {
            None => Ok(false),
            Some(Ok(())) => {
                self.is_ready = true;
                Ok(true)
            }
            Some(Err(why)) => Err(EngineError::Unable {
                engine: crate::EngineKind::Xdp.name(),
                what: format!("several frames in one call: its program cannot be attached: {why}"),
            }),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.slot.is_dropped.store(true, Relaxed);
        if self.program.is_none() {
            post(Task::Detach(Arc::clone(&self.slot)));
        }
    }
}

/// While it lives no program is attached or detached: both hold the RTNL lock for a grace period of RCU, and everything
/// that asks the kernel for a device would wait for that.
#[derive(Debug)]
pub(crate) struct Quiet(());

static BUILDERS: Mutex<usize> = Mutex::new(0);
static NO_BUILDERS: Condvar = Condvar::new();

impl Quiet {
    pub(crate) fn keep() -> Self {
        *lock(&BUILDERS) += 1;
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        *lock(&BUILDERS) -= 1;
        NO_BUILDERS.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves plain values behind, which stay good to read.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum Task {
    Attach(Arc<Slot>, Attachable),
    Detach(Arc<Slot>),
}

/// Hands a task to the thread that attaches. What a process that ends has not detached yet the kernel does.
fn post(task: Task) {
    static TASKS: LazyLock<Result<mpsc::Sender<Task>, String>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel();
        let body = move || Attacher::new(receiver).serve();
        let spawned = std::thread::Builder::new().name("wr-attach".to_owned()).spawn(body);
        spawned.map(|_: JoinHandle<()>| sender).map_err(|error| error.to_string())
    });
    match (&*TASKS, task) {
        (Ok(tasks), task) => drop(tasks.send(task)),
        (Err(why), Task::Attach(slot, _)) => drop(slot.attached.set(Err(why.clone()))),
        (Err(_), Task::Detach(_)) => {}
    }
}

/// The thread that attaches and detaches, for all engines of the process.
struct Attacher {
    tasks: Receiver<Task>,
    places: Places<Attachment>,
    attached: Vec<(Arc<Slot>, Attachment, bool)>,
    to_attach: VecDeque<(Arc<Slot>, Attachable)>,
    /// Of runs that have ended, and whether they have a place.
    to_detach: VecDeque<(Attachment, bool)>,
}

impl Attacher {
    fn new(tasks: Receiver<Task>) -> Self {
        let places = Places { taken: 0, late: 0, left: Vec::new() };
        let (to_attach, to_detach) = Default::default();
        Self { tasks, places, attached: Vec::new(), to_attach, to_detach }
    }

    fn serve(mut self) {
        while self.take_tasks().is_ok() {
            wait_for_quiet();
            if let Some((slot, program)) = self.to_attach.pop_front() {
                self.attach(slot, &program);
            } else if let Some((attachment, has_place)) = self.to_detach.pop_front() {
                // Counted when it is done: what is attached before that finds the place taken.
                drop(self.places.leave(has_place, attachment));
            } else {
                drop(self.places.take_left());
            }
        }
    }

    /// Takes what there is to do, waiting for it where there is nothing.
    fn take_tasks(&mut self) -> Result<(), RecvError> {
        if self.to_attach.is_empty() && self.to_detach.is_empty() && !self.places.may_free() {
            let task = self.tasks.recv()?;
            self.take(task);
        }
        while let Ok(task) = self.tasks.try_recv() {
            self.take(task);
        }
        Ok(())
    }

    fn take(&mut self, task: Task) {
        match task {
            Task::Attach(slot, program) => self.to_attach.push_back((slot, program)),
            Task::Detach(slot) => {
                let is_it = |(other, ..): &(Arc<Slot>, Attachment, bool)| Arc::ptr_eq(other, &slot);
                if let Some(index) = self.attached.iter().position(is_it) {
                    let (_, attachment, has_place) = self.attached.swap_remove(index);
                    self.to_detach.push_back((attachment, has_place));
                }
            }
        }
    }

    fn attach(&mut self, slot: Arc<Slot>, program: &Attachable) {
        if slot.is_dropped.load(Relaxed) {
            return;
        }
        let attached = Netns::anonymous().map_err(EngineError::from).and_then(|netns| {
            let link = netns.run(|| program.attach_to_loopback())??;
            Ok(Attachment { _link: link, _netns: netns })
        });
        match attached {
            Ok(attachment) => {
                let _ = slot.attached.set(Ok(()));
                let has_place = self.places.enter();
                self.attached.push((slot, attachment, has_place));
            }
            Err(error) => drop(slot.attached.set(Err(error.in_one_line()))),
        }
    }
}

fn wait_for_quiet() {
    let (builders, is_loud) = (lock(&BUILDERS), |count: &mut usize| *count > 0);
    let waited = NO_BUILDERS.wait_timeout_while(builders, QUIET_TIMEOUT, is_loud);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

/// Who has a place in the dispatcher, as far as this process goes.
#[derive(Debug)]
struct Places<T> {
    /// Places taken, those of runs that have ended included.
    taken: usize,
    /// Runs that go on without one.
    late: usize,
    /// What holds the places of runs that have ended.
    left: Vec<T>,
}

impl<T> Places<T> {
    /// A run begins; true when it has a place.
    fn enter(&mut self) -> bool {
        let has_place = self.taken < PLACES_MAX;
        *(if has_place { &mut self.taken } else { &mut self.late }) += 1;
        has_place
    }

    /// A run has ended; what it held, if that need not be held any longer.
    fn leave(&mut self, has_place: bool, held: T) -> Option<T> {
        if has_place && self.late > 0 {
            self.left.push(held);
            return None;
        }
        *(if has_place { &mut self.taken } else { &mut self.late }) -= 1;
        Some(held)
    }

    /// True when there are places of runs that have ended and no run goes on without one.
    fn may_free(&self) -> bool {
        self.late == 0 && !self.left.is_empty()
    }

    /// One of these places, to be freed.
    fn take_left(&mut self) -> Option<T> {
        let held = if self.may_free() { self.left.pop() } else { None };
        self.taken -= usize::from(held.is_some());
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Rng;

    #[test]
    fn no_place_comes_free_while_a_run_without_one_goes_on() {
        let mut places = Places { taken: 0, late: 0, left: Vec::new() };
        let (mut rng, mut runs, mut held, mut most_late) = (Rng(1), Vec::new(), 0_usize, 0);
        for step in 0..20_000 {
            let target = [10, 70][step / 200 % 2];
            if (rng.below(100) as usize) < target {
                runs.push(places.enter());
                held += 1;
            } else if !runs.is_empty() {
                let has_place = runs.swap_remove(rng.below(runs.len() as u32) as usize);
                held -= usize::from(places.leave(has_place, ()).is_some());
            }
            if target == 10 {
                held -= usize::from(places.take_left().is_some());
            }
            let late = runs.iter().filter(|has_place| !**has_place).count();
            assert_eq!((places.late, places.taken), (late, held - late));
            assert!(late == 0 || places.taken == PLACES_MAX);
            assert!(places.taken <= PLACES_MAX);
            most_late = most_late.max(late);
        }
        assert!(most_late > 10, "it was never full");
        runs.drain(..).for_each(|has_place| {
            places.leave(has_place, ());
        });
        while places.take_left().is_some() {}
        assert_eq!((places.taken, places.late, places.left.len()), (0, 0, 0));
    }
}
