//! Replay by a packet socket: any device, one system call per frame when timed.

use super::timeline::{OwnTimeline, SharedTimeline};
use super::{ReplayFrame, ReplayRequest, ReplayResult, ReplaySource, ReplayStep, is_stopped, octave};
use crate::af_packet::replay_ring;
use crate::clock::{Clock, HybridClock};
use crate::device::OutputDevice;
use crate::userspace::TxRing;
use crate::{EngineError, EngineKind};
use host::Stack;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Frames of one call at top speed.
const BATCH: usize = 64;
/// Time after which a device that takes no frame is asked for its state.
const CHECK_NS: u64 = 10_000_000;
/// Pause while the device is full: the kernel has no event that is not a system call per frame.
const PAUSE: Duration = Duration::from_micros(20);

/// Sends all frames of `source`.
pub(super) fn run(
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    let mut ports = Vec::new();
    for name in std::iter::once(&request.ifname).chain(&request.other) {
        let device = OutputDevice::new(Stack::here()?, name)?;
        device.wait_for_carrier()?;
        if let Some(trouble) = device.trouble(true)? {
            return Err(trouble);
        }
        let ring = replay_ring(&device, BATCH, request.frame_len_max as usize)?;
        ports.push(PacketPort { device, ring, first: 0, pending: 0, sent: 0 });
    }
    host::pin_thread(request.cpus[0])?;
    let clock = HybridClock::default();
    let mut result = ReplayResult::new(EngineKind::AfPacket);
    let shared = SharedTimeline::new(Arc::clone(&request.control));
    // The first frame is read before the clock starts.
    let mut next = next_frame(source);
    let start_ns = request.start_ns(&clock, stop)?.unwrap_or_else(|| clock.now_ns());
    shared.start(start_ns);
    let mut timeline = OwnTimeline::new(&shared);
    let mut first_ns = None;
    while let Some(ReplayFrame { due_ns, is_second, .. }) = next {
        let port = &mut ports[usize::from(is_second)];
        let due_ns = if request.is_timed { due_ns } else { 0 };
        result.is_stopped = !wait_until_due(&mut timeline, due_ns, &clock, stop);
        let now_ns = clock.now_ns();
        let own = timeline.now(now_ns);
        let end_ns = start_ns.saturating_add(request.duration_ns + own.pause_sum_ns);
        let is_late = request.duration_ns > 0 && now_ns >= end_ns;
        if result.is_stopped || is_late {
            result.is_stopped = !is_late;
            result.after_end = 1;
            break;
        }
        first_ns.get_or_insert(now_ns);
        if request.is_timed {
            result.late[octave(now_ns.saturating_sub(own.clock_ns(due_ns)))] += 1;
        }
        let added = port.add(source.bytes(), stop, &mut result, &clock).and_then(|is_added| {
            // The first frame goes alone, so that its time is known.
            let is_full = !request.is_timed && port.pending < BATCH && result.first_late_ns.is_some();
            if is_full || !is_added { Ok(is_added) } else { port.flush(stop, &mut result, &clock) }
        });
        request.progress.set(0, &result.burst);
        match added {
            Ok(true) => {
                result.first_late_ns.get_or_insert_with(|| clock.now_ns().saturating_sub(start_ns));
                next = next_frame(source);
            }
            Ok(false) => {
                result.is_stopped = true;
                break;
            }
            Err(error) => {
                result.error = Some(error);
                break;
            }
        }
    }
    for port in &mut ports {
        if result.error.is_none()
            && !result.is_stopped
            && let Err(error) = port.flush(stop, &mut result, &clock)
        {
            result.error = Some(error);
        }
        result.after_end += port.pending as u64;
    }
    let now_ns = clock.now_ns();
    let timeline = shared.at_end(now_ns);
    (result.pauses, result.paused_ns) = (timeline.pauses, timeline.pause_sum_ns);
    result.second = ports.get(1).map_or(0, |other| other.sent);
    result.offered = vec![ports[0].sent];
    result.duration_ns = (now_ns - first_ns.unwrap_or(now_ns)).saturating_sub(result.paused_ns);
    Ok(result)
}

