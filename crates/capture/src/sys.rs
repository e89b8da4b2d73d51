//! Calls into the C library and memory that is shared with the kernel.

#![allow(unsafe_code)]

pub(crate) mod packet_socket;
pub(crate) mod pcap;
pub(crate) mod shared_ring;

/// Niceness of the threads that must keep up with a ring: before everything that has not been given
/// more right.
const NICENESS: libc::c_int = -20;

/// Asks the scheduler to let the calling thread run before others, as far as the process may ask
/// for that. A ring holds milliseconds, which is less than an ordinary thread waits for a CPU on a
/// busy machine. Not a real-time class: those are stopped for a twentieth of each second, and would
/// lock up a machine that has one CPU.
pub(crate) fn run_before_others() -> std::io::Result<()> {
    let this_thread = 0;
    // SAFETY: numbers in, a number out; no memory is touched. On Linux niceness belongs to the
    // thread.
    nix::errno::Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, this_thread, NICENESS) })?;
    Ok(())
}

/// Undoes [`run_before_others`] where the calling thread has its niceness from the one that started
/// it.
pub(crate) fn run_like_others() {
    let this_thread = 0;
    // SAFETY: numbers in, a number out; no memory is touched.
    if unsafe { libc::getpriority(libc::PRIO_PROCESS, this_thread) } == NICENESS {
        // SAFETY: as above.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, this_thread, 0) };
    }
}

/// CPU time that a thread has taken so far; none when the kernel does not report it.
pub(crate) fn cpu_time_of<T>(thread: &std::thread::JoinHandle<T>) -> std::time::Duration {
    use std::os::unix::thread::JoinHandleExt;
    let mut clock = 0;
    // SAFETY: the handle is not joined while it is borrowed, so the thread's id is good even after
    // its end; `clock` is ours and lives during the call.
    let result =
        unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t() as libc::pthread_t, &raw mut clock) };
    if result != 0 {
        return std::time::Duration::ZERO;
    }
    let now = nix::time::clock_gettime(nix::time::ClockId::from_raw(clock));
    now.map_or(std::time::Duration::ZERO, std::time::Duration::from)
}

/// The kernel ends `child` once it has taken so much CPU time.
pub(crate) fn limit_cpu_time_s(child: &std::process::Child, limit_s: u64) {
    let limit = libc::rlimit64 { rlim_cur: limit_s, rlim_max: limit_s };
    // SAFETY: `limit` is ours and lives during the call; nothing is written. The child has not been
    // waited for, so its process ID is not used again. If it has ended, its limit does not matter.
    unsafe {
        libc::prlimit64(child.id().cast_signed(), libc::RLIMIT_CPU, &raw const limit, std::ptr::null_mut())
    };
}

/// Bytes of memory of this machine; 0 if the kernel does not report it.
pub(crate) fn memory_size_bytes() -> u64 {
    nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total())
}

/// Bytes that come into a CPU's cache at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_LEN: usize = 64;

/// Asks for two lines from place `at` of `bytes` on to be in the cache soon: head and the default
/// snaplen of a slot. What follows in a longer one the CPU fetches by itself; an address beyond
/// `bytes` does no harm.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in [at, at + CACHE_LINE_LEN] {
        // SAFETY: a hint: it reads nothing that the program sees, writes nothing, and no address
        // makes it fault. SSE is part of the architecture.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(line).cast()) };
    }
}

/// Other CPUs find out by themselves what is read next.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn prefetch(_: &[u8], _: usize) {}
