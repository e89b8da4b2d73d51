//! The device that frames are for: whether it can send, and why not.

use crate::EngineError;
use host::{Link, LinkLayer, Stack};
use std::time::{Duration, Instant};

/// Bytes of an Ethernet header, which the MTU leaves out.
const ETHERNET_LEN: u32 = 14;
/// A device takes frames with one VLAN tag beyond its MTU.
const VLAN_TAG_LEN: u32 = 4;
/// Cards agree on a speed with the other end in 3 to 5 seconds.
const LINK_PATIENCE: Duration = Duration::from_secs(15);
const LINK_LOOK: Duration = Duration::from_millis(20);
/// What the kernel calls the queueing discipline of a device that has none.
const NO_QUEUE: &str = "noqueue";

/// One device in the namespace of its stack.
#[derive(Debug)]
pub(crate) struct Device {
    stack: Stack,
    ifindex: u32,
    ifname: String,
    layer: LinkLayer,
}

impl Device {
    /// The device called `ifname`.
    ///
    /// # Errors
    /// When there is none, or the kernel cannot be asked.
    pub(crate) fn new(stack: Stack, ifname: &str) -> Result<Self, EngineError> {
        let link = stack.link(ifname)?;
        Ok(Self { ifindex: link.index, ifname: link.name, layer: link.layer, stack })
    }

    /// Its number in its namespace.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Its name when it was opened.
    pub(crate) fn name(&self) -> String {
        self.ifname.clone()
    }

    /// Why frames with an Ethernet header would be no frames there: a device without one (TUN, WireGuard) takes
    /// its first bytes for an IP header, and drivers count what they then throw away as sent.
    pub(crate) fn layer_trouble(&self) -> Option<EngineError> {
        let has_header = matches!(self.layer, LinkLayer::Ethernet | LinkLayer::Loopback);
        (!has_header).then(|| EngineError::NotEthernet { ifname: self.name() })
    }

    /// Why no engine could send to the device now; `None` when nothing speaks against it. Into the receive path
    /// (`transmit` false) any device goes that is up.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn trouble(&self, transmit: bool) -> Result<Option<EngineError>, EngineError> {
        let ifname = self.name();
        let Some(link) = self.stack.find_link(self.ifindex)? else {
            return Ok(Some(EngineError::Gone { ifname }));
        };
        if !link.is_up() {
            return Ok(Some(EngineError::Down { ifname }));
        }
        if transmit && !link.has_carrier() {
            return Ok(Some(EngineError::NoCarrier { ifname }));
        }
        Ok(None)
    }

    /// True when it can be known whether it takes frames from XDP: the kernel says what its driver can do (Linux 6.3), or
    /// it is a veth whose far end can be looked at.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn tells_xdp(&self) -> Result<bool, EngineError> {
        Ok(self.takes_xdp(&self.stack.link(self.ifindex)?)?.is_some())
    }

    /// Whether the device takes frames from XDP now; `None` where nobody knows before the first burst.
    fn takes_xdp(&self, link: &Link) -> Result<Option<bool>, EngineError> {
        match self.stack.xdp_features(link.index)? {
            Some(features) => Ok(Some(features.redirect_target)),
            // Kernels before 6.3 do not tell of drivers, but of what makes a veth poll.
            None => Ok(self.stack.far_end_polls(link)?),
        }
    }

    /// True for a device of this `kind`, as in `ip -d link`.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the device is gone.
    pub(crate) fn is_kind(&self, kind: &str) -> Result<bool, EngineError> {
        Ok(self.stack.link(self.ifindex)?.is_kind(kind))
    }

    /// True when hardware that takes no frames from XDP now may take them while it runs a program; also when the
    /// kernel does not say.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn may_take_xdp_with_a_program(&self) -> Result<bool, EngineError> {
        let link = self.stack.link(self.ifindex)?;
        let features = self.stack.xdp_features(self.ifindex)?;
        let is_open = features.is_some_and(|features| features.redirect_target || !features.basic);
        Ok(link.kind.is_none() && !link.is_loopback() && !is_open)
    }

    /// True when the driver says that AF_XDP need not copy.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn has_zero_copy(&self) -> Result<bool, EngineError> {
        Ok(self.stack.xdp_features(self.ifindex)?.is_some_and(|features| features.xsk_zero_copy))
    }

    /// Waits while the device looks for its link, but not for ever: whoever sends then says that there is none.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn wait_for_carrier(&self) -> Result<(), EngineError> {
        let deadline = Instant::now() + LINK_PATIENCE;
        while Instant::now() < deadline
            && self.stack.find_link(self.ifindex)?.is_some_and(|link| link.is_up() && !link.has_carrier())
        {
            std::thread::sleep(LINK_LOOK);
        }
        Ok(())
    }

    /// Why frames redirected to the device from XDP would not be sent: a driver without XDP transmit, or a veth
    /// whose peer does not take part. `None` when nothing speaks against it.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn xdp_trouble(&self) -> Result<Option<EngineError>, EngineError> {
        let link = self.stack.link(self.ifindex)?;
        // Where nobody knows the first burst will tell, and the worker then tries the next engine.
        if self.takes_xdp(&link)? != Some(false) {
            return Ok(None);
        }
        let ifname = self.name();
        if link.is_kind("veth") {
            let peer = self.stack.peer(&link)?;
            let peer = peer.map_or_else(|| "the device there".to_owned(), |peer| peer.name);
            let netns = self.stack.peer_netns(&link)?;
            let peer_prefix = netns.map_or_else(String::new, |netns| netns.command_prefix());
            return Ok(Some(match self.stack.far_end_polls(&link)? {
                Some(true) => EngineError::PeerGroUnnoticed { ifname, peer, peer_prefix },
                _ => EngineError::PeerTakesNoXdp { ifname, peer, peer_prefix },
            }));
        }
        let driver = self.driver(&link);
        Ok(Some(EngineError::NoXdpTransmit { ifname, driver }))
    }

    /// Why frames of `frame_len` bytes are longer than the device lets pass, or the far end of a veth, which drops
    /// what is beyond its own MTU; `None` when they fit.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the device is gone.
    pub(crate) fn length_trouble(
        &self,
        frame_len: u32,
        tagged: bool,
    ) -> Result<Option<EngineError>, EngineError> {
        let link = self.stack.link(self.ifindex)?;
        let peer = if link.is_kind("veth") { self.stack.peer(&link)? } else { None };
        let far = peer.map(|peer| (peer.name, peer.mtu, true));
        let mut ends = std::iter::once((self.name(), link.mtu, tagged)).chain(far);
        let is_short = |end: &(String, u32, bool)| {
            frame_len > end.1 + ETHERNET_LEN + if end.2 { VLAN_TAG_LEN } else { 0 }
        };
        Ok(ends.find(is_short).map(|(ifname, mtu, _)| EngineError::LongerThanMtu { ifname, frame_len, mtu }))
    }

    /// Who drives it: its kind, or the name of the driver of hardware.
    fn driver(&self, link: &Link) -> String {
        let unnamed = if link.is_loopback() { "loopback" } else { "hardware" };
        let named = || Some(self.stack.driver(link).ok()??.name);
        link.kind.clone().or_else(named).unwrap_or_else(|| unnamed.to_owned())
    }

    /// The queueing discipline between the stack and the driver; `None` when frames meet none.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the device is gone.
    pub(crate) fn qdisc(&self) -> Result<Option<String>, EngineError> {
        Ok(self.stack.link(self.ifindex)?.qdisc.filter(|name| name != NO_QUEUE))
    }
}
