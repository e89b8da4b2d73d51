//! The sending thread of a run: opens connections at their pace, sends requests on held ones,
//! repeats what was lost, and closes.

use super::scan::Scanner;
use super::{Attached, ConnectRequest, ConnectResult};
use crate::clock::Clock;
use crate::pacer::{CatchUp, Pace, Pacer};
use crate::select::tx_stats;
use crate::xdp::{DispatcherSlot, MemIdThrottle};
use crate::{EngineError, SystemClock};
use bpf::{ConnectKind, LATER_MAX, LIST_MAX, TxSlot};
use connect::{Order, Scan, State, TIME_SHIFT};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Rest of the thread when it has nothing to send. Timers of the kernel add about 50 µs.
const REST: Duration = Duration::from_micros(20);
/// Rest while connections are only held or waited for.
const LONG_REST: Duration = Duration::from_micros(200);
/// Time in which a full ring of a driver is emptied.
const FULL_RING: Duration = Duration::from_micros(200);
/// Rest when all ports are in use.
const NO_PORT_REST: Duration = Duration::from_millis(1);
/// Time for closing after the user has stopped the run.
const STOP_NS: u64 = 1_700_000_000;
/// Datagrams of one call. A socket counts the page of each as its memory, so that a burst of more
/// would overflow the buffer of the server's socket, whatever their rate.
const DATAGRAMS_MAX: u64 = 8;
/// Times of connections wrap after 18 minutes.
const TIMES_END_NS: u64 = 1 << (u32::BITS + TIME_SHIFT);
/// Connections of which one call looks for those that may be asked.
const ASK_LOOKS: u64 = 4096;
/// Longest time between two looks at the counters for pauses.
const LOOK_NS: u64 = 1_000_000;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Holding,
    Closing,
}

#[derive(Debug)]
pub(super) struct Sender {
    request: ConnectRequest,
    attached: Attached,
    _slot: DispatcherSlot,
    tx_slot: TxSlot,
    mem_ids: MemIdThrottle,
    scanner: Scanner,
    /// Orders to repeat, because the driver dropped their frames.
    again: Vec<(u32, Order)>,
    later_tail: u64,
    dropped: u64,
    ask_next: u64,
    pause: Pause,
}

/// The longest time without a completed connection.
#[derive(Debug, Default)]
struct Pause {
    completed: u64,
    since_ns: u64,
    looked_ns: u64,
    longest_ns: u64,
}

