//! Worker threads: each is pinned to one CPU in one network namespace and serves any number of
//! runs.
//!
//! Paced runs send when their frames are due. Unpaced and late runs share the remaining time in
//! turns. All engines of one order are built before its first frame, and its runs start at one
//! instant. Orders arrive by a channel; stops by a flag that is checked between bursts.

use crate::clock::{Clock, HybridClock, SystemClock};
use crate::event::Event;
use crate::pacer::Pace;
use crate::progress::Progress;
use crate::requirements::Requirements;
use crate::run::{BURST_NS, End, Limits, Run, RunReport, Step, Wake};
use crate::select::{Chosen, NOTE_RAISED, ThreadShared, build, is_raised};
use crate::start_barrier::{GroupStart, StartBarrier, StartGate, Ticket};
use crate::xdp::AttachPause;
use crate::{EngineError, EngineKind, TxOptions};
use host::{CpuUse, Netns, Stack, StartTime};
use packet::{Cursor, Plan, XmitMode};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A run that is later than this shares the thread with unpaced runs.
const LATE_NS: u64 = 1_000_000;
/// Shortest turn of a run among several: long compared to the cost of a call, short compared to
/// [`LATE_NS`].
pub(crate) const TURN_MIN_NS: u64 = 100_000;
/// Shortest turn where no run is paced. A call of the xdp engine costs 20 to 60 µs beside its
/// frames, mostly for a new pool of pages.
const TURN_MIN_UNPACED_NS: u64 = 500_000;
/// How long a thread without runs waits for engines before it checks its orders.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Runs with gaps up to this start when their engines are at full speed.
const FAST_GAP_NS: u64 = 100_000;
/// A thread with more runs than this looks for stops and changes at intervals: the look at each run
/// takes time from frames that are due.
const LOOKED_AT_MAX: usize = 64;
/// The interval.
const LOOK_NS: u64 = 1_000_000;
/// Interval at which a run publishes its state.
const SNAPSHOT_NS: u64 = 10_000_000;

/// Parameters of one run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the device in the namespace of the worker.
    pub ifname: String,
    /// The frames.
    pub plan: Plan,
    /// State of the first frame.
    pub cursor: Cursor,
    /// Where frames enter the kernel.
    pub mode: XmitMode,
    /// Options beside the plan.
    pub options: TxOptions,
    /// End and rate of the run.
    pub limits: Limits,
    /// The requested engine, if any.
    pub engine: Option<EngineKind>,
    /// Batch size, for engines that have one.
    pub batch: Option<u32>,
    /// `CLOCK_MONOTONIC` when the first frame is due, if this continues an interrupted run; `None`
    /// for at once.
    pub next_ns: Option<u64>,
}

/// State of a run, published every 10 ms.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// State of the next frame.
    pub cursor: Cursor,
    /// `CLOCK_MONOTONIC` at its start; 0 before.
    pub started_ns: u64,
    /// Time spent waiting for deadlines.
    pub idle_ns: u64,
    /// The current engine.
    pub engine: Option<EngineKind>,
    /// Why this engine.
    pub reason: String,
    /// The present rate.
    pub pace: Pace,
}

/// A handle of one run, for other threads.
#[derive(Debug, Default)]
pub struct RunHandle {
    progress: Progress,
    stop: AtomicBool,
    /// Also ends the run: a flag that a signal handler may set.
    stop_too: Option<Arc<AtomicBool>>,
    is_paused: AtomicBool,
    new_terms: Mutex<Option<Limits>>,
    is_changed: AtomicBool,
    snapshot: Mutex<Snapshot>,
    report: Mutex<Option<RunReport>>,
    ended: Condvar,
    has_ended: AtomicBool,
    /// Set before the end of a run that was ready too late.
    ready_late_ns: OnceLock<u64>,
    on_end: Mutex<Option<Arc<Event>>>,
}

impl RunHandle {
    /// Frames so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Stops the run within 10 ms.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// True once the run was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.stop_too.as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// Stops the run within 10 ms, for another request that continues it ([`Request::next_ns`]): if
    /// it has sent nothing yet, it first sends what is due.
    pub fn pause(&self) {
        self.is_paused.store(true, Relaxed);
        self.stop();
    }

