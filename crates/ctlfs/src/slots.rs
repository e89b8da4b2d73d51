//! mgcap's directory of device files over FUSE: a file per captured device, read as a stream of
//! slots.
//!
//! A reader that is pinned to one CPU gets the frames of that CPU, as with the kernel module; other
//! readers get all. A read waits for a slot (`O_NONBLOCK`: EAGAIN), and poll reports one. Each
//! write to the hidden file `.control` is a command. Reading it lists the captures, or the error of
//! the last command on the same descriptor. [`SlotTree`] supplies the slots.

use crate::fs::only_with_one_of;
use crate::fuse::{
    AttributeChange, Attributes, Caller, DirectoryRow, Entry, FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FOPEN_STREAM,
    FileKind, FileSystem, NO_CACHING, Opened, PollWaker, ROOT_ID, Result,
};
use crate::tree::{Cancel, Errno, lock};
use host::{Netns, Right};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where the kernel module had its device files.
pub const DEFAULT_DIR: &str = "/dev/mgcap";
/// The file that takes orders.
pub const CONTROL: &str = ".control";

const OPEN_FLAGS: u32 = FOPEN_DIRECT_IO | FOPEN_STREAM | FOPEN_NOFLUSH;
/// Longest order.
const WRITE_BYTES_MAX: u32 = 128 << 10;
/// From this size on a read is answered with one slot less than fits: the kernel splits long reads,
/// and sends the next part, which would wait, only when the last one was filled.
const CUT_BYTES: usize = 32 << 10;
/// Bytes of one slot.
const SLOT_LEN: usize = 128;
/// Poll interval of readers.
const LOOK: Duration = Duration::from_micros(500);
/// Poll interval for readers that poll, or have waited for long.
const LOOK_SELDOM: Duration = Duration::from_millis(2);

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
    /// Open files that are polled, each with a thread.
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
            polls: Arc::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn is_there(&self, name: &OsStr) -> bool {
        name == CONTROL || name.to_str().is_some_and(|name| self.tree.contains(name))
    }

    fn handle(&self, handle: u64) -> Result<Arc<Open>> {
        lock(&self.files).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// Slots as soon as there are some.
    fn slots(&self, open: &Open, cpu: Option<u32>, len_max: usize, cancel: &Cancel) -> Result<Vec<u8>> {
        let name = open.name.to_str().unwrap_or_default();
        let mut looks = 0_u32;
        loop {
            let mut slots = Vec::new();
            let is_captured = self.tree.take(name, cpu, len_max, &mut slots);
            // Captured no more: the end of the file.
            if !is_captured || !slots.is_empty() {
                return Ok(slots);
            }
            if open.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            looks = looks.saturating_add(1);
            if cancel.wait(if looks < 100 { LOOK } else { LOOK_SELDOM }) {
                return Err(Errno::EINTR);
            }
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
        0..SLOT_LEN => Err(Errno::EINVAL),
        SLOT_LEN..CUT_BYTES => Ok(size / SLOT_LEN * SLOT_LEN),
        _ => Ok(size / SLOT_LEN * SLOT_LEN - SLOT_LEN),
    }
}

impl FileSystem for SlotFs {
    fn write_bytes_max(&self) -> u32 {
        WRITE_BYTES_MAX
    }

    fn look_up(&self, _caller: Caller, parent: u64, name: &OsStr) -> Result<Entry> {
        if parent != ROOT_ID || !self.is_there(name) {
            return Err(Errno::ENOENT);
        }
        let node = number_of(name);
        lock(&self.names).insert(node, name.to_owned());
        Ok(Entry { node, attributes: attributes(node), valid: NO_CACHING })
    }

    fn attributes(&self, node: u64) -> Result<(Attributes, Duration)> {
        let is_known = node == ROOT_ID || lock(&self.names).contains_key(&node);
        is_known.then(|| (attributes(node), NO_CACHING)).ok_or(Errno::ESTALE)
    }

    /// `echo order > .control` truncates first, which changes nothing.
    fn set_attributes(
        &self,
        _caller: Caller,
        node: u64,
        _change: AttributeChange,
    ) -> Result<(Attributes, Duration)> {
        FileSystem::attributes(self, node)
    }

    /// Frames are for those who may open a packet socket. The kernel has looked at the mode bits
    /// before.
    fn open(&self, caller: Caller, node: u64, flags: u32) -> Result<Opened> {
        let name = lock(&self.names).get(&node).cloned().ok_or(Errno::EISDIR)?;
        if !self.is_there(&name) {
            return Err(Errno::ENOENT);
        }
        if name != CONTROL {
            only_with_one_of(caller, &[Right::NetRaw, Right::NetAdmin])?;
        }
        let is_nonblocking = flags & libc::O_NONBLOCK.cast_unsigned() != 0;
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(handle, Arc::new(Open { name, is_nonblocking, text: Mutex::default() }));
        Ok(Opened { handle, flags: OPEN_FLAGS })
    }

    fn read(&self, caller: Caller, handle: u64, _offset: u64, size: u32, cancel: &Cancel) -> Result<Vec<u8>> {
        let open = self.handle(handle)?;
        if open.name == CONTROL {
            return Ok(self.text(&open, size as usize));
        }
        let len_max = len_for(size as usize)?;
        self.slots(&open, cpu_of(caller.tid), len_max, cancel)
    }

    fn write(&self, caller: Caller, handle: u64, _offset: u64, data: &[u8], _cancel: &Cancel) -> Result<()> {
        let open = self.handle(handle)?;
        let (true, Ok(order)) = (open.name == CONTROL, std::str::from_utf8(data)) else {
            return Err(Errno::EINVAL);
        };
        if let Err(error) = only_with_one_of(caller, &[Right::NetAdmin]) {
            *lock(&open.text) = Some(b"orders require CAP_NET_ADMIN\n".to_vec());
            return Err(error);
        }
        let writer = (self.order_netns == OrderNetns::OfWriter).then_some(caller.tid);
        let done = carry_out(&*self.tree, order.trim(), writer);
        // A reader of this descriptor hears about this order.
        *lock(&open.text) = done.as_ref().err().map(|(_, why)| format!("{why}\n").into_bytes());
        done.map_err(|(errno, _)| errno)
    }

    fn poll(&self, caller: Caller, handle: u64, waker: Option<PollWaker>) -> Result<u32> {
        let open = self.handle(handle)?;
        if open.name == CONTROL {
            return Ok((libc::POLLOUT | libc::POLLIN) as u32);
        }
        let cpu = cpu_of(caller.tid);
        if is_ready(&*self.tree, &open.name, cpu) {
            return Ok((libc::POLLIN | libc::POLLRDNORM) as u32);
        }
        if let Some(waker) = waker.filter(|_| lock(&self.polls).insert(handle)) {
            let (tree, polls, files) =
                (Arc::clone(&self.tree), Arc::clone(&self.polls), Arc::clone(&self.files));
            let wait = move || {
                while lock(&files).contains_key(&handle) && !is_ready(&*tree, &open.name, cpu) {
                    thread::sleep(LOOK_SELDOM);
                }
                lock(&polls).remove(&handle);
                waker.wake();
            };
            thread::Builder::new().name("poll".to_owned()).spawn(wait).map_err(|error| {
                tracing::error!(%error, "no thread for a poll; the caller gets an error");
                lock(&self.polls).remove(&handle);
                Errno::EAGAIN
            })?;
        }
        Ok(0)
    }

    fn release(&self, handle: u64) {
        lock(&self.files).remove(&handle);
    }

    /// `.control` stays hidden.
    fn rows(&self, _caller: Caller, _node: u64, _handle: u64, offset: u64) -> Result<Vec<DirectoryRow>> {
        let dots = [".", ".."].map(|name| (OsString::from(name), FileKind::Directory));
        let names = self.tree.names().into_iter().map(|name| (name.into(), FileKind::Regular));
        let row = |(next, (name, kind)): (u64, (OsString, FileKind))| DirectoryRow {
            inode: number_of(&name),
            name,
            kind,
            next,
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok((1..).zip(dots.into_iter().chain(names)).skip(offset).map(row).collect())
    }
}

fn is_ready(tree: &dyn SlotTree, name: &OsStr, cpu: Option<u32>) -> bool {
    tree.is_ready(name.to_str().unwrap_or_default(), cpu)
}

/// Inode number of a name: the same number each time, and never that of the directory.
fn number_of(name: &OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() >> 24 | 1 << 40
}

/// The directory can be listed by anyone, the files are for root as the module's were.
fn attributes(node: u64) -> Attributes {
    let (kind, permissions, links) =
        if node == ROOT_ID { (FileKind::Directory, 0o755, 2) } else { (FileKind::Regular, 0o600, 1) };
    Attributes { inode: node, size: 0, kind, permissions, links }
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
