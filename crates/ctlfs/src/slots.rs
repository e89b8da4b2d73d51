//! mgcap's directory of device files over FUSE: a file per captured device, read as a stream of
//! slots.
//!
//! A reader that is pinned to one CPU gets the frames of that CPU, as with the kernel module; other
//! readers get all. A read waits for a slot (`O_NONBLOCK`: EAGAIN), and poll reports one. Each
//! write to the hidden file `.control` is a command. Reading it lists the captures, or the error of
//! the last command on the same descriptor. [`SlotTree`] supplies the slots.

use crate::directory::{DirectoryRow, Listing, NO_CACHING, listed, listed_plus};
use crate::fs::{
    FOPEN_DIRECT_IO, FOPEN_NOFLUSH, PendingWrites, only_with_one_of, panicked, plain_attributes,
};
use crate::tree::{Cancel, Errno, lock};
use fuse3::Result;
use fuse3::notify::Notify;
use fuse3::raw::prelude::*;
use host::{Netns, Right};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the kernel module had its device files.
pub const DEFAULT_DIR: &str = "/dev/mgcap";
/// The file that takes orders.
pub const CONTROL: &str = ".control";

/// `FOPEN_STREAM` of the FUSE protocol: offsets mean nothing.
const FOPEN_STREAM: u32 = 1 << 4;
const OPEN_FLAGS: u32 = FOPEN_DIRECT_IO | FOPEN_STREAM | FOPEN_NOFLUSH;
/// Longest order.
const MAX_WRITE_BYTES: NonZeroU32 = NonZeroU32::new(128 << 10).unwrap();
/// From this size on a read is answered with one slot less than fits: the kernel splits long reads,
/// and sends the next part, which would wait, only when the last one was filled.
const CUT_BYTES: usize = 32 << 10;
/// Bytes of one slot.
const SLOT_LEN: usize = 128;
/// Poll interval of readers.
const LOOK: Duration = Duration::from_micros(500);
/// Poll interval for readers that poll, or have waited for long.
const LOOK_SELDOM: Duration = Duration::from_millis(2);

const ROOT_ID: u64 = 1;

/// The captures behind the directory. Calls come from any number of threads at once.
pub trait SlotTree: Send + Sync + 'static {
    /// Every captured device.
    fn names(&self) -> Vec<String>;

    /// True when `name` is captured.
    fn contains(&self, name: &str) -> bool;

    /// Appends whole slots of `name`, `len_max` bytes at most: of one CPU, or of all. False when it
    /// is captured no more.
    fn take(&self, name: &str, cpu: Option<u32>, len_max: usize, out: &mut Vec<u8>) -> bool;

    /// True when `take` would find something, or the end.
    fn is_ready(&self, name: &str, cpu: Option<u32>) -> bool;

    /// Carries out one order, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The error number of `write(2)`, and a sentence.
    fn control(&self, order: &str) -> std::result::Result<(), (Errno, String)>;

    /// What is captured, for people and programs: a line for each device.
    fn state(&self) -> String;
}

/// The network namespace in which an order is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderNetns {
    /// That of the process which gives the order.
    OfWriter,
    /// Ours.
    Ours,
}

/// One open file.
#[derive(Debug)]
struct Open {
    name: OsString,
    is_nonblocking: bool,
    /// Of `.control`: what is left to be read, and whether anything was.
    text: Mutex<Option<Vec<u8>>>,
}

/// A [`SlotTree`] as a FUSE server.
pub(crate) struct SlotFs {
    tree: Arc<dyn SlotTree>,
    order_netns: OrderNetns,
    /// Names by the numbers that the kernel has for them.
    names: Mutex<HashMap<u64, OsString>>,
    files: Arc<Mutex<HashMap<u64, Arc<Open>>>>,
    pending: Mutex<PendingWrites>,
    /// Poll handles with a thread.
    polls: Arc<Mutex<HashSet<u64>>>,
    next_handle: AtomicU64,
}

