//! In place of the hub of a fleet, in builds that have none.

use crate::groups::{Group, left_out};
use crate::outcome::{Failure, Outcome};

/// Refuses to check a hub.
///
/// # Errors
/// Always.
pub fn examine(_target: &str) -> Result<Outcome, Failure> {
    Err(left_out("use doctor --hub", Group::Otg))
}
