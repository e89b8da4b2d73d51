//! `wirerate-bench`: arguments, peers, the page of results.

use crate::capture::Loads;
use crate::capturers::CAPTURERS;
use crate::generators::GENERATORS;
use crate::measure::{BenchCase, BenchOptions, measure};
use crate::programs::Programs;
use crate::stop::{StopFlag, Stopped};
use crate::table::BenchSize;
use crate::{flood, own, results};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    size: BenchSize,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<BenchCase>,
    /// Folder for the rows (JSON lines)
    #[arg(long, value_name = "DIR", default_value = "lab/bench/out")]
    out: PathBuf,
    /// Make the page of results, RESULTS.md, with its figures there
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
    /// The binary to measure [default: $WIRERATE, or the one beside this program]
    #[arg(long, value_name = "FILE", global = true)]
    wirerate: Option<PathBuf>,
    /// Another build of it, to be compared with
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Only these tools take part, by their names in rows, besides the one under test
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    tools: Vec<String>,
    /// Frame lengths of captures, without FCS
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_values_t = Loads::default().frame_lens)]
    frame_lens: Vec<usize>,
    /// Receive queues of captures, 1 or 2
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = Loads::default().queues,
          value_parser = clap::value_parser!(u32).range(1..=2))]
    queues: Vec<u32>,
    /// Bytes that captures keep of each frame; 262144 for whole frames
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_values_t = Loads::default().snaplens)]
    snaplens: Vec<u32>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Send with a bare sendmmsg loop
    #[command(hide = true)]
    Flood(flood::Args),
    /// Measure wirerate alone: rates, paces, starts and captures, on devices made for it or on two
    /// of yours
    #[command(after_help = "Examples:\n  wirerate-bench own\n  wirerate-bench own --only pacing\n  \
                            wirerate-bench own --only generate --tx eth1 --rx eth2@receiver")]
    Own(own::Args),
    /// Make the page of results from rows
    Results(results::Args),
}

/// The whole program.
pub fn program() -> ExitCode {
    let args = Args::parse();
    if let Some((stranger, known)) = unknown(&args.tools) {
        eprintln!("wirerate-bench: there is no tool {stranger:?}\n  try: --tools with some of {known}");
        return ExitCode::from(2);
    }
    let ended = match &args.command {
        Some(Command::Flood(flood)) => flood::run(flood).map(|()| true),
        Some(Command::Own(own)) => program_under_test(&args).and_then(|wirerate| own::run(own, wirerate)),
        Some(Command::Results(args)) => results::run(args).map(|()| true),
        None => run(&args),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("wirerate-bench: {error:#}");
            let needs_root = !matches!(args.command, Some(Command::Results(_)));
            if needs_root && !nix::unistd::geteuid().is_root() {
                eprintln!("  try: run it as root");
            }
            ExitCode::from(if error.is::<Stopped>() { 1 } else { 3 })
        }
    }
}

/// True when all went as it should.
fn run(args: &Args) -> Result<bool> {
    let loads = Loads {
        frame_lens: args.frame_lens.clone(),
        queues: args.queues.clone(),
        snaplens: args.snaplens.clone(),
    };
    let (size, only, out) = (args.size, args.only, args.out.clone());
    let options = BenchOptions { size, only, out, programs: programs(args)?, loads, wire: None };
    let report = measure(&options, StopFlag::on_signals()?)?;
    if let Some(folder) = &args.page {
        results::write(&[report.path().to_owned()], folder)?;
        report.say(&format!("page: {}", folder.join("RESULTS.md").display()))?;
    }
    Ok(report.is_good())
}

/// The binary that is measured.
fn program_under_test(args: &Args) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let given = args.wirerate.clone().or_else(|| std::env::var_os("WIRERATE").map(PathBuf::from));
    let file = given.unwrap_or_else(|| own.with_file_name("wirerate"));
    check(&file)?;
    Ok(file)
}

fn check(file: &Path) -> Result<()> {
    ensure!(
        file.is_file(),
        "there is no {}; `cargo build --package wirerate` makes one, --wirerate or $WIRERATE names another",
        file.display()
    );
    Ok(())
}

fn programs(args: &Args) -> Result<Programs> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let wirerate = program_under_test(args)?;
    args.against.iter().try_for_each(|file| check(file))?;
    Ok(Programs { wirerate, against: args.against.clone(), own, only: args.tools.clone(), has_peers: true })
}

/// The first of `names` that is no tool's, and who there is instead.
fn unknown(names: &[String]) -> Option<(&str, String)> {
    let generators = GENERATORS.iter().map(|tool| tool.name);
    let known: BTreeSet<&str> = generators.chain(CAPTURERS.iter().map(|tool| tool.name)).collect();
    let stranger = names.iter().find(|name| !known.contains(name.as_str()))?;
    Some((stranger, known.into_iter().collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::owned;

    #[test]
    fn strangers_are_named() {
        assert_eq!(unknown(&owned(&["trafgen", "tcpdump", "against"])), None);
        let names = owned(&["trafgen", "tcpdumb"]);
        let (stranger, known) = unknown(&names).unwrap();
        assert_eq!(stranger, "tcpdumb");
        assert!(known.starts_with("af_packet, af_xdp, against, dumpcap,"), "{known}");
    }
}
