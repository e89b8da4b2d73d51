//! One run of the bench: facts of the machine, the chosen cases, and the load of the CPUs.

use crate::capture::{self, Loads};
use crate::capturers::GENERATOR_CPU;
use crate::facts::{Host, Shares, Ticks};
use crate::priority::HighPriority;
use crate::programs::Programs;
use crate::report::BenchReport;
use crate::rig::Rig;
use crate::settings::{BenchSettings, Deadline, FULL, QUICK, TINY};
use crate::stop::StopFlag;
use crate::table::{BenchPlan, BenchSize};
use crate::testbed::{LinkEnds, Testbed};
use crate::{connect, generate, growth, pacing, prompt, receive};
use crate::{export, read_files, replay, throughput};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;

/// A machine with less load than this is taken as idle.
const LOAD_QUIET: f64 = 0.5;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub(crate) struct BenchOptions {
    /// How much.
    pub(crate) size: BenchSize,
    /// This alone instead of everything.
    pub(crate) only: Option<BenchCase>,
    /// Folder for the rows.
    pub(crate) out: PathBuf,
    /// Who takes part.
    pub(crate) programs: Programs,
    /// Loads of captures.
    pub(crate) loads: Loads,
    /// Where; on devices of our own where nothing is said.
    pub(crate) wire: Option<LinkEnds>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchCase {
    /// Frames a second of each engine: lengths, CPUs, fields that move
    Generate,
    /// The highest rate that a capture keeps without loss
    Capture,
    /// How well a pace is kept, with gaps at the receiver
    Pacing,
    /// How soon the first frame comes, and the last after Ctrl-C; whether counts are exact
    Prompt,
    /// What more time, more instances and more captured frames cost
    Growth,
    /// How much of the rate the measuring receiver leaves, by its stamps
    Receive,
    /// Connections, requests and DNS queries per second, beside wrk and dnsperf
    Connect,
    /// Gap errors of a replay with the times of a file, and the rate of a file larger than memory
    #[value(hide = true)]
    ReplayFile,
    /// CPU time and size of exports as Parquet
    #[value(hide = true)]
    Export,
    /// Time of the commands that read capture files, beside tcpdump
    #[value(hide = true)]
    ReadFiles,
    /// Time and error of throughput searches of a device whose limit is known
    #[value(hide = true)]
    Throughput,
}

type CaseRun = fn(Rig<'_>) -> Result<()>;

#[derive(Serialize)]
struct RunHeader<'a> {
    time_s: u64,
    size: &'a str,
    #[serde(flatten)]
    host: Host,
}

/// Measures, prints and writes the rows.
pub(crate) fn measure(options: &BenchOptions, stop: StopFlag) -> Result<BenchReport> {
    let settings = match options.size {
        BenchSize::Tiny => TINY,
        BenchSize::Quick => QUICK,
        BenchSize::Full => FULL,
    };
    ensure!(nix::unistd::geteuid().is_root(), "needs root: it makes namespaces and devices");
    let time_s = host::realtime_ns() / 1_000_000_000;
    let report = BenchReport::create(&options.out, time_s)?;
    let host = Host::read(&options.programs.wirerate)?;
    let bed = Testbed::new(GENERATOR_CPU, stop, options.wire.as_ref())?;
    introduce(&report, &settings, &host, &bed)?;
    report.row("host", &RunHeader { time_s, size: settings.name, host })?;
    let ticks = Ticks::read()?;
    cases(options, &settings, &bed, &report)?;
    let shares = Ticks::read()?.since(ticks);
    report.row("end", &shares)?;
    say_busy(&report, shares)?;
    report.say(&format!("rows: {}", report.path().display()))?;
    Ok(report)
}

fn cases(
    options: &BenchOptions,
    settings: &BenchSettings,
    bed: &Testbed,
    report: &BenchReport,
) -> Result<()> {
    let rig = Rig {
        bed,
        programs: &options.programs,
        size: options.size,
        plan: &BenchPlan::built_in(options.size)?,
        deadline: Deadline::after(settings.budget),
        report,
    };
    // The tiny size measures nothing. A high priority of a whole session would keep threads of the
    // kernel from the CPUs, where other processes of the session are busy (tests beside other
    // work).
    let is_measured = options.size != BenchSize::Tiny;
    let _priority = is_measured.then(HighPriority::begin).transpose()?;
    let runs: [(BenchCase, CaseRun); _] = [
        (BenchCase::Generate, generate::run),
        (BenchCase::Pacing, pacing::run),
        (BenchCase::Prompt, prompt::run),
        (BenchCase::Growth, growth::run),
        (BenchCase::Receive, receive::run),
        (BenchCase::Connect, connect::run),
        (BenchCase::ReplayFile, replay::run),
        (BenchCase::Export, export::run),
        (BenchCase::ReadFiles, read_files::run),
        (BenchCase::Throughput, throughput::run),
    ];
    let wants = |case| options.only.is_none_or(|only| only == case);
    runs.into_iter().filter(|(case, _)| wants(*case)).try_for_each(|(_, run)| run(rig))?;
    if wants(BenchCase::Capture) {
        capture::run(rig, &options.loads, settings)?;
    }
    Ok(())
}

fn introduce(report: &BenchReport, settings: &BenchSettings, host: &Host, bed: &Testbed) -> Result<()> {
    let warning =
        if settings.name == TINY.name { ": it shows that the bench works, and nothing else" } else { "" };
    report.say(&format!("size: {}{warning}", settings.name))?;
    let governor = host.governor.as_ref().map_or_else(String::new, |name| format!(", governor {name}"));
    report.say(&format!(
        "host: {}, CPUs {}{governor}, {}, {}",
        host.cpu,
        host.cpus,
        host.kernel,
        bed.wire()
    ))?;
    let busy = if host.load > LOAD_QUIET { ": the CPUs are not idle" } else { "" };
    report.say(&format!("load before: {:.2}{busy}", host.load))?;
    report.say(&format!("binary: {}", host.wirerate))
}

fn say_busy(report: &BenchReport, shares: Shares) -> Result<()> {
    let Shares { busy, steal } = shares;
    report.say(&format!(
        "\nmeanwhile: all CPUs {:.0} % busy, {:.1} % stolen by the hypervisor",
        busy * 100.0,
        steal * 100.0
    ))
}
