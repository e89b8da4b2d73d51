//! The threads that read the requests of one mount, and what each request calls.

use super::message::{Answer, Arguments, Request, answer_header, buffer_len, opcode};
use super::pending::Pending;
use super::{AttributeChange, FileSystem, Result};
use crate::tree::{Cancel, Errno, lock};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

/// The version of the protocol.
const VERSION: (u32, u32) = (7, 31);
/// `FUSE_ATOMIC_O_TRUNC`: an open that truncates is one request.
const ATOMIC_O_TRUNC: u32 = 1 << 3;
/// `FUSE_BIG_WRITES`: writes of more than a page.
const BIG_WRITES: u32 = 1 << 5;
/// `FUSE_PARALLEL_DIROPS`: look-ups in one directory do not wait for each other.
const PARALLEL_DIROPS: u32 = 1 << 18;
/// `FUSE_MAX_PAGES`: the answer says how long a request may be.
const MAX_PAGES: u32 = 1 << 22;
/// Bytes of a page, in which the kernel counts a request. With larger pages it allows more.
const PAGE_BYTES: u32 = 4096;
/// `FATTR_SIZE`: the size is to be changed.
const CHANGES_SIZE: u32 = 1 << 3;
/// `FATTR_FH`: the file is open.
const HAS_HANDLE: u32 = 1 << 6;
/// `FUSE_POLL_SCHEDULE_NOTIFY`: the kernel waits for a wake-up.
const POLL_SCHEDULE_NOTIFY: u32 = 1;
/// `FUSE_NOTIFY_POLL`: that wake-up.
const NOTIFY_POLL: i32 = 1;
/// Longest name in a directory.
const NAME_LEN_MAX: u32 = 255;
/// So many threads wait for a request at most. One is enough until a request has to wait; others
/// read what the kernel sends beside it, such as the release of a file that was closed just before.
/// Threads that end too soon would have to be started again.
const READERS_MAX: usize = 4;

/// A mount that is served.
pub(crate) struct Session {
    device: File,
    /// None once it is closed.
    files: RwLock<Option<Arc<dyn FileSystem>>>,
    write_bytes_max: u32,
    /// Threads that wait for a request.
    readers: AtomicUsize,
    pending: Mutex<Pending>,
    at_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Session {
    /// Serves `files` to a mount with the descriptor `device` of `/dev/fuse`. Calls `at_end` once
    /// the mount is gone and the last descriptor closed.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        device: File,
        files: Arc<dyn FileSystem>,
        at_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let session = Arc::new(Self {
            device,
            write_bytes_max: files.write_bytes_max(),
            files: RwLock::new(Some(files)),
            readers: AtomicUsize::new(0),
            pending: Mutex::default(),
            at_end: Mutex::new(Some(Box::new(at_end))),
        });
        session.add_reader()?;
        Ok(session)
    }

