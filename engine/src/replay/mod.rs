//! Sends frames that a [`ReplaySource`] gives, at their due times or as fast as possible.
//!
//! `xdp` sends them out of a ring that a thread of its own fills, so that reading files costs the
//! sending CPU nothing. `packet` sends them by a packet socket, on any device. The ring has a fixed
//! size, so memory does not grow with the file.

mod frame_ring;
mod packet;
mod xdp;

use crate::clock::Clock;
use crate::engine::Burst;
use crate::progress::Progress;
use crate::{EngineError, EngineKind};
use host::Netns;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
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
}

/// Frames, one after another.
pub trait ReplaySource: Send {
    /// The next frame; `None` at the end.
    fn advance(&mut self) -> Option<ReplayFrame>;

    /// The bytes of that frame.
    fn bytes(&self) -> &[u8];
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
    /// The CPU to send from.
    pub cpu: u32,
    /// While it is not 0, no frame is sent; the due times of the others move by that time.
    pub pause: Arc<AtomicUsize>,
    /// Counts so far, for other threads.
    pub progress: Arc<ReplayProgress>,
}

/// Counts of a replay that other threads read while it runs.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    offered: Progress,
    starved: AtomicU64,
}

impl ReplayProgress {
    /// Frames offered to the driver so far.
    pub fn total(&self) -> Burst {
        self.offered.total()
    }

    /// Times so far that the sender waited for the source.
    pub fn starved(&self) -> u64 {
        self.starved.load(Relaxed)
    }

    fn set(&self, total: &Burst, starved: u64) {
        self.offered.set(total);
        self.starved.store(starved, Relaxed);
    }
}

impl ReplayRequest {
    fn is_paused(&self) -> bool {
        self.pause.load(Relaxed) != 0
    }

    /// Waits until the pause is over or a stop comes; gives the time that it took.
    fn pause_ns(&self, clock: &impl Clock, stop: &AtomicBool) -> u64 {
        let began_ns = clock.now_ns();
        while self.is_paused() && !is_stopped(stop) {
            std::thread::sleep(PAUSE_POLL);
        }
        clock.now_ns() - began_ns
    }
}

/// Interval of checks whether a pause is over: the signal may interrupt any thread.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// What became of the frames.
#[derive(Debug)]
pub struct ReplayResult {
    /// Frames offered to the driver.
    pub burst: Burst,
    /// Offered frames for the other device.
    pub second: u64,
    /// Frames that the source gave and that were not offered.
    pub after_end: u64,
    /// From the first frame to the last, without pauses.
    pub duration_ns: u64,
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
            second: 0,
            after_end: 0,
            duration_ns: 0,
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
            Err(why) if wanted.is_some() || why.concerns_all_engines() => return Err(why),
            Err(why) => Some(format!("not {}: {}", EngineKind::Xdp, why.in_one_line())),
        },
    };
    let result = packet::run(request, source, stop)?;
    Ok(ReplayResult { note, ..result })
}

/// The bucket of a lateness.
fn octave(late_ns: u64) -> usize {
    ((u64::BITS - late_ns.leading_zeros()) as usize).min(LATE_OCTAVES - 1)
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
