//! Runs machines in parallel, two emulated processors per processor of the host, and collects their
//! results.

use crate::cases::{Case, MachineType};
use crate::{Boot, CaseOutcome, Kernel, KernelSet};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all machines of a run have in common.
#[derive(Debug)]
pub struct MachineRun<'a> {
    /// What machines are made of.
    pub lab: &'a KernelSet,
    /// The program under test, or its Debian package.
    pub wirerate: PathBuf,
    /// This program, which is the init of each machine.
    pub init: PathBuf,
    /// More words for the command line of each kernel.
    pub parameters: String,
    /// A machine is ended when it writes nothing for so long.
    pub silence: Duration,
    /// All machines end when this says so.
    pub stop: &'a AtomicBool,
}

/// One machine to come: whose kernel, and which cases.
struct MachineJob<'a> {
    kernel: &'a Kernel,
    machine: MachineType,
    cases: Vec<&'a Case>,
}

impl MachineRun<'_> {
    /// A machine of this run.
    #[must_use]
    pub fn boot<'a>(&'a self, kernel: &'a Kernel, machine: MachineType) -> Boot<'a> {
        let Self { lab, wirerate, init, silence, parameters, stop } = self;
        Boot { lab, kernel, machine, wirerate, init, parameters, silence: *silence, stop }
    }

    /// Runs the cases on each kernel, with `cpus` emulated processors at a time or one machine that
    /// has more, and at the end those of [`MachineType::Alone`]. It tells `said` of each machine
    /// that ended. The outcomes are in the order of kernels and cases.
    ///
    /// # Errors
    /// When a machine could not be started, or the run was stopped.
    pub fn all(
        &self,
        kernels: &[&Kernel],
        cases: &[&Case],
        cpus: u32,
        said: impl Fn(&Kernel, &[CaseOutcome]) + Sync,
    ) -> Result<Vec<(String, Vec<CaseOutcome>)>> {
        let (alone, jobs): (Vec<_>, Vec<_>) =
            jobs(kernels, cases).into_iter().partition(|job| job.machine == MachineType::Alone);
        let all = Mutex::new(Vec::new());
        let run = |job: &MachineJob| -> Result<()> {
            let outcomes = self.boot(job.kernel, job.machine).run(&job.cases)?;
            said(job.kernel, &outcomes);
            lock(&all).push((job.kernel.name.clone(), outcomes));
            Ok(())
        };
        let (free, ended) = (Mutex::new(cpus), Condvar::new());
        std::thread::scope(|scope| {
            let mut machines = Vec::new();
            for job in jobs.iter().take_while(|_| !self.stop.load(Ordering::Relaxed)) {
                let needed = job.machine.cpus().min(cpus);
                let waited = ended.wait_while(lock(&free), |free| *free < needed);
                *waited.unwrap_or_else(PoisonError::into_inner) -= needed;
                let taken = Taken { cpus: needed, free: &free, ended: &ended };
                let run = &run;
                machines.push(scope.spawn(move || {
                    let _taken = taken;
                    run(job)
                }));
            }
            machines.into_iter().try_for_each(|machine| match machine.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
        alone.iter().try_for_each(run)?;
        let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(kernels.iter().map(|kernel| (kernel.name.clone(), in_order(&all, &kernel.name, cases))).collect())
    }
}

/// Processors of a machine. They are free again when it ends, also by a panic.
struct Taken<'a> {
    cpus: u32,
    free: &'a Mutex<u32>,
    ended: &'a Condvar,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(self.free) += self.cpus;
        self.ended.notify_one();
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machines, those that take longest first, so that none is left over at the end.
fn jobs<'a>(kernels: &[&'a Kernel], cases: &[&'a Case]) -> Vec<MachineJob<'a>> {
    let of = |machine| {
        kernels.iter().map(move |kernel| {
            let cases = cases.iter().copied().filter(|case| case.machine == machine).collect();
            MachineJob { kernel, machine, cases }
        })
    };
    MachineType::ALL.into_iter().flat_map(of).filter(|job| !job.cases.is_empty()).collect()
}

/// The outcomes of one kernel, in the order of the cases.
fn in_order(all: &[(String, Vec<CaseOutcome>)], kernel: &str, cases: &[&Case]) -> Vec<CaseOutcome> {
    let of_kernel = || all.iter().filter(|(name, _)| name == kernel).flat_map(|(_, outcomes)| outcomes);
    cases.iter().filter_map(|case| of_kernel().find(|outcome| outcome.case == case.name).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ending, Processor};
    use std::collections::BTreeMap;

    fn kernel(name: &str) -> Kernel {
        Kernel {
            name: name.to_owned(),
            processor: Processor::X86_64,
            image: PathBuf::new(),
            modules: PathBuf::new(),
        }
    }

    #[test]
    fn every_case_runs_once_on_every_kernel_and_the_long_ones_come_first() {
        let kernels = [kernel("6.1"), kernel("newest")];
        let kernels: Vec<&Kernel> = kernels.iter().collect();
        let cases = crate::cases::all();
        let jobs = jobs(&kernels, &cases);
        for kernel in &kernels {
            let mut names: Vec<_> = jobs
                .iter()
                .filter(|job| job.kernel.name == kernel.name)
                .flat_map(|job| job.cases.iter().map(|case| case.name))
                .collect();
            names.sort_unstable();
            let mut expected: Vec<_> = cases.iter().map(|case| case.name).collect();
            expected.sort_unstable();
            assert_eq!(names, expected);
        }
        assert!(jobs[..2].iter().all(|job| job.machine == MachineType::Single));
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_cases_whichever_machine_was_first() {
        let cases = &crate::cases::all()[..2];
        let outcome = |case: &Case| CaseOutcome {
            case: case.name.to_owned(),
            ending: Ending::Passed,
            facts: BTreeMap::new(),
            golden: BTreeMap::new(),
            rows: Vec::new(),
            took_ms: 0,
        };
        let all = [
            ("6.1".to_owned(), vec![outcome(cases[1])]),
            ("newest".to_owned(), vec![outcome(cases[1])]),
            ("6.1".to_owned(), vec![outcome(cases[0])]),
        ];
        let names: Vec<_> = in_order(&all, "6.1", cases).into_iter().map(|outcome| outcome.case).collect();
        assert_eq!(names, [cases[0].name, cases[1].name]);
        assert_eq!(in_order(&all, "newest", cases).len(), 1);
    }
}
