//! The daemon: the control tree on a directory, for all processes, until a signal ends it.
//!
//! Our mounts carry the process ID of their owner, so the mount table shows it and no pid file can
//! become stale. A mount whose daemon died returns `ENOTCONN` and is taken over.

use crate::mount::{MountError, Mounted, TreeShape, mount_and_then, mount_slots, unescape};
use crate::notify::notify;
use crate::signals::Signals;
use crate::slots::{OrderNetns, SlotTree};
use crate::tree::Tree;
use crate::trees::Trees;
use host::{HostError, Netns};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Where the tree is by default.
pub const DEFAULT_MOUNT: &str = "/run/wirerate/pktgen";
/// How long the owner of a mount may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Start of the source that our mounts carry; the process id follows.
const SOURCE: &str = "wirerate:";

/// What to serve, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The directory; made if it is missing, and then removed at the end.
    pub mount: PathBuf,
    /// The network namespace of the tree (an `ip netns` name); `None` gives each process that of
    /// its own.
    pub netns: Option<String>,
}

/// Why the daemon could not start, or ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ServeError {
    /// Another daemon has the directory.
    #[error("{path} is already served by process {pid}{}", if *.answers { "" } else { ", which does not answer" })]
    Owned { path: PathBuf, pid: u32, answers: bool },
    /// There are files at the mount point that the tree would hide.
    #[error("{path} is not empty")]
    NotEmpty { path: PathBuf },
    /// The directory or the queue of signals cannot be prepared.
    #[error("cannot {step} {path}")]
    Prepare { step: &'static str, path: PathBuf, source: io::Error },
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Netns(#[from] HostError),
    /// The control tree cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The control tree cannot be made.
    #[error("cannot make the control tree")]
    Build(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another file system was mounted over ours.
    #[error("cannot unmount {path}: another file system is mounted over it")]
    Covered { path: PathBuf },
    /// Another process unmounted the directory while it was served.
    #[error("{path} was unmounted by another process")]
    Unmounted { path: PathBuf },
}

/// The events that the main thread waits for.
enum ServeEvent {
    Signal,
    SessionEnd,
}

/// Serves until SIGTERM, SIGINT or SIGHUP, then ends all runs, answers the writers and unmounts.
///
/// `build` makes the tree of the network namespace that it is called in. Call this from the main
/// thread of a process that has no other threads yet.
///
/// # Errors
/// [`ServeError`] when the tree cannot be served or was taken away.
pub fn run<E>(
    serve: &Serve,
    build: impl Fn() -> Result<Arc<dyn Tree>, E> + Send + Sync + 'static,
) -> Result<(), ServeError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    run_with(serve, build, None)
}

/// Serves until SIGTERM, SIGINT or SIGHUP, then ends all runs, answers the writers and unmounts.
/// Serves captures, too, if there are `slots`: the directory for their device files is made if it
/// is missing and then removed at the end.
///
/// `build` makes the tree of the network namespace that it is called in. Call this from the main
/// thread of a process that has no other threads yet.
///
/// # Errors
/// [`ServeError`] when the tree cannot be served or was taken away.
pub fn run_with<E>(
    serve: &Serve,
    build: impl Fn() -> Result<Arc<dyn Tree>, E> + Send + Sync + 'static,
    slots: Option<(&Path, Arc<dyn SlotTree>)>,
) -> Result<(), ServeError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let signals = Signals::queue(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
        .map_err(prepare_error("queue signals for", &serve.mount))?;
    if let Some(name) = &serve.netns {
        Netns::named(name)?.enter()?;
    }
    let point = MountPoint::prepare(&serve.mount)?;
    let build = move || build().map_err(Into::into);
    let trees = match &serve.netns {
        Some(_) => build().map(Trees::one),
        None => Trees::of_each_netns(Box::new(build)),
    }
    .map_err(ServeError::Build)?;
    // Before the first mount, so that an error leaves nothing to undo.
    let slots = slots.map(|(dir, tree)| MountPoint::prepare(dir).map(|point| (point, tree))).transpose()?;
    let (events, inbox) = mpsc::channel();
    let at_end = events.clone();
    let claim = point.claim()?;
    let mounted =
        mount_and_then(Arc::clone(&trees), &point.path, TreeShape::Tree, &point.source(), move || {
            // The main thread may have ended.
            let _ = at_end.send(ServeEvent::SessionEnd);
        })?;
    drop(claim);
    let netns = if serve.netns.is_some() { OrderNetns::Ours } else { OrderNetns::OfWriter };
    let slots = slots.map(|(point, tree)| offer(point, tree, netns)).transpose()?;
    thread::spawn(move || while signals.next().is_ok() && events.send(ServeEvent::Signal).is_ok() {});
    announce(&point.path, slots.as_ref().map(|(_, point)| &*point.path));
    tell_manager("READY=1\n");
    let event = inbox.recv().unwrap_or(ServeEvent::Signal);
    tell_manager("STOPPING=1\n");
    trees.drain();
    drop(slots);
    finish(mounted, event, &point)
}

/// Where the files are, and how to end.
fn announce(tree: &Path, slots: Option<&Path>) {
    tracing::info!("pktgen's control files are in {}", tree.display());
    if let Some(slots) = slots {
        tracing::info!("device files of `mgcap start` are in {}", slots.display());
    }
    tracing::info!("stop with Ctrl-C or `kill {}`; the files disappear then", std::process::id());
}

/// Puts the device files of captures into their directory. The mount is the first to be dropped.
fn offer(
    point: MountPoint,
    tree: Arc<dyn SlotTree>,
    netns: OrderNetns,
) -> Result<(Mounted, MountPoint), ServeError> {
    let _claim = point.claim()?;
    Ok((mount_slots(tree, &point.path, &point.source(), netns)?, point))
}

fn finish(mounted: Mounted, event: ServeEvent, point: &MountPoint) -> Result<(), ServeError> {
    let done = mounted.unmount();
    match event {
        ServeEvent::Signal
            if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) =>
        {
            Err(ServeError::Covered { path: point.path.clone() })
        }
        ServeEvent::Signal => done.map_err(prepare_error("unmount", &point.path)),
        ServeEvent::SessionEnd => Err(ServeError::Unmounted { path: point.path.clone() }),
    }
}

