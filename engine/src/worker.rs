//! A thread of the generator: pinned to one CPU, inside one network namespace, serving any number of runs.
//!
//! Runs that keep their pace send when their frames are due; runs without a pace, and those that are behind theirs, share
//! the rest of the time in turns. All engines of one order are built before its first frame, and its runs begin at one
//! instant. Orders come in by a channel; stops by a flag that is checked between bursts.

use crate::clock::{Clock, PunctualClock, SystemClock};
use crate::engine::{Burst, Errors};
use crate::event::Event;
use crate::pacer::Pace;
use crate::run::{BURST_NS, End, Progress, Run, RunReport, Step, Terms};
use crate::select::{Chosen, Requirements, ThreadShared, build};
use crate::together::{Together, Turn};
use crate::xdp::AttachPause;
use crate::{EngineError, EngineKind, TxOptions};
use host::{Netns, Stack};
use packet::{Cursor, Plan, XmitMode};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A run that is later than this shares the thread with those that are not paced.
const LATE_NS: u64 = 1_000_000;
/// Shortest turn of a run among several: long against the cost of a call, short against [`LATE_NS`].
const TURN_MIN_NS: u64 = 100_000;
/// How long a thread without runs waits for an engine, its own or those of other threads, before it checks its orders.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// A run alone with shorter gaps than this begins when its engine is at full speed. Others need not wait for that.
const FAST_GAP_NS: u64 = 100_000;
/// How often a run shows where it stands.
const SNAPSHOT_NS: u64 = 10_000_000;

/// One run to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The device, by its name in the worker's namespace.
    pub ifname: String,
    /// What each frame will be.
    pub plan: Plan,
    /// Where the first frame starts from.
    pub cursor: Cursor,
    /// Where frames enter the kernel.
    pub mode: XmitMode,
    /// What is asked beside the plan.
    pub options: TxOptions,
    /// When it ends and how fast it goes.
    pub terms: Terms,
    /// The engine that the user insists on.
    pub engine: Option<EngineKind>,
    /// Frames handled together, for engines that know such a thing.
    pub batch: Option<u32>,
    /// `CLOCK_MONOTONIC` when its first frame is due, where it continues a run that a change has cut; `None` for at once.
    pub next_ns: Option<u64>,
}

/// Where a run stands; made anew every 10 ms while it goes on.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Where the next frame starts from.
    pub cursor: Cursor,
    /// `CLOCK_MONOTONIC` when it began; 0 before.
    pub started_ns: u64,
    /// Time spent waiting for deadlines.
    pub idle_ns: u64,
    /// The engine at work.
    pub engine: Option<EngineKind>,
    /// Why this engine.
    pub reason: String,
}

/// One run, seen from outside its thread.
#[derive(Debug, Default)]
pub struct RunHandle {
    progress: Progress,
    stop: AtomicBool,
    /// Ends it as well: a flag that a signal handler may set.
    stop_too: Option<Arc<AtomicBool>>,
    is_paused: AtomicBool,
    new_terms: Mutex<Option<Terms>>,
    is_changed: AtomicBool,
    snapshot: Mutex<Snapshot>,
    report: Mutex<Option<RunReport>>,
    ended: Condvar,
    has_ended: AtomicBool,
    on_end: Mutex<Option<Arc<Event>>>,
}

impl RunHandle {
    /// Frames so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Asks the run to end; it does within 10 ms.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// True once the run has been asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.stop_too.as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// As [`Self::stop`], for a run that another request continues ([`Request::next_ns`]): if it has sent nothing yet, it
    /// sends what is due first.
    pub fn pause(&self) {
        self.is_paused.store(true, Relaxed);
        self.stop();
    }

    /// Goes on with another count, another end or another pace, from the next frame on.
    pub fn change_terms(&self, terms: Terms) {
        *lock(&self.new_terms) = Some(terms);
        self.is_changed.store(true, Relaxed);
    }

