//! A machine whose init is a test of the product: one processor, and only the programs and modules
//! that the test names.

use crate::archive::{self, Archive};
use crate::machine::SilenceLimits;
use crate::{KernelSet, machine};
use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Older than what the kernel has ciphers in assembly for: under emulation those fail their
/// self-tests.
const CPU: &str = "qemu64,+rdrand,+rdseed";

/// What to start: `wirerate-vm small OPTIONS`. What the machine writes goes to standard output.
#[derive(Debug, Parser)]
#[command(name = "wirerate-vm small")]
pub struct Small {
    /// The kernel: 6.1, 6.12, newest
    #[arg(long)]
    kernel: String,
    /// Its first program; it must switch the machine off
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
    /// A program of this machine that the first one calls
    #[arg(long, value_name = "NAME")]
    program: Vec<String>,
    /// A module, which the first one finds in /modules with all that it needs
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// The machine is ended when it writes nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 400)]
    silence: u64,
}

impl Small {
    /// Runs it; what it wrote on its console.
    ///
    /// # Errors
    /// When it cannot be started: what is missing.
    pub fn run(&self) -> Result<String> {
        let lab = KernelSet::open()?;
        let kernel = lab.kernel(&self.kernel)?;
        let mut archive = Archive::create(machine::nameless()?)?;
        archive.program("init", &self.init)?;
        for name in &self.program {
            archive.program(&format!("bin/{name}"), &archive::find_program(name)?)?;
        }
        let modules: Vec<&str> = self.module.iter().map(String::as_str).collect();
        archive.modules(kernel, &modules)?;
        let archive = archive.finish()?;
        let mut command = machine::qemu(&lab, kernel, &[], CPU, 1);
        machine::start(&mut command, kernel, &archive, "");
        command.args(["-display", "none", "-serial", "stdio"]).stdin(Stdio::null());
        let silence = Duration::from_secs(self.silence);
        let limits = SilenceLimits { start: silence, then: silence };
        machine::watch(&mut command, limits, &AtomicBool::new(false))
    }
}
