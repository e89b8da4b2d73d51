//! `--tcp`, `--icmp`, `--arp`, `--vxlan`, `--gre`, `--geneve`, `--gtpu` and `--payload`: options
//! that describe a packet.
//!
//! They become a packet in trafgen's language, so they take the same way as `--frame`.

use super::args::{Args, IcmpKind, PayloadText, RandomField};
use super::config;
use super::flows;
use super::packet_sizes::PacketSizes;
use super::packets::Packets;
use super::tags::VlanTag;
use packet::{DeviceFacts, MacAddr};
use program::outcome::Failure;
use program::waiting_read;
use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use units::{Addresses, Interval, VlanType};

/// The port of GTP-U.
const GTPU_PORT: &str = "2152";
/// Time to live, as in pktgen.
const TTL_DEFAULT: u8 = 32;
/// Addresses of the packets in a tunnel (RFC 2544).
const INNER_DST: Addresses =
    Addresses::V4(Interval { first: Ipv4Addr::new(198, 19, 0, 2), last: Ipv4Addr::new(198, 19, 0, 2) });
const INNER_SRC: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const INNER_SRC_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// MAC addresses of the frames in a VXLAN tunnel.
const INNER_MACS: &str = "da=02:00:00:00:00:02, sa=02:00:00:00:00:01";
/// Bytes that a header begins with in each counted address: the last four are counted.
const COUNTED_LEN: usize = 4;

impl Args {
    /// True when options describe a packet that is not pktgen's.
    pub fn has_packet_options(&self) -> bool {
        let is_other = self.tcp || self.icmp.is_some() || self.arp || self.is_tunnel();
        let is_inner = self.inner_dst.is_some() || self.inner_src.is_some();
        is_other || is_inner || self.tunnel_src_port.is_some() || self.payload.is_some()
    }

    /// True if the frames of other options are in a tunnel.
    pub fn is_tunnel(&self) -> bool {
        self.vxlan.is_some() || self.gre || self.geneve.is_some() || self.gtpu.is_some()
    }

    /// The option that stands for them all in messages.
    pub fn packet_option(&self) -> &'static str {
        match () {
            () if self.arp => "--arp",
            () if self.tcp => "--tcp",
            () if self.icmp.is_some() => "--icmp",
            () if self.vxlan.is_some() => "--vxlan",
            () if self.gre => "--gre",
            () if self.geneve.is_some() => "--geneve",
            () if self.gtpu.is_some() => "--gtpu",
            () if self.payload.is_some() => "--payload",
            () if self.tunnel_src_port.is_some() => "--tunnel-src-port",
            () if self.inner_dst.is_some() => "--inner-dst",
            () => "--inner-src",
        }
    }

    /// IP version of the packet that carries the payload.
    fn is_inner_ipv6(&self) -> bool {
        if self.is_tunnel() { self.inner_dst.unwrap_or(INNER_DST).is_v6() } else { self.is_ipv6() }
    }
}

/// The packets that the options describe, for `dst_mac`. A zero address is left out.
///
/// # Errors
/// Bad usage for options that have no meaning together, or a length that is too short.
pub fn packets(args: &Args, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let sizes = PacketSizes::of(args)?;
    Packets::parse(&text(args, dst_mac)?, "the packet of these options", (facts, seed), &sizes)
}

