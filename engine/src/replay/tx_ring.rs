//! Replay by the ring of a packet socket or the slots of the skb engine: one system call per frame
//! when timed.

use super::timeline::{OwnTimeline, SharedTimeline};
use super::{ReplayFrame, ReplayRequest, ReplayResult, ReplaySource, ReplayStep, is_stopped, octave};
use crate::EngineError;
use crate::clock::{Clock, HybridClock};
use crate::device::OutputDevice;
use crate::link_state::{LINK_LOOK_NS, LinkState};
use crate::userspace::{Accepted, LinkHealth, TxLink, TxRing};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Frames of one call at top speed.
pub(super) const BATCH: usize = 64;
/// Interval at which the state of a device that takes no frames is queried.
const CHECK_NS: u64 = 10_000_000;
/// Pause while the device is full: the kernel has no event that is not a system call per frame.
const PAUSE: Duration = Duration::from_micros(20);
/// Pause while a link is down, and frames without due times wait for it.
const LINK_PAUSE: Duration = Duration::from_nanos(LINK_LOOK_NS);

/// The rings of all devices, opened by `open` in the namespace of each.
///
/// # Errors
/// When a device cannot send, or the kernel refuses a ring.
pub(super) fn open<R: TxRing>(
    request: &ReplayRequest,
    open: impl Fn(&OutputDevice) -> Result<R, EngineError>,
) -> Result<Vec<RingPort<R>>, EngineError> {
    let devices = request.ready_devices()?.into_iter().enumerate();
    let port = |(place, device): (usize, OutputDevice)| {
        let ring = request.in_netns_of(place, || open(&device))?;
        let link = LinkState::new(0);
        let health = TxLink { device, transmits: request.transmits() };
        Ok(RingPort { health, ring, first: 0, pending: 0, sent: 0, no_carrier: 0, link, checked_ns: 0 })
    };
    devices.map(port).collect()
}

/// Sends all frames of `source`.
pub(super) fn run<R: TxRing>(
    mut ports: Vec<RingPort<R>>,
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    host::pin_thread(request.cpus[0])?;
    let clock = HybridClock::default();
    let mut result = ReplayResult::new(R::KIND);
    let shared = SharedTimeline::new(Arc::clone(&request.control));
    // The first frame is read before the clock starts.
    let mut next = next_frame(source);
    let start_ns = request.start_ns(&clock, stop)?.unwrap_or_else(|| clock.now_ns());
    shared.start(start_ns);
    ports.iter_mut().for_each(|port| port.link = LinkState::new(start_ns));
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
        match port.waits_for_link(now_ns) {
            Ok(false) => {}
            Ok(true) if request.is_timed => {
                port.leave_out(source.bytes().len(), &mut result);
                request.progress.set(0, &result.burst);
                next = next_frame(source);
                continue;
            }
            Ok(true) => {
                std::thread::sleep(LINK_PAUSE);
                continue;
            }
            Err(error) => {
                result.error = Some(error);
                result.after_end = 1;
                break;
            }
        }
        if request.is_timed {
            result.late[octave(now_ns.saturating_sub(own.clock_ns(due_ns)))] += 1;
        }
        let put = port.put(source.bytes(), stop, &mut result, &clock);
        let is_put = matches!(put, Ok(true));
        let offered = put.and_then(|is_put| {
            // The first frame goes alone, so that its time is known.
            let is_full = !request.is_timed && port.pending < BATCH && result.first_late_ns.is_some();
            if is_full || !is_put { Ok(is_put) } else { port.flush(stop, &mut result, &clock) }
        });
        match offered {
            Ok(true) => {
                result.first_late_ns.get_or_insert_with(|| clock.now_ns().saturating_sub(start_ns));
                next = next_frame(source);
            }
            Err(error) if request.survives(&error) => {
                port.link.went_down();
                if request.is_timed {
                    port.leave_out_pending(&mut result);
                }
                if is_put {
                    next = next_frame(source);
                }
            }
            ended => {
                result.after_end += u64::from(!is_put);
                result.is_stopped = ended.is_ok();
                result.error = ended.err();
            }
        }
        request.progress.set(0, &result.burst);
        if result.is_stopped || result.error.is_some() {
            break;
        }
    }
    for port in &mut ports {
        let is_over = || {
            let now_ns = clock.now_ns();
            let all_ns = request.duration_ns + shared.at_end(now_ns).pause_sum_ns;
            request.duration_ns > 0 && now_ns >= start_ns.saturating_add(all_ns)
        };
        while result.error.is_none() && !result.is_stopped && port.pending > 0 {
            match port.flush(stop, &mut result, &clock) {
                Ok(is_whole) => result.is_stopped = !is_whole,
                Err(error) if request.survives(&error) => {
                    port.link.went_down();
                    match port.wait_for_link(&clock, stop, is_over) {
                        Ok(true) => {}
                        Ok(false) => {
                            result.is_stopped = is_stopped(stop);
                            break;
                        }
                        Err(error) => result.error = Some(error),
                    }
                }
                Err(error) => result.error = Some(error),
            }
        }
        result.after_end += port.pending as u64;
        result.interruptions.add(port.link.interruptions());
    }
    let now_ns = clock.now_ns();
    let timeline = shared.at_end(now_ns);
    (result.pauses, result.paused_ns) = (timeline.pauses, timeline.pause_sum_ns);
    result.changes = shared.changes();
    result.second = ports.get(1).map_or(0, RingPort::offered);
    result.second_no_carrier = ports.get(1).map_or(0, |other| other.no_carrier);
    result.offered = vec![ports[0].offered()];
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
pub(super) struct RingPort<R> {
    health: TxLink,
    ring: R,
    first: usize,
    pending: usize,
    /// Frames that left the ring.
    sent: u64,
    /// Frames that were due while the link was down.
    no_carrier: u64,
    /// For runs that keep going.
    link: LinkState,
    /// When the state of the device was queried last.
    checked_ns: u64,
}

