//! What all tests have in common.

use crate::attempts::LoggedTrial;
use crate::trial::{TrialRequest, TrialResult};

/// A test that asks for trials until it has its answer.
pub trait Procedure {
    /// The trial to run next; `None` when the procedure has ended. It stays the same until its
    /// result is recorded.
    fn next_trial(&self) -> Option<TrialRequest>;

    /// Takes the result of the trial that [`Self::next_trial`] returned.
    ///
    /// # Panics
    /// When no trial is due.
    fn record(&mut self, result: TrialResult);

    /// The trial whose result was recorded last.
    fn last_trial(&self) -> Option<&LoggedTrial>;
}
