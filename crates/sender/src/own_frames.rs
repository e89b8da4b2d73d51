//! `wirerate send DEV` with frames in trafgen's language: those of `--frame` and `--frames`, and
//! those that options such as `--tcp` describe.

use super::device::TxDevice;
use super::dry_run::{self, Preview};
use super::end_frames;
use super::job::{RandomField, SendJob, SignatureName};
use super::next_hop::{self, NextHopMac};
use super::packet_options;
use super::packet_sizes::PacketSizes;
use super::packets::{MarkWanted, Marking, Packets, Unmarked};
use super::rate::RequestedRate;
use super::report::Report;
use super::run::{self, DeviceJob};
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
pub fn run(job: &SendJob, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(frame_count) = job.dry_run {
        return show(job, frame_count, stop);
    }
    let (report, error) = OwnFrames::prepare(job)?.transmit(job, stop)?;
    run::conclude(&job.device, job.netns.as_deref(), &report, error, stop.console(), |report| {
        run::print(job, report, stop.console())
    })
}

/// An option that does not combine with packets of the user's, why, and what to write instead.
type Obstacle = (bool, &'static str, &'static str, &'static str);

fn check(job: &SendJob) -> Result<(), Failure> {
    match () {
        () if job.frame.is_some() => check_options(job, "--frame"),
        () if job.frames.is_some() => check_options(job, "--frames"),
        () => Ok(()),
    }
}

/// The packets of `given` are whole frames, so only their lengths can be options.
///
/// # Errors
/// Bad usage for an option that describes frames.
pub fn check_options(job: &SendJob, given: &str) -> Result<(), Failure> {
    let signed = "only pktgen's frames carry this signature";
    let pktgen = "it is for pktgen's frames";
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
        (job.has_packet_options(), job.packet_option(), packet, "`wirerate send --help`"),
        (
            job.random.iter().any(|field| ![RandomField::Size, RandomField::Queue].contains(field)),
            "--random",
            "a field is random where the packet says so",
            "ipv4(sa=drnd())",
        ),
        (job.flows.is_some(), "--flows", "fields change as the packet says", "ipv4(da=dinc())"),
        (job.udp_checksum, "--udp-checksum", "checksums are filled in always", "udp(csum=0), for none"),
        (job.ipsec, "--ipsec", pktgen, "--dst 198.18.0.2 --ipsec"),
        (job.has_front_signature(), "--signature", signed, "--signature mark"),
    ];
    let found = obstacles.iter().find(|(is_given, ..)| *is_given);
    found.map_or(Ok(()), |(_, option, why, instead)| {
        Err(Failure::usage(format!("use {option} with {given}"), why).try_this(instead))
    })
}

/// Gives the packets the mark that `job` asks for. A `stream` has a number, which is that of its
/// flow, and a name.
///
/// # Errors
/// Bad usage for `--signature mark` and a packet that has no space for it.
pub fn mark(
    packets: &mut Packets,
    job: &SendJob,
    thread_count: usize,
    stream: Option<(u16, &str)>,
) -> Result<(), Failure> {
    let wanted = match job.signature {
        Some(SignatureName::None) => return Ok(()),
        Some(SignatureName::Mark) => MarkWanted::Always,
        _ => MarkWanted::OverZeros,
    };
    packets.mark(Marking {
        wanted,
        flow_first: stream.map_or(0, |(number, _)| number),
        run: job.run.unwrap_or(0),
        has_time: !job.no_timestamp,
        thread_count,
        is_one_flow: stream.is_some(),
    });
    let unmarked = packets.unmarked().filter(|_| wanted == MarkWanted::Always);
    unmarked.map_or(Ok(()), |(number, why)| Err(cannot_mark(job, number, why, stream)))
}

fn cannot_mark(job: &SendJob, number: usize, why: Unmarked, stream: Option<(u16, &str)>) -> Failure {
    let act = match stream {
        Some((_, name)) => format!("mark packet {number} of stream {name}"),
        None => format!("mark packet {number}"),
    };
    let failure = Failure::usage(act, why);
    match why {
        Unmarked::Short { needed, .. } if job.has_packet_options() => {
            failure.try_this(job.size_advice(needed))
        }
        Unmarked::Short { needed, free } => {
            failure.try_this(format!("fill(0, {}) at its end, for {needed} bytes", MARK_LEN - free))
        }
        Unmarked::InUse | Unmarked::Unknown => failure,
    }
}

