//! A thread of the generator: pinned to one CPU, inside one network namespace, serving any number of runs.
//!
//! Among its runs the one whose next frame is due first goes on; of several that are not paced the newest goes
//! on until it has ended, as in pktgen. Orders come in by a channel, wishes to stop by a flag that every step
//! looks at.

use crate::choose::{Chosen, Need, Tools, build};
use crate::clock::{Clock, PunctualClock, SystemClock};
use crate::engine::{Burst, Errors};
use crate::pacer::Pace;
use crate::run::{End, Progress, Run, RunReport, Step, Terms};
use crate::together::{Together, Turn};
use crate::{EngineError, EngineKind, Wish};
use host::{Netns, Stack};
use packet::{Cursor, Plan, XmitMode};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the turn of a run that was paused is kept for the one that goes on with it.
const TURN_KEPT_NS: u64 = 500_000_000;
/// How long a thread with a turn to keep and nothing to do looks away.
const LOOK_AWAY_NS: u64 = 20_000;
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
    pub wish: Wish,
    /// When it ends and how fast it goes.
    pub terms: Terms,
    /// The engine that the user insists on.
    pub engine: Option<EngineKind>,
    /// Frames handled together, for engines that know such a thing.
    pub batch: Option<u32>,
    /// The run that this one goes on with, after a change; `None` for a run of its own.
    pub goes_on: Option<GoesOn>,
    /// Runs of other threads that this one is to begin with: each has the same, made for their number.
    pub together: Option<Arc<Together>>,
}

