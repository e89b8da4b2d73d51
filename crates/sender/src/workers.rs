//! The threads of one run: started together, watched, stopped together.

use super::control::SendControl;
use engine::{Burst, Limits, Request, RunHandle, RunReport, StartGate, Worker, Workers};
use facts::SendErrors;
use host::{Netns, StartTime};
use program::monitor::sources::SendSource;
use program::outcome::Failure;
use program::stop::{BlockedSignals, Stop};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Interval of the progress line.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Poll interval for stops: a signal does not end a wait, and a stop takes at most 10 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// The workers of one run.
#[derive(Debug)]
pub struct WorkerSet {
    /// Each run with its CPU.
    runs: Vec<(u32, Arc<RunHandle>)>,
    _workers: Workers,
}

/// The runs of a sender for another part of the command: empty until they start.
#[derive(Clone, Debug, Default)]
pub struct StartedRuns(Arc<OnceLock<Vec<Arc<RunHandle>>>>);

impl StartedRuns {
    /// Totals so far.
    pub fn totals(&self) -> SentTotals {
        self.0.get().map_or_else(SentTotals::default, SentTotals::of_runs)
    }
}

/// The result of one worker.
#[derive(Debug)]
pub struct WorkerResult {
    /// The CPU it ran on.
    pub cpu: u32,
    /// Its run.
    pub run: RunReport,
    /// Why its engine was chosen.
    pub why: String,
}

/// Totals of all workers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotals {
    /// Frames accepted by the driver.
    pub sent: u64,
    /// Frames not accepted.
    pub errors: u64,
    /// These by cause.
    pub causes: SendErrors,
    /// Frames that met a full ring, so that the next frame took their place.
    pub replaced: u64,
    /// Bytes of all of them, without FCS.
    pub frame_bytes: u64,
}

impl SentTotals {
    /// Of the results of all workers.
    pub fn of(done: &[WorkerResult]) -> Self {
        done.iter().fold(Self::default(), |sum, done| sum.plus(&done.run.total))
    }

    /// Of a replay, where no frame takes the place of one that met a full ring.
    pub fn of_replay(total: &Burst) -> Self {
        let Burst { sent, frame_bytes, .. } = *total;
        Self { sent, errors: total.errors.total(), causes: total.errors.causes, replaced: 0, frame_bytes }
    }

    /// Numbers that were taken and not sent, where `copies` frames have the same number: copies
    /// have none of their own, and frames that the driver rejected leave theirs out.
    pub fn unsent(&self, copies: u64) -> u64 {
        self.sent + self.errors + self.replaced - self.sent.div_ceil(copies)
    }

    /// Of runs so far.
    fn of_runs<'a>(runs: impl IntoIterator<Item = &'a Arc<RunHandle>>) -> Self {
        runs.into_iter().fold(Self::default(), |sum, run| sum.plus(&run.progress().total()))
    }

    fn plus(self, total: &Burst) -> Self {
        let mut causes = self.causes;
        causes.add(&total.errors.causes);
        Self {
            sent: self.sent + total.sent,
            errors: self.errors + total.errors.total() - total.replaced(),
            causes,
            replaced: self.replaced + total.replaced(),
            frame_bytes: self.frame_bytes + total.frame_bytes,
        }
    }

    /// Bytes of the frames that were accepted, without FCS.
    pub fn sent_bytes(&self) -> u64 {
        let offered = u128::from(self.sent + self.errors + self.replaced);
        (u128::from(self.frame_bytes) * u128::from(self.sent)).checked_div(offered).unwrap_or(0) as u64
    }
}

impl WorkerSet {
    /// Starts a worker in `netns` for each CPU of the requests. Frames are sent once all engines
    /// are built, at `start_at` if that is given. `stop` ends all runs.
    ///
    /// # Errors
    /// Refused when a thread cannot be started; the others are ended.
    pub fn start(
        netns: &Netns,
        requests: Vec<(u32, Request)>,
        stop: &Stop,
        start_at: Option<StartTime>,
    ) -> Result<Self, Failure> {
        let (cpus, workers) = Self::spawn(netns, &requests)?;
        let handles = workers.start(requests, Some(stop.flag()), start_at);
        Ok(Self { runs: cpus.into_iter().zip(handles).collect(), _workers: workers })
    }

    /// Starts a worker in `netns` for each CPU of the requests, for runs whose time to start is not
    /// known yet. Frames are sent once all engines are built, at the time that the returned gate
    /// gets. `stop` ends all runs.
    ///
    /// # Errors
    /// Refused when a thread cannot be started; the others are ended.
    pub fn arm(
        netns: &Netns,
        requests: Vec<(u32, Request)>,
        stop: &Stop,
    ) -> Result<(Self, StartGate), Failure> {
        let (cpus, workers) = Self::spawn(netns, &requests)?;
        let (handles, gate) = workers.arm(requests, Some(stop.flag()));
        Ok((Self { runs: cpus.into_iter().zip(handles).collect(), _workers: workers }, gate))
    }

    /// The CPU of each request, and a worker for each CPU.
    fn spawn(netns: &Netns, requests: &[(u32, Request)]) -> Result<(Vec<u32>, Workers), Failure> {
        let cpus: Vec<u32> = requests.iter().map(|(cpu, _)| *cpu).collect();
        let spawn = |cpu: &u32| {
            Worker::spawn(*cpu, netns)
                .map_err(|why| Failure::engine(format!("send from CPU {cpu}"), why, None))
        };
        let unique: BTreeSet<u32> = cpus.iter().copied().collect();
        let workers: Workers = unique.iter().map(spawn).collect::<Result<_, _>>()?;
        Ok((cpus, workers))
    }

