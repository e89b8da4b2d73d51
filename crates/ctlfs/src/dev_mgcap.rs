//! mgcap's directory `/dev/mgcap` in a private mount namespace, from the first capture on.
//!
//! The empty directory itself is made on the host. What is mounted on it is visible in the
//! namespace only. Each process that uses the directory holds a lock on it, and the last one
//! removes it, because removing it would unmount it for all others.

use crate::mount::MountError;
use crate::slots::{DEFAULT_DIR, SlotTree};
use crate::tree::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A tree that appears at [`DEFAULT_DIR`] with the first capture.
pub(crate) struct LazyMount {
    tree: Arc<dyn SlotTree>,
    /// Where it is mounted already.
    from: PathBuf,
    shown: Mutex<Option<CoveredDirectory>>,
}

impl LazyMount {
    pub(crate) fn new(tree: Arc<dyn SlotTree>, from: PathBuf) -> Self {
        Self { tree, from, shown: Mutex::default() }
    }

    fn appear(&self) -> io::Result<()> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none() {
            *shown = Some(CoveredDirectory::at(Path::new(DEFAULT_DIR), &self.from)?);
        }
        Ok(())
    }

    /// Takes it away again.
    pub(crate) fn vanish(&self) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl SlotTree for LazyMount {
    fn names(&self) -> Vec<String> {
        self.tree.names()
    }

    fn contains(&self, name: &str) -> bool {
        self.tree.contains(name)
    }

    fn take(&self, name: &str, cpu: Option<u32>, len_max: usize, out: &mut Vec<u8>) -> bool {
        self.tree.take(name, cpu, len_max, out)
    }

    fn is_ready(&self, name: &str, cpu: Option<u32>) -> bool {
        self.tree.is_ready(name, cpu)
    }

    fn control(&self, order: &str) -> Result<(), (Errno, String)> {
        self.tree.control(order)?;
        self.appear().map_err(|error| {
            let source = MountError::Mount { path: DEFAULT_DIR.into(), source: error };
            let errno = Errno::EIO;
            (errno, format!("captured, but {source}: {}", io::Error::from(errno)))
        })
    }

    fn state(&self) -> String {
        self.tree.state()
    }
}

/// A directory with something mounted over it.
#[derive(Debug)]
struct CoveredDirectory {
    dir: PathBuf,
    lock: Option<Flock<File>>,
}

impl CoveredDirectory {
    fn at(dir: &Path, from: &Path) -> io::Result<Self> {
        match std::fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Opened before it is covered. A mount that is there already (of `serve`) is covered, too,
        // and not ours to lock.
        let lock = Flock::lock(File::open(dir)?, FlockArg::LockSharedNonblock).ok();
        mount(Some(from), dir, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        Ok(Self { dir: dir.to_owned(), lock })
    }
}

impl Drop for CoveredDirectory {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.dir, MntFlags::MNT_DETACH) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot unmount; it ends with its namespace");
            return;
        }
        // The directory stays while another process holds a lock or has files in it.
        let is_last =
            self.lock.as_ref().is_some_and(|lock| lock.relock(FlockArg::LockExclusiveNonblock).is_ok());
        if is_last {
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}
