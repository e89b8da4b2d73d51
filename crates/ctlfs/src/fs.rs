//! The file system: FUSE requests are answered as procfs answers for pktgen's directory.
//!
//! The kernel caches nothing (no time-outs, direct I/O), so files appear and disappear at once. A
//! read returns the text as it was when the reader started, like a seq_file. A write is one
//! command, whatever its offset, and may wait, as that of `start` does. All other calls into the
//! tree end soon. A signal to a writer arrives as FUSE_INTERRUPT and fires its [`Cancel`]; the
//! writer still gets the tree's answer, with full length.

use crate::fuse::{
    AttributeChange, Attributes, Caller, DirectoryRow, Entry, FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FileKind,
    FileSystem, NO_CACHING, Opened, Result,
};
use crate::inodes::{Inodes, Node};
use crate::seq_file::Handle;
use crate::tree::{Cancel, Errno, REFUSED, Tree, lock};
use crate::trees::{TreeId, Trees};
use host::{Right, thread_has_right};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest write that arrives in one piece; a longer one is split by the kernel.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// The directories themselves never change, and every path goes through them.
const DIRECTORY_CACHING: Duration = Duration::from_secs(3600);
/// "Unknown" as a directory entry's inode number: listing must not count as looking up.
const UNKNOWN_INODE: u64 = 0xffff_ffff;
/// The length of a file for `sendfile`, which busybox's `cat` is made of. procfs gives everything
/// to it though it shows a length of zero; FUSE gives no more than the length it knows, so a
/// look-up tells it one that is longer than any text. A shorter answer to the read corrects it, and
/// `stat`, which asks anew, gets procfs's zero. An open must not ask anew in between, as the kernel
/// does when it checks permissions itself: so they are checked here.
const LEN_UNTIL_READ: u64 = 1 << 20;

/// [`Trees`] as a FUSE server.
pub(crate) struct ControlFs {
    trees: Arc<Trees>,
    nodes: Mutex<Inodes>,
    files: Mutex<HashMap<u64, Arc<Handle>>>,
    listings: Mutex<HashMap<u64, Vec<DirectoryRow>>>,
    next_handle: AtomicU64,
}

