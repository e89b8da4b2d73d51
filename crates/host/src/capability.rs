//! Dropping capabilities of a thread.

use nix::errno::Errno;
use std::io;

/// A capability that a thread may keep (`linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// Access files and directories of other users (`CAP_DAC_OVERRIDE`).
    DacOverride = 1,
    /// Remove files of other users from directories such as /tmp (`CAP_FOWNER`).
    Fowner = 3,
}

/// `_LINUX_CAPABILITY_VERSION_3`: two words per set.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops all capabilities of the calling thread except those in `kept`. Threads that it starts
/// inherit the rest; programs that it executes as root get all capabilities.
///
/// # Errors
/// Error of the kernel; dropping is always allowed.
pub fn keep_capabilities(kept: &[Capability]) -> io::Result<()> {
    let (header, mut sets) = (CapabilityHeader { version: VERSION, pid: 0 }, [Words::default(); 2]);
    // SAFETY: `header` and the two words of `sets` live during the call, which fills `sets` as
    // version 3 lays it out.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    let mask = kept.iter().fold(0, |mask, capability| mask | 1 << *capability as u32);
    let low =
        Words { effective: sets[0].effective & mask, permitted: sets[0].permitted & mask, inheritable: 0 };
    let sets = [low, Words::default()];
    // SAFETY: as above; the call reads both.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    fn effective() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(held.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_keeps_what_it_names_and_other_threads_keep_theirs() {
        let before = effective();
        let left = thread::spawn(|| {
            keep_capabilities(&[Capability::DacOverride]).unwrap();
            (effective(), thread::spawn(effective).join().unwrap())
        });
        let kept = before & 1 << Capability::DacOverride as u32;
        assert_eq!(left.join().unwrap(), (kept, kept));
        assert_eq!(effective(), before);
    }
}
