//! Pins: what keeps the program of a run in the kernel's XDP dispatcher.
//!
//! The dispatcher has 48 places. A program that is in it starts in microseconds, and so does one that finds no
//! place free. But one that finds a place and may not keep it takes it at every call and gives it back, which is two
//! grace periods of RCU (24 ms each, measured). So each program is attached to the loopback device of an empty
//! namespace, which gives it a place for good; and while runs go on that came too late for one, the places of runs
//! that have ended stay taken.

use crate::EngineError;
use bpf::xdp::XdpLink;
use bpf::{Attachable, Sender};
use host::Netns;
use std::sync::mpsc::{self, SendError};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The kernel's `BPF_DISPATCHER_MAX`; not to be asked for.
const PLACES_MAX: usize = 48;

static PLACES: Mutex<Places<Attachment>> = Mutex::new(Places { taken: 0, late: 0, left: Vec::new() });

/// An attached program; fields drop in order, the link before its namespace.
#[derive(Debug)]
struct Attachment {
    _link: XdpLink,
    _netns: Netns,
}

/// Held for as long as its program is to start quickly.
#[derive(Debug)]
pub(super) struct Pin {
    attachment: Option<Attachment>,
    has_place: bool,
}

/// A pin on its way, on a thread of its own: it waits for RCU, and the engine has other things to make meanwhile.
#[derive(Debug)]
pub(super) struct Pinning(JoinHandle<Result<Pin, EngineError>>);

impl Pinning {
    /// Begins to attach the program where it never meets a frame.
    ///
    /// # Errors
    /// When there is no thread or no file descriptor left.
    pub(super) fn begin(sender: &Sender) -> Result<Self, EngineError> {
        let failed = |source| EngineError::Syscall { call: "clone", ifname: "a pin".to_owned(), source };
        let program = sender.attachable().map_err(failed)?;
        let body = move || Pin::new(&program);
        Ok(Self(std::thread::Builder::new().name("wr-attach".to_owned()).spawn(body).map_err(failed)?))
    }

    /// Waits for it.
    ///
    /// # Errors
    /// When the kernel refuses a namespace or the program.
    pub(super) fn wait(self) -> Result<Pin, EngineError> {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Pin {
    fn new(program: &Attachable) -> Result<Self, EngineError> {
        // CAP_SYS_ADMIN, which the other engines do without.
        let netns = Netns::anonymous().map_err(|source| EngineError::XdpAttach { source })?;
        // Held until it is counted: the kernel gives its places in the order of attaching.
        let mut places = places();
        let link = netns.run(|| program.attach_to_loopback())??;
        Ok(Self { attachment: Some(Attachment { _link: link, _netns: netns }), has_place: places.enter() })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(attachment) = self.attachment.take() else { return };
        let free = places().leave(self.has_place, attachment);
        if !free.is_empty() {
            detach_aside(free);
        }
    }
}

fn places() -> MutexGuard<'static, Places<Attachment>> {
    // Every change of it is whole, also when somebody panicked beside it.
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Detaches on a thread of its own: it waits for RCU, and the thread that sends has other runs to serve. What a
/// process that ends has not detached yet the kernel does.
fn detach_aside(attachments: Vec<Attachment>) {
    static ASIDE: LazyLock<mpsc::Sender<Vec<Attachment>>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel();
        let body = move || receiver.into_iter().for_each(drop);
        // Without the thread there is no receiver, and they are dropped below.
        let _ = std::thread::Builder::new().name("wr-detach".to_owned()).spawn(body);
        sender
    });
    if let Err(SendError(attachments)) = ASIDE.send(attachments) {
        drop(attachments);
    }
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

    /// A run ends; what need not be held any longer.
    fn leave(&mut self, has_place: bool, held: T) -> Vec<T> {
        if has_place && self.late > 0 {
            self.left.push(held);
            return Vec::new();
        }
        let mut free = vec![held];
        if has_place {
            self.taken -= 1;
        } else {
            self.late -= 1;
        }
        if self.late == 0 {
            self.taken -= self.left.len();
            free.append(&mut self.left);
        }
        free
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
                held -= places.leave(has_place, ()).len();
            }
            let late = runs.iter().filter(|has_place| !**has_place).count();
            assert_eq!((places.late, places.taken), (late, held - late));
            assert!(late == 0 || places.taken == PLACES_MAX);
            assert!(places.taken <= PLACES_MAX && (late > 0 || places.left.is_empty()));
            most_late = most_late.max(late);
        }
        assert!(most_late > 10, "it was never full");
        runs.drain(..).for_each(|has_place| drop(places.leave(has_place, ())));
        assert_eq!((places.taken, places.late, places.left.len()), (0, 0, 0));
    }
}
