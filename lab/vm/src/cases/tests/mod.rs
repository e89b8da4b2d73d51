//! Tests of the other crates, run in the machines: cargo built them for the host, and they run
//! unchanged on each kernel.

mod chosen;
pub(super) mod executables;

use super::{Case, CaseReport, MachineType};
use crate::guest::{load, try_sh};
use anyhow::{Context, Result, bail, ensure};
use chosen::{CHOSEN, SelectedTests};
use std::collections::BTreeMap;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "programs",
        what: "every BPF program in every form: the verifier takes it, or another one takes its place",
        modules: &[],
        devices: "",
        machine: MachineType::Tests,
        run: programs,
    },
    Case {
        name: "tests",
        what: "tests of the other crates, chosen among those on devices of their own",
        modules: MODULES,
        devices: "",
        machine: MachineType::Tests,
        run: tests,
    },
];

const MODULES: &[&str] = &["sch_htb", "sch_tbf"];
/// The test of the crate `bpf` that loads all programs, and what its lines begin with.
const PROGRAMS: &str = "programs";
const MARK: &str = "program: ";

/// A test with CI's severity: what it lacks is a failure. `Err` is what it said. No one who waits
/// too long gets a signal that he could take for the end of what he waits for.
fn run(executable: &str, name: &str) -> Result<String> {
    let script = format!(
        "export CI=true WIRERATE=/bin/wirerate TMPDIR=/tmp
         timeout -s KILL 200 {}/{executable} --exact {name} --test-threads=1 --nocapture 2>&1",
        executables::FOLDER
    );
    // A machine that writes nothing for long is ended.
    eprintln!("{executable} {name}");
    let output = try_sh(&script)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{executable} {name}: {}\n{text}", output.status);
    ensure!(text.contains(" 1 passed; 0 failed; 0 ignored;"), "{executable} {name} did not run:\n{text}");
    Ok(text)
}

fn programs(finding: &mut CaseReport) -> Result<()> {
    let text = run(PROGRAMS, "every_program_loads_or_another_takes_its_place")?;
    let lines: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(MARK)).map(|(_, line)| line).collect();
    ensure!(!lines.is_empty(), "it says nothing of programs:\n{text}");
    let replaced: Vec<&str> = lines.iter().copied().filter(|line| !line.ends_with(": loads")).collect();
    finding.note("forms that load", format!("{} of {}", lines.len() - replaced.len(), lines.len()));
    for line in replaced {
        let (name, instead) = line.split_once(": ").context("a line without a fate")?;
        // One line for all forms of a program.
        finding.note(name.split(',').next().unwrap_or(name), instead);
    }
    finding.compare(PROGRAMS, lines.join("\n") + "\n");
    Ok(())
}

fn tests(finding: &mut CaseReport) -> Result<()> {
    MODULES.iter().try_for_each(|name| load(name, ""))?;
    let (mut failures, mut counts) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for SelectedTests { package, executable, names } in CHOSEN {
        for name in *names {
            failures.extend(run(executable, name).err());
        }
        *counts.entry(package).or_default() += names.len();
    }
    counts.iter().for_each(|(package, count)| finding.note(package, count));
    if failures.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = failures.iter().map(|failure| format!("{failure:#}")).collect();
    bail!("{} tests failed\n{}", said.len(), said.join("\n\n"))
}
