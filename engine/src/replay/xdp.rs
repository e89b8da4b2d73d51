//! Replay by live frames: the ring, the thread that fills it, and the calls of the program.

use super::frame_ring::{RingState, fill};
use super::{LATE_OCTAVES, ReplayRequest, ReplayResult, ReplaySource, is_stopped};
use crate::clock::{Clock, HybridClock};
use crate::device::OutputDevice;
use crate::select::ThreadShared;
use crate::xdp::{BATCH_DEFAULT, DispatcherSlot, FRAME_LEN_MAX, sorted};
use crate::{EngineError, EngineKind, SystemClock};
use bpf::{REPLAY_RECORDS, ReplayRing, ReplaySender, TxCounts, TxSlot};
use host::Stack;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Frames of one call at top speed: more gain nothing, and a stop waits for a call.
const CALL_FRAMES_MAX: u64 = 4096;
/// A call waits no longer than this inside the program, which holds off softirqs of its CPU.
const CALL_WAIT_NS_MAX: u64 = 100_000;
/// A call starts this long before its first frame is due: the time that a call needs to begin.
const LEAD_NS: u64 = 8_000;
/// The first call, which allocates, starts this long before its frame is due. In 2026 on a virtual
/// machine it needed up to 460 µs.
const LEAD_FIRST_NS: u64 = 800_000;
/// At top speed a call waits for this number of frames: with 64, a frame costs three times as much.
const GATHER_FRAMES: u64 = 1024;
/// And for this long at most, for files that come slowly.
const GATHER_NS: u64 = 1_000_000;
/// With this many frames overdue, they go in batches; each frame is flushed by itself otherwise.
const OVERDUE_BATCH_MIN: u64 = 16;
/// Time from the start of the run to its first frame.
const START_DELAY_NS: u64 = 1_000_000;
/// Interval of checks whether the driver still accepts frames.
const CHECK_NS: u64 = 100_000_000;
/// Pause while the ring is empty or the program is being attached.
const PAUSE: Duration = Duration::from_micros(50);

/// One program for one run.
pub(super) struct XdpReplay {
    device: OutputDevice,
    sender: ReplaySender,
    ring: ReplayRing,
    tx_slot: Rc<TxSlot>,
    dispatcher_slot: DispatcherSlot,
}

/// The sending side of a run.
struct SendProgress<'a> {
    state: &'a RingState,
    due: &'a [AtomicU64],
    request: &'a ReplayRequest,
    start_ns: u64,
    starved: u64,
    /// Since when it waits for frames.
    starved_ns: Option<u64>,
    pauses: u64,
    paused_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// When the device is checked, and frames accepted at the last check.
    check_ns: u64,
    accepted: u64,
}

impl XdpReplay {
    pub(super) fn new(request: &ReplayRequest) -> Result<Self, EngineError> {
        if !request.is_ethernet {
            return Err(EngineError::NotEthernet { ifname: request.ifname.clone() });
        }
        let open = |name: &str| -> Result<OutputDevice, EngineError> {
            let device = OutputDevice::new(Stack::here()?, name)?;
            device.wait_for_carrier()?;
            match device.trouble(true)?.map_or_else(|| device.xdp_trouble(), |trouble| Ok(Some(trouble)))? {
                Some(trouble) => Err(trouble),
                None => Ok(device),
            }
        };
        let device = open(&request.ifname)?;
        let other = request.other.as_deref().map(open).transpose()?;
        let ports: Vec<u32> = std::iter::once(&device).chain(&other).map(OutputDevice::ifindex).collect();
        let frame_len_max = request.frame_len_max.min(FRAME_LEN_MAX);
        let (sender, ring) = ReplaySender::load(&ports, frame_len_max, request.is_timed)?;
        let failed = |source| EngineError::Syscall { call: "dup", ifname: device.name(), source };
        let dispatcher_slot = DispatcherSlot::of(sender.attachable().map_err(failed)?)?;
        let tx_slot = ThreadShared::default().claim()?;
        Ok(Self { device, sender, ring, tx_slot, dispatcher_slot })
    }

