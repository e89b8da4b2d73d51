//! Signals as a queue to read from, so that no code runs inside a handler.
//!
//! The queue must be set up before other threads start, because they inherit the signal mask.

use crate::sys;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;

/// One signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    /// Which one.
    pub(crate) signal: Signal,
    /// True when the kernel sent it: from the terminal, to the whole foreground group.
    pub(crate) is_from_kernel: bool,
}

/// The queue; signals that were ignored when this process started stay ignored and never arrive.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: SignalFd,
    mask_before: SigSet,
}

impl Signals {
    /// Queues `signals` from now on instead of letting them act.
    pub(crate) fn queue(signals: &[Signal]) -> io::Result<Self> {
        let mask: SigSet = signals.iter().copied().filter(|signal| !sys::is_ignored(*signal)).collect();
        let mask_before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let queue = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { queue, mask_before })
    }

    /// The mask a child should start with.
    pub(crate) fn mask_before(&self) -> SigSet {
        self.mask_before
    }

    /// Waits for the next signal.
    pub(crate) fn next(&self) -> io::Result<ReceivedSignal> {
        loop {
            match self.queue.read_signal() {
                Ok(Some(info)) => {
                    let number = i32::try_from(info.ssi_signo).unwrap_or(0);
                    let Ok(signal) = Signal::try_from(number) else { continue };
                    return Ok(ReceivedSignal { signal, is_from_kernel: info.ssi_code == libc::SI_KERNEL });
                }
                Ok(None) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_to_this_thread_is_queued() {
        let signals = Signals::queue(&[Signal::SIGUSR2]).unwrap();
        nix::sys::pthread::pthread_kill(nix::sys::pthread::pthread_self(), Signal::SIGUSR2).unwrap();
        assert_eq!(
            signals.next().unwrap(),
            ReceivedSignal { signal: Signal::SIGUSR2, is_from_kernel: false }
        );
        signals.mask_before().thread_set_mask().unwrap();
    }
}