    /// Sets other limits, from the next frame on.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.new_terms) = Some(limits);
        self.is_changed.store(true, Relaxed);
    }

    /// State of the run at most 10 ms ago.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone()
    }

    /// True once there is a report.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }

    /// Waits for the end up to a timeout, and takes the report; it can be taken once.
    pub fn wait(&self, timeout: Duration) -> Option<RunReport> {
        let deadline = Instant::now() + timeout;
        let mut report = lock(&self.report);
        while report.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            (report, _) = self.ended.wait_timeout(report, left).unwrap_or_else(PoisonError::into_inner);
        }
        report.take()
    }

    /// Waits for the end up to a timeout, without taking the report; true once the run has ended.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let goes_on = |_: &mut Option<RunReport>| !self.has_ended();
        drop(self.ended.wait_timeout_while(lock(&self.report), timeout, goes_on));
        self.has_ended()
    }

    /// Limits that were set since the last call.
    fn take_terms(&self) -> Option<Limits> {
        if self.is_changed.swap(false, Relaxed) { lock(&self.new_terms).take() } else { None }
    }

    /// How much too late for its start it was ready; `None` for a run that has not ended so.
    pub fn ready_late_ns(&self) -> Option<u64> {
        self.ready_late_ns.get().copied()
    }

    /// Notifies `event` once the run has ended.
    pub fn notify_end(&self, event: &Arc<Event>) {
        *lock(&self.on_end) = Some(Arc::clone(event));
        if self.has_ended() {
            event.notify();
        }
    }

    /// A run that ended before it started.
    pub fn ended(report: RunReport) -> Arc<Self> {
        let handle = Arc::new(Self::default());
        handle.finish(report);
        handle
    }

    /// Ends the run with this report.
    pub fn finish(&self, report: RunReport) {
        lock(&self.snapshot).cursor.clone_from(&report.cursor);
        // The end may have found sent frames lost.
        self.progress.set(&report.total);
        if let End::Failed(EngineError::ReadyTooLate { late_ns }) = &report.end {
            // A run ends once.
            let _ = self.ready_late_ns.set(*late_ns);
        }
        let mut place = lock(&self.report);
        *place = Some(report);
        // Release: who sees the end also sees the last counts.
        self.has_ended.store(true, Release);
        self.ended.notify_all();
        if let Some(event) = lock(&self.on_end).take() {
            event.notify();
        }
    }

    /// The report of a run whose thread panicked, from its last published state.
    fn lost(&self) -> RunReport {
        let snapshot = self.snapshot();
        let now_ns = SystemClock.now_ns();
        let started_ns = if snapshot.started_ns == 0 { now_ns } else { snapshot.started_ns };
        RunReport {
            engine: snapshot.engine,
            started_ns,
            idle_ns: snapshot.idle_ns,
            total: self.progress.total(),
            ..RunReport::failed(EngineError::ThreadLost, now_ns, snapshot.cursor)
        }
    }

    fn show_request(&self, request: &Request) {
        let mut snapshot = lock(&self.snapshot);
        snapshot.cursor.clone_from(&request.cursor);
        snapshot.pace = request.limits.pace;
    }

    fn show_choice(&self, chosen: &Chosen) {
        let mut snapshot = lock(&self.snapshot);
        snapshot.engine = Some(chosen.engine.kind());
        snapshot.reason.clone_from(&chosen.reason);
    }

    fn show(&self, run: &Run) {
        let mut snapshot = lock(&self.snapshot);
        snapshot.cursor = run.cursor();
        snapshot.started_ns = run.started_ns();
        snapshot.idle_ns = run.idle_ns();
    }
}

/// The worker's side of a handle: if it is dropped without a report, the run gets one.
#[derive(Debug)]
struct ReportOnDrop(Arc<RunHandle>);

impl Deref for ReportOnDrop {
    type Target = RunHandle;

