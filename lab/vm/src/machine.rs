//! One run of a machine: packs its file system, starts QEMU, reads the guest's output, and always
//! ends it.

use crate::archive::{self, Archive};
use crate::cases::{Case, MachineType, services};
use crate::{CaseOutcome, Ending, Kernel, KernelSet, golden, guest, taps};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MEMORY_MIB: &str = "2048";
/// Programs of this machine that cases call; `sh` is dash, since busybox prefers its own `ip` to
/// the real one.
const PROGRAMS: [(&str, &str); 16] = [
    ("bash", "bash"),
    ("busybox", "busybox"),
    ("sh", "dash"),
    ("ethtool", "ethtool"),
    ("hostapd", "hostapd"),
    ("ip", "ip"),
    ("iw", "iw"),
    ("kill", "kill"),
    ("ping", "ping"),
    ("sysctl", "sysctl"),
    ("tc", "tc"),
    ("tcpdump", "tcpdump"),
    ("trafgen", "trafgen"),
    ("wg", "wg"),
    ("wpa_cli", "wpa_cli"),
    ("wpa_supplicant", "wpa_supplicant"),
];
/// What busybox does there, under its own names.
const APPLETS: [&str; 30] = [
    "awk", "cat", "chmod", "cp", "cut", "date", "dmesg", "env", "find", "grep", "head", "hexdump", "ln",
    "ls", "mkdir", "mount", "mv", "rm", "rmdir", "sed", "seq", "sleep", "sort", "tail", "timeout", "touch",
    "tr", "umount", "uname", "wc",
];

/// And what it does in place of programs that only this machine has.
const FOREIGN_APPLETS: [&str; 3] = ["bash", "kill", "sysctl"];

/// What to start.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// What machines are made of.
    pub lab: &'a KernelSet,
    /// Which of the kernels.
    pub kernel: &'a Kernel,
    /// Which of the machines.
    pub machine: MachineType,
    /// The program under test; for [`MachineType::Systemd`] its Debian package.
    pub wirerate: &'a Path,
    /// This program, which is the init of the machine.
    pub init: &'a Path,
    /// More words for the command line of its kernel.
    pub parameters: &'a str,
    /// The machine is ended when it writes nothing for so long.
    pub silence: Duration,
    /// The machine ends when this says so.
    pub stop: &'a AtomicBool,
}

