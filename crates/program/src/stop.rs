//! The stop flag: Ctrl-C, SIGTERM and the end of the terminal set it, and every worker reads it. A
//! second Ctrl-C or SIGTERM quits at once, if it comes at least half a second later.
//!
//! timeout(1) signals the process and then its group, and a terminal and a script may signal at the
//! same time: two signals within half a second count as one.

use crate::console::Console;
use crate::raw_terminal;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Exit status after the second signal: what a shell reports for a command that died of SIGINT.
const STATUS_QUIT: i32 = 130;

/// Signals within this time are one: short enough for an impatient user.
const ONE_SIGNAL: Duration = Duration::from_millis(500);

/// Set by the second signal, in a command that then gives something up and still reports.
static ABANDON: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Readable from the first signal on, for threads that wait for other events, too.
static SIGNAL_EVENT: OnceLock<UnixStream> = OnceLock::new();

/// The event of the first SIGINT, SIGTERM or SIGHUP: readable from then on, and not to be read.
pub fn signal_event() -> Option<BorrowedFd<'static>> {
    SIGNAL_EVENT.get().map(AsFd::as_fd)
}

/// The kernel refused a signal handler.
#[derive(Debug, thiserror::Error)]
#[error("no handler for signal {signal}")]
pub struct SignalError {
    signal: i32,
    source: io::Error,
}

impl SignalError {
    /// Makes the error of a handler for `signal` from that of the kernel.
    pub fn of(signal: i32) -> impl Fn(io::Error) -> Self {
        move |source| Self { signal, source }
    }
}

/// A running command, as all of its parts reach it: the flag that ends it, which the signal handler
/// and every worker share, and its console.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    console: Console,
}

impl Stop {
    /// A flag that the first SIGINT, SIGTERM or SIGHUP sets; SIGINT or SIGTERM half a second after
    /// that, or later, ends the process at once with status 130. A process
    /// started by nohup(1) ignores SIGHUP.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn on_signals() -> Result<Self, SignalError> {
        Self::on_signals_of(false)
    }

    /// A flag that the first SIGINT, SIGTERM or SIGHUP sets; SIGINT or SIGTERM half a second after
    /// that, or later, ends the process at once with status 130. A process started by nohup(1)
    /// ignores SIGHUP. With `keeps_rights`, the thread that waits for signals keeps its
    /// capabilities, for a process that becomes another user later: the C library ends one whose
    /// threads cannot all do that.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn on_signals_of(keeps_rights: bool) -> Result<Self, SignalError> {
        // A signal that comes meanwhile is heard by all handlers.
        let _blocked = BlockedSignals::begin();
        let stop = Self::default();
        let failed = SignalError::of;
        let (woken, waker) = UnixStream::pair().map_err(failed(SIGINT))?;
        let (event, event_waker) = UnixStream::pair().map_err(failed(SIGINT))?;
        let is_first = SIGNAL_EVENT.set(event).is_ok();
        let quits = Arc::new(AtomicBool::new(false));
        let has_come = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, STATUS_QUIT, Arc::clone(&quits))
                .and_then(|_| flag::register(signal, Arc::clone(&has_come)))
                .map_err(failed(signal))?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && host::is_signal_ignored(SIGHUP) {
                continue;
            }
            let wakers = [Some(&waker), is_first.then_some(&event_waker)];
            flag::register(signal, stop.flag()).map_err(failed(signal))?;
            for waker in wakers.into_iter().flatten() {
                waker
                    .try_clone()
                    .and_then(|waker| low_level::pipe::register(signal, waker))
                    .map_err(failed(signal))?;
            }
        }
        // A file at the limit of `ulimit -f` is an error of its write (EFBIG) then. Programs that
        // we start do not inherit it.
        flag::register(SIGXFSZ, Arc::default()).map_err(failed(SIGXFSZ))?;
        // Workers may be stuck when the second signal comes, so a thread of its own waits for it.
        // The first signal goes to other threads, whose system calls it interrupts.
        let wait = move || {
            if !keeps_rights {
                // Waiting needs none, and giving up is always allowed.
                let _ = host::keep_capabilities(&[]);
            }
            set_later(woken, &quits, &has_come);
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed(SIGINT))?;
        Ok(stop)
    }

    /// True after a signal.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Asks all workers to stop.
    pub fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// A flag that the second signal sets from now on; only the third one ends the process at once.
    pub fn abandon_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(ABANDON.get_or_init(Arc::default))
    }

    /// What the command shows, and what shows it.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// The flag itself, for workers in other crates.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

/// Sets `quits` when the moment of the first signal is over. A full screen is given back first, so
/// the second signal, which sets `has_come` again, is waited for then.
fn set_later(mut woken: UnixStream, quits: &AtomicBool, has_come: &AtomicBool) {
    // Every signal writes a byte; an error or an end there is not, as the handlers keep the other
    // end open.
    if woken.read_exact(&mut [0]).is_ok() {
        thread::sleep(ONE_SIGNAL);
        if raw_terminal::is_taken() {
            has_come.store(false, Ordering::Relaxed);
            while woken.read_exact(&mut [0]).is_ok() {
                if has_come.load(Ordering::Relaxed) {
                    raw_terminal::give_back();
                    low_level::exit(STATUS_QUIT);
                }
            }
        }
        if let Some(abandon) = ABANDON.get() {
            has_come.store(false, Ordering::Relaxed);
            // SIGHUP writes a byte, too.
            while !abandon.load(Ordering::Relaxed) && woken.read_exact(&mut [0]).is_ok() {
                abandon.store(has_come.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            thread::sleep(ONE_SIGNAL);
        }
        quits.store(true, Ordering::Relaxed);
        // Refused, others hear it, unless they are stuck.
        let _ = stops().thread_unblock();
    }
}

fn stops() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// While it lives, the signals go to other threads than the one that made it.
#[derive(Debug)]
pub struct BlockedSignals {
    /// The signal mask of the thread before; `None` if it was not changed.
    before: Option<SigSet>,
}

impl BlockedSignals {
    /// From now on. Threads started meanwhile do not hear them either.
    #[must_use]
    pub fn begin() -> Self {
        // Refused, they are heard here, which only takes longer.
        Self { before: stops().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // The mask came from the kernel, which takes it back.
        let _ = self.before.map(|before| before.thread_set_mask());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sets_the_flag_of_every_clone() {
        let stop = Stop::on_signals().unwrap();
        let clone = stop.clone();
        assert!(!clone.is_set());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(clone.is_set());
        // As timeout(1) does; before, this ended the process.
        signal_hook::low_level::raise(SIGTERM).unwrap();
    }

    #[test]
    fn a_thread_that_leaves_signals_to_others_hears_them_again_at_the_end() {
        let hears = || !SigSet::thread_get_mask().unwrap().contains(Signal::SIGINT);
        assert!(hears());
        let blocked = BlockedSignals::begin();
        assert!(!hears());
        assert!(SigSet::thread_get_mask().unwrap().contains(Signal::SIGTERM));
        drop(blocked);
        assert!(hears());
    }
}
