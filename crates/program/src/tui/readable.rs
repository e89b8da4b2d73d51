//! Waits for file descriptors.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// True if `fd` can be read or has ended, within `timeout`.
pub(super) fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    readable([Some(fd)], timeout)[0]
}

/// Which of `fds` can be read or have ended, once one of them is, or after `timeout`.
pub(super) fn readable<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], timeout: Duration) -> [bool; N] {
    let polled = fds.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    // Rounded up: a timeout of 0 ms would spin.
    let timeout = PollTimeout::try_from(timeout.as_nanos().div_ceil(1_000_000));
    // A signal ends the wait, and then nothing is readable.
    let is_any = poll(&mut polled, timeout.unwrap_or(PollTimeout::MAX)).is_ok_and(|count| count > 0);
    let mut events = polled.iter().map(|fd| is_any && fd.revents().is_some_and(|events| !events.is_empty()));
    fds.map(|fd| fd.is_some() && events.next().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn text_and_the_end_are_readable() {
        let ((quiet, _open), (written, mut writer), (ended, _)) =
            (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
        writer.write_all(b"x").unwrap();
        let fds = [Some(quiet.as_fd()), None, Some(written.as_fd()), Some(ended.as_fd())];
        assert_eq!(readable(fds, Duration::from_secs(60)), [false, false, true, true]);
        assert!(!is_readable(quiet.as_fd(), Duration::from_millis(1)));
    }
}
