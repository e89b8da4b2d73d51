//! Options of `send`: packet options.

use super::job_of;
use packet::{DeviceFacts, MacAddr};
use packet::{Rng, checksum};
use program::outcome::Failure;
use sender::packet_options::*;
use sender::packets::Packets;
use std::collections::BTreeSet;

fn written(words: &str) -> Result<String, Failure> {
    packet(&job_of(format!("veth0 {words}")), MacAddr([2, 0, 0, 0, 0, 9])).map(|packet| packet.to_string())
}

#[test]
fn options_are_a_packet_in_the_language() {
    for (words, packet) in [
        (
            "--tcp --syn --dst 10.0.0.2 --dport 80 --src 10.1.0.0/16 --random src,udp-src --sport 1024-65535",
            "{ eth(da=02:00:00:00:00:09), ipv4(ttl=32, sa=drnd(0xa010000, 0xa01ffff), da=10.0.0.2), \
             tcp(sp=drnd(1024, 65535), dp=80, syn, win=64240) }",
        ),
        (
            "--icmp echo --dst 10.0.0.2-10.0.0.5 --ttl 1 --payload hello",
            "{ eth(da=02:00:00:00:00:09), ipv4(ttl=1, da=dinc(0xa000002, 0xa000005)), \
             icmpv4(echorequest, id=1, seq=dinc(1, 65535)), \"hello\" }",
        ),
        (
            "--icmp reply --dst fd00::/120 --src fd00:1::1 --vlan 5 --vlan-prio 3",
            "{ eth(da=02:00:00:00:00:09), vlan(id=5, pcp=3), \
             ipv6(hl=32, sa=fd00:1::1, da=fd00::, da[12:4]=dinc(0x0, 0xff)), icmpv6(echoreply), hex(\"000100\"), dinc(0, 255) }",
        ),
        (
            "--arp --dst 10.0.0.0/30 --src 10.0.0.9 --size 60",
            "{ eth(da=ff:ff:ff:ff:ff:ff), arp(request, sip=10.0.0.9, tip=dinc(0xa000000, 0xa000003)) }",
        ),
        (
            "--vxlan 42 --dst 10.0.0.2 --tcp --inner-dst fd00::2 --tos 0xb8",
            "{ eth(da=02:00:00:00:00:09), ipv4(ttl=32, tos=184, da=10.0.0.2), udp(sp=entropy()), vxlan(vni=42), \
             eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), ipv6(hl=32, tc=184, sa=fd00::1, da=fd00::2), \
             tcp(sp=9, dp=9, ack, win=64240) }",
        ),
        (
            "--tcp --dst fd00::2 --src fd00:1::/126 --flows 12 --flow-len 5",
            "{ eth(da=02:00:00:00:00:09), ipv6(hl=32, sa=fd00:1::, sa[12:4]=hold(5, dinc(0x0, 0x3)), da=fd00::2), \
             tcp(sp=hold(5, dinc(1024, 1035)), dp=9, ack, win=64240) }",
        ),
        (
            "--tcp --dst fd00::/64 --src fd00:1::-fd00:1::ff --random dst --src-mac 02:00:00:00:00:01-02:01:00:00:00:01",
            "{ eth(da=02:00:00:00:00:09, sa=dinc(0x20000000001, 0x20100000001)), ipv6(hl=32, sa=fd00:1::, \
             sa[12:4]=dinc(0x0, 0xff), da=fd00::, da[8:8]=drnd(0x0, 0xffffffffffffffff)), \
             tcp(sp=9, dp=9, ack, win=64240) }",
        ),
        (
            "--geneve 7 --tunnel-src-port 50000-50009 --dst 10.0.0.2 --icmp echo",
            "{ eth(da=02:00:00:00:00:09), ipv4(ttl=32, da=10.0.0.2), udp(sp=dinc(50000, 50009)), geneve(vni=7), \
             eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), ipv4(ttl=32, sa=198.19.0.1, da=198.19.0.2), \
             icmpv4(echorequest, id=1, seq=dinc(1, 65535)) }",
        ),
        (
            "--gtpu 9 --dst 10.0.0.2 --tcp --ttl 3",
            "{ eth(da=02:00:00:00:00:09), ipv4(ttl=3, da=10.0.0.2), udp(sp=2152), gtpu(teid=9), \
             ipv4(ttl=3, sa=198.19.0.1, da=198.19.0.2), tcp(sp=9, dp=9, ack, win=64240) }",
        ),
        (
            "--gre --dst fd00::2 --mpls 16 --payload 0x00ff",
            "{ eth(da=02:00:00:00:00:09), mpls(label=16, tc=0, ttl=64), ipv6(hl=32, da=fd00::2), gre(), \
             ipv4(ttl=32, sa=198.19.0.1, da=198.19.0.2), udp(sp=9, dp=9), hex(\"00ff\") }",
        ),
    ] {
        let text = written(words).unwrap_or_else(|why| panic!("{words}: {why}"));
        assert_eq!(text, packet, "{words}");
    }
}

fn made(words: &str) -> Result<Packets, Failure> {
    let args = job_of(format!("veth0 --dst 10.0.0.2 {words}"));
    packets(&args, MacAddr([2, 0, 0, 0, 0, 9]), &DeviceFacts::default(), 0)
}

