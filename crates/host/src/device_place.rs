//! Devices as users name them: `DEV`, or `DEV@NETNS` for one in another network namespace.

use crate::{HostError, Link, Netns, Stack};
use std::fmt;

/// A device and its network namespace, as the user named them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// The name of the device.
    pub device: String,
    /// A name, a path or a process ID, as [`Netns::named`] accepts it; `None` for the namespace of
    /// this process.
    pub netns: Option<String>,
}

impl DevicePlace {
    /// The device that `text` names. `netns` is the namespace of a device that is named without
    /// one.
    ///
    /// - An existing device of that full name wins.
    /// - What follows an `@` is a namespace if one has that name, path or process ID.
    /// - `DEV@ifN`, `DEV@PEER` and `DEV@NONE`, as `ip link` prints devices, mean `DEV`, if N or
    ///   PEER is its peer or lower device.
    /// - All other text behind the first `@` counts as a namespace, which [`DevicePlace::netns`]
    ///   then reports as missing.
    pub fn of(text: &str, netns: Option<&str>) -> Self {
        let unplaced = |device: &str| Self { device: device.to_owned(), netns: netns.map(str::to_owned) };
        let cuts = || {
            let cut = |(at, _)| (&text[..at], &text[at + 1..]);
            text.match_indices('@').map(cut).filter(|(device, place)| !device.is_empty() && !place.is_empty())
        };
        let Some((device, place)) = cuts().next() else { return unplaced(text) };
        let stack = netns.map_or_else(Netns::current, Netns::named).and_then(|netns| Stack::of(&netns));
        let link = |name: &str| stack.as_ref().ok()?.link(name).ok();
        if link(text).is_some() {
            return unplaced(text);
        }
        if let Some((device, place)) = cuts().find(|(_, place)| Netns::named(place).is_ok()) {
            return Self { device: device.to_owned(), netns: Some(place.to_owned()) };
        }
        let lower = |index: u32| Some(stack.as_ref().ok()?.link(index).ok()?.name);
        if let Some((device, _)) =
            cuts().find(|(device, place)| link(device).is_some_and(|link| is_suffix(&link, place, lower)))
        {
            return unplaced(device);
        }
        Self { device: device.to_owned(), netns: Some(place.to_owned()) }
    }

    /// The namespace.
    ///
    /// # Errors
    /// No such namespace, or no privilege to open it.
    pub fn netns(&self) -> Result<Netns, HostError> {
        self.netns.as_deref().map_or_else(Netns::current, Netns::named)
    }
}

impl fmt::Display for DevicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        self.netns.iter().try_for_each(|netns| write!(f, "@{netns}"))
    }
}

/// True if `ip link` prints `link` with `@` and this `text`. `name` returns the name of an index in
/// the namespace of the device.
fn is_suffix(link: &Link, text: &str, name: impl Fn(u32) -> Option<String>) -> bool {
    match (&link.peer, text.strip_prefix("if").map(str::parse::<u32>)) {
        (None, _) => text == "NONE",
        (Some(peer), Some(Ok(index))) => peer.index == index,
        (Some(peer), _) => peer.netns_number.is_none() && name(peer.index).is_some_and(|name| name == text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(device: &str, netns: Option<&str>) -> DevicePlace {
        DevicePlace { device: device.to_owned(), netns: netns.map(str::to_owned) }
    }

    #[test]
    fn a_namespace_is_a_name_a_path_or_a_process() {
        let own = std::process::id().to_string();
        for (text, default, expected) in [
            ("eth7", None, place("eth7", None)),
            ("eth7", Some("lab"), place("eth7", Some("lab"))),
            ("eth7@no-such", Some("lab"), place("eth7", Some("no-such"))),
            ("eth7@/proc/self/ns/net", Some("lab"), place("eth7", Some("/proc/self/ns/net"))),
            (&format!("eth7@{own}"), None, place("eth7", Some(&own))),
            ("@lab", None, place("@lab", None)),
            ("eth7@", None, place("eth7@", None)),
            ("a@b@/proc/self/ns/net", None, place("a@b", Some("/proc/self/ns/net"))),
        ] {
            assert_eq!(DevicePlace::of(text, default), expected, "{text}");
        }
        assert_eq!(place("eth7", Some("lab")).to_string(), "eth7@lab");
    }
}
