//! Debian's kernel in a virtual machine with this program as its init, and nothing else but `ip`.

use crate::guest::MARK;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The oldest: the case `candidates` shows what is done where a kernel cannot do everything.
const KERNEL: &str = "6.1";
/// What starts machines, of the workspace in `lab`; both share a folder for what they build.
const STARTER: &str = "wirerate-vm";
/// Those that ESP, AH and the wire need; the kernel has the others built in.
const WANTED_MODULES: &[&str] = &[
    "ah4",
    "authenc",
    "authencesn",
    "ctr",
    "drbg",
    "echainiv",
    "esp4",
    "gcm",
    "gf128mul",
    "ghash-generic",
    "seqiv",
    "tunnel4",
    "veth",
    "xfrm4_tunnel",
    "xfrm_algo",
    "xfrm_user",
];

/// Runs all cases there: by name, `None` for good, else the reason.
///
/// # Errors
/// What this machine lacks.
pub(crate) fn run() -> Result<HashMap<String, Option<String>>, String> {
    let init = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = init.parent().and_then(Path::parent).ok_or("this program is in no folder")?;
    let starter = folder.join(STARTER);
    if !starter.exists() {
        return Err(format!("no {}; try: cd lab && cargo build --profile ci", starter.display()));
    }
    // It ends when the thread of this test does.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(starter).args(["small", "--kernel", KERNEL, "--init"]);
    command.arg(&init).args(["--program", "ip"]);
    command.args(WANTED_MODULES.iter().flat_map(|name| ["--module", name]));
    let output = command.output().map_err(|error| format!("cannot run setpriv: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// The lines that carry the mark. A machine that ended early has its last words in place of a
/// reason.
fn read(output: &str) -> HashMap<String, Option<String>> {
    let lines = output.lines().filter_map(|line| line.trim_end().strip_prefix(MARK));
    let mut all: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, ending)| (name.to_owned(), (ending != "ok").then(|| ending.to_owned())))
        .collect();
    if !output.contains(&format!("{MARK}end")) || all.contains_key("prepare") {
        let tail: Vec<&str> = output.lines().rev().take(40).collect();
        let words = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        for (name, _) in crate::everything() {
            all.entry(name.to_owned()).or_insert_with(|| Some(words.clone()));
        }
    }
    all
}