    fn deref(&self) -> &RunHandle {
        &self.0
    }
}

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.finish(self.lost());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves plain values behind, which stay valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker thread. Dropping it stops all runs and waits for them.
#[derive(Debug)]
pub struct Worker {
    cpu: u32,
    orders: Option<Sender<Ordered>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread on `cpu` in `netns`.
    ///
    /// # Errors
    /// When the thread cannot be started, pinned, or moved into the namespace.
    pub fn spawn(cpu: u32, netns: &Netns) -> Result<Self, EngineError> {
        let (orders, inbox) = channel();
        let (ready, started) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (netns, quit) = (netns.clone(), Arc::clone(&stop));
        let body = move || {
            let prepared = prepare(cpu, &netns);
            let is_good = prepared.is_ok();
            // The receiver waits below for this message.
            let _ = ready.send(prepared);
            if is_good {
                let (clock, shared) = (HybridClock::default(), ThreadShared::default());
                let (orders, active) = (VecDeque::new(), Vec::new());
                let (next_turn, next_look_ns, turn_ns) = (0, 0, BURST_NS);
                Scheduler {
                    cpu,
                    cpu_use: CpuUse::default(),
                    cpu_use_now: (0, CpuUse::default()),
                    inbox,
                    quit,
                    clock,
                    shared,
                    orders,
                    active,
                    next_turn,
                    next_look_ns,
                    turn_ns,
                }
                .serve();
            }
        };
        let failed =
            |source| EngineError::Syscall { call: "clone", ifname: format!("kpktgend_{cpu}"), source };
        let thread =
            std::thread::Builder::new().name(format!("kpktgend_{cpu}")).spawn(body).map_err(failed)?;
        started.recv().unwrap_or(Ok(()))?;
        Ok(Self { cpu, orders: Some(orders), stop, thread: Some(thread) })
    }

    /// The CPU it is pinned to.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Starts a run as soon as its engine is built; the result is in the handle.
    pub fn start(&self, request: Request) -> Arc<RunHandle> {
        let handle = Arc::new(RunHandle::default());
        self.order(vec![WaitingRun::new(request, &handle)], None);
        handle
    }

    /// Starts several runs at the same instant, as soon as their engines are built; with a barrier,
    /// at the same instant as the orders of other threads with that barrier. The results are in the
    /// handles.
    pub fn start_all(
        &self,
        requests: Vec<Request>,
        barrier: Option<Arc<StartBarrier>>,
    ) -> Vec<Arc<RunHandle>> {
        let handles: Vec<_> = requests.iter().map(|_| Arc::new(RunHandle::default())).collect();
        let runs =
            requests.into_iter().zip(&handles).map(|(request, handle)| WaitingRun::new(request, handle));
        self.order(runs.collect(), barrier);
        handles
    }

    fn order(&self, waiting: Vec<WaitingRun>, barrier: Option<Arc<StartBarrier>>) {
        if let Some(orders) = &self.orders {
            // An order for a lost thread is dropped, which ends its runs with a report.
            let _ = orders.send((waiting.into(), Ticket::of(barrier)));
        }
    }
}

/// The workers of a program, one per CPU.
#[derive(Debug, Default)]
pub struct Workers(Vec<Worker>);

impl FromIterator<Worker> for Workers {
    fn from_iter<T: IntoIterator<Item = Worker>>(workers: T) -> Self {
        Self(workers.into_iter().collect())
    }
}