impl ControlFs {
    /// Serves `trees` with `root` ([`Node::Pktgen`] or [`Node::ProcNet`]) at the mount point.
    pub(crate) fn new(trees: Arc<Trees>, root: Node) -> Self {
        Self {
            trees,
            nodes: Mutex::new(Inodes::new(root)),
            files: Mutex::default(),
            listings: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn node(&self, id: u64) -> Result<Node> {
        lock(&self.nodes).node(id).ok_or(Errno::ESTALE)
    }

    fn handle(&self, handle: u64) -> Result<Arc<Handle>> {
        lock(&self.files).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// What stands under `name` in the directory `parent`, if anything.
    fn child(&self, caller: Caller, parent: u64, name: &OsStr) -> Result<Node> {
        match self.node(parent)? {
            Node::Pktgen => {
                let (id, _) = self.tree_of(caller)?.ok_or(Errno::ENOENT)?;
                self.tree_with(id, name)?;
                Ok(Node::File(id, name.to_owned()))
            }
            Node::ProcNet if name == "pktgen" => Ok(Node::Pktgen),
            Node::ProcNet if proc_net_of(caller.tid).join(name).symlink_metadata().is_ok() => {
                Ok(Node::Link(name.to_owned()))
            }
            Node::ProcNet => Err(Errno::ENOENT),
            Node::File(..) | Node::Link(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The tree of the network namespace of the one who asks.
    fn tree_of(&self, caller: Caller) -> Result<Option<(TreeId, Arc<dyn Tree>)>> {
        let id = self.trees.of_thread(caller.tid, is_root(caller)).map_err(|error| {
            tracing::debug!(%error, caller.tid, "no control tree for a thread");
            Errno::EIO
        })?;
        Ok(id.and_then(|id| Some((id, self.trees.get(id)?))))
    }

    /// The tree `id`, if it has a file `name`.
    fn tree_with(&self, id: TreeId, name: &OsStr) -> Result<Arc<dyn Tree>> {
        let tree = self.trees.get(id).ok_or(Errno::ENOENT)?;
        tree.contains(name).then_some(tree).ok_or(Errno::ENOENT)
    }

    /// The rows of a directory, as seen by the one who asks.
    fn listing(&self, caller: Caller, node: u64) -> Result<Vec<DirectoryRow>> {
        let mut names = vec![(".".into(), FileKind::Directory), ("..".into(), FileKind::Directory)];
        match self.node(node)? {
            Node::Pktgen => {
                let tree = self.tree_of(caller)?;
                let files = tree.map(|(_, tree)| tree.names()).unwrap_or_default();
                names.extend(files.into_iter().map(|name| (name, FileKind::Regular)));
            }
            Node::ProcNet => {
                names.push(("pktgen".into(), FileKind::Directory));
                let entries = proc_net_of(caller.tid).read_dir().map_err(to_errno)?;
                let links = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
                names.extend(links.filter(|name| name != "pktgen").map(|name| (name, FileKind::Link)));
            }
            Node::File(..) | Node::Link(_) => return Err(Errno::ENOTDIR),
        }
        let row = |(next, (name, kind))| DirectoryRow { name, kind, inode: UNKNOWN_INODE, next };
        Ok((1..).zip(names).map(row).collect())
    }

    /// Checks the right to write at each write, of the process that writes, as pktgen does.
    fn may_write(&self, caller: Caller, handle: Arc<Handle>) -> Result<Arc<Handle>> {
        if handle.needs_net_admin() {
            only_with_one_of(caller, &[Right::NetAdmin]).inspect_err(|_| {
                tracing::info!(target: REFUSED, "{}: the writer needs CAP_NET_ADMIN", handle.name());
            })?;
        }
        Ok(handle)
    }

    fn open_file(&self, tree: &Arc<dyn Tree>, name: &OsStr, flags: u32) -> Opened {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let is_append = flags & libc::O_APPEND.cast_unsigned() != 0;
        let handle = Handle::new(tree, name.to_owned(), is_append);
        lock(&self.files).insert(number, Arc::new(handle));
        Opened { handle: number, flags: FOPEN_DIRECT_IO | FOPEN_NOFLUSH }
    }
}

impl FileSystem for ControlFs {
    fn write_bytes_max(&self) -> u32 {
        WRITE_BYTES_MAX
    }

    fn look_up(&self, caller: Caller, parent: u64, name: &OsStr) -> Result<Entry> {
        let node = self.child(caller, parent, name)?;
        let mut attributes = attributes(&node);
        if let Node::File(..) = node {
            attributes.size = LEN_UNTIL_READ;
        }
        Ok(Entry { node: lock(&self.nodes).look_up(&node), attributes, valid: caching(&node) })
    }

    fn forget(&self, node: u64) {
        lock(&self.nodes).forget(node);
    }

    fn attributes(&self, node: u64) -> Result<(Attributes, Duration)> {
        let node = self.node(node)?;
        Ok((attributes(&node), caching(&node)))
    }

    /// They succeed and change nothing, for root.
    fn set_attributes(
        &self,
        caller: Caller,
        node: u64,
        change: AttributeChange,
    ) -> Result<(Attributes, Duration)> {
        // One who has the file open was let in before.
        let is_allowed = is_root(caller) || change.has_handle && change.has_size;
        if is_allowed {
            return FileSystem::attributes(self, node);
        }
        Err(if change.has_size { Errno::EACCES } else { Errno::EPERM })
    }

    fn access(&self, caller: Caller, node: u64, mask: u32) -> Result<()> {
        let is_allowed = match self.node(node)? {
            // No file can be executed.
            Node::File(..) => is_root(caller) && mask & libc::X_OK.cast_unsigned() == 0,
            Node::Link(_) => true,
            Node::ProcNet | Node::Pktgen => is_root(caller) || mask & libc::W_OK.cast_unsigned() == 0,
        };
        is_allowed.then_some(()).ok_or(Errno::EACCES)
    }

    fn read_link(&self, node: u64) -> Result<OsString> {
        let Node::Link(name) = self.node(node)? else { return Err(Errno::EINVAL) };
        Ok(Path::new("/proc/self/net").join(name).into_os_string())
    }

    fn refusal(&self, caller: Caller, is_removal: bool) -> Errno {
        match only_root(caller) {
            Err(errno) => errno,
            Ok(()) if is_removal => Errno::EPERM,
            Ok(()) => Errno::ENOENT,
        }
    }

    fn open(&self, caller: Caller, node: u64, flags: u32) -> Result<Opened> {
        only_root(caller)?;
        only_known(caller)?;
        let Node::File(id, name) = self.node(node)? else { return Err(Errno::EINVAL) };
        let tree = self.tree_with(id, &name)?;
        Ok(self.open_file(&tree, &name, flags))
    }

    /// The kernel asks this for a name it did not find; it is there only if it was added since.
    fn create(&self, caller: Caller, parent: u64, name: &OsStr, flags: u32) -> Result<(Entry, Opened)> {
        only_root(caller)?;
        only_known(caller)?;
        let entry = self.look_up(caller, parent, name)?;
        let Node::File(id, _) = self.node(entry.node)? else { return Err(Errno::EISDIR) };
        let tree = self.trees.get(id).ok_or(Errno::ENOENT)?;
        Ok((entry, self.open_file(&tree, name, flags)))
    }

    fn read(
        &self,
        _caller: Caller,
        handle: u64,
        offset: u64,
        size: u32,
        _cancel: &Cancel,
    ) -> Result<Vec<u8>> {
        self.handle(handle)?.read(offset, size)
    }

    fn write(&self, caller: Caller, handle: u64, offset: u64, data: &[u8], cancel: &Cancel) -> Result<()> {
        let handle = self.may_write(caller, self.handle(handle)?)?;
        handle.write(offset, data, cancel)
    }

    fn release(&self, handle: u64) {
        lock(&self.files).remove(&handle);
    }

    fn sync(&self, _handle: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }

    fn open_directory(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// The rows that a listing started with; a rewound directory is listed anew.
    fn rows(&self, caller: Caller, node: u64, handle: u64, offset: u64) -> Result<Vec<DirectoryRow>> {
        if offset == 0 {
            let rows = self.listing(caller, node)?;
            lock(&self.listings).insert(handle, rows.clone());
            return Ok(rows);
        }
        let listings = lock(&self.listings);
        Ok(rows_from(listings.get(&handle).ok_or(Errno::EBADF)?, offset))
    }

    fn release_directory(&self, handle: u64) {
        lock(&self.listings).remove(&handle);
    }
}

fn is_root(caller: Caller) -> bool {
    caller.uid == 0
}

/// The files are root's, and so are the directories.
fn only_root(caller: Caller) -> Result<()> {
    if is_root(caller) { Ok(()) } else { Err(Errno::EACCES) }
}

/// The files are not for a process outside our PID namespace: nothing is known of its rights.
fn only_known(caller: Caller) -> Result<()> {
    if caller.tid == 0 { Err(Errno::EACCES) } else { Ok(()) }
}

/// The thread that made the request waits for the answer even when it is killed, so its number
/// cannot be given to another while its capabilities are read.
pub(crate) fn only_with_one_of(caller: Caller, rights: &[Right]) -> Result<()> {
    let is_allowed = rights.iter().any(|right| thread_has_right(caller.tid, *right));
    if is_allowed { Ok(()) } else { Err(Errno::EPERM) }
}

fn to_errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// The rows from `offset` on.
fn rows_from(rows: &[DirectoryRow], offset: u64) -> Vec<DirectoryRow> {
    rows.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).cloned().collect()
}

/// `/proc/net` as the thread `tid` sees it; 0 is a thread of another PID namespace.
fn proc_net_of(tid: u32) -> PathBuf {
    if tid == 0 { PathBuf::from("/proc/self/net") } else { PathBuf::from(format!("/proc/{tid}/net")) }
}

/// How long the kernel may keep a look-up and attributes.
fn caching(node: &Node) -> Duration {
    match node {
        Node::ProcNet | Node::Pktgen => DIRECTORY_CACHING,
        Node::File(..) | Node::Link(_) => NO_CACHING,
    }
}

/// Modes as procfs shows them.
fn attributes(node: &Node) -> Attributes {
    let (kind, permissions, links) = match node {
        Node::ProcNet | Node::Pktgen => (FileKind::Directory, 0o555, 2),
        Node::File(..) => (FileKind::Regular, 0o600, 1),
        Node::Link(_) => (FileKind::Link, 0o777, 1),
    };
    Attributes { inode: node.inode_number(), size: 0, kind, permissions, links }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_goes_on_where_it_ended() {
        let row = |(next, name): (u64, &str)| DirectoryRow {
            name: name.into(),
            kind: FileKind::Regular,
            inode: UNKNOWN_INODE,
            next,
        };
        let rows: Vec<_> = [(1, "a"), (2, "b")].into_iter().map(row).collect();
        let after_first: Vec<_> = rows_from(&rows, 1).into_iter().map(|row| (row.next, row.name)).collect();
        assert_eq!(after_first, [(2, OsString::from("b"))]);
        assert!(rows_from(&rows, u64::MAX).is_empty());
    }
}
