//! The control trees of a mount: one for each network namespace, as in the kernel, or one for all.
//!
//! A process finds the tree of the network namespace that it is in. The tree is created when root
//! opens it first, and ends when the namespace has no other user: no process in it, no name, no
//! other mount of it.

use crate::tree::{Tree, lock};
use host::{Netns, NetnsId};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// The kernel reports no event when the last process leaves a namespace that we hold open
/// ourselves.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Makes the tree of the network namespace that the calling thread is in.
pub(crate) type Build = dyn Fn() -> Result<Arc<dyn Tree>, BoxError> + Send + Sync;
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Names the tree that a file belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TreeId(NetnsId);

/// All trees of one mount.
pub(crate) struct Trees {
    /// The tree of processes whose namespace is unknown, and of all processes where there is no
    /// other.
    home: TreeId,
    by_id: Mutex<HashMap<TreeId, Arc<dyn Tree>>>,
    /// Held while a tree is created, so that two look-ups do not create two.
    building: Mutex<()>,
    build: Option<Box<Build>>,
    /// Unread results of trees that have ended.
    ended_unread: Mutex<Vec<String>>,
}

impl Trees {
    /// One tree for every process.
    pub(crate) fn one(tree: Arc<dyn Tree>) -> Arc<Self> {
        Self::new(TreeId::default(), tree, None)
    }

    /// A tree for each network namespace; `home` is that of the calling thread.
    pub(crate) fn of_each_netns(build: Box<Build>) -> Result<Arc<Self>, BoxError> {
        let home = TreeId(Netns::current()?.id());
        let tree = build()?;
        Ok(Self::new(home, tree, Some(build)))
    }

    fn new(home: TreeId, tree: Arc<dyn Tree>, build: Option<Box<Build>>) -> Arc<Self> {
        let by_id = Mutex::new(HashMap::from([(home, tree)]));
        Arc::new(Self { home, by_id, building: Mutex::default(), build, ended_unread: Mutex::default() })
    }

    /// The tree for the thread `tid`; zero is a thread outside our PID namespace. Only root makes a
    /// tree, because each has threads; for others the directory is empty until then.
    pub(crate) fn of_thread(self: &Arc<Self>, tid: u32, is_root: bool) -> io::Result<Option<TreeId>> {
        let Some(build) = self.build.as_ref().filter(|_| tid != 0) else { return Ok(Some(self.home)) };
        let netns = Netns::of_process(tid).map_err(io::Error::other)?;
        let id = TreeId(netns.id());
        if self.get(id).is_some() {
            return Ok(Some(id));
        }
        if !is_root {
            return Ok(None);
        }
        let _planting = lock(&self.building);
        if self.get(id).is_none() {
            let made = netns.run(build).map_err(BoxError::from).and_then(|made| made);
            let tree = made.map_err(|error| {
                tracing::error!(%error, %netns, "cannot make the control tree of a network namespace");
                io::Error::other(error)
            })?;
            lock(&self.by_id).insert(id, tree);
            self.watch(id)?;
        }
        Ok(Some(id))
    }

    /// The tree of that name, while its namespace is in use.
    pub(crate) fn get(&self, id: TreeId) -> Option<Arc<dyn Tree>> {
        lock(&self.by_id).get(&id).cloned()
    }

    /// Ends all that runs in all trees.
    pub(crate) fn drain(&self) {
        let trees: Vec<_> = lock(&self.by_id).values().cloned().collect();
        trees.iter().for_each(|tree| tree.drain());
    }

    /// The results that no reader has seen, a line for each device instance.
    pub(crate) fn unread(&self) -> Vec<String> {
        let trees: Vec<_> = lock(&self.by_id).iter().map(|(id, tree)| (*id, Arc::clone(tree))).collect();
        let mut lines = std::mem::take(&mut *lock(&self.ended_unread));
        lines.extend(trees.iter().flat_map(|(id, tree)| self.unread_of(*id, &**tree)));
        lines
    }

    /// Those of one tree; devices of other namespaces than that of CMD are marked.
    fn unread_of(&self, id: TreeId, tree: &dyn Tree) -> Vec<String> {
        let netns = if id == self.home { String::new() } else { format!("net:[{}] ", id.0.inode) };
        tree.unread().into_iter().map(|line| format!("{netns}{line}")).collect()
    }

    /// Ends the tree `id` when no other process uses its network namespace.
    fn watch(self: &Arc<Self>, id: TreeId) -> io::Result<()> {
        let trees: Weak<Self> = Arc::downgrade(self);
        let body = move || {
            loop {
                thread::sleep(POLL_INTERVAL);
                let Some(trees) = trees.upgrade() else { return };
                if !is_in_use(id.0) {
                    let tree = lock(&trees.by_id).remove(&id);
                    if let Some(tree) = tree {
                        tree.drain();
                        let unread = trees.unread_of(id, &*tree);
                        lock(&trees.ended_unread).extend(unread);
                    }
                    return;
                }
            }
        };
        thread::Builder::new().name("netns-watch".to_owned()).spawn(body).map(drop)
    }
}

/// True when a name, another mount or another process keeps the network namespace.
fn is_in_use(netns: NetnsId) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    has_mount(&mounts, netns.inode) || has_process(netns)
}

/// Field 4 of proc_pid_mountinfo(5) is `net:[4026532000]` for a mounted network namespace.
fn has_mount(mounts: &str, inode: u64) -> bool {
    let root = format!("net:[{inode}]");
    mounts.lines().any(|line| line.split(' ').nth(3) == Some(&root))
}

fn has_process(netns: NetnsId) -> bool {
    let is_in = |task: &Path| Netns::id_at(&task.join("ns/net")).is_ok_and(|id| id == netns);
    let own = std::process::id().to_string();
    numbered(Path::new("/proc"))
        .filter(|process| process.file_name().is_some_and(|name| *name != *own))
        .any(|process| numbered(&process.join("task")).any(|task| is_in(&task)))
}

/// The entries of a directory whose names are numbers.
fn numbered(dir: &Path) -> impl Iterator<Item = std::path::PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_number =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(is_number).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_a_name_or_a_process_is_in_use() {
        let mounts = "30 22 0:4 net:[4026532219] /run/netns/lab rw shared:7 - nsfs nsfs rw\n\
            31 22 0:5 / /sys rw - sysfs net:[4026532220] rw\n";
        assert!(has_mount(mounts, 4026532219));
        assert!(!has_mount(mounts, 4026532220) && !has_mount(mounts, 402653221));
        // The one that started this test is in ours.
        assert!(has_process(Netns::current().unwrap().id()));
        assert!(!has_process(NetnsId { dev: 0, inode: 1 }));
    }
}
