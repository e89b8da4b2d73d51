//! The device that frames leave by: what the plan needs to know of it, who gets the frames, and whether it is
//! one that nobody should flood by mistake.

use crate::outcome::Failure;
use anyhow::anyhow;
use host::{HostError, Link, Netns, Stack};
use packet::ipsec::Associations;
use packet::{Config, DeviceFacts, MacAddr};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Source of the frames of a dry run when there is no such device.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// How long a neighbour may take to say its MAC address: two ARP requests.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A device, found in its namespace.
#[derive(Debug)]
pub struct Device {
    /// The namespace.
    pub netns: Netns,
    /// Its network stack.
    pub stack: Stack,
    /// The device as it was when found.
    pub link: Link,
    /// What the plan needs to know.
    pub facts: DeviceFacts,
}

impl Device {
    /// Finds `name` in the namespace `netns`, or in this process's own.
    ///
    /// # Errors
    /// As the host says: no such namespace, no such device.
    pub fn find(netns: Option<&str>, name: &str) -> Result<Self, HostError> {
        Self::find_in(netns.map_or_else(Netns::current, Netns::named)?, name)
    }

    /// Finds `name` in `netns`.
    ///
    /// # Errors
    /// As the host says: no such device.
    pub fn find_in(netns: Netns, name: &str) -> Result<Self, HostError> {
        let stack = Stack::of(&netns)?;
        let link = stack.link(name)?;
        let facts = stack.facts(&link)?;
        Ok(Self { netns, stack, link, facts })
    }

    /// Refuses the device that carries the default route: a flood there cuts the host off.
    ///
    /// # Errors
    /// Refused, with the option that allows it.
    pub fn spare_default_route(&self) -> Result<(), Failure> {
        let act = || format!("send on {}", self.link.name);
        match self.stack.carries_default_route(&self.link) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Failure::refused(
                act(),
                anyhow!("it carries the default route of this host, and a flood of frames could cut it off"),
            )
            .try_this("--allow-default-route if that is what you want")
            .try_this("`wirerate demo` to see it work on devices of its own")),
            Err(why) => Err(Failure::host(act(), why)),
        }
    }

    /// The security associations of its namespace, where `config` asks for frames to be sealed.
    ///
    /// # Errors
    /// As the host says: no IPsec in the kernel, or no privilege to read keys.
    pub fn associations(&self, config: &Config) -> Result<Arc<Associations>, HostError> {
        match config.asks_for_ipsec() {
            true => self.stack.associations(),
            false => Ok(Arc::default()),
        }
    }

    /// Fills in the MAC address of the next hop, unless the configuration has one. The kernel may ask for it
    /// (ARP, ND) when `may_ask`.
    ///
    /// # Errors
    /// Refused when nobody knows it, with what to type.
    pub fn fill_in_dst_mac(&self, config: &mut Config, to: IpAddr, may_ask: bool) -> Result<(), Failure> {
        // Nobody looks at MAC addresses on a loopback device.
        if !config.dst_mac.is_zero() || self.link.is_loopback() {
            return Ok(());
        }
        let act = || format!("send to {to} on {}", self.link.name);
        let failed = |why| Failure::host(act(), why);
        let hop = self.stack.next_hop(&self.link, to).map_err(failed)?;
        let ask = || self.stack.resolve_neighbour(&self.link, hop.ip, PATIENCE).map_err(failed);
        let mac = if hop.mac.is_none() && may_ask && self.link.is_running() { ask()? } else { hop.mac };
        config.dst_mac = mac.ok_or_else(|| {
            let who = if hop.ip == to { String::new() } else { format!(" (the next hop to {to})") };
            Failure::refused(act(), anyhow!("nobody knows the MAC address of {}{who}", hop.ip))
                .try_this("--dst-mac MAC, such as --dst-mac 02:00:00:00:00:01")
                .try_this(format!("ip neighbour replace {} lladdr MAC dev {}", hop.ip, self.link.name))
        })?;
        Ok(())
    }
}

/// What a dry run knows of the device, and what a person should know of that.
#[derive(Debug)]
pub struct Shown {
    /// Facts of the device, or made up.
    pub facts: DeviceFacts,
    /// The security associations that frames are to be sealed by.
    pub associations: Arc<Associations>,
    /// What is not as it would be in a real run.
    pub notes: Vec<String>,
}

/// Facts for frames that are only shown: those of the device if it is there, else made up, with a note.
/// Asks nobody for a MAC address, but looks it up.
///
/// # Errors
/// Refused for a namespace that does not exist.
pub fn for_show(netns: Option<&str>, name: &str, config: &mut Config, to: IpAddr) -> Result<Shown, Failure> {
    let mut notes = Vec::new();
    let mut associations = Arc::default();
    let made_up = || DeviceFacts { mac: MAC_MADE_UP, tx_queues: 1, ..DeviceFacts::default() };
    let facts = match Device::find(netns, name) {
        Ok(device) => {
            // Not known is no failure here: the note below says so.
            let _ = device.fill_in_dst_mac(config, to, false);
            associations = device
                .associations(config)
                .map_err(|why| Failure::host("read security associations", why))?;
            device.facts
        }
        Err(HostError::NoLink { .. }) => {
            notes.push(format!("there is no device {name}: the frames are shown as from {MAC_MADE_UP}"));
            made_up()
        }
        Err(why) if netns.is_none() => {
            notes.push(format!("{why}: the frames are shown as from {MAC_MADE_UP}"));
            made_up()
        }
        Err(why) => return Err(Failure::host(format!("look at {name}"), why)),
    };
    if config.dst_mac.is_zero() {
        notes.push(
            "no destination MAC is known here: the frames are shown with zeros in its place".to_owned(),
        );
    }
    Ok(Shown { facts, associations, notes })
}
