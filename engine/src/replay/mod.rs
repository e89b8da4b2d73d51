//! Sends frames that a [`ReplaySource`] gives, at their due times or as fast as possible.
//!
//! `xdp` sends them out of a ring that a thread of its own fills, so that reading files costs the
//! sending CPU nothing. `packet` sends them by a packet socket, on any device. The ring has a fixed
//! size, so memory does not grow with the file.

mod frame_ring;
mod packet;
mod timeline;
mod xdp;

pub use timeline::{ReplayControl, SPEED_ONE};

use crate::clock::{Clock, HybridClock};
use crate::engine::Burst;
use crate::progress::Progress;
use crate::{EngineError, EngineKind};
use host::{Netns, StartTime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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

/// What to do with the frames.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The device.
    pub ifname: String,
    /// The other device, in the same namespace.
    pub other: Option<String>,
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
    /// The CPUs to send from, with a thread each; af_packet uses the first.
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
    /// Times that the sender waited for the source.
    pub starved: u64,
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
            after_end: 0,
            duration_ns: 0,
            first_late_ns: None,
            pauses: 0,
            paused_ns: 0,
            starved: 0,
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
/// Longest frame of the xdp engine.
pub const REPLAY_XDP_LEN_MAX: u32 = crate::xdp::FRAME_LEN_MAX;

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

fn send(
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    let unable = |kind, what: &str| Err(EngineError::unable(kind, what));
    let note = match request.engine {
        Some(EngineKind::AfPacket) => None,
        Some(kind @ (EngineKind::Skb | EngineKind::AfXdp | EngineKind::Mem)) => {
            return unable(kind, "replay: xdp and af_packet do");
        }
        wanted => match xdp::XdpReplay::new(request) {
            Ok(xdp) => return xdp.run(request, source, stop),
            // A packet socket sends whatever the device sends.
            Err(why @ EngineError::NotEthernet { .. }) if wanted.is_none() => {
                Some(format!("not {}: {}", EngineKind::Xdp, why.in_one_line()))
            }
            Err(why) if wanted.is_some() || why.concerns_all_engines() => return Err(why),
            Err(why) => Some(format!("not {}: {}", EngineKind::Xdp, why.in_one_line())),
        },
    };
    let [_] = request.cpus[..] else {
        return unable(EngineKind::AfPacket, "several CPUs: only the xdp engine does");
    };
    let result = packet::run(request, source, stop)?;
    Ok(ReplayResult { note, ..result })
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
