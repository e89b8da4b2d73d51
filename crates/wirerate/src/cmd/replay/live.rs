//! A live replay: the player as the source of an engine, and the report of what was sent.

use super::args::Args;
use super::control::KeyControl;
use super::orders::ReplayOrders;
use super::pause;
use super::player::{NextFrame, Player, PlayerStep};
use super::receive_path::{ReceivePath, is_ip};
use super::report::{GapErrors, ReplayCause, ReplayEnd, ReplayReport};
use super::target;
use super::verify::{SharedComparison, Verifier, VerifyReport, ignored_fields};
use super::watch::watched;
use capture_files::flow_statistics::FlowStatistics;
use engine::{
    EngineKind, OtherDevice, ReplayControl, ReplayFrame, ReplayRequest, ReplayResult, ReplaySource,
    ReplayStep,
};
use facts::LeftOutPackets;
use host::{CpuList, DevicePlace, HostError};
use options::send::{EngineName, Entry};
use packet::FRAME_LEN_MAX;
use program::monitor::sources::{self, DeviceLabels};
use program::outcome::Failure;
use program::start_at::{StartReport, announce, refuse_if_late};
use program::stop::Stop;
use replay::{Fates, OutputPort, TargetKind, queue_of};
use sender::device::TxDevice;
use sender::report::LinkInterruptions;
use sender::run::nearest_cpus;
use std::sync::Arc;

/// Bytes of an Ethernet header with one VLAN tag, which the MTU excludes.
const HEADER_LEN: u32 = 18;

/// A player whose first failure ends the frames.
struct PlayerSource {
    player: Player,
    /// Sending threads, each with a queue.
    queues: u16,
    /// Compares the frames of the first device with those that arrive.
    comparison: Option<SharedComparison>,
    flows: FlowStatistics,
    /// IP packets for the receive path of this host; `None` if frames are sent.
    ip_packets: Option<u64>,
    failure: Option<Failure>,
}

impl ReplaySource for PlayerSource {
    fn advance(&mut self) -> ReplayStep {
        let step = self.player.step().unwrap_or_else(|failure| {
            self.failure = Some(failure);
            PlayerStep::End
        });
        match step {
            PlayerStep::Frame(NextFrame { due_ns, port }) => {
                let (frame, is_second) = (self.player.frame(), port == OutputPort::Second);
                if self.player.counts_flows() {
                    self.flows.see(frame);
                }
                if let (Some(comparison), false) = (&self.comparison, is_second) {
                    comparison.expect(frame);
                }
                if let Some(ip_packets) = &mut self.ip_packets {
                    *ip_packets += u64::from(is_ip(frame));
                }
                ReplayStep::Frame(ReplayFrame { due_ns, is_second, queue: queue_of(frame, self.queues) })
            }
            // Each frame has to be compared.
            PlayerStep::Repeat(_) if self.comparison.is_some() => self.advance(),
            PlayerStep::Repeat(more) => ReplayStep::Repeat(more),
            PlayerStep::End => ReplayStep::End,
        }
    }

    fn bytes(&self) -> &[u8] {
        self.player.frame()
    }

    fn repeated(&mut self, frames: u64) {
        if let Err(failure) = self.player.repeated(frames) {
            self.failure = Some(failure);
        }
    }
}

