//! Replay by live frames: the rings, the thread that fills them, and the threads that send.

use super::frame_ring::{FilledRing, FillerState, FrameNote, RingState, fill};
use super::timeline::{OwnTimeline, SharedTimeline};
use super::{
    LATE_OCTAVES, REPLAY_CPUS_MAX, ReplayRequest, ReplayResult, ReplaySource, is_stopped, trouble_of,
    wait_until,
};
use crate::clock::{Clock, HybridClock};
use crate::device::OutputDevice;
use crate::engine::Burst;
use crate::link_state::{Interruptions, LINK_LOOK_NS, LinkState};
use crate::select::ThreadShared;
use crate::timed_calls::{CALL_NS_MAX, LEAD_FIRST_NS, LEAD_NS, OVERDUE_BATCH_MIN, WAIT_NS_MAX};
use crate::xdp::{BATCH_DEFAULT, DispatcherSlot, FRAME_LEN_MAX, MemIdThrottle, sorted};
use crate::{EngineError, EngineKind, SystemClock};
use bpf::{REPLAY_RECORDS, ReplayRing, ReplaySender, ReplayTimes};
use packet::XmitMode;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// Frames of one call at top speed: more gain nothing, and a stop waits for a call.
const CALL_FRAMES_MAX: u64 = 4096;
/// At top speed a call waits for this number of frames: with 64, a frame costs three times as much.
const GATHER_FRAMES: u64 = 1024;
/// And for this long at most, for files that come slowly.
const GATHER_NS: u64 = 1_000_000;
/// Interval of checks whether the driver still accepts frames.
const CHECK_NS: u64 = 100_000_000;
/// Pause while a ring is empty or a program is being attached.
const PAUSE: Duration = Duration::from_micros(50);

/// One program and ring for each sending thread.
pub(super) struct XdpReplay {
    devices: Vec<OutputDevice>,
    queues: Vec<ReplayQueue>,
}

/// The program of one thread.
struct ReplayQueue {
    sender: ReplaySender,
    ring: ReplayRing,
    dispatcher_slot: DispatcherSlot,
}

/// What all sending threads share.
struct SharedRun<'a> {
    request: &'a ReplayRequest,
    /// Pages return within a call.
    is_prompt: bool,
    timeline: SharedTimeline,
    filler: FillerState,
    stop: &'a AtomicBool,
    /// A thread has failed: the others end as well.
    has_failed: AtomicBool,
    /// Threads that can send their first frame at once.
    ready: AtomicUsize,
}

/// What one thread has sent.
#[derive(Debug, Default)]
struct QueueResult {
    burst: Burst,
    offered: u64,
    second: u64,
    second_no_carrier: u64,
    late: Vec<u64>,
    starved: u64,
    interruptions: Interruptions,
    /// When the first call began and the last one ended.
    span_ns: Option<(u64, u64)>,
    first_late_ns: Option<u64>,
    is_stopped: bool,
    error: Option<EngineError>,
}

/// The sending side of one thread.
struct QueueRun<'a> {
    shared: &'a SharedRun<'a>,
    /// Number of the thread.
    number: usize,
    /// For their state; a device belongs to one thread.
    devices: Vec<OutputDevice>,
    sender: &'a ReplaySender,
    state: &'a RingState,
    notes: &'a [FrameNote],
    /// The link of each device, for runs that keep going.
    links: Vec<LinkState>,
    /// Frames that were due while the link of their device was down, by device.
    no_carrier: &'a [Cell<u64>; 2],
    timeline: OwnTimeline<'a>,
    mem_ids: MemIdThrottle,
    starved: u64,
    /// Since when it waits for frames.
    starved_ns: Option<u64>,
    span_ns: Option<(u64, u64)>,
    /// From the start until its first frame was sent.
    first_late_ns: Option<u64>,
    /// The ring keeps its frames and the program begins again behind them.
    is_repeating: bool,
    /// When the device is checked, and frames accepted at the last check.
    check_ns: u64,
    accepted: u64,
    /// After the last call: frames sent, and frames refused by drivers or lost before them.
    sent: u64,
    refused: u64,
}

