//! What the language has beyond trafgen's.

mod common;

use common::frames;
use frames::{NoCaptures, ParseSettings, parse};

/// Some hex digits of each frame.
fn parts(config: &str, count: usize, digits: std::ops::Range<usize>) -> Vec<String> {
    frames(config, count).iter().map(|frame| frame[digits.clone()].to_owned()).collect()
}

#[test]
fn values_of_every_kind_come_in_turn() {
    let macs = "{ eth(da=values(1:2:3:4:5:6, 2:0:0:0:0:9)) }";
    assert_eq!(parts(macs, 3, 0..12), ["010203040506", "020000000009", "010203040506"]);
    let v6 = "{ ipv6(da=values(fd00::1, fd01::2)) }";
    assert_eq!(
        parts(v6, 2, 48..80),
        ["fd000000000000000000000000000001", "fd010000000000000000000000000002"]
    );
    assert_eq!(parts("{ udp(sp=values(7, 0x50, 9)) }", 4, 68..72), ["0007", "0050", "0009", "0007"]);
}

#[test]
fn fields_count_down() {
    assert_eq!(parts("{ udp(sp=ddec(3, 5)) }", 4, 68..72), ["0005", "0004", "0003", "0005"]);
    assert_eq!(parts("{ udp(sp=1, sp=ddec()) }", 3, 68..72), ["0001", "0000", "ffff"]);
}

#[test]
fn an_index_takes_a_number() {
    assert_eq!(parts("{ ipv4(sa=1.2.3.4, sa[1:2]=0x0709) }", 1, 52..60), ["01070904"]);
}

#[test]
fn optional_groups_set_their_flags_in_any_order() {
    let gre = |arguments: &str| parts(&format!("{{ gre({arguments}) ipv4() }}"), 1, 68..92);
    assert_eq!(gre("seq=1, key=2"), ["300008000000000200000001"]);
    assert_eq!(gre("seq=1"), ["100008000000000145000014"]);
    assert_eq!(gre(""), ["000008004500001400000000"]);
}

#[test]
fn hex_digits_are_bytes() {
    assert_eq!(frames("{ hex(\"00 1b:21-3c\") 5 }", 1), ["001b213c05"]);
    for bad in ["{ hex(\"0\") }", "{ hex(\"0x12\") }", "{ pcap(\"file\", 1) }"] {
        assert!(parse(bad.as_bytes(), &ParseSettings::default(), &mut NoCaptures).is_err(), "{bad}");
    }
}

#[test]
fn entropy_of_a_tunnel_is_that_of_the_flow_inside() {
    let ports = |inner: &str| parts(&format!("{{ udp(sp=entropy()) vxlan() eth() {inner} }}"), 6, 68..72);
    // The identification is no part of a flow.
    assert_eq!(ports("ipv4(id=dinc()) udp(sp=7)"), vec!["c000"; 6]);
    let moving = ports("ipv4(da=values(1.2.3.4, 1.2.3.5, 1.2.3.6), id=dinc()) udp(sp=7)");
    assert_eq!(moving[..3], moving[3..]);
    assert!(moving[0] != moving[1] && moving[1] != moving[2], "{moving:?}");
    assert!(moving.iter().all(|port| u16::from_str_radix(port, 16).unwrap() >= 49_152));
}

/// In each packet of its own, in all forms of values, and under the port of a tunnel.
#[test]
fn a_field_holds_each_value_for_several_frames() {
    let ports = |text: &str| parts(&format!("{{ ipv4() udp(sp={text}) }}"), 6, 68..72);
    assert_eq!(ports("hold(2, dinc(1, 2))"), ["0001", "0001", "0002", "0002", "0001", "0001"]);
    assert_eq!(ports("hold(4, ddec(1, 2))"), ["0002", "0002", "0002", "0002", "0001", "0001"]);
    assert_eq!(ports("hold( 3 , values(7, 9))"), ["0007", "0007", "0007", "0009", "0009", "0009"]);
    assert_eq!(ports("hold(1, dinc(1, 3))"), ports("dinc(1, 3)"));
    let random = ports("hold(3, drnd())");
    assert!(random[0] == random[2] && random[2] != random[3] && random[3] == random[5], "{random:?}");
    let long = parts("{ eth() ipv6(da=hold(2, values(fd00::1, fd00::2))) }", 4, 76..108);
    assert!(long[0] == long[1] && long[2] == long[3] && long[1] != long[2], "{long:?}");
    let tunnel = "{ udp(sp=entropy()) vxlan() eth() ipv4() udp(sp=hold(2, dinc(1, 9))) }";
    let outer = parts(tunnel, 4, 68..72);
    assert!(outer[0] == outer[1] && outer[2] == outer[3] && outer[1] != outer[2], "{outer:?}");
}

#[test]
fn entropy_is_for_one_field_of_a_packet() {
    let twice = "{ udp(sp=entropy()) vxlan() eth() udp(sp=entropy()) vxlan() eth() ipv4(da=dinc()) udp() }";
    let error = parse(twice.as_bytes(), &ParseSettings::default(), &mut NoCaptures).unwrap_err();
    assert!(error.to_string().contains("entropy() in one field only"), "{error}");
}

