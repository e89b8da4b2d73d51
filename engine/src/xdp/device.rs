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
        match self.state_trouble()? {
            Some(EngineError::NoCarrier { .. }) if !transmit => Ok(None),
            None if transmit => self.transmit_trouble(&self.stack.link(self.ifindex)?),
            other => Ok(other),
        }
    }

    /// Why no frame at all would be sent: gone, down, or without the other end.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn state_trouble(&self) -> Result<Option<EngineError>, EngineError> {
        let ifname = self.name();
        Ok(match self.stack.find_link(self.ifindex)? {
            None => Some(EngineError::Gone { ifname }),
            Some(link) if !link.is_up() => Some(EngineError::Down { ifname }),
            Some(link) if !link.has_carrier() => Some(EngineError::NoCarrier { ifname }),
            Some(_) => None,
        })
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
