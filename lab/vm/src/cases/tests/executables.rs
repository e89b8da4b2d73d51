//! The executables of tests: cargo reports their paths and builds missing ones.

use super::chosen::CHOSEN;
use crate::archive::{self, Archive};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where they are in a machine.
pub(super) const FOLDER: &str = "/tests";
/// Programs that they call, beside those of every machine.
const PROGRAMS: &[&str] = &["capinfos", "dumpcap", "editcap", "ping", "zstd"];

/// What busybox does there for them.
const APPLETS: &[&str] = &["mktemp", "uniq"];

/// Puts them and what they call into an archive.
pub(crate) fn add(archive: &mut Archive) -> Result<()> {
    // All machines have the same.
    static ALL: OnceLock<Result<Vec<(String, PathBuf)>, String>> = OnceLock::new();
    let all = ALL.get_or_init(|| build().map_err(|why| format!("{why:#}")));
    match all {
        Ok(all) => {
            let name = |name| format!("{}/{name}", &FOLDER[1..]);
            all.iter().try_for_each(|(test, path)| archive.stripped(&name(test), path))?;
        }
        Err(why) => bail!("{why}"),
    }
    APPLETS.iter().try_for_each(|applet| archive.link(&format!("bin/{applet}"), "busybox"))?;
    PROGRAMS
        .iter()
        .try_for_each(|name| archive.program(&format!("bin/{name}"), &archive::find_program(name)?))
}

/// Those that are wanted, by the names of their tests.
fn build() -> Result<Vec<(String, PathBuf)>> {
    let wanted: BTreeSet<&str> =
        CHOSEN.iter().map(|chosen| chosen.executable).chain([super::PROGRAMS]).collect();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    // All tests of the workspace in the profile of `make test`, which has built them: with
    // `--test NAME` the features of crates differ, and cargo would build most of them again.
    command.args([
        "test",
        "--profile=ci",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    command.current_dir(testkit::root());
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo could not build the tests: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let all: Vec<_> =
        text.lines().filter_map(executable).filter(|(name, _)| wanted.contains(name.as_str())).collect();
    ensure!(all.len() == wanted.len(), "cargo built {all:?}, wanted were {wanted:?}");
    Ok(all)
}

/// Name and path, if that is what a line of cargo is about.
fn executable(line: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message["executable"].as_str()?;
    let is_test = message["target"]["kind"][0] == "test";
    is_test.then(|| (message["target"]["name"].as_str().unwrap_or_default().to_owned(), PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_understood() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"wire"},"executable":"/t/wire-1"}"#;
        assert_eq!(executable(line), Some(("wire".to_owned(), PathBuf::from("/t/wire-1"))));
        assert_eq!(executable(&line.replace("[\"test\"]", "[\"bin\"]")), None);
        assert_eq!(executable(&line.replace("\"/t/wire-1\"", "null")), None);
        assert_eq!(executable("Compiling"), None);
    }
}
