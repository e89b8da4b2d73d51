//! `--metrics`, `--metrics-file`, `--tui` and `--web`: the counters of a running command for
//! Prometheus, in a file, on a screen, and on a page.
//!
//! [`Monitored`] adds the options to a command. What counts registers itself at the console of the
//! command; counters are read when a server scrapes, and four times per second for a screen or a
//! page. [`sources`] turns the counters of runs, captures and receivers into metrics.

mod address;
mod registry;
pub mod sources;
mod textfile;
// Builds without a group refuse its options.
#[cfg_attr(not(feature = "metrics"), path = "no_server.rs")]
mod scraped;
#[cfg_attr(not(feature = "live"), path = "no_views.rs")]
mod views;

pub use address::MonitorAddress;
pub use registry::{Counted, Registry};

use crate::console::Console;
use crate::outcome::{Failure, Outcome};
use crate::stop::{BlockedSignals, Stop};
use host::{Machine, OwnProcess};
use metrics::families::{
    BUILD_INFO, PROCESS_CPU, PROCESS_FDS, PROCESS_MEMORY, PROCESS_START, RUN_INFO, RUN_START, RUN_STATE,
};
use metrics::{MetricSet, TextFormat};
use scraped::MetricsServer;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use textfile::TextFile;
use units::Nanos;
use views::{Tui, Web};

/// Number of the run in this process: each command is one.
const RUN: &str = "1";
/// The states of a run.
const STATES: [&str; 3] = [STARTING, RUNNING, ENDED];
const STARTING: &str = "starting";
const RUNNING: &str = "running";
const ENDED: &str = "ended";
/// Interval at which a command that has ended looks whether its counts were scraped.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The port of the page where none is given.
const WEB_PORT: &str = "9465";

/// Options of a command that runs for a while.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live views and metrics")]
pub struct MetricsArgs {
    /// Serve counters to Prometheus at http://ADDR/metrics: a port of 127.0.0.1, or ADDR:PORT
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub metrics: Option<MonitorAddress>,
    /// Stay after the end until the last counts were scraped, at most this long
    #[arg(long, value_name = "TIME", requires = "metrics")]
    pub metrics_linger: Option<Nanos>,
    /// Write counters to FILE, such as x.prom, each second: for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Show rates, losses and latency on a full screen, with keys to pause, stop and set the rate
    #[arg(long)]
    pub tui: bool,
    /// Show and control the run on a web page [default: port 9465 of 127.0.0.1] (docs/watching.md)
    #[arg(long, value_name = "[ADDR:]PORT", num_args = 0..=1, default_missing_value = WEB_PORT)]
    pub web: Option<MonitorAddress>,
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
        let MetricsArgs { metrics, metrics_linger, metrics_file, tui, web } = &self.metrics;
        let is_monitored = metrics.is_some() || metrics_file.is_some() || web.is_some();
        let console = stop.console();
        let tui = tui.then(|| Tui::of_run(&subject, console)).transpose()?;
        let monitor = is_monitored.then(|| Monitor::start(&self.metrics, subject, console)).transpose()?;
        let outcome = {
            // It prints the report at the end of this block.
            let _tui = tui;
            command(&self.args)
        };
        if let Some(monitor) = monitor {
            // A command that has failed is not waited for.
            let linger = metrics_linger.filter(|_| outcome.is_ok());
            monitor.end(linger.map_or(0, |time| time.0), stop);
        }
        outcome
    }
}

/// The servers of the process, and the file of its counters.
struct Monitor {
    facts: Arc<RunFacts>,
    web: Option<Web>,
    server: Option<MetricsServer>,
    file: Option<TextFile>,
}

/// What is the same at each scrape, and the end of the run.
struct RunFacts {
    subject: RunSubject,
    console: Console,
    kernel: String,
    /// Seconds since 1970.
    process_start: f64,
    run_start: f64,
    has_ended: AtomicBool,
    /// The counts of the end were read.
    is_scraped: AtomicBool,
}

impl Monitor {
    fn start(args: &MetricsArgs, subject: RunSubject, console: &Console) -> Result<Self, Failure> {
        console.keep_counts();
        let own = OwnProcess::read().map_err(|why| Failure::refused("count metrics", why))?;
        let facts = Arc::new(RunFacts {
            subject,
            console: console.clone(),
            kernel: Machine::read().kernel,
            process_start: seconds(own.start_time_ns),
            run_start: seconds(host::realtime_ns()),
            has_ended: AtomicBool::new(false),
            is_scraped: AtomicBool::new(false),
        });
        // Signals go to the threads that send.
        let _blocked = BlockedSignals::begin();
        let read = Arc::clone(&facts);
        let file = args.metrics_file.as_deref();
        let file = file.map(|path| TextFile::start(path, move || read.text_for_file())).transpose()?;
        let server = args.metrics.map(|address| scraped::serve(address, &facts)).transpose()?;
        let web = args.web.map(|address| views::serve_page(address, &facts)).transpose()?;
        Ok(Self { facts, web, server, file })
    }

    /// The run has ended: waits up to `linger_ns` until a scrape has read its last counts.
    fn end(self, linger_ns: u64, stop: &Stop) {
        self.facts.has_ended.store(true, SeqCst);
        // Their last counts need no scrape.
        drop((self.file, self.web));
        if self.server.is_none() {
            return;
        }
        let until = Instant::now() + Duration::from_nanos(linger_ns);
        // A signal sets a flag and wakes nothing.
        while !self.facts.is_scraped.load(SeqCst) && Instant::now() < until && !stop.is_set() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl RunFacts {
    /// The counters, those of the process as well. After the end, they count as scraped.
    fn all(&self) -> MetricSet {
        // Before the counters: what is read after the end is the last.
        let has_ended = self.has_ended.load(SeqCst);
        let mut set = self.of_run(has_ended);
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

    /// The counters of the run. node_exporter has metrics of its own process, and refuses others
    /// with their names.
    fn text_for_file(&self) -> String {
        self.of_run(self.has_ended.load(SeqCst)).text(TextFormat::Prometheus)
    }

    fn of_run(&self, has_ended: bool) -> MetricSet {
        let (mut set, is_counting) = self.console.counts();
        let RunSubject { command, device, netns } = &self.subject;
        set.gauge(&BUILD_INFO, &[env!("CARGO_PKG_VERSION"), &self.kernel], 1.0);
        set.gauge(&RUN_INFO, &[RUN, command, device, netns], 1.0);
        set.gauge(&RUN_START, &[RUN], self.run_start);
        let state = match (has_ended, is_counting) {
            (true, _) => ENDED,
            (false, true) => RUNNING,
            (false, false) => STARTING,
        };
        for name in STATES {
            set.gauge(&RUN_STATE, &[RUN, name], f64::from(u8::from(name == state)));
        }
        set
    }
}

fn seconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e9
}
