//! The file system: FUSE requests are answered as procfs answers for pktgen's directory.
//!
//! The kernel caches nothing (no time-outs, direct I/O), so files appear and disappear at once. A
//! read returns the text as it was when the reader started, like a seq_file. A write is one
//! command, whatever its offset. A write runs on a thread of its own, so a blocked `start` delays
//! no other call. All other calls into the tree end soon, and run where the request was taken: to
//! hand one to another thread takes longer than the call. A signal to a writer arrives as
//! FUSE_INTERRUPT and fires its [`Cancel`]; the writer still gets the tree's answer, with full
//! length.

use crate::directory::{DirectoryRow, Listing, NO_CACHING, listed, listed_plus};
use crate::inodes::{Inodes, Node};
use crate::seq_file::Handle;
use crate::tree::{Cancel, Errno, REFUSED, Tree, lock};
use crate::trees::{TreeId, Trees};
use fuse3::raw::prelude::*;
use fuse3::{Result, Timestamp};
use host::{Right, thread_has_right};
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// `FOPEN_DIRECT_IO` of the FUSE protocol: each read and write reaches the server as it was made.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1;
/// `FOPEN_NOFLUSH`: closing a file sends no request to the server. Older kernels (6.1, 6.12) else
/// wait for the process that writes to it, and so would every child of a program whose other thread
/// writes `start`, as soon as it closes what it inherited.
pub(crate) const FOPEN_NOFLUSH: u32 = 1 << 5;
/// Longest write that arrives in one piece; a longer one is split by the kernel.
const MAX_WRITE_BYTES: NonZeroU32 = NonZeroU32::new(1 << 20).unwrap();
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
/// What `stat` calls a good size for reads and writes, as procfs does.
const BLOCK_BYTES: u32 = 1024;
/// Interrupts remembered for requests whose task has not started yet.
const EARLY_INTERRUPTS: usize = 64;

/// Writes that wait for the tree, and interrupts that overtook theirs.
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    writes: HashMap<u64, Cancel>,
    early: VecDeque<u64>,
}

impl PendingWrites {
    /// Registers a write; an interrupt that overtook it has fired its token already.
    pub(crate) fn begin(&mut self, unique: u64) -> Cancel {
        let cancel = Cancel::new();
        if let Some(index) = self.early.iter().position(|early| *early == unique) {
            self.early.remove(index);
            cancel.fire();
        }
        self.writes.insert(unique, cancel.clone());
        cancel
    }

    /// The request has its answer.
    pub(crate) fn end(&mut self, unique: u64) {
        self.writes.remove(&unique);
    }

    pub(crate) fn interrupt(&mut self, unique: u64) {
        if let Some(cancel) = self.writes.get(&unique) {
            cancel.fire();
            return;
        }
        if self.early.len() == EARLY_INTERRUPTS {
            self.early.pop_front();
        }
        self.early.push_back(unique);
    }
}

/// [`Trees`] as a FUSE server.
pub(crate) struct ControlFs {
    trees: Arc<Trees>,
    nodes: Mutex<Inodes>,
    files: Mutex<HashMap<u64, Arc<Handle>>>,
    listings: Mutex<HashMap<u64, Arc<Vec<Listed>>>>,
    pending: Mutex<PendingWrites>,
    next_handle: AtomicU64,
}

/// One row of a listing.
type Listed = (OsString, FileType);