impl XdpReplay {
    pub(super) fn new(request: &ReplayRequest) -> Result<Self, EngineError> {
        if !request.is_ethernet {
            return Err(EngineError::NotEthernet { ifname: request.ifname.clone() });
        }
        match request.mode {
            XmitMode::StartXmit => {}
            XmitMode::QueueXmit => {
                return Err(EngineError::unable(
                    EngineKind::Xdp,
                    "xmit_mode queue_xmit: it bypasses the qdisc",
                ));
            }
            XmitMode::NetifReceive => {
                let what = "xmit_mode netif_receive in a replay: the skb engine does";
                return Err(EngineError::unable(EngineKind::Xdp, what));
            }
        }
        if request.cpus.len() > REPLAY_CPUS_MAX {
            let what = format!("more than {REPLAY_CPUS_MAX} CPUs in a replay");
            return Err(EngineError::unable(EngineKind::Xdp, what));
        }
        let devices = request.ready_devices()?;
        for device in &devices {
            device.xdp_trouble()?.map_or(Ok(()), Err)?;
        }
        let device = &devices[0];
        let frame_len_max = request.frame_len_max.min(FRAME_LEN_MAX);
        let queue = |_: &u32| -> Result<ReplayQueue, EngineError> {
            let (sender, ring) = ReplaySender::load(frame_len_max, request.is_timed)?;
            for (place, device) in devices.iter().enumerate() {
                let set = || Ok(sender.set_port(place as u32, device.ifindex())?);
                request.in_netns_of(place, set)?;
            }
            let failed = |source| EngineError::Syscall { call: "dup", ifname: device.name(), source };
            let dispatcher_slot = DispatcherSlot::of(sender.attachable().map_err(failed)?)?;
            Ok(ReplayQueue { sender, ring, dispatcher_slot })
        };
        let queues = request.cpus.iter().map(queue).collect::<Result<_, _>>()?;
        // Whether the sent frames can be counted decides about the engine as well.
        ThreadShared::default().claim()?;
        Ok(Self { devices, queues })
    }