    /// Lets go of the files: who still has one open gets ENOTCONN, as after the end of a server.
    pub(crate) fn close(&self) {
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn add_reader(self: &Arc<Self>) -> io::Result<()> {
        let session = Arc::clone(self);
        self.readers.fetch_add(1, Ordering::SeqCst);
        let started = thread::Builder::new().name("ctlfs".to_owned()).spawn(move || session.read_requests());
        if started.is_err() {
            self.readers.fetch_sub(1, Ordering::SeqCst);
        }
        started.map(drop)
    }

    /// Reads and answers until the session ends, or enough other threads wait for requests.
    fn read_requests(self: &Arc<Self>) {
        let mut buffer = vec![0; buffer_len(self.write_bytes_max)];
        loop {
            let len = match (&self.device).read(&mut buffer) {
                Ok(len) => len,
                // The one who asked was killed before the request was read, or we got a signal.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)) =>
                {
                    continue;
                }
                Err(error) => return self.end(&error),
            };
            self.readers.fetch_sub(1, Ordering::SeqCst);
            self.answer(&buffer[..len]);
            if self.readers.fetch_add(1, Ordering::SeqCst) >= READERS_MAX {
                self.readers.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Each thread comes here once the mount is gone; the first of them tells.
    fn end(&self, error: &io::Error) {
        if error.raw_os_error() != Some(libc::ENODEV) {
            tracing::error!(%error, "the FUSE session of the control tree broke");
        }
        let at_end = lock(&self.at_end).take();
        if let Some(at_end) = at_end {
            at_end();
        }
    }

    /// Makes sure that another thread takes requests while this one waits.
    fn read_on(self: &Arc<Self>) -> Result<()> {
        if self.readers.load(Ordering::SeqCst) > 0 {
            return Ok(());
        }
        self.add_reader().map_err(|error| {
            tracing::error!(%error, "cannot start a thread for a request that may wait; the caller gets EAGAIN");
            Errno::EAGAIN
        })
    }

    /// A call that may wait; its token fires when the process that waits for it gets a signal.
    fn interruptible<T>(self: &Arc<Self>, unique: u64, call: impl FnOnce(&Cancel) -> Result<T>) -> Result<T> {
        let cancel = lock(&self.pending).begin(unique);
        let answer = self.read_on().and_then(|()| caught(|| call(&cancel)));
        lock(&self.pending).end(unique);
        answer
    }

    fn answer(self: &Arc<Self>, message: &[u8]) {
        let Ok((request, arguments)) = Request::parse(message) else {
            return tracing::error!(len = message.len(), "the kernel sent a FUSE request without a header");
        };
        let answer = caught(|| {
            let files = self.files.read().unwrap_or_else(PoisonError::into_inner).clone();
            self.call(&*files.ok_or(Errno::ENOTCONN)?, &request, arguments)
        });
        // The kernel expects no answer to these.
        if !matches!(request.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT) {
            let (error, body) = match answer {
                Ok(Answer(body)) => (0, body),
                Err(errno) => (-(errno as i32), Vec::new()),
            };
            self.send(request.unique, error, &body);
        }
    }

    fn send(&self, unique: u64, error: i32, body: &[u8]) {
        let header = answer_header(unique, error, body.len()).0;
        let sent = (&self.device).write_vectored(&[IoSlice::new(&header), IoSlice::new(body)]);
        match sent {
            Ok(_) => {}
            // The one who asked was killed meanwhile, or the mount is gone.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {}
            Err(error) => tracing::error!(%error, "the kernel did not take an answer of the control tree"),
        }
    }

    fn call(
        self: &Arc<Self>,
        files: &dyn FileSystem,
        request: &Request,
        mut arguments: Arguments<'_>,
    ) -> Result<Answer> {
        let Request { opcode, node, unique, caller } = *request;
        let answer = Answer::default();
        Ok(match opcode {
            opcode::INIT => self.settings(arguments)?,
            opcode::DESTROY => answer,
            opcode::LOOKUP => answer.entry(&files.look_up(caller, node, arguments.name()?)?),
            opcode::FORGET => {
                files.forget(node);
                answer
            }
            opcode::BATCH_FORGET => {
                let (count, _padding) = (arguments.u32()?, arguments.u32()?);
                for _ in 0..count {
                    let (node, _look_ups) = (arguments.u64()?, arguments.u64()?);
                    files.forget(node);
                }
                answer
            }
            opcode::GETATTR => {
                let (attributes, valid) = files.attributes(node)?;
                answer.attributes_for(&attributes, valid)
            }
            opcode::SETATTR => {
                let fields = arguments.u32()?;
                let change = AttributeChange {
                    has_size: fields & CHANGES_SIZE != 0,
                    has_handle: fields & HAS_HANDLE != 0,
                };
                let (attributes, valid) = files.set_attributes(caller, node, change)?;
                answer.attributes_for(&attributes, valid)
            }
            opcode::ACCESS => {
                files.access(caller, node, arguments.u32()?)?;
                answer
            }
            opcode::READLINK => answer.bytes(files.read_link(node)?.as_bytes()),
            opcode::MKNOD
            | opcode::MKDIR
            | opcode::SYMLINK
            | opcode::LINK
            | opcode::RENAME
            | opcode::RENAME2 => return Err(files.refusal(caller, false)),
            opcode::UNLINK | opcode::RMDIR => return Err(files.refusal(caller, true)),
            opcode::OPEN => answer.opened(files.open(caller, node, arguments.u32()?)?),
            opcode::CREATE => {
                let flags = arguments.u32()?;
                // Mode, umask, and flags of the open.
                arguments.skip(12)?;
                let (entry, opened) = files.create(caller, node, arguments.name()?, flags)?;
                answer.entry(&entry).opened(opened)
            }
            opcode::READ => {
                let (handle, offset, size) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                let read = |cancel: &Cancel| files.read(caller, handle, offset, size, cancel);
                Answer(self.interruptible(unique, read)?)
            }
            opcode::WRITE => {
                let (handle, offset, size) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                // Flags of the write, owner of a lock, flags of the open.
                arguments.skip(20)?;
                let data = arguments.data(size)?;
                self.interruptible(unique, |cancel| files.write(caller, handle, offset, data, cancel))?;
                answer.u32(size).u32(0)
            }
            opcode::POLL => {
                let (handle, poll, flags) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                let waker = || PollWaker { session: Arc::clone(self), poll };
                self.read_on()?;
                answer
                    .u32(files.poll(caller, handle, (flags & POLL_SCHEDULE_NOTIFY != 0).then(waker))?)
                    .u32(0)
            }
            opcode::RELEASE => {
                files.release(arguments.u64()?);
                answer
            }
            opcode::FSYNC => {
                files.sync(arguments.u64()?)?;
                answer
            }
            opcode::INTERRUPT => {
                lock(&self.pending).interrupt(arguments.u64()?);
                answer
            }
            opcode::OPENDIR => answer.u64(files.open_directory()).u64(0),
            opcode::READDIR => {
                let (handle, offset, size) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                answer.rows(&files.rows(caller, node, handle, offset)?, size as usize)
            }
            opcode::RELEASEDIR => {
                files.release_directory(arguments.u64()?);
                answer
            }
            // Five counts of blocks and files, all zero; the sizes of a block, a name, a fragment.
            opcode::STATFS => answer.zeros(40).u32(PAGE_BYTES).u32(NAME_LEN_MAX).zeros(32),
            _ => return Err(Errno::ENOSYS),
        })
    }

    /// The answer to the first request, `struct fuse_init_out`.
    fn settings(&self, mut arguments: Arguments<'_>) -> Result<Answer> {
        let (_major, _minor, readahead) = (arguments.u32()?, arguments.u32()?, arguments.u32()?);
        let can = arguments.u32()?;
        let wanted = ATOMIC_O_TRUNC | BIG_WRITES | PARALLEL_DIROPS | MAX_PAGES;
        let pages = u16::try_from(self.write_bytes_max.div_ceil(PAGE_BYTES)).unwrap_or(u16::MAX);
        let answer = Answer::default().u32(VERSION.0).u32(VERSION.1).u32(readahead).u32(can & wanted);
        // Requests in the background: the kernel's default. Resolution of times: 1 ns.
        let answer = answer.u32(0).u32(self.write_bytes_max).u32(1).u16(pages);
        Ok(answer.zeros(34))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A call whose panic is answered, too.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // What is behind locks stays whole when a thread that held one panics.
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        tracing::error!("the control tree panicked; the caller gets EIO");
        Err(Errno::EIO)
    })
}

/// Wakes the processes that poll a file.
pub(crate) struct PollWaker {
    session: Arc<Session>,
    /// The kernel's number for them.
    poll: u64,
}

impl PollWaker {
    /// The file is ready.
    pub(crate) fn wake(self) {
        self.session.send(0, NOTIFY_POLL, &Answer::default().u64(self.poll).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_panics_is_answered() {
        assert_eq!(caught(|| Ok(7)), Ok(7));
        assert_eq!(caught::<()>(|| panic!("as a test")), Err(Errno::EIO));
    }
}