impl Boot<'_> {
    /// Runs cases there, one after the other, and says how each ended, in their order. A case in
    /// which the machine ended has failed, and a new machine runs those after it.
    ///
    /// # Errors
    /// When the machine cannot be started, or was stopped; what goes wrong in there is an outcome.
    pub fn run(&self, cases: &[&Case]) -> Result<Vec<CaseOutcome>> {
        let outcomes = run_all(cases, |cases| self.run_once(cases))?;
        Ok(golden::check(&self.kernel.name, outcomes))
    }

    /// All that a machine wrote while it ran cases.
    fn run_once(&self, cases: &[&Case]) -> Result<String> {
        let archive = self.pack(cases)?;
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        let limits = SilenceLimits { start: START_MAX, then: self.silence };
        let start = || {
            let mut command =
                self.qemu(&archive, cases, &format!("{}={}", guest::CASES_PARAMETER, names.join(",")));
            command.args(devices(cases));
            command.args(["-display", "none", "-serial", "stdio"]);
            watch(command.stdin(Stdio::null()), limits, self.stop)
        };
        for _ in 1..STARTS_MAX {
            let said = start()?;
            if !said.contains(NOT_STARTED) {
                return Ok(said);
            }
            eprintln!("a machine of {}: {NOT_STARTED}; another one is started", self.kernel.name);
        }
        start()
    }

    /// Starts a shell there for a person, with all that the cases have.
    ///
    /// # Errors
    /// When the machine cannot be started.
    pub fn shell(&self, cases: &[&Case]) -> Result<ExitStatus> {
        let archive = self.pack(cases)?;
        let mut command = self.qemu(&archive, cases, guest::SHELL_PARAMETER);
        command.args(devices(cases));
        command.args(["-nographic", "-serial", "mon:stdio"]);
        command.status().context("cannot start QEMU")
    }

    fn qemu(&self, archive: &File, cases: &[&Case], parameter: &str) -> Command {
        let has_taps = cases.iter().any(|case| taps::are_in(case.devices));
        let before = if has_taps { taps::BEFORE } else { &[] };
        let mut command =
            qemu(self.lab, self.kernel, before, self.kernel.processor.cpu(), self.machine.cpus());
        start(&mut command, self.kernel, archive, &format!("{parameter} {}", self.parameters));
        command
    }

    fn pack(&self, cases: &[&Case]) -> Result<File> {
        let mut archive = match self.machine {
            MachineType::Systemd => self.system(cases)?,
            _ => self.programs()?,
        };
        let mut modules: Vec<&str> = guest::MODULES.to_vec();
        modules.extend(cases.iter().flat_map(|case| case.modules));
        archive.modules(self.kernel, &modules)?;
        archive.finish()
    }

    /// A Debian system with the package, whose systemd runs the cases and ends the machine.
    fn system(&self, cases: &[&Case]) -> Result<Archive> {
        let root = &self.lab.system;
        ensure!(root.exists(), "no {}; try: tools/install.sh vm-systemd", root.display());
        let mut archive = Archive::of_root(nameless()?, root)?;
        archive.program("init", self.init)?;
        archive.link("usr/sbin/modprobe", "/init")?;
        archive.file(&services::PACKAGE[1..], self.wirerate)?;
        self.machine.add_files(&mut archive)?;
        let calls: String = cases.iter().map(|case| services::call(case.name)).collect();
        archive.text(
            "etc/systemd/system/wirerate-cases.service",
            &format!(
                "[Unit]\nSuccessAction=reboot-force\nFailureAction=reboot-force\n\
                 [Service]\nType=oneshot\nStandardOutput=tty\nTTYPath=/dev/console\n{calls}"
            ),
        )?;
        archive.link(
            "etc/systemd/system/multi-user.target.wants/wirerate-cases.service",
            "../wirerate-cases.service",
        )?;
        // No terminal is there that a person could log in to.
        archive.link("etc/systemd/system/getty.target", "/dev/null")?;
        Ok(archive)
    }

    /// The programs that cases call, and busybox for others.
    fn programs(&self) -> Result<Archive> {
        let mut archive = Archive::create(nameless()?)?;
        archive.program("init", self.init)?;
        match &self.lab.programs {
            None => {
                archive.stripped("bin/wirerate", self.wirerate)?;
                let programs = PROGRAMS.iter().map(|(name, here)| Ok((*name, archive::find_program(here)?)));
                archive::programs(&mut archive, &programs.collect::<Result<HashMap<_, _>>>()?)?;
                self.machine.add_files(&mut archive)?;
            }
            Some(programs) => {
                archive.program("bin/wirerate", self.wirerate)?;
                archive.unpacked(programs)?;
                FOREIGN_APPLETS
                    .iter()
                    .try_for_each(|name| archive.link(&format!("bin/{name}"), "busybox"))?;
                archive.link("bin/sh", "dash")?;
            }
        }
        APPLETS.iter().try_for_each(|applet| archive.link(&format!("bin/{applet}"), "busybox"))?;
        archive.link("bin/modprobe", "/init")?;
        archive.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:1:1::/:/bin/false\n")?;
        archive.text("etc/group", "root:x:0:\ntcpdump:x:1:\n")?;
        Ok(archive)
    }
}

/// QEMU without a device, which ends when the thread that started it does; `before` are words that
/// run it.
pub(crate) fn qemu(lab: &KernelSet, kernel: &Kernel, before: &[&str], cpu: &str, cpus: u32) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).args(before).arg(&lab.qemu);
    command.env("QEMU_MODULE_DIR", &lab.qemu_modules);
    command.args(kernel.processor.machine()).args(["-cpu", cpu, "-smp", &cpus.to_string(), "-m", MEMORY_MIB]);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
    for folder in &lab.firmware {
        command.arg("-L").arg(folder);
    }
    command
}