impl ControlFs {
    /// Serves `trees` with `root` ([`Node::Pktgen`] or [`Node::ProcNet`]) at the mount point.
    pub(crate) fn new(trees: Arc<Trees>, root: Node) -> Self {
        Self {
            trees,
            nodes: Mutex::new(Inodes::new(root)),
            files: Mutex::default(),
            listings: Mutex::default(),
            pending: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn node(&self, id: u64) -> Result<Node> {
        lock(&self.nodes).node(id).ok_or_else(|| libc::ESTALE.into())
    }

    fn handle(&self, fh: u64) -> Result<Arc<Handle>> {
        lock(&self.files).get(&fh).cloned().ok_or_else(|| libc::EBADF.into())
    }

    /// What stands under `name` in the directory `parent`, if anything.
    fn child(&self, req: Request, parent: u64, name: &OsStr) -> Result<Node> {
        let pid = req.pid;
        match self.node(parent)? {
            Node::Pktgen => {
                let (id, _) = self.tree_of(req)?.ok_or(libc::ENOENT)?;
                self.tree_with(id, name)?;
                Ok(Node::File(id, name.to_owned()))
            }
            Node::ProcNet if name == "pktgen" => Ok(Node::Pktgen),
            Node::ProcNet if proc_net_of(pid).join(name).symlink_metadata().is_ok() => {
                Ok(Node::Link(name.to_owned()))
            }
            Node::ProcNet => Err(libc::ENOENT.into()),
            Node::File(..) | Node::Link(_) => Err(libc::ENOTDIR.into()),
        }
    }

    /// The tree of the network namespace of the one who asks.
    fn tree_of(&self, req: Request) -> Result<Option<(TreeId, Arc<dyn Tree>)>> {
        let tid = req.pid;
        let id = in_tree(|| self.trees.of_thread(tid, is_root(req)))?.map_err(|error| {
            tracing::debug!(%error, tid, "no control tree for a thread");
            fuse3::Errno::from(libc::EIO)
        })?;
        Ok(id.and_then(|id| Some((id, self.trees.get(id)?))))
    }

    /// The tree `id`, if it has a file `name`.
    fn tree_with(&self, id: TreeId, name: &OsStr) -> Result<Arc<dyn Tree>> {
        let tree = self.trees.get(id).ok_or(libc::ENOENT)?;
        in_tree(|| tree.contains(name))?.then_some(tree).ok_or_else(|| libc::ENOENT.into())
    }

    /// The rows of a directory, as seen by the one who asks.
    fn listing(&self, req: Request, id: u64) -> Result<Vec<Listed>> {
        let mut rows = vec![(".".into(), FileType::Directory), ("..".into(), FileType::Directory)];
        match self.node(id)? {
            Node::Pktgen => {
                let Some((_, tree)) = self.tree_of(req)? else { return Ok(rows) };
                let names = in_tree(|| tree.names())?;
                rows.extend(names.into_iter().map(|name| (name, FileType::RegularFile)));
            }
            Node::ProcNet => {
                rows.push(("pktgen".into(), FileType::Directory));
                let entries = proc_net_of(req.pid).read_dir().map_err(fuse3::Errno::from)?;
                let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
                rows.extend(names.filter(|name| name != "pktgen").map(|name| (name, FileType::Symlink)));
            }
            Node::File(..) | Node::Link(_) => return Err(libc::ENOTDIR.into()),
        }
        Ok(rows)
    }

    /// Checks the right to write at each write, of the process that writes, as pktgen does.
    fn may_write(&self, req: Request, handle: Arc<Handle>) -> Result<Arc<Handle>> {
        if handle.needs_net_admin() {
            only_with_one_of(req, &[Right::NetAdmin]).inspect_err(|_| {
                tracing::info!(target: REFUSED, "{}: the writer needs CAP_NET_ADMIN", handle.name());
            })?;
        }
        Ok(handle)
    }

    fn open_file(&self, tree: &Arc<dyn Tree>, name: &OsStr, flags: u32) -> ReplyOpen {
        let fh = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let is_append = flags & libc::O_APPEND.cast_unsigned() != 0;
        let handle = Handle::new(tree, name.to_owned(), is_append);
        lock(&self.files).insert(fh, Arc::new(handle));
        ReplyOpen { fh, flags: FOPEN_DIRECT_IO | FOPEN_NOFLUSH }
    }

    /// The rows that a listing started with; a rewound directory is listed anew.
    fn rows(&self, req: Request, id: u64, fh: u64, offset: u64) -> Result<Arc<Vec<Listed>>> {
        if offset == 0 {
            let rows = Arc::new(self.listing(req, id)?);
            lock(&self.listings).insert(fh, Arc::clone(&rows));
            return Ok(rows);
        }
        lock(&self.listings).get(&fh).cloned().ok_or_else(|| libc::EBADF.into())
    }
}

impl Filesystem for ControlFs {
    async fn init(&self, _req: Request) -> Result<ReplyInit> {
        Ok(ReplyInit::new(MAX_WRITE_BYTES))
    }

    async fn destroy(&self, _req: Request) {}

    async fn lookup(&self, req: Request, parent: u64, name: &OsStr) -> Result<ReplyEntry> {
        let node = self.child(req, parent, name)?;
        let id = lock(&self.nodes).look_up(&node);
        let mut attr = attributes(id, &node);
        if let Node::File(..) = node {
            attr.size = LEN_UNTIL_READ;
        }
        Ok(ReplyEntry { ttl: caching(&node), attr, generation: 0 })
    }

    async fn forget(&self, _req: Request, inode: u64, _nlookup: u64) {
        lock(&self.nodes).forget(inode);
    }

    async fn batch_forget(&self, _req: Request, inodes: &[(u64, u64)]) {
        let mut nodes = lock(&self.nodes);
        inodes.iter().for_each(|(inode, _)| nodes.forget(*inode));
    }

    async fn getattr(&self, _req: Request, inode: u64, _fh: Option<u64>, _flags: u32) -> Result<ReplyAttr> {
        let node = self.node(inode)?;
        Ok(ReplyAttr { ttl: caching(&node), attr: attributes(node.inode_number(), &node) })
    }

    /// `chmod`, `touch` and `truncate` succeed and change nothing, for root.
    async fn setattr(&self, req: Request, inode: u64, fh: Option<u64>, attr: SetAttr) -> Result<ReplyAttr> {
        // One who has the file open was let in before.
        if !is_root(req) && (fh.is_none() || attr.size.is_none()) {
            return Err(if attr.size.is_some() { libc::EACCES } else { libc::EPERM }.into());
        }
        self.getattr(req, inode, fh, 0).await
    }

    async fn access(&self, req: Request, inode: u64, mask: u32) -> Result<()> {
        let is_allowed = match self.node(inode)? {
            // No file can be executed.
            Node::File(..) => is_root(req) && mask & libc::X_OK.cast_unsigned() == 0,
            Node::Link(_) => true,
            Node::ProcNet | Node::Pktgen => is_root(req) || mask & libc::W_OK.cast_unsigned() == 0,
        };
        is_allowed.then_some(()).ok_or_else(|| libc::EACCES.into())
    }

    async fn readlink(&self, _req: Request, inode: u64) -> Result<ReplyData> {
        let Node::Link(name) = self.node(inode)? else { return Err(libc::EINVAL.into()) };
        let target = Path::new("/proc/self/net").join(name);
        Ok(ReplyData { data: target.into_os_string().into_encoded_bytes().into() })
    }

    async fn mknod(
        &self,
        req: Request,
        _parent: u64,
        _name: &OsStr,
        _mode: u32,
        _rdev: u32,
    ) -> Result<ReplyEntry> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn mkdir(
        &self,
        req: Request,
        _parent: u64,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
    ) -> Result<ReplyEntry> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn symlink(&self, req: Request, _parent: u64, _name: &OsStr, _link: &OsStr) -> Result<ReplyEntry> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn link(&self, req: Request, _inode: u64, _parent: u64, _name: &OsStr) -> Result<ReplyEntry> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn unlink(&self, req: Request, _parent: u64, _name: &OsStr) -> Result<()> {
        only_root(req)?;
        Err(libc::EPERM.into())
    }

    async fn rmdir(&self, req: Request, _parent: u64, _name: &OsStr) -> Result<()> {
        only_root(req)?;
        Err(libc::EPERM.into())
    }

    async fn rename(
        &self,
        req: Request,
        _parent: u64,
        _name: &OsStr,
        _new_parent: u64,
        _new: &OsStr,
    ) -> Result<()> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn rename2(
        &self,
        req: Request,
        _parent: u64,
        _name: &OsStr,
        _new_parent: u64,
        _new: &OsStr,
        _flags: u32,
    ) -> Result<()> {
        only_root(req)?;
        Err(libc::ENOENT.into())
    }

    async fn open(&self, req: Request, inode: u64, flags: u32) -> Result<ReplyOpen> {
        only_root(req)?;
        only_known(req)?;
        let Node::File(id, name) = self.node(inode)? else { return Err(libc::EINVAL.into()) };
        let tree = self.tree_with(id, &name)?;
        Ok(self.open_file(&tree, &name, flags))
    }

    /// The kernel asks this for a name it did not find; it is there only if it was added since.
    async fn create(
        &self,
        req: Request,
        parent: u64,
        name: &OsStr,
        _mode: u32,
        flags: u32,
    ) -> Result<ReplyCreated> {
        only_root(req)?;
        only_known(req)?;
        let ReplyEntry { ttl, attr, generation } = self.lookup(req, parent, name).await?;
        let Node::File(id, _) = self.node(attr.ino)? else { return Err(libc::EISDIR.into()) };
        let tree = self.trees.get(id).ok_or(libc::ENOENT)?;
        let ReplyOpen { fh, flags } = self.open_file(&tree, name, flags);
        Ok(ReplyCreated { ttl, attr, generation, fh, flags })
    }

    async fn read(&self, _req: Request, _inode: u64, fh: u64, offset: u64, size: u32) -> Result<ReplyData> {
        let handle = self.handle(fh)?;
        let data = in_tree(|| handle.read(offset, size))?.map_err(to_fuse)?;
        Ok(ReplyData { data: data.into() })
    }

    async fn write(
        &self,
        req: Request,
        _inode: u64,
        fh: u64,
        offset: u64,
        data: &[u8],
        _write_flags: u32,
        _flags: u32,
    ) -> Result<ReplyWrite> {
        let cancel = lock(&self.pending).begin(req.unique);
        let answer = match self.handle(fh).and_then(|handle| self.may_write(req, handle)) {
            Ok(handle) => {
                let bytes = data.to_vec();
                waiting(move || handle.write(offset, &bytes, &cancel).map_err(to_fuse)).await
            }
            Err(errno) => Err(errno),
        };
        lock(&self.pending).end(req.unique);
        answer.map(|()| ReplyWrite {
            written: u32::try_from(data.len()).expect("a write fits MAX_WRITE_BYTES"),
        })
    }

    async fn release(
        &self,
        _req: Request,
        _inode: u64,
        fh: u64,
        _flags: u32,
        _lock_owner: u64,
        _flush: bool,
    ) -> Result<()> {
        lock(&self.files).remove(&fh);
        Ok(())
    }

    async fn fsync(&self, _req: Request, _inode: u64, _fh: u64, _datasync: bool) -> Result<()> {
        Err(libc::EINVAL.into())
    }

    async fn interrupt(&self, _req: Request, unique: u64) -> Result<()> {
        lock(&self.pending).interrupt(unique);
        Ok(())
    }

    async fn statfs(&self, _req: Request, _inode: u64) -> Result<ReplyStatFs> {
        Ok(ReplyStatFs {
            blocks: 0,
            bfree: 0,
            bavail: 0,
            files: 0,
            ffree: 0,
            bsize: 4096,
            namelen: 255,
            frsize: 0,
        })
    }

    async fn opendir(&self, _req: Request, _inode: u64, _flags: u32) -> Result<ReplyOpen> {
        Ok(ReplyOpen { fh: self.next_handle.fetch_add(1, Ordering::Relaxed), flags: 0 })
    }

    #[expect(refining_impl_trait, reason = "`Files` needs the type of the listing")]
    async fn readdir(
        &self,
        req: Request,
        parent: u64,
        fh: u64,
        offset: i64,
    ) -> Result<ReplyDirectory<Listing<DirectoryEntry>>> {
        let rows = self.rows(req, parent, fh, offset.cast_unsigned())?;
        Ok(listed(rows_from(&rows, offset.cast_unsigned())))
    }

    #[expect(refining_impl_trait, reason = "`Files` needs the type of the listing")]
    async fn readdirplus(
        &self,
        req: Request,
        parent: u64,
        fh: u64,
        offset: u64,
        _lock_owner: u64,
    ) -> Result<ReplyDirectoryPlus<Listing<DirectoryEntryPlus>>> {
        let rows = self.rows(req, parent, fh, offset)?;
        Ok(listed_plus(rows_from(&rows, offset), attributes(0, &Node::Pktgen)))
    }

    async fn releasedir(&self, _req: Request, _inode: u64, fh: u64, _flags: u32) -> Result<()> {
        lock(&self.listings).remove(&fh);
        Ok(())
    }
}

fn is_root(req: Request) -> bool {
    req.uid == 0
}

/// The files are root's, and so are the directories.
fn only_root(req: Request) -> Result<()> {
    if is_root(req) { Ok(()) } else { Err(libc::EACCES.into()) }
}

/// The files are not for a process outside our PID namespace: nothing is known of its rights.
fn only_known(req: Request) -> Result<()> {
    if req.pid == 0 { Err(libc::EACCES.into()) } else { Ok(()) }
}

/// The thread that made the request waits for the answer even when it is killed, so its number
/// cannot be given to another while its capabilities are read.
pub(crate) fn only_with_one_of(req: Request, rights: &[Right]) -> Result<()> {
    let is_allowed = rights.iter().any(|right| thread_has_right(req.pid, *right));
    if is_allowed { Ok(()) } else { Err(libc::EPERM.into()) }
}

fn to_fuse(errno: Errno) -> fuse3::Errno {
    fuse3::Errno::from(errno as i32)
}

/// A call into the tree that ends soon. One that panics is answered, too.
fn in_tree<T>(call: impl FnOnce() -> T) -> Result<T> {
    // What is behind locks stays whole when a thread that held one panics.
    panic::catch_unwind(AssertUnwindSafe(call)).map_err(|_| panicked("its message is on standard error"))
}

/// Runs a write, which may wait as long as a run takes, on a thread of its own: tokio's threads for
/// blocking calls have a limit, and enough writers of `start` would keep `stop` and every look-up
/// waiting.
async fn waiting<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (tell, told) = oneshot::channel();
    let body = move || {
        // The session may have ended meanwhile; then no reader is left.
        let _ = tell.send(call());
    };
    thread::Builder::new().name("write".to_owned()).spawn(body).map_err(|error| {
        tracing::error!(%error, "no thread for a write; the writer gets EAGAIN");
        fuse3::Errno::from(libc::EAGAIN)
    })?;
    told.await.unwrap_or_else(|error| Err(panicked(error)))
}

pub(crate) fn panicked(error: impl std::fmt::Display) -> fuse3::Errno {
    tracing::error!(%error, "the control tree panicked; the caller gets EIO");
    libc::EIO.into()
}

/// The rows from `offset` on.
fn rows_from(rows: &[Listed], offset: u64) -> impl Iterator<Item = DirectoryRow> + '_ {
    let row = |(next, (name, kind)): (i64, &Listed)| DirectoryRow {
        name: name.clone(),
        kind: *kind,
        inode: UNKNOWN_INODE,
        next,
    };
    (1..).zip(rows).skip(usize::try_from(offset).unwrap_or(usize::MAX)).map(row)
}

