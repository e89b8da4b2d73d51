//! Locations of ports: a device, a device in a namespace, or a text that `--port` maps to one.

use super::port_rules::{PortRules, SendRules, not_found};
use super::progress::DrainRule;
use host::DevicePlace;
use otg::FlowConfig;
use sender::device::TxDevice;
use std::net::IpAddr;
use std::str::FromStr;

/// A location, and the device that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortLocation {
    location: String,
    device: String,
}

impl FromStr for PortLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (location, device) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not LOCATION=DEV or LOCATION=DEV@NETNS"))?;
        if location.is_empty() || device.is_empty() || device.starts_with('@') || device.ends_with('@') {
            return Err(format!("{text:?} is not LOCATION=DEV or LOCATION=DEV@NETNS"));
        }
        Ok(Self { location: location.to_owned(), device: device.to_owned() })
    }
}

/// The devices of this host that a user may use.
#[derive(Clone, Debug)]
pub(super) struct LocalPorts {
    /// Devices of locations.
    pub(super) mapped: Vec<PortLocation>,
    pub(super) allows_default_route: bool,
    /// Flows go on when their link is back.
    pub(super) keep_going: bool,
    /// How long the last frames of a flow may take.
    pub(super) drain: DrainRule,
}

impl LocalPorts {
    /// True if `--port` has this location.
    pub(super) fn maps(&self, location: &str) -> bool {
        self.mapped.iter().any(|mapped| mapped.location == location)
    }
}

impl PortRules for LocalPorts {
    fn device(&self, location: &str) -> Result<TxDevice, String> {
        let mapped = self.mapped.iter().find(|mapped| mapped.location == location);
        let place = match (mapped, location.split_once('/')) {
            (Some(mapped), _) => DevicePlace::of(&mapped.device, None),
            // A device has no slash in its name; one in DEV@/proc/PID/ns/net is behind the @.
            (None, Some((netns, device))) if !netns.contains('@') => {
                DevicePlace { device: device.to_owned(), netns: Some(netns.to_owned()) }
            }
            (None, _) => DevicePlace::of(location, None),
        };
        let device = TxDevice::find(place.netns.as_deref(), &place.device)
            .map_err(|error| no_device(location, not_found(error)))?;
        if !self.allows_default_route
            && device.stack.carries_default_route_of_host(&device.link).unwrap_or(true)
        {
            let name = &device.link.name;
            return Err(format!(
                "{name} carries the default route of this host: start wirerate otg with --allow-default-route"
            ));
        }
        Ok(device)
    }

    fn check(&self, _: &str, _: &[(usize, &FlowConfig)], _: u64) -> Vec<String> {
        Vec::new()
    }

    fn check_destination(&self, _: &str, _: IpAddr) -> Result<(), String> {
        Ok(())
    }

    fn sending(&self) -> SendRules {
        SendRules { keep_going: self.keep_going, drain: self.drain, ..SendRules::default() }
    }
}

/// Why a location has no device. A location such as `localhost:5555` is that of another engine.
fn no_device(location: &str, why: String) -> String {
    match location.contains(':') {
        true => format!("{why}; start wirerate otg with --port {location}=DEV"),
        false => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_may_contain_colons_and_name_a_namespace() {
        let mapped: PortLocation = "localhost:5555=eth1@lab".parse().unwrap();
        let expected = PortLocation { location: "localhost:5555".to_owned(), device: "eth1@lab".to_owned() };
        assert_eq!(mapped, expected);
        for text in ["", "eth1", "=eth1", "a=", "a=eth1@"] {
            assert!(text.parse::<PortLocation>().is_err(), "{text}");
        }
    }
}
