//! Calls that neither std nor nix make safe: mounting a link, and the child's calls before it
//! executes CMD.

use nix::sys::signal::{SigSet, Signal};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{mem, ptr};

/// Mounts what is at `from` over what is at `to`; neither is followed when it is a symbolic link.
///
/// # Errors
/// `ENOSYS` before Linux 5.2, `EPERM` without CAP_SYS_ADMIN, or what a look-up of either path
/// answers.
pub(crate) fn bind_no_follow(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_SYMLINK_NOFOLLOW as u32;
    // SAFETY: `from` is a NUL-terminated string that outlives the call; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, from.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).expect("a descriptor fits 31 bits");
    // SAFETY: the call above has just returned this descriptor, and no other code has its number.
    let tree = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: both strings are NUL-terminated and outlive the call, which only reads them; `tree`
    // is open.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the child start with the signal mask `mask`, and get SIGTERM when the thread that starts
/// it ends.
pub(crate) fn prepare_child(command: &mut Command, mask: SigSet) {
    let parent = std::process::id();
    let act = move || {
        mask.thread_set_mask()?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        if nix::unistd::getppid().as_raw().cast_unsigned() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec `act` makes three system calls (sigprocmask, prctl, getppid),
    // all async-signal-safe; it allocates nothing, takes no lock, and owns the two plain values it
    // reads.
    unsafe { command.pre_exec(act) };
}

/// True when this process was started with `signal` ignored, as `nohup` and background jobs do.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut now = mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `now` is a whole `sigaction` that the kernel may fill.
    let asked = unsafe { libc::sigaction(signal as i32, ptr::null(), now.as_mut_ptr()) };
    // SAFETY: zeroed before, so it is initialised whether or not the kernel filled it.
    let now = unsafe { now.assume_init() };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Lets this process hear of its children's ends even if it was started with SIGCHLD ignored.
pub(crate) fn heed_children() {
    // SAFETY: SIG_DFL installs no handler, so no code of ours can run at an unsafe time.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