/// Sends the files.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn run(args: &Args, stop: &Stop) -> Result<ReplayReport, Failure> {
    let act = || format!("replay on {}", args.device);
    refuse_if_late(args.start_at, act)?;
    let find = |place: DevicePlace| {
        let device =
            TxDevice::find(place.netns.as_deref(), &place.device).map_err(|why| Failure::host(act(), why))?;
        if !args.allow_default_route {
            device.spare_default_route()?;
        }
        Ok::<TxDevice, Failure>(device)
    };
    let place = |text: &String| DevicePlace::of(text, args.netns.as_deref());
    let device = find(DevicePlace { device: args.device.clone(), netns: args.netns.clone() })?;
    let other = args.other.as_ref().map(place).map(find).transpose()?;
    let engine = args.engine.map(EngineKind::from);
    let kind = target::kind_of(&device.link)?;
    let len_max = match engine {
        _ if kind != TargetKind::Ethernet => FRAME_LEN_MAX,
        Some(EngineKind::AfPacket) => FRAME_LEN_MAX,
        _ if args.receives() => engine::REPLAY_SKB_LEN_MAX,
        Some(EngineKind::Skb) => engine::REPLAY_SKB_LEN_MAX,
        _ => engine::replay_xdp_len_max(device.link.mtu + HEADER_LEN),
    };
    let mut facts = target::facts_of(&device, len_max)?;
    if let Some(other) = &other {
        facts.mtu = facts.mtu.min(other.link.mtu);
    }
    let cpus = match &args.cpus {
        Some(list) => list.0.clone(),
        None => nearest_cpus(&device, None, args.threads.unwrap_or(1) as usize)?,
    };
    let online = CpuList::online().map_err(|why| Failure::host(act(), why))?;
    if let Some(cpu) = cpus.iter().copied().find(|cpu| !online.contains(*cpu)) {
        let why = HostError::NoCpu { cpu, online: online.to_string() };
        return Err(Failure::host(format!("send from CPU {cpu}"), why));
    }
    refuse_many(args, &cpus, kind)?;
    let queues = cpus.len() as u16;
    let player = Player::new(args, &facts, stop)?;
    let counts = player.counts();
    let control = Arc::new(ReplayControl::new(pause::on_signals()?));
    let request = ReplayRequest {
        ifname: args.device.clone(),
        other: other.map(|other| OtherDevice { ifname: other.link.name, netns: other.netns }),
        mode: args.xmit_mode.into(),
        engine,
        frame_len_max: (facts.mtu + HEADER_LEN).clamp(packet::FRAME_LEN_MIN, len_max),
        is_ethernet: kind == TargetKind::Ethernet,
        is_timed: args.is_timed(),
        duration_ns: args.duration.map_or(0, |duration| duration.0),
        keep_going: args.keep_going,
        cpus,
        start_at: args.start_at,
        control: Arc::clone(&control),
        progress: Arc::clone(&counts.sending),
    };
    let labels = DeviceLabels::new(&args.device, args.netns.as_deref());
    let _counted = stop.console().count_in(sources::replay(Arc::clone(&counts), labels));
    let ignored = ignored_fields(&args.ignore);
    let verifier = args.verify.as_ref();
    let verifier =
        verifier.map(|verify| Verifier::start(place(verify), queues, ignored, stop)).transpose()?;
    let comparison = verifier.as_ref().map(Verifier::comparison);
    let rule = player.timing_rule();
    let receive_path = args.receives().then(|| ReceivePath::new(&device.netns, &args.device));
    let receive_path = receive_path.transpose().map_err(|why| Failure::host(act(), why))?;
    let ip_packets = args.receives().then_some(0);
    let flows = FlowStatistics::new(target::link_type_of(kind));
    let mut source = PlayerSource { player, queues, comparison, flows, ip_packets, failure: None };
    let run = || engine::replay(&device.netns, &request, &mut source, &stop.flag());
    let orders = ReplayOrders::open(args, &device.netns, &control, request.is_timed);
    announce(args.start_at);
    let offered = stop.console().offer(Arc::new(KeyControl::new(rule, control)));
    let (result, watch) = watched(args, &counts.sending, orders, stop, run)?;
    drop(offered);
    let result = result.map_err(|why| Failure::engine(act(), why, args.netns.as_deref()))?;
    watch.finish(&counts.sending, result.duration_ns)?;
    let verify = verifier.map(|verifier| {
        let offered: u64 = result.offered.iter().sum();
        verifier.finish(&result.offered, offered.saturating_sub(result.burst.errors.total()))
    });
    let dropped = receive_path.and_then(|path| {
        // The report matters more than this note.
        let unknown =
            |why| Some(format!("it is not known if the stack of this host took the packets: {why}"));
        path.note(source.ip_packets.unwrap_or(0)).unwrap_or_else(unknown)
    });
    let is_long = result.engine != EngineKind::AfPacket && facts.mtu + HEADER_LEN > len_max;
    let name = result.engine.name();
    let mut report = sum_up(args, &request, result, verify, act).with_files(source.player.finish());
    report = report.with_flows(source.flows, !args.each_loop.is_empty());
    report.notes.extend(dropped);
    counts.end(&report.fates, report.loops, report.starved);
    if let Some(failure) = source.failure {
        eprint!("{failure}");
        report.end = ReplayEnd::Failed;
    }
    Ok(match is_long && report.fates.left_out.too_long > 0 {
        true => report.with_note(format!(
            "the {name} engine sends at most {len_max} bytes: --engine af_packet sends more"
        )),
        false => report,
    })
}

