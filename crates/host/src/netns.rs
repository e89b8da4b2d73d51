//! Network namespaces: find, create, enter and remove them, compatible with `ip netns`.
//!
//! A [`Netns`] holds a file descriptor, so the namespace exists at least as long as the value. A
//! thread that has entered a namespace stays there: use a thread of its own, or [`Netns::run`].

use crate::{HostError, KernelError};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of the names of `ip netns`.
const NAMES: &str = "/run/netns";
/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
const NONE: Option<&str> = None;

/// Identity of a namespace: `st_dev` and `st_ino` of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetnsId {
    /// Device of the nsfs file system.
    pub dev: u64,
    /// Inode, as shown by `lsns` and `ls -l /proc/PID/ns/net`.
    pub inode: u64,
}

/// A network namespace, kept alive by an open file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Netns {
    file: Arc<File>,
    id: NetnsId,
    label: Arc<str>,
}

impl Netns {
    /// The namespace that the calling thread is in.
    pub fn current() -> Result<Self, HostError> {
        Self::open(Path::new(OWN), "this namespace")
    }

    /// The namespace that a user names: a name of `ip netns`, a path such as `/proc/PID/ns/net`, or
    /// the ID of a process (of a container).
    pub fn named(name: &str) -> Result<Self, HostError> {
        let pid = name.parse::<u32>().ok().filter(|_| !Self::exists(name));
        let path = match pid {
            Some(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
            None if name.starts_with('/') => PathBuf::from(name),
            None => path_of(name)?,
        };
        match Self::open(&path, &format!("namespace {name}")) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Err(Self::missing(name)),
            other => other,
        }
    }

    /// The namespace of process `pid`.
    pub fn of_process(pid: u32) -> Result<Self, HostError> {
        Self::open(&PathBuf::from(format!("/proc/{pid}/ns/net")), &format!("the namespace of process {pid}"))
    }

