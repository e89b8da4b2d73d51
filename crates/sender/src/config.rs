//! From the arguments of `wirerate send` to a configuration in pktgen's terms.
//!
//! Ranges include both ends, on the command line and in the settings made from it; pktgen excludes
//! the end of port ranges and of random ranges.

use super::args::{Args, Entry, RandomField, SignatureName};
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

/// The configuration that `args` ask for. The destination MAC stays zero when it was not given.
///
/// # Errors
/// Bad usage when arguments exclude each other or pktgen has no setting for them.
pub fn config(args: &Args) -> Result<Config, Failure> {
    if args.has_own_frames() {
        let why = "only `wirerate send` and `wirerate measure` send them";
        return Err(Failure::usage(format!("use {} here", args.own_frames_option()), why));
    }
    let args = &*flows::spread(args)?;
    let mut config = Config { seed: args.seed, are_ends_included: true, ..Config::default() };
    config.ttl = args.ttl.unwrap_or(config.ttl);
    check_duration(args)?;
    config.count = count(args);
    set_flags(&mut config, args)?;
    set_signature(&mut config, args)?;
    set_addresses(&mut config, args)?;
    (config.src_mac, config.src_mac_count) =
        macs("--src-mac", args.src_mac, args.is_random(RandomField::SrcMac))?;
    (config.dst_mac, config.dst_mac_count) =
        macs("--dst-mac", args.dst_mac, args.is_random(RandomField::DstMac))?;
    (config.udp_src_min, config.udp_src_max) =
        ports("--udp-src", args.udp_src.unwrap_or(PORT_DEFAULT), args.is_random(RandomField::UdpSrc))?;
    (config.udp_dst_min, config.udp_dst_max) =
        ports("--udp-dst", args.udp_dst.unwrap_or(PORT_DEFAULT), args.is_random(RandomField::UdpDst))?;
    set_tags(&mut config, args)?;
    set_sizes(&mut config, args)?;
    set_flows(&mut config, args)?;
    config.signature.flow_count = flows_in_turn(&config);
    set_ipsec(&mut config, args)?;
    set_memory(&mut config, args)?;
    config.skb_priority = args.skb_priority.unwrap_or(0);
    (config.tos, config.traffic_class) = (args.tos.unwrap_or(0), args.tos.unwrap_or(0));
    config.xmit_mode = xmit_mode(args);
    Ok(config)
}

/// Where frames enter the kernel.
pub fn xmit_mode(args: &Args) -> XmitMode {
    args.xmit_mode.into()
}

/// 0 seconds, perhaps computed by a script, must not mean a run without end.
pub(super) fn check_duration(args: &Args) -> Result<(), Failure> {
    match args.duration {
        Some(Nanos(0)) => Err(Failure::usage("send for 0 s", "the duration is zero")
            .try_this("--duration 1s, or --count 0 to send until Ctrl-C")),
        _ => Ok(()),
    }
}

/// Frames to send, 0 for no end: pktgen's own default unless a duration ends the run.
pub fn count(args: &Args) -> u64 {
    match (args.count, args.duration) {
        (Some(count), _) => count.0,
        (None, Some(_)) => 0,
        (None, None) if args.ramp.is_some() => 0,
        (None, None) => Config::default().count,
    }
}

/// The addresses that frames go to.
pub fn destinations(args: &Args) -> Addresses {
    args.dst.unwrap_or(Addresses::V4(Interval::one(DST_DEFAULT)))
}

impl Args {
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

    /// True when the frames are not pktgen's.
    pub fn has_own_frames(&self) -> bool {
        self.frame.is_some() || self.frames.is_some() || self.has_packet_options()
    }

    /// The option that asks for such frames.
    pub fn own_frames_option(&self) -> &'static str {
        match () {
            () if self.frame.is_some() => "--frame",
            () if self.frames.is_some() => "--frames",
            () => self.packet_option(),
        }
    }

    /// True when the frames are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.dst.or(self.src).is_some_and(|addresses| addresses.is_v6())
    }
}

