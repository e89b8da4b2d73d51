//! `--tcp`, `--icmp`, `--arp`, `--vxlan`, `--gre`, `--geneve`, `--gtpu` and `--payload`: options
//! that describe a packet.
//!
//! They become a packet in trafgen's language, so they take the same way as `--frame`.

use super::config;
use super::flows;
use super::job::{IcmpKind, PayloadText, RandomField, SendJob};
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

impl SendJob {
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
pub fn packets(job: &SendJob, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let sizes = PacketSizes::of(job)?;
    Packets::parse(&text(job, dst_mac)?, "the packet of these options", (facts, seed), &sizes)
}

/// The packet in trafgen's language, as long as its headers and payload.
///
/// # Errors
/// Bad usage for options that have no meaning together; refused when the payload cannot be read.
pub fn text(job: &SendJob, dst_mac: MacAddr) -> Result<String, Failure> {
    check(job)?;
    let job = &*flows::spread(job)?;
    let mut parts = vec![ethernet(job, dst_mac)?];
    parts.extend(tags(job)?);
    if job.arp {
        parts.push(arp(job)?);
    } else {
        let dst = config::destinations(job);
        parts.push(ip(
            job,
            ("dst", dst, RangeWalk::of(job, RandomField::Dst)),
            ("src", job.src, RangeWalk::of(job, RandomField::Src)),
        )?);
        if job.is_tunnel() {
            parts.extend(tunnel(job)?);
        }
        parts.push(transport(job));
        parts.extend(payload(job)?);
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}

/// An option that is given, why it has no meaning, and what to use instead.
type Conflict = (bool, &'static str, &'static str, Option<&'static str>);

fn check(job: &SendJob) -> Result<(), Failure> {
    config::check_addresses(job)?;
    let option = job.packet_option();
    let has_ports = job.udp_dst.is_some() || job.udp_src.is_some();
    let is_ip = !job.arp;
    let carries = "an ARP message is no IP packet";
    let is_inner_random = job.is_random(RandomField::InnerDst) || job.is_random(RandomField::InnerSrc);
    let has_inner = job.inner_dst.is_some() || job.inner_src.is_some() || is_inner_random;
    let is_udp = !(job.tcp || job.icmp.is_some() || job.arp);
    let is_in_udp = job.vxlan.is_some() || job.geneve.is_some() || job.gtpu.is_some();
    let obstacles: &[Conflict] = &[
        (job.udp_checksum && !is_udp && !is_in_udp, "--udp-checksum", "its frames have no UDP header", None),
        (has_ports && job.arp, "ports", carries, None),
        (has_ports && job.icmp.is_some(), "ports", "ICMP has none", None),
        (job.payload.is_some() && !is_ip, "--payload", carries, Some("--size 60 (padding)")),
        (job.ttl.is_some() && !is_ip, "--ttl", carries, None),
        (job.tos.is_some() && !is_ip, "--tos", carries, None),
        (job.mpls.is_some() && !is_ip, "--mpls", carries, Some("--vlan 5")),
        (job.is_tunnel() && !is_ip, "a tunnel", carries, None),
        (job.ipsec && !is_ip, "--ipsec", carries, None),
        (
            job.ipsec && job.is_ipv6(),
            "--ipsec",
            "IPsec is for IPv4 only, as in pktgen",
            Some("--dst 198.18.0.2"),
        ),
        (
            job.tunnel_src_port.is_some() && (job.gre || !job.is_tunnel()),
            "--tunnel-src-port",
            "it is for tunnels over UDP",
            Some("--vxlan 42"),
        ),
    ];
    for (is_given, what, why, advice) in obstacles {
        if *is_given {
            let failure = Failure::usage(format!("use {what} with {option}"), why);
            return Err(advice.iter().fold(failure, Failure::try_this));
        }
    }
    if has_inner && !job.is_tunnel() {
        return Err(Failure::usage("use addresses in a tunnel", "there is no tunnel")
            .try_this("--vxlan 42")
            .try_this("--gre"));
    }
    if job.arp && job.is_ipv6() {
        return Err(Failure::usage("use --arp with IPv6", "IPv6 finds neighbours by ICMPv6")
            .try_this("--dst 198.18.0.2"));
    }
    if let (Some(dst), Some(src)) = (job.inner_dst, job.inner_src)
        && dst.is_v6() != src.is_v6()
    {
        return Err(Failure::usage(
            format!("send from {src} to {dst} in the tunnel"),
            "source and destination have different IP versions",
        ));
    }
    Ok(())
}

fn ethernet(job: &SendJob, dst_mac: MacAddr) -> Result<String, Failure> {
    let broadcast = MacAddr([0xff; 6]);
    let dst_mac = match job.dst_mac {
        None if job.arp => Interval::one(broadcast),
        None => Interval::one(dst_mac),
        Some(given) => given,
    };
    let mut fields = Vec::new();
    if !dst_mac.first.is_zero() {
        fields.push(mac("da", "--dst-mac", dst_mac, RangeWalk::of(job, RandomField::DstMac))?);
    }
    if let Some(src_mac) = job.src_mac {
        fields.push(mac("sa", "--src-mac", src_mac, RangeWalk::of(job, RandomField::SrcMac))?);
    }
    Ok(format!("eth({})", fields.join(", ")))
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
    fn of(job: &SendJob, field: RandomField) -> Self {
        Self { is_random: job.is_random(field), hold: held_frames(job) }
    }

    /// The function of the language that goes from the first value to the last.
    fn text(self, first: impl Display, last: impl Display) -> String {
        let function = format!("{}({first}, {last})", if self.is_random { "drnd" } else { "dinc" });
        if self.hold > 1 { format!("hold({}, {function})", self.hold) } else { function }
    }

    /// Numbers in hexadecimal.
    fn hex(self, first: u64, last: u64) -> String {
        self.text(format_args!("{first:#x}"), format_args!("{last:#x}"))
    }
}

/// Frames in a row that have the same addresses and ports.
fn held_frames(job: &SendJob) -> u32 {
    job.flow_len.unwrap_or(1)
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
    let number = |mac: MacAddr| mac.0.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (first, last) = (number(range.first), number(range.last));
    if first >> 32 != last >> 32 {
        return Ok(format!("{field}={}", walk.hex(first, last)));
    }
    let low = |number: u64| number & u64::from(u32::MAX);
    Ok(format!("{text}, {field}[2:4]={}", walk.hex(low(first), low(last))))
}

fn tags(job: &SendJob) -> Result<Vec<String>, Failure> {
    let found = super::tags::tags(job)?;
    let last = found.len().saturating_sub(1);
    let text = |(index, tag): (usize, &VlanTag)| {
        let is_inner = index == last && job.is_random(RandomField::Vlan);
        let is_random = is_inner || index < last && job.is_random(RandomField::Svlan);
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
    for entry in job.mpls.iter().flat_map(|labels| &labels.0) {
        let (class, ttl) = (entry >> 9 & 7, entry & 0xff);
        let is_random = job.is_random(RandomField::Mpls);
        let label = if is_random { "drnd(0, 0xfffff)".to_owned() } else { (entry >> 12).to_string() };
        tags.push(format!("mpls(label={label}, tc={class}, ttl={ttl})"));
    }
    Ok(tags)
}

fn arp(job: &SendJob) -> Result<String, Failure> {
    let mut fields = vec!["request".to_owned()];
    if let Some(src_mac) = job.src_mac {
        fields.push(mac("smac", "--src-mac", src_mac, RangeWalk::of(job, RandomField::SrcMac))?);
    }
    if let Some(src) = job.src {
        fields.push(address("sip", "src", src, RangeWalk::of(job, RandomField::Src))?);
    }
    let dst = config::destinations(job);
    fields.push(address("tip", "dst", dst, RangeWalk::of(job, RandomField::Dst))?);
    Ok(format!("arp({})", fields.join(", ")))
}

/// An option with an address, its value, and how frames go through its range.
type AddressOption<T> = (&'static str, T, RangeWalk);

fn ip(
    job: &SendJob,
    dst: AddressOption<Addresses>,
    src: AddressOption<Option<Addresses>>,
) -> Result<String, Failure> {
    let ttl = job.ttl.unwrap_or(TTL_DEFAULT);
    let is_v6 = dst.1.is_v6();
    let mut fields = vec![if is_v6 { format!("hl={ttl}") } else { format!("ttl={ttl}") }];
    if let Some(tos) = job.tos {
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
            Ok(format!("{field}={}", walk.hex(first.to_bits().into(), last.to_bits().into())))
        }
        Addresses::V6(Interval { first, last }) => {
            let moved = first.to_bits() ^ last.to_bits();
            let (place, bits) = match moved.leading_zeros() {
                96.. => ("12:4", 32),
                64.. => ("8:8", 64),
                _ => {
                    let why = "more than the last eight bytes of its addresses differ";
                    let failure = Failure::usage(format!("use {first}-{last} with --{option}"), why);
                    return Err(failure.try_this(format!("--{option} {first}/64")));
                }
            };
            let low = |address: Ipv6Addr| (address.to_bits() & ((1 << bits) - 1)) as u64;
            Ok(format!("{field}={first}, {field}[{place}]={}", walk.hex(low(first), low(last))))
        }
    }
}

/// The tunnel header, and the headers in front of the inner IP packet.
fn tunnel(job: &SendJob) -> Result<Vec<String>, Failure> {
    let dst = job.inner_dst.unwrap_or(INNER_DST);
    let src = job.inner_src.unwrap_or_else(|| match dst {
        Addresses::V4(_) => Addresses::V4(Interval::one(INNER_SRC)),
        Addresses::V6(_) => Addresses::V6(Interval::one(INNER_SRC_V6)),
    });
    let inner = ip(
        job,
        ("inner-dst", dst, RangeWalk::of(job, RandomField::InnerDst)),
        ("inner-src", Some(src), RangeWalk::of(job, RandomField::InnerSrc)),
    )?;
    let hold = held_frames(job);
    let udp = |default: &str| {
        let given = job.tunnel_src_port.map(|range| port_text(range, RangeWalk { is_random: false, hold }));
        format!("udp(sp={})", given.unwrap_or_else(|| default.to_owned()))
    };
    // The flow inside, as RFC 7348 and RFC 8926 recommend.
    let entropy = "entropy()";
    let ethernet = || format!("eth({INNER_MACS})");
    Ok(match (job.vxlan, job.geneve, job.gtpu) {
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

fn transport(job: &SendJob) -> String {
    let port = |range: Option<Interval<u16>>, field: RandomField| {
        port_text(range.unwrap_or(config::PORT_DEFAULT), RangeWalk::of(job, field))
    };
    let ports = || {
        format!(
            "sp={}, dp={}",
            port(job.udp_src, RandomField::UdpSrc),
            port(job.udp_dst, RandomField::UdpDst)
        )
    };
    match (job.icmp, job.tcp) {
        (Some(kind), _) => icmp(kind, job.is_inner_ipv6()),
        (None, true) => format!("tcp({}, {}, win=64240)", ports(), if job.syn { "syn" } else { "ack" }),
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
fn payload(job: &SendJob) -> Result<Option<String>, Failure> {
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (!digits.is_empty()).then(|| format!("hex(\"{digits}\")"))
    };
    let is_plain = |letter: char| letter == ' ' || letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
    Ok(match &job.payload {
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
