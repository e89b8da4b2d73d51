//! A mounted tree: the FUSE session, its threads, and their end.

use crate::files::Files;
use crate::fs::ControlFs;
use crate::inodes::Node;
use crate::slots::{OrderNetns, SlotFs, SlotTree};
use crate::tree::Tree;
use crate::trees::Trees;
use fuse3::MountOptions;
use fuse3::raw::Session;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::Runtime;

const FUSE_DEVICE: &str = "/dev/fuse";
/// Threads that answer requests. One is faster than several, which would wake each other for each
/// request; what may take long has a thread of its own.
const SERVER_THREADS: usize = 1;
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
    runtime: Option<Runtime>,
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
    mount_fs(Files::Control(ControlFs::new(trees, root)), path, source, Permissions::Own, at_end)
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
    mount_fs(Files::Devices(SlotFs::new(tree, order_netns)), path, source, Permissions::AsShown, || ())
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
    fs: Files,
    path: &Path,
    source: &str,
    permissions: Permissions,
    at_end: impl FnOnce() + Send + 'static,
) -> Result<Mounted, MountError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVER_THREADS)
        .thread_name("ctlfs")
        .enable_all()
        .build()
        .map_err(MountError::Threads)?;
    File::options().read(true).write(true).open(FUSE_DEVICE).map_err(MountError::NoFuse)?;
    let mut options = MountOptions::default();
    options.fs_name(source).allow_other(true).nonempty(true);
    options.default_permissions(permissions == Permissions::AsShown);
    let handle = runtime
        .block_on(Session::new(options).mount(fs, path))
        .map_err(|source| MountError::Mount { path: path.to_owned(), source })?;
    let id = rows_at(path).into_iter().find(|row| row.source == source).map(|row| row.id);
    let (tell, ended) = mpsc::channel();
    runtime.spawn(async move {
        // Dropping an unfinished handle unmounts `path` a second time, whatever is there by then.
        let mut handle = ManuallyDrop::new(handle);
        if let Err(error) = (&mut *handle).await {
            tracing::error!(%error, "the FUSE session of the control tree broke");
        }
        at_end();
        // The receiver may be gone already.
        let _ = tell.send(());
    });
    Ok(Mounted { path: path.to_owned(), runtime: Some(runtime), ended, id })
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
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        let done = match self.ended.try_recv() {
            Ok(()) => Ok(()),
            Err(_) if self.is_covered() => Err(Errno::EBUSY),
            Err(_) => umount2(&self.path, MntFlags::MNT_DETACH),
        };
        if done.is_ok() {
            // A descriptor that stays open keeps the session alive; closing ours ends it then.
            let _ = self.ended.recv_timeout(END_TIMEOUT);
        }
        runtime.shutdown_background();
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