    /// Where it stood at most 10 ms ago.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone()
    }

    /// True once there is a report.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Waits for the end at most this long, and takes the report; it can be taken once.
    pub fn wait(&self, timeout: Duration) -> Option<RunReport> {
        let deadline = Instant::now() + timeout;
        let mut report = lock(&self.report);
        while report.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            (report, _) = self.ended.wait_timeout(report, left).unwrap_or_else(PoisonError::into_inner);
        }
        report.take()
    }

    /// Waits for the end at most this long and leaves the report where it is; true once the run has ended.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let goes_on = |_: &mut Option<RunReport>| !self.has_ended();
        drop(self.ended.wait_timeout_while(lock(&self.report), timeout, goes_on));
        self.has_ended()
    }

    /// Terms that were set since the last look.
    fn take_terms(&self) -> Option<Terms> {
        if self.is_changed.swap(false, Relaxed) { lock(&self.new_terms).take() } else { None }
    }

    /// Notifies `event` once the run has ended.
    pub fn notify_end(&self, event: &Arc<Event>) {
        *lock(&self.on_end) = Some(Arc::clone(event));
        if self.has_ended() {
            event.notify();
        }
    }

    /// A run that is over before it has begun.
    pub fn ended(report: RunReport) -> Arc<Self> {
        let handle = Arc::new(Self::default());
        handle.finish(report);
        handle
    }

    /// Ends the run with this report.
    pub fn finish(&self, report: RunReport) {
        lock(&self.snapshot).cursor.clone_from(&report.cursor);
        let mut place = lock(&self.report);
        *place = Some(report);
        self.has_ended.store(true, Relaxed);
        self.ended.notify_all();
        if let Some(event) = lock(&self.on_end).take() {
            event.notify();
        }
    }

    /// The report of a run whose thread has ended with a panic, as far as it had shown where it stood.
    fn lost(&self) -> RunReport {
        let snapshot = self.snapshot();
        let now_ns = SystemClock.now_ns();
        let started_ns = if snapshot.started_ns == 0 { now_ns } else { snapshot.started_ns };
        let errors = Errors { not_handed_over: self.progress.errors(), ..Errors::default() };
        RunReport {
            engine: snapshot.engine,
            started_ns,
            idle_ns: snapshot.idle_ns,
            total: Burst {
                sent: self.progress.sent(),
                errors,
                frame_bytes: self.progress.frame_bytes(),
                ..Burst::default()
            },
            ..RunReport::failed(EngineError::ThreadLost, now_ns, snapshot.cursor)
        }
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

/// The thread's end of a handle: whatever becomes of the thread, whoever waits gets a report.
#[derive(Debug)]
struct Promise(Arc<RunHandle>);

impl Deref for Promise {
    type Target = RunHandle;

    fn deref(&self) -> &RunHandle {
        &self.0
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.finish(self.lost());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves plain values behind, which stay good to read.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. Dropping it stops all runs and waits for their ends.
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
    /// When the thread cannot be made, pinned, or brought into the namespace.
    pub fn spawn(cpu: u32, netns: &Netns) -> Result<Self, EngineError> {
        let (orders, inbox) = channel();
        let (ready, started) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (netns, quit) = (netns.clone(), Arc::clone(&stop));
        let body = move || {
            let prepared = prepare(cpu, &netns);
            let is_good = prepared.is_ok();
            // The receiver waits below for exactly this.
            let _ = ready.send(prepared);
            if is_good {
                let (clock, tools) = (PunctualClock::default(), ThreadShared::default());
                let (orders, active) = (VecDeque::new(), Vec::new());
                Shift { cpu, inbox, quit, clock, tools, orders, active, next_turn: 0 }.serve();
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

    /// Begins a run as soon as its engine is built; what becomes of it is in the handle.
    pub fn start(&self, request: Request) -> Arc<RunHandle> {
        let handle = Arc::new(RunHandle::default());
        self.order(vec![Waiting::new(request, &handle)], None);
        handle
    }

    /// As [`Self::start`], for several runs, which begin at the same instant; with `together`, at that of the orders of
    /// other threads that have the same.
    pub fn start_all(&self, requests: Vec<Request>, together: Option<Arc<Together>>) -> Vec<Arc<RunHandle>> {
        let handles: Vec<_> = requests.iter().map(|_| Arc::new(RunHandle::default())).collect();
        let runs = requests.into_iter().zip(&handles).map(|(request, handle)| Waiting::new(request, handle));
        self.order(runs.collect(), together);
        handles
    }

    fn order(&self, waiting: Vec<Waiting>, together: Option<Arc<Together>>) {
        if let Some(orders) = &self.orders {
            // An order that a lost thread does not take is dropped, which ends its runs with a report.
            let _ = orders.send((waiting.into(), Turn::of(together)));
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

    /// Begins runs, each on the worker of its CPU, all at the same instant, as soon as all engines are built. Returns
    /// one handle per request, in the same order. A request for a CPU without a worker fails. The runs also end when
    /// `stop` is set: the workers read it themselves, so that a signal handler which sets it on one of these threads
    /// ends the run within microseconds.
    pub fn start(&self, requests: Vec<(u32, Request)>, stop: Option<Arc<AtomicBool>>) -> Vec<Arc<RunHandle>> {
        let (mut handles, mut orders) = (Vec::new(), BTreeMap::<u32, Vec<Waiting>>::new());
        for (cpu, request) in requests {
            let handle = Arc::new(RunHandle { stop_too: stop.clone(), ..RunHandle::default() });
            if self.0.iter().any(|worker| worker.cpu == cpu) {
                orders.entry(cpu).or_default().push(Waiting::new(request, &handle));
            } else {
                let error = EngineError::NoWorker { cpu };
                handle.finish(RunReport::failed(error, SystemClock.now_ns(), request.cursor));
            }
            handles.push(handle);
        }
        let together = Arc::new(Together::new(orders.len()));
        for worker in &self.0 {
            if let Some(order) = orders.remove(&worker.cpu) {
                worker.order(order, Some(Arc::clone(&together)));
            }
        }
        handles
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn prepare(cpu: u32, netns: &Netns) -> Result<(), EngineError> {
    netns.enter()?;
    host::pin_thread(cpu)?;
    // Sleeps end when they are due; without this the kernel may add 50 µs. A refusal costs only exactness.
    let _ = nix::sys::prctl::set_timerslack(1);
    Ok(())
}

/// Tells the kernel how far the numbers of its IPsec associations have come.
fn store_sequences(plan: &Plan) {
    if let Some(ipsec) = &plan.ipsec {
        // All frames are out. A refusal costs this program nothing; the next one would begin where it began.
        let _ = Stack::here().and_then(|stack| stack.store_sequences(&ipsec.associations));
    }
}

/// What the thread works with.
struct Shift {
    cpu: u32,
    inbox: Receiver<Ordered>,
    quit: Arc<AtomicBool>,
    clock: PunctualClock,
    tools: ThreadShared,
    /// Orders that have not begun, in their order.
    orders: VecDeque<Order>,
    active: Vec<Active>,
    /// Where the next turn among runs that share the thread begins.
    next_turn: usize,
}

/// What comes by the channel: the runs of one order.
type Ordered = (VecDeque<Waiting>, Turn);

/// Runs that begin at the same instant.
struct Order {
    /// Those without an engine.
    waiting: VecDeque<Waiting>,
    built: Vec<(Waiting, Result<Chosen, EngineError>)>,
    turn: Turn,
    /// While engines are built.
    quiet: Option<AttachPause>,
}

/// A run that has not begun.
#[derive(Debug)]
struct Waiting {
    request: Request,
    handle: Promise,
    ordered_ns: u64,
}

/// A run and those who watch it.
struct Active {
    run: Run,
    request: Request,
    handle: Promise,
    shown_ns: u64,
    /// Engines that turned out to send nothing, and why.
    ruled_out: Vec<(EngineKind, String)>,
}

impl Shift {
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

    /// Takes what was ordered, waiting for an order when there is nothing to do. False to quit.
    fn take_orders(&mut self) -> bool {
        if self.active.is_empty() && self.orders.is_empty() {
            match self.inbox.recv() {
                Ok(ordered) => self.orders.push_back(Order::new(ordered)),
                Err(_) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(ordered) => self.orders.push_back(Order::new(ordered)),
                Err(TryRecvError::Empty) => return !self.quit.load(Relaxed),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Builds the next engine of the first order, or begins the order when it has all. One engine a call: stops take
    /// effect between two.
    fn prepare(&mut self) {
        let Some(order) = self.orders.front_mut() else { return };
        if let Some(waiting) = order.waiting.pop_front() {
            let built = build(&need(&waiting.request, &[], self.cpu), &mut self.tools);
            order.built.push((waiting, built));
            return;
        }
        let timeout = if self.active.is_empty() { CHECK_INTERVAL } else { Duration::ZERO };
        if order.is_slow() {
            std::thread::sleep(timeout);
            return;
        }
        let Some(start_ns) = order.turn.wait(timeout) else { return };
        for (waiting, built) in self.orders.pop_front().into_iter().flat_map(|order| order.built) {
            self.begin(waiting, built, start_ns);
        }
        self.divide_time();
    }

    fn begin(&mut self, waiting: Waiting, built: Result<Chosen, EngineError>, start_ns: u64) {
        let Waiting { request, handle, .. } = waiting;
        match built {
            Err(error) => handle.finish(RunReport::failed(error, self.clock.now_ns(), request.cursor)),
            Ok(chosen) => {
                handle.show_choice(&chosen);
                let mut run = Run::new(chosen.engine, request.terms, start_ns);
                if let Some(next_ns) = request.next_ns {
                    run.goes_on_at(next_ns);
                }
                handle.show(&run);
                self.active.push(Active { run, request, handle, shown_ns: start_ns, ruled_out: Vec::new() });
            }
        }
    }

    /// A run alone has long turns. Of several each has its part of a long turn, and the shortest beside one with a pace.
    fn divide_time(&mut self) {
        let is_paced = |active: &Active| active.request.terms.pace != Pace::Unpaced;
        let turn_ns = match self.active.len() {
            0 | 1 => BURST_NS,
            _ if self.active.iter().any(is_paced) => TURN_MIN_NS,
            count => (BURST_NS / count as u64).max(TURN_MIN_NS),
        };
        self.active.iter_mut().for_each(|active| active.run.set_turn_ns(turn_ns));
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
        match active.run.step(&self.clock, &active.handle.progress) {
            Step::Sent => active.show_sometimes(&self.clock),
            Step::Full(rest_ns) => {
                if is_alone {
                    self.clock.rest(rest_ns);
                }
                active.show_sometimes(&self.clock);
            }
            Step::WaitUntil(deadline_ns) => {
                // Not behind the wait: that would make the frame late.
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
        let wakes = self.active.iter().map(|active| active.run.wake_ns());
        let index = choose(wakes, self.next_turn, self.clock.now_ns());
        self.next_turn = index + 1;
        index
    }

    /// Begins the run anew with the next engine: what an engine was built for and its first frames met differ where
    /// a kernel does not tell beforehand. Those frames reached no wire, so the plan begins where it began.
    fn try_another(&mut self, index: usize, error: &EngineError) {
        let active = &mut self.active[index];
        active.ruled_out.push((active.run.engine_kind(), error.in_one_line()));
        match build(&need(&active.request, &active.ruled_out, self.cpu), &mut self.tools) {
            Err(error) => self.end(index, End::Failed(error)),
            Ok(chosen) => {
                active.handle.show_choice(&chosen);
                let started_ns = active.run.started_ns();
                active.run = Run::new(chosen.engine, active.request.terms, self.clock.now_ns());
                active.run.backdate(started_ns);
                if let Some(next_ns) = active.request.next_ns {
                    active.run.goes_on_at(next_ns);
                }
                self.divide_time();
            }
        }
    }

    fn end(&mut self, index: usize, end: End) {
        let Active { run, request, handle, .. } = self.active.remove(index);
        self.divide_time();
        let now_ns = self.clock.now_ns();
        store_sequences(&request.plan);
        handle.finish(run.into_report(end, now_ns));
    }

    /// Stops and changes that were asked for since the last turn.
    fn apply_changes(&mut self) {
        for index in (0..self.active.len()).rev() {
            let active = &mut self.active[index];
            if active.handle.is_stopped() {
                let end = active.last_step(&self.clock);
                self.end(index, end);
            } else if let Some(terms) = active.handle.take_terms() {
                active.request.terms = terms;
                active.run.change_terms(terms, self.clock.now_ns());
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
                waiting.request.terms = waiting.handle.take_terms().unwrap_or(waiting.request.terms);
            }
            let waiting = std::mem::take(&mut order.waiting);
            let (stopped, waiting): (VecDeque<_>, _) = waiting.into_iter().partition(Waiting::is_stopped);
            order.waiting = waiting;
            let built = order.built.extract_if(.., |(waiting, _)| waiting.is_stopped());
            stopped.into_iter().chain(built.map(|(waiting, _)| waiting)).for_each(|run| run.stop(now_ns));
        }
        self.orders.retain(|order| !(order.waiting.is_empty() && order.built.is_empty()));
    }
}

/// The run that takes the next step, of those that wake at `wakes`. First the one due first of those that keep their
/// pace; else the next in turn, from `next_turn` on, of those that are late or not paced; else the one due first.
fn choose(wakes: impl Iterator<Item = u64>, next_turn: usize, now_ns: u64) -> usize {
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

impl Order {
    /// True while the engine of a fast run that has the thread for itself is not at full speed. A thread with real-time
    /// priority that spins would keep the kernel from bringing it there.
    fn is_slow(&mut self) -> bool {
        self.quiet = None;
        match &mut self.built[..] {
            [(run, Ok(chosen))] if run.request.terms.pace.gap_ns() < FAST_GAP_NS => !chosen.engine.is_ready(),
            _ => false,
        }
    }

    fn new((waiting, turn): Ordered) -> Self {
        Self { waiting, built: Vec::new(), turn, quiet: Some(AttachPause::keep()) }
    }

    fn into_waiting(self) -> impl Iterator<Item = Waiting> {
        self.waiting.into_iter().chain(self.built.into_iter().map(|(waiting, _)| waiting))
    }
}

impl Waiting {
    fn new(request: Request, handle: &Arc<RunHandle>) -> Self {
        lock(&handle.snapshot).cursor.clone_from(&request.cursor);
        Self { request, handle: Promise(Arc::clone(handle)), ordered_ns: SystemClock.now_ns() }
    }

    /// To end before it begins. A run that another continues begins, and sends what is due.
    fn is_stopped(&self) -> bool {
        self.handle.is_stopped() && !self.handle.is_paused.load(Relaxed)
    }

    /// Ends a run that never began.
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
    /// True when nothing was sent, for a reason that another engine may not have, and nobody insists on this one.
    fn may_try_another(&self, error: &EngineError) -> bool {
        self.request.engine.is_none() && self.run.total().sent == 0 && error.is_of_one_engine()
    }

    /// A run that is cut before its first frame sends what is due: cuts in quick succession keep no run from sending.
    fn last_step(&mut self, clock: &impl Clock) -> End {
        if !self.handle.is_paused.load(Relaxed) || self.run.total().offered() > 0 {
            return End::Stopped;
        }
        match self.run.step(clock, &self.handle.progress) {
            // The part that goes on will find another by itself.
            Step::Ended(End::Failed(error)) if self.may_try_another(&error) => End::Stopped,
            Step::Ended(end) => end,
            Step::Sent | Step::Full(_) | Step::WaitUntil(_) => End::Stopped,
        }
    }

    fn show_sometimes(&mut self, clock: &impl Clock) {
        let now_ns = clock.now_ns();
        if now_ns - self.shown_ns >= SNAPSHOT_NS {
            self.handle.show(&self.run);
            self.shown_ns = now_ns;
        }
    }
}

pub(crate) fn need<'a>(
    request: &'a Request,
    ruled_out: &'a [(EngineKind, String)],
    cpu: u32,
) -> Requirements<'a> {
    Requirements {
        ifname: &request.ifname,
        plan: &request.plan,
        cursor: request.cursor.clone(),
        mode: request.mode,
        options: request.options,
        engine: request.engine,
        ruled_out,
        batch: request.batch,
        cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_thread_ends_the_runs_that_somebody_waits_for() {
        let handle = Arc::new(RunHandle::default());
        handle.progress.set(&Burst { sent: 7, ..Burst::default() });
        let promise = Promise(Arc::clone(&handle));
        let panicked = std::thread::spawn(move || {
            let _promise = promise;
            panic!("on purpose, in the middle of a run");
        });
        assert!(panicked.join().is_err());
        let report = handle.wait(Duration::from_secs(60)).expect("nobody waits for ever");
        assert!(matches!(report.end, End::Failed(EngineError::ThreadLost)), "{:?}", report.end);
        assert_eq!(report.total.sent, 7);
    }

    #[test]
    fn a_report_that_was_given_stays() {
        let handle = Arc::new(RunHandle::default());
        let promise = Promise(Arc::clone(&handle));
        let mut report = handle.lost();
        report.end = End::Count;
        promise.finish(report);
        drop(promise);
        assert!(handle.wait(Duration::ZERO).is_some_and(|report| matches!(report.end, End::Count)));
    }
}
