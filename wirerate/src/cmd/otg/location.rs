//! Locations of ports: a device, a device in a namespace, or a text that `--port` maps to one.

use crate::cmd::send::device::TxDevice;
use std::str::FromStr;

/// A location, and the device that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortLocation {
    location: String,
    device: String,
    netns: Option<String>,
}

impl FromStr for PortLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (location, device) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not LOCATION=DEV or LOCATION=DEV@NETNS"))?;
        let (device, netns) = match device.split_once('@') {
            Some((device, netns)) => (device, Some(netns.to_owned())),
            None => (device, None),
        };
        if location.is_empty() || device.is_empty() || netns.as_ref().is_some_and(String::is_empty) {
            return Err(format!("{text:?} is not LOCATION=DEV or LOCATION=DEV@NETNS"));
        }
        Ok(Self { location: location.to_owned(), device: device.to_owned(), netns })
    }
}

/// The device of a location.
///
/// # Errors
/// No such device or namespace, in one line.
pub(super) fn find(location: &str, mapped: &[PortLocation]) -> Result<TxDevice, String> {
    let (netns, device) = match mapped.iter().find(|mapped| mapped.location == location) {
        Some(mapped) => (mapped.netns.as_deref(), &mapped.device[..]),
        None => match location.split_once('/') {
            Some((netns, device)) => (Some(netns), device),
            None => (None, location),
        },
    };
    TxDevice::find(netns, device).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_may_contain_colons_and_name_a_namespace() {
        let mapped: PortLocation = "localhost:5555=eth1@lab".parse().unwrap();
        let expected = PortLocation {
            location: "localhost:5555".to_owned(),
            device: "eth1".to_owned(),
            netns: Some("lab".to_owned()),
        };
        assert_eq!(mapped, expected);
        for text in ["", "eth1", "=eth1", "a=", "a=eth1@"] {
            assert!(text.parse::<PortLocation>().is_err(), "{text}");
        }
    }
}
