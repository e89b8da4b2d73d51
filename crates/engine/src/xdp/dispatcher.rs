//! Slots of the kernel's XDP dispatcher for the programs of runs.
//!
//! The dispatcher has 48 slots. A call of a program with a slot starts in microseconds, and so does
//! one when no slot is free. Otherwise a call with several frames takes a free slot and returns it,
//! which is two RCU grace periods (24 ms each). So each program is attached to the loopback device
//! of an empty namespace, which keeps its slot. While there are runs without a slot, the slots of
//! finished runs stay taken. The streams of a thread share one program (`attachment.rs`).
//!
//! A call with one frame does not use the dispatcher, so a run sends single frames until its
//! program is attached. Attaching waits for RCU and holds the RTNL lock. One thread does it for all
//! runs, when no engine is being built, and only for runs that send several frames at once.

use crate::EngineError;
use bpf::Attachable;
use bpf::xdp::XdpLink;
use host::Netns;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvError};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// `BPF_DISPATCHER_MAX` of the kernel, which cannot be queried.
const SLOTS_MAX: usize = 48;
/// Building an engine takes a few milliseconds. After this time programs are attached anyway.
const QUIET_TIMEOUT: Duration = Duration::from_millis(200);

/// An attached program. Fields drop in order, the link before its namespace.
#[derive(Debug)]
struct Attachment {
    _link: XdpLink,
    _netns: Netns,
}

/// Shared by an engine and the attaching thread.
#[derive(Debug, Default)]
struct Attaching {
    /// The engine was dropped.
    is_dropped: AtomicBool,
    attached: OnceLock<Result<(), String>>,
}

/// Keeps the dispatcher slot of a program, from the first burst of several frames on.
#[derive(Debug)]
pub(crate) struct DispatcherSlot {
    /// Until it is passed to the attaching thread.
    program: Option<Attachable>,
    attaching: Arc<Attaching>,
    is_ready: bool,
}

impl DispatcherSlot {
    /// For a program that is not attached yet.
    ///
    /// # Errors
    /// When this process cannot create namespaces.
    pub(crate) fn of(program: Attachable) -> Result<Self, EngineError> {
        static MAY_MAKE_NAMESPACES: OnceLock<()> = OnceLock::new();
        if MAY_MAKE_NAMESPACES.get().is_none() {
            // Needs CAP_SYS_ADMIN, which the other engines do not need.
            drop(Netns::anonymous().map_err(|source| EngineError::XdpAttach { source })?);
            let _ = MAY_MAKE_NAMESPACES.set(());
        }
        Ok(Self { program: Some(program), attaching: Arc::default(), is_ready: false })
    }

