//! The device to send on: its facts for the plan, and the checks that it can send and does not
//! carry the default route.

use anyhow::anyhow;
use engine::EngineError;
use host::{CommandPlace, HostError, Link, LinkLayer, Netns, Stack};
use packet::ipsec::Associations;
use packet::{Config, DeviceFacts};
use program::outcome::Failure;
use std::sync::Arc;

/// Bytes of an Ethernet header without tags.
const ETHERNET_LEN: u32 = 14;
/// Bytes of the frame check sequence, which lengths do not include.
const FCS_LEN: u32 = 4;

/// A peer that is down, and with it the carrier of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownPeer {
    /// Its name, and its namespace where that has one.
    pub name: String,
    /// The command that sets it up.
    pub up: String,
}

/// A device, found in its namespace.
#[derive(Debug)]
pub struct TxDevice {
    /// The namespace.
    pub netns: Netns,
    /// The namespace, as the user named it.
    pub netns_name: Option<String>,
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
        let device = Self::find_in(netns.map_or_else(Netns::current, Netns::named)?, name)?;
        Ok(Self { netns_name: netns.map(str::to_owned), ..device })
    }

    /// Finds `name` in `netns`.
    ///
    /// # Errors
    /// No such device.
    pub fn find_in(netns: Netns, name: &str) -> Result<Self, HostError> {
        let stack = Stack::of(&netns)?;
        let link = stack.link(name)?;
        let facts = stack.facts(&link)?;
        Ok(Self { netns, netns_name: None, stack, link, facts })
    }

    /// Rejects the device that carries the default route of the host: a flood there cuts it off.
    ///
    /// # Errors
    /// Refused, with the option that allows it.
    pub fn spare_default_route(&self) -> Result<(), Failure> {
        let act = || format!("send on {}", self.link.name);
        match self.stack.carries_default_route_of_host(&self.link) {
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

    /// Bits per second of the line, if the driver reports it.
    pub fn line_bps(&self) -> Option<u64> {
        self.stack.speed_bps(&self.link).ok().flatten()
    }

    /// Longest frame, without FCS, with `tags_len` bytes of tags.
    pub fn frame_len_max(&self, tags_len: u32) -> u32 {
        self.link.mtu.saturating_add(ETHERNET_LEN + tags_len)
    }

    /// Rejects frames that are longer than the MTU of the device with an Ethernet header and
    /// `tags_len` bytes of tags: devices on the way would drop them, which looks like loss there.
    ///
    /// # Errors
    /// Refused, with the command that changes the MTU.
    pub fn check_length(&self, frame_len: u32, tags_len: u32) -> Result<(), Failure> {
        let (name, mtu) = (&self.link.name, self.link.mtu);
        let longest = self.frame_len_max(tags_len);
        if frame_len <= longest {
            return Ok(());
        }
        let act = format!("send frames of {frame_len} bytes ({} with FCS) on {name}", frame_len + FCS_LEN);
        let why = anyhow!("its MTU is {mtu}, which allows {longest} ({} with FCS)", longest + FCS_LEN);
        let set =
            self.command_place().ip(&format!("link set {name} mtu {}", frame_len - ETHERNET_LEN - tags_len));
        Err(Failure::refused(act, why).try_this(format!("`{set}`, also at the peer")))
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

    /// Rejects a device without Ethernet frames, one that is down and, if frames leave through it,
    /// one without carrier: no address could be resolved there, and no frame sent.
    ///
    /// # Errors
    /// Refused, with the command that sets it or its peer up.
    pub fn check_state(&self, transmit: bool) -> Result<(), Failure> {
        let ifname = self.link.name.clone();
        let act = format!("send on {ifname}");
        let failed = |why| Failure::engine(&act, why, self.netns_name.as_deref());
        let takes_frames = matches!(self.link.layer, LinkLayer::Ethernet | LinkLayer::Loopback);
        if !(takes_frames || transmit && self.takes_ip_packets()) {
            return Err(failed(EngineError::NotEthernet { ifname }));
        }
        if !self.link.is_up() {
            return Err(failed(EngineError::Down { ifname }));
        }
        if !transmit || self.link.has_carrier() {
            return Ok(());
        }
        match self.down_peer() {
            Some(peer) => {
                let why = anyhow!("{ifname} has no carrier: its peer {} is down", peer.name);
                Err(Failure::refused(&act, why).try_this(peer.up))
            }
            None => Err(failed(EngineError::NoCarrier { ifname })),
        }
    }

    /// True for a device whose frames begin with an IP header (tun, WireGuard): it sends the IP
    /// packets of frames.
    pub fn takes_ip_packets(&self) -> bool {
        self.link.layer == LinkLayer::None
    }

    /// The peer of a veth, if it is down.
    pub fn down_peer(&self) -> Option<DownPeer> {
        let peer = self.stack.peer(&self.link).ok().flatten().filter(|peer| !peer.is_up())?;
        if !self.link.is_kind("veth") {
            return None;
        }
        let netns = self.stack.peer_netns(&self.link).ok().flatten();
        let place = netns.as_ref().map(CommandPlace::of_netns).unwrap_or_default();
        let up = place.ip(&format!("link set {} up", peer.name));
        let netns = netns.map_or_else(String::new, |netns| format!(" in {netns}"));
        Some(DownPeer { name: format!("{}{netns}", peer.name), up })
    }

    /// Where commands for the device run.
    pub fn command_place(&self) -> CommandPlace {
        CommandPlace::of(self.netns_name.as_deref())
    }
}
