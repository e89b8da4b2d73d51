//! A private mount namespace, with a directory for wirerate's files that `/proc/net` leads to.
//!
//! `/proc/net` is a symbolic link, and procfs allows no new directory below its target. But a
//! symbolic link can be mounted over a symbolic link, so `/proc/net` becomes a link to a private
//! directory. All of it is visible only inside this namespace and is removed with its last process.
//! Mounts that the host makes meanwhile still appear in the namespace (slave propagation); mounts
//! of the namespace never appear on the host.

use crate::sys;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Directories of every kernel that no program uses, so that none has to be made on the host.
const PLACES: &[&str] = &["/proc/tty/ldisc", "/proc/driver", "/proc/fs"];

/// A directory in ours for that of an `exec` inside this one, so that neither hides the other.
const INNER: &str = "inner";

/// A step towards a private namespace that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}")]
pub struct MountNamespaceError {
    /// What was tried, on what.
    step: String,
    /// What the kernel answered.
    #[source]
    source: io::Error,
}

/// Our directory inside the private namespace.
#[derive(Debug)]
pub(crate) struct MountNamespace {
    dir: PathBuf,
}

impl MountNamespace {
    /// Moves the calling thread, and what it starts from now on, to a mount namespace of its own.
    /// `source` is what mount tables call it.
    pub(crate) fn enter(source: &str) -> Result<Self, MountNamespaceError> {
        try_to("make a mount namespace", unshare(CloneFlags::CLONE_NEWNS))?;
        let slave = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        try_to("keep our mounts from the host", mount(None::<&str>, "/", None::<&str>, slave, None::<&str>))?;
        let place = PLACES.iter().map(Path::new).find(|dir| dir.is_dir()).unwrap_or(Path::new("/proc/fs"));
        let mut dir = place.to_owned();
        while dir.join(INNER).is_dir() {
            dir.push(INNER);
        }
        mount_fresh("tmpfs", &dir, source, Some("mode=755,size=1m"))?;
        let made = Self { dir };
        for dir in [made.net(), made.bin(), made.dir.join(INNER)] {
            try_to("make our directories", std::fs::create_dir(dir))?;
        }
        Ok(made)
    }

    /// That of another process, whose namespace we have entered.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Shows `/sys` of the network namespace that the caller is in.
    pub(crate) fn renew_sys() -> Result<(), MountNamespaceError> {
        mount_fresh("sysfs", Path::new("/sys"), "wirerate", None)
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory to mount our view of `/proc/net` on.
    pub(crate) fn net(&self) -> PathBuf {
        self.dir.join("net")
    }

    /// The directory that comes first in CMD's PATH: programs that the host does not have.
    pub(crate) fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// The directory to mount mgcap's device files on.
    pub(crate) fn mgcap(&self) -> Result<PathBuf, MountNamespaceError> {
        let dir = self.dir.join("mgcap");
        try_to("make our directories", std::fs::create_dir(&dir))?;
        Ok(dir)
    }

    /// Makes `/proc/net` lead to [`Self::net`].
    pub(crate) fn cover_proc_net(&self) -> Result<(), MountNamespaceError> {
        let link = self.dir.join("link");
        try_to("make our link", symlink(self.net(), &link))?;
        try_to("mount our link over /proc/net", sys::bind_no_follow(&link, Path::new("/proc/net")))
    }
}

fn mount_fresh(
    kind: &str,
    dir: &Path,
    source: &str,
    options: Option<&str>,
) -> Result<(), MountNamespaceError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    try_to(
        &format!("mount {kind} on {}", dir.display()),
        mount(Some(source), dir, Some(kind), flags, options),
    )
}

pub(crate) fn try_to<T, E: Into<io::Error>>(
    step: &str,
    done: Result<T, E>,
) -> Result<T, MountNamespaceError> {
    done.map_err(|error| MountNamespaceError { step: step.to_owned(), source: error.into() })
}
