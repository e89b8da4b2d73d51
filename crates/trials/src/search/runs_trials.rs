//! What a search needs of its tester: of frames, or of connections.

use program::outcome::Failure;
use program::stop::Stop;
use search::record::TrafficShape;
use search::{TrialRequest, TrialResult};

/// What runs the trials of a search.
pub(crate) trait RunsTrials {
    /// What all of them have in common.
    fn shape(&self) -> TrafficShape;

    /// Runs a trial. What was not sent within its duration is not sent.
    ///
    /// # Errors
    /// What the host refused.
    fn run(&self, request: &TrialRequest, stop: &Stop) -> Result<TrialResult, Failure>;
}
