//! Options of `send`: config.

use super::job_of;
use packet::{Config, Flags, MacAddr, SignatureLevel};
use program::outcome::Failure;
use sender::config::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What `wirerate send veth0 WORDS` asks for.
fn ask(words: &str) -> Result<Config, Failure> {
    config(&job_of(format!("veth0 {words}")))
}

fn v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}

fn refusal(words: &str) -> String {
    ask(words).expect_err(words).to_string()
}

#[test]
fn a_line_without_options_sends_a_thousand_frames_of_60_bytes() {
    let config = ask("--dst 10.0.0.2").unwrap();
    assert_eq!((config.count, config.min_pkt_size, config.max_pkt_size), (1000, 60, 60));
    assert_eq!((config.dst_min, config.dst_max), (v4("10.0.0.2"), None));
    assert_eq!(config.flags, Flags::SHARED);
    assert_eq!(ask("--dst fd00::2").unwrap().min_pkt_size, 78);
    assert_eq!(ask("--dst 10.0.0.2 --duration 1s").unwrap().count, 0);
    assert_eq!(ask("--dst-mac 02:00:00:00:00:01").unwrap().dst_min, v4("198.18.0.1"));
}

#[test]
fn both_ends_of_a_range_are_sent_counted_or_drawn() {
    let counted = ask("--dst 10.0.0.1-10.0.0.4 --udp-dst 1000-1999 --size 60-64").unwrap();
    assert_eq!((counted.dst_min, counted.dst_max), (v4("10.0.0.1"), v4("10.0.0.4")));
    assert_eq!((counted.udp_dst_min, counted.udp_dst_max), (1000, 1999));
    assert_eq!((counted.min_pkt_size, counted.max_pkt_size), (60, 64));
    let drawn = ask("--dst 10.0.0.1-10.0.0.4 --src 10.1.0.0/16 --size 60-64 --random dst,src,size").unwrap();
    assert_eq!((drawn.dst_max, drawn.src_max), (v4("10.0.0.4"), v4("10.1.255.255")));
    assert_eq!((drawn.min_pkt_size, drawn.max_pkt_size), (60, 64));
    assert!(counted.are_ends_included && drawn.are_ends_included);
    assert!(drawn.flags.has(Flags(Flags::IPDST_RND.0 | Flags::IPSRC_RND.0 | Flags::TXSIZE_RND.0)));
}

#[test]
fn ranges_may_end_at_the_last_value_there_is() {
    assert_eq!(ask("--dst 10.0.0.1 --udp-src 60000-65535").unwrap().udp_src_max, 65_535);
    let last = v4("255.255.255.255");
    assert_eq!(ask("--dst 240.0.0.0/4 --random dst").unwrap().dst_max, last);
    assert_eq!(ask("--dst 240.0.0.0/4").unwrap().dst_max, last);
    assert_eq!(ask("--dst 10.0.0.1 --size 60-65535 --random size").unwrap().max_pkt_size, 65_535);
}

#[test]
fn ipv6_ranges_differ_in_the_last_eight_bytes_or_are_drawn_from_a_block() {
    let v6 = |text: &str| text.parse::<Ipv6Addr>().ok();
    let config = ask("--dst fd00::1-fd00::4 --src fd00:1::/120").unwrap();
    assert_eq!((config.dst6_last, config.src6_last), (v6("fd00::4"), v6("fd00:1::ff")));
    assert!(config.flags.has(Flags::IPV6) && config.dst6_min.is_unspecified());
    let block = ask("--dst fd00::/48 --random dst").unwrap();
    assert_eq!((Some(block.dst6_min), block.dst6_last), (v6("fd00::"), None));
    assert!(refusal("--dst fd00::/48").contains("try: --dst fd00::/64"));
    assert!(refusal("--dst fd00::1 --src fd00::/48").contains("try: --src fd00::/64"));
}

#[test]
fn random_needs_a_range() {
    for (words, hint) in [
        ("--random dst", "--dst 198.18.0.0/15"),
        ("--random src", "--src 198.18.0.0/15"),
        ("--random udp-dst", "--udp-dst 1000-1999"),
        ("--random udp-src", "--udp-src 1000-1999"),
        ("--random size", "--size 60-1514"),
        ("--random src-mac", "--src-mac 02:"),
        ("--random vlan", "--vlan ID"),
        ("--vlan 5 --random svlan", "--svlan ID"),
        ("--queues 3 --random queue", "--queues 0-3"),
        ("--queues cpu --random queue", "--queues 0-3"),
        ("--random mpls", "--mpls LABEL"),
        ("--random flow", "--flows 100"),
    ] {
        let said = refusal(&format!("--dst-mac 02:00:00:00:00:01 {words}"));
        assert!(said.contains(hint), "{words}: {said}");
    }
}