fn tell_manager(state: &str) {
    if let Err(error) = notify(state) {
        tracing::warn!(%error, "cannot tell the service manager {state:?}");
    }
}

/// A directory that is ours to mount on. What had to be made for it is removed when this is
/// dropped, whatever the reason, so it has to be dropped after the mount.
#[derive(Debug)]
struct MountPoint {
    path: PathBuf,
    /// How many directories were made: `path` itself and those above it.
    made: usize,
}

/// Keeps another start from the directory until it is mounted.
type FolderLock = Flock<File>;

impl MountPoint {
    fn prepare(path: &Path) -> Result<Self, ServeError> {
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if parent.as_os_str().is_empty() => (Path::new("."), name),
            (Some(parent), Some(name)) => (parent, name),
            _ => return Err(prepare_error("serve on", path)(io::ErrorKind::InvalidInput.into())),
        };
        let above = parent.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).count();
        fs::create_dir_all(parent).map_err(prepare_error("make directory", parent))?;
        let parent = parent.canonicalize().map_err(prepare_error("find", parent))?;
        let _claim = lock(&parent)?;
        let path = parent.join(name);
        // Directories of a dead daemon are removed as well.
        let made_before = clear_stale(&path)?;
        let is_new = make_dir(&path)?;
        let made = if is_new { above + 1 } else { made_before };
        Ok(Self { path, made })
    }

    /// For as long as it takes to mount. The lock is on the directory above, which both directories
    /// may have in common.
    fn claim(&self) -> Result<FolderLock, ServeError> {
        let claim = lock(self.path.parent().unwrap_or(&self.path))?;
        clear_stale(&self.path)?;
        Ok(claim)
    }

    /// What mount tables call a mount here: owner, and how many directories it made.
    fn source(&self) -> String {
        format!("{SOURCE}{}:{}", std::process::id(), self.made)
    }
}

fn lock(dir: &Path) -> Result<FolderLock, ServeError> {
    let file = File::open(dir).map_err(prepare_error("open", dir))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| prepare_error("lock", dir)(errno.into()))
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        for dir in self.path.ancestors().take(self.made) {
            match fs::remove_dir(dir) {
                Ok(()) => {}
                // Others use it by now.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && dir != self.path => return,
                Err(error) => {
                    return tracing::warn!(path = %dir.display(), %error, "cannot remove a directory that we made");
                }
            }
        }
    }
}

/// Makes sure that there is an empty directory; true when it had to be made.
fn make_dir(path: &Path) -> Result<bool, ServeError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut entries = path.read_dir().map_err(prepare_error("list", path))?;
            if entries.next().is_some() {
                return Err(ServeError::NotEmpty { path: path.to_owned() });
            }
            Ok(false)
        }
        Err(error) => Err(prepare_error("make directory", path)(error)),
    }
}

