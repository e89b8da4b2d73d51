//! The clock of a host.

use serde::{Deserialize, Serialize};

/// How well the clock of a host is synchronized, as its kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostClock {
    /// A daemon keeps it synchronized.
    pub is_synchronized: bool,
    /// Maximum error against UTC.
    pub bound_ns: u64,
}