impl SlotFs {
    pub(crate) fn new(tree: Arc<dyn SlotTree>, order_netns: OrderNetns) -> Self {
        Self {
            tree,
            order_netns,
            names: Mutex::default(),
            files: Arc::default(),
            pending: Mutex::default(),
            polls: Arc::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn is_there(&self, name: &OsStr) -> bool {
        name == CONTROL || name.to_str().is_some_and(|name| self.tree.contains(name))
    }

    fn handle(&self, fh: u64) -> Result<Arc<Open>> {
        lock(&self.files).get(&fh).cloned().ok_or_else(|| libc::EBADF.into())
    }

    fn attributes(&self, inode: u64) -> Result<FileAttr> {
        if inode == ROOT_ID || lock(&self.names).contains_key(&inode) {
            return Ok(attributes(inode));
        }
        Err(libc::ESTALE.into())
    }

    /// Slots as soon as there are some.
    async fn slots(&self, open: &Open, cpu: Option<u32>, len_max: usize, cancel: &Cancel) -> Result<Vec<u8>> {
        let mut looks = 0_u32;
        loop {
            let (tree, name) = (Arc::clone(&self.tree), open.name.clone());
            let taken = on_own_thread(move || {
                let mut out = Vec::new();
                let name = name.to_str().unwrap_or_default();
                Ok(tree.take(name, cpu, len_max, &mut out).then_some(out))
            });
            match taken.await? {
                // Captured no more: the end of the file.
                None => return Ok(Vec::new()),
                Some(slots) if !slots.is_empty() => return Ok(slots),
                Some(_) if cancel.is_fired() => return Err(libc::EINTR.into()),
                Some(_) if open.is_nonblocking => return Err(libc::EAGAIN.into()),
                Some(_) => {}
            }
            looks = looks.saturating_add(1);
            tokio::time::sleep(if looks < 100 { LOOK } else { LOOK_SELDOM }).await;
        }
    }

    /// The text of `.control` for one descriptor, then its end.
    fn text(&self, open: &Open, size: usize) -> Vec<u8> {
        let mut text = lock(&open.text);
        let left = text.get_or_insert_with(|| self.tree.state().into_bytes());
        let len = left.len().min(size);
        left.drain(..len).collect()
    }
}

/// Carries out an order, in the network namespace of the thread `writer` if there is one.
fn carry_out(
    tree: &dyn SlotTree,
    order: &str,
    writer: Option<u32>,
) -> std::result::Result<(), (Errno, String)> {
    let Some(writer) = writer else { return tree.control(order) };
    let done = Netns::of_process(writer).and_then(|netns| netns.run(|| tree.control(order)));
    done.unwrap_or_else(|error| Err((Errno::EIO, error.to_string())))
}

/// The CPU of a reader that may run on one only; readers of other pid namespaces have no number
/// here.
fn cpu_of(pid: u32) -> Option<u32> {
    if pid == 0 {
        return None;
    }
    let set = sched_getaffinity(Pid::from_raw(pid.cast_signed())).ok()?;
    let mut cpus = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true));
    match (cpus.next(), cpus.next()) {
        (Some(cpu), None) => u32::try_from(cpu).ok(),
        _ => None,
    }
}

/// Whole slots for a read of `size` bytes; nothing fits into less than one.
fn len_for(size: usize) -> Result<usize> {
    match size {
        0..SLOT_LEN => Err(libc::EINVAL.into()),
        SLOT_LEN..CUT_BYTES => Ok(size / SLOT_LEN * SLOT_LEN),
        _ => Ok(size / SLOT_LEN * SLOT_LEN - SLOT_LEN),
    }
}

impl Filesystem for SlotFs {
    async fn init(&self, _req: Request) -> Result<ReplyInit> {
        Ok(ReplyInit::new(MAX_WRITE_BYTES))
    }

    async fn destroy(&self, _req: Request) {}

    async fn lookup(&self, _req: Request, parent: u64, name: &OsStr) -> Result<ReplyEntry> {
        if parent != ROOT_ID || !self.is_there(name) {
            return Err(libc::ENOENT.into());
        }
        let id = number_of(name);
        lock(&self.names).insert(id, name.to_owned());
        Ok(ReplyEntry { ttl: NO_CACHING, attr: attributes(id), generation: 0 })
    }

    async fn getattr(&self, _req: Request, inode: u64, _fh: Option<u64>, _flags: u32) -> Result<ReplyAttr> {
        Ok(ReplyAttr { ttl: NO_CACHING, attr: self.attributes(inode)? })
    }

