//! A machine whose init is a test of another crate: one processor, and only the programs and
//! modules that the test names.

use crate::archive::{self, Archive};
use crate::{KernelSet, machine};
use anyhow::Result;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Older than what the kernel has ciphers in assembly for: under emulation those fail their
/// self-tests.
const CPU: &str = "qemu64,+rdrand,+rdseed";

/// What to start.
#[derive(Debug)]
pub struct Small<'a> {
    /// `6.1`, `6.12` or `newest`.
    pub kernel: &'a str,
    /// Its first program; it must switch the machine off.
    pub init: &'a Path,
    /// Programs of this machine that it calls.
    pub programs: &'a [&'a str],
    /// Modules, which it finds in [`MODULES`](crate::MODULES) with all that they need.
    pub modules: &'a [&'a str],
    /// The machine is ended when it writes nothing for so long.
    pub silence: Duration,
}

impl Small<'_> {
    /// Runs it; what it wrote on its console.
    ///
    /// # Errors
    /// When it cannot be started: what is missing.
    pub fn run(&self) -> Result<String> {
        let lab = KernelSet::open()?;
        let kernel = lab.kernel(self.kernel)?;
        let mut archive = Archive::create(machine::nameless()?)?;
        archive.program("init", self.init)?;
        for name in self.programs {
            archive.program(&format!("bin/{name}"), &archive::find_program(name)?)?;
        }
        archive.modules(kernel, self.modules)?;
        let archive = archive.finish()?;
        let mut command = machine::qemu(&lab, kernel, &[], CPU, 1);
        machine::start(&mut command, kernel, &archive, "");
        command.args(["-display", "none", "-serial", "stdio"]).stdin(Stdio::null());
        machine::watch(&mut command, self.silence, &AtomicBool::new(false))
    }
}