    /// The runs as sources of metrics.
    pub fn sources(&self) -> Vec<SendSource> {
        let mut threads: Vec<u32> = Vec::new();
        let source = |(cpu, handle): &(u32, Arc<RunHandle>)| {
            let known = threads.iter().position(|other| other == cpu);
            let thread = known.unwrap_or_else(|| {
                threads.push(*cpu);
                threads.len() - 1
            });
            SendSource { thread, cpu: *cpu, handle: Arc::clone(handle) }
        };
        self.runs.iter().map(source).collect()
    }

    /// The handles of the runs, in the order of the requests.
    pub fn handles(&self) -> Vec<Arc<RunHandle>> {
        self.runs.iter().map(|(_, handle)| Arc::clone(handle)).collect()
    }

    /// The controls of the runs; `limits` are those of the requests.
    pub fn control(&self, limits: Vec<Limits>) -> SendControl {
        SendControl::new(self.runs.iter().map(|(_, handle)| Arc::clone(handle)).zip(limits).collect())
    }

    /// Totals so far.
    pub fn totals(&self) -> SentTotals {
        SentTotals::of_runs(self.runs.iter().map(|(_, handle)| handle))
    }

    /// Makes the runs known to the holders of `started`, once.
    pub fn share(&self, started: &StartedRuns) {
        started.0.get_or_init(|| self.runs.iter().map(|(_, handle)| Arc::clone(handle)).collect());
    }

    /// True once all runs have ended.
    pub fn has_ended(&self) -> bool {
        self.runs.iter().all(|(_, handle)| handle.has_ended())
    }

    /// Waits for the end. All runs end early when `stop` is set or one of them fails. `show` is
    /// called about ten times per second.
    pub fn finish(self, stop: &Stop, mut show: impl FnMut(SentTotals)) -> Vec<WorkerResult> {
        let mut done: Vec<Option<WorkerResult>> = self.runs.iter().map(|_| None).collect();
        // Once frames are sent, signals go to the workers: a signal ends the system call of a
        // worker at once, even if this thread has no CPU. Before that, building an engine must not
        // be interrupted.
        let blocked = OnceCell::new();
        let notice = || {
            let is_first = blocked.get().is_none() && self.totals().sent > 0;
            if is_first {
                blocked.get_or_init(BlockedSignals::begin);
            }
            // The first frames are shown at once: the times of rows count from them.
            stop.is_set() || is_first
        };
        while done.iter().any(Option::is_none) {
            let failed = self.collect(&mut done, &notice);
            if stop.is_set() || failed {
                self.runs.iter().for_each(|(_, handle)| handle.stop());
            }
            show(self.totals());
        }
        done.into_iter().flatten().collect()
    }

    /// Waits for the first run that has not ended, then takes the reports of all that have. True
    /// when one of them failed.
    fn collect(&self, done: &mut [Option<WorkerResult>], is_stopped: &impl Fn() -> bool) -> bool {
        let (mut failed, mut has_waited) = (false, false);
        for ((cpu, handle), done) in self.runs.iter().zip(done).filter(|(_, done)| done.is_none()) {
            let run = match has_waited {
                true => handle.wait(Duration::ZERO),
                false => wait(|time| handle.wait(time), is_stopped),
            };
            has_waited = true;
            if let Some(run) = run {
                failed |= matches!(run.end, engine::End::Failed(_));
                *done = Some(WorkerResult { cpu: *cpu, run, why: handle.snapshot().reason });
            }
        }
        failed
    }
}

/// Waits for the end, for the next progress line, or for a stop.
fn wait<R>(mut ended: impl FnMut(Duration) -> Option<R>, is_stopped: impl Fn() -> bool) -> Option<R> {
    let mut waited = Duration::ZERO;
    while waited < PROGRESS_INTERVAL {
        if let Some(run) = ended(POLL_INTERVAL) {
            return Some(run);
        }
        if is_stopped() {
            return None;
        }
        waited += POLL_INTERVAL;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn rejected_frames_and_copies_leave_numbers_out() {
        let totals = |sent, errors| SentTotals { sent, errors, ..SentTotals::default() };
        assert_eq!([totals(10, 3).unsent(1), totals(10, 0).unsent(1), totals(0, 0).unsent(1)], [3, 0, 0]);
        assert_eq!(totals(9, 1).unsent(2), 5, "5 numbers of 10 were sent");
        let causes = SendErrors { refused: 3, ..SendErrors::default() };
        let errors = engine::Errors { ring_full: 4, causes, ..engine::Errors::default() };
        let total = Burst { sent: 10, errors, frame_bytes: 1700, retries: 2 };
        let totals = SentTotals::default().plus(&total);
        assert_eq!((totals.errors, totals.replaced, totals.unsent(1), totals.sent_bytes()), (3, 4, 7, 1000));
        assert_eq!(SentTotals::of_replay(&total).errors, 7);
    }

    #[test]
    fn a_stop_does_not_wait_for_the_next_look() {
        let waited = Cell::new(Duration::ZERO);
        let ended = |time| {
            waited.set(waited.get() + time);
            None::<()>
        };
        assert_eq!(wait(ended, || waited.get() >= Duration::from_millis(3)), None);
        assert!(waited.get() <= Duration::from_millis(5), "{waited:?}");
        waited.set(Duration::ZERO);
        assert_eq!(wait(ended, || false), None);
        assert_eq!(waited.get(), PROGRESS_INTERVAL);
        assert_eq!(wait(|_| Some(7), || true), Some(7));
    }
}
