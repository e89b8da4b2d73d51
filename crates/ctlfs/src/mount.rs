//! A mounted tree: the FUSE session, its threads, and their end.

use crate::fs::ControlFs;
use crate::fuse::{FileSystem, Session};
use crate::inodes::Node;
use crate::slots::{OrderNetns, SlotFs, SlotTree};
use crate::tree::Tree;
use crate::trees::Trees;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::unistd::{getgid, getuid};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

const FUSE_DEVICE: &str = "/dev/fuse";
/// Timeout for the last requests after the unmount.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The files at the mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeShape {
    /// The control files themselves.
    Tree,
    /// A view of `/proc/net` (links to each process's own) with the control files in its `pktgen`.
    ProcNet,
}

/// Why a tree could not be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum MountError {
    /// The threads of the server could not be started.
    #[error("cannot start the threads of the control tree")]
    Threads(#[source] io::Error),
    /// The device of FUSE cannot be opened.
    #[error("the control files need FUSE, and /dev/fuse cannot be opened")]
    NoFuse(#[source] io::Error),
    /// The kernel refused the mount.
    #[error("cannot mount the control tree on {path}")]
    Mount { path: PathBuf, source: io::Error },
}

/// A mounted tree; unmounted at the latest when dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    /// None once it is unmounted.
    session: Option<Arc<Session>>,
    ended: mpsc::Receiver<()>,
    /// Number of the mount in the mount table, where that could be read.
    id: Option<u64>,
}

/// Mounts `tree` on the directory `path`; `source` is the name that mount tables show for it.
///
/// # Errors
/// [`MountError`] when threads or the mount are refused.
pub fn mount(
    tree: Arc<dyn Tree>,
    path: &Path,
    shape: TreeShape,
    source: &str,
) -> Result<Mounted, MountError> {
    mount_and_then(Trees::one(tree), path, shape, source, || ())
}

/// Mounts any number of trees on the directory `path`; `source` is the name that mount tables show
/// for them. Calls `at_end` once the session has ended.
pub(crate) fn mount_and_then(
    trees: Arc<Trees>,
    path: &Path,
    shape: TreeShape,
    source: &str,
    at_end: impl FnOnce() + Send + 'static,
) -> Result<Mounted, MountError> {
    let root = match shape {
        TreeShape::Tree => Node::Pktgen,
        TreeShape::ProcNet => Node::ProcNet,
    };
    mount_fs(Arc::new(ControlFs::new(trees, root)), path, source, Permissions::Own, at_end)
}

/// Mounts `tree` on the directory `path`; `source` is the name that mount tables show for it.
///
/// # Errors
/// [`MountError`] when threads or the mount are refused.
pub(crate) fn mount_slots(
    tree: Arc<dyn SlotTree>,
    path: &Path,
    source: &str,
    order_netns: OrderNetns,
) -> Result<Mounted, MountError> {
    mount_fs(Arc::new(SlotFs::new(tree, order_netns)), path, source, Permissions::AsShown, || ())
}

/// Which side checks whether a process may open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permissions {
    /// The file system itself.
    Own,
    /// The kernel, by the modes that the file system shows.
    AsShown,
}

/// Mounts a file system of ours.
fn mount_fs(
    files: Arc<dyn FileSystem>,
    path: &Path,
    source: &str,
    permissions: Permissions,
    at_end: impl FnOnce() + Send + 'static,
) -> Result<Mounted, MountError> {
    let device = File::options().read(true).write(true).open(FUSE_DEVICE).map_err(MountError::NoFuse)?;
    let (fd, uid, gid) = (device.as_raw_fd(), getuid(), getgid());
    let checked = if permissions == Permissions::AsShown { ",default_permissions" } else { "" };
    let options = format!("fd={fd},rootmode=40000,user_id={uid},group_id={gid},allow_other{checked}");
    nix::mount::mount(Some(source), path, Some("fuse"), MsFlags::empty(), Some(options.as_str()))
        .map_err(|errno| MountError::Mount { path: path.to_owned(), source: errno.into() })?;
    let (tell, ended) = mpsc::channel();
    let session = Session::start(device, files, move || {
        at_end();
        // The receiver may be gone already.
        let _ = tell.send(());
    });
    let session = session.map_err(|error| {
        // No thread answers there.
        let _ = umount2(path, MntFlags::MNT_DETACH);
        MountError::Threads(error)
    })?;
    let id = rows_at(path).into_iter().find(|row| row.source == source).map(|row| row.id);
    Ok(Mounted { path: path.to_owned(), session: Some(session), ended, id })
}

/// A line of the mount table.
struct MountRow {
    id: u64,
    parent_id: u64,
    source: String,
}

/// The mounts at `path`, one over the other (proc_pid_mountinfo(5)).
fn rows_at(path: &Path) -> Vec<MountRow> {
    let row = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ');
        let (id, parent_id) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let is_here = Path::new(&unescape(fields.nth(2)?)) == path;
        is_here.then(|| MountRow {
            id,
            parent_id,
            source: after.split(' ').nth(1).unwrap_or_default().to_owned(),
        })
    };
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(row).collect()
}

/// Undoes the octal escapes for space, tab, newline and backslash in a mount table.
pub(crate) fn unescape(point: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(point.to_owned(), |point, (escape, plain)| point.replace(escape, plain))
}

impl Mounted {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts the tree, even while processes have its files open.
    ///
    /// # Errors
    /// `EINVAL` when another process has unmounted it, `EBUSY` when another file system is mounted
    /// over it, which stays.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    /// Unmounting a path removes the topmost mount there, also one of another process.
    fn is_covered(&self) -> bool {
        self.id.is_some_and(|id| rows_at(&self.path).iter().any(|row| row.parent_id == id))
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let done = match self.ended.try_recv() {
            Ok(()) => Ok(()),
            Err(_) if self.is_covered() => Err(Errno::EBUSY),
            Err(_) => umount2(&self.path, MntFlags::MNT_DETACH),
        };
        if done.is_ok() {
            // A descriptor that stays open keeps the session alive.
            let _ = self.ended.recv_timeout(END_TIMEOUT);
        }
        session.close();
        Ok(done?)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(path = %self.path.display(), %error, "cannot unmount the control tree");
        }
    }
}
