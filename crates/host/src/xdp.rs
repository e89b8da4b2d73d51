//! XDP features of a driver (the `netdev` family, Linux 6.3).

use crate::ethtool::FEATURE_GRO;
use crate::genl::Attribute;
use crate::link::Link;
use crate::stack::{LinkId, Stack};
use crate::{HostError, Netns};

const FAMILY: &str = "netdev";
const DEV_GET: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
const ZERO_COPY_SEGMENTS_MAX: u16 = 4;
const RX_METADATA: u16 = 5;
const XSK_FEATURES: u16 = 6;

/// XDP features of a device, as of now: a veth gains `redirect_target` when its peer has GRO or a
/// program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Runs programs in the driver: `XDP_PASS`, `XDP_DROP`, `XDP_TX`, `XDP_ABORTED`.
    pub basic: bool,
    /// Programs may return `XDP_REDIRECT`.
    pub redirect: bool,
    /// Accepts redirected frames and live frames (`ndo_xdp_xmit`).
    pub redirect_target: bool,
    /// AF_XDP zero-copy.
    pub xsk_zero_copy: bool,
    /// Offloads programs to the card.
    pub hw_offload: bool,
    /// Programs support multi-buffer frames.
    pub rx_multi_buffer: bool,
    /// Redirected frames may be multi-buffer.
    pub redirect_multi_buffer: bool,
    /// Maximum buffers of an AF_XDP zero-copy frame.
    pub zero_copy_segments_max: u32,
    /// Supports `bpf_xdp_metadata_rx_timestamp`.
    pub rx_timestamp: bool,
    /// Supports `bpf_xdp_metadata_rx_hash`.
    pub rx_hash: bool,
    /// Supports `bpf_xdp_metadata_rx_vlan_tag`.
    pub rx_vlan_tag: bool,
    /// AF_XDP transmit timestamps.
    pub xsk_tx_timestamp: bool,
    /// AF_XDP checksum offload.
    pub xsk_tx_checksum: bool,
}

impl XdpFeatures {
    fn from_bits(xdp: u64, rx_metadata: u64, xsk: u64, zero_copy_segments_max: u32) -> Self {
        let has = |bits: u64, number: u32| bits >> number & 1 == 1;
        Self {
            basic: has(xdp, 0),
            redirect: has(xdp, 1),
            redirect_target: has(xdp, 2),
            xsk_zero_copy: has(xdp, 3),
            hw_offload: has(xdp, 4),
            rx_multi_buffer: has(xdp, 5),
            redirect_multi_buffer: has(xdp, 6),
            zero_copy_segments_max,
            rx_timestamp: has(rx_metadata, 0),
            rx_hash: has(rx_metadata, 1),
            rx_vlan_tag: has(rx_metadata, 2),
            xsk_tx_timestamp: has(xsk, 0),
            xsk_tx_checksum: has(xsk, 1),
        }
    }
}

impl Stack {
    /// XDP features of a device; `None` for kernels before 6.3.
    pub fn xdp_features<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<XdpFeatures>, HostError> {
        let id = id.into();
        let index = Attribute::u32(IFINDEX, self.index_of(id)?);
        let object = || self.object(id);
        let answer = match self.generic().ask(FAMILY, DEV_GET, &[index], "read the XDP features of", object) {
            Err(HostError::Missing { .. }) => return Ok(None),
            other => other.map_err(|error| self.clarify(error, id))?,
        };
        Ok(answer.first().map(|row| {
            let attributes = row.attributes();
            XdpFeatures::from_bits(
                attributes.u64(XDP_FEATURES).unwrap_or(0),
                attributes.u64(RX_METADATA).unwrap_or(0),
                attributes.u64(XSK_FEATURES).unwrap_or(0),
                attributes.u32(ZERO_COPY_SEGMENTS_MAX).unwrap_or(0),
            )
        }))
    }
}

impl Stack {
    /// Whether a veth accepts redirected frames, for kernels that do not report it: if its peer has
    /// GRO or a program. `None` for other devices, and if the peer is in a namespace without a
    /// name, or in one that this process may not enter.
    pub fn peer_polls(&self, link: &Link) -> Result<Option<bool>, HostError> {
        let Some(far) = link.peer.filter(|_| link.is_kind("veth")) else { return Ok(None) };
        let Some(peer) = self.peer(link)? else { return Ok(None) };
        if peer.xdp.is_some() {
            return Ok(Some(true));
        }
        let Some(netns) = self.peer_netns(link)? else { return Ok(None) };
        let stack = match netns == *self.netns() {
            true => None,
            false => match Self::of(&netns) {
                // Without CAP_SYS_ADMIN the namespace cannot be entered, and GRO is not known.
                Err(error) if error.errno() == Some(libc::EPERM) => return Ok(None),
                other => Some(other?),
            },
        };
        Ok(Some(stack.as_ref().unwrap_or(self).features(far.index)?.is_on(FEATURE_GRO)))
    }

    /// The namespace of the peer of `link` (veth); `None` for a namespace without a name and for
    /// other devices.
    pub fn peer_netns(&self, link: &Link) -> Result<Option<Netns>, HostError> {
        match link.peer.map(|peer| peer.netns_number) {
            None => Ok(None),
            Some(None) => Ok(Some(self.netns().clone())),
            Some(Some(number)) => self.named_by(number),
        }
    }

    /// The namespace with this number, if it has a name of `ip netns`.
    fn named_by(&self, number: i32) -> Result<Option<Netns>, HostError> {
        for name in Netns::names()? {
            // One that disappears meanwhile does not match.
            let Ok(netns) = Netns::named(&name) else { continue };
            if self.number_of(&netns)? == Some(number) {
                return Ok(Some(netns));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_veth_whose_peer_polls() {
        // ynl on 6.18: basic, redirect, ndo-xmit, rx-sg, ndo-xmit-sg.
        let features = XdpFeatures::from_bits(0x67, 7, 0, 1);
        assert!(features.basic && features.redirect && features.redirect_target && features.rx_timestamp);
        assert!(!features.xsk_zero_copy && !features.hw_offload && !features.xsk_tx_checksum);
    }
}
