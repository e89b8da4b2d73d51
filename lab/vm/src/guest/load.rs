//! Loads kernel modules, each after those that it depends on.

use crate::module;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, delete_module, init_module};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// For those who use a module that is to go.
const TIMEOUT: Duration = Duration::from_secs(10);

fn path(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/{}.ko", testkit::MACHINE_MODULES, name.replace('-', "_")))
}

/// Loads a module. One that is not there is taken as built in: what needs it will say so if it is
/// not.
///
/// # Errors
/// What the kernel says of the module.
pub fn load(name: &str, parameters: &str) -> Result<()> {
    let path = path(name);
    if !path.exists() {
        return Ok(());
    }
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    module::needs(&bytes).iter().try_for_each(|needed| load(needed, ""))?;
    let words = CString::new(parameters).context("parameters of a module hold no NUL")?;
    match init_module(&bytes, &words) {
        // ENODEV: for a processor that this one is not.
        Ok(()) | Err(Errno::EEXIST | Errno::ENODEV) => Ok(()),
        Err(errno) => Err(errno).with_context(|| format!("cannot load the module {name}")),
    }
}

/// Takes a module out of the kernel again, if it is there.
///
/// # Errors
/// When it is in use, after a while, or built in.
pub fn unload(name: &str) -> Result<()> {
    if !Path::new(&format!("/sys/module/{}", name.replace('-', "_"))).exists() {
        return Ok(());
    }
    let words = CString::new(name).context("names of modules hold no NUL")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        // What used it may be on its way out.
        match delete_module(&words, DeleteModuleFlags::O_NONBLOCK) {
            Err(Errno::EAGAIN) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(errno).with_context(|| format!("cannot unload the module {name}")),
        }
    }
}
