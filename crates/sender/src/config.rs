//! From the arguments of `wirerate send` to a configuration in pktgen's terms.
//!
//! Ranges include both ends, on the command line and in the settings made from it; pktgen excludes
//! the end of port ranges and of random ranges.

use super::job::{RandomField, SendJob, SignatureName};
use super::{flows, tags};
use packet::{
    Config, FLOWS_MAX, Flags, IMIX_ENTRIES_MAX, ImixEntry, MPLS_LABELS_MAX, MPLS_RANDOM, MacAddr,
    SignatureLevel, XmitMode,
};
use program::outcome::Failure;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use units::{Addresses, Interval, Nanos, Queues};

/// Destination when only a MAC address was given: an address for benchmarks (RFC 2544).
const DST_DEFAULT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Shortest frame on an Ethernet, without FCS.
const SIZE_DEFAULT: u32 = 60;
/// The discard port, as in pktgen.
pub const PORT_DEFAULT: Interval<u16> = Interval { first: 9, last: 9 };
/// Most flows of a thread in full signatures.
const FLOWS_IN_TURN_MAX: u64 = 1 << 20;

/// The configuration that `job` asks for, whose frames are pktgen's. The destination MAC stays zero
/// when it was not given.
///
/// # Errors
/// Bad usage when arguments exclude each other or pktgen has no setting for them.
pub fn config(job: &SendJob) -> Result<Config, Failure> {
    debug_assert!(!job.has_own_frames(), "these have packets");
    let job = &*flows::spread(job)?;
    let mut config = Config { seed: job.seed, are_ends_included: true, ..Config::default() };
    config.ttl = job.ttl.unwrap_or(config.ttl);
    check_duration(job)?;
    config.count = count(job);
    set_flags(&mut config, job)?;
    set_signature(&mut config, job)?;
    set_addresses(&mut config, job)?;
    (config.src_mac, config.src_mac_count) =
        macs("--src-mac", job.src_mac, job.is_random(RandomField::SrcMac))?;
    (config.dst_mac, config.dst_mac_count) =
        macs("--dst-mac", job.dst_mac, job.is_random(RandomField::DstMac))?;
    (config.udp_src_min, config.udp_src_max) =
        ports("--udp-src", job.udp_src.unwrap_or(PORT_DEFAULT), job.is_random(RandomField::UdpSrc))?;
    (config.udp_dst_min, config.udp_dst_max) =
        ports("--udp-dst", job.udp_dst.unwrap_or(PORT_DEFAULT), job.is_random(RandomField::UdpDst))?;
    set_tags(&mut config, job)?;
    set_sizes(&mut config, job)?;
    set_flows(&mut config, job)?;
    config.signature.flow_count = flows_in_turn(&config);
    set_ipsec(&mut config, job)?;
    set_memory(&mut config, job)?;
    config.skb_priority = job.skb_priority.unwrap_or(0);
    (config.tos, config.traffic_class) = (job.tos.unwrap_or(0), job.tos.unwrap_or(0));
    config.xmit_mode = job.xmit_mode;
    Ok(config)
}

/// 0 seconds, perhaps computed by a script, must not mean a run without end.
pub(super) fn check_duration(job: &SendJob) -> Result<(), Failure> {
    match job.duration {
        Some(Nanos(0)) => Err(Failure::usage("send for 0 s", "the duration is zero")
            .try_this("--duration 1s, or --count 0 to send until Ctrl-C")),
        _ => Ok(()),
    }
}

/// Frames to send, 0 for no end: pktgen's own default unless a duration ends the run.
pub fn count(job: &SendJob) -> u64 {
    match (job.count, job.duration) {
        (Some(count), _) => count.0,
        (None, Some(_)) => 0,
        (None, None) if job.ramp.is_some() => 0,
        (None, None) => Config::default().count,
    }
}

/// The addresses that frames go to.
pub fn destinations(job: &SendJob) -> Addresses {
    job.dst.unwrap_or(Addresses::V4(Interval::one(DST_DEFAULT)))
}

