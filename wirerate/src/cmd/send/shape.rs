//! What shapes frames beside addresses and sizes: tags and labels, IPsec, memory, how often each goes out.

use super::args::{Args, Entry, Field};
use crate::outcome::Failure;
use packet::{Config, Flags, MPLS_LABELS_MAX};

/// In an MPLS label of pktgen's: this one is to be drawn at random.
const RANDOM_LABEL: u32 = 0x100;

/// VLAN tags or MPLS labels; the parser lets only one of the two through, as pktgen's commands do.
///
/// # Errors
/// Bad usage for more labels than pktgen has.
pub fn set_tags(config: &mut Config, args: &Args) -> Result<(), Failure> {
    (config.vlan_id, config.svlan_id) = (args.vlan, args.svlan);
    (config.vlan_p, config.vlan_cfi) = (args.vlan_p, args.vlan_cfi.into());
    (config.svlan_p, config.svlan_cfi) = (args.svlan_p, args.svlan_cfi.into());
    let Some(labels) = &args.mpls else { return Ok(()) };
    if labels.0.len() > MPLS_LABELS_MAX {
        return Err(Failure::usage("use --mpls", format!("it has more than {MPLS_LABELS_MAX} labels")));
    }
    let mark = if args.is_random(Field::Mpls) { RANDOM_LABEL } else { 0 };
    config.mpls = labels.0.iter().map(|label| label | mark).collect();
    if config.mpls.iter().any(|label| label & RANDOM_LABEL != 0) {
        config.flags.set(Flags::MPLS_RND, true);
    }
    Ok(())
}

/// pktgen looks an association up when a flow begins, and sends in clear without one. Where nobody asked for flows,
/// each frame is one.
///
/// # Errors
/// Bad usage over IPv6.
pub fn set_ipsec(config: &mut Config, args: &Args) -> Result<(), Failure> {
    if !args.ipsec {
        return Ok(());
    }
    if config.flags.has(Flags::IPV6) {
        return Err(Failure::usage("use --ipsec", "frames are sealed over IPv4 only, as in pktgen"));
    }
    config.flags.set(Flags::IPSEC, true);
    config.spi = args.spi.unwrap_or(0);
    if config.flows == 0 {
        (config.flows, config.flow_len) = (1, 1);
        config.flags.set(Flags::FLOW_SEQ, true);
    }
    Ok(())
}

/// How frames lie in memory, and how often each goes out.
///
/// # Errors
/// Bad usage for copies into a receive path.
pub fn set_memory(config: &mut Config, args: &Args) -> Result<(), Failure> {
    if args.clone.is_some() && args.xmit_mode == Entry::NetifReceive {
        let act = "use --clone with --xmit-mode netif_receive";
        return Err(Failure::usage(act, "the receive path keeps each frame, so none can go again"));
    }
    config.clone_skb = args.clone.unwrap_or(0);
    config.frags = args.frags.unwrap_or(0);
    if let Some(node) = args.node {
        config.node = node as i32;
        config.flags.set(Flags::NODE, true);
    }
    Ok(())
}
