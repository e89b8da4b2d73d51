//! The capabilities of another process, as the kernel's `capable()` would find them.

use crate::Right;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// True if the thread `tid` has the capability `right` in our user namespace. For a daemon of the
/// host that is the initial one, so root inside a container with its own user namespace does not
/// have it.
///
/// FUSE reports threads outside our PID namespace as zero, which has no capabilities. The caller
/// ensures that the thread cannot end meanwhile, because its id could be reused; a thread that
/// waits for a FUSE answer cannot.
pub fn thread_has_right(tid: u32, right: Right) -> bool {
    if tid == 0 || !is_proc_of_our_pid_namespace() {
        return false;
    }
    let dir = format!("/proc/{tid}");
    let status = fs::read_to_string(Path::new(&dir).join("status")).unwrap_or_default();
    right.is_in(&status) && user_namespace(&dir) == user_namespace("/proc/self")
}

/// `/proc` has the ids of the PID namespace that it was mounted for, which may be an outer one
/// (`unshare --pid` without `--mount-proc`).
fn is_proc_of_our_pid_namespace() -> bool {
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    let read = || fs::read_to_string("/proc/self/status").is_ok_and(|status| has_one_pid(&status));
    *IS_OURS.get_or_init(read)
}

/// `NSpid` lists the id of a process in each PID namespace from that of `/proc` down to its own.
/// Kernels without PID namespaces do not have the line.
fn has_one_pid(status: &str) -> bool {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_none_or(|pids| pids.split_whitespace().count() == 1)
}

/// Identity of the user namespace; `None` in kernels without user namespaces.
fn user_namespace(dir: &str) -> Option<(u64, u64)> {
    let meta = fs::metadata(Path::new(dir).join("ns/user")).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_outside_our_pid_namespace_has_no_right() {
        assert!(!thread_has_right(0, Right::NetAdmin));
    }

    #[test]
    fn a_proc_of_an_outer_pid_namespace_is_told_apart() {
        assert!(has_one_pid("Name:\tx\nNSpid:\t4711\n"));
        assert!(has_one_pid("Name:\tx\n"));
        assert!(!has_one_pid("NSpid:\t4711\t1\n"));
    }

    #[test]
    fn this_thread_has_the_rights_that_its_status_shows() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        let has_net_admin = u64::from_str_radix(held, 16).unwrap() >> 12 & 1 == 1;
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        assert_eq!(thread_has_right(tid, Right::NetAdmin), has_net_admin);
    }
}
