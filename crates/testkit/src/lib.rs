//! Test support for all crates: skips, temporary folders, golden files, fuzz rounds, damaged
//! files, a strict reader of metrics, JSON lines and their schemas.
//!
//! A skip is printed to standard error past the test harness, which hides the output of tests that
//! pass, and is written to the file that `WIRERATE_SKIPS` names. `make test` prints that list at
//! its end. With `CI=true` in the environment a skip is a failure.

#![forbid(unsafe_code)]

mod exposition;
mod folder;
mod fuzz;
mod golden;
mod json_lines;
mod spoil;

pub use exposition::{Exposition, Sample};
pub use folder::Folder;
pub use fuzz::Fuzzer;
pub use golden::{compare, golden};
pub use json_lines::{check_json, check_json_lines, check_json_with};
pub use spoil::spoil;

use libtest_mimic::{Completion, Failed};
use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs of virtual machines find kernel modules, all in one folder.
pub const MACHINE_MODULES: &str = "/modules";

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// True where a test may not be skipped: CI has everything that the tests need.
pub fn is_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

/// Skips the calling test, which returns after this; `why` says what the machine lacks, as in
/// "needs root".
///
/// # Panics
/// With `CI=true`.
#[track_caller]
pub fn skip(why: impl Display) {
    assert!(!is_ci(), "cannot run: {why}");
    let thread = std::thread::current();
    // The harness runs tests on threads of their name, unless `--test-threads=1` puts them on the
    // main thread.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    record(&format!("{test}: {why}"));
}

/// Returns from the calling test if a check such as [`is_root`] skipped it. A test that returns
/// something names that as well.
#[macro_export]
macro_rules! needs {
    ($is_given:expr $(, $value:expr)?) => {
        if !$is_given {
            return $($value)?;
        }
    };
}

/// [`skip`] for a trial of `libtest_mimic`, which counts it as ignored.
///
/// # Errors
/// With `CI=true`.
pub fn skip_trial(name: &str, why: impl Display) -> Result<Completion, Failed> {
    if is_ci() {
        return Err(format!("cannot run: {why}").into());
    }
    record(&format!("{name}: {why}"));
    Ok(Completion::ignored_with(format!("skipped: {why}")))
}

/// True for root. For other users the calling test is skipped, for want of `capabilities`.
///
/// # Panics
/// With `CI=true`, where the user is not root.
#[track_caller]
pub fn is_root(capabilities: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(format_args!("needs root ({capabilities})"));
    }
    is_root
}

/// True when FUSE file systems can be mounted. If not, the calling test is skipped.
///
/// # Panics
/// With `CI=true`, where they cannot.
#[track_caller]
pub fn can_mount_fuse() -> bool {
    let has_device = std::path::Path::new("/dev/fuse").exists();
    if !has_device {
        skip("needs /dev/fuse");
    }
    has_device && is_root("CAP_SYS_ADMIN")
}

/// True when `program` can be started. Without it the calling test is skipped.
///
/// # Panics
/// With `CI=true`, where the program is missing.
#[track_caller]
pub fn has_program(program: &str) -> bool {
    let silent = Stdio::null;
    let started = Command::new(program).arg("--version").stdout(silent()).stderr(silent()).status();
    if started.is_err() {
        skip(format_args!("needs {program}"));
    }
    started.is_ok()
}

fn record(line: &str) {
    // Not `eprintln!`, whose output the harness hides when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {line}");
    if let Some(path) = std::env::var_os("WIRERATE_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        // One write each, since several test programs may append at the same time.
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        assert!(written.is_ok(), "cannot write to the file that WIRERATE_SKIPS names: {written:?}");
    }
}
