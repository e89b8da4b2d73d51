//! The threads of one run: started together, watched, stopped together.

use crate::outcome::Failure;
use crate::stop::{Elsewhere, Stop};
use engine::{Request, RunHandle, RunReport, Worker, Workers};
use host::Netns;
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

/// How often the threads are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How soon a stop is noticed: a signal does not end a wait, and all of a stop is to take less than 10 ms.
const NOTICE_EVERY: Duration = Duration::from_millis(4);

/// Threads at work on one run.
#[derive(Debug)]
pub struct Fleet {
    /// Each run with its CPU.
    runs: Vec<(u32, Arc<RunHandle>)>,
    _workers: Workers,
}

/// What one thread did.
#[derive(Debug)]
pub struct Done {
    /// The CPU it ran on.
    pub cpu: u32,
    /// Its run.
    pub run: RunReport,
    /// Why its engine was chosen.
    pub why: String,
}

/// How far all threads together are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sofar {
    /// Frames accepted by the driver.
    pub sent: u64,
    /// Frames not accepted.
    pub errors: u64,
}

impl Fleet {
    /// Starts a thread for each request, on the CPU beside it, in `netns`. No frame goes out before
    /// every thread has its engine. `stop` ends all of them.
    ///
    /// # Errors
    /// Refused when a thread cannot be had; the others are gone again then.
    pub fn start(netns: &Netns, requests: Vec<(u32, Request)>, stop: &Stop) -> Result<Self, Failure> {
        let cpus: Vec<u32> = requests.iter().map(|(cpu, _)| *cpu).collect();
        let spawn = |cpu: &u32| {
            Worker::spawn(*cpu, netns).map_err(|why| Failure::engine(format!("send from CPU {cpu}"), why))
        };
        let workers: Workers = cpus.iter().map(spawn).collect::<Result<_, _>>()?;
        let handles = workers.start(requests, Some(stop.flag()));
        Ok(Self { runs: cpus.into_iter().zip(handles).collect(), _workers: workers })
    }

    /// How far it is.
    pub fn sofar(&self) -> Sofar {
        self.runs.iter().fold(Sofar::default(), |sum, (_, handle)| {
            let progress = handle.progress();
            Sofar { sent: sum.sent + progress.sent(), errors: sum.errors + progress.errors() }
        })
    }

    /// True once every thread is done.
    pub fn has_ended(&self) -> bool {
        self.runs.iter().all(|(_, handle)| handle.has_ended())
    }

    /// Waits for the end, which comes early when `stop` is set or one thread fails. `look` is called about ten
    /// times a second.
    pub fn finish(self, stop: &Stop, mut look: impl FnMut(Sofar)) -> Vec<Done> {
        let mut done: Vec<Option<Done>> = self.runs.iter().map(|_| None).collect();
        // Once frames go out, those who send them hear a signal first: it ends the call that they are in, also where this
        // thread would wait for a processor. Before, an engine may be in a call that nothing ends.
        let elsewhere = OnceCell::new();
        let notice = || {
            if elsewhere.get().is_none() && self.sofar().sent > 0 {
                elsewhere.get_or_init(Elsewhere::begin);
            }
            stop.is_set()
        };
        while done.iter().any(Option::is_none) {
            let failed = self.collect(&mut done, &notice);
            if stop.is_set() || failed {
                self.runs.iter().for_each(|(_, handle)| handle.stop());
            }
            look(self.sofar());
        }
        done.into_iter().flatten().collect()
    }

    /// Takes the reports of all that have ended, after a wait for the first that has not. True when one of them
    /// failed.
    fn collect(&self, done: &mut [Option<Done>], is_stopped: &impl Fn() -> bool) -> bool {
        let (mut failed, mut has_waited) = (false, false);
        for ((cpu, handle), done) in self.runs.iter().zip(done).filter(|(_, done)| done.is_none()) {
            let run = match has_waited {
                true => handle.wait(Duration::ZERO),
                false => wait(|time| handle.wait(time), is_stopped),
            };
            has_waited = true;
            if let Some(run) = run {
                failed |= matches!(run.end, engine::End::Failed(_));
                *done = Some(Done { cpu: *cpu, run, why: handle.snapshot().reason });
            }
        }
        failed
    }
}

/// Waits until it has ended, until the next look, or until somebody asks to stop.
fn wait<R>(mut ended: impl FnMut(Duration) -> Option<R>, is_stopped: impl Fn() -> bool) -> Option<R> {
    let mut waited = Duration::ZERO;
    while waited < LOOK_EVERY {
        if let Some(run) = ended(NOTICE_EVERY) {
            return Some(run);
        }
        if is_stopped() {
            return None;
        }
        waited += NOTICE_EVERY;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

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
        assert_eq!(waited.get(), LOOK_EVERY);
        assert_eq!(wait(|_| Some(7), || true), Some(7));
    }
}
