//! `wirerate send DEV` with frames in trafgen's language: those of `--frame` and `--frames`, and
//! those that options such as `--tcp` describe.

use super::args::Args;
use super::device::TxDevice;
use super::dry_run::{self, Preview};
use super::next_hop::{self, NextHopMac};
use super::packet_options;
use super::packets::Packets;
use super::rate::Rate;
use super::run::{self, CATCH_UP_DEFAULT, Job};
use super::watch::View;
use super::{config, fresh_seed, shown};
use crate::outcome::{Failure, Outcome, Refused};
use crate::stop::Stop;
use crate::units::time_of_day_ns;
use engine::EngineKind;
use packet::{Config, DeviceFacts, MacAddr, Plan, Rng, XmitMode};
use std::fs;

/// Sends the frames, or shows them.
///
/// # Errors
/// Bad usage with the position of the error in the text; refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    config::check_duration(args)?;
    check(args)?;
    let pace = Rate::of(args)?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    match args.dry_run {
        Some(frame_count) => show(args, pace, seed, frame_count),
        None => send(args, pace, seed, stop),
    }
}

/// An option that does not combine with packets of the user's, why, and what to write instead.
type Obstacle = (bool, &'static str, &'static str, &'static str);

/// `--frame` and `--frames` describe whole frames, so no other option does.
fn check(args: &Args) -> Result<(), Failure> {
    let given = match () {
        () if args.frame.is_some() => "--frame",
        () if args.frames.is_some() => "--frames",
        () => return Ok(()),
    };
    let signed = "only pktgen's frames carry a signature";
    let pktgen = "it is for pktgen's frames";
    let packet = "the packets have headers of their own";
    let obstacles: &[Obstacle] = &[
        (args.dst.is_some(), "--dst", packet, "ipv4(da=198.18.0.2)"),
        (args.src.is_some(), "--src", packet, "ipv4(sa=198.18.0.1)"),
        (args.dst_mac.is_some(), "--dst-mac", packet, "eth(da=02:00:00:00:00:02)"),
        (args.src_mac.is_some(), "--src-mac", packet, "eth(sa=02:00:00:00:00:01)"),
        (args.udp_dst.is_some(), "--udp-dst", packet, "udp(dp=9)"),
        (args.udp_src.is_some(), "--udp-src", packet, "udp(sp=9)"),
        (args.vlan.is_some(), "--vlan", packet, "vlan(id=5)"),
        (args.mpls.is_some(), "--mpls", packet, "mpls(label=16)"),
        (args.tos.is_some(), "--tos", packet, "ipv4(tos=184)"),
        (args.ttl.is_some(), "--ttl", packet, "ipv4(ttl=64)"),
        (args.has_packet_options(), args.packet_option(), packet, "`wirerate send --help`"),
        (args.size.is_some(), "--size", "the packets have lengths of their own", "fill(0, 100)"),
        (
            args.imix.is_some(),
            "--imix",
            "the packets have lengths of their own",
            "several packets: { ... } { ... }",
        ),
        (
            !args.random.is_empty(),
            "--random",
            "a field is random where the packet says so",
            "ipv4(sa=drnd())",
        ),
        (args.flows.is_some(), "--flows", "fields change as the packet says", "ipv4(da=dinc())"),
        (args.udp_checksum, "--udp-checksum", "checksums are filled in always", "udp(csum=0), for none"),
        (args.ipsec, "--ipsec", pktgen, "--dst 198.18.0.2 --ipsec"),
        (args.frags.is_some(), "--frags", pktgen, "--dst 198.18.0.2 --frags 2"),
        (args.clone_skb.is_some(), "--clone-skb", pktgen, "the packet several times: { ... } { ... }"),
        (args.node.is_some(), "--node", pktgen, "--cpus 0 (a CPU of the node)"),
        (args.queues.is_some(), "--queues", "these frames have one queue", "--engine xdp"),
        (args.signature.is_some(), "--signature", signed, "`wirerate measure --help`"),
        (args.run.is_some(), "--run", signed, "`wirerate measure --help`"),
        (args.end_frames.is_some(), "--end-frames", signed, "`wirerate measure --help`"),
        (args.no_timestamp, "--no-timestamp", signed, "`wirerate measure --help`"),
    ];
    let found = obstacles.iter().find(|(is_given, ..)| *is_given);
    found.map_or(Ok(()), |(_, option, why, instead)| {
        Err(Failure::usage(format!("use {option} with {given}"), why).try_this(instead))
    })
}

/// The packets for `dst_mac`, with a note about what they leave out.
fn packets(args: &Args, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let packets = match (&args.frame, &args.frames) {
        (Some(text), _) => Packets::parse(text, "--frame", facts, seed)?,
        (None, Some(path)) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).refused(format!("read {name}"))?;
            Packets::parse(&text, &name, facts, seed)?
        }
        (None, None) => return packet_options::packets(args, dst_mac, facts, seed),
    };
    if let Some(number) = packets.without_destination().filter(|_| !args.quiet) {
        eprintln!("wirerate: packet {number} has no destination MAC: it is zero (eth(da=MAC) sets it)");
    }
    Ok(packets)
}