impl SendJob {
    /// How long to send, in nanoseconds; 0 for no end.
    pub fn duration_ns(&self) -> u64 {
        match (self.duration, self.count, self.ramp) {
            (Some(duration), ..) => duration.0,
            (None, None, Some(ramp)) => ramp.over_ns(),
            _ => 0,
        }
    }

    /// True when `field` is to be drawn at random.
    pub fn is_random(&self, field: RandomField) -> bool {
        self.random.contains(&field)
    }

    /// True for frames in the language of trafgen.
    pub fn frames_are_given(&self) -> bool {
        self.frame.is_some() || self.frames.is_some()
    }

    /// True when the frames are not pktgen's.
    pub fn has_own_frames(&self) -> bool {
        self.frames_are_given() || self.has_packet_options()
    }

    /// True when the frames are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.dst.or(self.src).is_some_and(|addresses| addresses.is_v6())
    }
}

fn set_flags(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    for (on, flag) in [
        (job.is_ipv6(), Flags::IPV6),
        (job.udp_checksum, Flags::UDPCSUM),
        (job.no_timestamp, Flags::NO_TIMESTAMP),
        (job.is_random(RandomField::Src), Flags::IPSRC_RND),
        (job.is_random(RandomField::Dst), Flags::IPDST_RND),
        (job.is_random(RandomField::UdpSrc), Flags::UDPSRC_RND),
        (job.is_random(RandomField::UdpDst), Flags::UDPDST_RND),
        (job.is_random(RandomField::Size), Flags::TXSIZE_RND),
        (job.is_random(RandomField::SrcMac), Flags::MACSRC_RND),
        (job.is_random(RandomField::DstMac), Flags::MACDST_RND),
        (job.is_random(RandomField::Vlan), Flags::VID_RND),
        (job.is_random(RandomField::Svlan), Flags::SVID_RND),
        (job.is_random(RandomField::Mpls), Flags::MPLS_RND),
    ] {
        config.flags.set(flag, on);
    }
    let missing = |field, option| Err(nothing_to_draw(field, option));
    match () {
        () if job.is_random(RandomField::Vlan) && job.vlan.is_none() => {
            missing("vlan", "--vlan ID (any: it is replaced)")
        }
        () if job.is_random(RandomField::Svlan) && !has_outer_tag(job) => {
            missing("svlan", "--svlan ID (any: it is replaced)")
        }
        () if job.is_random(RandomField::Mpls) && job.mpls.is_none() => {
            missing("mpls", "--mpls LABEL (any: it is replaced)")
        }
        () if job.is_random(RandomField::Queue) && !has_queue_range(job) => missing("queue", "--queues 0-3"),
        () if job.is_random(RandomField::Flow) && job.flow_len.is_none() => {
            missing("flow", "--dst 198.18.0.0/16 --flows 100 --flow-len 1")
        }
        () if job.is_random(RandomField::InnerDst) || job.is_random(RandomField::InnerSrc) => {
            missing("inner addresses", "--gre --inner-dst 198.19.0.0/16")
        }
        () => Ok(()),
    }
}

fn has_queue_range(job: &SendJob) -> bool {
    matches!(job.queues, Some(Queues::Listed(queues)) if !queues.is_one())
}

fn has_outer_tag(job: &SendJob) -> bool {
    job.svlan.is_some() || job.vlan.as_ref().is_some_and(|ids| ids.0.len() > 1)
}

/// `--random field` without a range to draw from.
pub(super) fn nothing_to_draw(field: &str, option: &str) -> Failure {
    Failure::usage(format!("draw {field} at random"), "it needs a range").try_this(option)
}

