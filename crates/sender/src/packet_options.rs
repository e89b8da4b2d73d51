//! `--tcp`, `--icmp`, `--arp`, `--vxlan`, `--gre`, `--geneve`, `--gtpu` and `--payload`: options
//! that describe a packet.
//!
//! A dry run shows the packet in trafgen's language, as `--frame` takes it.

use super::config;
use super::flows;
use super::job::{IcmpKind, PayloadText, RandomField, SendJob, SignatureName};
use super::packet_sizes::PacketSizes;
use super::packets::{Packets, addresses};
use super::tags::VlanTag;
use frames::{Element, Header, Id, Motion, Packet, ParseSettings, Value};
use packet::plan::MARK_LEN;
use packet::{DeviceFacts, MacAddr};
use program::outcome::Failure;
use program::waiting_read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Addresses, Interval, VlanType};

/// The port of GTP-U.
const GTPU_PORT: u16 = 2152;
/// Time to live, as in pktgen.
const TTL_DEFAULT: u8 = 32;
/// The window of TCP segments.
const TCP_WINDOW: u16 = 64240;
/// Addresses of the packets in a tunnel (RFC 2544).
const INNER_DST: Addresses =
    Addresses::V4(Interval { first: Ipv4Addr::new(198, 19, 0, 2), last: Ipv4Addr::new(198, 19, 0, 2) });
const INNER_SRC: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const INNER_SRC_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// MAC addresses of the frames in a VXLAN tunnel.
const INNER_DST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const INNER_SRC_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

impl SendJob {
    /// True when options make a packet that is not pktgen's: one with other headers or a payload,
    /// or one with a mark, which takes the place of pktgen's header.
    pub fn has_packet_options(&self) -> bool {
        let is_marked = self.signature == Some(SignatureName::Mark) && !self.frames_are_given();
        self.describes_packet() || is_marked
    }

