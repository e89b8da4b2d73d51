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
    ports: Vec<RingPort<R>>,
    request: &ReplayRequest,
    source: &mut dyn ReplaySource,
    stop: &AtomicBool,
) -> Result<ReplayResult, EngineError> {
    host::pin_thread(request.cpus[0])?;
    let shared = SharedTimeline::new(Arc::clone(&request.control));
    let (clock, result) = (HybridClock::default(), ReplayResult::new(R::KIND));
    let mut run = RingRun { ports, request, stop, clock, result };
    // The first frame is read before the clock starts.
    let mut next = next_frame(source);
    let start_ns = request.start_ns(&run.clock, stop)?.unwrap_or_else(|| run.clock.now_ns());
    shared.start(start_ns);
    run.ports.iter_mut().for_each(|port| port.link = LinkState::new(start_ns));
    let mut timeline = OwnTimeline::new(&shared);
    let mut first_ns = None;
    while let Some(ReplayFrame { due_ns, is_second, .. }) = next {
        let due_ns = if request.is_timed { due_ns } else { 0 };
        run.result.is_stopped = !wait_until_due(&mut timeline, due_ns, &run.clock, stop);
        let now_ns = run.clock.now_ns();
        let own = timeline.now(now_ns);
        if run.result.is_stopped || request.is_over(start_ns, own.pause_sum_ns, now_ns) {
            run.result.after_end = 1;
            break;
        }
        first_ns.get_or_insert(now_ns);
        let late_ns = now_ns.saturating_sub(own.clock_ns(due_ns));
        let is_handled = run.offer(usize::from(is_second), source.bytes(), late_ns);
        if run.result.burst.sent > 0 {
            let late_ns = || run.clock.now_ns().saturating_sub(start_ns);
            run.result.first_late_ns.get_or_insert_with(late_ns);
        }
        request.progress.set(0, &run.result.burst);
        if run.has_ended() {
            run.result.after_end = u64::from(!is_handled);
            break;
        }
        if is_handled {
            next = next_frame(source);
        }
    }
    let is_over = |now_ns| request.is_over(start_ns, shared.at_end(now_ns).pause_sum_ns, now_ns);
    (0..run.ports.len()).for_each(|place| run.drain(place, is_over));
    let RingRun { ports, clock, mut result, .. } = run;
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

/// The devices of a run and what became of the frames so far.
struct RingRun<'a, R> {
    ports: Vec<RingPort<R>>,
    request: &'a ReplayRequest,
    stop: &'a AtomicBool,
    clock: HybridClock,
    result: ReplayResult,
}

impl<R: TxRing> RingRun<'_, R> {
    /// True after a stop or an error.
    fn has_ended(&self) -> bool {
        self.result.is_stopped || self.result.error.is_some()
    }

    /// Offers a frame that is due to a device, or counts it if the link is down. False if it has to
    /// be offered again, or the run has ended.
    fn offer(&mut self, place: usize, frame: &[u8], late_ns: u64) -> bool {
        let is_timed = self.request.is_timed;
        match self.try_put(place, frame) {
            Ok(true) if is_timed => self.result.late[octave(late_ns)] += 1,
            Ok(true) => {}
            Ok(false) if is_timed && self.ports[place].link.is_down() => {
                self.ports[place].leave_out(frame.len(), &mut self.result);
                return true;
            }
            Ok(false) => return false,
            Err(error) => {
                self.result.error = Some(error);
                return false;
            }
        }
        // The first frame goes alone, so that its time is known.
        let is_first = self.result.first_late_ns.is_none();
        if is_timed || is_first || self.ports[place].pending == BATCH {
            self.flush(place);
        }
        true
    }

    /// Puts a frame into the ring of its device; false if the link is down or a stop came.
    fn try_put(&mut self, place: usize, frame: &[u8]) -> Result<bool, EngineError> {
        if self.ports[place].waits_for_link(self.clock.now_ns())? {
            if !self.request.is_timed {
                std::thread::sleep(LINK_PAUSE);
            }
            return Ok(false);
        }
        // The frames of a ring leave together: those for the other device come first in the file.
        let other = 1 - place;
        if self.ports.get(other).is_some_and(|port| port.pending > 0) && !self.flush(other) {
            return Ok(false);
        }
        // Frames that a link kept from leaving go first, so a ring never holds more than a batch.
        if self.ports[place].pending == BATCH && !self.flush(place) {
            return Ok(false);
        }
        let port = &mut self.ports[place];
        match port.put(frame, self.stop, &mut self.result, &self.clock) {
            Err(error) if self.request.survives(&error) => {
                port.link.went_down();
                Ok(false)
            }
            put => {
                self.result.is_stopped |= matches!(put, Ok(false));
                put
            }
        }
    }

    /// Sends the frames of a ring; false if some are left: the link is down, or the run has ended.
    /// Those that are due while the link is down are counted.
    fn flush(&mut self, place: usize) -> bool {
        let port = &mut self.ports[place];
        if port.pending == 0 {
            return true;
        }
        let sent = match port.waits_for_link(self.clock.now_ns()) {
            Ok(false) => port.flush(self.stop, &mut self.result, &self.clock),
            Ok(true) => {
                std::thread::sleep(LINK_PAUSE);
                return false;
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(is_whole) => self.result.is_stopped |= !is_whole,
            Err(error) if self.request.survives(&error) => {
                port.link.went_down();
                if self.request.is_timed {
                    port.leave_out_pending(&mut self.result);
                }
            }
            Err(error) => self.result.error = Some(error),
        }
        port.pending == 0
    }

    /// Sends the last frames of a ring, unless the run ends before.
    fn drain(&mut self, place: usize, is_over: impl Fn(u64) -> bool) {
        while !self.has_ended() && !self.flush(place) {
            self.result.is_stopped |= is_stopped(self.stop);
            if is_over(self.clock.now_ns()) {
                break;
            }
        }
        let port = &self.ports[place];
        self.result.after_end += port.pending as u64;
        self.result.interruptions.add(port.link.interruptions());
    }
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

    /// Counts a frame of this length that is due while the link is down.
    fn leave_out(&mut self, frame_len: usize, result: &mut ReplayResult) {
        self.no_carrier += 1;
        result.burst.errors.causes.no_carrier += 1;
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
                    result.burst.errors.causes.qdisc_dropped += congested as u64;
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
                        let failed = EngineError::of_send(R::CALL, self.health.name(), error);
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
