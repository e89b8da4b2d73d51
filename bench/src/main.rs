//! `wirerate-bench`: wirerate and its peers side by side, on one machine, on one wire that it makes itself.
//!
//! The rules: runs are interleaved (A B A B ...); a tool runs against itself first, which shows the noise; all
//! do the same work with the same means; what arrived is what the receiver's counters say and what was kept is
//! what the output holds, never what a tool says of itself; ratios come with their spread.
#![deny(unsafe_code)]

mod bed;
mod capture;
mod facts;
mod figures;
mod flood;
mod frame;
mod gaps;
mod generate;
mod generators;
mod growth;
mod instructions;
mod pacing;
mod page;
mod priority;
mod process;
mod prompt;
mod records;
mod report;
mod results;
mod running;
mod samples;
mod schedule;
mod search;
mod sections;
mod settings;
mod stats;
mod stop;
#[expect(unsafe_code, reason = "socket calls and a priority, and nothing else")]
mod sys;
mod table;
mod tool;

use anyhow::{Context, Result, ensure};
use bed::Bed;
use clap::{Parser, ValueEnum};
use facts::{Host, Shares, Ticks};
use priority::FirstSession;
use report::Report;
use serde::Serialize;
use settings::{Deadline, FULL, QUICK, Settings, TINY};
use std::path::PathBuf;
use std::process::ExitCode;
use stop::{Stop, Stopped};
use table::{Plan, Size};
use tool::Programs;

/// A machine with less load than this is taken as idle.
const LOAD_QUIET: f64 = 0.5;

/// Measures wirerate against trafgen, sendmmsg and tcpdump; the receiver's counters decide.
#[derive(Debug, Parser)]
#[command(
    name = "wirerate-bench",
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 done, 1 stopped, or something was not as it should be, 2 bad usage, 3 host refused."
)]
struct Args {
    /// How much to measure
    #[arg(long, value_enum, default_value = "quick")]
    size: Size,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<Case>,
    /// Folder for the rows (JSON lines)
    #[arg(long, value_name = "DIR", default_value = "bench/out")]
    out: PathBuf,
    /// Make the page of results, RESULTS.md, with its figures there
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
    /// The binary to measure [default: $WIRERATE, or the one beside this program]
    #[arg(long, value_name = "FILE")]
    wirerate: Option<PathBuf>,
    /// Another build of it, to be compared with
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Only these tools take part, by their names in rows, besides the one under test
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    tools: Vec<String>,
    /// Of the page: frame lengths without FCS
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_values_t = page::FRAME_LENS)]
    frame_lens: Vec<usize>,
    /// Of the page: receive queues in use, 1 or 2
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = page::QUEUES,
          value_parser = clap::value_parser!(u32).range(1..=2))]
    queues: Vec<u32>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Send with a bare sendmmsg loop
    #[command(hide = true)]
    Flood(flood::Args),
    /// Count instructions a frame by callgrind, and add them to the history
    History(instructions::Args),
    /// Run a loop whose instructions are counted
    #[command(hide = true)]
    Loop(instructions::LoopArgs),
    /// Make the page of results from rows
    Results(results::Args),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
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
}

#[derive(Serialize)]
struct Start<'a> {
    time_s: u64,
    size: &'a str,
    #[serde(flatten)]
    host: Host,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some((stranger, known)) = tool::unknown(&args.tools) {
        eprintln!("wirerate-bench: there is no tool {stranger:?}\n  try: --tools with some of {known}");
        return ExitCode::from(2);
    }
    let ended = match &args.command {
        Some(Command::Flood(flood)) => flood::run(flood).map(|()| true),
        Some(Command::History(wish)) => instructions::run(wish).map(|()| true),
        Some(Command::Loop(wish)) => instructions::run_loop(wish).map(|()| true),
        Some(Command::Results(wish)) => results::run(wish).map(|()| true),
        None => run(&args),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("wirerate-bench: {error:#}");
            ExitCode::from(if error.is::<Stopped>() { 1 } else { 3 })
        }
    }
}

/// True when all went as it should.
fn run(args: &Args) -> Result<bool> {
    let settings = match args.size {
        Size::Tiny => TINY,
        Size::Quick => QUICK,
        Size::Full => FULL,
    };
    ensure!(nix::unistd::geteuid().is_root(), "needs root: it makes namespaces and devices");
    let stop = Stop::on_signals()?;
    let programs = programs(args)?;
    let time_s = host::realtime_ns() / 1_000_000_000;
    let mut report = Report::create(&args.out, time_s)?;
    let host = Host::read(&programs.wirerate)?;
    introduce(&report, &settings, &host)?;
    report.row("host", &Start { time_s, size: settings.name, host })?;
    let ticks = Ticks::read()?;
    measure(args, &settings, &programs, stop, &mut report)?;
    let shares = Ticks::read()?.since(ticks);
    report.row("end", &shares)?;
    say_busy(&report, shares)?;
    report.say(&format!("rows: {}", report.path().display()))?;
    if let Some(folder) = &args.page {
        results::write(&[report.path().to_owned()], folder)?;
        report.say(&format!("page: {}", folder.join("RESULTS.md").display()))?;
    }
    Ok(report.is_good())
}

fn measure(
    args: &Args,
    settings: &Settings,
    programs: &Programs,
    stop: Stop,
    report: &mut Report,
) -> Result<()> {
    let plan = Plan::built_in(args.size)?;
    let deadline = Deadline::after(settings.budget);
    let _first = FirstSession::begin()?;
    let bed = Bed::new(tool::GENERATOR_CPU, stop)?;
    let wants = |case| args.only.is_none_or(|only| only == case);
    if wants(Case::Generate) {
        generate::run(&bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Pacing) {
        pacing::run(&bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Prompt) {
        prompt::run(&bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Growth) {
        growth::run(&bed, programs, &plan, deadline, report)?;
    }
    if wants(Case::Capture) {
        capture::run(&bed, programs, settings, deadline, report)?;
    }
    if args.only == Some(Case::Page) {
        let wish = page::Wish { frame_lens: args.frame_lens.clone(), queues: args.queues.clone() };
        page::run(&wish, &bed, programs, settings, deadline, report)?;
    }
    Ok(())
}

fn programs(args: &Args) -> Result<Programs> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let given = args.wirerate.clone().or_else(|| std::env::var_os("WIRERATE").map(PathBuf::from));
    let wirerate = given.unwrap_or_else(|| own.with_file_name("wirerate"));
    for file in args.against.iter().chain([&wirerate]) {
        ensure!(
            file.is_file(),
            "there is no {}; `cargo build --package wirerate` makes one, --wirerate or $WIRERATE names another",
            file.display()
        );
    }
    Ok(Programs { wirerate, against: args.against.clone(), own, only: args.tools.clone() })
}

fn introduce(report: &Report, settings: &Settings, host: &Host) -> Result<()> {
    let warning =
        if settings.name == TINY.name { ": it shows that the bench works, and nothing else" } else { "" };
    report.say(&format!("size: {}{warning}", settings.name))?;
    let governor = host.governor.as_ref().map_or_else(String::new, |name| format!(", governor {name}"));
    report.say(&format!("host: {}, CPUs {}{governor}, {}, veth", host.cpu, host.cpus, host.kernel))?;
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
