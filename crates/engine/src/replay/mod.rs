//! Sends frames that a [`ReplaySource`] gives, at their due times or as fast as possible.
//!
//! `xdp` sends them out of a ring that a thread of its own fills, so that reading files costs the
//! sending CPU nothing. `tx_ring` sends them by the skb engine, through the queueing discipline, or
//! by a packet socket, on any device. The rings have a fixed size, so memory does not grow with the
//! file.

mod frame_ring;
mod timeline;
mod tx_ring;
mod xdp;

pub use timeline::{ReplayChange, ReplayControl, SPEED_ONE};

use crate::af_packet::{self, PacketRing};
use crate::clock::{Clock, HybridClock};
use crate::device::OutputDevice;
use crate::engine::Burst;
use crate::link_state::Interruptions;
use crate::progress::Progress;
use crate::skb::{self, PrebuiltRing};
use crate::{EngineError, EngineKind};
use host::{Netns, Stack, StartTime};
use packet::XmitMode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tx_ring::{BATCH, RingPort};
use xdp::XdpReplay;

/// Buckets of [`ReplayResult::late`]: frames below 2^N ns.
pub const LATE_OCTAVES: usize = 40;

/// What a source gives for one frame, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayFrame {
    /// When it is due, after the start.
    pub due_ns: u64,
    /// It leaves by the other device.
    pub is_second: bool,
    /// The sending thread, modulo their number. Frames of one thread keep their order.
    pub queue: u16,
}

/// The next step of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// A frame, whose bytes [`ReplaySource::bytes`] has.
    Frame(ReplayFrame),
    /// All frames so far come again and again, this many more; all are due at once. An engine that
    /// has kept them sends them without the source and calls [`ReplaySource::repeated`]. Otherwise
    /// it goes on as usual.
    Repeat(u64),
    /// There are no more frames.
    End,
}

/// Frames, one after another.
pub trait ReplaySource: Send {
    /// The next step.
    fn advance(&mut self) -> ReplayStep;

    /// The bytes of that frame.
    fn bytes(&self) -> &[u8];

    /// This many of the frames of [`ReplayStep::Repeat`] were offered. The source is not used any
    /// more.
    fn repeated(&mut self, _frames: u64) {}
}

/// The second device of a replay.
#[derive(Clone, Debug)]
pub struct OtherDevice {
    /// Its name.
    pub ifname: String,
    /// Its namespace.
    pub netns: Netns,
}

/// What to do with the frames.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The device.
    pub ifname: String,
    /// The other device, which may be in another namespace.
    pub other: Option<OtherDevice>,
    /// Where frames enter the kernel.
    pub mode: XmitMode,
    /// The requested engine.
    pub engine: Option<EngineKind>,
    /// Length of the longest frame.
    pub frame_len_max: u32,
    /// Frames begin with an Ethernet header; other devices need a packet socket.
    pub is_ethernet: bool,
    /// Frames wait until they are due.
    pub is_timed: bool,
    /// Time after which it ends, 0 for no limit.
    pub duration_ns: u64,
    /// While a device is down or without carrier, its frames that are due count as errors, and
    /// sending goes on when the link is back. Without due times they wait for it. Otherwise such a
    /// device ends the run.
    pub keep_going: bool,
    /// The CPUs to send from, with a thread each; only the xdp engine takes several.
    pub cpus: Vec<u32>,
    /// When the first frame is due; `None` for as soon as it is ready.
    pub start_at: Option<StartTime>,
    /// Pauses and changes of the speed.
    pub control: Arc<ReplayControl>,
    /// Counts so far, for other threads.
    pub progress: Arc<ReplayProgress>,
}

/// Counts of a replay that other threads read while it runs.
#[derive(Debug)]
pub struct ReplayProgress {
    /// Of each sending thread.
    offered: Vec<Progress>,
    starved: AtomicU64,
}

impl Default for ReplayProgress {
    fn default() -> Self {
        let offered = (0..REPLAY_CPUS_MAX).map(|_| Progress::default()).collect();
        Self { offered, starved: AtomicU64::new(0) }
    }
}

impl ReplayProgress {
    /// Frames offered to the driver so far.
    pub fn total(&self) -> Burst {
        self.offered.iter().fold(Burst::default(), |mut sum, thread| {
            sum.add(&thread.total());
            sum
        })
    }

    /// Times so far that the sender waited for the source.
    pub fn starved(&self) -> u64 {
        self.starved.load(Relaxed)
    }

    /// Sets the total of thread `queue`.
    fn set(&self, queue: usize, total: &Burst) {
        self.offered[queue].set(total);
    }

    /// A thread waits for the source.
    fn add_starved(&self) {
        self.starved.fetch_add(1, Relaxed);
    }
}

impl ReplayRequest {
    /// True if frames leave by the devices; false if these receive them.
    fn transmits(&self) -> bool {
        self.mode != XmitMode::NetifReceive
    }

