//! Every command that pktgen's documentation shows or lists: the paper of 2005 and the kernel's
//! `pktgen.rst`.

use crate::sim::{Link, Sim};
use command::{COMMANDS, FLAGS};

/// Commands of thread files, in an order in which each is accepted.
const THREAD: &[&str] = &[
    "rem_device_all",
    "add_device eth1",
    "add_device eth2",
    "add_device eth3",
    "add_device eth4",
    "add_device eth5",
    "add_device eth6",
    "add_device eth7",
    "add_device eth8",
    "add_device eth9",
    "add_device eth10",
    "add_device eth11",
    "max_before_softirq 10000",
];

/// Commands of device files, each with values that the documents use.
const DEVICE: &[&str] = &[
    "count 0",
    "count 200000",
    "count 10000000",
    "clone_skb 0",
    "clone_skb 1",
    "clone_skb 500000",
    "clone_skb 1000000",
    "clone_skb 0",
    "burst 8",
    "delay 0",
    "delay 5000",
    "rate 300M",
    "ratep 1000000",
    "pkt_size 60",
    "pkt_size 9014",
    "min_pkt_size 60",
    "max_pkt_size 60",
    "frags 5",
    "dst 10.0.0.1",
    "dst 10.10.11.2",
    "dst_min 10.0.0.0",
    "dst_min 10.0.0.1",
    "dst_max 10.0.0.254",
    "dst_max 10.255.255.255",
    "src_min 10.0.0.1",
    "src_max 10.0.0.254",
    "dst6 fec0::1",
    "src6 fec0::2",
    "dst6_min fec0::1",
    "dst6_max fec0::FFFF:FFFF",
    "dst_mac 00:04:23:08:91:dc",
    "dstmac 00:00:00:00:00:00",
    "srcmac 00:00:00:00:00:00",
    "src_mac_count 1",
    "dst_mac_count 1",
    "udp_src_min 9",
    "udp_src_max 9",
    "udp_dst_min 9",
    "udp_dst_max 9",
    "queue_map_min 0",
    "queue_map_max 7",
    "mpls 0001000a,0002000a,0000000a",
    "mpls 0",
    "vlan_id 77",
    "vlan_p 3",
    "vlan_cfi 0",
    "svlan_id 22",
    "svlan_p 3",
    "svlan_cfi 0",
    "svlan 9999",
    "vlan_id 9999",
    "tos 28",
    "traffic_class B8",
    "flag IPDST_RND",
    "flag IPSEC",
    "flows 1",
    "flows 8192",
    "flowlen 4",
    "spi 1",
    "xmit_mode netif_receive",
];

/// The words that `pktgen.rst` lists as commands.
const WORDS: &[&str] = &[
    "start",
    "stop",
    "reset",
    "add_device",
    "rem_device_all",
    "count",
    "clone_skb",
    "burst",
    "debug",
    "frags",
    "delay",
    "src_mac_count",
    "dst_mac_count",
    "pkt_size",
    "min_pkt_size",
    "max_pkt_size",
    "queue_map_min",
    "queue_map_max",
    "skb_priority",
    "tos",
    "traffic_class",
    "mpls",
    "udp_src_min",
    "udp_src_max",
    "udp_dst_min",
    "udp_dst_max",
    "node",
    "flag",
    "spi",
    "dst_min",
    "dst_max",
    "src_min",
    "src_max",
    "dst_mac",
    "src_mac",
    "clear_counters",
    "src6",
    "dst6",
    "dst6_max",
    "dst6_min",
    "flows",
    "flowlen",
    "rate",
    "ratep",
    "xmit_mode",
    "vlan_cfi",
    "vlan_id",
    "vlan_p",
    "svlan_cfi",
    "svlan_id",
    "svlan_p",
];

/// The flags that it lists, and the spelling of one of them in the paper.
const FLAG_WORDS: &[&str] = &[
    "IPSRC_RND",
    "IPDST_RND",
    "UDPSRC_RND",
    "UDPDST_RND",
    "UDPDEST_RND",
    "MACSRC_RND",
    "MACDST_RND",
    "TXSIZE_RND",
    "IPV6",
    "MPLS_RND",
    "VID_RND",
    "SVID_RND",
    "FLOW_SEQ",
    "QUEUE_MAP_RND",
    "QUEUE_MAP_CPU",
    "UDPCSUM",
    "IPSEC",
    "NODE_ALLOC",
    "NO_TIMESTAMP",
];

#[test]
fn every_documented_command_is_accepted() {
    let links =
        (0..12).map(|number| Link::new(&format!("eth{number}"), number, [10, 0, 0, number])).collect();
    let mut sim = Sim::new(1, links);
    let on_thread = THREAD.iter().map(|command| ("kpktgend_0", command));
    let on_device = DEVICE.iter().map(|command| ("eth1", command));
    for (file, command) in on_thread.chain(on_device) {
        assert_eq!(sim.write(file, command.as_bytes()), Ok(command.len()), "{command}");
        let content = sim.read(file).expect("a file");
        let result = content.lines().find(|line| line.starts_with("Result: ")).expect("a result");
        assert!(result.starts_with("Result: OK: "), "{command}: {result}");
    }
}

#[test]
fn every_documented_word_is_in_the_tables() {
    for word in WORDS {
        assert!(COMMANDS.iter().any(|spec| spec.is_called(word.as_bytes())), "{word}");
    }
    for word in FLAG_WORDS {
        assert!(FLAGS.iter().any(|spec| spec.name == *word || spec.aliases.contains(word)), "{word}");
    }
}