    /// True when options describe other headers than pktgen's, or a payload.
    pub fn describes_packet(&self) -> bool {
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
            () if self.inner_src.is_some() => "--inner-src",
            () => "--signature mark",
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
    let packet = packet(job, dst_mac)?;
    let make = |frame_len_min: usize| {
        let device = addresses(facts);
        let settings = ParseSettings { seed, device, is_for_device: true, frame_len_min };
        let spec = packet.build(&settings);
        spec.map(|spec| vec![spec]).map_err(|why| Failure::usage("make the packet of these options", why))
    };
    Packets::of_sizes(make, &sizes)
}

/// The packet, as long as its headers and payload.
///
/// # Errors
/// Bad usage for options that have no meaning together; refused when the payload cannot be read.
pub fn packet(job: &SendJob, dst_mac: MacAddr) -> Result<Packet, Failure> {
    check(job)?;
    let job = &*flows::spread(job)?;
    let mut elements = vec![ethernet(job, dst_mac)?.into()];
    elements.extend(tags(job)?.into_iter().map(Element::from));
    if job.arp {
        elements.push(arp(job)?.into());
        return Ok(Packet(elements));
    }
    let dst = config::destinations(job);
    let header = ip(
        job,
        ("dst", dst, RangeWalk::of(job, RandomField::Dst)),
        ("src", job.src, RangeWalk::of(job, RandomField::Src)),
    )?;
    elements.push(header.into());
    if job.is_tunnel() {
        elements.extend(tunnel(job)?.into_iter().map(Element::from));
    }
    elements.extend(transport(job));
    elements.extend(payload(job)?.filter(|bytes| !bytes.is_empty()).map(Element::Bytes));
    Ok(Packet(elements))
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

fn ethernet(job: &SendJob, dst_mac: MacAddr) -> Result<Header, Failure> {
    let broadcast = MacAddr([0xff; 6]);
    let dst_mac = match job.dst_mac {
        None if job.arp => Interval::one(broadcast),
        None => Interval::one(dst_mac),
        Some(given) => given,
    };
    let mut header = Header::of(Id::Eth);
    if !dst_mac.first.is_zero() {
        header = mac(header, "da", ("--dst-mac", dst_mac, RangeWalk::of(job, RandomField::DstMac)))?;
    }
    with_src_mac(header, "sa", job)
}

/// With the source MAC address in the field of that name, if it is given.
fn with_src_mac(header: Header, field: &str, job: &SendJob) -> Result<Header, Failure> {
    match job.src_mac {
        Some(range) => mac(header, field, ("--src-mac", range, RangeWalk::of(job, RandomField::SrcMac))),
        None => Ok(header),
    }
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

    /// Goes from the first value to the last.
    fn motion(self, first: u64, last: u64) -> Motion {
        let range = Some((first, last));
        let motion = match self.is_random {
            true => Motion::Random { range },
            false => Motion::Count { is_up: true, range, step: 1 },
        };
        match self.hold {
            0 | 1 => motion,
            frames => Motion::Held { frames, motion: Box::new(motion) },
        }
    }

    /// One port, or a range of them.
    fn ports(self, range: Interval<u16>) -> Value {
        match range.is_one() {
            true => u64::from(range.first).into(),
            false => self.motion(range.first.into(), range.last.into()).into(),
        }
    }
}

/// Frames in a row that have the same addresses and ports.
fn held_frames(job: &SendJob) -> u32 {
    job.flow_len.unwrap_or(1)
}

/// An option with a range, its value, and how frames go through it.
type RangeOption<T> = (&'static str, T, RangeWalk);

fn mac(header: Header, field: &str, given: RangeOption<Interval<MacAddr>>) -> Result<Header, Failure> {
    let (option, range, walk) = given;
    if range.is_one() {
        return if walk.is_random {
            Err(config::nothing_to_draw(option, "02:00:00:00:00:01-02:00:00:00:00:ff"))
        } else {
            Ok(header.with(field, range.first))
        };
    }
    let number = |mac: MacAddr| mac.0.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (first, last) = (number(range.first), number(range.last));
    if first >> 32 != last >> 32 {
        return Ok(header.with(field, walk.motion(first, last)));
    }
    let low = |number: u64| number & u64::from(u32::MAX);
    Ok(header.with(field, range.first).with_part(field, (2, 4), walk.motion(low(first), low(last))))
}

fn tags(job: &SendJob) -> Result<Vec<Header>, Failure> {
    let drawn = |is_random: bool, last: u64, value: u64| match is_random {
        true => Value::Moving(Motion::Random { range: Some((0, last)) }),
        false => value.into(),
    };
    let found = super::tags::tags(job)?;
    let last = found.len().saturating_sub(1);
    let tag = |(index, tag): (usize, &VlanTag)| {
        let is_inner = index == last && job.is_random(RandomField::Vlan);
        let is_random = is_inner || index < last && job.is_random(RandomField::Svlan);
        let mut header = Header::of(Id::Vlan).with("id", drawn(is_random, 4095, tag.id.into()));
        if tag.ethertype != VlanType::CUSTOMER {
            header = header.with("tpid", u64::from(tag.ethertype.0));
        }
        if tag.priority > 0 {
            header = header.with("pcp", u64::from(tag.priority));
        }
        if tag.dei { header.with_word("dei") } else { header }
    };
    let mut tags: Vec<Header> = found.iter().enumerate().map(tag).collect();
    for entry in job.mpls.iter().flat_map(|labels| &labels.0) {
        let (class, ttl) = (entry >> 9 & 7, entry & 0xff);
        let label = drawn(job.is_random(RandomField::Mpls), 0xfffff, u64::from(entry >> 12));
        let header = Header::of(Id::Mpls).with("label", label);
        tags.push(header.with("tc", u64::from(class)).with("ttl", u64::from(ttl)));
    }
    Ok(tags)
}

fn arp(job: &SendJob) -> Result<Header, Failure> {
    let mut header = with_src_mac(Header::of(Id::Arp).with_word("request"), "smac", job)?;
    if let Some(src) = job.src {
        header = address(header, "sip", ("src", src, RangeWalk::of(job, RandomField::Src)))?;
    }
    let dst = config::destinations(job);
    address(header, "tip", ("dst", dst, RangeWalk::of(job, RandomField::Dst)))
}

fn ip(
    job: &SendJob,
    dst: RangeOption<Addresses>,
    src: RangeOption<Option<Addresses>>,
) -> Result<Header, Failure> {
    let is_v6 = dst.1.is_v6();
    let (id, ttl, tos) = if is_v6 { (Id::Ipv6, "hl", "tc") } else { (Id::Ipv4, "ttl", "tos") };
    let mut header = Header::of(id).with(ttl, u64::from(job.ttl.unwrap_or(TTL_DEFAULT)));
    if let Some(value) = job.tos {
        header = header.with(tos, u64::from(value));
    }
    header = match src {
        (name, Some(src), walk) => address(header, "sa", (name, src, walk))?,
        (name, None, walk) if walk.is_random => {
            return Err(config::nothing_to_draw(name, &format!("--{name} 198.18.0.0/15")));
        }
        (_, None, _) => header,
    };
    address(header, "da", dst)
}

fn address(header: Header, field: &str, given: RangeOption<Addresses>) -> Result<Header, Failure> {
    let (option, range, walk) = given;
    match range {
        _ if range.is_one() && walk.is_random => {
            Err(config::nothing_to_draw(option, &format!("--{option} 198.18.0.0/15")))
        }
        _ if range.is_one() => Ok(header.with(field, range.first())),
        Addresses::V4(Interval { first, last }) => {
            Ok(header.with(field, walk.motion(first.to_bits().into(), last.to_bits().into())))
        }
        Addresses::V6(Interval { first, last }) => {
            let moved = first.to_bits() ^ last.to_bits();
            let (part, bits) = match moved.leading_zeros() {
                96.. => ((12, 4), 32),
                64.. => ((8, 8), 64),
                _ => {
                    let why = "more than the last eight bytes of its addresses differ";
                    let failure = Failure::usage(format!("use {first}-{last} with --{option}"), why);
                    return Err(failure.try_this(format!("--{option} {first}/64")));
                }
            };
            let low = |address: Ipv6Addr| (address.to_bits() & ((1 << bits) - 1)) as u64;
            let header = header.with(field, IpAddr::from(first));
            Ok(header.with_part(field, part, walk.motion(low(first), low(last))))
        }
    }
}

/// The tunnel header, and the headers in front of the inner IP packet.
fn tunnel(job: &SendJob) -> Result<Vec<Header>, Failure> {
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
    let counting = RangeWalk { is_random: false, hold: held_frames(job) };
    let udp = |default: Value| {
        let given = job.tunnel_src_port.map(|range| counting.ports(range));
        Header::of(Id::Udp).with("sp", given.unwrap_or(default))
    };
    // The flow inside, as RFC 7348 and RFC 8926 recommend.
    let entropy = || Value::Moving(Motion::Entropy);
    let of = |id: Id, field: &str, number: u32| Header::of(id).with(field, u64::from(number));
    let ethernet = || Header::of(Id::Eth).with("da", INNER_DST_MAC).with("sa", INNER_SRC_MAC);
    Ok(match (job.vxlan, job.geneve, job.gtpu) {
        (Some(vni), ..) => vec![udp(entropy()), of(Id::Vxlan, "vni", vni), ethernet(), inner],
        (_, Some(vni), _) => vec![udp(entropy()), of(Id::Geneve, "vni", vni), ethernet(), inner],
        (.., Some(teid)) => vec![udp(u64::from(GTPU_PORT).into()), of(Id::Gtpu, "teid", teid), inner],
        (None, None, None) => vec![Header::of(Id::Gre), inner],
    })
}

fn transport(job: &SendJob) -> Vec<Element> {
    if let Some(kind) = job.icmp {
        return icmp(kind, job.is_inner_ipv6());
    }
    let port = |range: Option<Interval<u16>>, field: RandomField| {
        RangeWalk::of(job, field).ports(range.unwrap_or(config::PORT_DEFAULT))
    };
    let header = Header::of(if job.tcp { Id::Tcp } else { Id::Udp })
        .with("sp", port(job.udp_src, RandomField::UdpSrc))
        .with("dp", port(job.udp_dst, RandomField::UdpDst));
    if !job.tcp {
        return vec![header.into()];
    }
    let header = header.with_word(if job.syn { "syn" } else { "ack" });
    vec![header.with("win", u64::from(TCP_WINDOW)).into()]
}

/// An echo message, numbered from 1.
fn icmp(kind: IcmpKind, is_v6: bool) -> Vec<Element> {
    let word = match kind {
        IcmpKind::Echo => "echorequest",
        IcmpKind::Reply => "echoreply",
    };
    if is_v6 {
        // trafgen's icmp6() ends before the identifier and the number.
        let header = Header::of(Id::Icmp6).with_word(word);
        return vec![header.into(), Element::Bytes(vec![0, 1, 0]), Element::Counter];
    }
    let number = Motion::Count { is_up: true, range: Some((1, 65535)), step: 1 };
    vec![Header::of(Id::Icmp4).with_word(word).with("id", 1u64).with("seq", number).into()]
}

fn payload(job: &SendJob) -> Result<Option<Vec<u8>>, Failure> {
    let has_size = job.size.is_some() || job.mix.is_some();
    Ok(match &job.payload {
        // Frames of options that describe other headers are as long as these.
        None if !job.describes_packet() && !has_size => Some(vec![0; MARK_LEN]),
        None => None,
        Some(PayloadText::Text(text)) => Some(text.as_bytes().to_vec()),
        Some(PayloadText::Bytes(bytes)) => Some(bytes.clone()),
        Some(PayloadText::File(path)) => {
            Some(waiting_read::read(path).map_err(|why| Failure::read(path, why))?)
        }
    })
}