/// The packets for `dst_mac`.
fn packets(job: &SendJob, dst_mac: MacAddr, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
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

/// What to say of packets in the language of trafgen that leave out their destination.
fn note(job: &SendJob, packets: &Packets) -> Option<String> {
    let number = packets.without_destination().filter(|_| !job.quiet && job.frames_are_given())?;
    Some(format!("packet {number} has no destination MAC: it is zero (eth(da=MAC) sets it)"))
}

/// The MAC address of the next hop, if options describe the packet and do not give it.
///
/// # Errors
/// Bad usage in the options, or no answer of the next hop.
pub fn next_hop(job: &SendJob, device: &TxDevice) -> Result<(MacAddr, Option<NextHopMac>), Failure> {
    if job.frame.is_some() || job.frames.is_some() || job.arp {
        return Ok((MacAddr::ZERO, None));
    }
    packet_options::text(job, MacAddr::ZERO)?;
    let dst_mac = match (job.dst_mac, config::xmit_mode(job)) {
        (Some(given), _) => given.first,
        // The receive path drops frames for other MAC addresses.
        (None, XmitMode::NetifReceive) => device.facts.mac,
        (None, _) => MacAddr::ZERO,
    };
    let mut config = Config { dst_mac, ..Config::default() };
    let found = next_hop::fill_in(device, &mut config, &config::destinations(job), true)?;
    Ok((config.dst_mac, found))
}

/// Frames in trafgen's language for a device that was found.
#[derive(Debug)]
pub struct OwnFrames {
    device: TxDevice,
    next_hop: Option<NextHopMac>,
    packets: Packets,
    /// What to say of them.
    note: Option<String>,
    config: Config,
    cpus: Vec<u32>,
    pace: RequestedRate,
}

impl OwnFrames {
    /// Finds the device and the next hop and reads the packets.
    ///
    /// # Errors
    /// Bad usage with the position of the error in the text; refused by the host or the device.
    pub fn prepare(job: &SendJob) -> Result<Self, Failure> {
        config::check_duration(job)?;
        check(job)?;
        let pace = RequestedRate::of(job)?;
        let seed = job.seed.unwrap_or_else(fresh_seed);
        let xmit_mode = config::xmit_mode(job);
        let device = run::find(job, xmit_mode)?;
        let cpus = run::cpus(job, &device)?;
        let has_one_queue = job.queues.is_none();
        let is_af_xdp = job.engine == Some(EngineKind::AfXdp);
        if is_af_xdp && has_one_queue && cpus.len() > 1 {
            let act = format!("send these frames from {} threads by af_xdp", cpus.len());
            let why = "a queue takes one thread, and these frames have one queue";
            return Err(Failure::usage(act, why).try_this("--queues cpu").try_this("--threads 1"));
        }
        let (dst_mac, next_hop) = next_hop(job, &device)?;
        let mut packets = packets(job, dst_mac, &device.facts, seed)?;
        let note = note(job, &packets);
        mark(&mut packets, job, cpus.len(), None)?;
        let mut config = packets.config(config::count(job), xmit_mode, seed);
        config.skb_priority = job.skb_priority.unwrap_or(0);
        config::set_memory(&mut config, job)?;
        Ok(Self { device, next_hop, packets, note, config, cpus, pace })
    }

    /// Flows that the marks of the frames name; 0 without marks.
    pub fn flow_count(&self) -> u32 {
        self.packets.flow_count()
    }

    /// Sends the frames. An error is returned beside the report of what was sent before it.
    ///
    /// # Errors
    /// Refused by the host or the device before the first frame.
    pub fn transmit(self, job: &SendJob, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let end_frames = end_frames::count(job)?;
        self.note.iter().for_each(|note| stop.console().note(note));
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let packets = self.packets.clone();
        let run = DeviceJob {
            next_hop: self.next_hop,
            packets: Some(self.packets),
            pace: self.pace,
            ..DeviceJob::of(job, &self.device, self.cpus, self.config)
        };
        let (report, error) = run.run(stop, View::of(job, stop.console()))?;
        if end_frames > 0 && error.is_none() {
            let end = AnnouncedEnd { run: Some(job.run.unwrap_or(0)), sent: report.sent };
            let announced = match packets.end_frame(&end.emit()) {
                Some(frame) => end_frames::send(&self.device, cpu, frame, end_frames),
                None => Err(end_frames::no_frame(end_frames)),
            };
            if let Err(why) = announced {
                why.show(stop.console());
            }
        }
        Ok((report, error))
    }
}

/// The dry run shows what the first thread sends.
fn show(job: &SendJob, frame_count: u64, stop: &Stop) -> Result<Outcome, Failure> {
    config::check_duration(job)?;
    check(job)?;
    let pace = RequestedRate::of(job)?;
    let seed = job.seed.unwrap_or_else(fresh_seed);
    let is_described = !job.frames_are_given();
    if is_described {
        packet_options::text(job, MacAddr::ZERO)?;
    }
    // Packets in the language give their own destination: nothing has to be resolved.
    let dst_mac = match job.dst_mac {
        None if is_described && !job.arp => MacAddr::ZERO,
        given => given.map_or(MacAddr([0xff; 6]), |given| given.first),
    };
    let mut to_resolve = Config { dst_mac, ..Config::default() };
    let to = config::destinations(job);
    let shown = shown::for_show(job.netns.as_deref(), &job.device, &mut to_resolve, &to)?;
    shown.notes.iter().for_each(|note| stop.console().note(note));
    if is_described && !job.quiet {
        let text = packet_options::text(job, to_resolve.dst_mac)?;
        stop.console().note(format!("--frame '{text}'{}", PacketSizes::text(job)));
    }
    let mut packets = packets(job, to_resolve.dst_mac, &shown.facts, seed)?;
    note(job, &packets).into_iter().for_each(|note| stop.console().note(note));
    mark(&mut packets, job, 1, None)?;
    packets.notes().iter().filter(|_| !job.quiet).for_each(|note| stop.console().note(note));
    let mut config = packets.config(config::count(job), config::xmit_mode(job), seed);
    config::set_memory(&mut config, job)?;
    let plan = packets.of_thread(0).ok_or_else(|| {
        Failure::usage("show the frames of the first thread", "all packets are for other threads")
            .try_this("packets without cpu()")
    })?;
    let (plan, mut cursor) = plan.sent_as(&config, &shown.facts).on(&shown.facts);
    cursor.rng = Rng(seed);
    let preview = Preview {
        device: &job.device,
        frame_count,
        associations: &shown.associations,
        pace: pace_of_one_thread(pace, &config, seed),
        start_ns: time_of_day_ns(),
        fresh_seed: seed,
        json: job.json,
        write: job.write.as_deref(),
        stop,
    };
    dry_run::show(plan, cursor, config.count, &preview)
}
