//! The packets of a job whose frames are not pktgen's: those of `--frame` and `--frames`, in
//! trafgen's language, and those that options such as `--tcp` describe.

use super::config;
use super::device::TxDevice;
use super::job::{RandomField, SendJob, SignatureName};
use super::next_hop::{self, NextHopMac};
use super::packet_options;
use super::packet_sizes::PacketSizes;
use super::packets::{MarkKind, MarkWanted, Marking, Packets, Unmarked};
use packet::{Config, DeviceFacts, MacAddr};
use program::outcome::Failure;
use program::waiting_read;

/// An option that does not combine with packets of the user's, why, and what to write instead.
type Obstacle = (bool, &'static str, &'static str, &'static str);

/// Refuses options that have no meaning together, as far as they show it without a device.
///
/// # Errors
/// Bad usage, with what to write instead.
pub fn check(job: &SendJob) -> Result<(), Failure> {
    config::check_duration(job)?;
    match () {
        () if job.frame.is_some() => check_options(job, "--frame"),
        () if job.frames.is_some() => check_options(job, "--frames"),
        () => packet_options::packet(job, MacAddr::ZERO).map(|_| ()),
    }
}

/// The packets of `given` are whole frames, so only their lengths can be options.
///
/// # Errors
/// Bad usage for an option that describes frames.
pub fn check_options(job: &SendJob, given: &str) -> Result<(), Failure> {
    let packet = "the packets have headers of their own";
    let obstacles: &[Obstacle] = &[
        (job.dst.is_some(), "--dst", packet, "ipv4(da=198.18.0.2)"),
        (job.src.is_some(), "--src", packet, "ipv4(sa=198.18.0.1)"),
        (job.dst_mac.is_some(), "--dst-mac", packet, "eth(da=02:00:00:00:00:02)"),
        (job.src_mac.is_some(), "--src-mac", packet, "eth(sa=02:00:00:00:00:01)"),
        (job.udp_dst.is_some(), "--udp-dst", packet, "udp(dp=9)"),
        (job.udp_src.is_some(), "--udp-src", packet, "udp(sp=9)"),
        (job.vlan.is_some(), "--vlan", packet, "vlan(id=5)"),
        (job.mpls.is_some(), "--mpls", packet, "mpls(label=16)"),
        (job.tos.is_some(), "--tos", packet, "ipv4(tos=184)"),
        (job.ttl.is_some(), "--ttl", packet, "ipv4(ttl=64)"),
        (job.describes_packet(), job.packet_option(), packet, "`wirerate send --help`"),
        (
            job.random.iter().any(|field| ![RandomField::Size, RandomField::Queue].contains(field)),
            "--random",
            "a field is random where the packet says so",
            "ipv4(sa=drnd())",
        ),
        (job.flows.is_some(), "--flows", "fields change as the packet says", "ipv4(da=dinc())"),
        (job.udp_checksum, "--udp-checksum", "checksums are filled in always", "udp(csum=0), for none"),
    ];
    let found = obstacles.iter().find(|(is_given, ..)| *is_given);
    found.map_or(Ok(()), |(_, option, why, instead)| {
        Err(Failure::usage(format!("use {option} with {given}"), why).try_this(instead))
    })
}

/// Gives the packets the mark or signature that `job` asks for. A `stream` has a number, which is
/// that of its flow, and a name.
///
/// # Errors
/// Bad usage for a packet that has no space for what `--signature` or `--run` asks for.
pub fn mark(
    packets: &mut Packets,
    job: &SendJob,
    thread_count: usize,
    stream: Option<(u16, &str)>,
) -> Result<(), Failure> {
    let (kind, wanted) = match (job.signature, job.front_signature()) {
        (None, _) => (MarkKind::Mark, MarkWanted::OverZeros),
        (Some(SignatureName::Mark), _) => (MarkKind::Mark, MarkWanted::Always),
        (_, Some(level)) => (MarkKind::Signature(level), MarkWanted::Always),
        (_, None) => return job.run.map_or(Ok(()), |run| Err(config::without_run(run))),
    };
    packets.mark(Marking {
        kind,
        wanted,
        flow_first: stream.map_or(0, |(number, _)| number),
        run: job.run.unwrap_or(0),
        has_time: !job.no_timestamp,
        thread_count,
        is_one_flow: stream.is_some(),
    });
    let is_needed = wanted == MarkWanted::Always || job.run.is_some();
    let unmarked = packets.unmarked().filter(|_| is_needed);
    unmarked.map_or(Ok(()), |(number, why)| Err(cannot_mark(job, number, why, stream)))
}

fn cannot_mark(job: &SendJob, number: usize, why: Unmarked, stream: Option<(u16, &str)>) -> Failure {
    let act = match stream {
        Some((_, name)) => format!("mark packet {number} of stream {name}"),
        None => format!("mark packet {number}"),
    };
    let failure = Failure::usage(act, why);
    let is_of_options = job.describes_packet() || stream.is_none() && job.has_packet_options();
    match why {
        Unmarked::Short { needed, .. } if is_of_options => failure.try_this(job.size_advice(needed)),
        Unmarked::Short { needed, missing, .. } => {
            failure.try_this(format!("fill(0, {missing}) at its end, for {needed} bytes"))
        }
        Unmarked::InUse | Unmarked::Unknown | Unmarked::Behind { .. } => failure,
    }
}

/// The packets for `dst_mac`, without marks.
///
/// # Errors
/// Bad usage with the position of the error in the text; refused when a file cannot be read.
pub fn packets(job: &SendJob, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let sizes = PacketSizes::of(job)?;
    match (&job.frame, &job.frames) {
        (Some(text), _) => Packets::parse(text, "--frame", (facts, seed), &sizes),
        (None, Some(path)) => {
            let name = path.display().to_string();
            let text = waiting_read::read_to_string(path).map_err(|why| Failure::read(path, why))?;
            Packets::parse(&text, &name, (facts, seed), &sizes)
        }
        (None, None) => packet_options::packets(job, dst_mac, facts, seed),
    }
}

/// What to say of packets in trafgen's language that leave out their destination.
pub(super) fn note(job: &SendJob, packets: &Packets) -> Option<String> {
    let number = packets.without_destination().filter(|_| !job.quiet && job.frames_are_given())?;
    Some(format!("packet {number} has no destination MAC: it is zero (eth(da=MAC) sets it)"))
}

/// The MAC address of the next hop, if options describe the packet and do not give it.
///
/// # Errors
/// No answer of the next hop.
pub fn next_hop(job: &SendJob, device: &TxDevice) -> Result<(MacAddr, Option<NextHopMac>), Failure> {
    if job.frames_are_given() || job.arp {
        return Ok((MacAddr::ZERO, None));
    }
    let dst_mac = job.dst_mac.map_or(MacAddr::ZERO, |given| given.first);
    let mut config = Config { dst_mac, xmit_mode: job.xmit_mode, ..Config::default() };
    let found = next_hop::of_job(job, device, &mut config)?;
    Ok((config.dst_mac, found))
}

/// The destination MAC with which a dry run begins; zeros stand for one that has to be resolved.
/// Packets in trafgen's language give their own, and ARP requests are sent to all.
pub(super) fn shown_dst_mac(job: &SendJob) -> MacAddr {
    let is_own = job.frames_are_given() || job.arp;
    let default = if is_own { MacAddr([0xff; 6]) } else { MacAddr::ZERO };
    job.dst_mac.map_or(default, |given| given.first)
}

/// The settings of a run of `packets`.
///
/// # Errors
/// Bad usage for copies into a receive path.
pub fn config(job: &SendJob, packets: &Packets, seed: u64) -> Result<Config, Failure> {
    let mut config = packets.config(config::count(job), job.xmit_mode, seed);
    config::set_ipsec(&mut config, job)?;
    config.skb_priority = job.skb_priority.unwrap_or(0);
    config::set_memory(&mut config, job)?;
    Ok(config)
}
