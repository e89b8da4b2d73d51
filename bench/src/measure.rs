//! One run of the bench: facts of the machine, the chosen cases, and the load of the CPUs.

use crate::capture::{self, Loads};
use crate::capturers::GENERATOR_CPU;
use crate::facts::{Host, Shares, Ticks};
use crate::priority::HighPriority;
use crate::programs::Programs;
use crate::report::BenchReport;
use crate::settings::{BenchSettings, Deadline, FULL, QUICK, TINY};
use crate::stop::StopFlag;
use crate::table::{BenchPlan, BenchSize};
use crate::testbed::{LinkEnds, Testbed};
use crate::{generate, growth, pacing, prompt, receive};
#[cfg(feature = "page")]
use crate::{replay, throughput};
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
    /// Generators
    Generate,
    /// Captures
    Capture,
    /// How well each generator keeps a pace, from a thousand frames per second to a million
    Pacing,
    /// How soon generators begin and end, and whether they send what they are asked for
    Prompt,
    /// What more time, more instances and more captured frames cost
    Growth,
    /// The measuring receiver beside a program that only drops
    Receive,
    #[cfg(feature = "page")]
    /// Gap errors of a replay with the times of a file, and the rate of a file larger than memory
    ReplayFile,
    #[cfg(feature = "page")]
    /// Time and error of throughput searches of a device whose limit is known
    Throughput,
}

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
    let mut report = BenchReport::create(&options.out, time_s)?;
    let host = Host::read(&options.programs.wirerate)?;
    let bed = Testbed::new(GENERATOR_CPU, stop, options.wire.as_ref())?;
    introduce(&report, &settings, &host, &bed)?;
    report.row("host", &RunHeader { time_s, size: settings.name, host })?;
    let ticks = Ticks::read()?;
    cases(options, &settings, &bed, &mut report)?;
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
    report: &mut BenchReport,
) -> Result<()> {
    let BenchOptions { programs, only, .. } = options;
    let plan = BenchPlan::built_in(options.size)?;
    let deadline = Deadline::after(settings.budget);
    // The tiny size measures nothing. A high priority of a whole session would keep threads of the
    // kernel from the CPUs, where other processes of the session are busy (tests beside other
    // work).
    let is_measured = options.size != BenchSize::Tiny;
    let _priority = is_measured.then(HighPriority::begin).transpose()?;
    let wants = |case| only.is_none_or(|only| only == case);
    if wants(BenchCase::Generate) {
        generate::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(BenchCase::Pacing) {
        pacing::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(BenchCase::Prompt) {
        prompt::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(BenchCase::Growth) {
        growth::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(BenchCase::Receive) {
        receive::run(bed, programs, &plan, deadline, report)?;
    }
    #[cfg(feature = "page")]
    if wants(BenchCase::ReplayFile) {
        replay::run(bed, programs, &plan, deadline, report)?;
    }
    #[cfg(feature = "page")]
    if wants(BenchCase::Throughput) {
        throughput::run(bed, programs, options.size, deadline, report)?;
    }
    if wants(BenchCase::Capture) {
        capture::run(&options.loads, bed, programs, settings, deadline, report)?;
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
