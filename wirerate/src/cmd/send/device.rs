//! The device that frames leave by: what the plan needs to know of it.

use crate::outcome::Failure;
use host::{HostError, Link, Netns, Stack};
use packet::{DeviceFacts, MacAddr};

/// Source of the frames of a dry run when there is no such device.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// A device, found in its namespace.
#[derive(Debug)]
pub struct Device {
    /// The namespace's stack.
    pub stack: Stack,
    /// The device as it was when found.
    pub link: Link,
}

impl Device {
    /// Finds `name` in the namespace `netns`, or in this process's own.
    ///
    /// # Errors
    /// As the host says: no such namespace, no such device.
    pub fn find(netns: Option<&str>, name: &str) -> Result<Self, HostError> {
        let stack = match netns {
            Some(netns) => Stack::of(&Netns::named(netns)?)?,
            None => Stack::here()?,
        };
        let link = stack.link(name)?;
        Ok(Self { stack, link })
    }

    /// What the plan needs to know.
    pub fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            mac: self.link.mac.unwrap_or_default(),
            tx_queues: u16::try_from(self.link.tx_queues).unwrap_or(u16::MAX),
            ..DeviceFacts::default()
        }
    }
}

/// Facts for frames that are only shown: those of the device if it is there, else made up, with a note.
///
/// # Errors
/// Bad usage for a namespace that does not exist.
pub fn facts_for_show(netns: Option<&str>, name: &str) -> Result<(DeviceFacts, Option<String>), Failure> {
    match Device::find(netns, name) {
        Ok(device) => Ok((device.facts(), None)),
        Err(HostError::NoLink { .. }) => Ok((
            DeviceFacts { mac: MAC_MADE_UP, tx_queues: 1, ..DeviceFacts::default() },
            Some(format!("there is no device {name}: the frames are shown as from {MAC_MADE_UP}")),
        )),
        Err(why) => Err(Failure::host(format!("look at {name}"), why)),
    }
}