fn set_flags(config: &mut Config, args: &Args) -> Result<(), Failure> {
    for (on, flag) in [
        (args.is_ipv6(), Flags::IPV6),
        (args.udp_checksum, Flags::UDPCSUM),
        (args.no_timestamp, Flags::NO_TIMESTAMP),
        (args.is_random(RandomField::Src), Flags::IPSRC_RND),
        (args.is_random(RandomField::Dst), Flags::IPDST_RND),
        (args.is_random(RandomField::UdpSrc), Flags::UDPSRC_RND),
        (args.is_random(RandomField::UdpDst), Flags::UDPDST_RND),
        (args.is_random(RandomField::Size), Flags::TXSIZE_RND),
        (args.is_random(RandomField::SrcMac), Flags::MACSRC_RND),
        (args.is_random(RandomField::DstMac), Flags::MACDST_RND),
        (args.is_random(RandomField::Vlan), Flags::VID_RND),
        (args.is_random(RandomField::Svlan), Flags::SVID_RND),
        (args.is_random(RandomField::Mpls), Flags::MPLS_RND),
    ] {
        config.flags.set(flag, on);
    }
    let missing = |field, option| Err(nothing_to_draw(field, option));
    match () {
        () if args.is_random(RandomField::Vlan) && args.vlan.is_none() => {
            missing("vlan", "--vlan ID (any: it is replaced)")
        }
        () if args.is_random(RandomField::Svlan) && !has_outer_tag(args) => {
            missing("svlan", "--svlan ID (any: it is replaced)")
        }
        () if args.is_random(RandomField::Mpls) && args.mpls.is_none() => {
            missing("mpls", "--mpls LABEL (any: it is replaced)")
        }
        () if args.is_random(RandomField::Queue) && !has_queue_range(args) => {
            missing("queue", "--queues 0-3")
        }
        () if args.is_random(RandomField::Flow) && args.flow_len.is_none() => {
            missing("flow", "--dst 198.18.0.0/16 --flows 100 --flow-len 1")
        }
        () if args.is_random(RandomField::InnerDst) || args.is_random(RandomField::InnerSrc) => {
            missing("inner addresses", "--gre --inner-dst 198.19.0.0/16")
        }
        () => Ok(()),
    }
}

fn has_queue_range(args: &Args) -> bool {
    matches!(args.queues, Some(Queues::Listed(queues)) if !queues.is_one())
}

fn has_outer_tag(args: &Args) -> bool {
    args.svlan.is_some() || args.vlan.as_ref().is_some_and(|ids| ids.0.len() > 1)
}

/// `--random field` without a range to draw from.
pub(super) fn nothing_to_draw(field: &str, option: &str) -> Failure {
    Failure::usage(format!("draw {field} at random"), "it needs a range").try_this(option)
}

/// A destination is needed, and both addresses have one IP version.
pub(super) fn check_addresses(args: &Args) -> Result<(), Failure> {
    if args.dst.is_none() && args.dst_mac.is_none() {
        if args.device.parse::<std::net::IpAddr>().is_ok() {
            return Err(Failure::usage(format!("send on {}", args.device), "an address is no device")
                .try_this(format!("wirerate send DEV --dst {}", args.device)));
        }
        return Err(Failure::usage(format!("send on {}", args.device), "there is no destination")
            .try_this("--dst ADDRESS (a neighbour, or anything behind one)")
            .try_this("--dst-mac MAC (frames then go to 198.18.0.1)"));
    }
    if let (Some(dst), Some(src)) = (args.dst, args.src)
        && dst.is_v6() != src.is_v6()
    {
        return Err(Failure::usage(
            format!("send from {src} to {dst}"),
            "source and destination have different IP versions",
        ));
    }
    Ok(())
}

