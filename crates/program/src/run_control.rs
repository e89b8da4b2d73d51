//! What a user may change about a run that sends: pause it, or set another rate.
//!
//! A command that sends offers its control; the full-screen view and the web page use it.

use packet::Rate;
use std::fmt;
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

/// The control of the run that sends at present, if there is one.
#[derive(Default)]
pub(crate) struct RunControls(Mutex<Option<Arc<dyn RunControl>>>);

/// The control of the present run until this is dropped.
#[must_use]
pub struct Offered(Arc<RunControls>);

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offered").finish_non_exhaustive()
    }
}

impl RunControls {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn RunControl>>> {
        // A panic leaves a control behind, which stays valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers the control of a run.
    pub(crate) fn offer(this: &Arc<Self>, control: Arc<dyn RunControl>) -> Offered {
        *this.lock() = Some(control);
        Offered(Arc::clone(this))
    }

    /// The control of the run that sends at present.
    pub(crate) fn present(&self) -> Option<Arc<dyn RunControl>> {
        self.lock().clone()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