/// A destination is needed, and both addresses have one IP version.
pub(super) fn check_addresses(job: &SendJob) -> Result<(), Failure> {
    if job.dst.is_none() && job.dst_mac.is_none() {
        if job.device.parse::<std::net::IpAddr>().is_ok() {
            return Err(Failure::usage(format!("send on {}", job.device), "an address is no device")
                .try_this(format!("wirerate send DEV --dst {}", job.device)));
        }
        return Err(Failure::usage(format!("send on {}", job.device), "there is no destination")
            .try_this("--dst ADDRESS (a neighbour, or anything behind one)")
            .try_this("--dst-mac MAC (frames then go to 198.18.0.1)"));
    }
    if let (Some(dst), Some(src)) = (job.dst, job.src)
        && dst.is_v6() != src.is_v6()
    {
        return Err(Failure::usage(
            format!("send from {src} to {dst}"),
            "source and destination have different IP versions",
        ));
    }
    Ok(())
}

fn set_addresses(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    check_addresses(job)?;
    let random = job.is_random(RandomField::Dst);
    match job.dst {
        Some(Addresses::V6(dst)) => set_dst6(config, dst, random)?,
        Some(Addresses::V4(dst)) => (config.dst_min, config.dst_max) = v4_range("dst", dst, random)?,
        None if config.flags.has(Flags::IPV6) => {
            return Err(Failure::usage("send over IPv6", "there is no destination").try_this("--dst ADDRESS"));
        }
        None if random => return Err(nothing_to_draw("dst", "--dst 198.18.0.0/15")),
        None => config.dst_min = Some(DST_DEFAULT),
    }
    let random = job.is_random(RandomField::Src);
    match job.src {
        Some(Addresses::V6(src)) => set_src6(config, src, random)?,
        Some(Addresses::V4(src)) => (config.src_min, config.src_max) = v4_range("src", src, random)?,
        None if random => return Err(nothing_to_draw("src", "--src 198.18.0.0/15")),
        None => {}
    }
    Ok(())
}

/// pktgen's first and last IPv4 address.
fn v4_range(
    field: &str,
    range: Interval<Ipv4Addr>,
    random: bool,
) -> Result<(Option<Ipv4Addr>, Option<Ipv4Addr>), Failure> {
    if range.is_one() {
        return match random {
            true => Err(nothing_to_draw(field, &format!("--{field} 198.18.0.0/15"))),
            false => Ok((Some(range.first), None)),
        };
    }
    Ok((Some(range.first), Some(range.last)))
}

/// IPv6 destinations: a range in the last eight bytes is counted or drawn. A larger block is drawn
/// as pktgen does: (random OR first) AND last.
fn set_dst6(config: &mut Config, range: Interval<Ipv6Addr>, random: bool) -> Result<(), Failure> {
    config.dst6 = range.first;
    match low_range(range) {
        _ if range.is_one() && random => return Err(nothing_to_draw("dst", "--dst fd00::/112")),
        _ if range.is_one() => {}
        Some(last) => config.dst6_last = Some(last),
        None if random && is_block(range) && !range.first.is_unspecified() => {
            (config.dst6_min, config.dst6_max) = (range.first, range.last);
        }
        None => {
            let why = "more than the last eight bytes of its addresses differ";
            return Err(Failure::usage(format!("send to {range}"), why)
                .try_this(format!("--dst {}/64", range.first))
                .try_this("--random dst, for an aligned block such as fd00::/48"));
        }
    }
    Ok(())
}

/// The last address of a range whose addresses differ in their last eight bytes only.
fn low_range(range: Interval<Ipv6Addr>) -> Option<Ipv6Addr> {
    (range.first.to_bits() >> 64 == range.last.to_bits() >> 64).then_some(range.last)
}

/// True if all values of some low bits are in a range, and no other addresses.
fn is_block(range: Interval<Ipv6Addr>) -> bool {
    let (first, last) = (range.first.to_bits(), range.last.to_bits());
    let free = first ^ last;
    free & free.wrapping_add(1) == 0 && first & free == 0
}