    /// True if the time of a run is over that started at `start_ns` and had pauses.
    fn is_over(&self, start_ns: u64, pause_sum_ns: u64, now_ns: u64) -> bool {
        self.duration_ns > 0 && now_ns >= start_ns.saturating_add(self.duration_ns + pause_sum_ns)
    }

    /// True if the run waits until the link is back.
    fn survives(&self, error: &EngineError) -> bool {
        self.keep_going && error.is_link_down()
    }

    /// All devices, the first one first.
    ///
    /// # Errors
    /// When one does not exist.
    fn devices(&self) -> Result<Vec<OutputDevice>, EngineError> {
        let names = std::iter::once(&self.ifname).chain(self.other.iter().map(|other| &other.ifname));
        let open = |name| OutputDevice::new(Stack::here()?, name);
        names.enumerate().map(|(place, name)| self.in_netns_of(place, || open(name))).collect()
    }

    /// All devices, once they can send.
    ///
    /// # Errors
    /// When one does not exist, or why one cannot send.
    fn ready_devices(&self) -> Result<Vec<OutputDevice>, EngineError> {
        let devices = self.devices()?;
        if self.transmits() {
            devices.iter().try_for_each(OutputDevice::wait_for_carrier)?;
        }
        trouble_of(&devices, self.transmits())?.map_or(Ok(devices), Err)
    }

    /// Acts in the namespace of a device, on a thread that is in that of the first one.
    ///
    /// # Errors
    /// That of `act`, or when the thread may not enter the namespace.
    fn in_netns_of<T>(
        &self,
        place: usize,
        act: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let Some(other) = self.other.as_ref().filter(|_| place > 0) else { return act() };
        let own = Netns::current()?;
        other.netns.enter()?;
        let done = act();
        own.enter()?;
        done
    }

    /// `CLOCK_MONOTONIC` at which the first frame is due: soon, or the requested time, which this
    /// waits for until it is near. `None` if a stop came before.
    ///
    /// # Errors
    /// The requested time has passed.
    fn start_ns(&self, clock: &impl Clock, stop: &AtomicBool) -> Result<Option<u64>, EngineError> {
        let Some(start_at) = self.start_at else { return Ok(Some(clock.now_ns() + START_DELAY_NS)) };
        if let Some(late_ns) = start_at.late_ns() {
            return Err(EngineError::ReadyTooLate { late_ns });
        }
        while !is_stopped(stop) {
            if let Some(start_ns) = start_at.approach(STOP_POLL) {
                return Ok(Some(start_ns));
            }
        }
        Ok(None)
    }
}

/// Time from the start of a run to its first frame.
const START_DELAY_NS: u64 = 1_000_000;
/// Interval of checks for a stop while a run waits for its start.
const STOP_POLL: Duration = Duration::from_millis(4);

/// What became of the frames.
#[derive(Debug)]
pub struct ReplayResult {
    /// Frames offered to the driver.
    pub burst: Burst,
    /// Frames offered to the driver of the first device by each thread.
    pub offered: Vec<u64>,
    /// Offered frames for the other device.
    pub second: u64,
    /// Those of them that were due while its link was down.
    pub second_no_carrier: u64,
    /// Frames that the source gave and that were not offered.
    pub after_end: u64,
    /// From the first frame to the last, without pauses.
    pub duration_ns: u64,
    /// From the time at which the first frame was due until the call that sent it returned.
    pub first_late_ns: Option<u64>,
    /// Pauses.
    pub pauses: u64,
    /// Time of all pauses.
    pub paused_ns: u64,
    /// Pauses, their ends and other speeds, in order of time.
    pub changes: Vec<ReplayChange>,
    /// Times that the sender waited for the source.
    pub starved: u64,
    /// How often and how long the link of a device was down, of all devices; with several threads,
    /// of the one with the longest interruption.
    pub interruptions: Interruptions,
    /// Timed frames by their lateness: bucket N has those below 2^N ns.
    pub late: [u64; LATE_OCTAVES],
    /// The engine.
    pub engine: EngineKind,
    /// Why not an engine that is faster.
    pub note: Option<String>,
    /// A stop ended it.
    pub is_stopped: bool,
    /// What ended it before the last frame.
    pub error: Option<EngineError>,
}

impl ReplayResult {
    fn new(engine: EngineKind) -> Self {
        Self {
            burst: Burst::default(),
            offered: Vec::new(),
            second: 0,
            second_no_carrier: 0,
            after_end: 0,
            duration_ns: 0,
            first_late_ns: None,
            pauses: 0,
            paused_ns: 0,
            changes: Vec::new(),
            starved: 0,
            interruptions: Interruptions::default(),
            late: [0; LATE_OCTAVES],
            engine,
            note: None,
            is_stopped: false,
            error: None,
        }
    }
}

/// Most sending threads.
pub const REPLAY_CPUS_MAX: usize = 64;
/// Longest frame of the skb engine.
pub const REPLAY_SKB_LEN_MAX: u32 = skb::REPLAY_LEN_MAX;

