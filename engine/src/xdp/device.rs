//! The device at the other end of the redirect: whether it takes frames from XDP, and why not.

use crate::EngineError;
use host::{Link, Stack};

/// One device in the namespace of its stack.
#[derive(Debug)]
pub(crate) struct Device {
    stack: Stack,
    ifindex: u32,
    ifname: String,
}

impl Device {
    /// The device called `ifname`.
    ///
    /// # Errors
    /// When there is none, or the kernel cannot be asked.
    pub(crate) fn new(stack: Stack, ifname: &str) -> Result<Self, EngineError> {
        let link = stack.link(ifname)?;
        Ok(Self { ifindex: link.index, ifname: link.name, stack })
    }

    /// Its number in its namespace.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Its name when it was opened.
    pub(crate) fn name(&self) -> String {
        self.ifname.clone()
    }

    /// Why frames redirected to the device would not be sent; `None` when nothing speaks against it. Into the
    /// receive path (`transmit` false) any device goes that is up.
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
        if !transmit {
            return Ok(None);
        }
        if !link.has_carrier() {
            return Ok(Some(EngineError::NoCarrier { ifname }));
        }
        self.transmit_trouble(&link)
    }

    /// A driver without XDP transmit, or a veth whose peer does not take part.
    fn transmit_trouble(&self, link: &Link) -> Result<Option<EngineError>, EngineError> {
        // Kernels before 6.3 do not tell; the first burst will.
        if self.stack.xdp_features(link.index)?.is_none_or(|features| features.redirect_target) {
            return Ok(None);
        }
        let ifname = self.name();
        if link.is_kind("veth") {
            let peer = self.stack.peer(link)?;
            let peer = peer.map_or_else(|| "the device there".to_owned(), |peer| peer.name);
            return Ok(Some(EngineError::PeerTakesNoXdp { ifname, peer }));
        }
        let driver = link.kind.clone().unwrap_or_else(|| "hardware".to_owned());
        Ok(Some(EngineError::NoXdpTransmit { ifname, driver }))
    }
}
