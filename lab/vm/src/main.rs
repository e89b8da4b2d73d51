//! `make vm`: boots each kernel, runs the cases there, prints a table. Also the init of those
//! machines.

use anyhow::{Context, Result};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vm::cases::{self, Case, MachineType};
use vm::{ARM64, CaseOutcome, Ending, Kernel, KernelSet, MachineRun, Small, guest, taps};

/// Longest that a machine may write nothing; its longest case takes a minute on an idle host.
const SILENCE: Duration = Duration::from_secs(600);
/// Rounds of a measurement whose rows are kept.
const TURNS: &str = "5";

/// Runs wirerate on Debian's kernels, in virtual machines without a network
#[derive(Parser)]
#[command(name = "wirerate-vm")]
struct Arguments {
    /// Only this kernel: 6.1, 6.12, newest, or arm64, which runs on a machine of that processor and
    /// only when it is named
    #[arg(long)]
    kernel: Option<String>,
    /// Only cases whose name holds this
    #[arg(long)]
    only: Option<String>,
    /// A shell in the machine instead
    #[arg(long)]
    shell: bool,
    /// Processors of all machines at once; one that has more runs by itself [default: two for each
    /// processor of this host]
    #[arg(long, value_name = "N")]
    cpus: Option<NonZeroU32>,
    /// Put the table into this file, between its marks
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Measure against the kernel's pktgen in five long turns, and put the rows for the page of the
    /// bench there; without --only the cases `rates`, without --kernel the newest
    #[arg(long, value_name = "FILE")]
    rates: Option<PathBuf>,
    /// The program to run there
    #[arg(long, env = "WIRERATE", default_value = "target/release/wirerate")]
    wirerate: PathBuf,
    /// Install this Debian package on a system with systemd instead, and start its services
    #[arg(long, value_name = "FILE")]
    deb: Option<PathBuf>,
    /// This program, built for the processor of the machine
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    if guest::is_modprobe() {
        std::process::exit(guest::modprobe());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        Some(("replay", rest)) => {
            cases::oracle::replay::main(rest)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(("small", _)) => {
            print!("{}", Small::parse_from(&words).run()?);
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    if guest::run_case() {
        return Ok(ExitCode::SUCCESS);
    }
    if guest::is_init() {
        guest::main();
    }
    host(&Arguments::parse())
}

fn host(arguments: &Arguments) -> Result<ExitCode> {
    let is_ci = testkit::is_ci();
    let is_arm64 = arguments.kernel.as_deref() == Some(ARM64);
    let mut lab = match if is_arm64 { KernelSet::open_arm64() } else { KernelSet::open() } {
        Err(why) if !is_ci => {
            testkit::skip(why);
            return Ok(ExitCode::SUCCESS);
        }
        lab => lab?,
    };
    let cases = wanted_cases(arguments, &mut lab.missing);
    for what in &lab.missing {
        match is_ci {
            true => eprintln!("cannot run: {what}"),
            false => testkit::skip(what),
        }
    }
    let kernels = match &arguments.kernel {
        Some(name) => vec![lab.kernel(name)?],
        None if arguments.rates.is_some() => lab.kernels.last().into_iter().collect(),
        None => lab.kernels.iter().collect(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let run = MachineRun {
        lab: &lab,
        wirerate: arguments.deb.as_ref().unwrap_or(&arguments.wirerate).clone(),
        init: match &arguments.init {
            Some(init) => init.clone(),
            None => std::env::current_exe().context("cannot find this program")?,
        },
        parameters: parameters(arguments.rates.is_some()),
        silence: SILENCE,
        stop: &stop,
    };
    if arguments.shell {
        // A person most often wants what is new.
        let kernel = kernels.last().context("there is no kernel")?;
        run.boot(kernel, MachineType::Common).shell(&cases)?;
        return Ok(ExitCode::SUCCESS);
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    let cpus = match arguments.cpus {
        Some(number) => number.get(),
        // Two machines at once would disturb each other's rates.
        None if arguments.rates.is_some() => 1,
        None => 2 * u32::try_from(std::thread::available_parallelism()?.get())?,
    };
    let failures = AtomicUsize::new(0);
    let said = |kernel: &Kernel, outcomes: &[CaseOutcome]| {
        print!("{}", vm::plain(&kernel.name, outcomes));
        failures.fetch_add(tell_failures(&kernel.name, outcomes), Ordering::Relaxed);
    };
    let all = run.all(&kernels, &cases, cpus, said)?;
    if let Some(path) = &arguments.table {
        put_table(path, &all)?;
    }
    if let Some(path) = &arguments.rates {
        put_rows(path, &all)?;
    }
    let is_whole = lab.missing.is_empty() || !is_ci;
    Ok(if failures.into_inner() == 0 && is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cases asked for, without those that cannot run here, which are `missing`.
fn wanted_cases(arguments: &Arguments, missing: &mut Vec<String>) -> Vec<&'static Case> {
    let default = arguments.rates.as_ref().map(|_| "rates");
    let only = arguments.only.as_deref().or(default).unwrap_or_default();
    let is_exact = cases::all().iter().any(|case| case.name == only);
    let is_wanted = |name: &str| if is_exact { name == only } else { name.contains(only) };
    let mut cases: Vec<_> = cases::all().into_iter().filter(|case| is_wanted(case.name)).collect();
    cases.retain(|case| (case.machine == MachineType::Systemd) == arguments.deb.is_some());
    if arguments.kernel.as_deref() == Some(ARM64) {
        cases.retain(|case| case.is_for_any_processor());
    }
    if cases.iter().any(|case| case.has_taps())
        && let Some(why) = taps::trouble()
    {
        missing.push(why);
        cases.retain(|case| !case.has_taps());
    }
    cases
}

/// Words for the command lines of the kernels: what our environment asks of cases.
fn parameters(has_long_turns: bool) -> String {
    let word = |name: &str, default: Option<&str>| {
        let value = std::env::var(name).ok().or(default.map(str::to_owned))?;
        Some(format!("{}={value} ", name.to_lowercase()))
    };
    let rates = word("WIRERATE_RATES", has_long_turns.then_some(TURNS));
    word("WIRERATE_ORACLE", None).into_iter().chain(rates).collect()
}

/// Writes the rows of all kernels, their names in front of the cases.
fn put_rows(path: &std::path::Path, all: &[(String, Vec<CaseOutcome>)]) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("it is before 1970")?;
    let when =
        serde_json::json!({ "schema": "wirerate.bench/1", "row": "machines", "time_s": now.as_secs() });
    let mut text = format!("{when}\n");
    for (kernel, outcomes) in all {
        for row in outcomes.iter().flat_map(|outcome| &outcome.rows) {
            let mut row = row.clone();
            row["case"] = format!("vm {kernel} {}", row["case"].as_str().unwrap_or_default()).into();
            text += &format!("{row}\n");
        }
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Says what failed, and how many that were.
fn tell_failures(kernel: &str, outcomes: &[CaseOutcome]) -> usize {
    let failures = outcomes.iter().filter_map(|outcome| match &outcome.ending {
        Ending::Failed(why) => Some(format!("\n{kernel} {}: {why}", outcome.case)),
        _ => None,
    });
    failures.inspect(|failure| eprintln!("{failure}")).count()
}

/// Replaces what stands between the marks of a page.
fn put_table(path: &std::path::Path, all: &[(String, Vec<vm::CaseOutcome>)]) -> Result<()> {
    let (begin, end) = ("<!-- table -->\n", "<!-- end of table -->");
    let page = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (head, rest) =
        page.split_once(begin).with_context(|| format!("no {begin:?} in {}", path.display()))?;
    let (_, tail) = rest.split_once(end).with_context(|| format!("no {end:?} in {}", path.display()))?;
    let what = |name: &str| cases::find(name).map_or_else(String::new, |case| case.what.to_owned());
    let table = vm::markdown(all, what);
    std::fs::write(path, format!("{head}{begin}{table}{end}{tail}"))
        .with_context(|| format!("cannot write {}", path.display()))
}
