//! Inside a machine: this program is its init. It prepares the kernel, runs the requested cases,
//! and switches the machine off.

mod load;
mod shell;

pub use load::{load, unload};
pub use shell::{Background, sh, try_sh};

use crate::cases::{self, CaseReport};
use crate::{CaseOutcome, Ending};
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// On the kernel's command line: the names of the cases to run, with commas.
pub(crate) const CASES_PARAMETER: &str = "wirerate_cases";
/// On the kernel's command line: a shell instead.
pub(crate) const SHELL_PARAMETER: &str = "wirerate_shell";
/// What every machine loads at its start, as far as its kernel does not have it built in.
pub(crate) const MODULES: &[&str] =
    &["af_packet", "fuse", "sch_ingress", "cls_bpf", "sch_prio", "tun", "veth"];
/// In machines with systemd, which is their init then, and runs the cases.
const SYSTEMD: &str = "/lib/systemd/systemd";
const FOLDERS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("bpf", "/sys/fs/bpf"),
];

/// True where this program is the first of a machine.
#[must_use]
pub fn is_init() -> bool {
    std::process::id() == 1
}

/// True where the kernel called this program to load a module.
#[must_use]
pub fn is_modprobe() -> bool {
    std::env::args().next().is_some_and(|name| name.rsplit('/').next() == Some("modprobe"))
}

/// As `modprobe`: loads what is named, quietly. The exit code.
#[must_use]
pub fn modprobe() -> i32 {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let Some((name, parameters)) = words.split_first() else { return 1 };
    i32::from(load(name, &parameters.join(" ")).is_err())
}

/// Runs the cases and does not return.
pub fn main() -> ! {
    println!();
    if Path::new(SYSTEMD).exists() {
        let refused = load_modules().and_then(|()| Err(Command::new(SYSTEMD).exec().into()));
        println!("cannot start systemd: {:#}", refused.unwrap_or_else(|why: anyhow::Error| why));
    } else if let Err(why) = prepare() {
        println!("cannot make the machine ready: {why:#}");
    } else {
        let words = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        if words.split_whitespace().any(|word| word == SHELL_PARAMETER) {
            println!("wirerate is in PATH; `exit` switches off");
            // In a session of its own, with the serial line as its terminal.
            let ended = Command::new("/bin/busybox").args(["setsid", "-c", "/bin/bash"]).status();
            println!("{ended:?}");
        }
        let names =
            words.split_whitespace().find_map(|word| word.strip_prefix(CASES_PARAMETER)?.strip_prefix('='));
        names.into_iter().flat_map(|names| names.split(',')).for_each(run);
    }
    // The host runs QEMU with -no-reboot.
    let refused = reboot(RebootMode::RB_AUTOBOOT);
    panic!("the machine goes on: {refused:?}");
}

/// Each in a process of its own, so that one that dies is one.
fn run(name: &str) {
    let status = Command::new("/proc/self/exe").arg0("case").env("WIRERATE_CASE", name).status();
    if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
        let ending = Ending::Failed(format!("its process ended with {status:?}"));
        println!(
            "{}",
            CaseOutcome {
                case: name.to_owned(),
                ending,
                facts: Default::default(),
                golden: Default::default(),
                rows: Vec::new(),
                took_ms: 0
            }
            .to_line()
        );
    }
}

/// In a process of a case: runs it and says how it ended. `false` when this is no such process.
pub fn run_case() -> bool {
    let Ok(name) = std::env::var("WIRERATE_CASE") else { return false };
    let started = Instant::now();
    let mut finding = CaseReport::default();
    let ending = match cases::find(&name) {
        None => Ending::Failed("there is no such case".to_owned()),
        Some(case) => match (case.run)(&mut finding) {
            Ok(()) => finding.lacks.map_or(Ending::Passed, Ending::Lacks),
            Err(why) => Ending::Failed(format!("{why:#}")),
        },
    };
    let took_ms = started.elapsed().as_millis() as u64;
    println!(
        "{}",
        CaseOutcome {
            case: name,
            ending,
            facts: finding.facts,
            golden: finding.golden,
            rows: finding.rows,
            took_ms
        }
        .to_line()
    );
    true
}

fn prepare() -> Result<()> {
    for (kind, path) in FOLDERS {
        // `/sys/fs/bpf` and the like exist once what is above them is mounted.
        fs::create_dir_all(path).ok();
        mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("cannot mount {path}"))?;
    }
    load_modules()?;
    sh("ip link set lo up")?;
    Ok(())
}

fn load_modules() -> Result<()> {
    MODULES.iter().copied().try_for_each(|name| load(name, ""))
}