    /// True once the program may be called with several frames. The first call starts attaching.
    ///
    /// # Errors
    /// When the kernel rejected attaching the program.
    pub(crate) fn is_ready(&mut self) -> Result<bool, EngineError> {
        if self.is_ready {
            return Ok(true);
        }
        if let Some(program) = self.program.take() {
            post(Task::Attach(Arc::clone(&self.attaching), program));
        }
        match self.attaching.attached.get() {
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

impl Drop for DispatcherSlot {
    fn drop(&mut self) {
        self.attaching.is_dropped.store(true, Relaxed);
        if self.program.is_none() {
            post(Task::Detach(Arc::clone(&self.attaching)));
        }
    }
}

/// While it lives no program is attached or detached. Both hold the RTNL lock for an RCU grace
/// period, and every query of a device would wait for that.
#[derive(Debug)]
pub(crate) struct AttachPause(());

static BUILDERS: Mutex<usize> = Mutex::new(0);
static NO_BUILDERS: Condvar = Condvar::new();

impl AttachPause {
    pub(crate) fn keep() -> Self {
        *lock(&BUILDERS) += 1;
        Self(())
    }
}

impl Drop for AttachPause {
    fn drop(&mut self) {
        *lock(&BUILDERS) -= 1;
        NO_BUILDERS.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves plain values behind, which stay valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum Task {
    Attach(Arc<Attaching>, Attachable),
    Detach(Arc<Attaching>),
}

/// Passes a task to the attaching thread. The kernel detaches what a process has not detached at
/// its end.
fn post(task: Task) {
    static TASKS: LazyLock<Result<mpsc::Sender<Task>, String>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel();
        let body = move || Attacher::new(receiver).serve();
        let spawned = std::thread::Builder::new().name("wr-attach".to_owned()).spawn(body);
        spawned.map(|_: JoinHandle<()>| sender).map_err(|error| error.to_string())
    });
    match (&*TASKS, task) {
        (Ok(tasks), task) => drop(tasks.send(task)),
        (Err(why), Task::Attach(attaching, _)) => drop(attaching.attached.set(Err(why.clone()))),
        (Err(_), Task::Detach(_)) => {}
    }
}

/// The thread that attaches and detaches, for all engines of the process.
struct Attacher {
    tasks: Receiver<Task>,
    slots: Slots<Attachment>,
    attached: Vec<(Arc<Attaching>, Attachment, bool)>,
    to_attach: VecDeque<(Arc<Attaching>, Attachable)>,
    /// Of finished runs, and whether they have a slot.
    to_detach: VecDeque<(Attachment, bool)>,
}

impl Attacher {
    fn new(tasks: Receiver<Task>) -> Self {
        let slots = Slots { taken: 0, late: 0, left: Vec::new() };
        let (to_attach, to_detach) = Default::default();
        Self { tasks, slots, attached: Vec::new(), to_attach, to_detach }
    }

    fn serve(mut self) {
        while self.take_tasks().is_ok() {
            wait_for_quiet();
            if let Some((attaching, program)) = self.to_attach.pop_front() {
                self.attach(attaching, &program);
            } else if let Some((attachment, has_slot)) = self.to_detach.pop_front() {
                // Counted afterwards: programs that are attached before find the slot taken.
                drop(self.slots.leave(has_slot, attachment));
            } else {
                drop(self.slots.take_left());
            }
        }
    }

    /// Takes pending tasks, waiting if there is nothing to do.
    fn take_tasks(&mut self) -> Result<(), RecvError> {
        if self.to_attach.is_empty() && self.to_detach.is_empty() && !self.slots.may_free() {
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
            Task::Attach(attaching, program) => self.to_attach.push_back((attaching, program)),
            Task::Detach(attaching) => {
                let is_it = |(other, ..): &(Arc<Attaching>, Attachment, bool)| Arc::ptr_eq(other, &attaching);
                if let Some(index) = self.attached.iter().position(is_it) {
                    let (_, attachment, has_slot) = self.attached.swap_remove(index);
                    self.to_detach.push_back((attachment, has_slot));
                }
            }
        }
    }

    fn attach(&mut self, attaching: Arc<Attaching>, program: &Attachable) {
        if attaching.is_dropped.load(Relaxed) {
            return;
        }
        let attached = Netns::anonymous().map_err(EngineError::from).and_then(|netns| {
            let link = netns.run(|| program.attach_to_loopback())??;
            Ok(Attachment { _link: link, _netns: netns })
        });
        match attached {
            Ok(attachment) => {
                let _ = attaching.attached.set(Ok(()));
                let has_slot = self.slots.enter();
                self.attached.push((attaching, attachment, has_slot));
            }
            Err(error) => drop(attaching.attached.set(Err(error.in_one_line()))),
        }
    }
}

fn wait_for_quiet() {
    let (builders, is_loud) = (lock(&BUILDERS), |count: &mut usize| *count > 0);
    let waited = NO_BUILDERS.wait_timeout_while(builders, QUIET_TIMEOUT, is_loud);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

/// Dispatcher slots of this process.
#[derive(Debug)]
struct Slots<T> {
    /// Taken slots, including those of finished runs.
    taken: usize,
    /// Runs without a slot.
    late: usize,
    /// What keeps the slots of finished runs.
    left: Vec<T>,
}

impl<T> Slots<T> {
    /// A run starts; true if it has a slot.
    fn enter(&mut self) -> bool {
        let has_slot = self.taken < SLOTS_MAX;
        *(if has_slot { &mut self.taken } else { &mut self.late }) += 1;
        has_slot
    }

    /// A run has ended; returns what it held, unless that must be kept.
    fn leave(&mut self, has_slot: bool, held: T) -> Option<T> {
        if has_slot && self.late > 0 {
            self.left.push(held);
            return None;
        }
        *(if has_slot { &mut self.taken } else { &mut self.late }) -= 1;
        Some(held)
    }

    /// True if there are slots of finished runs and no run is without one.
    fn may_free(&self) -> bool {
        self.late == 0 && !self.left.is_empty()
    }

    /// One of these slots, to be freed.
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
        let mut slots = Slots { taken: 0, late: 0, left: Vec::new() };
        let (mut rng, mut runs, mut held, mut most_late) = (Rng(1), Vec::new(), 0_usize, 0);
        for step in 0..20_000 {
            let target = [10, 70][step / 200 % 2];
            if (rng.below(100) as usize) < target {
                runs.push(slots.enter());
                held += 1;
            } else if !runs.is_empty() {
                let has_slot = runs.swap_remove(rng.below(runs.len() as u32) as usize);
                held -= usize::from(slots.leave(has_slot, ()).is_some());
            }
            if target == 10 {
                held -= usize::from(slots.take_left().is_some());
            }
            let late = runs.iter().filter(|has_slot| !**has_slot).count();
            assert_eq!((slots.late, slots.taken), (late, held - late));
            assert!(late == 0 || slots.taken == SLOTS_MAX);
            assert!(slots.taken <= SLOTS_MAX);
            most_late = most_late.max(late);
        }
        assert!(most_late > 10, "it was never full");
        runs.drain(..).for_each(|has_slot| {
            slots.leave(has_slot, ());
        });
        while slots.take_left().is_some() {}
        assert_eq!((slots.taken, slots.late, slots.left.len()), (0, 0, 0));
    }
}
