//! `--metrics ADDR`: the counters of a running command for Prometheus.
//!
//! [`Monitored`] adds the options to a command. What counts registers itself by [`count_in`];
//! counters are read when a server scrapes. [`sources`] turns the counters of runs, captures and
//! receivers into metrics.

mod address;
mod registry;
pub mod sources;

pub use address::MetricsAddress;
pub use registry::{Counted, count_in};

use crate::outcome::{Failure, Outcome};
use crate::stop::{BlockedSignals, Stop};
use crate::units::Nanos;
use host::{Machine, OwnProcess};
use metrics::MetricSet;
use metrics::families::{
    BUILD_INFO, PROCESS_CPU, PROCESS_FDS, PROCESS_MEMORY, PROCESS_START, RUN_INFO, RUN_START, RUN_STATE,
};
use server::MetricsServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Number of the run in this process: each command is one.
const RUN: &str = "1";
/// The states of a run.
const STATES: [&str; 3] = ["starting", "running", "ended"];
/// Interval at which a command that has ended looks whether its counts were scraped.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Options of a command that runs for a while.
#[derive(Clone, Debug, clap::Args)]
pub struct MetricsArgs {
    /// Serve counters to Prometheus at http://ADDR/metrics: a port of 127.0.0.1, or ADDR:PORT
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub metrics: Option<MetricsAddress>,
    /// Stay after the end until the last counts were scraped, at most this long
    #[arg(long, value_name = "TIME", requires = "metrics")]
    pub metrics_linger: Option<Nanos>,
}

/// The arguments of a command, and how its counters are served.
#[derive(Clone, Debug, clap::Args)]
pub struct Monitored<A: clap::Args> {
    /// The arguments of the command.
    #[command(flatten)]
    pub args: A,
    /// The server.
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// What `wirerate_run_info` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSubject {
    /// The command.
    pub command: &'static str,
    /// Its device; empty if it has none, or chooses devices later.
    pub device: String,
    /// The network namespace of the device; empty for that of the process.
    pub netns: String,
}

impl<A: clap::Args> Monitored<A> {
    /// Carries out the command, and serves its counters meanwhile.
    ///
    /// # Errors
    /// Those of the command; refused when the address cannot be listened on.
    pub fn run(
        &self,
        subject: RunSubject,
        stop: &Stop,
        command: impl FnOnce(&A) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        let Some(address) = self.metrics.metrics else { return command(&self.args) };
        let monitor = Monitor::start(address, subject)?;
        let outcome = command(&self.args)?;
        monitor.end(self.metrics.metrics_linger.map_or(0, |time| time.0), stop);
        Ok(outcome)
    }
}

/// The server of the process.
struct Monitor {
    facts: Arc<RunFacts>,
    _server: MetricsServer,
}

/// What is the same at each scrape, and the end of the run.
struct RunFacts {
    subject: RunSubject,
    kernel: String,
    /// Seconds since 1970.
    process_start: f64,
    run_start: f64,
    has_ended: AtomicBool,
    /// The counts of the end were read.
    is_scraped: AtomicBool,
}

impl Monitor {
    fn start(address: MetricsAddress, subject: RunSubject) -> Result<Self, Failure> {
        let act = || format!("serve metrics at {address}");
        registry::enable();
        let own = OwnProcess::read().map_err(|why| Failure::refused(act(), why))?;
        let facts = Arc::new(RunFacts {
            subject,
            kernel: Machine::read().kernel,
            process_start: seconds(own.start_time_ns),
            run_start: seconds(host::realtime_ns()),
            has_ended: AtomicBool::new(false),
            is_scraped: AtomicBool::new(false),
        });
        let read = Arc::clone(&facts);
        // Signals go to the threads that send.
        let _blocked = BlockedSignals::begin();
        let server = MetricsServer::start(address.0, Arc::new(move || read.scrape()));
        let server =
            server.map_err(|why| Failure::refused(act(), why).try_this("--metrics 0, for any free port"))?;
        eprintln!("wirerate: metrics at http://{}/metrics", server.address());
        Ok(Self { facts, _server: server })
    }

    /// The run has ended: waits up to `linger_ns` until a scrape has read its last counts.
    fn end(self, linger_ns: u64, stop: &Stop) {
        self.facts.has_ended.store(true, SeqCst);
        let until = Instant::now() + Duration::from_nanos(linger_ns);
        // A signal sets a flag and wakes nothing.
        while !self.facts.is_scraped.load(SeqCst) && Instant::now() < until && !stop.is_set() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl RunFacts {
    fn scrape(&self) -> MetricSet {
        // Before the counters: what is read after the end is the last.
        let has_ended = self.has_ended.load(SeqCst);
        let (mut set, is_counting) = registry::read();
        let RunSubject { command, device, netns } = &self.subject;
        set.gauge(&BUILD_INFO, &[env!("CARGO_PKG_VERSION"), &self.kernel], 1.0);
        set.gauge(&RUN_INFO, &[RUN, command, device, netns], 1.0);
        set.gauge(&RUN_START, &[RUN], self.run_start);
        let state = match (has_ended, is_counting) {
            (true, _) => "ended",
            (false, true) => "running",
            (false, false) => "starting",
        };
        for name in STATES {
            set.gauge(&RUN_STATE, &[RUN, name], f64::from(u8::from(name == state)));
        }
        set.count_seconds(&PROCESS_CPU, &[], host::process_cpu_time().as_secs_f64());
        set.gauge(&PROCESS_START, &[], self.process_start);
        // Unknown is absent.
        if let Ok(own) = OwnProcess::read() {
            set.gauge(&PROCESS_MEMORY, &[], own.resident_bytes as f64);
            set.gauge(&PROCESS_FDS, &[], own.open_fds as f64);
        }
        if has_ended {
            self.is_scraped.store(true, SeqCst);
        }
        set
    }
}

fn seconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e9
}