/// Removes the mounts of dead daemons from `path`; a living one is an error. Returns how many
/// directories the dead ones had made.
fn clear_stale(path: &Path) -> Result<usize, ServeError> {
    let mut made_before = 0;
    let table = Path::new("/proc/self/mountinfo");
    loop {
        let mounts = fs::read_to_string(table).map_err(prepare_error("read", table))?;
        let Some((pid, made)) = owner_of(&mounts, path) else { return Ok(made_before) };
        match answer_of(path) {
            ServerState::Dead => umount2(path, MntFlags::MNT_DETACH)
                .map_err(|errno| prepare_error("unmount the dead", path)(errno.into()))?,
            answer => {
                return Err(ServeError::Owned {
                    path: path.to_owned(),
                    pid,
                    answers: matches!(answer, ServerState::Alive),
                });
            }
        }
        made_before = made_before.max(made);
        tracing::info!(path = %path.display(), pid, "took over from a daemon that is gone");
    }
}

/// Whether a process serves a mount.
enum ServerState {
    Alive,
    Dead,
    Hangs,
}

/// Opens the directory `path` on a thread that may be left behind. (Its attributes the kernel would
/// know without asking the daemon.)
fn answer_of(path: &Path) -> ServerState {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    thread::spawn(move || sender.send(fs::read_dir(path).map(drop)));
    match receiver.recv_timeout(ANSWER_TIMEOUT) {
        Ok(Ok(())) => ServerState::Alive,
        Ok(Err(error)) => match error.raw_os_error() {
            Some(libc::ENOTCONN | libc::ECONNABORTED) => ServerState::Dead,
            _ => ServerState::Alive,
        },
        Err(_) => ServerState::Hangs,
    }
}

/// The process that mounted what is on top at `path`, if it is one of our mounts
/// (proc_pid_mountinfo(5)), and how many directories it made.
fn owner_of(mounts: &str, path: &Path) -> Option<(u32, usize)> {
    let top = mounts
        .lines()
        .rev()
        .find(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(&unescape(point)) == path))?;
    let (_, after) = top.split_once(" - ")?;
    let (pid, made) = after.split(' ').nth(1)?.strip_prefix(SOURCE)?.split_once(':')?;
    Some((pid.parse().ok()?, made.parse().ok()?))
}

fn prepare_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServeError {
    let path = path.to_owned();
    move |source| ServeError::Prepare { step, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / /run rw - tmpfs tmpfs rw\n\
        40 22 0:50 / /run/wirerate/pktgen rw - fuse wirerate:77:0 rw,user_id=0\n\
        41 22 0:51 / /run/with\\040space rw shared:5 - fuse wirerate:78:3 rw\n\
        42 40 0:52 / /run/wirerate/pktgen rw - fuse wirerate:79:1 rw\n\
        43 22 0:53 / /mnt rw - fuse sshfs rw\n";

    #[test]
    fn the_top_mount_names_its_owner() {
        assert_eq!(owner_of(MOUNTS, Path::new("/run/wirerate/pktgen")), Some((79, 1)));
        assert_eq!(owner_of(MOUNTS, Path::new("/run/with space")), Some((78, 3)));
    }

    #[test]
    fn mounts_of_others_have_no_owner_for_us() {
        assert_eq!(owner_of(MOUNTS, Path::new("/mnt")), None);
        assert_eq!(owner_of(MOUNTS, Path::new("/run")), None);
        assert_eq!(owner_of(MOUNTS, Path::new("/nowhere")), None);
    }

    #[test]
    fn the_directory_that_it_made_goes_when_the_tree_cannot_be_made() {
        let folder = testkit::Folder::new("serve");
        let mount = folder.join("mount");
        let serve = Serve { mount: mount.clone(), netns: None };
        let seen = mount.clone();
        let error = run(&serve, move || {
            assert!(seen.exists());
            Err(io::Error::other("no tree"))
        });
        assert!(matches!(error, Err(ServeError::Build(_))), "{error:?}");
        assert!(!mount.exists());
        fs::create_dir(&mount).unwrap();
        assert!(run(&serve, || Err(io::Error::other("no tree"))).is_err());
        fs::remove_dir(&mount).expect("one that was there stays");
    }

    #[test]
    fn a_second_start_says_who_has_it() {
        let error = ServeError::Owned { path: "/run/wirerate/pktgen".into(), pid: 77, answers: true };
        assert_eq!(error.to_string(), "/run/wirerate/pktgen is already served by process 77");
    }
}
