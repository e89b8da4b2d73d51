//! Finds running `exec`s in mount tables.
//!
//! The mount table of every process inside names its `exec`: the private directory is a tmpfs with
//! the source `wirerate-exec:PID:NAME`. So there is no file that can become stale.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Start of the source that the tmpfs of an `exec` carries.
const SOURCE: &str = "wirerate-exec:";

/// The source for the process `pid` and its name, which may be empty.
pub(crate) fn source(pid: u32, name: &str) -> String {
    format!("{SOURCE}{pid}:{name}")
}

/// One `exec` in a mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecMount {
    pid: u32,
    name: String,
    pub(crate) dir: PathBuf,
}

/// The process of the running `exec` called `name`.
pub(crate) fn owner(name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let owners: BTreeSet<u32> =
        pids.flat_map(marks_of).filter(|mark| mark.name == name).map(|mark| mark.pid).collect();
    // The mounts of a killed one have the number of a process that has ended.
    owners.into_iter().find(|pid| marks_of(*pid).iter().any(|mark| mark.pid == *pid && mark.name == name))
}

/// The `exec`s that the process `pid` is inside of, the innermost last.
pub(crate) fn marks_of(pid: u32) -> Vec<ExecMount> {
    let table = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("mountinfo"));
    table.unwrap_or_default().lines().filter_map(mark).collect()
}

/// A line of proc_pid_mountinfo(5).
fn mark(line: &str) -> Option<ExecMount> {
    let (before, after) = line.split_once(" - ")?;
    let (pid, name) = after.split(' ').nth(1)?.strip_prefix(SOURCE)?.split_once(':')?;
    let root = before.split(' ').nth(3)?;
    let dir = before.split(' ').nth(4)?;
    // Other mounts of this tmpfs show files of it.
    (root == "/").then_some(ExecMount { pid: pid.parse().ok()?, name: name.to_owned(), dir: dir.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_table_names_its_exec() {
        let line = "52 30 0:47 / /proc/tty/ldisc rw,nosuid - tmpfs wirerate-exec:77:lab rw,size=1024k";
        let expected = ExecMount { pid: 77, name: "lab".into(), dir: "/proc/tty/ldisc".into() };
        assert_eq!(mark(line), Some(expected));
        assert_eq!(mark(&line.replace(" / ", " /bin/ip ")), None, "a file of it, over another");
        assert_eq!(mark("40 22 0:50 / /run/wirerate/pktgen rw - fuse wirerate:77 rw"), None);
        assert_eq!(owner("never-started"), None);
    }
}