    pub(super) fn run(
        self,
        request: &ReplayRequest,
        source: &mut dyn ReplaySource,
        stop: &AtomicBool,
    ) -> Result<ReplayResult, EngineError> {
        let (mut senders, mut rings, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for queue in self.queues {
            senders.push(queue.sender);
            rings.push(queue.ring);
            slots.push(queue.dispatcher_slot);
        }
        for slot in &mut slots {
            while !slot.is_ready()? {
                std::thread::sleep(PAUSE);
            }
        }
        let devices = self.devices;
        let states: Vec<RingState> = senders.iter().map(|_| RingState::default()).collect();
        let notes_of_ring = || (0..REPLAY_RECORDS).map(|_| FrameNote::default()).collect();
        let notes: Vec<Vec<FrameNote>> = senders.iter().map(|_| notes_of_ring()).collect();
        let rings = rings.into_iter().zip(states.iter().zip(&notes));
        let rings: Vec<_> = rings.map(|(ring, (state, notes))| FilledRing::new(ring, state, notes)).collect();
        let shared = SharedRun {
            request,
            is_prompt: devices[0].is_kind("veth")?,
            timeline: SharedTimeline::new(Arc::clone(&request.control)),
            filler: FillerState::default(),
            stop,
            has_failed: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
        };
        let ifname = devices[0].name();
        let failed = |source| EngineError::Syscall { call: "clone", ifname: ifname.clone(), source };
        let queue = |number: usize| shared.queue(number, &senders[number], &states, &notes[number]);
        let queue = &queue;
        let (made, ended) = std::thread::scope(|scope| {
            let (run, filled) = (&shared, &mut *source);
            let filler = std::thread::Builder::new()
                .name("replay-fill".to_owned())
                .spawn_scoped(scope, move || fill(rings, &run.filler, filled))
                .map_err(failed)?;
            // After the start of the filler, which would inherit the CPU.
            let others: Result<Vec<_>, _> = (1..senders.len())
                .map(|number| {
                    let thread = std::thread::Builder::new().name(format!("replay-send-{number}"));
                    thread.spawn_scoped(scope, move || queue(number)).map_err(failed)
                })
                .collect();
            let others = others.inspect_err(|_| {
                shared.fail();
                shared.filler.close();
            })?;
            let mut ended = vec![queue(0)];
            ended.extend(others.into_iter().map(|other| other.join().expect("a sender does not panic")));
            shared.filler.close();
            let made = filler.join().expect("the source does not panic");
            Ok::<_, EngineError>((made, ended))
        })?;
        if let ([queue], Some(loop_len)) = (&ended[..], states[0].loop_len()) {
            source.repeated(queue.offered.saturating_sub(loop_len));
        }
        let timeline = shared.timeline.at_end(SystemClock.now_ns());
        let result = joined(request, &devices, &made, ended, (timeline.pauses, timeline.pause_sum_ns))?;
        Ok(ReplayResult { changes: shared.timeline.changes(), ..result })
    }
}

/// The result of all threads; the source gave `made` frames for each.
fn joined(
    request: &ReplayRequest,
    devices: &[OutputDevice],
    made: &[u64],
    ended: Vec<QueueResult>,
    (pauses, paused_ns): (u64, u64),
) -> Result<ReplayResult, EngineError> {
    let mut result = ReplayResult { pauses, paused_ns, ..ReplayResult::new(EngineKind::Xdp) };
    let spans = || ended.iter().filter_map(|queue| queue.span_ns);
    let first_ns = spans().map(|(first_ns, _)| first_ns).min().unwrap_or(0);
    let last_ns = spans().map(|(_, last_ns)| last_ns).max().unwrap_or(0);
    result.duration_ns = last_ns.saturating_sub(first_ns).saturating_sub(paused_ns);
    for (queue, made) in ended.into_iter().zip(made) {
        result.burst.add(&queue.burst);
        result.offered.push(queue.offered - queue.second);
        result.second += queue.second;
        result.second_no_carrier += queue.second_no_carrier;
        let longest = [result.interruptions, queue.interruptions];
        result.interruptions = longest.into_iter().max_by_key(|one| one.longest_ns).unwrap_or_default();
        result.after_end += made.saturating_sub(queue.offered);
        result.starved += queue.starved;
        result.late.iter_mut().zip(&queue.late).for_each(|(count, found)| *count += found);
        result.first_late_ns = [result.first_late_ns, queue.first_late_ns].into_iter().flatten().min();
        result.is_stopped |= queue.is_stopped;
        result.error = result.error.or(queue.error);
    }
    if result.error.is_none() && result.burst.errors.is_serious() {
        result.error = match trouble_of(devices, true)? {
            None => devices[0].xdp_trouble()?,
            Some(trouble) if request.survives(&trouble) => None,
            trouble => trouble,
        };
    }
    Ok(result)
}

impl SharedRun<'_> {
    /// Sets the start once the first frames are there and all threads can send.
    ///
    /// # Errors
    /// The requested time has passed.
    fn start(&self, states: &[RingState]) -> Result<(), EngineError> {
        let is_empty = |state: &RingState| state.head() == (0, false);
        let waits = || states.iter().all(is_empty) || self.ready.load(Acquire) < states.len();
        while waits() && !self.is_over() {
            std::thread::sleep(PAUSE);
        }
        if let Some(start_ns) = self.request.start_ns(&SystemClock, self.stop)? {
            self.timeline.start(start_ns);
        }
        Ok(())
    }

    fn fail(&self) {
        self.has_failed.store(true, Relaxed);
    }

    fn is_over(&self) -> bool {
        is_stopped(self.stop) || self.has_failed.load(Relaxed)
    }

    /// Sends the frames of one ring on the calling thread. The first thread starts the run.
    fn queue(
        &self,
        number: usize,
        sender: &ReplaySender,
        states: &[RingState],
        notes: &[FrameNote],
    ) -> QueueResult {
        self.try_queue(number, sender, states, notes).unwrap_or_else(|error| {
            self.fail();
            QueueResult { error: Some(error), offered: sender.handled(), ..QueueResult::default() }
        })
    }