    pub(super) fn run(
        mut self,
        request: &ReplayRequest,
        source: &mut dyn ReplaySource,
        stop: &AtomicBool,
    ) -> Result<ReplayResult, EngineError> {
        while !self.dispatcher_slot.is_ready()? {
            std::thread::sleep(PAUSE);
        }
        let Self { device, sender, mut ring, tx_slot, dispatcher_slot: _slot } = self;
        let state = RingState::default();
        let due: Vec<AtomicU64> = (0..REPLAY_RECORDS).map(|_| AtomicU64::new(0)).collect();
        let before = tx_slot.counts();
        let mut result = ReplayResult::new(EngineKind::Xdp);
        let (filled, filled_rest) = (&state, &due);
        let made = std::thread::scope(|scope| {
            let filler = std::thread::Builder::new()
                .name("replay-fill".to_owned())
                .spawn_scoped(scope, move || fill(&mut ring, filled, filled_rest, source))
                .map_err(|source| EngineError::Syscall { call: "clone", ifname: device.name(), source })?;
            // After the start of the filler, which would inherit the CPU.
            let pinned = host::pin_thread(request.cpu);
            let mut progress = SendProgress::new(&state, &due, request);
            let ended = pinned
                .map_err(EngineError::from)
                .and_then(|()| progress.send_all(&sender, &device, (&tx_slot, &before), stop));
            state.close();
            result.starved = progress.starved;
            (result.pauses, result.paused_ns) = (progress.pauses, progress.paused_ns);
            let first_ns = progress.first_ns.unwrap_or(progress.last_ns);
            result.duration_ns = progress.last_ns.saturating_sub(first_ns).saturating_sub(progress.paused_ns);
            match ended {
                Ok(is_stopped) => result.is_stopped = is_stopped,
                Err(error) => result.error = Some(error),
            }
            Ok::<u64, EngineError>(filler.join().expect("the source does not panic"))
        })?;
        let counters = sender.state();
        let offered = counters.next;
        result.burst = sorted(offered, &tx_slot.counts().since(&before));
        result.burst.frame_bytes = counters.frame_bytes;
        result.second = counters.second_port;
        result.after_end = made - offered;
        for (count, found) in result.late.iter_mut().zip(&counters.late) {
            *count = *found;
        }
        if result.error.is_none() && result.burst.errors.is_serious() {
            result.error = device.trouble(true)?.or(device.xdp_trouble()?);
        }
        Ok(result)
    }
}

impl<'a> SendProgress<'a> {
    fn new(state: &'a RingState, due: &'a [AtomicU64], request: &'a ReplayRequest) -> Self {
        Self {
            state,
            due,
            request,
            start_ns: 0,
            starved: 0,
            starved_ns: None,
            pauses: 0,
            paused_ns: 0,
            first_ns: None,
            last_ns: 0,
            check_ns: 0,
            accepted: 0,
        }
    }

