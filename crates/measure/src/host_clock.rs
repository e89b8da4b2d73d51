//! The clock of a host.

use facts::Described;
use serde::{Deserialize, Serialize};

/// How well the clock of a host is synchronized, as its kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct HostClock {
    /// True if a service keeps the clock synchronized.
    pub is_synchronized: bool,
    /// How far it may be from UTC at most.
    pub bound_ns: u64,
}
