//! A program that lets every received frame pass. Many drivers take frames from XDP, or from AF_XDP without copying,
//! only while a program runs on the device; what it does there is of no interest to them.
//!
//! There is one such program on a device for all processes: whoever comes later holds the link of the one that is there.
//! The kernel takes it off when the last of them lets go, by closing the descriptor or by ending in any way.

use crate::xdp::{self, Found, XdpMode};
use crate::{BpfError, sys};
use libbpf_sys::bpf_insn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const NAME: &str = "wr_open";
const C_NAME: &std::ffi::CStr = c"wr_open";
/// `r0 = XDP_PASS; exit`.
const INSTRUCTIONS: [(u8, i32); 2] = [(0xb7, 2), (0x95, 0)];
/// Processes that come and go between two looks are met again so often.
const LOOKS: u32 = 20;

/// Holds the program on its device for as long as it lives.
#[derive(Debug)]
pub struct Opener {
    _link: OwnedFd,
}

impl Opener {
    /// Has the program on a device of the calling thread's network namespace: the one that is there, or a new one.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] when another program is there, [`BpfError::XdpAttach`] when the driver takes none,
    /// [`BpfError::XdpQuery`], [`BpfError::Load`].
    pub fn hold(ifindex: u32, ifname: &str) -> Result<Self, BpfError> {
        let mut looks = 0..LOOKS;
        loop {
            if let Some(link) = link_there(ifindex, ifname)? {
                return Ok(Self { _link: link });
            }
            match attach(ifindex, ifname) {
                // Somebody was quicker.
                Err(error) if is_taken(&error) && looks.next().is_some() => {}
                attached => return attached,
            }
        }
    }

    /// True when the program is on the device, held by whomever.
    ///
    /// # Errors
    /// [`BpfError::XdpQuery`].
    pub fn is_there(ifindex: u32, ifname: &str) -> Result<bool, BpfError> {
        Ok(xdp::programs(ifindex, ifname)?.iter().any(is_ours))
    }
}

fn is_ours(found: &Found) -> bool {
    found.mode == XdpMode::Native && found.name == NAME
}

/// A second descriptor of the link that holds our program on the device; `None` when there is none any more.
fn link_there(ifindex: u32, ifname: &str) -> Result<Option<OwnedFd>, BpfError> {
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

fn attach(ifindex: u32, ifname: &str) -> Result<Opener, BpfError> {
    // Drivers with a large MTU want a program that takes frames in pieces; kernels before 5.18 know none.
    let plain = load(false)?;
    let programs = [Some(plain), load(true).ok()];
    let programs: Vec<_> = programs.iter().flatten().map(AsFd::as_fd).collect();
    let link = xdp::attach(&programs, ifindex, ifname, xdp::ModeWish::Native)?;
    Ok(Opener { _link: link.into_fd() })
}

fn load(for_pieces: bool) -> Result<OwnedFd, BpfError> {
    let instructions = INSTRUCTIONS.map(|(code, imm)| bpf_insn { code, imm, ..bpf_insn::default() });
    let mut log = vec![0; 4096];
    sys::load_xdp(C_NAME, &instructions, for_pieces, 0, &mut log).map_err(|source| BpfError::Load {
        object: "open",
        reason: source.to_string(),
        log: String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned(),
    })
}
