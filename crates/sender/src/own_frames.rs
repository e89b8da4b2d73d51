//! `wirerate send DEV` with frames in trafgen's language: those of `--frame` and `--frames`, and
//! those that options such as `--tcp` describe.

use super::args::{Args, RandomField, SignatureName};
use super::device::TxDevice;
use super::dry_run::{self, Preview};
use super::end_frames;
use super::next_hop::{self, NextHopMac};
use super::packet_options;
use super::packet_sizes::PacketSizes;
use super::packets::{MarkWanted, Marking, Packets, Unmarked};
use super::rate::RequestedRate;
use super::report::Report;
use super::run::{self, Job};
use super::split::pace_of_one_thread;
use super::watch::View;
use super::{config, shown};
use engine::{EngineError, EngineKind};
use measure::AnnouncedEnd;
use packet::plan::MARK_LEN;
use packet::{Config, DeviceFacts, MacAddr, Rng, XmitMode};
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use program::waiting_read;
use units::time_of_day_ns;

/// Sends the frames, or shows them.
///
/// # Errors
/// Bad usage with the position of the error in the text; refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(frame_count) = args.dry_run {
        return show(args, frame_count, stop);
    }
    let (report, error) = OwnFrames::prepare(args)?.transmit(args, stop)?;
    run::conclude(&args.device, args.netns.as_deref(), &report, error, |report| run::print(args, report))
}

/// An option that does not combine with packets of the user's, why, and what to write instead.
type Obstacle = (bool, &'static str, &'static str, &'static str);

fn check(args: &Args) -> Result<(), Failure> {
    match () {
        () if args.frame.is_some() => check_options(args, "--frame"),
        () if args.frames.is_some() => check_options(args, "--frames"),
        () => Ok(()),
    }
}

/// The packets of `given` are whole frames, so only their lengths can be options.
///
/// # Errors
/// Bad usage for an option that describes frames.
pub fn check_options(args: &Args, given: &str) -> Result<(), Failure> {
    let signed = "only pktgen's frames carry this signature";
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
        (
            args.random.iter().any(|field| ![RandomField::Size, RandomField::Queue].contains(field)),
            "--random",
            "a field is random where the packet says so",
            "ipv4(sa=drnd())",
        ),
        (args.flows.is_some(), "--flows", "fields change as the packet says", "ipv4(da=dinc())"),
        (args.udp_checksum, "--udp-checksum", "checksums are filled in always", "udp(csum=0), for none"),
        (args.ipsec, "--ipsec", pktgen, "--dst 198.18.0.2 --ipsec"),
        (args.has_front_signature(), "--signature", signed, "--signature mark"),
    ];
    let found = obstacles.iter().find(|(is_given, ..)| *is_given);
    found.map_or(Ok(()), |(_, option, why, instead)| {
        Err(Failure::usage(format!("use {option} with {given}"), why).try_this(instead))
    })
}

/// Gives the packets the mark that `args` ask for. A `stream` has a number, which is that of its
/// flow, and a name.
///
/// # Errors
/// Bad usage for `--signature mark` and a packet that has no space for it.
pub fn mark(
    packets: &mut Packets,
    args: &Args,
    thread_count: usize,
    stream: Option<(u16, &str)>,
) -> Result<(), Failure> {
    let wanted = match args.signature {
        Some(SignatureName::None) => return Ok(()),
        Some(SignatureName::Mark) => MarkWanted::Always,
        _ => MarkWanted::OverZeros,
    };
    packets.mark(Marking {
        wanted,
        flow_first: stream.map_or(0, |(number, _)| number),
        run: args.run.unwrap_or(0),
        has_time: !args.no_timestamp,
        thread_count,
        is_one_flow: stream.is_some(),
    });
    let unmarked = packets.unmarked().filter(|_| wanted == MarkWanted::Always);
    unmarked.map_or(Ok(()), |(number, why)| Err(cannot_mark(args, number, why, stream)))
}

fn cannot_mark(args: &Args, number: usize, why: Unmarked, stream: Option<(u16, &str)>) -> Failure {
    let act = match stream {
        Some((_, name)) => format!("mark packet {number} of stream {name}"),
        None => format!("mark packet {number}"),
    };
    let failure = Failure::usage(act, why);
    match why {
        Unmarked::Short { needed, .. } if args.has_packet_options() => {
            failure.try_this(args.size_advice(needed))
        }
        Unmarked::Short { needed, free } => {
            failure.try_this(format!("fill(0, {}) at its end, for {needed} bytes", MARK_LEN - free))
        }
        Unmarked::InUse | Unmarked::Unknown => failure,
    }
}