/// The packet in trafgen's language, as long as its headers and payload.
///
/// # Errors
/// Bad usage for options that have no meaning together; refused when the payload cannot be read.
pub fn text(args: &Args, dst_mac: MacAddr) -> Result<String, Failure> {
    check(args)?;
    let args = &*flows::spread(args)?;
    let mut parts = vec![ethernet(args, dst_mac)?];
    parts.extend(tags(args)?);
    if args.arp {
        parts.push(arp(args)?);
    } else {
        let dst = config::destinations(args);
        parts.push(ip(
            args,
            ("dst", dst, RangeWalk::of(args, RandomField::Dst)),
            ("src", args.src, RangeWalk::of(args, RandomField::Src)),
        )?);
        if args.is_tunnel() {
            parts.extend(tunnel(args)?);
        }
        parts.push(transport(args));
        parts.extend(payload(args)?);
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}

/// An option that is given, why it has no meaning, and what to use instead.
type Conflict = (bool, &'static str, &'static str, Option<&'static str>);

fn check(args: &Args) -> Result<(), Failure> {
    config::check_addresses(args)?;
    let option = args.packet_option();
    let has_ports = args.udp_dst.is_some() || args.udp_src.is_some();
    let is_ip = !args.arp;
    let carries = "an ARP message is no IP packet";
    let unsigned = "receivers look for it in UDP without a tunnel; these frames have a mark at their end";
    let is_inner_random = args.is_random(RandomField::InnerDst) || args.is_random(RandomField::InnerSrc);
    let has_inner = args.inner_dst.is_some() || args.inner_src.is_some() || is_inner_random;
    let obstacles: &[Conflict] = &[
        (has_ports && args.arp, "ports", carries, None),
        (has_ports && args.icmp.is_some(), "ports", "ICMP has none", None),
        (args.payload.is_some() && !is_ip, "--payload", carries, Some("--size 60 (padding)")),
        (args.ttl.is_some() && !is_ip, "--ttl", carries, None),
        (args.tos.is_some() && !is_ip, "--tos", carries, None),
        (args.mpls.is_some() && !is_ip, "--mpls", carries, Some("--vlan 5")),
        (args.is_tunnel() && !is_ip, "a tunnel", carries, None),
        (
            args.tunnel_src_port.is_some() && (args.gre || !args.is_tunnel()),
            "--tunnel-src-port",
            "it is for tunnels over UDP",
            Some("--vxlan 42"),
        ),
        (args.ipsec, "--ipsec", "IPsec protects pktgen's frames only", None),
        (args.has_front_signature(), "--signature", unsigned, Some("--signature mark")),
    ];
    for (is_given, what, why, advice) in obstacles {
        if *is_given {
            let failure = Failure::usage(format!("use {what} with {option}"), why);
            return Err(advice.iter().fold(failure, Failure::try_this));
        }
    }
    if has_inner && !args.is_tunnel() {
        return Err(Failure::usage("use addresses in a tunnel", "there is no tunnel")
            .try_this("--vxlan 42")
            .try_this("--gre"));
    }
    if args.arp && args.is_ipv6() {
        return Err(Failure::usage("use --arp with IPv6", "IPv6 finds neighbours by ICMPv6")
            .try_this("--dst 198.18.0.2"));
    }
    if let (Some(dst), Some(src)) = (args.inner_dst, args.inner_src)
        && dst.is_v6() != src.is_v6()
    {
        return Err(Failure::usage(
            format!("send from {src} to {dst} in the tunnel"),
            "source and destination have different IP versions",
        ));
    }
    Ok(())
}

fn ethernet(args: &Args, dst_mac: MacAddr) -> Result<String, Failure> {
    let broadcast = MacAddr([0xff; 6]);
    let dst_mac = match args.dst_mac {
        None if args.arp => Interval::one(broadcast),
        None => Interval::one(dst_mac),
        Some(given) => given,
    };
    let mut fields = Vec::new();
    if !dst_mac.first.is_zero() {
        fields.push(mac("da", "--dst-mac", dst_mac, RangeWalk::of(args, RandomField::DstMac))?);
    }
    if let Some(src_mac) = args.src_mac {
        fields.push(mac("sa", "--src-mac", src_mac, RangeWalk::of(args, RandomField::SrcMac))?);
    }
    Ok(format!("eth({})", fields.join(", ")))
}

/// The last four bytes of a range that have the others in common.
fn counted<const N: usize>(option: &str, first: [u8; N], last: [u8; N]) -> Result<(u32, u32), Failure> {
    let (common, count) = first.split_at(N - COUNTED_LEN);
    if common != &last[..N - COUNTED_LEN] {
        return Err(Failure::usage(
            format!("use this range with {option}"),
            "only the last four bytes of an address can change",
        ));
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte));
    Ok((number(count), number(&last[N - COUNTED_LEN..])))
}

/// How a field goes through a range of addresses or ports.
#[derive(Clone, Copy, Debug)]
struct RangeWalk {
    /// It draws at random instead of counting.
    is_random: bool,
    /// Frames in a row that have one value.
    hold: u32,
}

impl RangeWalk {
    fn of(args: &Args, field: RandomField) -> Self {
        Self { is_random: args.is_random(field), hold: held_frames(args) }
    }

    /// The function of the language that goes from the first value to the last.
    fn text(self, first: impl Display, last: impl Display) -> String {
        let function = format!("{}({first}, {last})", if self.is_random { "drnd" } else { "dinc" });
        if self.hold > 1 { format!("hold({}, {function})", self.hold) } else { function }
    }

    /// Numbers in hexadecimal.
    fn hex(self, first: u32, last: u32) -> String {
        self.text(format_args!("{first:#x}"), format_args!("{last:#x}"))
    }
}

/// Frames in a row that have the same addresses and ports.
fn held_frames(args: &Args) -> u32 {
    args.flow_len.unwrap_or(1)
}

fn mac(field: &str, option: &str, range: Interval<MacAddr>, walk: RangeWalk) -> Result<String, Failure> {
    let text = format!("{field}={}", range.first);
    if range.is_one() {
        return if walk.is_random {
            Err(config::nothing_to_draw(option, "02:00:00:00:00:01-02:00:00:00:00:ff"))
        } else {
            Ok(text)
        };
    }
    let (first, last) = counted(option, range.first.0, range.last.0)?;
    Ok(format!("{text}, {field}[2:4]={}", walk.hex(first, last)))
}

fn tags(args: &Args) -> Result<Vec<String>, Failure> {
    let found = super::tags::tags(args)?;
    let last = found.len().saturating_sub(1);
    let text = |(index, tag): (usize, &VlanTag)| {
        let is_inner = index == last && args.is_random(RandomField::Vlan);
        let is_random = is_inner || index < last && args.is_random(RandomField::Svlan);
        let id = if is_random { "drnd(0, 4095)".to_owned() } else { tag.id.to_string() };
        let mut text = format!("vlan(id={id}");
        if tag.ethertype != VlanType::CUSTOMER {
            let _ = write!(text, ", tpid={}", tag.ethertype);
        }
        if tag.priority > 0 {
            let _ = write!(text, ", pcp={}", tag.priority);
        }
        text + if tag.dei { ", dei=1)" } else { ")" }
    };
    let mut tags: Vec<String> = found.iter().enumerate().map(text).collect();
    for entry in args.mpls.iter().flat_map(|labels| &labels.0) {
        let (class, ttl) = (entry >> 9 & 7, entry & 0xff);
        let is_random = args.is_random(RandomField::Mpls);
        let label = if is_random { "drnd(0, 0xfffff)".to_owned() } else { (entry >> 12).to_string() };
        tags.push(format!("mpls(label={label}, tc={class}, ttl={ttl})"));
    }
    Ok(tags)
}

fn arp(args: &Args) -> Result<String, Failure> {
    let mut fields = vec!["request".to_owned()];
    if let Some(src_mac) = args.src_mac {
        fields.push(mac("smac", "--src-mac", src_mac, RangeWalk::of(args, RandomField::SrcMac))?);
    }
    if let Some(src) = args.src {
        fields.push(address("sip", "src", src, RangeWalk::of(args, RandomField::Src))?);
    }
    let dst = config::destinations(args);
    fields.push(address("tip", "dst", dst, RangeWalk::of(args, RandomField::Dst))?);
    Ok(format!("arp({})", fields.join(", ")))
}

/// An option with an address, its value, and how frames go through its range.
type AddressOption<T> = (&'static str, T, RangeWalk);

fn ip(
    args: &Args,
    dst: AddressOption<Addresses>,
    src: AddressOption<Option<Addresses>>,
) -> Result<String, Failure> {
    let ttl = args.ttl.unwrap_or(TTL_DEFAULT);
    let is_v6 = dst.1.is_v6();
    let mut fields = vec![if is_v6 { format!("hl={ttl}") } else { format!("ttl={ttl}") }];
    if let Some(tos) = args.tos {
        fields.push(if is_v6 { format!("tc={tos}") } else { format!("tos={tos}") });
    }
    match src {
        (name, Some(src), walk) => fields.push(address("sa", name, src, walk)?),
        (name, None, walk) if walk.is_random => {
            return Err(config::nothing_to_draw(name, &format!("--{name} 198.18.0.0/15")));
        }
        (_, None, _) => {}
    }
    fields.push(address("da", dst.0, dst.1, dst.2)?);
    Ok(format!("{}({})", if is_v6 { "ipv6" } else { "ipv4" }, fields.join(", ")))
}

fn address(field: &str, option: &str, range: Addresses, walk: RangeWalk) -> Result<String, Failure> {
    match range {
        _ if range.is_one() && walk.is_random => {
            Err(config::nothing_to_draw(option, &format!("--{option} 198.18.0.0/15")))
        }
        _ if range.is_one() => Ok(format!("{field}={}", range.first())),
        Addresses::V4(Interval { first, last }) => {
            Ok(format!("{field}={}", walk.hex(first.to_bits(), last.to_bits())))
        }
        Addresses::V6(Interval { first, last }) => {
            let (low, high) = counted(&format!("--{option}"), first.octets(), last.octets())?;
            Ok(format!("{field}={first}, {field}[12:4]={}", walk.hex(low, high)))
        }
    }
}

/// The tunnel header, and the headers in front of the inner IP packet.
fn tunnel(args: &Args) -> Result<Vec<String>, Failure> {
    let dst = args.inner_dst.unwrap_or(INNER_DST);
    let src = args.inner_src.unwrap_or_else(|| match dst {
        Addresses::V4(_) => Addresses::V4(Interval::one(INNER_SRC)),
        Addresses::V6(_) => Addresses::V6(Interval::one(INNER_SRC_V6)),
    });
    let inner = ip(
        args,
        ("inner-dst", dst, RangeWalk::of(args, RandomField::InnerDst)),
        ("inner-src", Some(src), RangeWalk::of(args, RandomField::InnerSrc)),
    )?;
    let hold = held_frames(args);
    let udp = |default: &str| {
        let given = args.tunnel_src_port.map(|range| port_text(range, RangeWalk { is_random: false, hold }));
        format!("udp(sp={})", given.unwrap_or_else(|| default.to_owned()))
    };
    // The flow inside, as RFC 7348 and RFC 8926 recommend.
    let entropy = "entropy()";
    let ethernet = || format!("eth({INNER_MACS})");
    Ok(match (args.vxlan, args.geneve, args.gtpu) {
        (Some(vni), ..) => vec![udp(entropy), format!("vxlan(vni={vni})"), ethernet(), inner],
        (_, Some(vni), _) => vec![udp(entropy), format!("geneve(vni={vni})"), ethernet(), inner],
        (.., Some(teid)) => vec![udp(GTPU_PORT), format!("gtpu(teid={teid})"), inner],
        (None, None, None) => vec!["gre()".to_owned(), inner],
    })
}

/// One port, or a range that is counted or drawn.
fn port_text(range: Interval<u16>, walk: RangeWalk) -> String {
    if range.is_one() { range.first.to_string() } else { walk.text(range.first, range.last) }
}

fn transport(args: &Args) -> String {
    let port = |range: Option<Interval<u16>>, field: RandomField| {
        port_text(range.unwrap_or(config::PORT_DEFAULT), RangeWalk::of(args, field))
    };
    let ports = || {
        format!(
            "sp={}, dp={}",
            port(args.udp_src, RandomField::UdpSrc),
            port(args.udp_dst, RandomField::UdpDst)
        )
    };
    match (args.icmp, args.tcp) {
        (Some(kind), _) => icmp(kind, args.is_inner_ipv6()),
        (None, true) => format!("tcp({}, {}, win=64240)", ports(), if args.syn { "syn" } else { "ack" }),
        (None, false) => format!("udp({})", ports()),
    }
}

/// An echo message, numbered from 1.
fn icmp(kind: IcmpKind, is_v6: bool) -> String {
    let word = match kind {
        IcmpKind::Echo => "echorequest",
        IcmpKind::Reply => "echoreply",
    };
    match is_v6 {
        false => format!("icmp4({word}, id=1, seq=dinc(1, 65535))"),
        // trafgen's icmp6() ends before these.
        true => format!("icmp6({word}), c16(1), 0, dinc(0, 255)"),
    }
}

/// Text as a string of the language, other bytes as digits.
fn payload(args: &Args) -> Result<Option<String>, Failure> {
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (!digits.is_empty()).then(|| format!("hex(\"{digits}\")"))
    };
    let is_plain = |letter: char| letter == ' ' || letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
    Ok(match &args.payload {
        None => None,
        Some(PayloadText::Text(text)) if !text.is_empty() && text.chars().all(is_plain) => {
            Some(format!("\"{text}\""))
        }
        Some(PayloadText::Text(text)) => hex(text.as_bytes()),
        Some(PayloadText::Bytes(bytes)) => hex(bytes),
        Some(PayloadText::File(path)) => {
            hex(&waiting_read::read(path).map_err(|why| Failure::read(path, why))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Rng, checksum};
    use program::args_of;
    use std::collections::BTreeSet;

    fn written(words: &str) -> Result<String, Failure> {
        text(&args_of(&format!("veth0 {words}")).unwrap(), MacAddr([2, 0, 0, 0, 0, 9]))
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
                 icmp4(echorequest, id=1, seq=dinc(1, 65535)), \"hello\" }",
            ),
            (
                "--icmp reply --dst fd00::/120 --src fd00:1::1 --vlan 5 --vlan-prio 3",
                "{ eth(da=02:00:00:00:00:09), vlan(id=5, pcp=3), \
                 ipv6(hl=32, sa=fd00:1::1, da=fd00::, da[12:4]=dinc(0x0, 0xff)), icmp6(echoreply), c16(1), 0, dinc(0, 255) }",
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
                "--geneve 7 --tunnel-src-port 50000-50009 --dst 10.0.0.2 --icmp echo",
                "{ eth(da=02:00:00:00:00:09), ipv4(ttl=32, da=10.0.0.2), udp(sp=dinc(50000, 50009)), geneve(vni=7), \
                 eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), ipv4(ttl=32, sa=198.19.0.1, da=198.19.0.2), \
                 icmp4(echorequest, id=1, seq=dinc(1, 65535)) }",
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
        let args = args_of(&format!("veth0 --dst 10.0.0.2 {words}")).unwrap();
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
            ("--arp --payload x", "cannot use --payload with --arp: an ARP message is no IP packet"),
            ("--arp --ttl 3", "cannot use --ttl with --arp"),
            ("--payload x --inner-dst 10.0.0.9", "cannot use addresses in a tunnel: there is no tunnel"),
            (
                "--tcp --signature full",
                "cannot use --signature with --tcp: receivers look for it in UDP without a tunnel",
            ),
            ("--tcp --random src", "cannot draw src at random: it needs a range"),
            ("--tcp --src-mac 02:00:00:00:00:01-02:01:00:00:00:01 ", "only the last four bytes"),
        ] {
            let refusal = written(&format!("{words} --dst 10.0.0.2")).unwrap_err().to_string();
            assert!(refusal.contains(said), "{words}: {refusal}");
        }
        let refusal = written("--arp --dst fd00::2").unwrap_err().to_string();
        assert!(refusal.contains("IPv6 finds neighbours by ICMPv6"), "{refusal}");
        let refusal = written("--tcp").unwrap_err().to_string();
        assert!(refusal.contains("there is no destination"), "{refusal}");
    }
}