    /// Sends until the source is over; true if a stop ended it.
    fn send_all(
        &mut self,
        sender: &ReplaySender,
        device: &OutputDevice,
        (tx_slot, before): (&TxSlot, &TxCounts),
        stop: &AtomicBool,
    ) -> Result<bool, EngineError> {
        let clock = HybridClock::default();
        // The first frames are there before the clock starts.
        while self.state.head() == (0, false) && !is_stopped(stop) {
            std::thread::sleep(PAUSE);
        }
        self.start_ns = clock.now_ns() + START_DELAY_NS;
        sender.set_start_ns(self.start_ns);
        loop {
            if is_stopped(stop) {
                return Ok(true);
            }
            if self.request.is_paused() {
                self.pauses += 1;
                let paused_ns = self.request.pause_ns(&clock, stop);
                self.paused_ns += paused_ns;
                self.start_ns += paused_ns;
                sender.set_start_ns(self.start_ns);
                continue;
            }
            let now_ns = clock.now_ns();
            let duration_ns = self.request.duration_ns;
            if duration_ns > 0 && now_ns >= self.start_ns.saturating_add(duration_ns) {
                return Ok(false);
            }
            let sent = sender.handled();
            let (head, is_over) = self.state.head();
            if head == sent && is_over {
                return Ok(false);
            }
            if !is_over && self.is_starved(head - sent, now_ns) {
                std::thread::sleep(PAUSE);
                continue;
            }
            let (frames, batch) = match self.request.is_timed {
                true => match self.timed_call(sent, head, now_ns, &clock) {
                    Some(call) => call,
                    None => continue,
                },
                false => ((head - sent).min(CALL_FRAMES_MAX), BATCH_DEFAULT),
            };
            self.check(device, tx_slot, now_ns)?;
            self.first_ns.get_or_insert_with(|| clock.now_ns());
            let ran = sender.run_live(frames as u32, batch.min(frames as u32));
            let handled = sender.handled();
            self.state.free(handled);
            self.last_ns = SystemClock.now_ns();
            let total = sorted(handled, &tx_slot.counts().since(before));
            self.request.progress.set(&total, self.starved);
            if let Err(source) = ran
                && handled == sent
            {
                let ifname = device.name();
                return Err(EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname, source });
            }
        }
    }

    /// True if a call has to wait for the filler, which has `frames` complete frames.
    fn is_starved(&mut self, frames: u64, now_ns: u64) -> bool {
        let wanted = if self.request.is_timed { 1 } else { GATHER_FRAMES };
        if frames >= wanted {
            self.starved_ns = None;
            if frames >= GATHER_FRAMES {
                self.state.set_starved(false);
            }
            return false;
        }
        if self.starved_ns.is_none() {
            self.starved += 1;
            self.state.set_starved(true);
        }
        let since_ns = *self.starved_ns.get_or_insert(now_ns);
        let has_waited = now_ns - since_ns >= GATHER_NS;
        if has_waited && frames > 0 {
            self.starved_ns = None;
        }
        !has_waited || frames == 0
    }

    /// Ends the run if the driver accepted no frame since the last check because the device cannot
    /// send any more.
    fn check(&mut self, device: &OutputDevice, tx_slot: &TxSlot, now_ns: u64) -> Result<(), EngineError> {
        if now_ns < self.check_ns {
            return Ok(());
        }
        self.check_ns = now_ns + CHECK_NS;
        let accepted = tx_slot.counts().sent;
        let has_stalled = std::mem::replace(&mut self.accepted, accepted) == accepted;
        let trouble = if has_stalled { device.trouble(true)? } else { None };
        trouble.map_or(Ok(()), Err)
    }

    /// Frames and batch of the next call; `None` after a wait, which may have ended early.
    fn timed_call(&self, sent: u64, head: u64, now_ns: u64, clock: &HybridClock) -> Option<(u64, u32)> {
        let due_ns = |number: u64| self.start_ns + self.due[(number % REPLAY_RECORDS) as usize].load(Relaxed);
        let first_ns = due_ns(sent);
        let lead_ns = if self.first_ns.is_none() { LEAD_FIRST_NS } else { LEAD_NS };
        if first_ns > now_ns + lead_ns {
            clock.wait_until(first_ns - lead_ns);
            return None;
        }
        let frames = sent..head.min(sent + CALL_FRAMES_MAX);
        let overdue = frames.clone().take_while(|number| due_ns(*number) <= now_ns).count() as u64;
        if overdue >= OVERDUE_BATCH_MIN {
            return Some((overdue, BATCH_DEFAULT));
        }
        let end_ns = now_ns.max(first_ns) + CALL_WAIT_NS_MAX;
        let near = frames.take_while(|number| due_ns(*number) <= end_ns).count() as u64;
        Some((near.max(1), 1))
    }
}

const _: () = assert!(LATE_OCTAVES == bpf::REPLAY_OCTAVES, "the program has the same buckets");