/// The packets for `dst_mac`, with a note about what they leave out.
fn packets(args: &Args, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let sizes = PacketSizes::of(args)?;
    let packets = match (&args.frame, &args.frames) {
        (Some(text), _) => Packets::parse(text, "--frame", (facts, seed), &sizes)?,
        (None, Some(path)) => {
            let name = path.display().to_string();
            let text = waiting_read::read_to_string(path).map_err(|why| Failure::read(path, why))?;
            Packets::parse(&text, &name, (facts, seed), &sizes)?
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

/// Frames in trafgen's language for a device that was found.
#[derive(Debug)]
pub struct OwnFrames {
    device: TxDevice,
    next_hop: Option<NextHopMac>,
    packets: Packets,
    config: Config,
    cpus: Vec<u32>,
    pace: RequestedRate,
}

impl OwnFrames {
    /// Finds the device and the next hop and reads the packets.
    ///
    /// # Errors
    /// Bad usage with the position of the error in the text; refused by the host or the device.
    pub fn prepare(args: &Args) -> Result<Self, Failure> {
        config::check_duration(args)?;
        check(args)?;
        let pace = RequestedRate::of(args)?;
        let seed = args.seed.unwrap_or_else(fresh_seed);
        let xmit_mode = config::xmit_mode(args);
        let device = run::find(args, xmit_mode)?;
        let cpus = run::cpus(args, &device)?;
        let has_one_queue = args.queues.is_none();
        let is_af_xdp = args.engine.map(EngineKind::from) == Some(EngineKind::AfXdp);
        if is_af_xdp && has_one_queue && cpus.len() > 1 {
            let act = format!("send these frames from {} threads by af_xdp", cpus.len());
            let why = "a queue takes one thread, and these frames have one queue";
            return Err(Failure::usage(act, why).try_this("--queues cpu").try_this("--threads 1"));
        }
        let (dst_mac, next_hop) = next_hop(args, &device)?;
        let mut packets = packets(args, dst_mac, &device.facts, seed)?;
        mark(&mut packets, args, cpus.len(), None)?;
        let mut config = packets.config(config::count(args), xmit_mode, seed);
        config.skb_priority = args.skb_priority.unwrap_or(0);
        config::set_memory(&mut config, args)?;
        Ok(Self { device, next_hop, packets, config, cpus, pace })
    }

    /// Flows that the marks of the frames name; 0 without marks.
    pub fn flow_count(&self) -> u32 {
        self.packets.flow_count()
    }

    /// Sends the frames. An error is returned beside the report of what was sent before it.
    ///
    /// # Errors
    /// Refused by the host or the device before the first frame.
    pub fn transmit(self, args: &Args, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let end_frames = end_frames::count(args)?;
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let packets = self.packets.clone();
        let job = Job {
            next_hop: self.next_hop,
            packets: Some(self.packets),
            pace: self.pace,
            ..Job::of(args, &self.device, self.cpus, self.config)
        };
        let (report, error) = job.run(stop, View::of(args))?;
        if end_frames > 0 && error.is_none() {
            let end = AnnouncedEnd { run: Some(args.run.unwrap_or(0)), sent: report.sent };
            let announced = match packets.end_frame(&end.emit()) {
                Some(frame) => end_frames::send(&self.device, cpu, frame, end_frames),
                None => Err(end_frames::no_frame(end_frames)),
            };
            if let Err(why) = announced {
                eprint!("{why}");
            }
        }
        Ok((report, error))
    }
}

/// The dry run shows what the first thread sends.
fn show(args: &Args, frame_count: u64, stop: &Stop) -> Result<Outcome, Failure> {
    config::check_duration(args)?;
    check(args)?;
    let pace = RequestedRate::of(args)?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
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
        let text = packet_options::text(args, to_resolve.dst_mac)?;
        eprintln!("wirerate: --frame '{text}'{}", PacketSizes::text(args));
    }
    let mut packets = packets(args, to_resolve.dst_mac, &shown.facts, seed)?;
    mark(&mut packets, args, 1, None)?;
    packets.notes().iter().filter(|_| !args.quiet).for_each(|note| eprintln!("wirerate: {note}"));
    let mut config = packets.config(config::count(args), config::xmit_mode(args), seed);
    config::set_memory(&mut config, args)?;
    let plan = packets.of_thread(0).ok_or_else(|| {
        Failure::usage("show the frames of the first thread", "all packets are for other threads")
            .try_this("packets without cpu()")
    })?;
    let (plan, mut cursor) = plan.sent_as(&config, &shown.facts).on(&shown.facts);
    cursor.rng = Rng(seed);
    let preview = Preview {
        device: &args.device,
        frame_count,
        associations: &shown.associations,
        pace: pace_of_one_thread(pace, &config, seed),
        start_ns: time_of_day_ns(),
        fresh_seed: seed,
        json: args.json,
        write: args.write.as_deref(),
        stop,
    };
    dry_run::show(plan, cursor, config.count, &preview)
}
