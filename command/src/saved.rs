//! A configuration as the commands that make it.
//!
//! Written to a new device instance in this order, they give an equal configuration: some commands undo what
//! others did (a VLAN clears MPLS), so the order matters.

use crate::FLAGS;
use crate::address::ipv6_text;
use packet::{Config, Flags, NEVER_NS, XmitMode};
use std::net::Ipv6Addr;

/// Sizes below this are raised when they are set; only a number cut to 32 bits gives a smaller one.
const SIZE_MIN: u64 = 42;
const CUT: u64 = 1 << 32;
/// Longest delay that can be typed.
const DELAY_MAX: u64 = 9_999_999_999;

/// The commands that turn a new device instance into one with this configuration.
///
/// A delay that no command can say (from `rate` with a size of gigabytes) becomes the longest one there is.
pub fn commands_for(config: &Config) -> Vec<String> {
    let mut words = vec![format!("count {}", config.count)];
    words.extend(sizes(config));
    words.extend(transmit(config));
    words.extend(addresses(config));
    words.extend(tags(config));
    words.extend(numbers(config));
    words.extend(flags(config));
    words
}

/// The same without what a new device instance has anyway.
pub fn differing_commands(config: &Config) -> Vec<String> {
    let usual = commands_for(&Config::default());
    commands_for(config).into_iter().filter(|command| !usual.contains(command)).collect()
}

/// The number to type for a size.
fn typed(size: u32) -> u64 {
    if u64::from(size) < SIZE_MIN { CUT + u64::from(size) } else { u64::from(size) }
}

fn sizes(config: &Config) -> Vec<String> {
    let mut words = Vec::new();
    if config.min_pkt_size != 0 {
        words.push(format!("min_pkt_size {}", typed(config.min_pkt_size)));
    }
    if config.max_pkt_size != 0 {
        words.push(format!("max_pkt_size {}", typed(config.max_pkt_size)));
    }
    words.push(format!("frags {}", config.frags as u32));
    let delay = match config.delay_ns {
        NEVER_NS => 0x7fff_ffff,
        0x7fff_ffff => 0x7fff_fffe,
        delay_ns => delay_ns.min(DELAY_MAX),
    };
    words.push(format!("delay {delay}"));
    words
}

/// `netif_receive` is where a burst is always taken, and where clones never are.
fn transmit(config: &Config) -> Vec<String> {
    let mode = match config.xmit_mode {
        XmitMode::StartXmit => "start_xmit",
        XmitMode::QueueXmit => "queue_xmit",
        XmitMode::NetifReceive => "netif_receive",
    };
    let mut words = Vec::new();
    if config.burst != 1 {
        let typed = if config.burst == 0 { CUT } else { u64::from(config.burst) };
        words.extend(["xmit_mode netif_receive".to_owned(), format!("burst {typed}")]);
        words.push("xmit_mode start_xmit".to_owned());
    }
    words.extend([format!("clone_skb {}", config.clone_skb as u32), format!("xmit_mode {mode}")]);
    if !config.imix.is_empty() {
        let entries: Vec<String> =
            config.imix.iter().map(|entry| format!("{},{}", typed(entry.size), entry.weight)).collect();
        words.push(format!("imix_weights {}", entries.join(" ")));
    }
    words
}

fn addresses(config: &Config) -> Vec<String> {
    let v4 = [
        ("dst_min", &config.dst_min),
        ("dst_max", &config.dst_max),
        ("src_min", &config.src_min),
        ("src_max", &config.src_max),
    ];
    let v6 = [
        ("dst6", config.dst6),
        ("dst6_min", config.dst6_min),
        ("dst6_max", config.dst6_max),
        ("src6", config.src6),
    ];
    let mut words: Vec<String> = v4.iter().map(|(word, text)| format!("{word} {text}")).collect();
    if config.flags.has(Flags::IPV6) || v6.iter().any(|(_, address)| *address != Ipv6Addr::UNSPECIFIED) {
        words.extend(v6.iter().map(|(word, address)| format!("{word} {}", ipv6_text(*address))));
    }
    words.push(format!("dst_mac {}", config.dst_mac));
    words.push(format!("src_mac {}", config.src_mac));
    words
}

/// Bits of a tag can only be set while the tag is on.
fn tags(config: &Config) -> Vec<String> {
    let mut words = Vec::new();
    let bits = [config.vlan_p, config.vlan_cfi, config.svlan_p, config.svlan_cfi];
    if config.vlan_id.is_some() || bits != [0; 4] {
        words.push(format!("vlan_id {}", config.vlan_id.unwrap_or(0)));
        words.push(format!("svlan_id {}", config.svlan_id.unwrap_or(0)));
        let names = ["vlan_p", "vlan_cfi", "svlan_p", "svlan_cfi"];
        words.extend(names.iter().zip(bits).map(|(name, value)| format!("{name} {value}")));
        if config.svlan_id.is_none() {
            words.push("svlan_id 9999".to_owned());
            words.extend(config.vlan_id.map(|id| format!("vlan_id {id}")));
        }
    }
    if !config.mpls.is_empty() {
        let labels: Vec<String> = config.mpls.iter().map(|label| format!("{label:08x}")).collect();
        words.push(format!("mpls {}", labels.join(",")));
    }
    words.push(format!("tos {:02x}", config.tos));
    words.push(format!("traffic_class {:02x}", config.traffic_class));
    words
}

fn numbers(config: &Config) -> Vec<String> {
    let always = [
        ("dst_mac_count", config.dst_mac_count),
        ("src_mac_count", config.src_mac_count),
        ("udp_src_min", config.udp_src_min.into()),
        ("udp_src_max", config.udp_src_max.into()),
        ("udp_dst_min", config.udp_dst_min.into()),
        ("udp_dst_max", config.udp_dst_max.into()),
        ("flows", config.flows),
        ("flowlen", config.flow_len),
        ("queue_map_min", config.queue_map_min.into()),
        ("queue_map_max", config.queue_map_max.into()),
        ("skb_priority", config.skb_priority),
    ];
    let mut words: Vec<String> = always.iter().map(|(word, value)| format!("{word} {value}")).collect();
    words.extend(u32::try_from(config.node).ok().map(|node| format!("node {node}")));
    words.extend((config.spi != 0).then(|| format!("spi {}", config.spi)));
    words.extend(config.seed.map(|seed| format!("seed {seed}")));
    words
}

/// Last, since other commands set some of them.
fn flags(config: &Config) -> Vec<String> {
    let word = |spec: &crate::FlagSpec| match (config.flags.has(spec.flag), spec.flag) {
        (true, Flags::IPV6) => None,
        (true, _) => Some(format!("flag {}", spec.name)),
        (false, Flags::IPSEC) => None,
        (false, _) => Some(format!("flag !{}", spec.name)),
    };
    FLAGS.iter().filter_map(word).collect()
}
