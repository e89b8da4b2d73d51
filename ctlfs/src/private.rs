//! A mount namespace of our own, with a place for our files and a way to put them at `/proc/net`.
//!
//! `/proc/net` is a symbolic link, and procfs lets nobody make a directory below what it points to. But a
//! symbolic link can be mounted over a symbolic link: so `/proc/net` becomes a link of ours to a directory of
//! ours. All of it is seen only inside this namespace and goes with the last process in it. Mounts that the host
//! makes meanwhile still arrive (slave propagation), ours never reach the host.

use crate::sys;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Directories that every kernel has and nobody uses, so that no directory must be made on the host for ours.
const PLACES: &[&str] = &["/proc/tty/ldisc", "/proc/driver", "/proc/fs"];

/// What `modprobe` is told of pktgen: it is there already.
const MODPROBE_PKTGEN: &str = r#"for word do
    case $word in pktgen) exit 0 ;; esac
done"#;

/// `ip mgcap`, which needs neither a kernel module nor another ip.
const IP_MGCAP: &str = r#"if [ "$1" = mgcap ]; then
    shift
    exec "$WIRERATE_EXE" mgcap --dir "$here/../mgcap" "$@"
fi"#;

/// Hands the call to the program of that name which comes after us in PATH.
const REAL_PROGRAM: &str = r#"path=
IFS=:
for dir in $PATH; do
    [ "$dir" = "$here" ] || path=$path${path:+:}$dir
done
unset IFS
PATH=$path exec "${0##*/}" "$@""#;

/// A step towards a private namespace that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}")]
pub struct PrivateError {
    /// What was tried, on what.
    step: String,
    /// What the kernel answered.
    #[source]
    source: io::Error,
}

/// Our directory inside the private namespace.
#[derive(Debug)]
pub(crate) struct Private {
    dir: PathBuf,
}

impl Private {
    /// Moves the calling thread, and what it starts from now on, to a mount namespace of its own.
    /// `source` is what mount tables call it.
    pub(crate) fn enter(source: &str) -> Result<Self, PrivateError> {
        try_to("make a mount namespace", unshare(CloneFlags::CLONE_NEWNS))?;
        let slave = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        try_to("keep our mounts from the host", mount(None::<&str>, "/", None::<&str>, slave, None::<&str>))?;
        let dir = PLACES.iter().map(Path::new).find(|dir| dir.is_dir()).unwrap_or(Path::new("/proc/fs"));
        mount_fresh("tmpfs", dir, source, Some("mode=755,size=1m"))?;
        let made = Self { dir: dir.to_owned() };
        try_to("make our directories", std::fs::create_dir(made.net()))?;
        try_to("make our directories", std::fs::create_dir(made.bin()))?;
        Ok(made)
    }

    /// That of another process, whose namespace we have entered.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Shows `/sys` of the network namespace that the caller is in.
    pub(crate) fn renew_sys() -> Result<(), PrivateError> {
        mount_fresh("sysfs", Path::new("/sys"), "wirerate", None)
    }

    /// The directory to mount our view of `/proc/net` on.
    pub(crate) fn net(&self) -> PathBuf {
        self.dir.join("net")
    }

    /// The directory of programs that come first in CMD's PATH.
    pub(crate) fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// The directory to mount mgcap's device files on.
    pub(crate) fn mgcap(&self) -> Result<PathBuf, PrivateError> {
        let dir = self.dir.join("mgcap");
        try_to("make our directories", std::fs::create_dir(&dir))?;
        Ok(dir)
    }

    /// Puts the stand-in for `modprobe` into [`Self::bin`].
    pub(crate) fn add_modprobe(&self) -> Result<(), PrivateError> {
        self.add_stand_in("modprobe", MODPROBE_PKTGEN)
    }

    /// Puts the stand-in for `ip` into [`Self::bin`].
    pub(crate) fn add_ip(&self) -> Result<(), PrivateError> {
        let exe = try_to("find our own program", std::env::current_exe())?;
        // In quotes of the shell, which end at a quote and begin again after it.
        let exe = exe.to_string_lossy().replace('\'', r"'\''");
        self.add_stand_in("ip", &format!("WIRERATE_EXE='{exe}'\n{IP_MGCAP}"))
    }

    /// `ours` is what the shell does for the calls that are for us, and ends there.
    fn add_stand_in(&self, name: &str, ours: &str) -> Result<(), PrivateError> {
        let text = format!("#!/bin/sh\n# wirerate exec\nhere=${{0%/*}}\n{ours}\n{REAL_PROGRAM}\n");
        let path = self.bin().join(name);
        let step = format!("write our {name}");
        try_to(&step, std::fs::write(&path, text))?;
        try_to(&step, std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))
    }

    /// Makes `/proc/net` lead to [`Self::net`].
    pub(crate) fn cover_proc_net(&self) -> Result<(), PrivateError> {
        let link = self.dir.join("link");
        try_to("make our link", symlink(self.net(), &link))?;
        try_to("mount our link over /proc/net", sys::bind_no_follow(&link, Path::new("/proc/net")))
    }
}

fn mount_fresh(kind: &str, dir: &Path, source: &str, options: Option<&str>) -> Result<(), PrivateError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    try_to(
        &format!("mount {kind} on {}", dir.display()),
        mount(Some(source), dir, Some(kind), flags, options),
    )
}

fn try_to<T, E: Into<io::Error>>(step: &str, done: Result<T, E>) -> Result<T, PrivateError> {
    done.map_err(|error| PrivateError { step: step.to_owned(), source: error.into() })
}
