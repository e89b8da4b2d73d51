//! A server of the kernel's FUSE protocol (`include/uapi/linux/fuse.h`, version 7.31), for file
//! systems whose files belong to root.
//!
//! A thread of the [`Session`] reads a request, calls a method of the [`FileSystem`] and writes the
//! answer. A read, write or poll may wait. It keeps its thread, and another thread takes the
//! requests that come meanwhile.
//!
//! No library does this: `fuser` 0.18 answers FUSE_INTERRUPT itself and `fuse-backend-rs` 0.14
//! drops it, so that Ctrl-C would not end the writer of `start`. `fuse3` 0.10 hands a request on to
//! several threads, and an `echo` into a control file takes more than twice as long with it.

mod message;
mod pending;
mod session;

pub(crate) use session::{PollWaker, Session};

use crate::tree::{Cancel, Errno};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// `FOPEN_DIRECT_IO`: each read and write reaches the server as it was made.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1;
/// `FOPEN_STREAM`: offsets mean nothing.
pub(crate) const FOPEN_STREAM: u32 = 1 << 4;
/// `FOPEN_NOFLUSH`: closing a file sends no request to the server. Older kernels (6.1, 6.12) else
/// wait for the process that writes to it, and so would every child of a program whose other thread
/// writes `start`, as soon as it closes what it inherited.
pub(crate) const FOPEN_NOFLUSH: u32 = 1 << 5;

/// The directory at the mount point.
pub(crate) const ROOT_ID: u64 = 1;
/// The kernel may cache nothing of files and links.
pub(crate) const NO_CACHING: Duration = Duration::ZERO;

/// The answer to a request, or the error of the system call.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user, as the file system sees it.
    pub(crate) uid: u32,
    /// The thread, in our PID namespace; 0 when it is in another.
    pub(crate) tid: u32,
}

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// `S_IFDIR`.
    Directory,
    /// `S_IFREG`.
    Regular,
    /// `S_IFLNK`.
    Link,
}

/// What `stat` shows. All files are root's and of no time, the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The inode number.
    pub(crate) inode: u64,
    /// In bytes.
    pub(crate) size: u64,
    /// What it is.
    pub(crate) kind: FileKind,
    /// The lower nine mode bits.
    pub(crate) permissions: u32,
    /// Hard links.
    pub(crate) links: u32,
}

/// What was found under a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The number that requests about it carry until the kernel forgets it.
    pub(crate) node: u64,
    /// What `stat` shows.
    pub(crate) attributes: Attributes,
    /// How long the kernel may keep both.
    pub(crate) valid: Duration,
}

/// A file that was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    /// The number that requests about the descriptor carry.
    pub(crate) handle: u64,
    /// `FOPEN_...`.
    pub(crate) flags: u32,
}

/// A row of a directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryRow {
    /// The name.
    pub(crate) name: OsString,
    /// What it is.
    pub(crate) kind: FileKind,
    /// The inode number.
    pub(crate) inode: u64,
    /// The offset of the row after it.
    pub(crate) next: u64,
}

/// How a process wants to change attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeChange {
    /// The size is among them.
    pub(crate) has_size: bool,
    /// It has the file open.
    pub(crate) has_handle: bool,
}

/// The files of a mount. Calls come from any number of threads at once. A method that a file system
/// leaves out answers ENOSYS; the kernel then does without it.
pub(crate) trait FileSystem: Send + Sync + 'static {
    /// Longest write that arrives in one piece, in bytes; the kernel splits a longer one.
    fn write_bytes_max(&self) -> u32;

    /// What stands under `name` in the directory `parent`.
    fn look_up(&self, caller: Caller, parent: u64, name: &OsStr) -> Result<Entry>;

    /// The kernel forgets all look-ups of a node.
    fn forget(&self, node: u64) {
        let _ = node;
    }

    /// What `stat` shows of a node, and how long the kernel may keep it.
    fn attributes(&self, node: u64) -> Result<(Attributes, Duration)>;

    /// Answers `chmod`, `touch` and `truncate`.
    fn set_attributes(
        &self,
        caller: Caller,
        node: u64,
        change: AttributeChange,
    ) -> Result<(Attributes, Duration)>;

    /// Answers `access(2)`, with its mask.
    fn access(&self, caller: Caller, node: u64, mask: u32) -> Result<()> {
        let _ = (caller, node, mask);
        Err(Errno::ENOSYS)
    }

    /// Where a link leads to.
    fn read_link(&self, node: u64) -> Result<OsString> {
        let _ = node;
        Err(Errno::ENOSYS)
    }

    /// The error of one who adds, moves or (`is_removal`) removes a name.
    fn refusal(&self, caller: Caller, is_removal: bool) -> Errno {
        let _ = (caller, is_removal);
        Errno::ENOSYS
    }

    /// Opens a file with the flags of `open(2)`.
    fn open(&self, caller: Caller, node: u64, flags: u32) -> Result<Opened>;

    /// Opens a file that the kernel did not find before.
    fn create(&self, caller: Caller, parent: u64, name: &OsStr, flags: u32) -> Result<(Entry, Opened)> {
        let _ = (caller, parent, name, flags);
        Err(Errno::ENOSYS)
    }

    /// At most `size` bytes from `offset` on. May wait; `cancel` fires when the caller gets a
    /// signal.
    fn read(&self, caller: Caller, handle: u64, offset: u64, size: u32, cancel: &Cancel) -> Result<Vec<u8>>;

    /// Takes all of `data`. May wait; `cancel` fires when the caller gets a signal.
    fn write(&self, caller: Caller, handle: u64, offset: u64, data: &[u8], cancel: &Cancel) -> Result<()>;

    /// The last descriptor of an open is closed.
    fn release(&self, handle: u64);

    /// Answers `fsync(2)`.
    fn sync(&self, handle: u64) -> Result<()> {
        let _ = handle;
        Err(Errno::ENOSYS)
    }

    /// What a descriptor is ready for (`POLLIN` and others). `waker` is for one that becomes ready
    /// later.
    fn poll(&self, caller: Caller, handle: u64, waker: Option<PollWaker>) -> Result<u32> {
        let _ = (caller, handle, waker);
        Err(Errno::ENOSYS)
    }

    /// The number that requests about an open directory carry.
    fn open_directory(&self) -> u64 {
        0
    }

    /// The rows of a directory from `offset` on.
    fn rows(&self, caller: Caller, node: u64, handle: u64, offset: u64) -> Result<Vec<DirectoryRow>>;

    /// The last descriptor of an open directory is closed.
    fn release_directory(&self, handle: u64) {
        let _ = handle;
    }
}