impl Workers {
    /// Their CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|worker| worker.cpu)
    }

    /// Starts runs, each on the worker of its CPU, all at the same instant, when all engines are
    /// built. Returns one handle per request, in the same order. A request for a CPU without a
    /// worker fails. The runs also end when `stop` is set: the workers read it themselves, so that
    /// a signal handler which sets it on one of these threads ends the run within microseconds.
    /// With `start_at` they start at that time; if the engines are not ready before, all runs fail
    /// with [`EngineError::ReadyTooLate`].
    pub fn start(
        &self,
        requests: Vec<(u32, Request)>,
        stop: Option<Arc<AtomicBool>>,
        start_at: Option<StartTime>,
    ) -> Vec<Arc<RunHandle>> {
        self.start_with(requests, stop, |threads| StartBarrier::new(threads, start_at)).0
    }

    /// Prepares runs, each on the worker of its CPU; they wait for the time to start at, which the
    /// caller gives to the gate. Handles and `stop` are as for [`Self::start`].
    pub fn arm(
        &self,
        requests: Vec<(u32, Request)>,
        stop: Option<Arc<AtomicBool>>,
    ) -> (Vec<Arc<RunHandle>>, StartGate) {
        let (handles, barrier) = self.start_with(requests, stop, StartBarrier::held);
        (handles, StartGate::of(barrier))
    }

    fn start_with(
        &self,
        requests: Vec<(u32, Request)>,
        stop: Option<Arc<AtomicBool>>,
        barrier: impl FnOnce(usize) -> StartBarrier,
    ) -> (Vec<Arc<RunHandle>>, Arc<StartBarrier>) {
        let (mut handles, mut orders) = (Vec::new(), BTreeMap::<u32, Vec<WaitingRun>>::new());
        for (cpu, request) in requests {
            let handle = Arc::new(RunHandle { stop_too: stop.clone(), ..RunHandle::default() });
            if self.0.iter().any(|worker| worker.cpu == cpu) {
                orders.entry(cpu).or_default().push(WaitingRun::new(request, &handle));
            } else {
                let error = EngineError::NoWorker { cpu };
                handle.finish(RunReport::failed(error, SystemClock.now_ns(), request.cursor));
            }
            handles.push(handle);
        }
        let barrier = Arc::new(barrier(orders.len()));
        for worker in &self.0 {
            if let Some(order) = orders.remove(&worker.cpu) {
                worker.order(order, Some(Arc::clone(&barrier)));
            }
        }
        (handles, barrier)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The panic was already printed.
            let _ = thread.join();
        }
    }
}

fn prepare(cpu: u32, netns: &Netns) -> Result<(), EngineError> {
    netns.enter()?;
    host::pin_thread(cpu)?;
    // By default the kernel may delay a wake-up by 50 µs. Failure costs only precision.
    let _ = nix::sys::prctl::set_timerslack(1);
    Ok(())
}

/// Writes the sequence numbers of IPsec associations back to the kernel.
fn store_sequences(plan: &Plan) {
    if let Some(ipsec) = &plan.ipsec {
        // All frames are sent. On failure the next program starts from the old numbers.
        let _ = Stack::here().and_then(|stack| stack.store_sequences(&ipsec.associations));
    }
}

/// State of a worker thread.
struct Scheduler {
    cpu: u32,
    /// Before the first of the present runs.
    cpu_use: CpuUse,
    /// When it was read last, and what it was then.
    cpu_use_now: (u64, CpuUse),
    inbox: Receiver<Ordered>,
    quit: Arc<AtomicBool>,
    clock: HybridClock,
    shared: ThreadShared,
    /// Orders that have not started.
    orders: VecDeque<RunGroup>,
    active: Vec<Active>,
    /// Index of the run that has the next turn.
    next_turn: usize,
    /// When to look for stops and changes of many runs again.
    next_look_ns: u64,
    /// Target duration of the bursts of each run.
    turn_ns: u64,
}

/// The runs of one order, as sent by the channel.
type Ordered = (VecDeque<WaitingRun>, Ticket);

/// Runs that start at the same instant.
struct RunGroup {
    /// Runs without an engine.
    waiting: VecDeque<WaitingRun>,
    built: Vec<(WaitingRun, Result<Chosen, EngineError>)>,
    ticket: Ticket,
    /// Held while engines are built.
    quiet: Option<AttachPause>,
}

/// A run that has not started.
#[derive(Debug)]
struct WaitingRun {
    request: Request,
    handle: ReportOnDrop,
    ordered_ns: u64,
}

/// A run and its handle. With thousands of them, all wakes are read for each frame, and the others
/// move when one ends: so what is large is on the heap.
struct Active {
    wake: Wake,
    run: Box<Run>,
    request: Box<Request>,
    handle: ReportOnDrop,
    shown_ns: u64,
    /// Engines that sent nothing, and why.
    ruled_out: Vec<(EngineKind, String)>,
}