/// What it starts: a kernel, its first files, words for its command line.
pub(crate) fn start(command: &mut Command, kernel: &Kernel, archive: &File, words: &str) {
    command.arg("-kernel").arg(&kernel.image).arg("-initrd");
    command.arg(format!("/proc/{}/fd/{}", std::process::id(), archive.as_raw_fd()));
    // Mitigations cost a lot under emulation and protect nothing there; a host that has other work
    // lets a kernel wait for its timer until it believes that there is none. All emulated
    // processors have one time stamp counter, but on a busy host they seem to differ, and a kernel
    // then takes the time from the HPET, which is an emulated device.
    let common = "quiet loglevel=3 panic=-1 mitigations=off no_timer_check tsc=reliable rdinit=/init";
    command.args(["-append", &format!("console={} {common} {words}", kernel.processor.console())]);
}

/// How long a machine may write nothing before it is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SilenceLimits {
    /// On its console, until the first byte.
    pub(crate) start: Duration,
    /// At all. A machine on a busy host may take long, but its cases end one by one.
    pub(crate) then: Duration,
}

/// The first program of a machine writes to its console at once, some seconds after the start of
/// QEMU. Now and then an emulated machine with several processors hangs before that, in its kernel.
const START_MAX: Duration = Duration::from_secs(120);
/// So many machines are started for cases of which none has begun.
const STARTS_MAX: u32 = 3;
/// What is said of a machine that hangs there.
const NOT_STARTED: &str = "the machine did not start: its console stayed empty";

/// What the machine wrote until it ended.
pub(crate) fn watch(command: &mut Command, limits: SilenceLimits, stop: &AtomicBool) -> Result<String> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Guarded(child.context("cannot start QEMU by setpriv")?);
    let begun = Instant::now();
    let [console, errors] = [(); 2].map(|()| Arc::new(Mutex::new(begun)));
    let readers = [reader(child.0.stdout.take(), &console), reader(child.0.stderr.take(), &errors)];
    let mut ending = String::new();
    while child.0.try_wait()?.is_none() {
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        let [console, errors] =
            [&console, &errors].map(|last| *last.lock().unwrap_or_else(PoisonError::into_inner));
        if console == begun && begun.elapsed() > limits.start {
            ending = format!("{NOT_STARTED} for {:?}\n", limits.start);
            child.0.kill()?;
        } else if console.max(errors).elapsed() > limits.then {
            ending = format!("the machine was ended: it wrote nothing for {:?}\n", limits.then);
            child.0.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let [out, error] = readers.map(|reader| reader.join().unwrap_or_default());
    Ok(format!("{out}\n{error}{ending}"))
}

/// Arguments for the devices of these cases, each device once.
fn devices<'a>(cases: &'a [&Case]) -> impl Iterator<Item = &'static str> + 'a {
    let sets: BTreeSet<&'static str> = cases.iter().map(|case| case.devices).collect();
    sets.into_iter().flat_map(str::split_whitespace)
}

/// A file that is gone when we are, however we end.
pub(crate) fn nameless() -> Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("wirerate-vm-{}-{number}.cpio", std::process::id()));
    let file = File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(file)
}

