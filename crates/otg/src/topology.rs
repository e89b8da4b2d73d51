//! What flows refer to: ports and emulated interfaces.

use crate::device::EmulatedInterface;
use crate::node::Findings;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name.
    pub name: String,
    /// The device, as the configuration names it.
    pub location: String,
    /// Bits per second of its line, if configured.
    pub speed: Option<u64>,
    /// Its MTU, if configured.
    pub mtu: Option<u32>,
}

/// The line speed of a device that has none of its own, in bits per second.
pub const SPEED_DEFAULT: u64 = 1_000_000_000;

/// Ports and interfaces of a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topology<'a> {
    pub(crate) ports: &'a [PortConfig],
    pub(crate) interfaces: &'a [EmulatedInterface],
}

impl<'a> Topology<'a> {
    /// Reports a name that no port has.
    pub(crate) fn check_port(&self, name: &str, path: &str, findings: &Findings) {
        if self.port(name).is_none() {
            findings.error(path, format!("there is no port named {name}"));
        }
    }

    pub(crate) fn port(&self, name: &str) -> Option<&'a PortConfig> {
        self.ports.iter().find(|port| port.name == name)
    }

    pub(crate) fn interface(&self, name: &str) -> Option<&'a EmulatedInterface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}
