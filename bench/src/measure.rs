//! One bench from its first word to its last: the machine, the cases that are wanted, how busy it all was.

use crate::bed::{Bed, Pair};
use crate::facts::{Host, Shares, Ticks};
use crate::priority::HighPriority;
use crate::report::Report;
use crate::settings::{Deadline, FULL, QUICK, Settings, TINY};
use crate::stop::Stop;
use crate::table::{Plan, Size};
use crate::tool::Programs;
use crate::{capture, disk, generate, growth, pacing, page, prompt, tool};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;

/// A machine with less load than this is taken as idle.
const LOAD_QUIET: f64 = 0.5;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// How much.
    pub(crate) size: Size,
    /// This alone; everything but the page of captures and the disk where nothing is said.
    pub(crate) only: Option<Case>,
    /// Folder for the rows.
    pub(crate) out: PathBuf,
    /// Who takes part.
    pub(crate) programs: Programs,
    /// What is on the page of captures.
    pub(crate) page: page::Wish,
    /// Where; on devices of our own where nothing is said.
    pub(crate) wire: Option<Pair>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Generators
    Generate,
    /// Captures
    Capture,
    /// How well each generator keeps a pace, from a thousand frames a second to a million
    Pacing,
    /// How soon generators begin and end, and whether they send what they are asked for
    Prompt,
    /// What more time, more instances and more captured frames cost
    Growth,
    /// Captures on one page: all tools, frame lengths, numbers of queues and outputs, and losses at twice the rate
    Page,
    /// Ways of writing large buffers into a file, without a capture
    Disk,
}

#[derive(Serialize)]
struct Start<'a> {
    time_s: u64,
    size: &'a str,
    #[serde(flatten)]
    host: Host,
}

/// Measures what is wanted. The rows are written, and what is there to say is said.
pub(crate) fn measure(wish: &Wish, stop: Stop) -> Result<Report> {
    let settings = match wish.size {
        Size::Tiny => TINY,
        Size::Quick => QUICK,
        Size::Full => FULL,
    };
    ensure!(nix::unistd::geteuid().is_root(), "needs root: it makes namespaces and devices");
    let time_s = host::realtime_ns() / 1_000_000_000;
    let mut report = Report::create(&wish.out, time_s)?;
    let host = Host::read(&wish.programs.wirerate)?;
    let bed = Bed::new(tool::GENERATOR_CPU, stop, wish.wire.as_ref())?;
    introduce(&report, &settings, &host, &bed)?;
    report.row("host", &Start { time_s, size: settings.name, host })?;
    let ticks = Ticks::read()?;
    cases(wish, &settings, &bed, &mut report)?;
    let shares = Ticks::read()?.since(ticks);
    report.row("end", &shares)?;
    say_busy(&report, shares)?;
    report.say(&format!("rows: {}", report.path().display()))?;
    Ok(report)
}

fn cases(wish: &Wish, settings: &Settings, bed: &Bed, report: &mut Report) -> Result<()> {
    let Wish { programs, only, .. } = wish;
    let plan = Plan::built_in(wish.size)?;
    let deadline = Deadline::after(settings.budget);
    // The tiny size measures nothing. A high priority of a whole session would keep threads of the kernel from the CPUs,
    // where other processes of the session are busy (tests beside other work).
    let is_measured = wish.size != Size::Tiny;
    let _priority = is_measured.then(HighPriority::begin).transpose()?;
    let wants = |case| only.is_none_or(|only| only == case);
    if wants(Case::Generate) {
        generate::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Pacing) {
        pacing::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Prompt) {
        prompt::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Growth) {
        growth::run(bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Capture) {
        capture::run(bed, programs, settings, deadline, report)?;
    }
    if *only == Some(Case::Page) {
        page::run(&wish.page, bed, programs, settings, deadline, report)?;
    }
    if *only == Some(Case::Disk) {
        disk::run(bed, &wish.out, settings, report)?;
    }
    Ok(())
}

fn introduce(report: &Report, settings: &Settings, host: &Host, bed: &Bed) -> Result<()> {
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
    let busy = if host.load > LOAD_QUIET { ": others want the CPUs, and have to wait" } else { "" };
    report.say(&format!("load before: {:.2}{busy}", host.load))?;
    report.say(&format!("binary: {}", host.wirerate))
}

fn say_busy(report: &Report, shares: Shares) -> Result<()> {
    let Shares { busy, steal } = shares;
    report.say(&format!(
        "\nmeanwhile: all CPUs {:.0} % busy, {:.1} % stolen by the hypervisor",
        busy * 100.0,
        steal * 100.0
    ))
}