#[test]
fn tunnels_fill_in_both_sets_of_headers() {
    let [vxlan] = &frames("{ vxlan(vni=42) udp(dp=9) }", 1)[..] else { panic!("one frame") };
    // Ethernet, IPv4, UDP to 4789, VXLAN, Ethernet, IPv4, UDP to 9.
    assert_eq!(vxlan.len() / 2, 14 + 20 + 8 + 8 + 14 + 20 + 8);
    assert_eq!((&vxlan[72..76], &vxlan[84..100], &vxlan[124..128]), ("12b5", "0800000000002a00", "0800"));
}

/// The length of a frame in bytes, and a part of its digits.
fn shape(config: &str, digits: std::ops::Range<usize>) -> (usize, String) {
    let frame = frames(config, 1).remove(0);
    (frame.len() / 2, frame[digits].to_owned())
}

#[test]
fn headers_follow_raw_bytes_with_lengths_and_checksums() {
    // PPPoE by hand, and by its name.
    let by_hand = "{ eth(type=0x8864) hex(\"1100 0001 0024 0021\") ipv4(sa=10.0.0.1, da=10.0.0.2) udp(sp=1) 1 2 3 4 5 6 }";
    let by_name = "{ pppoe(session=1) ipv4(sa=10.0.0.1, da=10.0.0.2) udp(sp=1) 1 2 3 4 5 6 }";
    assert_eq!(frames(by_hand, 1), frames(by_name, 1));
    let raw = "{ eth(type=0x8864) raw(0x11, 0, c16(1), fill(0, 1), 0x24, \"\\x00\\x21\") ipv4(sa=10.0.0.1, da=10.0.0.2) udp(sp=1) 1 2 3 4 5 6 }";
    assert_eq!(frames(raw, 1), frames(by_name, 1));
    let mixed = "{ eth(type=0x8864) raw(hex(\"1100\"), 0, 1, hex(\"0024 0021\")) ipv4(sa=10.0.0.1, da=10.0.0.2) udp(sp=1) 1 2 3 4 5 6 }";
    assert_eq!(frames(mixed, 1), frames(by_name, 1));
    // Nothing is added between raw bytes and a header.
    assert_eq!(frames("{ hex(\"01020304\") udp(sp=9) 7 }", 1), ["01020304000900000009000007"]);
    // Each header may follow them: arp() and pause() set the address of an Ethernet header only.
    for header in ["arp()", "pause()", "eth()", "mpls()", "dns()", "esp()", "pppoe()"] {
        let frame = frames(&format!("{{ hex(\"01020304\") {header} }}"), 1).remove(0);
        assert!(frame.starts_with("01020304"), "{header}: {frame}");
    }
    // Bytes at the end stay payload.
    assert_eq!(frames("{ udp(sp=9) hex(\"0102\") }", 1), frames("{ udp(sp=9) 1 2 }", 1));
    for (bad, why) in [
        ("{ eth() fill(1, 9) ipv4() }", "put them into raw(...)"),
        ("{ raw(1, ipv4()) }", "ipv4() is a header: it stands behind raw(...)"),
        ("{ raw(1, 2 }", "a byte"),
        ("{ raw(1, raw(2)) }", "raw(...) cannot stand in raw(...)"),
    ] {
        let error = parse(bad.as_bytes(), &ParseSettings::default(), &mut NoCaptures).unwrap_err();
        assert!(error.to_string().contains(why), "{bad}: {error}");
    }
}

#[test]
fn options_segments_and_chunks_have_their_lengths() {
    // Router alert: version 4, 6 words.
    assert_eq!(shape("{ ipv4(option(alert, data=hex(\"0000\"))) udp() }", 28..32), (46, "4600".to_owned()));
    let mss =
        "{ ipv4() tcp(syn, option(mss, data=hex(\"05b4\")), option(nop), option(wscale, data=hex(\"07\"))) }";
    assert_eq!(shape(mss, 108..124), (62, "020405b401030307".to_owned()));
    assert_eq!(shape(mss, 92..96).1, "7002");
    let geneve = "{ geneve(vni=3, option(class=0x0102, type=0x80, data=hex(\"dead\"))) eth() }";
    assert_eq!(shape(geneve, 84..108), (14 + 20 + 8 + 16 + 14, "020065580000030001028001".to_owned()));
    let sctp = "{ sctp(sp=1, dp=2, vtag=3, chunk(data, flags=3, data=\"abcde\"), chunk(cookieack)) }";
    assert_eq!(shape(sctp, 92..124), (62, "0003000961626364650000000b000004".to_owned()));
    let hop =
        "{ eth() ipv6(sa=fd00::1, da=fd00::2) hopopts(option(alert, data=hex(\"0000\"))) icmp6(type=131) }";
    assert_eq!(shape(hop, 108..124), (66, "3a00050200000100".to_owned()));
    for (bad, why) in [
        ("{ srh(segment(1.2.3.4)) }", "IPv6"),
        ("{ ipv4(option(kind=3)) }", "expected option(type=, data=)"),
        ("{ ipv4(option(type=300)) }", "300 is too large: type has at most 255"),
        ("{ ipv4(option(type=7, data=\"12345678901234567890123456789012345678901\")) }", "at most 38"),
    ] {
        let error = parse(bad.as_bytes(), &ParseSettings::default(), &mut NoCaptures).unwrap_err();
        assert!(error.to_string().contains(why), "{bad}: {error}");
    }
}
