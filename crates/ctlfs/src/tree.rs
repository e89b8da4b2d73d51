//! The interface between the file system and the control files.
//!
//! The file system handles names, texts and bytes; a [`Tree`] gives them a meaning. A write may
//! take as long as a run, so it gets a [`Cancel`] that fires when the writer is interrupted or
//! killed.

use engine::Event;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The error of a write or read, 1 to 511: FUSE passes on no other number.
pub use nix::errno::Errno;

/// Target of the log events that name refused writes (level INFO), so that a program can print them
/// or leave them out.
pub const REFUSED: &str = "refused_write";

/// A flat directory of control files.
///
/// Calls come from any number of threads at once. `names`, `contains`, `read` and `needs_net_admin`
/// must not wait for a run; a write may.
pub trait Tree: Send + Sync + 'static {
    /// Every file there is now, in the order a listing shows.
    fn names(&self) -> Vec<OsString>;

    /// True when `name` is a file now.
    fn contains(&self, name: &OsStr) -> bool;

    /// The text of `name` now.
    ///
    /// # Errors
    /// `ENOENT` when there is no such file any more.
    fn read(&self, name: &OsStr) -> Result<Vec<u8>, Errno>;

    /// True when only a process with CAP_NET_ADMIN may write to `name`; the mode bits alone decide
    /// about the others.
    fn needs_net_admin(&self, name: &OsStr) -> bool {
        let _ = name;
        false
    }

    /// Takes one `write(2)` to `name`. Returns when its effect is there, which may be as long as a
    /// run takes; after `cancel` fires it must end soon. Success stands for all bytes.
    ///
    /// # Errors
    /// What `write(2)` answers the writer.
    fn write(&self, name: &OsStr, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno>;

    /// The results that no reader has seen, a line for each device instance.
    fn unread(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends all that still runs and waits for it; writers that wait then get their answer. Called
    /// once, before the tree is unmounted.
    fn drain(&self);
}

/// Reports that the writer had a signal and waits for no answer any longer.
///
/// Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_fired: AtomicBool,
    fired: Event,
    listener: Mutex<Option<Arc<Event>>>,
}

impl Cancel {
    /// A token that has not fired.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires it, for good.
    pub fn fire(&self) {
        self.0.is_fired.store(true, Ordering::SeqCst);
        self.0.fired.notify();
        if let Some(event) = &*lock(&self.0.listener) {
            event.notify();
        }
    }

    /// True once it has fired.
    pub fn is_fired(&self) -> bool {
        self.0.is_fired.load(Ordering::SeqCst)
    }

    /// Notifies `event` as well when it fires.
    pub fn notify(&self, event: &Arc<Event>) {
        *lock(&self.0.listener) = Some(Arc::clone(event));
        if self.is_fired() {
            event.notify();
        }
    }

    /// Waits until it fires, `timeout` at most; true when it has fired.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.fired.wait(0, timeout);
        self.is_fired()
    }
}

/// A panic elsewhere leaves plain values behind, which stay good to use.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_waiter_wakes_when_the_token_fires() {
        let cancel = Cancel::new();
        let other = cancel.clone();
        let waiter = std::thread::spawn(move || other.wait(Duration::from_secs(30)));
        let before = Instant::now();
        cancel.fire();
        assert!(waiter.join().unwrap());
        assert!(before.elapsed() < Duration::from_secs(10));
        assert!(cancel.is_fired());
    }

    #[test]
    fn waiting_ends_without_a_signal() {
        assert!(!Cancel::new().wait(Duration::from_millis(5)));
    }
}