#[test]
fn a_duration_of_zero_is_refused_and_does_not_send_for_ever() {
    let text = refusal("--dst 10.0.0.1 --duration 0s");
    assert!(text.contains("cannot send for 0 s") && text.contains("--count 0"), "{text}");
    assert_eq!(ask("--dst 10.0.0.1 --duration 1ns").unwrap().count, 0);
}

#[test]
fn frames_shorter_than_their_headers_are_refused() {
    assert!(refusal("--dst 10.0.0.1 --size 42").contains("58 bytes"));
    assert!(refusal("--dst fd00::1 --size 60").contains("78 bytes"));
    assert!(refusal("--dst 10.0.0.1 --vlan 5 --svlan 6 --size 65").contains("66 bytes"));
    assert!(refusal("--dst 10.0.0.1 --mpls 16,17,18 --size 69").contains("70 bytes"));
    assert!(refusal("--dst 10.0.0.1 --imix 60:1,42:1").contains("--imix 42"));
    assert!(refusal("--dst 10.0.0.1 --size 65536").contains("at most 65535"));
    assert_eq!(ask("--dst 10.0.0.1 --size 65535").unwrap().max_pkt_size, 65_535);
    assert_eq!(ask("--dst 10.0.0.1 --vlan 5 --svlan 6").unwrap().min_pkt_size, 66);
}

#[test]
fn macs_are_a_first_and_a_count() {
    let config = ask("--dst-mac 02:00:00:00:00:01-02:00:00:00:01:00 --dst 10.0.0.1").unwrap();
    assert_eq!((config.dst_mac, config.dst_mac_count), (MacAddr([2, 0, 0, 0, 0, 1]), 256));
    assert_eq!(ask("--dst-mac 02:00:00:00:00:01").unwrap().dst_mac_count, 0);
    assert!(refusal("--dst-mac 02:00:00:00:00:01-04:00:00:00:00:01").contains("same first byte"));
    assert!(refusal("--dst-mac 00:00:00:00:00:00").contains("not an address"));
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    assert!(refusal("").contains("there is no destination"));
    assert!(refusal("--dst 10.0.0.1 --src fd00::1").contains("different IP versions"));
    assert!(refusal("--src fd00::1 --dst-mac 02:00:00:00:00:01").contains("no destination"));
}

#[test]
fn flows_in_a_row_are_ranges_or_the_table_of_pktgen() {
    let config = ask("--dst fd00::1 --flows 5 --flow-len 2").unwrap();
    assert_eq!((config.flows, config.hold, config.signature.flow_len), (0, 2, 2));
    assert_eq!(config.signature.flow_count, 5);
    let config = ask("--dst 10.0.0.0/24 --flows 5 --flow-len 2").unwrap();
    assert_eq!((config.flows, config.flow_len, config.hold, config.signature.flow_len), (5, 2, 1, 1));
    assert!(refusal("--dst 10.0.0.0/8 --random dst --flows 65537 --flow-len 2").contains("65536 flows"));
}

#[test]
fn tags_are_those_of_pktgen() {
    let config = ask("--dst 10.0.0.1 --vlan 5 --vlan-prio 7 --svlan 6 --svlan-prio 3 --svlan-dei").unwrap();
    assert_eq!((config.vlan_p, config.vlan_cfi, config.svlan_p, config.svlan_cfi), (7, 0, 3, 1));
    let config = ask("--dst 10.0.0.1 --mpls 16,0x0002000a").unwrap();
    assert_eq!((config.mpls.as_slice(), config.min_pkt_size), (&[0x0001_0040, 0x0002_000a][..], 66));
    assert!(!config.flags.has(Flags::MPLS_RND));
    let drawn = ask("--dst 10.0.0.1 --mpls 16,17 --random mpls").unwrap();
    assert_eq!(drawn.mpls, [0x0001_0140, 0x0001_1140]);
    assert!(drawn.flags.has(Flags::MPLS_RND));
    assert!(ask("--dst 10.0.0.1 --mpls 1,0x100").unwrap().flags.has(Flags::MPLS_RND));
    assert!(refusal(&format!("--dst 10.0.0.1 --mpls 1{}", ",2".repeat(16))).contains("more than 16"));
}

