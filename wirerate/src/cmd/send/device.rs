//! The device to send on: its facts for the plan, the MAC address of the next hop, and the check
//! that it does not carry the default route.

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
/// Timeout for address resolution: two ARP requests.
const RESOLVE_TIMEOUT: Duration = Duration::from_millis(1500);

/// A device, found in its namespace.
#[derive(Debug)]
pub struct TxDevice {
    /// The namespace.
    pub netns: Netns,
    /// Its network stack.
    pub stack: Stack,
    /// The device when it was found.
    pub link: Link,
    /// The facts for the plan.
    pub facts: DeviceFacts,
}

impl TxDevice {
    /// Finds `name` in the namespace `netns`, or in this process's own.
    ///
    /// # Errors
    /// No such namespace or device.
    pub fn find(netns: Option<&str>, name: &str) -> Result<Self, HostError> {
        Self::find_in(netns.map_or_else(Netns::current, Netns::named)?, name)
    }

    /// Finds `name` in `netns`.
    ///
    /// # Errors
    /// No such device.
    pub fn find_in(netns: Netns, name: &str) -> Result<Self, HostError> {
        let stack = Stack::of(&netns)?;
        let link = stack.link(name)?;
        let facts = stack.facts(&link)?;
        Ok(Self { netns, stack, link, facts })
    }

    /// Rejects the device that carries the default route: a flood there cuts off the host.
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

    /// The security associations of its namespace, if `config` needs them.
    ///
    /// # Errors
    /// No IPsec in the kernel, or no privilege to read keys.
    pub fn associations(&self, config: &Config) -> Result<Arc<Associations>, HostError> {
        match config.asks_for_ipsec() {
            true => self.stack.associations(),
            false => Ok(Arc::default()),
        }
    }

    /// Fills in the MAC address of the next hop, unless the configuration has one. `may_ask` allows
    /// ARP or ND requests.
    ///
    /// # Errors
    /// Refused when it is unknown, with the command to set it.
    pub fn fill_in_dst_mac(&self, config: &mut Config, to: IpAddr, may_ask: bool) -> Result<(), Failure> {
        // MAC addresses have no meaning on a loopback device.
        if !config.dst_mac.is_zero() || self.link.is_loopback() {
            return Ok(());
        }
        let act = || format!("send to {to} on {}", self.link.name);
        let failed = |why| Failure::host(act(), why);
        let hop = self.stack.next_hop(&self.link, to).map_err(failed)?;
        let ask = || self.stack.resolve_neighbour(&self.link, hop.ip, RESOLVE_TIMEOUT).map_err(failed);
        let mac = if hop.mac.is_none() && may_ask && self.link.is_running() { ask()? } else { hop.mac };
        config.dst_mac = mac.ok_or_else(|| {
            let who = if hop.ip == to { String::new() } else { format!(" (the next hop to {to})") };
            Failure::refused(act(), anyhow!("the MAC address of {}{who} is unknown", hop.ip))
                .try_this("--dst-mac MAC, such as --dst-mac 02:00:00:00:00:01")
                .try_this(format!("ip neighbour replace {} lladdr MAC dev {}", hop.ip, self.link.name))
        })?;
        Ok(())
    }
}

/// The facts of a dry run, and where they differ from a real run.
#[derive(Debug)]
pub struct Shown {
    /// Facts of the device, or invented ones.
    pub facts: DeviceFacts,
    /// The security associations for IPsec.
    pub associations: Arc<Associations>,
    /// Differences from a real run.
    pub notes: Vec<String>,
}

/// Facts for frames that are only shown: those of the device if it exists, else invented ones with
/// a note. Sends no ARP request.
///
/// # Errors
/// Refused for a namespace that does not exist.
pub fn for_show(netns: Option<&str>, name: &str, config: &mut Config, to: IpAddr) -> Result<Shown, Failure> {
    let mut notes = Vec::new();
    let mut associations = Arc::default();
    let made_up = || DeviceFacts { mac: MAC_MADE_UP, tx_queues: 1, ..DeviceFacts::default() };
    let facts = match TxDevice::find(netns, name) {
        Ok(device) => {
            // An unknown address is not an error here: the note below reports it.
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