/// QEMU, which ends when this is dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It has ended in the usual case.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Collects all that comes, and keeps in `last` when something came.
fn reader(from: Option<impl Read + Send + 'static>, last: &Arc<Mutex<Instant>>) -> JoinHandle<String> {
    let last = Arc::clone(last);
    std::thread::spawn(move || {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        let Some(mut from) = from else { return String::new() };
        // An error ends it like the end does: what came before is all there is to tell.
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Machines in a row that may end before their first case has; the next ones would end so, too.
const BARREN_MAX: usize = 2;

/// The outcome of each case. `run` starts a machine that runs the cases given to it, and returns
/// what it wrote until it ended. The first case without an outcome has failed, and others without
/// one get another machine.
fn run_all(cases: &[&Case], run: impl Fn(&[&Case]) -> Result<String>) -> Result<Vec<CaseOutcome>> {
    let (mut outcomes, mut left, mut barren) = (HashMap::new(), cases.to_vec(), 0);
    while !left.is_empty() {
        let said = run(&left)?;
        let came = CaseOutcome::all_in(&said);
        barren = if came.is_empty() { barren + 1 } else { 0 };
        outcomes.extend(came.into_iter().map(|outcome| (outcome.case.clone(), outcome)));
        left.retain(|case| !outcomes.contains_key(case.name));
        let lost = if barren == BARREN_MAX { left.len() } else { 1.min(left.len()) };
        let failed = left.drain(..lost).map(|case| (case.name.to_owned(), broken_off(case, &said)));
        outcomes.extend(failed);
    }
    Ok(cases.iter().filter_map(|case| outcomes.remove(case.name)).collect())
}

/// A case without an outcome, with the last words of its machine: the very last come first, since
/// lists of failures show one line of each.
fn broken_off(case: &Case, said: &str) -> CaseOutcome {
    let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = lines.last().unwrap_or(&"it wrote nothing");
    let before = lines[lines.len().saturating_sub(40)..].join("\n");
    CaseOutcome {
        case: case.name.to_owned(),
        ending: Ending::Failed(format!("the machine ended before it: {last}\n{before}")),
        facts: BTreeMap::new(),
        golden: BTreeMap::new(),
        rows: Vec::new(),
        took_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What cases print that passed.
    fn passed(cases: &[&Case]) -> String {
        let line = |case: &&Case| {
            let outcome = CaseOutcome { ending: Ending::Passed, ..broken_off(case, "") };
            format!("{}\n", outcome.to_line())
        };
        cases.iter().map(line).collect()
    }

    /// Which cases failed, and how many each machine was given.
    fn failed(cases: &[&Case], run: impl Fn(&[&Case]) -> String) -> (Vec<String>, Vec<usize>) {
        let given = RefCell::new(Vec::new());
        let run = |cases: &[&Case]| {
            given.borrow_mut().push(cases.len());
            Ok(run(cases))
        };
        let outcomes = run_all(cases, run).unwrap();
        let names: Vec<_> = outcomes.iter().map(|outcome| outcome.case.as_str()).collect();
        assert_eq!(names, cases.iter().map(|case| case.name).collect::<Vec<_>>());
        let failed = outcomes.into_iter().filter(|outcome| outcome.ending != Ending::Passed);
        (failed.map(|outcome| outcome.case).collect(), given.into_inner())
    }

    #[test]
    fn a_machine_that_ends_costs_the_case_in_which_it_did() {
        let cases = &crate::cases::all()[..6];
        assert_eq!(failed(cases, passed), (vec![], vec![6]));
        let third = cases[2].name;
        let ends_in_third = |cases: &[&Case]| match cases.iter().position(|case| case.name == third) {
            Some(at) => format!("{}[ 9.1] Kernel panic\n", passed(&cases[..at])),
            None => passed(cases),
        };
        assert_eq!(failed(cases, ends_in_third), (vec![third.to_owned()], vec![6, 3]));
        let spoils_third = |cases: &[&Case]| passed(cases).replace(&format!("\"{third}\""), "\u{0}");
        assert_eq!(failed(cases, spoils_third), (vec![third.to_owned()], vec![6]));
    }

    #[test]
    fn a_console_that_stays_empty_is_no_start_and_a_silent_case_is_none() {
        let limits = |start, then| {
            let [start, then] = [start, then].map(Duration::from_millis);
            SilenceLimits { start, then }
        };
        let said = |script: &str, limits| {
            watch(Command::new("sh").args(["-c", script]), limits, &AtomicBool::new(false)).unwrap()
        };
        let hangs = said("echo warning >&2; exec sleep 60", limits(300, 60_000));
        assert!(hangs.contains("warning") && hangs.contains(NOT_STARTED), "{hangs}");
        let silent = said("echo; exec sleep 60", limits(10_000, 300));
        assert!(silent.contains("it wrote nothing for 300ms") && !silent.contains(NOT_STARTED), "{silent}");
        let good = said("echo; sleep 0.5; echo done", limits(10_000, 10_000));
        assert_eq!(good.trim(), "done");
    }

    #[test]
    fn a_machine_that_never_starts_is_not_started_for_each_case() {
        let cases = &crate::cases::all()[..6];
        let never = |_: &[&Case]| "cannot make the machine ready\n\n".to_owned();
        let (failed, given) = failed(cases, never);
        assert_eq!((failed.len(), given), (6, vec![6, 5]));
        let Ending::Failed(why) = broken_off(cases[0], &never(cases)).ending else { panic!("not failed") };
        assert!(why.starts_with("the machine ended before it: cannot make the machine ready\n"), "{why}");
    }
}
