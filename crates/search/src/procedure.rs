//! What all tests have in common.

use crate::attempts::LoggedTrial;
use crate::trial::{TrialRequest, TrialResult};

/// A test that requests trials until it has a result.
pub trait Procedure {
    /// The next trial to run; `None` when the procedure has ended. It stays the same until its
    /// result is recorded.
    fn next_trial(&self) -> Option<TrialRequest>;

    /// Takes the result of the trial that [`Self::next_trial`] returned.
    ///
    /// # Panics
    /// When no trial is due.
    fn record(&mut self, result: TrialResult);

    /// All trials so far.
    fn log(&self) -> &[LoggedTrial];

    /// The trial whose result was recorded last.
    fn last_trial(&self) -> Option<&LoggedTrial> {
        self.log().last()
    }

    /// An estimate of the time of the trials that are left; `None` without one.
    fn time_left_ns(&self) -> Option<u64> {
        None
    }
}
