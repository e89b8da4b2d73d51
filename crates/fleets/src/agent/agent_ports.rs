//! The ports of the agent's file, as the rules for configurations of the Open Traffic Generator.

use super::config::{AgentFile, AgentPort};
use super::limits;
use fleet::PortPlace;
use otg::FlowConfig;
use ports::port_rules::{PortRules, SendRules, not_found};
use sender::device::TxDevice;
use std::net::IpAddr;
use std::sync::Arc;

/// The ports of the agent's file.
pub(super) struct AgentPorts(pub(super) Arc<AgentFile>);

impl AgentPorts {
    /// The port of a location, which is HOST/PORT.
    pub(super) fn port(&self, location: &str) -> Result<&AgentPort, String> {
        let place: PortPlace = location.parse()?;
        if place.host != self.0.host {
            return Err(format!("this is host {}", self.0.host));
        }
        let port = self.0.port(&place.port)?;
        if port.dry {
            return Err(format!("port {} is dry in the agent's file: it has no device", port.name));
        }
        Ok(port)
    }
}

impl PortRules for AgentPorts {
    fn device(&self, location: &str) -> Result<TxDevice, String> {
        let port = self.port(location)?;
        let device = TxDevice::find(port.netns.as_deref(), port.device()).map_err(not_found)?;
        if device.stack.carries_default_route(&device.link).unwrap_or(true) {
            let name = port.device();
            return Err(format!("{name} carries the default route of the host, which agents never send on"));
        }
        Ok(device)
    }

    fn check(&self, location: &str, flows: &[(usize, &FlowConfig)], speed: u64) -> Vec<String> {
        self.port(location).map_or_else(|why| vec![why], |port| limits::check_otg(port, flows, speed))
    }

    fn check_destination(&self, location: &str, to: IpAddr) -> Result<(), String> {
        limits::check_destination(self.port(location)?, (to, to))
    }

    /// A port with a highest rate is not sent on at any speed.
    fn sending(&self) -> SendRules {
        SendRules::default()
    }
}