impl Scheduler {
    fn serve(mut self) {
        while self.take_orders() {
            self.apply_changes();
            self.prepare();
            self.turn();
        }
        let now_ns = self.clock.now_ns();
        for active in self.active.drain(..) {
            store_sequences(&active.request.plan);
            active.handle.finish(active.run.into_report(End::Stopped, now_ns));
        }
        for order in self.orders.drain(..) {
            order.into_waiting().for_each(|waiting| waiting.stop(now_ns));
        }
    }

    /// Takes orders, waiting for one if there is nothing to do. False to quit.
    fn take_orders(&mut self) -> bool {
        if self.active.is_empty() && self.orders.is_empty() {
            match self.inbox.recv() {
                Ok(ordered) => self.orders.push_back(RunGroup::new(ordered)),
                Err(_) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(ordered) => self.orders.push_back(RunGroup::new(ordered)),
                Err(TryRecvError::Empty) => return !self.quit.load(Relaxed),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Builds the next engine of the first order, or starts the order when it has all. One engine
    /// per call, so that stops take effect in between.
    fn prepare(&mut self) {
        let Some(order) = self.orders.front_mut() else { return };
        if let Some(waiting) = order.waiting.pop_front() {
            let is_one_of_several = order.len() > 0 || !self.active.is_empty();
            let need = need(&waiting.request, &[], self.cpu, is_one_of_several);
            let built = build(&need, &mut self.shared);
            if self.active.is_empty() {
                self.cpu_use = CpuUse::of_this_thread(self.cpu);
            }
            match built {
                // The start may be far away: the one who requested it should know now.
                Err(error) if order.ticket.has_start_time() => {
                    let WaitingRun { request, handle, .. } = waiting;
                    handle.finish(RunReport::failed(error, self.clock.now_ns(), request.cursor));
                }
                built => order.built.push((waiting, built)),
            }
            return;
        }
        let timeout = if self.active.is_empty() { CHECK_INTERVAL } else { Duration::ZERO };
        if order.is_slow() {
            std::thread::sleep(timeout);
            return;
        }
        let Some(start) = order.ticket.wait(timeout) else { return };
        let start_ns = match start {
            GroupStart::Ready(start_ns) => Ok(start_ns),
            GroupStart::TooLate(late_ns) => Err(late_ns),
            GroupStart::At(time) => match time.approach(timeout) {
                Some(start_ns) => Ok(start_ns),
                None => return,
            },
        };
        if let (GroupStart::At(_), Ok(start_ns), true) = (start, start_ns, self.active.is_empty()) {
            self.clock.measure_before(start_ns);
        }
        for (waiting, built) in self.orders.pop_front().into_iter().flat_map(|order| order.built) {
            match start_ns {
                Ok(start_ns) => self.begin(waiting, built, start_ns),
                Err(late_ns) => {
                    self.begin(waiting, Err(EngineError::ReadyTooLate { late_ns }), self.clock.now_ns());
                }
            }
        }
        self.divide_time();
    }

    fn begin(&mut self, waiting: WaitingRun, built: Result<Chosen, EngineError>, start_ns: u64) {
        let WaitingRun { request, handle, .. } = waiting;
        match built {
            Err(error) => handle.finish(RunReport::failed(error, self.clock.now_ns(), request.cursor)),
            Ok(chosen) => {
                handle.show_choice(&chosen);
                let mut run = Run::new(chosen.engine, request.limits, start_ns);
                if let Some(next_ns) = request.next_ns {
                    run.goes_on_at(next_ns);
                }
                handle.show(&run);
                run.set_turn_ns(self.turn_ns);
                self.active.push(Active {
                    wake: run.wake(),
                    run: Box::new(run),
                    request: Box::new(request),
                    handle,
                    shown_ns: start_ns,
                    ruled_out: Vec::new(),
                });
            }
        }
    }

    /// A single run has long turns. Several runs share a long turn, and have the shortest turn
    /// beside a paced run.
    fn divide_time(&mut self) {
        let is_paced = |active: &Active| {
            active.request.limits.pace != Pace::Unpaced || active.request.limits.start_delay_ns > 0
        };
        let turn_ns = match self.active.len() {
            0 | 1 => BURST_NS,
            _ if self.active.iter().any(is_paced) => TURN_MIN_NS,
            count => (BURST_NS / count as u64).max(TURN_MIN_UNPACED_NS),
        };
        if turn_ns != self.turn_ns {
            self.turn_ns = turn_ns;
            self.active.iter_mut().for_each(|active| active.run.set_turn_ns(turn_ns));
        }
        self.clock.set_spinning(self.active.iter().any(|active| active.request.limits.spins));
        let is_alone = self.active.len() == 1;
        self.active.iter_mut().take(2).for_each(|active| active.run.set_alone(is_alone));
    }

    /// One step of one run.
    fn turn(&mut self) {
        let index = match self.active.len() {
            0 => return,
            1 => 0,
            _ => self.choose(),
        };
        let is_alone = self.active.len() == 1;
        let active = &mut self.active[index];
        let step = active.run.step(&self.clock, &active.handle.progress);
        active.wake = active.run.wake();
        match step {
            Step::Sent => active.show_sometimes(&self.clock),
            Step::Full(rest_ns) => {
                if is_alone {
                    self.clock.rest(rest_ns);
                }
                active.show_sometimes(&self.clock);
            }
            Step::WaitUntil(deadline_ns) => {
                // Before the wait, because afterwards it would delay the frame.
                active.show_sometimes(&self.clock);
                let before_ns = self.clock.now_ns();
                self.clock.wait_until(deadline_ns);
                active.run.waited(self.clock.now_ns() - before_ns);
            }
            Step::Ended(End::Failed(error)) if active.may_try_another(&error) => {
                self.try_another(index, &error);
            }
            Step::Ended(end) => self.end(index, end),
        }
    }

    /// Which of several runs takes the next step.
    fn choose(&mut self) -> usize {
        let now_ns = self.clock.now_ns();
        let wakes = self.active.iter().map(|active| active.wake.at_ns(now_ns));
        let index = choose(wakes, self.next_turn, now_ns);
        self.next_turn = index + 1;
        index
    }

    /// Restarts the run with the next engine, because the first frames failed for a reason that
    /// could not be queried before. Those frames reached no wire, so the plan restarts as well.
    fn try_another(&mut self, index: usize, error: &EngineError) {
        let is_one_of_several = self.active.len() > 1;
        let active = &mut self.active[index];
        active.ruled_out.push((active.run.engine_kind(), error.in_one_line()));
        let need = need(&active.request, &active.ruled_out, self.cpu, is_one_of_several);
        match build(&need, &mut self.shared) {
            Err(error) => self.end(index, End::Failed(error)),
            Ok(chosen) => {
                active.handle.show_choice(&chosen);
                let started_ns = active.run.started_ns();
                // Its first frame was due already.
                let limits = Limits { start_delay_ns: 0, ..active.request.limits };
                *active.run = Run::new(chosen.engine, limits, self.clock.now_ns());
                active.run.set_turn_ns(self.turn_ns);
                active.run.set_alone(!is_one_of_several);
                active.run.backdate(started_ns);
                if let Some(next_ns) = active.request.next_ns {
                    active.run.goes_on_at(next_ns);
                }
                active.wake = active.run.wake();
            }
        }
    }

    fn end(&mut self, index: usize, end: End) {
        let Active { run, request, handle, .. } = self.active.remove(index);
        self.divide_time();
        let now_ns = self.clock.now_ns();
        store_sequences(&request.plan);
        let cpu = self.cpu_use_at(now_ns);
        handle.finish(RunReport { cpu, ..run.into_report(end, now_ns) });
    }

    /// What kept the thread from its CPU since the first of the present runs. The kernel is asked
    /// once in 10 ms, because thousands of runs may end at once while others send.
    fn cpu_use_at(&mut self, now_ns: u64) -> CpuUse {
        let (read_ns, _) = self.cpu_use_now;
        if now_ns.saturating_sub(read_ns) >= SNAPSHOT_NS {
            self.cpu_use_now = (now_ns, CpuUse::of_this_thread(self.cpu));
        }
        self.cpu_use_now.1.since(&self.cpu_use)
    }

    /// Handles stops and changes since the last turn.
    fn apply_changes(&mut self) {
        let waiting: usize = self.orders.iter().map(RunGroup::len).sum();
        if self.active.len() + waiting > LOOKED_AT_MAX {
            let now_ns = self.clock.now_ns();
            if now_ns < self.next_look_ns {
                return;
            }
            self.next_look_ns = now_ns + LOOK_NS;
        }
        for index in (0..self.active.len()).rev() {
            let active = &mut self.active[index];
            if active.handle.is_stopped() {
                let end = active.last_step(&self.clock);
                self.end(index, end);
            } else if let Some(limits) = active.handle.take_terms() {
                let (present, new) = (active.request.limits.pace, limits.pace);
                let is_chosen =
                    active.request.engine.is_none() && active.run.engine_kind() != EngineKind::Xdp;
                if is_chosen && is_raised(&active.request.plan, present, new) {
                    active.run.set_note(NOTE_RAISED);
                }
                active.request.limits = limits;
                active.run.set_limits(limits, self.clock.now_ns());
                active.wake = active.run.wake();
                lock(&active.handle.snapshot).pace = limits.pace;
                self.divide_time();
            }
        }
        if !self.orders.is_empty() {
            self.apply_changes_to_orders();
        }
    }

    fn apply_changes_to_orders(&mut self) {
        let now_ns = self.clock.now_ns();
        for order in &mut self.orders {
            for waiting in order.waiting.iter_mut().chain(order.built.iter_mut().map(|(waiting, _)| waiting))
            {
                if let Some(limits) = waiting.handle.take_terms() {
                    waiting.request.limits = limits;
                    lock(&waiting.handle.snapshot).pace = limits.pace;
                }
            }
            if !order.waiting.iter().chain(order.built.iter().map(|(run, _)| run)).any(WaitingRun::is_stopped)
            {
                continue;
            }
            let waiting = std::mem::take(&mut order.waiting);
            let (stopped, waiting): (VecDeque<_>, _) = waiting.into_iter().partition(WaitingRun::is_stopped);
            order.waiting = waiting;
            let built = order.built.extract_if(.., |(waiting, _)| waiting.is_stopped());
            stopped.into_iter().chain(built.map(|(waiting, _)| waiting)).for_each(|run| run.stop(now_ns));
        }
        self.orders.retain(|order| !(order.waiting.is_empty() && order.built.is_empty()));
    }
}

/// The run that takes the next step, of those that wake at `wakes`: first the paced run that is due
/// first, else the next late or unpaced run from `next_turn` on, else the one that is due first.
pub(crate) fn choose(wakes: impl Iterator<Item = u64>, next_turn: usize, now_ns: u64) -> usize {
    let (mut first, mut in_turn) = ((u64::MAX, 0), None);
    for (index, wake_ns) in wakes.enumerate() {
        if now_ns >= wake_ns && now_ns - wake_ns >= LATE_NS {
            let place = (index < next_turn, index);
            in_turn = Some(in_turn.map_or(place, |best: (bool, usize)| best.min(place)));
        } else if wake_ns < first.0 {
            first = (wake_ns, index);
        }
    }
    match in_turn {
        Some((_, index)) if first.0 > now_ns => index,
        _ => first.1,
    }
}

impl RunGroup {
    /// True while the engine of a fast run is not at full speed. A spinning real-time thread would
    /// prevent the kernel from getting it there. With a requested time all engines get there
    /// before.
    fn is_slow(&mut self) -> bool {
        self.quiet = None;
        let has_start_time = self.ticket.has_start_time();
        self.built.iter_mut().any(|(run, built)| {
            let is_fast = has_start_time || run.request.limits.pace.gap_ns() <= FAST_GAP_NS;
            is_fast && built.as_mut().is_ok_and(|chosen| !chosen.engine.is_ready())
        })
    }

    /// Number of its runs.
    fn len(&self) -> usize {
        self.waiting.len() + self.built.len()
    }

    fn new((waiting, ticket): Ordered) -> Self {
        Self { waiting, built: Vec::new(), ticket, quiet: Some(AttachPause::keep()) }
    }

    fn into_waiting(self) -> impl Iterator<Item = WaitingRun> {
        self.waiting.into_iter().chain(self.built.into_iter().map(|(waiting, _)| waiting))
    }
}

impl WaitingRun {
    fn new(request: Request, handle: &Arc<RunHandle>) -> Self {
        handle.show_request(&request);
        Self { request, handle: ReportOnDrop(Arc::clone(handle)), ordered_ns: SystemClock.now_ns() }
    }

    /// To end before it starts. A run that another continues starts, and sends what is due.
    fn is_stopped(&self) -> bool {
        self.handle.is_stopped() && !self.handle.is_paused.load(Relaxed)
    }

    /// Ends a run that never started.
    fn stop(self, now_ns: u64) {
        let gone = EngineError::Gone { ifname: self.request.ifname };
        let mut report = RunReport::failed(gone, now_ns, self.request.cursor);
        report.end = End::Stopped;
        report.started_ns = self.ordered_ns;
        report.next_ns = self.request.next_ns;
        self.handle.finish(report);
    }
}

impl Active {
    /// True if nothing was sent, for a reason that another engine may not have, and no engine was
    /// requested.
    fn may_try_another(&self, error: &EngineError) -> bool {
        self.request.engine.is_none() && self.run.total().sent == 0 && error.is_of_one_engine()
    }

    /// A run that is interrupted before its first frame sends what is due, so that frequent
    /// interruptions do not prevent sending.
    fn last_step(&mut self, clock: &impl Clock) -> End {
        if !self.handle.is_paused.load(Relaxed) || self.run.total().offered() > 0 {
            return End::Stopped;
        }
        match self.run.step(clock, &self.handle.progress) {
            // The continuing run selects another engine.
            Step::Ended(End::Failed(error)) if self.may_try_another(&error) => End::Stopped,
            Step::Ended(end) => end,
            Step::Sent | Step::Full(_) | Step::WaitUntil(_) => End::Stopped,
        }
    }

    fn show_sometimes(&mut self, clock: &impl Clock) {
        let now_ns = clock.now_ns();
        // The first frame of a requested start may be due later.
        if now_ns.saturating_sub(self.shown_ns) >= SNAPSHOT_NS {
            self.handle.show(&self.run);
            self.shown_ns = now_ns;
        }
    }
}

pub(crate) fn need<'a>(
    request: &'a Request,
    ruled_out: &'a [(EngineKind, String)],
    cpu: u32,
    is_one_of_several: bool,
) -> Requirements<'a> {
    Requirements {
        ifname: &request.ifname,
        plan: &request.plan,
        cursor: request.cursor.clone(),
        mode: request.mode,
        options: request.options,
        engine: request.engine,
        pace: request.limits.pace,
        ruled_out,
        batch: request.batch,
        cpu,
        is_one_of_several,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Burst;

    #[test]
    fn a_panic_in_the_thread_ends_the_runs_that_somebody_waits_for() {
        let handle = Arc::new(RunHandle::default());
        handle.progress.set(&Burst { sent: 7, ..Burst::default() });
        let promise = ReportOnDrop(Arc::clone(&handle));
        let panicked = std::thread::spawn(move || {
            let _promise = promise;
            panic!("on purpose, in the middle of a run");
        });
        assert!(panicked.join().is_err());
        let report = handle.wait(Duration::from_secs(60)).expect("no wait is endless");
        assert!(matches!(report.end, End::Failed(EngineError::ThreadLost)), "{:?}", report.end);
        assert_eq!(report.total.sent, 7);
    }

    #[test]
    fn a_report_that_was_given_stays() {
        let handle = Arc::new(RunHandle::default());
        let promise = ReportOnDrop(Arc::clone(&handle));
        let mut report = handle.lost();
        report.end = End::Count;
        promise.finish(report);
        drop(promise);
        assert!(handle.wait(Duration::ZERO).is_some_and(|report| matches!(report.end, End::Count)));
    }
}