fn set_addresses(config: &mut Config, args: &Args) -> Result<(), Failure> {
    check_addresses(args)?;
    let random = args.is_random(RandomField::Dst);
    match args.dst {
        Some(Addresses::V6(dst)) => set_dst6(config, dst, random)?,
        Some(Addresses::V4(dst)) => (config.dst_min, config.dst_max) = v4_range("dst", dst, random)?,
        None if config.flags.has(Flags::IPV6) => {
            return Err(Failure::usage("send over IPv6", "there is no destination").try_this("--dst ADDRESS"));
        }
        None if random => return Err(nothing_to_draw("dst", "--dst 198.18.0.0/15")),
        None => config.dst_min = Some(DST_DEFAULT),
    }
    let random = args.is_random(RandomField::Src);
    match args.src {
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

fn set_sizes(config: &mut Config, args: &Args) -> Result<(), Failure> {
    let shortest = shortest_frame(config);
    let signature = match config.signature.level {
        SignatureLevel::Pktgen => "16 for pktgen's".to_owned(),
        level => format!("{} for the signature", level.byte_count()),
    };
    let random = args.is_random(RandomField::Size);
    if let Some(mix) = args.mix() {
        if mix.0.len() > IMIX_ENTRIES_MAX {
            return Err(Failure::usage("use --imix", format!("it has more than {IMIX_ENTRIES_MAX} entries")));
        }
        let lengths = shortest..=packet::FRAME_LEN_MAX;
        mix.0.iter().try_for_each(|(size, _)| check_size("--imix", *size, &lengths, &signature))?;
        config.imix = mix.0.iter().map(|(size, weight)| ImixEntry { size: *size, weight: *weight }).collect();
    }
    let default = Interval::one(SIZE_DEFAULT.max(shortest));
    let size = args.sizes().unwrap_or(default);
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

/// The signature of the frames, without its flows.
fn set_signature(config: &mut Config, args: &Args) -> Result<(), Failure> {
    let level = args.signature.map_or_else(|| Some(SignatureLevel::default()), SignatureName::level);
    config.signature.level = level.ok_or_else(|| {
        let why = "the mark is for frames of --frame and options such as --tcp; pktgen's have a header";
        Failure::usage("use --signature mark with pktgen's frames", why).try_this("--signature full")
    })?;
    config.signature.run = args.run.unwrap_or(0);
    match args.run {
        Some(run) if config.signature.level < SignatureLevel::Full && args.signature.is_some() => {
            Err(Failure::usage(format!("use --run {run}"), "only full signatures have a run")
                .try_this("--signature full"))
        }
        Some(_) if args.signature.is_none() => {
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
fn set_flows(config: &mut Config, args: &Args) -> Result<(), Failure> {
    let Some(flow_len) = args.flow_len else { return Ok(()) };
    let Some(flows) = args.flows else {
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
    config.flags.set(Flags::FLOW_SEQ, !args.is_random(RandomField::Flow));
    Ok(())
}

/// VLAN tags or MPLS labels. The parser rejects both together, as pktgen's commands do.
///
/// # Errors
/// Bad usage for more labels than pktgen has.
pub fn set_tags(config: &mut Config, args: &Args) -> Result<(), Failure> {
    let tags = tags::tags(args)?;
    if let Some(inner) = tags.last() {
        (config.vlan_id, config.vlan_type) = (Some(inner.id), inner.ethertype.0);
        (config.vlan_p, config.vlan_cfi) = (inner.priority, inner.dei.into());
    }
    if let [outer, _] = &tags[..] {
        (config.svlan_id, config.svlan_type) = (Some(outer.id), outer.ethertype.0);
        (config.svlan_p, config.svlan_cfi) = (outer.priority, outer.dei.into());
    }
    let Some(labels) = &args.mpls else { return Ok(()) };
    if labels.0.len() > MPLS_LABELS_MAX {
        return Err(Failure::usage("use --mpls", format!("it has more than {MPLS_LABELS_MAX} labels")));
    }
    let mark = if args.is_random(RandomField::Mpls) { MPLS_RANDOM } else { 0 };
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
pub fn set_ipsec(config: &mut Config, args: &Args) -> Result<(), Failure> {
    if !args.ipsec {
        return Ok(());
    }
    if config.flags.has(Flags::IPV6) {
        return Err(Failure::usage("use --ipsec", "IPsec is for IPv4 only, as in pktgen"));
    }
    config.flags.set(Flags::IPSEC, true);
    config.spi = args.spi.unwrap_or(0);
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
pub fn set_memory(config: &mut Config, args: &Args) -> Result<(), Failure> {
    if args.clone_skb.is_some() && args.xmit_mode == Entry::NetifReceive {
        let act = "use --clone-skb with --xmit-mode netif_receive";
        return Err(Failure::usage(act, "the receive path keeps each frame, so it cannot be sent again"));
    }
    if let Some(Queues::Listed(queues)) = args.queues {
        (config.queue_map_min, config.queue_map_max) = (queues.first, queues.last);
    }
    config.flags.set(Flags::QUEUE_MAP_RND, args.is_random(RandomField::Queue));
    config.flags.set(Flags::QUEUE_MAP_CPU, args.queues == Some(Queues::OfCpu));
    config.clone_skb = args.clone_skb.unwrap_or(0);
    config.frags = args.frags.unwrap_or(0);
    if let Some(node) = args.node {
        config.node = node as i32;
        config.flags.set(Flags::NODE, true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    /// What `wirerate send veth0 WORDS` asks for.
    fn ask(words: &str) -> Result<Config, Failure> {
        config(&args_of(&format!("veth0 {words}")).unwrap())
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
        let drawn =
            ask("--dst 10.0.0.1-10.0.0.4 --src 10.1.0.0/16 --size 60-64 --random dst,src,size").unwrap();
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
        let config =
            ask("--dst 10.0.0.1 --vlan 5 --vlan-prio 7 --svlan 6 --svlan-prio 3 --svlan-dei").unwrap();
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
        let new = "--vlan 5 --vlan-prio 7 --vlan-dei --svlan 6 --svlan-prio 3 --svlan-dei --udp-checksum --clone-skb 7";
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
        let config =
            ask("--dst 10.0.0.1 --clone 7 --frags 3 --node 0 --skb-priority 6 --queues cpu").unwrap();
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
        assert!(refusal("--dst 10.0.0.1 --signature mark").contains("try: --signature full"));
        assert!(refusal("--frame {}").contains("only `wirerate send` and `wirerate measure` send them"));
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
}