/// `/proc/net` as the process `pid` sees it; 0 is a process of another pid namespace.
fn proc_net_of(pid: u32) -> PathBuf {
    if pid == 0 { PathBuf::from("/proc/self/net") } else { PathBuf::from(format!("/proc/{pid}/net")) }
}

/// How long the kernel may keep a look-up and attributes.
fn caching(node: &Node) -> Duration {
    match node {
        Node::ProcNet | Node::Pktgen => DIRECTORY_CACHING,
        Node::File(..) | Node::Link(_) => NO_CACHING,
    }
}

/// Modes as procfs shows them.
fn attributes(id: u64, node: &Node) -> FileAttr {
    let (kind, perm, nlink) = match node {
        Node::ProcNet | Node::Pktgen => (FileType::Directory, 0o555, 2),
        Node::File(..) => (FileType::RegularFile, 0o600, 1),
        Node::Link(_) => (FileType::Symlink, 0o777, 1),
    };
    plain_attributes(id, kind, perm, nlink)
}

/// Root's, empty, and of no time: the epoch.
pub(crate) fn plain_attributes(id: u64, kind: FileType, perm: u16, nlink: u32) -> FileAttr {
    let epoch = Timestamp::new(0, 0);
    FileAttr {
        ino: id,
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        kind,
        perm,
        nlink,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_overtakes_its_write_is_not_lost() {
        let mut pending = PendingWrites::default();
        pending.interrupt(12);
        assert!(!pending.begin(10).is_fired());
        assert!(pending.begin(12).is_fired());
        assert!(!pending.begin(12).is_fired(), "it is spent");
        (0..1000).for_each(|unique| pending.interrupt(1000 + unique));
        assert_eq!(
            pending.early.len(),
            EARLY_INTERRUPTS,
            "those whose request has ended are not kept for good"
        );
    }

    #[test]
    fn a_call_that_panics_is_answered() {
        assert_eq!(in_tree(|| 7), Ok(7));
        assert_eq!(in_tree(|| panic!("as a test")), Err::<(), _>(libc::EIO.into()));
    }

    #[test]
    fn a_listing_keeps_its_rows_until_it_is_rewound() {
        let rows = [("a".into(), FileType::RegularFile), ("b".into(), FileType::RegularFile)];
        let after_first: Vec<_> = rows_from(&rows, 1).map(|row| (row.next, row.name)).collect();
        assert_eq!(after_first, [(2, OsString::from("b"))]);
    }
}