/// What a run keeps when it is cut by a change and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoesOn {
    /// `CLOCK_MONOTONIC` when its first part was ordered: its place among those that are not paced.
    pub ordered_ns: u64,
    /// `CLOCK_MONOTONIC` when its next frame is due; `None` for as soon as its turn comes.
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
    /// Ends it as well: somebody's flag that a signal handler may set.
    stop_too: Option<Arc<AtomicBool>>,
    is_paused: AtomicBool,
    new_terms: Mutex<Option<Terms>>,
    is_changed: AtomicBool,
    snapshot: Mutex<Snapshot>,
    report: Mutex<Option<RunReport>>,
    ended: Condvar,
    has_ended: AtomicBool,
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

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.stop_too.as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// As [`Self::stop`], for a run that another request goes on with soon ([`Request::goes_on`]): runs that wait for it
    /// do not take its turn meanwhile.
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

    /// Terms that were set since the last look.
    fn take_terms(&self) -> Option<Terms> {
        if self.is_changed.swap(false, Relaxed) { lock(&self.new_terms).take() } else { None }
    }

    fn finish(&self, report: RunReport) {
        lock(&self.snapshot).cursor.clone_from(&report.cursor);
        *lock(&self.report) = Some(report);
        self.has_ended.store(true, Relaxed);
        self.ended.notify_all();
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
    orders: Option<Sender<Waiting>>,
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
                let (clock, tools) = (PunctualClock::default(), Tools::default());
                let (waiting, active) = (VecDeque::new(), Vec::new());
                Shift { cpu, inbox, quit, clock, tools, waiting, free_ns: 0, kept_until_ns: 0, active }
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

    /// Begins a run as soon as the thread is free to; what becomes of it is in the handle.
    pub fn start(&self, request: Request) -> Arc<RunHandle> {
        self.order(request, RunHandle::default())
    }

    /// As [`Self::start`], for a run that also ends when `stop` is set. The thread reads it itself: where a signal handler
    /// sets it on this thread, it ends within microseconds.
    pub fn start_until(&self, request: Request, stop: Arc<AtomicBool>) -> Arc<RunHandle> {
        self.order(request, RunHandle { stop_too: Some(stop), ..RunHandle::default() })
    }

    fn order(&self, request: Request, handle: RunHandle) -> Arc<RunHandle> {
        let handle = Arc::new(handle);
        lock(&handle.snapshot).cursor.clone_from(&request.cursor);
        if let Some(orders) = &self.orders {
            // An order that a lost thread does not take is dropped, which ends it with a report.
            let _ = orders.send(Waiting::new(request, Arc::clone(&handle)));
        }
        handle
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
    inbox: Receiver<Waiting>,
    quit: Arc<AtomicBool>,
    clock: PunctualClock,
    tools: Tools,
    /// Runs that are not paced, behind the one that is served. Each engine costs memory and one of 48 places in
    /// the XDP dispatcher; so theirs are built when their turn comes.
    waiting: VecDeque<Waiting>,
    /// When the last run that was not paced ended.
    free_ns: u64,
    /// Until when the turn is kept for a run that was paused.
    kept_until_ns: u64,
    active: Vec<Active>,
}

/// A run whose turn has not come.
#[derive(Debug)]
struct Waiting {
    request: Request,
    handle: Promise,
    turn: Turn,
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
            self.turn();
        }
        let now_ns = self.clock.now_ns();
        for active in self.active.drain(..) {
            store_sequences(&active.request.plan);
            active.handle.finish(active.run.into_report(End::Stopped, now_ns));
        }
        for waiting in self.waiting.drain(..) {
            waiting.stop(now_ns);
        }
    }

    /// Takes what was ordered, waiting for an order when there is nothing to do. False to quit.
    fn take_orders(&mut self) -> bool {
        if self.active.is_empty() && self.waiting.is_empty() {
            match self.inbox.recv() {
                Ok(order) => self.take(order),
                Err(_) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(order) => self.take(order),
                Err(TryRecvError::Empty) => return !self.quit.load(Relaxed),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Begins a paced run at once; the others wait in line.
    fn take(&mut self, order: Waiting) {
        if order.request.goes_on.is_some() {
            self.kept_until_ns = 0;
        }
        if order.request.terms.pace == Pace::Unpaced {
            let place = self.waiting.partition_point(|other| other.ordered_ns <= order.ordered_ns);
            self.waiting.insert(place, order);
        } else {
            self.begin(order);
        }
    }

    /// Begins the next run that is not paced, once the one before is over and not about to go on.
    fn advance(&mut self) {
        if self.clock.now_ns() < self.kept_until_ns {
            return;
        }
        while !self.active.iter().any(|active| active.request.terms.pace == Pace::Unpaced) {
            let Some(order) = self.waiting.pop_front() else { return };
            self.begin(order);
        }
    }

    fn begin(&mut self, mut order: Waiting) {
        let built = build(&need(&order.request, &[], self.cpu), &mut self.tools);
        order.turn.wait();
        if order.handle.is_stopped() && !order.handle.is_paused.load(Relaxed) {
            order.stop(self.clock.now_ns());
            return;
        }
        let Waiting { request, handle, ordered_ns, .. } = order;
        match built {
            Err(error) => handle.finish(RunReport::failed(error, self.clock.now_ns(), request.cursor)),
            Ok(chosen) => {
                handle.show_choice(&chosen);
                let now_ns = self.clock.now_ns();
                let mut run = Run::new(chosen.engine, request.terms, now_ns);
                if let Some(next_ns) = request.goes_on.and_then(|goes_on| goes_on.next_ns) {
                    run.goes_on_at(next_ns);
                } else if ordered_ns < self.free_ns {
                    // It waited for others: that is part of its time, as in pktgen.
                    run.backdate(ordered_ns);
                }
                handle.show(&run);
                self.active.push(Active { run, request, handle, shown_ns: now_ns, ruled_out: Vec::new() });
            }
        }
    }

    /// One step of the run that is due first; of equals the first in the list.
    fn turn(&mut self) {
        self.apply_wishes();
        self.advance();
        let due = |(_, active): &(usize, &Active)| active.run.next_ns();
        let Some((index, _)) = self.active.iter().enumerate().min_by_key(due) else {
            if !self.waiting.is_empty() {
                self.clock.wait_until(self.clock.now_ns() + LOOK_AWAY_NS);
            }
            return;
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
                if let Some(next_ns) = active.request.goes_on.and_then(|goes_on| goes_on.next_ns) {
                    active.run.goes_on_at(next_ns);
                }
            }
        }
    }

    fn end(&mut self, index: usize, end: End) {
        let Active { run, request, handle, .. } = self.active.remove(index);
        let now_ns = self.clock.now_ns();
        if request.terms.pace == Pace::Unpaced {
            self.free_ns = now_ns;
            if handle.is_paused.load(Relaxed) {
                self.kept_until_ns = now_ns + TURN_KEPT_NS;
            }
        }
        store_sequences(&request.plan);
        handle.finish(run.into_report(end, now_ns));
    }

    /// Stops and changes that were asked for since the last turn.
    fn apply_wishes(&mut self) {
        for index in (0..self.active.len()).rev() {
            let active = &mut self.active[index];
            if active.handle.is_stopped() {
                let end = active.last_step(&self.clock);
                self.end(index, end);
            } else if let Some(terms) = active.handle.take_terms() {
                active.request.terms = terms;
                active.run.change_terms(terms, self.clock.now_ns());
            }
        }
        self.apply_wishes_to_waiting();
    }

    fn apply_wishes_to_waiting(&mut self) {
        let now_ns = self.clock.now_ns();
        for mut order in std::mem::take(&mut self.waiting) {
            order.request.terms = order.handle.take_terms().unwrap_or(order.request.terms);
            if order.handle.is_stopped() {
                order.stop(now_ns);
            } else if order.request.terms.pace == Pace::Unpaced {
                self.waiting.push_back(order);
            } else {
                self.begin(order);
            }
        }
    }
}

impl Waiting {
    fn new(mut request: Request, handle: Arc<RunHandle>) -> Self {
        let ordered_ns = request.goes_on.map_or_else(|| SystemClock.now_ns(), |goes_on| goes_on.ordered_ns);
        let turn = Turn::of(request.together.take());
        Self { request, handle: Promise(handle), turn, ordered_ns }
    }

    /// Ends a run that never began.
    fn stop(self, now_ns: u64) {
        let gone = EngineError::Gone { ifname: self.request.ifname };
        let mut report = RunReport::failed(gone, now_ns, self.request.cursor);
        report.end = End::Stopped;
        report.started_ns = self.ordered_ns;
        report.next_ns = self.request.goes_on.and_then(|goes_on| goes_on.next_ns);
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

pub(crate) fn need<'a>(request: &'a Request, ruled_out: &'a [(EngineKind, String)], cpu: u32) -> Need<'a> {
    Need {
        ifname: &request.ifname,
        plan: &request.plan,
        cursor: request.cursor.clone(),
        mode: request.mode,
        wish: request.wish,
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
