//! Standard error as lines for the screen, and all of it afterwards.

use super::readable::is_readable;
use nix::unistd::dup2_stderr;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Standard error while the screen is in use. When this is dropped, standard error is as it was,
/// and gets what was written meanwhile.
pub(super) struct StderrLines {
    original: OwnedFd,
    pipe: PipeReader,
    text: Vec<u8>,
    /// Bytes of `text` that were returned as lines.
    returned: usize,
}

impl StderrLines {
    /// From now on.
    ///
    /// # Errors
    /// No file descriptor.
    pub(super) fn begin() -> io::Result<Self> {
        let original = io::stderr().as_fd().try_clone_to_owned()?;
        let (pipe, writer) = io::pipe()?;
        dup2_stderr(&writer)?;
        Ok(Self { original, pipe, text: Vec::new(), returned: 0 })
    }

    /// Readable when there is text.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads what is there, at least one byte, and returns the lines that are complete.
    pub(super) fn read(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        // This process has the other end, so there is no end and no error.
        let count = self.pipe.read(&mut bytes).unwrap_or(0);
        self.text.extend_from_slice(&bytes[..count]);
        let new = &self.text[self.returned..];
        let complete = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.returned += complete;
        String::from_utf8_lossy(&new[..complete]).lines().map(str::to_owned).collect()
    }
}

impl Drop for StderrLines {
    fn drop(&mut self) {
        // Both descriptors are open.
        let _ = dup2_stderr(&self.original);
        while is_readable(self.pipe.as_fd(), Duration::ZERO) {
            let before = self.text.len();
            self.read();
            if self.text.len() == before {
                break;
            }
        }
        // Closed as it may be, there is no other place for it.
        let _ = io::stderr().write_all(&self.text);
    }
}
