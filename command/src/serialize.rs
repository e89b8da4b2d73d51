//! A configuration as commands.
//!
//! Written to a new device instance in this order they give an equal configuration. The order
//! matters: some commands undo others (a VLAN clears MPLS) or need another setting for a moment.

use crate::address::ipv6_text;
use crate::set::size_to_write;
use crate::{COMMANDS, FLAGS};
use packet::{Config, Flags, MPLS_RANDOM, XmitMode};
use std::net::Ipv6Addr;

/// A number that is 0 when it is cut to 32 bits.
const CUT: u64 = 1 << 32;

/// The commands that turn a new device instance into one with this configuration; none for a new
/// one.
///
/// A delay that no command can set (from `rate` with a size of gigabytes) becomes the longest one
/// there is.
pub fn to_commands(config: &Config) -> Vec<String> {
    let usual = scalar_commands(&Config::default());
    let mut commands: Vec<String> =
        scalar_commands(config).into_iter().filter(|command| !usual.contains(command)).collect();
    commands.extend(transmit(config));
    commands.extend(ipv6(config));
    commands.extend(tags(config));
    commands.extend(flags(config));
    commands
}

/// The commands of the settings that depend on no other.
fn scalar_commands(config: &Config) -> Vec<String> {
    let command = |spec: &crate::Spec| Some(format!("{} {}", spec.word, (spec.value)(config)?));
    COMMANDS.iter().filter_map(command).collect()
}

/// `netif_receive` always accepts a burst, and never clones.
fn transmit(config: &Config) -> Vec<String> {
    let mut commands = Vec::new();
    if config.burst != 1 {
        let typed = if config.burst == 0 { CUT } else { u64::from(config.burst) };
        commands.extend(["xmit_mode netif_receive".to_owned(), format!("burst {typed}")]);
        commands.push("xmit_mode start_xmit".to_owned());
    }
    if config.clone_skb != 0 {
        commands.push(format!("clone_skb {}", config.clone_skb as u32));
    }
    match config.xmit_mode {
        XmitMode::StartXmit => {}
        XmitMode::QueueXmit => commands.push("xmit_mode queue_xmit".to_owned()),
        XmitMode::NetifReceive => commands.push("xmit_mode netif_receive".to_owned()),
    }
    if !config.imix.is_empty() {
        let entry = |entry: &packet::ImixEntry| format!("{},{}", size_to_write(entry.size), entry.weight);
        let entries: Vec<String> = config.imix.iter().map(entry).collect();
        commands.push(format!("imix_weights {}", entries.join(" ")));
    }
    commands
}

/// Each of these turns IPv6 on. Without an address one of them is still needed.
fn ipv6(config: &Config) -> Vec<String> {
    let addresses = [
        ("dst6_min", config.dst6_min),
        ("dst6_max", config.dst6_max),
        ("src6", config.src6),
        ("dst6", config.dst6),
    ];
    let mut commands: Vec<String> = addresses
        .iter()
        .filter(|(_, address)| *address != Ipv6Addr::UNSPECIFIED)
        .map(|(word, address)| format!("{word} {}", ipv6_text(*address)))
        .collect();
    if commands.is_empty() && config.flags.has(Flags::IPV6) {
        commands.push("dst6 ::".to_owned());
    }
    commands
}

/// Bits of a tag can only be set while the tag is on.
fn tags(config: &Config) -> Vec<String> {
    let mut commands = Vec::new();
    let inner = [("vlan_p", config.vlan_p), ("vlan_cfi", config.vlan_cfi)];
    let outer = [("svlan_p", config.svlan_p), ("svlan_cfi", config.svlan_cfi)];
    let has_outer = config.svlan_id.is_some() || outer.iter().any(|(_, value)| *value != 0);
    if has_outer || config.vlan_id.is_some() || inner.iter().any(|(_, value)| *value != 0) {
        commands.push(format!("vlan_id {}", config.vlan_id.unwrap_or(0)));
        commands.extend(has_outer.then(|| format!("svlan_id {}", config.svlan_id.unwrap_or(0))));
        let bits = inner.iter().chain(&outer).filter(|(_, value)| *value != 0);
        commands.extend(bits.map(|(word, value)| format!("{word} {value}")));
        // Tags that were on for their bits only are turned off, which removes both; the inner one
        // returns.
        if config.vlan_id.is_none() || (has_outer && config.svlan_id.is_none()) {
            commands.push("vlan_id 9999".to_owned());
            commands.extend(config.vlan_id.map(|id| format!("vlan_id {id}")));
        }
    }
    if !config.mpls.is_empty() {
        let labels: Vec<String> = config.mpls.iter().map(|label| format!("{label:08x}")).collect();
        commands.push(format!("mpls {}", labels.join(",")));
    }
    commands
}

/// Last, since addresses and labels set some of them.
fn flags(config: &Config) -> Vec<String> {
    let mut flags = Config::default().flags;
    flags.set(Flags::IPV6, !ipv6(config).is_empty());
    flags.set(Flags::MPLS_RND, config.mpls.iter().any(|label| label & MPLS_RANDOM != 0));
    let differing = FLAGS.iter().filter(|spec| config.flags.has(spec.flag) != flags.has(spec.flag));
    differing
        .map(|spec| format!("flag {}{}", if config.flags.has(spec.flag) { "" } else { "!" }, spec.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_device_instance_needs_no_command() {
        assert_eq!(to_commands(&Config::default()), Vec::<String>::new());
    }

    #[test]
    fn only_what_differs_is_said() {
        let config =
            Config { count: 7, vlan_id: Some(5), dst_min: Some([10, 0, 0, 1].into()), ..Config::default() };
        assert_eq!(to_commands(&config), ["count 7", "dst_min 10.0.0.1", "vlan_id 5"]);
        let config = Config { vlan_id: Some(5), svlan_p: 3, ..Config::default() };
        let commands = ["vlan_id 5", "svlan_id 0", "svlan_p 3", "vlan_id 9999", "vlan_id 5"];
        assert_eq!(to_commands(&config), commands);
    }
}
