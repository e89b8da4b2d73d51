//! Inode numbers of the files, links and directories that the kernel has looked up.
//!
//! Each look-up of a file gets a number of its own. The kernel lets only one process at a time
//! write to an inode that grows, and with a size of zero every write looks like growth. If a file
//! had one number, `stop` would wait for the `start` that it has to end. A side effect:
//! `/proc/PID/fd` shows an older open of the file as "(deleted)". The inode number in `stat` is
//! computed from the name, so programs that compare it (`cp`) see one file. A number lives until
//! the kernel forgets the look-up.

use crate::fuse::ROOT_ID;
use crate::trees::TreeId;
use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};

/// `pktgen` below a `/proc/net` view.
pub(crate) const PKTGEN_ID: u64 = 2;

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A view of `/proc/net` with `pktgen` in it.
    ProcNet,
    /// The directory of control files.
    Pktgen,
    /// A control file, and the tree that it is in.
    File(TreeId, OsString),
    /// A link to the same name below `/proc/self/net`.
    Link(OsString),
}

impl Node {
    /// What `stat` shows: the same for each look-up of a name.
    pub(crate) fn inode_number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() >> 24 | 1 << 40
    }
}

/// The numbers in use.
#[derive(Debug)]
pub(crate) struct Inodes {
    root: Node,
    passing: HashMap<u64, Node>,
    next_id: u64,
}

impl Inodes {
    /// Only the fixed directories: `root` at the mount point.
    pub(crate) fn new(root: Node) -> Self {
        Self { root, passing: HashMap::new(), next_id: PKTGEN_ID + 1 }
    }

    /// A number for one look-up of `node`.
    pub(crate) fn look_up(&mut self, node: &Node) -> u64 {
        if *node == self.root {
            return ROOT_ID;
        }
        if *node == Node::Pktgen {
            return PKTGEN_ID;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.passing.insert(id, node.clone());
        id
    }

    /// Takes the one look-up of `id` back; the directories stay.
    pub(crate) fn forget(&mut self, id: u64) {
        self.passing.remove(&id);
    }

    /// What `id` stands for.
    pub(crate) fn node(&self, id: u64) -> Option<Node> {
        match id {
            ROOT_ID => Some(self.root.clone()),
            PKTGEN_ID if self.root == Node::ProcNet => Some(Node::Pktgen),
            _ => self.passing.get(&id).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_does_not_wait_for_the_start_that_it_is_to_end() {
        let mut nodes = Inodes::new(Node::Pktgen);
        let file = Node::File(TreeId::default(), "pgctrl".into());
        let (first, second) = (nodes.look_up(&file), nodes.look_up(&file));
        assert_ne!(first, second, "two opens share no inode lock");
        assert_eq!(nodes.node(first).unwrap().inode_number(), nodes.node(second).unwrap().inode_number());
    }

    #[test]
    fn a_thousand_names_leave_nothing_behind() {
        let mut nodes = Inodes::new(Node::ProcNet);
        for index in 0..1000 {
            let id = nodes.look_up(&Node::File(TreeId::default(), format!("lo@{index}").into()));
            nodes.forget(id);
        }
        assert!(nodes.passing.is_empty());
    }

    #[test]
    fn the_directories_stay() {
        let mut nodes = Inodes::new(Node::ProcNet);
        let id = nodes.look_up(&Node::Pktgen);
        nodes.forget(id);
        nodes.forget(ROOT_ID);
        assert_eq!(nodes.node(id), Some(Node::Pktgen));
        assert_eq!(nodes.node(ROOT_ID), Some(Node::ProcNet));
    }
}
