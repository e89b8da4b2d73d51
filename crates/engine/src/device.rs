//! The device of a run: whether it can send, and if not, why.

use crate::EngineError;
use host::{CommandPlace, Link, LinkLayer, Stack};
use std::rc::Rc;
use std::time::Duration;

/// Length of an Ethernet header, which the MTU excludes.
const ETHERNET_LEN: u32 = 14;
/// A device accepts frames with one VLAN tag beyond its MTU.
const VLAN_TAG_LEN: u32 = 4;
/// Cards negotiate the speed of a link in 3 to 5 seconds.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(15);
/// Name of the queueing discipline of a device that has none.
const NO_QUEUE: &str = "noqueue";

/// A device in the namespace of its stack.
#[derive(Debug)]
pub(crate) struct OutputDevice {
    /// Shared by the runs of a thread: each has three descriptors.
    stack: Rc<Stack>,
    ifindex: u32,
    ifname: String,
    layer: LinkLayer,
}

impl OutputDevice {
    /// The device called `ifname`.
    ///
    /// # Errors
    /// When there is none, or a query fails.
    pub(crate) fn new(stack: impl Into<Rc<Stack>>, ifname: &str) -> Result<Self, EngineError> {
        let stack = stack.into();
        let link = stack.link(ifname)?;
        Ok(Self { ifindex: link.index, ifname: link.name, layer: link.layer, stack })
    }

    /// Its index in its namespace.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Its name when it was opened.
    pub(crate) fn name(&self) -> String {
        self.ifname.clone()
    }

    /// True for a device whose frames begin with an IP header (tun, WireGuard).
    pub(crate) fn takes_ip_packets(&self) -> bool {
        self.layer == LinkLayer::None
    }

    /// Why frames with an Ethernet header cannot be sent: devices without one (TUN, WireGuard)
    /// expect an IP header, and drivers count frames as sent that they then drop.
    pub(crate) fn layer_trouble(&self) -> Option<EngineError> {
        let has_header = matches!(self.layer, LinkLayer::Ethernet | LinkLayer::Loopback);
        (!has_header).then(|| EngineError::NotEthernet { ifname: self.name() })
    }

    /// Why no engine can send to the device now; `None` if nothing prevents it. For the receive
    /// path (`transmit` false) the device only has to be up.
    ///
    /// # Errors
    /// When a query fails.
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

    /// True if XDP transmit support can be determined: the kernel reports driver features (Linux
    /// 6.3), or the device is a veth whose peer can be queried.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn reports_xdp(&self) -> Result<bool, EngineError> {
        Ok(self.accepts_xdp(&self.stack.link(self.ifindex)?)?.is_some())
    }

    /// Whether the device accepts frames from XDP now; `None` if that is unknown before the first
    /// burst.
    fn accepts_xdp(&self, link: &Link) -> Result<Option<bool>, EngineError> {
        match self.stack.xdp_features(link.index)? {
            Some(features) => Ok(Some(features.redirect_target)),
            // Kernels before 6.3 report no driver features, but the GRO setting of a veth.
            None => Ok(self.stack.peer_polls(link)?),
        }
    }

    /// True for a device of this `kind`, as in `ip -d link`.
    ///
    /// # Errors
    /// When a query fails, or the device is gone.
    pub(crate) fn is_kind(&self, kind: &str) -> Result<bool, EngineError> {
        Ok(self.stack.link(self.ifindex)?.is_kind(kind))
    }

    /// True if hardware that does not accept frames from XDP now may accept them with a program
    /// attached, or if that is unknown.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn may_take_xdp_with_a_program(&self) -> Result<bool, EngineError> {
        let link = self.stack.link(self.ifindex)?;
        let features = self.stack.xdp_features(self.ifindex)?;
        let is_open = features.is_some_and(|features| features.redirect_target || !features.basic);
        Ok(link.kind.is_none() && !link.is_loopback() && !is_open)
    }

    /// True if the driver reports AF_XDP zero-copy support.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn has_zero_copy(&self) -> Result<bool, EngineError> {
        Ok(self.stack.xdp_features(self.ifindex)?.is_some_and(|features| features.xsk_zero_copy))
    }

    /// Waits for the carrier, up to a timeout. Without carrier the caller reports that.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn wait_for_carrier(&self) -> Result<(), EngineError> {
        self.stack.wait_for_link(CARRIER_TIMEOUT, || {
            let link = self.stack.find_link(self.ifindex)?;
            let is_waiting = link.is_some_and(|link| link.is_up() && !link.has_carrier());
            Ok((!is_waiting).then_some(()))
        })?;
        Ok(())
    }

    /// Why frames redirected to the device would not be sent: a driver without XDP transmit, or a
    /// veth whose peer does not accept them. `None` if nothing prevents it.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn xdp_trouble(&self) -> Result<Option<EngineError>, EngineError> {
        let link = self.stack.link(self.ifindex)?;
        // If it is unknown, the first burst shows it, and the worker then tries the next engine.
        if self.accepts_xdp(&link)? != Some(false) {
            return Ok(None);
        }
        let ifname = self.name();
        if link.is_kind("veth") {
            let peer = self.stack.peer(&link)?;
            let peer = peer.map_or_else(|| "the device there".to_owned(), |peer| peer.name);
            let netns = self.stack.peer_netns(&link)?;
            let peer_place = netns.as_ref().map(CommandPlace::of_netns).unwrap_or_default();
            return Ok(Some(match self.stack.peer_polls(&link)? {
                Some(true) => EngineError::PeerGroUnnoticed { ifname, peer, peer_place },
                _ => EngineError::PeerTakesNoXdp { ifname, peer, peer_place },
            }));
        }
        let driver = self.driver(&link);
        Ok(Some(EngineError::NoXdpTransmit { ifname, driver }))
    }

    /// Why frames of `frame_len` bytes are too long for the device, or for the peer of a veth,
    /// which drops frames beyond its own MTU; `None` if they fit.
    ///
    /// # Errors
    /// When a query fails, or the device is gone.
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

    /// Its kind, or the name of the hardware driver.
    fn driver(&self, link: &Link) -> String {
        let unnamed = if link.is_loopback() { "loopback" } else { "hardware" };
        let named = || Some(self.stack.driver(link).ok()??.name);
        link.kind.clone().or_else(named).unwrap_or_else(|| unnamed.to_owned())
    }

    /// The queueing discipline of the device, if it has one.
    ///
    /// # Errors
    /// When a query fails, or the device is gone.
    pub(crate) fn qdisc(&self) -> Result<Option<String>, EngineError> {
        Ok(self.stack.link(self.ifindex)?.qdisc.filter(|name| name != NO_QUEUE))
    }
}