/// Refuses several CPUs where one thread sends.
fn refuse_many(args: &Args, cpus: &[u32], kind: TargetKind) -> Result<(), Failure> {
    let slower = args.engine.filter(|engine| *engine != EngineName::Xdp);
    let takes_one_thread = args.xmit_mode != Entry::StartXmit;
    let is_one_by_one = slower.is_some() || takes_one_thread || kind != TargetKind::Ethernet;
    let cpu = match cpus {
        [] | [_] => return Ok(()),
        [cpu, ..] if cpus.len() <= engine::REPLAY_CPUS_MAX => cpu,
        _ => {
            let why = format!("at most {} CPUs send", engine::REPLAY_CPUS_MAX);
            return Err(Failure::usage(format!("send from {} CPUs", cpus.len()), why));
        }
    };
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("send twice from CPU {}", twice[0]), "each thread needs a CPU"));
    }
    match is_one_by_one {
        true => {
            let default = if takes_one_thread { EngineKind::Skb } else { EngineKind::AfPacket };
            let engine = slower.map_or(default, EngineKind::from);
            let act = format!("send from {} CPUs by {engine}", cpus.len());
            Err(Failure::usage(act, "it has one thread").try_this(format!("--cpus {cpu}")))
        }
        false => Ok(()),
    }
}

/// What several threads mean for the order of the frames.
fn order_note(request: &ReplayRequest) -> Option<String> {
    let note = match request.is_timed {
        true => "flows are on one CPU each; frames of different flows keep their order by their times",
        false => "order kept within flows: flows are on one CPU each",
    };
    (request.cpus.len() > 1).then(|| note.to_owned())
}

fn sum_up(
    args: &Args,
    request: &ReplayRequest,
    result: ReplayResult,
    verify: Option<VerifyReport>,
    act: impl Fn() -> String,
) -> ReplayReport {
    let errors = result.burst.errors;
    let ring_full = ReplayCause { cause: "ring_full", count: errors.ring_full };
    let causes = errors.causes.present().map(|(fact, count)| ReplayCause { cause: fact.name, count });
    let end = match (&result.error, result.is_stopped) {
        (Some(_), _) => ReplayEnd::Failed,
        (None, true) => ReplayEnd::Stopped,
        (None, false) => ReplayEnd::Done,
    };
    if let Some(error) = result.error {
        eprint!("{}", Failure::engine(act(), error, args.netns.as_deref()));
    }
    ReplayReport {
        device: args.device.clone(),
        other: args.other.clone(),
        netns: args.netns.clone(),
        files: super::file_names(args),
        end,
        asked_count: args.frames_max(),
        is_endless: args.is_endless(),
        fates: Fates {
            sent: result.burst.sent,
            errors: errors.total(),
            left_out: LeftOutPackets { after_end: result.after_end, ..LeftOutPackets::default() },
        },
        error_causes: Some(ring_full).filter(|cause| cause.count > 0).into_iter().chain(causes).collect(),
        retries: result.burst.retries,
        sent_other: result.second - result.second_no_carrier,
        frame_bytes: result.burst.sent_bytes(),
        duration_ns: result.duration_ns,
        start: args.start_at.map(|start_at| StartReport::new(start_at, result.first_late_ns)),
        pauses: result.pauses,
        paused_ns: result.paused_ns,
        changes: result.changes.into_iter().map(Into::into).collect(),
        starved: result.starved,
        interruptions: LinkInterruptions::of(result.interruptions),
        gap_error: if request.is_timed { GapErrors::of(&result.late) } else { None },
        engine: Some(result.engine.name()),
        verify,
        cpus: request.cpus.clone(),
        notes: result.note.into_iter().chain(order_note(request)).collect(),
        ..ReplayReport::default()
    }
}
