//! Scripts in a machine, run by dash; a failure has all their output.

use anyhow::{Context, Result, bail};
use std::process::{Child, Command, Output, Stdio};

/// Runs a script; what it wrote to stdout.
///
/// # Errors
/// When it fails: the script, its status and all it wrote.
pub fn sh(script: &str) -> Result<String> {
    let output = try_sh(script)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if !output.status.success() {
        bail!("{}\n$ {script}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a script that may fail.
///
/// # Errors
/// When there is no shell.
pub fn try_sh(script: &str) -> Result<Output> {
    shell(script).stdin(Stdio::null()).output().context("cannot run a shell")
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-ec", script]).env("PATH", "/bin:/sbin").env("HOME", "/root").env("LANG", "C.UTF-8");
    command
}

/// A program that runs beside the case and ends with it.
pub struct Background(Child);

impl Background {
    /// Starts a script; it should `exec` its program.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start(script: &str) -> Result<Self> {
        Ok(Self(
            shell(script).stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot run a shell")?,
        ))
    }

    /// Whether it ended by itself.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn is_over(&mut self) -> Result<bool> {
        Ok(self.0.try_wait().context("cannot wait for it")?.is_some())
    }

    /// Ends it as Ctrl-C would and waits for it.
    ///
    /// # Errors
    /// When it cannot be told, or ended before.
    pub fn interrupt(mut self) -> Result<()> {
        sh(&format!("kill -INT {}", self.0.id()))?;
        self.0.wait().context("cannot wait for it")?;
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