    /// `echo order > .control` truncates first, which changes nothing.
    async fn setattr(
        &self,
        _req: Request,
        inode: u64,
        _fh: Option<u64>,
        _attr: SetAttr,
    ) -> Result<ReplyAttr> {
        Ok(ReplyAttr { ttl: NO_CACHING, attr: self.attributes(inode)? })
    }

    /// Frames are for those who may open a packet socket. The kernel has looked at the mode bits
    /// before.
    async fn open(&self, req: Request, inode: u64, flags: u32) -> Result<ReplyOpen> {
        let name = lock(&self.names).get(&inode).cloned().ok_or(libc::EISDIR)?;
        if !self.is_there(&name) {
            return Err(libc::ENOENT.into());
        }
        if name != CONTROL {
            only_with_one_of(req, &[Right::NetRaw, Right::NetAdmin])?;
        }
        let is_nonblocking = flags & libc::O_NONBLOCK.cast_unsigned() != 0;
        let fh = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(fh, Arc::new(Open { name, is_nonblocking, text: Mutex::default() }));
        Ok(ReplyOpen { fh, flags: OPEN_FLAGS })
    }

    async fn read(&self, req: Request, _inode: u64, fh: u64, _offset: u64, size: u32) -> Result<ReplyData> {
        let open = self.handle(fh)?;
        if open.name == CONTROL {
            return Ok(ReplyData { data: self.text(&open, size as usize).into() });
        }
        let len_max = len_for(size as usize)?;
        let cancel = lock(&self.pending).begin(req.unique);
        let slots = self.slots(&open, cpu_of(req.pid), len_max, &cancel).await;
        lock(&self.pending).end(req.unique);
        Ok(ReplyData { data: slots?.into() })
    }

    async fn write(
        &self,
        req: Request,
        _inode: u64,
        fh: u64,
        _offset: u64,
        data: &[u8],
        _write_flags: u32,
        _flags: u32,
    ) -> Result<ReplyWrite> {
        let open = self.handle(fh)?;
        let (true, Ok(order)) = (open.name == CONTROL, std::str::from_utf8(data)) else {
            return Err(libc::EINVAL.into());
        };
        if let Err(error) = only_with_one_of(req, &[Right::NetAdmin]) {
            *lock(&open.text) = Some(b"orders require CAP_NET_ADMIN\n".to_vec());
            return Err(error);
        }
        let (tree, order) = (Arc::clone(&self.tree), order.trim().to_owned());
        let writer = (self.order_netns == OrderNetns::OfWriter).then_some(req.pid);
        let done = on_own_thread(move || Ok(carry_out(&*tree, &order, writer))).await?;
        // A reader of this descriptor hears about this order.
        *lock(&open.text) = done.as_ref().err().map(|(_, why)| format!("{why}\n").into_bytes());
        match done {
            Ok(()) => Ok(ReplyWrite { written: u32::try_from(data.len()).unwrap_or(u32::MAX) }),
            Err((errno, _)) => Err(fuse3::Errno::from(errno as i32)),
        }
    }