impl<R: TxRing> RingPort<R> {
    /// Frames offered to the driver, and those left out because the link was down.
    fn offered(&self) -> u64 {
        self.sent + self.no_carrier
    }

    /// True while the link is down that the run waits for.
    ///
    /// # Errors
    /// The device is gone.
    fn waits_for_link(&mut self, now_ns: u64) -> Result<bool, EngineError> {
        let health = &self.health;
        self.link.look(now_ns, || health.trouble().unwrap_or_else(Some))
    }

    /// Waits until the link is back; false if a stop or the end of the run came before.
    ///
    /// # Errors
    /// The device is gone.
    fn wait_for_link(
        &mut self,
        clock: &HybridClock,
        stop: &AtomicBool,
        is_over: impl Fn() -> bool,
    ) -> Result<bool, EngineError> {
        while self.waits_for_link(clock.now_ns())? {
            if is_stopped(stop) || is_over() {
                return Ok(false);
            }
            std::thread::sleep(LINK_PAUSE);
        }
        Ok(true)
    }

    /// Counts a frame of this length that is due while the link is down.
    fn leave_out(&mut self, frame_len: usize, result: &mut ReplayResult) {
        self.no_carrier += 1;
        result.burst.errors.no_carrier += 1;
        result.burst.frame_bytes += frame_len as u64;
    }

    /// Takes the frames back that were due and are still in the ring.
    fn leave_out_pending(&mut self, result: &mut ReplayResult) {
        for place in 0..std::mem::take(&mut self.pending) {
            let frame_len = self.ring.frame((self.first + place) % self.ring.slots()).len();
            self.leave_out(frame_len, result);
        }
    }

    /// Puts a frame into the ring; false if a stop came before.
    fn put(
        &mut self,
        frame: &[u8],
        stop: &AtomicBool,
        result: &mut ReplayResult,
        clock: &HybridClock,
    ) -> Result<bool, EngineError> {
        let index = (self.first + self.pending) % self.ring.slots();
        loop {
            if let Some(slot) = self.ring.slot(index) {
                slot[..frame.len()].copy_from_slice(frame);
                break;
            }
            if !self.pause(stop, result, clock)? {
                return Ok(false);
            }
        }
        self.ring.set_frame_len(index, frame.len());
        // Those that a queue can be chosen for leave by one, in order.
        self.ring.set_queue(index, 0);
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
        while self.pending > 0 {
            match self.ring.send(self.first, self.pending) {
                Ok(Accepted { count, congested }) => {
                    let frames = self.first..self.first + count;
                    let slots = self.ring.slots();
                    let bytes: usize = frames.map(|index| self.ring.frame(index % slots).len()).sum();
                    result.burst.frame_bytes += bytes as u64;
                    result.burst.sent += (count - congested) as u64;
                    result.burst.errors.qdisc_dropped += congested as u64;
                    self.sent += count as u64;
                    self.first = (self.first + count) % slots;
                    self.pending -= count;
                    if count > congested {
                        self.link.note_sent(clock.now_ns());
                    }
                    if congested > 0 {
                        // A device that is down has a queueing discipline that drops all frames.
                        self.check(clock)?;
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM | libc::ENETDOWN) => {
                        if !self.pause(stop, result, clock)? {
                            return Ok(false);
                        }
                    }
                    _ => {
                        let ifname = self.health.name();
                        let failed = EngineError::Syscall { call: R::CALL, ifname, source: error };
                        return Err(self.health.trouble()?.unwrap_or(failed));
                    }
                },
            }
        }
        Ok(true)
    }

    /// Waits for a full device; false if a stop came.
    fn pause(
        &mut self,
        stop: &AtomicBool,
        result: &mut ReplayResult,
        clock: &HybridClock,
    ) -> Result<bool, EngineError> {
        if is_stopped(stop) {
            return Ok(false);
        }
        result.burst.retries += 1;
        self.check(clock)?;
        std::thread::sleep(PAUSE);
        Ok(true)
    }

    /// Queries the state of the device, if the last query is long ago.
    ///
    /// # Errors
    /// Why it cannot send.
    fn check(&mut self, clock: &HybridClock) -> Result<(), EngineError> {
        let now_ns = clock.now_ns();
        if now_ns.saturating_sub(self.checked_ns) < CHECK_NS {
            return Ok(());
        }
        self.checked_ns = now_ns;
        self.health.trouble()?.map_or(Ok(()), Err)
    }
}
