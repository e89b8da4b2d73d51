//! The time zone of this host.

/// Seconds that local time is east of UTC now.
#[must_use]
pub fn local_utc_offset_s() -> i32 {
    // SAFETY: without an argument to write to, `time` touches no memory of ours.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: all zeros is a value of this plain structure.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values that live during the call; the call reads one and fills
    // the other.
    let is_known = !unsafe { libc::localtime_r(&raw const now, &raw mut local) }.is_null();
    if is_known { local.tm_gmtoff as i32 } else { 0 }
}
