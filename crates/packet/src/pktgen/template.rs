//! The headers of pktgen's frames, and where they are.

use super::Config;
use crate::wire::UDP_LEN;

/// Most labels in an MPLS stack.
pub const MPLS_LABELS_MAX: usize = 16;
/// The bottom-of-stack bit in a setting: this label is random.
pub const MPLS_RANDOM: u32 = MPLS_BOTTOM;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
pub(super) const PROTOCOL_UDP: u8 = 17;
/// Bottom-of-stack bit of an MPLS label stack entry.
pub(super) const MPLS_BOTTOM: u32 = 0x100;

/// Offsets in the header template, in bytes from the Ethernet destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Outer VLAN TCI; 0 when there is none.
    pub svlan: usize,
    /// VLAN TCI; 0 when there is none.
    pub vlan: usize,
    /// First MPLS entry; 0 when there is none.
    pub mpls: usize,
    /// IPv4 or IPv6 header.
    pub ip: usize,
    /// UDP header.
    pub udp: usize,
    /// Signature, which begins with the pktgen header.
    pub pktgen_header: usize,
    /// End of the headers, start of the zeros.
    pub end: usize,
}

/// All headers, with variable fields zero, and their offsets.
pub(super) fn template(config: &Config, is_ipv6: bool) -> (Vec<u8>, Layout) {
    let mut layout = Layout::default();
    let mut bytes = vec![0; 12];
    let inner = if is_ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    if !config.mpls.is_empty() {
        bytes.extend(ETHERTYPE_MPLS.to_be_bytes());
        layout.mpls = bytes.len();
        bytes.extend(label_stack(&config.mpls));
    } else {
        let tags = [
            (&mut layout.svlan, config.svlan_id, config.svlan_type),
            (&mut layout.vlan, config.vlan_id, config.vlan_type),
        ];
        for (place, id, ethertype) in tags {
            if let Some(id) = id {
                bytes.extend(ethertype.to_be_bytes());
                *place = bytes.len();
                bytes.extend(id.to_be_bytes());
            }
        }
        bytes.extend(inner.to_be_bytes());
    }
    add_tag_priorities(config, &layout, &mut bytes);
    layout.ip = bytes.len();
    if is_ipv6 {
        bytes.extend((0x6000_0000 | u32::from(config.traffic_class) << 20).to_be_bytes());
        bytes.extend([0, 0, PROTOCOL_UDP, config.ttl]);
        bytes.extend([0; 32]);
    } else {
        bytes.extend([0x45, config.tos, 0, 0, 0, 0, 0, 0, config.ttl, PROTOCOL_UDP, 0, 0]);
        bytes.extend([0; 8]);
    }
    layout.udp = bytes.len();
    bytes.extend([0; UDP_LEN]);
    layout.pktgen_header = bytes.len();
    bytes.extend(config.signature.template());
    layout.end = bytes.len();
    (bytes, layout)
}

fn add_tag_priorities(config: &Config, layout: &Layout, bytes: &mut [u8]) {
    let tags = [
        (layout.svlan, tci(config.svlan_p, config.svlan_cfi)),
        (layout.vlan, tci(config.vlan_p, config.vlan_cfi)),
    ];
    for (place, priority) in tags {
        if place != 0 {
            bytes[place] |= priority.to_be_bytes()[0];
        }
    }
}

/// Labels as sent: the bottom-of-stack bit on the last and on no other.
fn label_stack(labels: &[u32]) -> Vec<u8> {
    let last = labels.len() - 1;
    let entry = |(index, label): (usize, &u32)| {
        let bottom = if index == last { MPLS_BOTTOM } else { 0 };
        (label & !MPLS_BOTTOM | bottom).to_be_bytes()
    };
    labels.iter().enumerate().flat_map(entry).collect()
}

fn tci(priority: u8, drop_eligible: u8) -> u16 {
    u16::from(priority & 7) << 13 | u16::from(drop_eligible & 1) << 12
}