fn set_src6(config: &mut Config, range: Interval<Ipv6Addr>, random: bool) -> Result<(), Failure> {
    if random && range.is_one() {
        return Err(nothing_to_draw("src", "--src fd00::/112"));
    }
    config.src6 = range.first;
    if !range.is_one() {
        let why = "more than the last eight bytes of its addresses differ";
        let last = low_range(range).ok_or_else(|| {
            let failure = Failure::usage(format!("send from {range}"), why);
            failure.try_this(format!("--src {}/64", range.first))
        })?;
        config.src6_last = Some(last);
    }
    Ok(())
}

/// The first MAC address and the number of addresses. pktgen increments the last five bytes, for up
/// to 2^32 addresses.
fn macs(option: &str, range: Option<Interval<MacAddr>>, random: bool) -> Result<(MacAddr, u32), Failure> {
    let number = |mac: MacAddr| mac.0.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let example = || format!("{option} 02:00:00:00:00:01-02:00:00:00:00:ff");
    let Some(Interval { first, last }) = range.filter(|range| !random || !range.is_one()) else {
        return match (random, range) {
            (true, _) => Err(nothing_to_draw(option.trim_start_matches("--"), &example())),
            (false, _) => Ok((MacAddr::ZERO, 0)),
        };
    };
    if first.is_zero() {
        return Err(Failure::usage(format!("use {option} {first}"), "all zero is not an address")
            .try_this(format!("{option} 02:00:00:00:00:01")));
    }
    if first == last {
        return Ok((first, 0));
    }
    let count = number(last) - number(first) + 1;
    match u32::try_from(count) {
        Ok(count) if first.0[0] == last.0[0] => Ok((first, count)),
        _ => Err(Failure::usage(
            format!("use {option} {first}-{last}"),
            format!("{count} addresses; a range has the same first byte and at most 4294967295 addresses"),
        )
        .try_this(example())),
    }
}

/// The first and the last port.
fn ports(option: &str, range: Interval<u16>, random: bool) -> Result<(u16, u16), Failure> {
    if range.is_one() {
        return match random {
            true => Err(nothing_to_draw(option.trim_start_matches("--"), &format!("{option} 1000-1999"))),
            false => Ok((range.first, range.first)),
        };
    }
    Ok((range.first, range.last))
}

fn set_sizes(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    let shortest = shortest_frame(config);
    let signature = match config.signature.level {
        SignatureLevel::Pktgen => "16 for pktgen's".to_owned(),
        level => format!("{} for the signature", level.byte_count()),
    };
    let random = job.is_random(RandomField::Size);
    if let Some(mix) = &job.mix {
        if mix.0.len() > IMIX_ENTRIES_MAX {
            return Err(Failure::usage("use --imix", format!("it has more than {IMIX_ENTRIES_MAX} entries")));
        }
        let lengths = shortest..=packet::FRAME_LEN_MAX;
        mix.0.iter().try_for_each(|(size, _)| check_size("--imix", *size, &lengths, &signature))?;
        config.imix = mix.0.iter().map(|(size, weight)| ImixEntry { size: *size, weight: *weight }).collect();
    }
    let default = Interval::one(SIZE_DEFAULT.max(shortest));
    let size = job.size.unwrap_or(default);
    let lengths = shortest..=packet::FRAME_LEN_MAX;
    check_size("--size", size.first, &lengths, &signature)?;
    check_size("--size", size.last, &lengths, &signature)?;
    if random && size.is_one() {
        return Err(nothing_to_draw("size", "--size 60-1514"));
    }
    config.min_pkt_size = size.first;
    config.max_pkt_size = size.last;
    Ok(())
}

/// The error for the number of a run that the frames do not carry.
pub(super) fn without_run(run: u16) -> Failure {
    Failure::usage(format!("use --run {run}"), "only full signatures and marks have a run")
        .try_this("--signature full")
}

