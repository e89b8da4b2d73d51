//! Runs another command in the mount namespace of a running `exec`.

use crate::exec::{ExecError, run_and_wait};
use crate::mount_ns::MountNamespace;
use crate::running::{marks_of, owner};
use nix::sched::{CloneFlags, setns};
use std::ffi::OsString;
use std::fs::File;
use std::io;

/// Runs a command beside that of a running `exec`, with its control files and in its network
/// namespace: `target` is the name that it was given, or the number of a process inside.
///
/// # Errors
/// [`ExecError`] when there is none, or the command could not be started or waited for.
pub fn join(target: &str, program: &OsString, args: &[OsString]) -> Result<u8, ExecError> {
    let pid = match target.parse() {
        Ok(pid) => pid,
        Err(_) => owner(target).ok_or_else(|| ExecError::NotRunning { target: target.to_owned() })?,
    };
    let Some(mark) = marks_of(pid).pop() else {
        return Err(ExecError::NotRunning { target: target.to_owned() });
    };
    let enter = |step: &'static str| move |source| ExecError::Join { step, pid, source };
    let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}")).map_err(enter("find"));
    let (netns, mounts) = (open("net")?, open("mnt")?);
    let folder = std::env::current_dir().map_err(enter("leave our folder for"))?;
    setns(netns, CloneFlags::CLONE_NEWNET).map_err(io::Error::from).map_err(enter("enter"))?;
    setns(mounts, CloneFlags::CLONE_NEWNS).map_err(io::Error::from).map_err(enter("enter"))?;
    // To enter a mount namespace leads to its root directory.
    std::env::set_current_dir(folder).map_err(enter("find our folder in"))?;
    run_and_wait(program, args, &MountNamespace::at(mark.dir))
}
