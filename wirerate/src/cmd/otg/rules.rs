//! Which devices ports may have, and what may be sent on them.

use crate::cmd::send::device::TxDevice;
use engine::CatchUp;
use otg::FlowConfig;

/// The rules of a host.
pub(crate) trait PortRules: Send + Sync {
    /// The device of a location.
    ///
    /// # Errors
    /// No such device or namespace, or it may not be used; in one line.
    fn device(&self, location: &str) -> Result<TxDevice, String>;

    /// Checks the flows that are sent on the port at `location`, each with its index, on a line of
    /// `speed` bits per second. Returns what is refused.
    fn check(&self, location: &str, flows: &[(usize, &FlowConfig)], speed: u64) -> Vec<String>;

    /// How fast a late flow may catch up.
    fn catch_up(&self) -> CatchUp;
}