    fn try_queue(
        &self,
        number: usize,
        sender: &ReplaySender,
        states: &[RingState],
        notes: &[FrameNote],
    ) -> Result<QueueResult, EngineError> {
        host::pin_thread(self.request.cpus[number])?;
        let tx_slot = ThreadShared::default().claim()?;
        let devices = self.request.devices()?;
        self.ready.fetch_add(1, Release);
        if number == 0 {
            self.start(states)?;
        }
        while !self.timeline.is_started() && !self.is_over() {
            std::thread::sleep(PAUSE);
        }
        let before = tx_slot.counts();
        let no_carrier = [const { Cell::new(0) }; 2];
        let total = || {
            let left_out = no_carrier.iter().map(Cell::get).sum();
            let handled = sender.handled() - left_out;
            let mut burst = sorted(handled, &tx_slot.counts().since(&before));
            burst.errors.causes.no_carrier = left_out;
            // The ring has the lengths of the others; they are assumed to have the mean.
            let frame_bytes = sender.frame_bytes();
            let mean_len = frame_bytes.checked_div(handled).unwrap_or(0);
            Burst { frame_bytes: frame_bytes + left_out * mean_len, ..burst }
        };
        let mut timeline = OwnTimeline::new(&self.timeline);
        let start_ns = timeline.now(SystemClock.now_ns()).clock_ns(0);
        let mut run = QueueRun {
            shared: self,
            number,
            devices,
            sender,
            state: &states[number],
            notes,
            links: vec![LinkState::new(start_ns); 2],
            no_carrier: &no_carrier,
            timeline,
            mem_ids: MemIdThrottle::new(self.is_prompt),
            starved: 0,
            starved_ns: None,
            span_ns: None,
            first_late_ns: None,
            is_repeating: false,
            check_ns: 0,
            accepted: 0,
            sent: 0,
            refused: 0,
        };
        let ended = run.send_all(&total);
        let counters = sender.state();
        let mut result = QueueResult {
            burst: total(),
            offered: counters.next,
            second: counters.second_port + no_carrier[1].get(),
            second_no_carrier: no_carrier[1].get(),
            late: counters.late.to_vec(),
            starved: run.starved,
            interruptions: run.interruptions(),
            span_ns: run.span_ns,
            first_late_ns: run.first_late_ns,
            ..QueueResult::default()
        };
        match ended {
            Ok(is_stopped) => result.is_stopped = is_stopped,
            Err(error) => {
                self.fail();
                result.error = Some(error);
            }
        }
        Ok(result)
    }
}