/// The MAC address of the next hop, if options describe the packet and do not give it.
///
/// # Errors
/// Bad usage in the options, or no answer of the next hop.
pub fn next_hop(args: &Args, device: &TxDevice) -> Result<(MacAddr, Option<NextHopMac>), Failure> {
    if args.frame.is_some() || args.frames.is_some() || args.arp {
        return Ok((MacAddr::ZERO, None));
    }
    packet_options::text(args, MacAddr::ZERO)?;
    let dst_mac = match (args.dst_mac, config::xmit_mode(args)) {
        (Some(given), _) => given.first,
        // The receive path drops frames for other MAC addresses.
        (None, XmitMode::NetifReceive) => device.facts.mac,
        (None, _) => MacAddr::ZERO,
    };
    let mut config = Config { dst_mac, ..Config::default() };
    let found = next_hop::fill_in(device, &mut config, &config::destinations(args), true)?;
    Ok((config.dst_mac, found))
}

fn send(args: &Args, pace: Rate, seed: u64, stop: &Stop) -> Result<Outcome, Failure> {
    let xmit_mode = config::xmit_mode(args);
    let device = run::find(args, xmit_mode)?;
    let cpus = run::cpus(args, &device)?;
    if args.engine.map(EngineKind::from) == Some(EngineKind::AfXdp) && cpus.len() > 1 {
        let act = format!("send these frames from {} threads by af_xdp", cpus.len());
        let why = "a queue takes one thread, and these frames have one queue";
        return Err(Failure::usage(act, why).try_this("--threads 1"));
    }
    let (dst_mac, next_hop) = next_hop(args, &device)?;
    let packets = packets(args, dst_mac, &device.facts, seed)?;
    let mut config = packets.config(config::count(args), xmit_mode, seed);
    config.skb_priority = args.skb_priority.unwrap_or(0);
    let job = Job {
        cpus,
        device: &device,
        netns: args.netns.clone(),
        next_hop,
        config,
        packets: Some(packets),
        pace,
        catch_up: args.catch_up.unwrap_or(CATCH_UP_DEFAULT),
        duration_ns: args.duration_ns(),
        engine: args.engine.map(Into::into),
        batch: args.batch,
    };
    let (report, error) = job.run(stop, View::of(args))?;
    run::conclude(&args.device, args.netns.as_deref(), &report, error, |report| run::print(args, report))
}

/// The dry run shows what the first thread sends.
fn show(args: &Args, pace: Rate, seed: u64, frame_count: u64) -> Result<Outcome, Failure> {
    let is_described = args.frame.is_none() && args.frames.is_none();
    if is_described {
        packet_options::text(args, MacAddr::ZERO)?;
    }
    // Packets in the language give their own destination: nothing has to be resolved.
    let dst_mac = match args.dst_mac {
        None if is_described && !args.arp => MacAddr::ZERO,
        given => given.map_or(MacAddr([0xff; 6]), |given| given.first),
    };
    let mut to_resolve = Config { dst_mac, ..Config::default() };
    let to = config::destinations(args);
    let shown = shown::for_show(args.netns.as_deref(), &args.device, &mut to_resolve, &to)?;
    shown.notes.iter().for_each(|note| eprintln!("wirerate: {note}"));
    if is_described && !args.quiet {
        eprintln!("wirerate: --frame '{}'", packet_options::text(args, to_resolve.dst_mac)?);
    }
    let packets = packets(args, to_resolve.dst_mac, &shown.facts, seed)?;
    let config = packets.config(config::count(args), config::xmit_mode(args), seed);
    let general = packets.of_thread(0).ok_or_else(|| {
        Failure::usage("show the frames of the first thread", "all packets are for other threads")
            .try_this("packets without cpu()")
    })?;
    let (plan, mut cursor) = Plan::of_packets(general, &shown.facts);
    cursor.rng = Rng(seed);
    let preview = Preview {
        device: &args.device,
        frame_count,
        associations: &shown.associations,
        interval_ps: pace.interval_ps(&config),
        start_ns: time_of_day_ns(),
        fresh_seed: seed,
        json: args.json,
        write: args.write.as_deref(),
    };
    dry_run::show(plan, cursor, config.count, &preview)
}
