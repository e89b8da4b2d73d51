//! `make vm`: boots each kernel, runs the cases there, prints a table. Also the init of those machines.

use anyhow::{Context, Result};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vm::cases::{self, Case};
use vm::{Boot, Ending, Lab, guest};

/// Longest that a machine may take; it takes a minute or two.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs wirerate on Debian's kernels, in virtual machines without a network
#[derive(Parser)]
#[command(name = "wirerate-vm")]
struct Arguments {
    /// Only this kernel: 6.1, 6.12 or newest
    #[arg(long)]
    kernel: Option<String>,
    /// Only cases whose name holds this
    #[arg(long)]
    only: Option<String>,
    /// A shell in the machine instead
    #[arg(long)]
    shell: bool,
    /// Put the table into this file, between its marks
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// The program to run there
    #[arg(long, env = "WIRERATE", default_value = "target/release/wirerate")]
    wirerate: PathBuf,
}

fn main() -> Result<ExitCode> {
    if guest::is_modprobe() {
        std::process::exit(guest::modprobe());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("replay", rest)) = words.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        cases::oracle::replay::main(rest)?;
        return Ok(ExitCode::SUCCESS);
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
    let lab = Lab::open()?;
    let kernels = match &arguments.kernel {
        Some(name) => vec![lab.kernel(name)?],
        // A person most often wants what is new.
        None if arguments.shell => lab.kernels.iter().rev().take(1).collect(),
        None => lab.kernels.iter().collect(),
    };
    let is_wanted = |case: &&Case| arguments.only.as_ref().is_none_or(|only| case.name.contains(only));
    let cases: Vec<&Case> = cases::all().into_iter().filter(is_wanted).collect();
    let mut all = Vec::new();
    for kernel in kernels {
        let init = std::env::current_exe().context("cannot find this program")?;
        let wirerate = arguments.wirerate.clone();
        let boot = Boot { lab: &lab, kernel, wirerate, init, patience: PATIENCE };
        if arguments.shell {
            boot.shell(&cases, &std::env::temp_dir())?;
            return Ok(ExitCode::SUCCESS);
        }
        let outcomes = boot.run(&cases, &std::env::temp_dir())?;
        all.push((kernel.name.clone(), outcomes));
        print!("{}", vm::plain(&all[all.len() - 1..]));
    }
    let failures: Vec<_> =
        all.iter().flat_map(|(kernel, outcomes)| outcomes.iter().map(move |one| (kernel, one))).collect();
    let mut code = ExitCode::SUCCESS;
    for (kernel, outcome) in failures {
        if let Ending::Failed(why) = &outcome.ending {
            eprintln!("\n{kernel} {}: {why}", outcome.case);
            code = ExitCode::FAILURE;
        }
    }
    if let Some(path) = &arguments.table {
        put_table(path, &all)?;
    }
    Ok(code)
}

/// Replaces what stands between the marks of a page.
fn put_table(path: &std::path::Path, all: &[(String, Vec<vm::Outcome>)]) -> Result<()> {
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