impl QueueRun<'_> {
    /// Sends until the source is over; true if a stop ended it. `total` has what the driver
    /// answered.
    fn send_all(&mut self, total: &impl Fn() -> Burst) -> Result<bool, EngineError> {
        let clock = HybridClock::default();
        let request = self.shared.request;
        let start_ns = self.timeline.now(clock.now_ns()).clock_ns(0);
        self.check_ns = start_ns.saturating_add(CHECK_NS);
        let waits = request.start_at.is_some() && !request.is_timed;
        if waits && !wait_until(&clock, start_ns, self.shared.stop) {
            return Ok(true);
        }
        loop {
            if self.shared.is_over() {
                return Ok(true);
            }
            if self.timeline.wait_for_resume(&clock, self.shared.stop) {
                continue;
            }
            let now_ns = clock.now_ns();
            // The duration does not contain pauses.
            let pause_sum_ns = self.timeline.now(now_ns).pause_sum_ns;
            if request.is_over(start_ns, pause_sum_ns, now_ns) {
                return Ok(false);
            }
            let sent = self.sender.handled();
            let (head, is_over) = self.state.head();
            if head == sent && is_over {
                return Ok(false);
            }
            if !is_over && self.is_starved(head - sent, now_ns) {
                std::thread::sleep(PAUSE);
                continue;
            }
            self.begin_repeating();
            let head = match self.before_links_that_are_down(sent, head, now_ns, &clock)? {
                Some(head) => head,
                None => {
                    request.progress.set(self.number, &total());
                    continue;
                }
            };
            let (frames, batch) = match request.is_timed {
                true => match self.timed_call(sent, head, now_ns, &clock) {
                    Some(call) => call,
                    None => continue,
                },
                false => self.top_call(sent, head),
            };
            // The first frame goes alone, so that its time is known.
            let (frames, batch) = if self.first_late_ns.is_none() { (1, 1) } else { (frames, batch) };
            self.check(total, now_ns)?;
            let called_ns = self.mem_ids.wait(&clock);
            let (first_ns, _) = *self.span_ns.get_or_insert((called_ns, called_ns));
            let ran = self.sender.run_live(frames as u32, batch.min(frames as u32));
            let handled = self.sender.handled();
            self.state.free(handled);
            let ended_ns = SystemClock.now_ns();
            self.span_ns = Some((first_ns, ended_ns));
            if handled > 0 {
                self.first_late_ns.get_or_insert(ended_ns.saturating_sub(start_ns));
            }
            let burst = total();
            request.progress.set(self.number, &burst);
            self.note_links(sent..handled, &burst, ended_ns)?;
            match ran {
                Ok(()) => self.mem_ids.succeeded(),
                // The next call reports what keeps these frames from being sent.
                Err(_) if handled > sent => {}
                Err(source) => self.refused(source)?,
            }
        }
    }

    /// The kernel accepted none of the frames of a call. Pauses if other calls have all memory ids.
    fn refused(&mut self, source: io::Error) -> Result<(), EngineError> {
        let ifname = self.devices[0].name();
        match source.raw_os_error() {
            Some(libc::ENOSPC) => self.mem_ids.exhausted(&SystemClock, &ifname),
            _ => Err(EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname, source }),
        }
    }

    /// The program begins again behind the last frame of a ring that keeps its frames.
    fn begin_repeating(&mut self) {
        if let Some(loop_len) = self.state.loop_len().filter(|_| !self.is_repeating) {
            self.sender.set_loop_len(loop_len as u32);
            self.is_repeating = true;
        }
    }

    /// True if a call has to wait for the filler, which has `frames` complete frames.
    fn is_starved(&mut self, frames: u64, now_ns: u64) -> bool {
        let wanted = if self.shared.request.is_timed { 1 } else { GATHER_FRAMES };
        if frames >= wanted {
            self.starved_ns = None;
            return false;
        }
        if self.starved_ns.is_none() && !self.shared.filler.is_blocked() {
            self.starved += 1;
            self.shared.request.progress.add_starved();
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
    fn check(&mut self, total: &impl Fn() -> Burst, now_ns: u64) -> Result<(), EngineError> {
        if now_ns < self.check_ns {
            return Ok(());
        }
        self.check_ns = now_ns + CHECK_NS;
        let accepted = total().sent;
        match std::mem::replace(&mut self.accepted, accepted) == accepted {
            true => self.look_at_links(),
            false => Ok(()),
        }
    }

    /// Finds links that are down.
    ///
    /// # Errors
    /// Why a device cannot send, unless the run keeps going.
    fn look_at_links(&mut self) -> Result<(), EngineError> {
        for (device, link) in self.devices.iter().zip(&mut self.links) {
            match device.trouble(true)? {
                None => {}
                Some(trouble) if self.shared.request.survives(&trouble) => link.went_down(),
                Some(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// After a call that handled `numbers`: frames that were refused may show that a link is down.
    fn note_links(&mut self, numbers: Range<u64>, burst: &Burst, now_ns: u64) -> Result<(), EngineError> {
        if !self.shared.request.keep_going {
            return Ok(());
        }
        let refused = burst.errors.causes.refused + burst.errors.causes.not_handed_over;
        if std::mem::replace(&mut self.refused, refused) != refused {
            self.look_at_links()?;
        }
        if std::mem::replace(&mut self.sent, burst.sent) == burst.sent {
            return Ok(());
        }
        for (place, link) in self.links.iter_mut().enumerate().filter(|(_, link)| !link.is_down()) {
            if numbers.clone().any(|number| note_of(self.notes, self.state, number).port() == place) {
                link.note_sent(now_ns);
            }
        }
        Ok(())
    }

    /// All interruptions, of both devices.
    fn interruptions(&self) -> Interruptions {
        let mut all = Interruptions::default();
        self.links.iter().for_each(|link| all.add(link.interruptions()));
        all
    }

    /// The end of the frames from `sent` on that leave by devices with a link. `None` if there is
    /// none: then the frames that are due were counted and passed over, or this has waited.
    ///
    /// # Errors
    /// A device is gone.
    fn before_links_that_are_down(
        &mut self,
        sent: u64,
        head: u64,
        now_ns: u64,
        clock: &HybridClock,
    ) -> Result<Option<u64>, EngineError> {
        let mut is_down = [false; 2];
        for ((device, link), is_down) in self.devices.iter().zip(&mut self.links).zip(&mut is_down) {
            *is_down = link.look(now_ns, || device.trouble(true).unwrap_or_else(Some))?;
        }
        if is_down == [false; 2] {
            return Ok(Some(head));
        }
        let note = |number: u64| note_of(self.notes, self.state, number);
        let numbers = sent..head.min(sent + CALL_FRAMES_MAX);
        let is_left = |number: &u64| is_down[note(*number).port()];
        match numbers.clone().find(is_left) {
            None => return Ok(Some(numbers.end)),
            Some(number) if number > sent => return Ok(Some(number)),
            Some(_) => {}
        }
        let timeline = self.timeline.now(now_ns);
        let due_ns = |number: u64| timeline.clock_ns(note(number).due_ns());
        let first_ns = if self.shared.request.is_timed { due_ns(sent) } else { u64::MAX };
        if first_ns > now_ns {
            clock.wait_until(first_ns.min(now_ns + LINK_LOOK_NS));
            return Ok(None);
        }
        let overdue = numbers.take_while(|number| is_left(number) && due_ns(*number) <= now_ns);
        let mut count = 0;
        for number in overdue {
            let left_out = &self.no_carrier[note(number).port()];
            left_out.set(left_out.get() + 1);
            count += 1;
        }
        self.sender.skip(count);
        self.state.free(self.sender.handled());
        let (first_ns, _) = *self.span_ns.get_or_insert((now_ns, now_ns));
        self.span_ns = Some((first_ns, now_ns));
        Ok(None)
    }

    /// Frames and batch of the next call at top speed. The kernel sends the frames of a batch
    /// device by device, so a batch has frames for one device; frames that alternate go one by one.
    fn top_call(&self, sent: u64, head: u64) -> (u64, u32) {
        let end = head.min(sent + CALL_FRAMES_MAX);
        if self.devices.len() == 1 {
            return (end - sent, BATCH_DEFAULT);
        }
        let port = |number: u64| note_of(self.notes, self.state, number).port();
        let run_end = |first: u64| (first..end).find(|number| port(*number) != port(first)).unwrap_or(end);
        let is_long = |first: u64| run_end(first) - first >= u64::from(BATCH_DEFAULT);
        if run_end(sent) == end || is_long(sent) {
            return (run_end(sent) - sent, BATCH_DEFAULT);
        }
        let mut single_end = run_end(sent);
        while single_end < end && !is_long(single_end) {
            single_end = run_end(single_end);
        }
        (single_end - sent, 1)
    }

    /// Frames and batch of the next call; `None` after a wait, which may have ended early.
    fn timed_call(&mut self, sent: u64, head: u64, now_ns: u64, clock: &HybridClock) -> Option<(u64, u32)> {
        let due = |number: u64| note_of(self.notes, self.state, number).due_ns();
        let timeline = self.timeline.now(now_ns);
        let due_ns = |number: u64| timeline.clock_ns(due(number));
        let first_ns = due_ns(sent);
        let lead_ns = if self.span_ns.is_none() { LEAD_FIRST_NS } else { LEAD_NS };
        if first_ns > now_ns + lead_ns {
            clock.wait_until(first_ns - lead_ns);
            return None;
        }
        let times = ReplayTimes {
            clock_ns: first_ns,
            due_ns: due(sent),
            scale: timeline.scale(ReplayTimes::SCALE_BITS),
        };
        self.sender.set_times(times);
        let frames = sent..head.min(sent + CALL_FRAMES_MAX);
        let overdue = frames.clone().take_while(|number| due_ns(*number) <= now_ns).count() as u64;
        if overdue >= OVERDUE_BATCH_MIN {
            return Some((overdue, BATCH_DEFAULT));
        }
        let mut before_ns = now_ns.max(first_ns);
        let end_ns = before_ns + CALL_NS_MAX;
        let is_near = |number: &u64| {
            let due_ns = due_ns(*number);
            // A frame that is due right after the end of a call would be late, because the next
            // call takes some time to begin. So a call goes on until there is a gap, but for twice
            // its time at most.
            let extra_ns = if due_ns < before_ns + LEAD_NS { CALL_NS_MAX } else { 0 };
            let wait_end_ns = (end_ns + extra_ns).min(before_ns + WAIT_NS_MAX);
            before_ns = before_ns.max(due_ns);
            due_ns <= wait_end_ns
        };
        let near = frames.take_while(is_near).count() as u64;
        Some((near.max(1), 1))
    }
}

/// The note of a frame. A ring that keeps its frames begins again behind them.
fn note_of<'a>(notes: &'a [FrameNote], state: &RingState, number: u64) -> &'a FrameNote {
    &notes[(number % state.loop_len().unwrap_or(REPLAY_RECORDS)) as usize]
}

const _: () = assert!(LATE_OCTAVES == bpf::REPLAY_OCTAVES, "the program has the same buckets");
