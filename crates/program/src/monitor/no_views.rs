//! In place of screen and page, in builds that have none.

use super::{MonitorAddress, RunFacts, RunSubject};
use crate::console::Console;
use crate::groups::{Group, left_out};
use crate::outcome::Failure;
use std::sync::Arc;

/// There is none.
pub(super) enum Tui {}

/// There is none.
pub(super) enum Web {}

impl Tui {
    /// Refuses to start the view.
    pub(super) fn of_run(_subject: &RunSubject, _console: &Console) -> Result<Self, Failure> {
        Err(left_out("use --tui", Group::Live))
    }
}

/// Refuses to start the page.
pub(super) fn serve_page(_address: MonitorAddress, _facts: &Arc<RunFacts>) -> Result<Web, Failure> {
    Err(left_out("use --web", Group::Live))
}
