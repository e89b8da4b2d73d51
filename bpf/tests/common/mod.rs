//! What every test of programs in the kernel needs.

/// What XDP programs answer.
pub(crate) const XDP_DROP: u32 = 1;
/// The frame goes on to the host.
pub(crate) const XDP_PASS: u32 = 2;

/// True when this process may load programs. Without that right a test is skipped aloud, and in CI it fails.
pub(crate) fn may_load() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI must run this test with CAP_BPF");
        eprintln!("skip: needs CAP_BPF");
    }
    is_root
}
