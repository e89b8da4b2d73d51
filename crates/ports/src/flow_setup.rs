//! A flow of the configuration as a run of an engine.

use super::port_rules::SendRules;
use engine::{CatchUp, EngineKind, Limits, Pace, Request, TxOptions};
use otg::{FlowConfig, FlowDuration};
use packet::plan::{FrameSpec, PacketOrder};
use packet::{Cursor, DeviceFacts, Plan, Rate, Rng, XmitMode};
use sender::rate::Asked;
use std::num::NonZeroU32;

/// Up to this many flows of a port get an engine each that sends at full speed. More would take
/// long to load.
pub(super) const FAST_FLOWS_MAX: usize = 8;
/// Up to this many flows get a ring each. The kernel takes about 20 ms for each ring, so more flows
/// share a socket and send their frames one by one.
pub(super) const RING_FLOWS_MAX: usize = 64;

/// The last frames of a time may be late by this much.
const LATE_MAX_NS: u64 = 10_000_000;

/// Rates of bits are not whole frames: a full line may be a little more.
pub(super) const LINE_PERCENT_MAX: f64 = 100.1;

/// What a run of a flow needs.
pub(super) struct FlowSetup<'a> {
    pub(super) flow: &'a FlowConfig,
    pub(super) ifname: &'a str,
    pub(super) facts: DeviceFacts,
    /// Bits per second of the line.
    pub(super) speed: u64,
    pub(super) packets: Vec<FrameSpec>,
    pub(super) order: PacketOrder,
    pub(super) engine: Option<EngineKind>,
    /// Frames per call of the engine, if not its default.
    pub(super) batch: Option<u32>,
    /// True if the speed is that of the configuration or of the device.
    pub(super) has_line: bool,
    /// What it does when it is late, or its link is down.
    pub(super) sending: SendRules,
    pub(super) seed: u64,
}

impl FlowSetup<'_> {
    /// How fast a late flow catches up: never faster than its line.
    fn catch_up(&self) -> CatchUp {
        let percent = if self.has_line { self.flow.line_percent(self.speed) } else { 0.0 };
        match self.sending.catch_up {
            CatchUp::Times(times) if percent * f64::from(times.get()) > LINE_PERCENT_MAX => {
                CatchUp::Times(NonZeroU32::MIN)
            }
            other => other,
        }
    }

    /// The request: `sent` frames were sent before, of a flow that goes on at `resume`. None if all
    /// were sent.
    pub(super) fn request(
        &self,
        sent: u64,
        resume: Option<&(Cursor, u64)>,
        stagger_ns: u64,
    ) -> Option<Request> {
        let (plan, mut cursor) = Plan::of_lengths(&self.packets, self.order).on(&self.facts);
        cursor.rng = Rng(self.seed);
        if let Some((paused, _)) = resume {
            // A flow whose sizes changed has other packets with the same fields.
            cursor = paused.clone();
            cursor.next_packet %= self.packets.len();
        }
        let schedule = &self.flow.schedule;
        let pps = self.flow.pps(self.speed);
        let rate = Rate::nearest_pps(pps);
        let air_ns = resume.map_or(0, |(_, air_ns)| *air_ns);
        let duration_ns = match schedule.duration {
            FlowDuration::FixedSeconds(seconds) => (seconds * 1e9) as u64 + LATE_MAX_NS,
            _ => 0,
        };
        if duration_ns != 0 && air_ns >= duration_ns {
            return None;
        }
        let (total, pace) = match schedule.duration {
            FlowDuration::Continuous => (0, Pace::Constant(rate)),
            FlowDuration::FixedPackets(count) => (count, Pace::Constant(rate)),
            // Frames that are due before the end, and no more; at least the first.
            FlowDuration::FixedSeconds(seconds) => {
                (((seconds * pps).round() as u64).max(1), Pace::Constant(rate))
            }
            FlowDuration::Bursts { bursts, packets, gap } => {
                (bursts * packets, bursts_of(packets, rate, gap.nanoseconds(self.speed)))
            }
        };
        if total != 0 && sent >= total {
            return None;
        }
        let delay_ns = if sent == 0 { schedule.delay.nanoseconds(self.speed) as u64 } else { 0 };
        let limits = Limits {
            count: total.saturating_sub(sent),
            // 0 is no limit.
            duration_ns: duration_ns.saturating_sub(air_ns),
            pace,
            catch_up: self.catch_up(),
            keep_going: self.sending.keep_going,
            start_delay_ns: delay_ns + stagger_ns,
            ..Limits::default()
        };
        Some(Request {
            ifname: self.ifname.to_owned(),
            plan,
            cursor,
            mode: XmitMode::StartXmit,
            options: TxOptions::default(),
            limits,
            engine: self.engine,
            batch: self.batch,
            next_ns: None,
        })
    }
}

/// The rate of a flow, to compare the reached one with; none for bursts.
pub(super) fn asked_of(flow: &FlowConfig, speed: u64) -> Option<Asked> {
    let is_burst = matches!(flow.schedule.duration, FlowDuration::Bursts { .. });
    let pps = flow.pps(speed);
    (!is_burst).then_some(Asked { pps, wire_bps: None, ramp: None, group: 1, is_random: false })
}

/// Groups of frames at a rate; `gap_ns` is the time that is added to the usual gap between two
/// groups.
fn bursts_of(packets: u64, rate: Rate, gap_ns: f64) -> Pace {
    let frames = u32::try_from(packets).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
    let usual_ns = rate.gap_of(0) as f64 / 1000.0;
    Pace::bursts_with_gap(frames, rate, (usual_ns + gap_ns) as u64)
}
