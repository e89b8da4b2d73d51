//! Pauses of a run: SIGUSR1 begins one, SIGCONT ends it, as in tcpreplay.

use program::outcome::{Failure, Refused};
use signal_hook::consts::{SIGCONT, SIGUSR1};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A word that is not 0 while the run pauses.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn on_signals() -> Result<Arc<AtomicUsize>, Failure> {
    let pause = Arc::new(AtomicUsize::new(0));
    for (signal, value) in [(SIGUSR1, 1), (SIGCONT, 0)] {
        flag::register_usize(signal, Arc::clone(&pause), value).refused("handle signals")?;
    }
    Ok(pause)
}