    /// A new namespace without a name. It ends with the last clone, thread and socket in it.
    pub fn anonymous() -> Result<Self, HostError> {
        on_new_thread("make", "a network namespace", || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(HostError::refused("make", "a network namespace"))?;
            Self::open(Path::new(OWN), "a private namespace")
        })?
    }

    /// A new namespace with a name, like that of `ip netns add`. It ends with [`Netns::remove`].
    pub fn create(name: &str) -> Result<Self, HostError> {
        let path = path_of(name)?;
        let object = format!("namespace {name}");
        prepare_names().map_err(|error| refused("make", NAMES, &error))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o000)
            .open(&path)
            .map_err(|error| refused("make", &object, &error))?;
        let made = on_new_thread("make", &object, || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(HostError::refused("make", &*object))?;
            mount(Some(OWN), &path, NONE, MsFlags::MS_BIND, NONE)
                .map_err(HostError::refused("name", &*object))?;
            Self::open(Path::new(OWN), &object)
        })
        .and_then(|made| made);
        if made.is_err() {
            // Nothing is mounted on it: this is only the empty file from above.
            let _ = fs::remove_file(&path);
        }
        made
    }

    /// Removes the name. The namespace stays while it is in use.
    pub fn remove(name: &str) -> Result<(), HostError> {
        let path = path_of(name)?;
        let object = format!("namespace {name}");
        match umount2(&path, MntFlags::MNT_DETACH) {
            // EINVAL: a name without its mount, after a crash inside `create`.
            Ok(()) | Err(nix::errno::Errno::EINVAL) => {}
            Err(nix::errno::Errno::ENOENT) => return Err(Self::missing(name)),
            Err(errno) => return Err(HostError::refused("remove", object)(errno)),
        }
        match fs::remove_file(&path) {
            // Another process removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| refused("remove", &object, &error)),
        }
    }

    /// True if `ip netns` has this name.
    pub fn exists(name: &str) -> bool {
        path_of(name).is_ok_and(|path| path.exists())
    }

    /// The error for a name that no namespace has.
    fn missing(name: &str) -> HostError {
        HostError::NoNetns { name: name.to_owned(), existing: Self::names().unwrap_or_default() }
    }

    /// All names of `ip netns`, sorted.
    pub fn names() -> Result<Vec<String>, HostError> {
        let entries = match fs::read_dir(NAMES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| refused("list", NAMES, &error))?,
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Its name in `ip netns`, if it has one.
    pub fn name(&self) -> Option<String> {
        let is = |name: &String| Self::named(name).is_ok_and(|netns| netns == *self);
        Self::names().unwrap_or_default().into_iter().find(is)
    }

    /// Moves the calling thread into this namespace. Needs CAP_SYS_ADMIN, unless it is there
    /// already.
    pub fn enter(&self) -> Result<(), HostError> {
        if Self::current()? == *self {
            return Ok(());
        }
        setns(&*self.file, CloneFlags::CLONE_NEWNET).map_err(HostError::refused("enter", &*self.label))
    }

    /// Runs `work` on a new thread in this namespace and waits for it. Panics of `work` are
    /// propagated.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        on_new_thread("enter", &self.label, || self.enter().map(|()| work()))?
    }

    /// Writes a setting of this namespace under `/proc/sys/net`, such as `ipv6/conf/all/accept_ra`.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), HostError> {
        let path = format!("/proc/sys/net/{key}");
        // /proc/sys/net belongs to the namespace of the thread that opens it.
        self.run(|| fs::write(&path, value))?
            .map_err(|error| refused("set", &format!("{path} in {self}"), &error))
    }

    /// True for the network namespace of process 1: that of the host, or of the container that this
    /// process is in. Also true if it cannot be read.
    pub fn is_of_host(&self) -> bool {
        Self::id_at(Path::new("/proc/1/ns/net")).map_or(true, |host| host == self.id)
    }

    /// Its identity.
    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// Identity of the namespace behind a file such as `/proc/PID/ns/net`, without keeping it
    /// alive.
    ///
    /// # Errors
    /// Error of the kernel, such as `ENOENT` if the process has ended.
    pub fn id_at(path: &Path) -> io::Result<NetnsId> {
        let meta = fs::metadata(path)?;
        Ok(NetnsId { dev: meta.dev(), inode: meta.ino() })
    }

    fn open(path: &Path, label: &str) -> Result<Self, HostError> {
        let file = File::open(path).map_err(|error| refused("open", label, &error))?;
        // `ip netns add` makes an empty file before it mounts the namespace on it.
        let is_namespace = fstatfs(&file).is_ok_and(|answer| answer.filesystem_type() == NSFS_MAGIC);
        if !is_namespace {
            return Err(refused("open", label, &io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let meta = file.metadata().map_err(|error| refused("look at", label, &error))?;
        let id = NetnsId { dev: meta.dev(), inode: meta.ino() };
        Ok(Self { file: Arc::new(file), id, label: label.into() })
    }
}

impl PartialEq for Netns {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Netns {}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Netns {
    fn as_raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

/// `namespace NAME`, `this namespace`, ...: for use in sentences.
impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

fn refused(act: &'static str, object: &str, error: &io::Error) -> HostError {
    HostError::Refused { act, object: object.to_owned(), source: KernelError::io(error) }
}

fn path_of(name: &str) -> Result<PathBuf, HostError> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it stands for a folder",
        _ if name.contains(['/', '\0']) => "it holds a slash or a zero byte",
        _ if name.len() > 255 => "it is longer than 255 bytes",
        _ => return Ok(Path::new(NAMES).join(name)),
    };
    Err(HostError::BadName { what: "network namespace", name: name.to_owned(), why })
}

/// Makes the directory of names a shared mount, like `ip netns`. Otherwise a name that is removed
/// here would stay busy in other mount namespaces.
fn prepare_names() -> io::Result<()> {
    fs::create_dir_all(NAMES)?;
    // Two programs at once would mount it twice; `ip netns` takes the same lock.
    let _lock = Flock::lock(File::open(NAMES)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let share = || mount(NONE, NAMES, NONE, MsFlags::MS_SHARED | MsFlags::MS_REC, NONE);
    match share() {
        // Not a mount point yet.
        Err(nix::errno::Errno::EINVAL) => {
            mount(Some(NAMES), NAMES, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
            Ok(share()?)
        }
        other => Ok(other?),
    }
}

fn on_new_thread<T: Send>(
    act: &'static str,
    object: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, HostError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|error| refused(act, object, &error))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "a\0b", &"n".repeat(256)] {
            assert!(matches!(path_of(bad), Err(HostError::BadName { .. })), "{bad:?}");
        }
        assert_eq!(path_of("lab-1").unwrap(), Path::new("/run/netns/lab-1"));
    }

    #[test]
    fn a_file_that_is_no_namespace_is_refused() {
        let error = Netns::named("/proc/self/cmdline").unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
    }

    #[test]
    fn current_is_the_one_of_this_process_and_missing_names_are_said() {
        assert_eq!(Netns::current().unwrap(), Netns::of_process(std::process::id()).unwrap());
        let error = Netns::named("wrh-never-made").unwrap_err().to_string();
        assert!(error.starts_with("there is no network namespace named wrh-never-made ("), "{error}");
        assert!(!Netns::exists("wrh-never-made"));
    }
}