/// The signature of the frames, without its flows.
fn set_signature(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    config.signature.level = job.signature.and_then(SignatureName::level).unwrap_or_default();
    config.signature.run = job.run.unwrap_or(0);
    match job.run {
        Some(run) if config.signature.level < SignatureLevel::Full && job.signature.is_some() => {
            Err(without_run(run))
        }
        Some(_) if job.signature.is_none() => {
            config.signature.level = SignatureLevel::Full;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Sets the longest signature up to `longest` that the shortest frame has space for.
pub fn sign(config: &mut Config, longest: SignatureLevel) {
    let shortest = config.imix.iter().map(|entry| entry.size).min().unwrap_or(config.min_pkt_size);
    let levels = [SignatureLevel::Full, SignatureLevel::Short, SignatureLevel::Pktgen];
    for level in levels.into_iter().filter(|level| *level <= longest) {
        config.signature.level = level;
        if shortest_frame(config) <= shortest {
            return;
        }
    }
}

/// Flows that the frames go through in turn: the combinations of addresses and ports until the
/// first one returns. 1 if some are random or there are more than a receiver has lines for.
fn flows_in_turn(config: &Config) -> u32 {
    const RANDOM: [Flags; 6] = [
        Flags::IPSRC_RND,
        Flags::IPDST_RND,
        Flags::UDPSRC_RND,
        Flags::UDPDST_RND,
        Flags::MACSRC_RND,
        Flags::MACDST_RND,
    ];
    let is_random = RANDOM.into_iter().any(|flag| config.flags.has(flag));
    if is_random || !config.dst6_min.is_unspecified() {
        return 1;
    }
    let counts = [
        address_count(config.src_min, config.src_max),
        address_count(config.dst_min, config.dst_max),
        u64::from(config.udp_src_max.saturating_sub(config.udp_src_min)) + 1,
        u64::from(config.udp_dst_max.saturating_sub(config.udp_dst_min)) + 1,
        low_count(config.src6, config.src6_last),
        low_count(config.dst6, config.dst6_last),
        config.src_mac_count.into(),
        config.dst_mac_count.into(),
    ];
    // No product overflows: it is at most the limit before each step.
    let mut flows = 1;
    for count in counts.map(|count| count.max(1)) {
        flows = flows / flows::greatest_divisor(flows, count) * count;
        if flows > FLOWS_IN_TURN_MAX {
            return 1;
        }
    }
    flows as u32
}

/// Addresses from `first` to `last`; one without a range.
fn address_count(first: Option<Ipv4Addr>, last: Option<Ipv4Addr>) -> u64 {
    match (first, last) {
        (Some(first), Some(last)) => u64::from(last.to_bits().saturating_sub(first.to_bits())) + 1,
        _ => 1,
    }
}

/// IPv6 addresses from `first` to `last`; one without a range.
fn low_count(first: Ipv6Addr, last: Option<Ipv6Addr>) -> u64 {
    last.map_or(1, |last| (last.to_bits() as u64).saturating_sub(first.to_bits() as u64).saturating_add(1))
}

/// Bytes of the headers and the signature: no frame is shorter.
fn shortest_frame(config: &Config) -> u32 {
    config.default_size() + config.tags_len()
}

fn check_size(
    option: &str,
    size: u32,
    lengths: &RangeInclusive<u32>,
    signature: &str,
) -> Result<(), Failure> {
    let (shortest, longest) = (*lengths.start(), *lengths.end());
    if size < shortest {
        return Err(Failure::usage(
            format!("use {option} {size}"),
            format!(
                "the headers of these frames take {shortest} bytes (Ethernet, tags, IP, UDP and {signature})"
            ),
        )
        .try_this(format!("{option} {}", shortest.max(SIZE_DEFAULT))));
    }
    if size > longest {
        return Err(Failure::usage(
            format!("use {option} {size}"),
            format!("a frame has at most {longest} bytes here"),
        ));
    }
    Ok(())
}

/// `--flow-len`: frames in a row of the flows that [`flows::spread`] made of ranges, or of those of
/// pktgen's flow table, in which each flow is a destination.
fn set_flows(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    let Some(flow_len) = job.flow_len else { return Ok(()) };
    let Some(flows) = job.flows else {
        (config.hold, config.signature.flow_len) = (flow_len, flow_len);
        return Ok(());
    };
    if flows > FLOWS_MAX {
        let act = format!("use --flows {flows} with --flow-len {flow_len} and --random dst");
        return Err(Failure::usage(act, format!("it is a table of at most {FLOWS_MAX} flows"))
            .try_this(format!("--flows {flows} --flow-len {flow_len}, without --random dst")));
    }
    config.flows = flows;
    config.flow_len = flow_len;
    config.flags.set(Flags::FLOW_SEQ, !job.is_random(RandomField::Flow));
    Ok(())
}

/// VLAN tags or MPLS labels. The parser rejects both together, as pktgen's commands do.
///
/// # Errors
/// Bad usage for more labels than pktgen has.
pub fn set_tags(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    let tags = tags::tags(job)?;
    if let Some(inner) = tags.last() {
        (config.vlan_id, config.vlan_type) = (Some(inner.id), inner.ethertype.0);
        (config.vlan_p, config.vlan_cfi) = (inner.priority, inner.dei.into());
    }
    if let [outer, _] = &tags[..] {
        (config.svlan_id, config.svlan_type) = (Some(outer.id), outer.ethertype.0);
        (config.svlan_p, config.svlan_cfi) = (outer.priority, outer.dei.into());
    }
    let Some(labels) = &job.mpls else { return Ok(()) };
    if labels.0.len() > MPLS_LABELS_MAX {
        return Err(Failure::usage("use --mpls", format!("it has more than {MPLS_LABELS_MAX} labels")));
    }
    let mark = if job.is_random(RandomField::Mpls) { MPLS_RANDOM } else { 0 };
    config.mpls = labels.0.iter().map(|label| label | mark).collect();
    if config.mpls.iter().any(|label| label & MPLS_RANDOM != 0) {
        config.flags.set(Flags::MPLS_RND, true);
    }
    Ok(())
}

/// pktgen looks an association up when a flow begins. Without `--flows`, each frame is a flow.
///
/// # Errors
/// Bad usage over IPv6.
pub fn set_ipsec(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    if !job.ipsec {
        return Ok(());
    }
    if config.flags.has(Flags::IPV6) {
        return Err(Failure::usage("use --ipsec", "IPsec is for IPv4 only, as in pktgen"));
    }
    config.flags.set(Flags::IPSEC, true);
    config.spi = job.spi.unwrap_or(0);
    if config.flows == 0 {
        (config.flows, config.flow_len) = (1, 1);
        config.flags.set(Flags::FLOW_SEQ, true);
    }
    Ok(())
}

/// Memory of the frames, their queues, and how often each is sent.
///
/// # Errors
/// Bad usage for copies into a receive path.
pub fn set_memory(config: &mut Config, job: &SendJob) -> Result<(), Failure> {
    if job.clone_skb.is_some() && job.xmit_mode == XmitMode::NetifReceive {
        let act = "use --clone-skb with --xmit-mode netif_receive";
        return Err(Failure::usage(act, "the receive path keeps each frame, so it cannot be sent again"));
    }
    if let Some(Queues::Listed(queues)) = job.queues {
        (config.queue_map_min, config.queue_map_max) = (queues.first, queues.last);
    }
    config.flags.set(Flags::QUEUE_MAP_RND, job.is_random(RandomField::Queue));
    config.flags.set(Flags::QUEUE_MAP_CPU, job.queues == Some(Queues::OfCpu));
    config.clone_skb = job.clone_skb.unwrap_or(0);
    config.frags = job.frags.unwrap_or(0);
    if let Some(node) = job.node {
        config.node = node as i32;
        config.flags.set(Flags::NODE, true);
    }
    Ok(())
}