/// Bytes of the longest frame that the xdp engine sends on this kernel, at most `wanted`. Without
/// the capabilities to ask the kernel it is the most of any kernel; the engine then reports why.
pub fn replay_xdp_len_max(wanted: u32) -> u32 {
    let wanted = wanted.min(crate::xdp::FRAME_LEN_MAX);
    bpf::live_frame_len_max(wanted).unwrap_or(wanted)
}

/// Sends all frames of `source` in the namespace `netns`, until `stop` is set.
///
/// # Errors
/// When no engine works for the device. An error after the first frame is in the result.
pub fn replay(
    netns: &Netns,
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    netns.run(|| send(request, source, stop))?
}

/// Engines, as `send` prefers them.
const PREFERENCE: &[EngineKind] = &[EngineKind::Xdp, EngineKind::Skb, EngineKind::AfPacket];
/// Those that give frames to the receive path.
const RECEIVING: &[EngineKind] = &[EngineKind::Skb];

/// An engine that can send to the devices of a request.
enum ReplayEngine {
    Xdp(XdpReplay),
    Skb(Vec<RingPort<PrebuiltRing>>),
    AfPacket(Vec<RingPort<PacketRing>>),
}

impl ReplayEngine {
    fn new(kind: EngineKind, request: &ReplayRequest) -> Result<Self, EngineError> {
        let unable = |what: &str| Err(EngineError::unable(kind, what));
        let frame_len_max = request.frame_len_max as usize;
        match kind {
            EngineKind::Xdp => XdpReplay::new(request).map(Self::Xdp),
            EngineKind::Skb | EngineKind::AfPacket if request.cpus.len() > 1 => {
                unable("several CPUs: only the xdp engine does")
            }
            EngineKind::Skb => {
                // A test run of a program sends in the namespace of its caller.
                let own = Netns::current()?;
                if request.other.as_ref().is_some_and(|other| other.netns != own) {
                    return unable("devices in two namespaces");
                }
                let open = |device: &_| skb::replay_ring(device, request.mode, BATCH, frame_len_max);
                tx_ring::open(request, open).map(Self::Skb)
            }
            EngineKind::AfPacket => {
                let open = |device: &_| af_packet::replay_ring(device, request.mode, BATCH, frame_len_max);
                tx_ring::open(request, open).map(Self::AfPacket)
            }
            EngineKind::AfXdp | EngineKind::Mem => unable("replay: xdp, skb and af_packet do"),
        }
    }

    fn run(
        self,
        request: &ReplayRequest,
        source: &mut dyn ReplaySource,
        stop: &AtomicBool,
    ) -> Result<ReplayResult, EngineError> {
        match self {
            Self::Xdp(xdp) => xdp.run(request, source, stop),
            Self::Skb(ports) => tx_ring::run(ports, request, source, stop),
            Self::AfPacket(ports) => tx_ring::run(ports, request, source, stop),
        }
    }
}

fn send(
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    if let Some(kind) = request.engine {
        return ReplayEngine::new(kind, request)?.run(request, source, stop);
    }
    let kinds = if request.transmits() { PREFERENCE } else { RECEIVING };
    let last = kinds.last().copied();
    let mut refusals = Vec::new();
    for kind in kinds.iter().copied() {
        match ReplayEngine::new(kind, request) {
            Ok(engine) => {
                let note = (!refusals.is_empty()).then(|| refusals.join("; "));
                return Ok(ReplayResult { note, ..engine.run(request, source, stop)? });
            }
            // A packet socket sends whatever the device sends.
            Err(why @ EngineError::NotEthernet { .. }) if request.transmits() => {
                refusals.push(refusal(kind, &why));
            }
            Err(why) if why.concerns_all_engines() || Some(kind) == last => return Err(why),
            Err(why) => refusals.push(refusal(kind, &why)),
        }
    }
    unreachable!("the last engine is used or its error returned")
}

fn refusal(kind: EngineKind, why: &EngineError) -> String {
    format!("not {kind}: {}", why.in_one_line())
}

/// Why one of the devices cannot send, or receive if `transmits` is false; `None` if nothing
/// prevents it.
fn trouble_of(devices: &[OutputDevice], transmits: bool) -> Result<Option<EngineError>, EngineError> {
    for device in devices {
        if let Some(trouble) = device.trouble(transmits)? {
            return Ok(Some(trouble));
        }
    }
    Ok(None)
}

/// The bucket of a lateness.
fn octave(late_ns: u64) -> usize {
    ((u64::BITS - late_ns.leading_zeros()) as usize).min(LATE_OCTAVES - 1)
}

/// Waits until `due_ns`; false if a stop came before.
fn wait_until(clock: &HybridClock, due_ns: u64, stop: &AtomicBool) -> bool {
    while clock.now_ns() < due_ns {
        if is_stopped(stop) {
            return false;
        }
        clock.wait_until(due_ns);
    }
    true
}

fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_below_the_power_of_two_of_its_bucket() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(octave), [0, 1, 2, 2, 3, 10, 11]);
        assert_eq!(octave(u64::MAX), LATE_OCTAVES - 1);
    }
}
