//! The first and only program of the virtual machine: makes the kernel ready, runs all cases, says
//! how they ended, and switches off.

use crate::everything;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs::{self, File};
use std::path::Path;
use testkit::MACHINE_MODULES as MODULES;

/// In front of every line that the host reads.
pub(crate) const MARK: &str = "wirerate-guest: ";

/// Runs the cases and does not return.
pub(crate) fn main() -> ! {
    println!();
    match prepare() {
        Ok(()) => everything().into_iter().for_each(|(name, body)| {
            let ending = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
                Ok(Ok(())) => "ok".to_owned(),
                Ok(Err(why)) => format!("failed {:?}", why.message().unwrap_or("without a reason")),
                Err(_) => "failed \"it panicked\"".to_owned(),
            };
            println!("{MARK}{name} {ending}");
        }),
        Err(why) => println!("{MARK}prepare failed {why:?}"),
    }
    println!("{MARK}end");
    // The host runs QEMU with -no-reboot.
    let refused = reboot(RebootMode::RB_AUTOBOOT);
    panic!("the machine goes on: {refused:?}");
}

fn prepare() -> Result<(), String> {
    for (kind, path) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")] {
        let flags = MsFlags::empty();
        mount(Some(kind), path, Some(kind), flags, None::<&str>)
            .map_err(|errno| format!("{path}: {errno}"))?;
    }
    let mut left: Vec<_> = fs::read_dir(MODULES)
        .map_err(|error| format!("{MODULES}: {error}"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // A module that needs another goes in once that is there.
    loop {
        let before = left.len();
        left.retain(|path| load(path).is_err());
        match left.len() {
            0 => return Ok(()),
            same if same == before => return Err(format!("modules that do not load: {left:?}")),
            _ => {}
        }
    }
}

fn load(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    match finit_module(&file, c"", ModuleInitFlags::empty()) {
        // ENODEV: for a processor that this one is not, such as AES-NI.
        Ok(()) | Err(nix::errno::Errno::EEXIST | nix::errno::Errno::ENODEV) => Ok(()),
        Err(errno) => Err(errno.to_string()),
    }
}
