//! A pipe, a FIFO or a socket as output, written without blocking.
//!
//! A FIFO is opened once it has a reader; until then the header waits here and frames wait in
//! buffers. A reader that stops reading blocks the capture only until it is stopped: then a write
//! without progress for [`GRACE`] fails, and the rest counts as lost.

use crate::output::open;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a reader may read nothing once the capture is to end.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// Time between two looks at whether the capture is to end, and at a FIFO without a reader, of
/// which the kernel reports no event.
const LOOK_MS: u16 = 10;

/// A pipe, FIFO or socket as output, written without blocking.
pub(crate) struct Pipe {
    to: To,
    /// Accepted before there was a reader.
    unsent: Vec<u8>,
    /// Set when the capture is to end.
    is_ending: Arc<AtomicBool>,
}

enum To {
    /// A FIFO that has no reader yet.
    Fifo(PathBuf),
    /// Its descriptor does not block.
    Pipe(File),
    /// Its descriptor may block: each call says that it must not.
    Socket(File),
}

impl Pipe {
    /// A FIFO that no program has opened for reading.
    pub(crate) fn waiting(path: &Path, is_ending: Arc<AtomicBool>) -> Self {
        Self { to: To::Fifo(path.to_owned()), unsent: Vec::new(), is_ending }
    }

    /// A FIFO, a pipe or a socket that is open; anything else comes back.
    pub(crate) fn of(file: File, is_ending: Arc<AtomicBool>) -> Result<Self, File> {
        let Ok(kind) = file.metadata().map(|meta| meta.file_type()) else { return Err(file) };
        let to = if kind.is_socket() {
            To::Socket(file)
        } else if kind.is_fifo() {
            // Opened again, since a flag of the description itself would change the pipe of our
            // parent as well.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
                Ok(own) => To::Pipe(own),
                Err(_) => return Err(file),
            }
        } else {
            return Err(file);
        };
        Ok(Self { to, unsent: Vec::new(), is_ending })
    }

    /// Accepts the header, which goes out as soon as there is a reader.
    pub(crate) fn begin(&mut self, header: &[u8]) {
        self.unsent.extend_from_slice(header);
    }

    /// Sends what waits, as far as the reader takes it now; an error when the reader has gone.
    pub(crate) fn tick(&mut self) -> io::Result<()> {
        self.open_if_read()?;
        if matches!(self.to, To::Fifo(_)) {
            return Ok(());
        }
        match self.send_unsent() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if self.events(0).intersects(PollFlags::POLLERR | PollFlags::POLLHUP) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Opens a FIFO that has got a reader.
    fn open_if_read(&mut self) -> io::Result<()> {
        let To::Fifo(path) = &self.to else { return Ok(()) };
        // Another user may have put a link in its place meanwhile.
        match open::open_existing(path) {
            Ok(file) => self.to = To::Pipe(file),
            Err(error) if open::has_no_reader(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends what waits, as far as that does not block.
    fn send_unsent(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let len = self.to.write(&self.unsent)?;
            self.unsent.drain(..len);
        }
        Ok(())
    }

    /// What happened to the other end, waiting for it to take more.
    fn events(&self, timeout_ms: u16) -> PollFlags {
        let (To::Pipe(file) | To::Socket(file)) = &self.to else {
            std::thread::sleep(Duration::from_millis(timeout_ms.into()));
            return PollFlags::empty();
        };
        let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut fds, PollTimeout::from(timeout_ms));
        fds[0].revents().unwrap_or(PollFlags::empty())
    }

    /// Waits until there is a reader that takes more.
    fn wait(&mut self) -> io::Result<()> {
        let mut ends_at: Option<Instant> = None;
        loop {
            self.open_if_read()?;
            if !self.events(LOOK_MS).is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            if self.is_ending.load(Relaxed) && now >= *ends_at.get_or_insert(now + GRACE) {
                let why = match self.to {
                    To::Fifo(_) => "no program has opened it for reading",
                    To::Pipe(_) | To::Socket(_) => "its reader has stopped reading",
                };
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let sent = self.send_unsent().and_then(|()| self.to.write(bytes));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                sent => return sent,
            }
        }
    }

    /// The header of a capture without frames goes out here.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.send_unsent() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                sent => return sent,
            }
        }
    }
}

impl To {
    /// One write that does not block.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Fifo(_) => Err(io::ErrorKind::WouldBlock.into()),
            Self::Pipe(file) => file.write(bytes),
            Self::Socket(file) => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                Ok(send(file.as_raw_fd(), bytes, flags)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    fn pipe() -> (Pipe, File, Arc<AtomicBool>) {
        let (reader, writer) = io::pipe().unwrap();
        let is_ending = Arc::<AtomicBool>::default();
        let pipe = Pipe::of(OwnedFd::from(writer).into(), Arc::clone(&is_ending)).ok().unwrap();
        (pipe, OwnedFd::from(reader).into(), is_ending)
    }

    #[test]
    fn a_reader_that_stopped_reading_holds_up_the_end_for_half_a_second() {
        let (mut pipe, mut reader, is_ending) = pipe();
        pipe.begin(b"header ");
        let asked = std::thread::scope(|scope| {
            let blocked = scope.spawn(|| pipe.write_all(&[7; 1 << 20]).unwrap_err());
            let asked = Instant::now();
            is_ending.store(true, Relaxed);
            assert_eq!(blocked.join().unwrap().kind(), io::ErrorKind::TimedOut);
            asked
        });
        assert!(asked.elapsed() >= GRACE);
        let mut first = [0; 8];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"header \x07");
    }

    #[test]
    fn a_reader_that_has_gone_is_noticed_without_a_write() {
        let (mut pipe, reader, _) = pipe();
        pipe.tick().unwrap();
        drop(reader);
        assert_eq!(pipe.tick().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let (mut pipe, peer) = {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            (Pipe::of(OwnedFd::from(ours).into(), Arc::default()).ok().unwrap(), theirs)
        };
        pipe.begin(b"header");
        pipe.tick().unwrap();
        let mut header = [0; 6];
        (&peer).read_exact(&mut header).unwrap();
        drop(peer);
        assert_eq!((&header, pipe.tick().is_err()), (b"header", true));
    }

    #[test]
    fn a_fifo_is_opened_when_it_has_a_reader() {
        let folder = testkit::Folder::new("fifo");
        let path = folder.join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let is_ending = Arc::<AtomicBool>::default();
        let mut pipe = Pipe::waiting(&path, Arc::clone(&is_ending));
        pipe.begin(b"header ");
        pipe.tick().unwrap();
        let read = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        pipe.write_all(b"frame").unwrap();
        drop(pipe);
        assert_eq!(read.join().unwrap(), b"header frame");
        let mut pipe = Pipe::waiting(&path, is_ending);
        pipe.is_ending.store(true, Relaxed);
        let error = pipe.write_all(b"frame").unwrap_err();
        assert_eq!(error.to_string(), "no program has opened it for reading");
    }
}