#[test]
fn the_option_names_of_pktgen_still_work() {
    let old = "--vlan 5 --vlan-p 7 --vlan-cfi --svlan 6 --svlan-p 3 --svlan-cfi --csum --clone 7";
    let new =
        "--vlan 5 --vlan-prio 7 --vlan-dei --svlan 6 --svlan-prio 3 --svlan-dei --udp-checksum --clone-skb 7";
    let ask = |words: &str| ask(&format!("--dst 10.0.0.1 {words}")).unwrap();
    assert_eq!(ask(old), ask(new));
}

#[test]
fn frames_with_ipsec_are_flows_over_ipv4() {
    let config = ask("--dst 10.0.0.1 --ipsec --spi 0x100").unwrap();
    assert_eq!((config.flows, config.flow_len, config.spi), (1, 1, 256));
    assert!(config.asks_for_ipsec() && config.flags.has(Flags::FLOW_SEQ));
    let config = ask("--dst 10.0.0.1-10.0.0.8 --ipsec --flows 8 --flow-len 10 --random flow").unwrap();
    assert_eq!((config.flows, config.flow_len, config.spi), (8, 10, 0));
    assert!(!config.flags.has(Flags::FLOW_SEQ));
    assert!(refusal("--dst fd00::1 --ipsec").contains("IPv4 only"));
}

#[test]
fn every_other_word_of_pktgen_has_its_option() {
    let config = ask("--dst 10.0.0.1 --clone 7 --frags 3 --node 0 --skb-priority 6 --queues cpu").unwrap();
    assert_eq!((config.clone_skb, config.frags, config.node, config.skb_priority), (7, 3, 0, 6));
    assert!(config.flags.has(Flags(Flags::NODE.0 | Flags::QUEUE_MAP_CPU.0)));
    assert!(refusal("--dst 10.0.0.1 --clone 7 --xmit-mode netif_receive").contains("keeps each frame"));
}

#[test]
fn the_signature_is_pktgens_unless_asked_for_or_measured() {
    let level = |words: &str| ask(words).unwrap().signature.level;
    assert_eq!(level("--dst 10.0.0.1 --size 74"), SignatureLevel::Pktgen);
    assert_eq!(level("--dst 10.0.0.1 --signature short"), SignatureLevel::Short);
    assert_eq!(ask("--dst 10.0.0.1 --signature full").unwrap().min_pkt_size, 74);
    assert_eq!(ask("--dst 10.0.0.1 --signature none --size 42").unwrap().min_pkt_size, 42);
    assert!(refusal("--dst 10.0.0.1 --signature full --size 60").contains("74 bytes"));
    assert!(refusal("--dst 10.0.0.1 --signature short --run 5").contains("try: --signature full"));
    assert_eq!(ask("--dst 10.0.0.1 --run 5").unwrap().signature.run, 5);
    let measured = |words: &str| {
        let mut config = ask(words).unwrap();
        sign(&mut config, SignatureLevel::Full);
        config.signature.level
    };
    assert_eq!(measured("--dst 10.0.0.1"), SignatureLevel::Short);
    assert_eq!(measured("--dst 10.0.0.1 --size 58"), SignatureLevel::Pktgen);
    assert_eq!(measured("--dst 10.0.0.1 --size 74-90"), SignatureLevel::Full);
    assert_eq!(measured("--dst 10.0.0.1 --vlan 5 --imix 77:1,1514:1"), SignatureLevel::Short);
    assert_eq!(measured("--dst fd00::1 --size 94"), SignatureLevel::Full);
}

#[test]
fn flows_are_counted_until_the_first_one_returns() {
    let flows =
        |words: &str| ask(&format!("--dst-mac 02:00:00:00:00:01 {words}")).unwrap().signature.flow_count;
    assert_eq!(flows(""), 1);
    assert_eq!(flows("--dst 10.0.0.0/24"), 256);
    assert_eq!(flows("--dst 10.0.0.1-10.0.0.6 --udp-dst 1000-1003"), 12);
    assert_eq!(flows("--dst 10.0.0.0/16 --udp-dst 1000-1002"), 196_608);
    assert_eq!(flows("--dst 10.0.0.0/8"), 1);
    assert_eq!(flows("--dst 10.0.0.0/24 --random dst"), 1);
}
