//! Reads files, pipes and terminals; the first SIGINT, SIGTERM or SIGHUP is the end of an input
//! that is waited for.
//!
//! A pipe without a writer is opened without blocking, and each read of an input that may block
//! waits for its data and for a signal at the same time. Regular files are read as they are.

use crate::stop;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// An open input.
#[derive(Debug)]
pub struct WaitingRead {
    file: File,
    /// A read may block.
    waits: bool,
}

impl WaitingRead {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be opened, or standard input cannot be duplicated.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            let waits = !file.metadata()?.is_file();
            return Ok(Self { file, waits });
        }
        let facts = std::fs::metadata(path)?;
        let is_pipe = facts.file_type().is_fifo();
        let flags = if is_pipe { OFlag::O_NONBLOCK.bits() } else { 0 };
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Self { file, waits: !facts.is_file() })
    }
}

impl Read for WaitingRead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.waits {
            return self.file.read(into);
        }
        loop {
            if !wait(&self.file)? {
                return Ok(0);
            }
            match self.file.read(into) {
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                read => return read,
            }
        }
    }
}

/// Waits until the file has data or has ended; false after a signal.
fn wait(file: &File) -> io::Result<bool> {
    loop {
        let input = PollFd::new(file.as_fd(), PollFlags::POLLIN);
        let signal = stop::signal_event().map(|event| PollFd::new(event, PollFlags::POLLIN));
        let mut events: Vec<PollFd<'_>> = [input].into_iter().chain(signal).collect();
        match poll(&mut events, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(why) => return Err(why.into()),
            Ok(_) => return Ok(!events.get(1).is_some_and(|event| event.any().unwrap_or(true))),
        }
    }
}

/// The bytes of a file; `-` is standard input.
///
/// # Errors
/// The file cannot be opened or read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    WaitingRead::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file; `-` is standard input.
///
/// # Errors
/// The file cannot be opened or read, or is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    WaitingRead::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}
