//! The real program over a real veth pair: two network namespaces, as root.
//!
//! Each test makes its own [`lab::Lab`], runs the binary that the user runs, and asks another
//! program what arrived: the receiver's counters, tshark, capinfos. A test that cannot run here is
//! shown as ignored with its reason; with `CI=true` in the environment it fails instead. `WIRERATE`
//! names the binary to test, by default the one that cargo built along with these tests.

mod browser;
mod capture;
mod capture_ends;
mod capture_faults;
mod capture_files;
mod capture_group;
mod capture_outputs;
mod capture_recorder;
mod capture_rights;
mod capture_rotation;
mod capture_runs;
mod completions;
mod connect;
mod control;
mod cookbook;
mod count;
mod demo;
mod doctor;
mod dry_run;
mod faults;
mod first_hour;
mod fleet;
mod fleet_held;
mod fleet_hostile;
mod fleet_truth;
mod hardware;
mod lab;
mod live;
mod metrics;
mod mgcap;
mod otg;
mod otg_fleet;
mod otg_run;
mod otg_server;
mod parquet;
mod places;
mod program;
mod python;
mod readers;
mod receive;
mod receive_disturbed;
mod reflect;
mod replay;
mod replay_links;
mod round_trip;
mod scripts;
mod search;
mod send;
mod send_refused;
mod sources;
mod start_at;
mod streams;
mod timestamp;
mod trafgen;
#[path = "../tries/mod.rs"]
mod tries;
mod tun;
mod web;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use places::Places;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::{Mutex, PoisonError};

/// What a test returns: an error or a panic is a failure.
type TestResult = Result<(), Failed>;

/// One test: its name, the commands it needs besides `ip` and `ethtool`, and its function.
struct Case {
    name: &'static str,
    tools: &'static [&'static str],
    body: fn() -> TestResult,
    /// Why no other test of this kind may run beside it, if so.
    lock: Option<&'static str>,
}

impl Case {
    /// This test takes the lock of [`LOCK`]; `why` names what it measures or holds.
    const fn with_lock(self, why: &'static str) -> Self {
        Self { lock: Some(why), ..self }
    }
}

/// Shorthand for one row of a table of cases.
const fn case(name: &'static str, tools: &'static [&'static str], body: fn() -> TestResult) -> Case {
    Case { name, tools, body, lock: None }
}

/// Held by tests that measure time, or that use something of which the machine has only one.
static LOCK: Mutex<()> = Mutex::new(());

/// Tests that run side by side on each CPU: most of them wait most of the time.
const TESTS_PER_CPU: usize = 2;

/// For the tests that run; one that waits for [`LOCK`] does not.
static PLACES: Places = Places::new(0);

/// Tests of one subject stand together and need the same things, so tests that run side by side are
/// this far apart in the table.
const STRIDE: usize = 61;

/// All tests, by subject.
const CASES: &[&[Case]] = &[
    lab::CASES,
    program::CASES,
    dry_run::CASES,
    search::CASES,
    send::CASES,
    send_refused::CASES,
    start_at::CASES,
    streams::CASES,
    trafgen::CASES,
    capture::CASES,
    capture_ends::CASES,
    capture_files::CASES,
    capture_faults::CASES,
    capture_outputs::CASES,
    capture_recorder::CASES,
    capture_rights::CASES,
    capture_group::CASES,
    capture_rotation::CASES,
    sources::CASES,
    completions::CASES,
    connect::CASES,
    cookbook::CASES,
    count::CASES,
    receive::CASES,
    receive_disturbed::CASES,
    reflect::CASES,
    faults::CASES,
    first_hour::CASES,
    fleet::CASES,
    fleet_hostile::CASES,
    fleet_held::CASES,
    fleet_truth::CASES,
    hardware::CASES,
    live::CASES,
    metrics::CASES,
    mgcap::CASES,
    otg::CASES,
    otg_run::CASES,
    otg_fleet::CASES,
    otg_server::CASES,
    python::CASES,
    parquet::CASES,
    timestamp::CASES,
    control::CASES,
    replay::CASES,
    replay_links::CASES,
    round_trip::CASES,
    demo::CASES,
    doctor::CASES,
    scripts::CASES,
    tun::CASES,
    web::CASES,
];

fn main() {
    let mut arguments = Arguments::from_args();
    let cpu_count = std::thread::available_parallelism().map_or(1, usize::from);
    let places = arguments.test_threads.unwrap_or(TESTS_PER_CPU * cpu_count);
    PLACES.add(places);
    // Tests with the lock run one after the other, so they begin first, and wait in threads of
    // their own.
    let (locked, others): (Vec<_>, Vec<_>) =
        CASES.iter().copied().flatten().partition(|case| case.lock.is_some());
    arguments.test_threads = Some(places + locked.len());
    let others = (0..STRIDE).flat_map(|first| others.iter().copied().skip(first).step_by(STRIDE));
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).expect("these may be caught");
    std::thread::spawn(move || clean_up_on(signals));
    lab::sweep();
    let trials = locked.iter().copied().chain(others).map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// Leaves nothing behind when the tests are interrupted.
fn clean_up_on(mut signals: Signals) {
    if let Some(signal) = signals.forever().next() {
        // Tests go on meanwhile, and shall make nothing that stays.
        let _no_programs = program::stop_all();
        let _no_labs = lab::remove_all();
        std::process::exit(128 + signal);
    }
}

fn trial(case: &'static Case) -> Trial {
    Trial::ignorable_test(case.name, || match missing(case) {
        None => {
            let _lock = case.lock.map(|_| LOCK.lock().unwrap_or_else(PoisonError::into_inner));
            let _place = PLACES.take();
            (case.body)().map(|()| Completion::Completed)
        }
        Some(reason) => testkit::skip_trial(case.name, reason),
    })
}

/// Why this test cannot run on this machine.
fn missing(case: &Case) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF)".to_owned());
    }
    let tools = ["ip", "ethtool"].iter().chain(case.tools);
    tools.copied().find(|tool| !program::is_installed(tool)).map(|tool| format!("needs {tool}"))
}