impl Sender {
    /// Gets ready, in the namespace of the device and on the thread that sends.
    pub(super) fn new(request: ConnectRequest, attached: Attached) -> Result<Self, EngineError> {
        let ifname = || request.ifname.clone();
        let syscall = |source| EngineError::Syscall { call: "dup", ifname: ifname(), source };
        let mut slot = DispatcherSlot::of(attached.program.sender_attachable().map_err(syscall)?)?;
        while !slot.is_ready()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        let claim = |source| EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname: ifname(), source };
        let tx_slot = tx_stats()?.claim().map_err(claim)?;
        Ok(Self {
            request,
            attached,
            _slot: slot,
            tx_slot,
            mem_ids: MemIdThrottle::new(true),
            scanner: Scanner::default(),
            again: Vec::new(),
            later_tail: 0,
            dropped: 0,
            ask_next: 0,
            pause: Pause::default(),
        })
    }

    /// Runs until the end.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<ConnectResult, EngineError> {
        let clock = SystemClock;
        let start_ns = clock.now_ns();
        let request = &self.request;
        let twice = CatchUp::Times(NonZeroU32::new(2).expect("not 0"));
        let mut opening = Pacer::new(request.pace, start_ns).with_catch_up(twice);
        let mut asking = request.ask_pace.map(|pace| Pacer::new(pace, start_ns).with_catch_up(twice));
        let end_ns = request.duration_ns.map_or(u64::MAX, |duration_ns| start_ns.saturating_add(duration_ns));
        let is_chained = request.pace == Pace::Unpaced && !request.settings.holds;
        self.attached.program.set_new_left(request.count.unwrap_or(u64::MAX));
        self.attached.program.set_chains(is_chained);
        self.pause.since_ns = start_ns;
        let (mut phase, mut close_by_ns) = (Phase::Opening, u64::MAX);
        let mut result = ConnectResult::default();
        loop {
            let now_ns = clock.now_ns();
            let is_stopped = stop.load(Relaxed);
            if phase == Phase::Opening {
                self.look_for_pause(now_ns);
                let is_over = now_ns >= end_ns || self.attached.program.new_left() == 0;
                if is_stopped || is_over {
                    self.end_opening(&mut result, now_ns - start_ns);
                    phase = Phase::Holding;
                }
            }
            if phase == Phase::Holding {
                let is_over = !self.request.settings.holds || now_ns >= end_ns || self.is_all_over();
                if is_stopped || is_over {
                    if self.request.ask_pace.is_some() {
                        self.end_asking(&mut result, now_ns - start_ns);
                    }
                    phase = Phase::Closing;
                }
            }
            if is_stopped && close_by_ns == u64::MAX {
                close_by_ns = now_ns + STOP_NS;
            }
            if phase == Phase::Closing && (now_ns > close_by_ns || self.is_all_over()) {
                break;
            }
            if !self.attached.link.is_attached() {
                result.is_device_gone = true;
                break;
            }
            let mut has_sent = self.send_again()? | self.send_later()?;
            if phase == Phase::Opening {
                has_sent |= self.open(&mut opening, now_ns)?;
            }
            if let Some(asking) = asking.as_mut().filter(|_| phase != Phase::Closing) {
                has_sent |= self.ask(asking, now_ns)?;
            }
            has_sent |= self.repair(now_ns, phase == Phase::Closing)?;
            if !has_sent {
                self.rest(phase, &opening, now_ns);
            }
        }
        if phase == Phase::Opening {
            self.end_opening(&mut result, clock.now_ns() - start_ns);
        }
        self.finish(result, clock.now_ns() - start_ns)
    }

    /// Detaches the program, and reads the counters.
    fn finish(self, mut result: ConnectResult, run_ns: u64) -> Result<ConnectResult, EngineError> {
        let Self { attached: Attached { program, link }, .. } = self;
        // Counters stand still from here on.
        drop(link);
        result.counts = program.counts();
        result.frames = program.frame_counts();
        result.groups = program.groups();
        result.times = program.times();
        if self.request.settings.holds && run_ns >= TIMES_END_NS {
            result.times.total.fill(0);
        }
        result.open_at_end = program.open_now();
        result.run_ns = run_ns;
        result.dropped = self.dropped;
        result.longest_pause_ns = self.pause.longest_ns;
        Ok(result)
    }

    fn end_opening(&self, result: &mut ConnectResult, elapsed_ns: u64) {
        let program = &self.attached.program;
        program.set_chains(false);
        program.set_new_left(0);
        let counts = program.counts();
        result.opening_ns = elapsed_ns;
        result.completed_while_opening = counts.completed;
        self.end_asking(result, elapsed_ns);
    }

    /// No more requests are sent, or only those of connections that are open.
    fn end_asking(&self, result: &mut ConnectResult, elapsed_ns: u64) {
        let counts = self.attached.program.counts();
        result.asking_ns = elapsed_ns;
        (result.requests_while_asking, result.responses_while_asking) = (counts.requests, counts.responses);
    }

    fn is_all_over(&self) -> bool {
        self.attached.program.open_now() == 0
    }

    fn look_for_pause(&mut self, now_ns: u64) {
        if self.request.settings.holds || now_ns < self.pause.looked_ns + LOOK_NS {
            return;
        }
        let completed = self.attached.program.counts().completed;
        let pause = &mut self.pause;
        pause.looked_ns = now_ns;
        pause.longest_ns = pause.longest_ns.max(now_ns - pause.since_ns);
        if completed > pause.completed {
            (pause.completed, pause.since_ns) = (completed, now_ns);
        }
    }

    /// Rests until there may be something to send.
    fn rest(&self, phase: Phase, opening: &Pacer, now_ns: u64) {
        let is_idle = phase != Phase::Opening || self.request.settings.holds && opening.next_ns() == u64::MAX;
        let rest = if is_idle { LONG_REST } else { REST };
        let due_ns =
            if phase == Phase::Opening { opening.next_ns().saturating_sub(now_ns) } else { u64::MAX };
        let rest_ns =
            if opening.next_ns() <= now_ns { rest.as_nanos() as u64 } else { due_ns.min(1_000_000) };
        std::thread::sleep(Duration::from_nanos(rest_ns.max(rest.as_nanos() as u64)));
    }

    /// Opens the connections that are due.
    fn open(&mut self, pacer: &mut Pacer, now_ns: u64) -> Result<bool, EngineError> {
        let program = &self.attached.program;
        let free = self.request.open_max.saturating_sub(program.open_now());
        let call_max = if self.request.kind == ConnectKind::Tcp { LIST_MAX as u64 } else { DATAGRAMS_MAX };
        let count = pacer.due(now_ns).min(free).min(program.new_left()).min(call_max);
        if count == 0 {
            return Ok(false);
        }
        let (tried, first) = (program.tried(), program.next_index());
        let dropped = self.call(|program| program.open(count as u32))?;
        let program = &self.attached.program;
        let (opened, end) = (program.tried() - tried, program.next_index());
        pacer.sent(opened, 0);
        if dropped > 0 {
            let entries = program.len() as u64;
            let indexes = (first..end.min(first + LIST_MAX as u64)).map(|index| (index % entries) as u32);
            self.again.extend(indexes.map(|index| (index, Order::Later)));
        }
        if opened == 0 {
            std::thread::sleep(NO_PORT_REST);
        }
        Ok(true)
    }

    /// Sends the requests that are due on held connections, one after another. Those that find no
    /// open connection without a request stay due.
    fn ask(&mut self, pacer: &mut Pacer, now_ns: u64) -> Result<bool, EngineError> {
        let program = &self.attached.program;
        let used = program.next_index().min(program.len() as u64);
        let due = pacer.due(now_ns).min(LIST_MAX as u64) as usize;
        let mut orders = Vec::with_capacity(due);
        for _ in 0..used.min(ASK_LOOKS) {
            if orders.len() == due {
                break;
            }
            let index = self.ask_next % used;
            self.ask_next = index + 1;
            if program.state(index as usize) == State::Open {
                orders.push((index as u32, Order::Ask));
            }
        }
        pacer.sent(orders.len() as u64, 0);
        self.order(&orders)?;
        Ok(!orders.is_empty())
    }

    /// Sends the requests that did not fit into the frames of answers.
    fn send_later(&mut self) -> Result<bool, EngineError> {
        let program = &self.attached.program;
        let head = program.later_head();
        if head == self.later_tail {
            return Ok(false);
        }
        // What was overwritten is found by the next looks at the connections.
        let mut orders = Vec::new();
        while self.later_tail < head && orders.len() < LIST_MAX {
            match program.later(self.later_tail) {
                Some(index) => orders.push((index, Order::Later)),
                None if head - self.later_tail > LATER_MAX => {}
                // Another CPU writes it now.
                None => break,
            }
            self.later_tail += 1;
        }
        self.order(&orders)?;
        Ok(!orders.is_empty())
    }

    /// Repeats orders whose frames the driver dropped.
    fn send_again(&mut self) -> Result<bool, EngineError> {
        if self.again.is_empty() {
            return Ok(false);
        }
        let count = self.again.len().min(LIST_MAX);
        let orders: Vec<_> = self.again.drain(..count).collect();
        self.order(&orders)?;
        Ok(true)
    }

    /// Looks at a part of the connections, and carries out what they need.
    fn repair(&mut self, now_ns: u64, closes: bool) -> Result<bool, EngineError> {
        let scan = Scan {
            timeout: (self.request.timeout_ns >> TIME_SHIFT) as u32,
            is_udp: self.request.kind != ConnectKind::Tcp,
            closes,
        };
        let mut orders = Vec::with_capacity(LIST_MAX);
        let settings = self.request.settings;
        let program = &self.attached.program;
        let is_limited = self.request.open_per_client.is_some();
        let has_looked = self.scanner.step(program, &scan, &settings, is_limited, now_ns, &mut orders);
        self.order(&orders)?;
        Ok(has_looked && (closes || !orders.is_empty()))
    }

    /// Carries out orders. Those whose frames the driver dropped come again.
    fn order(&mut self, orders: &[(u32, Order)]) -> Result<(), EngineError> {
        if orders.is_empty() {
            return Ok(());
        }
        let dropped = self.call(|program| program.order(orders))?;
        if dropped > 0 {
            self.again.extend(orders.iter().map(|(index, _)| (*index, Order::Later)));
        }
        Ok(())
    }

    /// Calls the sending program; the number of frames that the driver dropped.
    fn call(
        &mut self,
        run: impl Fn(&bpf::ConnectProgram) -> std::io::Result<()>,
    ) -> Result<u64, EngineError> {
        let before = self.tx_slot.counts();
        self.mem_ids.wait(&SystemClock);
        match run(&self.attached.program) {
            Ok(()) => self.mem_ids.succeeded(),
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                self.mem_ids.exhausted(&SystemClock, &self.request.ifname)?;
            }
            Err(source) => {
                let ifname = self.request.ifname.clone();
                return Err(EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname, source });
            }
        }
        let counts = self.tx_slot.counts().since(&before);
        let dropped = counts.ring_full + counts.refused;
        self.dropped += dropped;
        if dropped > 0 {
            std::thread::sleep(FULL_RING);
        }
        Ok(dropped)
    }
}
