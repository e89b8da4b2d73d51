//! A dummy XDP program on the sending device: many drivers accept XDP transmit, or AF_XDP
//! zero-copy, only while an XDP program is attached.
//!
//! Drivers rebuild their queues when it is attached or detached, and some lose the link for
//! seconds. So it is used only when the user selects an engine. All runs share it, also those of
//! other processes; the kernel detaches it after the last one.

use crate::EngineError;
use crate::device::OutputDevice;
use bpf::BpfError;
use bpf::xdp::XdpMode;

/// Keeps the program attached while this value lives.
#[derive(Debug)]
pub(crate) struct DummyProgram {
    _program: bpf::DummyXdp,
}

impl DummyProgram {
    /// For live frames; `None` if the driver accepts them without it.
    ///
    /// # Errors
    /// When another program is attached with which the driver rejects frames, or a query fails.
    pub(crate) fn for_live_frames(device: &OutputDevice) -> Result<Option<Self>, EngineError> {
        let is_capability_known = device.reports_xdp()?;
        let is_needed = device.may_take_xdp_with_a_program()?;
        if !is_needed && !bpf::DummyXdp::is_attached(device.ifindex(), &device.name())? {
            return Ok(None);
        }
        match Self::open(device) {
            // With another native program the driver may accept them; the first frames show it.
            Err(EngineError::Bpf(BpfError::XdpBusy { mode: XdpMode::Native, .. }))
                if !is_capability_known =>
            {
                Ok(None)
            }
            Err(EngineError::Bpf(BpfError::XdpBusy { .. })) if !is_needed => Ok(None),
            opened => opened,
        }
    }

    /// For AF_XDP zero-copy; `None` if the driver does not support it or another program is
    /// attached.
    ///
    /// # Errors
    /// When a query of the kernel fails.
    pub(crate) fn for_zero_copy(device: &OutputDevice) -> Result<Option<Self>, EngineError> {
        if !device.has_zero_copy()? {
            return Ok(None);
        }
        match Self::open(device) {
            Err(EngineError::Bpf(BpfError::XdpBusy { .. })) => Ok(None),
            opened => opened,
        }
    }

    /// Attaches the program to a device of the calling thread's namespace and waits for its
    /// carrier. `None` if the driver does not support XDP; the engine reports that.
    fn open(device: &OutputDevice) -> Result<Option<Self>, EngineError> {
        let program = match bpf::DummyXdp::hold(device.ifindex(), &device.name()) {
            Err(BpfError::XdpAttach { .. }) => return Ok(None),
            held => held?,
        };
        device.wait_for_carrier()?;
        Ok(Some(Self { _program: program }))
    }
}