/// The length of each frame, and of its IP packet and TCP segment as the headers say.
fn lens(words: &str, count: usize) -> Vec<[usize; 3]> {
    let plan = made(words).unwrap_or_else(|why| panic!("{words}: {why}")).of_thread(0).unwrap();
    let mut cursor = packet::Cursor { rng: Rng(1), ..plan.start() };
    let mut out = vec![0; plan.frame_len_max() as usize];
    let mut next = || {
        let len = plan.emit(&mut cursor, 0, &mut out);
        let sum = |bytes: &[u8], start| checksum::finish(checksum::add(start, bytes));
        let (ip_len, tcp_len) = (usize::from(u16::from_be_bytes([out[16], out[17]])), len - 34);
        assert_eq!(sum(&out[14..34], 0), 0, "the IP checksum of {words}");
        let addresses = checksum::add(6 + tcp_len as u64, &out[26..34]);
        assert_eq!(sum(&out[34..len], addresses), 0, "the TCP checksum of {words}");
        [len, ip_len, tcp_len]
    };
    (0..count).map(|_| next()).collect()
}

/// The mark takes the place of pktgen's header.
#[test]
fn frames_of_pktgens_options_can_have_a_mark() {
    let plain = "{ eth(da=02:00:00:00:00:09), ipv4(ttl=32, da=10.0.0.2), udp(sp=9, dp=9)";
    for (words, end, len) in [("", ", fill(0, 18) }", 60), (" --size 90", " }", 90)] {
        let words = format!("--signature mark{words}");
        assert_eq!(written(&format!("{words} --dst 10.0.0.2")).unwrap(), format!("{plain}{end}"));
        let mut packets = made(&words).unwrap();
        assert_eq!(packets.mean_len(), len);
        let job = job_of(format!("veth0 --dst 10.0.0.2 {words}"));
        sender::job_packets::mark(&mut packets, &job, 1, None).unwrap();
        assert_eq!(packets.unmarked(), None);
    }
}

/// The number of a run had no effect on frames without space for a mark.
#[test]
fn the_number_of_a_run_needs_frames_that_carry_it() {
    let marked = |words: &str| {
        let job = job_of(format!("veth0 --dst 10.0.0.2 --tcp --run 7 {words}"));
        let mut packets = made(&format!("--tcp {words}")).unwrap();
        sender::job_packets::mark(&mut packets, &job, 1, None).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(marked("--size 90"), Ok(()));
    for (words, said) in [
        ("", "cannot mark packet 1: a mark takes 18 bytes behind the headers, and there are 0"),
        ("--size 90 --signature none", "cannot use --run 7: only full signatures and marks have a run"),
    ] {
        let refusal = marked(words).unwrap_err();
        assert!(refusal.contains(said), "{words}: {refusal}");
    }
}

#[test]
fn sizes_count_the_whole_frame() {
    for words in [
        "--tcp --syn",
        "--icmp echo",
        "--vxlan 5",
        "--gre --inner-dst fd00::2 --tcp",
        "--payload a\"b",
        "--arp",
    ] {
        let packets = made(&format!("{words} --size 300")).unwrap_or_else(|why| panic!("{words}: {why}"));
        assert_eq!(packets.mean_len(), 300, "{words}");
    }
    let refusal = made("--tcp --size 50-90").unwrap_err().to_string();
    assert_eq!(
        refusal,
        "wirerate: cannot use a frame length of 50: headers and payload have 54 bytes\n  try: --size 54\n"
    );
}

#[test]
fn lengths_and_checksums_follow_the_size_of_each_frame() {
    let of_len = |len: usize| [len, len - 14, len - 34];
    let counted = lens("--tcp --size 60-62 --src 10.1.0.0/24", 5);
    assert_eq!(counted, [60, 61, 62, 60, 61].map(of_len));
    let drawn = lens("--tcp --size 60-69 --random size --src 10.1.0.0/24 --random src", 500);
    let seen: BTreeSet<usize> = drawn.iter().map(|[len, ..]| *len).collect();
    assert_eq!(seen, (60..=69).collect());
    assert!(drawn.iter().all(|lens| *lens == of_len(lens[0])));
    let mixed = lens("--tcp --imix 60:14,594:8,1514:2", 6000);
    let share = |len: usize| mixed.iter().filter(|lens| **lens == of_len(len)).count();
    let [short, middle, long] = [60, 594, 1514].map(share);
    assert_eq!(short + middle + long, 6000);
    assert!((3200..3800).contains(&short) && (1700..2300).contains(&middle), "{short} {middle} {long}");
}

#[test]
fn options_without_meaning_together_are_refused_with_the_reason() {
    for (words, said) in [
        ("--icmp echo --dport 80", "cannot use ports with --icmp: ICMP has none"),
        ("--tcp --udp-checksum", "cannot use --udp-checksum with --tcp: its frames have no UDP header"),
        ("--gre --arp --udp-checksum", "cannot use --udp-checksum with --arp: its frames have no UDP header"),
        ("--arp --payload x", "cannot use --payload with --arp: an ARP message is no IP packet"),
        ("--arp --ttl 3", "cannot use --ttl with --arp"),
        ("--arp --ipsec", "cannot use --ipsec with --arp: an ARP message is no IP packet"),
        ("--tcp --dst fd00::2 --ipsec", "cannot use --ipsec with --tcp: IPsec is for IPv4 only"),
        ("--payload x --inner-dst 10.0.0.9", "cannot use addresses in a tunnel: there is no tunnel"),
        ("--tcp --random src", "cannot draw src at random: it needs a range"),
        (
            "--tcp --src fd00::-fd00:1:: --dst fd00::2",
            "more than the last eight bytes of its addresses differ",
        ),
    ] {
        let dst = if words.contains("--dst") { "" } else { "--dst 10.0.0.2" };
        let refusal = written(&format!("{words} {dst}")).unwrap_err().to_string();
        assert!(refusal.contains(said), "{words}: {refusal}");
    }
    let refusal = written("--arp --dst fd00::2").unwrap_err().to_string();
    assert!(refusal.contains("IPv6 finds neighbours by ICMPv6"), "{refusal}");
    let refusal = written("--tcp").unwrap_err().to_string();
    assert!(refusal.contains("there is no destination"), "{refusal}");
}
