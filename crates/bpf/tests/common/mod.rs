//! What every test of programs in the kernel needs.

/// What XDP programs answer.
pub(crate) const XDP_DROP: u32 = 1;
/// The frame goes on to the host.
pub(crate) const XDP_PASS: u32 = 2;
/// The frame leaves by the device that it came from.
#[allow(dead_code, reason = "not every test program has such frames")]
pub(crate) const XDP_TX: u32 = 3;

/// A program of more verified instructions takes more than 0.1 s to load.
#[allow(dead_code, reason = "not every test program loads such programs")]
pub(crate) fn check_loads_soon(program: std::os::fd::BorrowedFd<'_>, what: &dyn std::fmt::Debug) {
    const MAX: u32 = 100_000;
    let count = bpf::sys::verified_instructions(program).expect("the kernel tells");
    assert!((1..MAX).contains(&count), "the verifier follows {count} instructions: {what:?}");
}

/// True when this process may load programs; if not, the calling test is skipped.
pub(crate) fn may_load() -> bool {
    testkit::is_root("CAP_BPF")
}
