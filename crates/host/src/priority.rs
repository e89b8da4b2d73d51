//! The priority of the threads of this process among those of others.

use nix::errno::Errno;

/// The nice value of a measurement: before the programs of users, behind the kernel's own threads
/// with real-time priority.
const NICE: i32 = -15;

/// Lets the calling thread, and threads that it starts from now on, run before programs with normal
/// priority.
///
/// # Errors
/// Without CAP_SYS_NICE (EACCES).
pub fn raise_priority() -> Result<(), Errno> {
    // SAFETY: setpriority takes no pointers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    Errno::result(result).map(drop)
}
