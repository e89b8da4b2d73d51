//! The runner that sends: `engine`'s pinned threads, one for each thread of the tree.

use super::runner::{Ending, Order, Over, Runner, Running, Standing, Why};
use engine::{
    BATCH_MAX, End, EngineError, Pace, Request, RunHandle, RunReport, Terms, Together, Wish, Worker,
};
use host::{HostError, Netns, monotonic_ns};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The threads of one tree.
#[derive(Debug)]
pub struct EngineRunner {
    workers: Vec<Worker>,
}

impl EngineRunner {
    /// Starts a thread on each of `cpus` that this process may use (a container or a systemd unit may be kept
    /// from some), all inside `netns`. The others are told of in the log, and in the result of what is to run there.
    ///
    /// # Errors
    /// When a thread cannot be made or brought into the namespace.
    pub fn new(cpus: &[u32], netns: &Netns) -> Result<Self, EngineError> {
        let mut workers = Vec::new();
        for cpu in cpus {
            match Worker::spawn(*cpu, netns) {
                Ok(worker) => workers.push(worker),
                Err(EngineError::Host(HostError::NoCpu { .. })) => {
                    tracing::warn!("{}: nothing can be sent from kpktgend_{cpu}", no_thread(*cpu));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { workers })
    }
}

impl Runner for EngineRunner {
    fn begin(&self, orders: Vec<Order>) -> Vec<Arc<dyn Running>> {
        let has_orders = |worker: &&Worker| orders.iter().any(|order| order.cpu == worker.cpu());
        let workers: Vec<_> = self.workers.iter().filter(has_orders).collect();
        let together = Arc::new(Together::new(workers.len()));
        let mut runs: Vec<Option<Arc<dyn Running>>> = orders.iter().map(|_| None).collect();
        for worker in workers {
            let own = || orders.iter().enumerate().filter(|(_, order)| order.cpu == worker.cpu());
            let requests = own().map(|(_, order)| request(order.clone())).collect();
            let handles = worker.start_all(requests, Some(Arc::clone(&together)));
            for ((index, _), handle) in own().zip(handles) {
                runs[index] = Some(Arc::new(EngineRun(handle)));
            }
        }
        runs.into_iter()
            .zip(&orders)
            .map(|(run, order)| run.unwrap_or_else(|| without_thread(order)))
            .collect()
    }
}

fn without_thread(order: &Order) -> Arc<dyn Running> {
    Arc::new(Over::with(Ending::at_once(order, monotonic_ns(), Why::Failed(no_thread(order.cpu)))))
}

fn no_thread(cpu: u32) -> String {
    format!("there is no thread on CPU {cpu}: this process may not use it")
}

fn request(order: Order) -> Request {
    let burst = order.config.burst.min(BATCH_MAX);
    Request {
        mode: order.config.xmit_mode,
        wish: Wish::of(&order.config),
        terms: terms(&order),
        ifname: order.ifname,
        plan: order.plan,
        cursor: order.cursor,
        next_ns: order.next_ns,
        engine: None,
        batch: (burst > 1).then_some(burst),
    }
}

fn terms(order: &Order) -> Terms {
    let pace = Pace::from_call_delay_ns(order.config.delay_ns, order.config.frames_each_call());
    // Late frames go out at once, as those of pktgen.
    Terms { count: order.count, pace, ..Terms::default() }
}

struct EngineRun(Arc<RunHandle>);

impl Running for EngineRun {
    fn standing(&self) -> Option<Standing> {
        let snapshot = self.0.snapshot();
        let progress = self.0.progress();
        (snapshot.started_ns != 0).then(|| Standing {
            sent: progress.sent(),
            errors: progress.errors(),
            idle_ns: snapshot.idle_ns,
            started_ns: snapshot.started_ns,
            cursor: snapshot.cursor,
            engine: snapshot.engine.map(|kind| kind.name()),
            next_ns: None,
        })
    }

    fn change_terms(&self, order: Order) {
        self.0.change_terms(terms(&order));
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn wait_for_end(&self, timeout: Duration) -> bool {
        self.0.wait_for_end(timeout)
    }

    fn take_ending(&self) -> Option<Ending> {
        self.0.wait(Duration::ZERO).map(ending)
    }
}

impl Drop for EngineRun {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn ending(report: RunReport) -> Ending {
    Ending {
        stopped_ns: report.stopped_ns,
        why: match report.end {
            End::Count | End::Duration | End::Stopped => Why::Done,
            End::Failed(error) if error.is_device_gone() => Why::DeviceGone,
            End::Failed(error) => Why::Failed(in_words(&error)),
        },
        last: Standing {
            sent: report.total.sent,
            errors: report.total.errors.total(),
            idle_ns: report.idle_ns,
            started_ns: report.started_ns,
            cursor: report.cursor,
            engine: report.engine.map(|kind| kind.name()),
            next_ns: report.next_ns,
        },
    }
}

/// The chain of causes and what to try, on one line.
fn in_words(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    if let Some(cure) = error.cure() {
        text += &format!(" (try: {cure})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in a container with a cpuset; CPU 1023 is one that nobody may use.
    #[test]
    fn a_cpu_that_may_not_be_used_leaves_the_others_their_threads() {
        if !testkit::is_root("CAP_SYS_ADMIN") {
            return;
        }
        let first = host::CpuList::allowed().unwrap().iter().next().unwrap();
        let runner = EngineRunner::new(&[first, 1023], &Netns::current().unwrap()).unwrap();
        assert_eq!(runner.workers.iter().map(Worker::cpu).collect::<Vec<_>>(), [first]);
        assert_eq!(no_thread(7), "there is no thread on CPU 7: this process may not use it");
    }

    #[test]
    fn an_error_is_one_line_with_its_cure() {
        let error = EngineError::Down { ifname: "eth7".into() };
        assert_eq!(in_words(&error), "eth7 is down (try: ip link set eth7 up)");
    }
}