    async fn poll(
        &self,
        req: Request,
        _inode: u64,
        fh: u64,
        kh: Option<u64>,
        _flags: u32,
        _events: u32,
        notify: &Notify,
    ) -> Result<ReplyPoll> {
        let open = self.handle(fh)?;
        let always = libc::POLLOUT as u32;
        if open.name == CONTROL {
            return Ok(ReplyPoll { revents: always | libc::POLLIN as u32 });
        }
        let cpu = cpu_of(req.pid);
        if is_ready(&self.tree, &open.name, cpu).await? {
            return Ok(ReplyPoll { revents: (libc::POLLIN | libc::POLLRDNORM) as u32 });
        }
        if let Some(kh) = kh.filter(|kh| lock(&self.polls).insert(*kh)) {
            let (tree, polls, files) =
                (Arc::clone(&self.tree), Arc::clone(&self.polls), Arc::clone(&self.files));
            let notify = notify.clone();
            tokio::spawn(async move {
                // Without this message the poller queries by itself.
                while lock(&files).contains_key(&fh)
                    && !is_ready(&tree, &open.name, cpu).await.unwrap_or(true)
                {
                    tokio::time::sleep(LOOK_SELDOM).await;
                }
                lock(&polls).remove(&kh);
                notify.wakeup(kh).await;
            });
        }
        Ok(ReplyPoll { revents: 0 })
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

    async fn interrupt(&self, _req: Request, unique: u64) -> Result<()> {
        lock(&self.pending).interrupt(unique);
        Ok(())
    }

    async fn opendir(&self, _req: Request, _inode: u64, _flags: u32) -> Result<ReplyOpen> {
        Ok(ReplyOpen { fh: 0, flags: 0 })
    }

    #[expect(refining_impl_trait, reason = "`Files` needs the type of the listing")]
    async fn readdir(
        &self,
        _req: Request,
        _parent: u64,
        _fh: u64,
        offset: i64,
    ) -> Result<ReplyDirectory<Listing<DirectoryEntry>>> {
        Ok(listed(self.rows(usize::try_from(offset).unwrap_or(usize::MAX))))
    }

    #[expect(refining_impl_trait, reason = "`Files` needs the type of the listing")]
    async fn readdirplus(
        &self,
        _req: Request,
        _parent: u64,
        _fh: u64,
        offset: u64,
        _lock_owner: u64,
    ) -> Result<ReplyDirectoryPlus<Listing<DirectoryEntryPlus>>> {
        Ok(listed_plus(self.rows(usize::try_from(offset).unwrap_or(usize::MAX)), attributes(0)))
    }
}

impl SlotFs {
    /// The rows of the directory from `offset` on; `.control` stays hidden.
    fn rows(&self, offset: usize) -> impl Iterator<Item = DirectoryRow> + use<> {
        let dots = [".", ".."].map(|name| (OsString::from(name), FileType::Directory));
        let names = self.tree.names().into_iter().map(|name| (name.into(), FileType::RegularFile));
        let row = |(next, (name, kind)): (i64, (OsString, FileType))| DirectoryRow {
            inode: number_of(&name),
            name,
            kind,
            next,
        };
        (1..).zip(dots.into_iter().chain(names)).skip(offset).map(row)
    }
}

async fn is_ready(tree: &Arc<dyn SlotTree>, name: &OsStr, cpu: Option<u32>) -> Result<bool> {
    let (tree, name) = (Arc::clone(tree), name.to_owned());
    on_own_thread(move || Ok(tree.is_ready(name.to_str().unwrap_or_default(), cpu))).await
}

/// Runs a call into the tree where it may block.
async fn on_own_thread<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(call).await.unwrap_or_else(|error| Err(panicked(error)))
}

/// Inode number of a name: the same number each time, and never that of the directory.
fn number_of(name: &OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() >> 24 | 1 << 40
}

/// The directory can be listed by anyone, the files are for root as the module's were.
fn attributes(id: u64) -> FileAttr {
    let (kind, perm, nlink) =
        if id == ROOT_ID { (FileType::Directory, 0o755, 2) } else { (FileType::RegularFile, 0o600, 1) };
    plain_attributes(id, kind, perm, nlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_get_whole_slots_and_long_ones_a_slot_less() {
        for (size, len) in [(128, 128), (255, 128), (256, 256), (262_144, 262_144 - 128), (131_072, 130_944)]
        {
            assert_eq!(len_for(size).unwrap(), len, "{size}");
        }
        assert!(len_for(127).is_err() && len_for(0).is_err());
    }

    #[test]
    fn a_reader_that_may_run_on_one_cpu_belongs_to_it() {
        let pinned = |cpu: usize| {
            std::thread::spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu).unwrap();
                nix::sched::sched_setaffinity(Pid::from_raw(0), &set).unwrap();
                cpu_of(nix::unistd::gettid().as_raw().cast_unsigned())
            })
        };
        assert_eq!(pinned(0).join().unwrap(), Some(0));
        if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            assert_eq!(cpu_of(std::process::id()), None);
        }
        assert_eq!(cpu_of(0), None);
    }

    #[test]
    fn numbers_of_names_stay_and_are_not_the_directorys() {
        assert_eq!(number_of(OsStr::new("lo")), number_of(OsStr::new("lo")));
        assert_ne!(number_of(OsStr::new("lo")), number_of(OsStr::new("eth0")));
        assert_ne!(number_of(OsStr::new("lo")), ROOT_ID);
    }
}
