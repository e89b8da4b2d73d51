//! A program on the sending device itself: many drivers take frames from XDP, or from AF_XDP without copying, only
//! while they run one.
//!
//! It lets every frame that comes in pass. Drivers rebuild their queues when it comes and when it goes, and some lose
//! the link for seconds, so it is there only for those who ask for an engine by name. All runs share it, those of
//! other processes as well, and the kernel takes it off behind the last of them.

use crate::EngineError;
use crate::device::Device;
use bpf::BpfError;
use bpf::xdp::XdpMode;

/// The program, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Opener {
    _program: bpf::Opener,
}

impl Opener {
    /// For live frames; `None` where the driver takes them as it is.
    ///
    /// # Errors
    /// When a program of somebody else is there with which the driver takes none, or the kernel cannot be asked.
    pub(crate) fn for_live_frames(device: &Device) -> Result<Option<Self>, EngineError> {
        let is_told = device.tells_xdp()?;
        let is_needed = device.may_take_xdp_with_a_program()?;
        if !is_needed && !bpf::Opener::is_there(device.ifindex(), &device.name())? {
            return Ok(None);
        }
        match Self::open(device) {
            // With some program of somebody else it takes them, or this kernel does not say: the first frames will.
            Err(EngineError::Bpf(BpfError::XdpBusy { mode: XdpMode::Native, .. })) if !is_told => Ok(None),
            Err(EngineError::Bpf(BpfError::XdpBusy { .. })) if !is_needed => Ok(None),
            opened => opened,
        }
    }

    /// For AF_XDP without copying; `None` where the driver does not do that, or a program of somebody else is there:
    /// with one in the driver it sends, and else its frames are copied.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn for_zero_copy(device: &Device) -> Result<Option<Self>, EngineError> {
        if !device.has_zero_copy()? {
            return Ok(None);
        }
        match Self::open(device) {
            Err(EngineError::Bpf(BpfError::XdpBusy { .. })) => Ok(None),
            opened => opened,
        }
    }

    /// Holds the program on a device of the calling thread's namespace and waits for its link. Nothing where the
    /// driver runs none: what that means the engine finds out.
    fn open(device: &Device) -> Result<Option<Self>, EngineError> {
        let program = match bpf::Opener::hold(device.ifindex(), &device.name()) {
            Err(BpfError::XdpAttach { .. }) => return Ok(None),
            held => held?,
        };
        device.wait_for_carrier()?;
        Ok(Some(Self { _program: program }))
    }
}
