//! A program that another thread than its owner's attaches.

use crate::BpfError;
use crate::xdp::{self, XdpLink, XdpModeChoice};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const LOOPBACK_IFINDEX: u32 = 1;

/// A program, for attaching by any thread.
#[derive(Debug)]
pub struct Attachable(OwnedFd);

impl Attachable {
    /// For a loaded program.
    pub(crate) fn of(program: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(program.try_clone_to_owned()?))
    }

    /// Another handle.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::of(self.0.as_fd())
    }

    /// Attaches the program to the loopback device of the caller's network namespace, which should
    /// carry no frames. An attached program keeps its slot of the XDP dispatcher, so that a call
    /// takes microseconds instead of two RCU grace periods (about 24 ms). Attaching takes one grace
    /// period.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if the device has a program, [`BpfError::XdpAttach`] with the error of
    /// the kernel.
    pub fn attach_to_loopback(&self) -> Result<XdpLink, BpfError> {
        xdp::attach(&[self.0.as_fd()], LOOPBACK_IFINDEX, "lo", XdpModeChoice::Generic)
    }
}
