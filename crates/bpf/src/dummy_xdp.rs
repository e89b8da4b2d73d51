//! A dummy XDP program that passes every received frame. Many drivers accept XDP transmit, or
//! AF_XDP zero-copy, only while an XDP program is attached.
//!
//! All processes share one such program per device: later ones hold the link of the existing
//! program. The kernel detaches it when the last descriptor is closed, also when a process is
//! killed.

use crate::BpfError;
use crate::sys::{self, LoadParams};
use crate::xdp::{self, AttachedProgram, XdpMode};
use libbpf_sys::bpf_insn;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const NAME: &str = "wr_pass";
const C_NAME: &CStr = c"wr_pass";
const XDP_PASS: i32 = 2;
/// Attempts if other processes attach and detach it meanwhile.
const ATTEMPTS: u32 = 20;

/// Keeps the program attached while this value lives.
#[derive(Debug)]
pub struct DummyXdp {
    _link: OwnedFd,
}

impl DummyXdp {
    /// Takes the link of the program on a device of the calling thread's network namespace, or
    /// attaches a new one.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if another program is attached, [`BpfError::XdpAttach`] if the driver
    /// rejects it, [`BpfError::XdpQuery`], [`BpfError::Load`].
    pub fn hold(ifindex: u32, ifname: &str) -> Result<Self, BpfError> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            if let Some(link) = existing_link(ifindex, ifname)? {
                return Ok(Self { _link: link });
            }
            match attach(ifindex, ifname) {
                // Another process attached it meanwhile.
                Err(error) if is_taken(&error) && attempts.next().is_some() => {}
                attached => return attached,
            }
        }
    }

    /// True if the program is attached, by any process.
    ///
    /// # Errors
    /// [`BpfError::XdpQuery`].
    pub fn is_attached(ifindex: u32, ifname: &str) -> Result<bool, BpfError> {
        Ok(xdp::programs(ifindex, ifname)?.iter().any(is_ours))
    }
}

fn is_ours(found: &AttachedProgram) -> bool {
    found.mode == XdpMode::Native && found.name == NAME
}

/// A descriptor of the link that keeps our program attached; `None` if it is gone.
fn existing_link(ifindex: u32, ifname: &str) -> Result<Option<OwnedFd>, BpfError> {
    let found = xdp::programs(ifindex, ifname)?;
    let Some(ours) = found.iter().find(|found| is_ours(found)) else { return Ok(None) };
    sys::xdp_link_of(ours.id).map_err(|source| BpfError::XdpQuery { ifname: ifname.to_owned(), source })
}

fn is_taken(error: &BpfError) -> bool {
    let is_busy = |source: &io::Error| matches!(source.raw_os_error(), Some(libc::EBUSY | libc::EEXIST));
    match error {
        BpfError::XdpBusy { name, mode, .. } => *mode == XdpMode::Native && name == NAME,
        BpfError::XdpAttach { source, .. } => is_busy(source),
        _ => false,
    }
}

fn attach(ifindex: u32, ifname: &str) -> Result<DummyXdp, BpfError> {
    // Drivers with a large MTU require a multi-buffer program; kernels before 5.18 reject those.
    let plain = load(false)?;
    let programs = [Some(plain), load(true).ok()];
    let programs: Vec<_> = programs.iter().flatten().map(AsFd::as_fd).collect();
    let link = xdp::attach(&programs, ifindex, ifname, xdp::XdpModeChoice::Native)?;
    Ok(DummyXdp { _link: link.into_fd() })
}

fn load(frags: bool) -> Result<OwnedFd, BpfError> {
    load_constant(C_NAME, XDP_PASS, frags)
}

/// Loads `r0 = verdict; exit`.
pub(crate) fn load_constant(name: &CStr, verdict: i32, frags: bool) -> Result<OwnedFd, BpfError> {
    let instructions = [(0xb7, verdict), (0x95, 0)];
    let instructions = instructions.map(|(code, imm)| bpf_insn { code, imm, ..bpf_insn::default() });
    let mut log = vec![0; 4096];
    let params = LoadParams::new(libbpf_sys::BPF_PROG_TYPE_XDP, libbpf_sys::BPF_XDP, name);
    sys::load(LoadParams { frags, ..params }, &instructions, &mut log).map_err(|source| BpfError::Load {
        object: "dummy_xdp",
        reason: source.to_string(),
        log: sys::log_text(&log),
    })
}