/// The next frame of a source that is not repeated here.
fn next_frame(source: &mut dyn ReplaySource) -> Option<ReplayFrame> {
    loop {
        match source.advance() {
            ReplayStep::Frame(frame) => return Some(frame),
            ReplayStep::Repeat(_) => {}
            ReplayStep::End => return None,
        }
    }
}

/// Waits until a frame is due and the run is not paused; false if a stop came before.
fn wait_until_due(
    timeline: &mut OwnTimeline<'_>,
    due_ns: u64,
    clock: &HybridClock,
    stop: &AtomicBool,
) -> bool {
    loop {
        timeline.wait_for_resume(clock, stop);
        if is_stopped(stop) {
            return false;
        }
        let now_ns = clock.now_ns();
        let at_ns = timeline.now(now_ns).clock_ns(due_ns);
        if now_ns >= at_ns {
            return true;
        }
        clock.wait_until(at_ns);
    }
}

/// A device and its ring.
struct PacketPort<R> {
    device: OutputDevice,
    ring: R,
    first: usize,
    pending: usize,
    /// Frames that the driver accepted.
    sent: u64,
}

impl<R: TxRing> PacketPort<R> {
    /// Puts a frame into the ring; false if a stop came before.
    fn add(
        &mut self,
        frame: &[u8],
        stop: &AtomicBool,
        result: &mut ReplayResult,
        clock: &HybridClock,
    ) -> Result<bool, EngineError> {
        let index = (self.first + self.pending) % self.ring.slots();
        let mut asked_ns = clock.now_ns();
        loop {
            if let Some(slot) = self.ring.slot(index) {
                slot[..frame.len()].copy_from_slice(frame);
                break;
            }
            if !self.pause(stop, result, clock, &mut asked_ns)? {
                result.after_end += 1;
                return Ok(false);
            }
        }
        self.ring.set_frame_len(index, frame.len());
        self.pending += 1;
        Ok(true)
    }

    /// Sends the frames of the ring; false if a stop came before the last.
    fn flush(
        &mut self,
        stop: &AtomicBool,
        result: &mut ReplayResult,
        clock: &HybridClock,
    ) -> Result<bool, EngineError> {
        let mut asked_ns = clock.now_ns();
        while self.pending > 0 {
            match self.ring.send(self.first, self.pending) {
                Ok(accepted) => {
                    let frames = self.first..self.first + accepted.count;
                    let slots = self.ring.slots();
                    let bytes: usize = frames.map(|index| self.ring.frame(index % slots).len()).sum();
                    result.burst.frame_bytes += bytes as u64;
                    result.burst.sent += accepted.count as u64;
                    self.sent += accepted.count as u64;
                    self.first = (self.first + accepted.count) % slots;
                    self.pending -= accepted.count;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => {
                        if !self.pause(stop, result, clock, &mut asked_ns)? {
                            return Ok(false);
                        }
                    }
                    _ => {
                        let ifname = self.device.name();
                        let failed =
                            EngineError::Syscall { call: "sendto(AF_PACKET)", ifname, source: error };
                        return Err(self.device.trouble(true)?.unwrap_or(failed));
                    }
                },
            }
        }
        Ok(true)
    }

    /// Waits for a full device; false if a stop came.
    fn pause(
        &self,
        stop: &AtomicBool,
        result: &mut ReplayResult,
        clock: &HybridClock,
        asked_ns: &mut u64,
    ) -> Result<bool, EngineError> {
        if is_stopped(stop) {
            return Ok(false);
        }
        result.burst.retries += 1;
        if clock.now_ns().saturating_sub(*asked_ns) > CHECK_NS {
            *asked_ns = clock.now_ns();
            if let Some(trouble) = self.device.trouble(true)? {
                return Err(trouble);
            }
        }
        std::thread::sleep(PAUSE);
        Ok(true)
    }
}
