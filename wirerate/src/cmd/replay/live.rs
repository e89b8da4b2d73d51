//! A live replay: the player as the source of an engine, and the report of what was sent.

use super::args::{Args, Speed};
use super::pause;
use super::player::{NextFrame, Player};
use super::report::{GapErrors, ReplayCause, ReplayEnd, ReplayReport};
use super::target;
use crate::cmd::send::device::TxDevice;
use crate::cmd::send::run::nearest_cpus;
use crate::monitor::count_in;
use crate::monitor::sources::{self, DeviceLabels};
use crate::outcome::Failure;
use crate::stop::Stop;
use crate::units::Nanos;
use engine::{EngineKind, ReplayFrame, ReplayRequest, ReplayResult, ReplaySource};
use host::{CpuList, HostError};
use packet::FRAME_LEN_MAX;
use replay::{Fates, OutputPort, TargetKind};
use std::sync::Arc;

/// Bytes of an Ethernet header with one VLAN tag, which the MTU excludes.
const HEADER_LEN: u32 = 18;

/// A player whose first failure ends the frames.
struct PlayerSource {
    player: Player,
    failure: Option<Failure>,
}

impl ReplaySource for PlayerSource {
    fn advance(&mut self) -> Option<ReplayFrame> {
        match self.player.advance() {
            Ok(next) => next.map(|NextFrame { due_ns, port }| ReplayFrame {
                due_ns,
                is_second: port == OutputPort::Second,
            }),
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.player.frame()
    }
}

/// Sends the files.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn run(args: &Args, stop: &Stop) -> Result<ReplayReport, Failure> {
    let act = || format!("replay on {}", args.device);
    let find = |name: &str| {
        let device = TxDevice::find(args.netns.as_deref(), name).map_err(|why| Failure::host(act(), why))?;
        if !args.allow_default_route {
            device.spare_default_route()?;
        }
        Ok::<TxDevice, Failure>(device)
    };
    let device = find(&args.device)?;
    let other = args.other.as_deref().map(find).transpose()?;
    let engine = args.engine.map(EngineKind::from);
    let kind = target::kind_of(&device.link)?;
    let uses_xdp = engine != Some(EngineKind::AfPacket) && kind == TargetKind::Ethernet;
    let len_max = if uses_xdp { engine::REPLAY_XDP_LEN_MAX } else { FRAME_LEN_MAX };
    let mut facts = target::facts_of(&device, len_max)?;
    if let Some(other) = &other {
        facts.mtu = facts.mtu.min(other.link.mtu);
    }
    let cpu = match &args.cpus {
        Some(list) => list.0[0],
        None => nearest_cpus(&device, None, 1)?[0],
    };
    let online = CpuList::online().map_err(|why| Failure::host(act(), why))?;
    if !online.contains(cpu) {
        let why = HostError::NoCpu { cpu, online: online.to_string() };
        return Err(Failure::host(format!("send from CPU {cpu}"), why));
    }
    let player = Player::new(args, &facts, stop)?;
    let counts = player.counts();
    let request = ReplayRequest {
        ifname: args.device.clone(),
        other: args.other.clone(),
        engine,
        frame_len_max: (facts.mtu + HEADER_LEN).clamp(packet::FRAME_LEN_MIN, len_max),
        is_ethernet: kind == TargetKind::Ethernet,
        is_timed: is_timed(args),
        duration_ns: args.duration.map_or(0, |duration| duration.0),
        cpu,
        pause: pause::on_signals()?,
        progress: Arc::clone(&counts.sending),
    };
    let labels = DeviceLabels::new(&args.device, args.netns.as_deref());
    let _counted = count_in(sources::replay(Arc::clone(&counts), labels));
    let mut source = PlayerSource { player, failure: None };
    let result = engine::replay(&device.netns, &request, &mut source, &stop.flag())
        .map_err(|why| Failure::engine(act(), why, args.netns.as_deref()))?;
    let is_long_for_xdp = result.engine == EngineKind::Xdp && facts.mtu + HEADER_LEN > len_max;
    let mut report = sum_up(args, &request, result, act).with_files(source.player.finish());
    counts.end(&report.fates, report.loops, report.starved);
    if let Some(failure) = source.failure {
        eprint!("{failure}");
        report.end = ReplayEnd::Failed;
    }
    Ok(match is_long_for_xdp && report.fates.too_long > 0 {
        true => report.with_note(format!(
            "the xdp engine sends at most {len_max} bytes: --engine af_packet sends more"
        )),
        false => report,
    })
}

/// True if frames may have to wait: at top speed only those behind a gap between loops.
fn is_timed(args: &Args) -> bool {
    let is_top = matches!(args.speed, Some(Speed::Top)) || args.delay == Some(Nanos(0));
    !is_top || args.loop_gap.is_some_and(|gap| gap.0 > 0)
}

fn sum_up(
    args: &Args,
    request: &ReplayRequest,
    result: ReplayResult,
    act: impl Fn() -> String,
) -> ReplayReport {
    let errors = result.burst.errors;
    let causes = [
        ("ring_full", errors.ring_full),
        ("refused", errors.refused),
        ("not_handed_over", errors.not_handed_over),
    ];
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
        fates: Fates {
            sent: result.burst.sent,
            errors: errors.total(),
            after_end: result.after_end,
            ..Fates::default()
        },
        error_causes: causes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| ReplayCause { cause, count })
            .collect(),
        sent_other: result.second,
        frame_bytes: result.burst.frame_bytes,
        duration_ns: result.duration_ns,
        pauses: result.pauses,
        paused_ns: result.paused_ns,
        starved: result.starved,
        gap_error: if request.is_timed { GapErrors::of(&result.late) } else { None },
        engine: Some(result.engine.name()),
        notes: result.note.into_iter().collect(),
        ..ReplayReport::default()
    }
}
