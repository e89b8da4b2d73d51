//! Errors of engines and runs.

use engine::EngineError;

/// What to try about an error of a device in the network namespace of the user's command.
pub(crate) fn for_engine_here(error: &EngineError) -> Option<String> {
    error.advice()
}
