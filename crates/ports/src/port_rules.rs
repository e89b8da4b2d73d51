//! Which devices ports may have, and what may be sent on them.

use super::progress::DrainRule;
use engine::CatchUp;
use host::HostError;
use otg::FlowConfig;
use sender::device::TxDevice;
use sender::run::CATCH_UP_DEFAULT;
use std::net::IpAddr;

/// The rules of a host.
pub trait PortRules: Send + Sync {
    /// The device of a location.
    ///
    /// # Errors
    /// No such device or namespace, or it may not be used; in one line.
    fn device(&self, location: &str) -> Result<TxDevice, String>;

    /// Checks the flows that are sent on the port at `location`, each with its index, on a line of
    /// `speed` bits per second. Returns what is refused.
    fn check(&self, location: &str, flows: &[(usize, &FlowConfig)], speed: u64) -> Vec<String>;

    /// Checks an address that other frames than those of flows are sent to: pings, and the
    /// resolution of gateways.
    ///
    /// # Errors
    /// The port at `location` may not send to it; in one line.
    fn check_destination(&self, location: &str, to: IpAddr) -> Result<(), String>;

    /// How flows are sent that are late, or whose link is down.
    fn sending(&self) -> SendRules;
}

/// Why a device is not found, with the cause, in one line.
pub fn not_found(error: HostError) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

/// What a flow does when it cannot send in time.
#[derive(Clone, Copy, Debug)]
pub struct SendRules {
    /// How fast it may catch up when it is late.
    pub catch_up: CatchUp,
    /// It goes on when its link is back; otherwise a link that goes down ends it.
    pub keep_going: bool,
    /// How long the last frames of a flow may take.
    pub drain: DrainRule,
}

impl Default for SendRules {
    fn default() -> Self {
        Self { catch_up: CATCH_UP_DEFAULT, keep_going: true, drain: DrainRule::default() }
    }
}
