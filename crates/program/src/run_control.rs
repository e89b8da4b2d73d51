//! What a user may change about a run that sends: pause it, or set another rate.
//!
//! A command that sends offers its control; the full-screen view and the web page use it.

use packet::Rate;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A new rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NewRate {
    /// The present rate, times this.
    Times(f64),
    /// The rate of all threads together.
    Of(Rate),
}

/// The controls of a run.
pub trait RunControl: Send + Sync {
    /// Pauses the run, or lets it go on. Returns what was done.
    fn set_pause(&self, is_paused: bool) -> String;

    /// Sets another rate. Returns what was done.
    ///
    /// # Errors
    /// Why this run cannot have that rate.
    fn set_rate(&self, rate: NewRate) -> Result<String, String>;

    /// True while it is paused.
    fn is_paused(&self) -> bool;
}

static PRESENT: Mutex<Option<Arc<dyn RunControl>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Arc<dyn RunControl>>> {
    // A panic leaves a control behind, which stays valid.
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The control of the present run until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Offered(());

/// Offers the control of a run.
pub fn offer(control: Arc<dyn RunControl>) -> Offered {
    *lock() = Some(control);
    Offered(())
}

impl Drop for Offered {
    fn drop(&mut self) {
        *lock() = None;
    }
}

/// The control of the run that sends at present.
pub fn present() -> Option<Arc<dyn RunControl>> {
    lock().clone()
}
