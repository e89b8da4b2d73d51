//! One command with the control tree at `/proc/net/pktgen`, seen by it and its children only.
//!
//! CMD stays in the process group of wirerate, so the terminal treats both as one job: Ctrl-C
//! reaches CMD directly. Signals sent to wirerate alone are passed on. Nothing remains afterwards,
//! even after SIGKILL: every mount is in a namespace that ends with its last process.

use crate::dev_mgcap::LazyMount;
use crate::mount::{MountError, Mounted, TreeShape, mount_and_then, mount_slots};
use crate::mount_ns::{MountNamespace, MountNamespaceError};
use crate::programs::{self, PATH_IF_UNSET};
use crate::running;
use crate::signals::{ReceivedSignal, Signals};
use crate::slots::{OrderNetns, SlotTree};
use crate::sys;
use crate::tree::Tree;
use crate::trees::Trees;
use host::{HostError, Netns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;

/// The signals that are passed on to CMD.
const PASSED_ON: &[Signal] = &[
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
];

/// What to run, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Network namespace of CMD and the tree (an `ip netns` name); `None` for the caller's.
    pub netns: Option<String>,
    /// Its name for [`crate::join()`]; not a number.
    pub name: Option<String>,
    /// The command.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The end of CMD and unread results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit status, or 128 and the number of the signal that ended it.
    pub status: u8,
    /// The results of runs that no reader of the device files saw, a line for each.
    pub unread: Vec<String>,
}

/// Why CMD did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ExecError {
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Netns(#[from] HostError),
    /// The private mount namespace cannot be made.
    #[error(transparent)]
    Private(#[from] MountNamespaceError),
    /// The control tree cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The control tree cannot be made.
    #[error("cannot make the control tree")]
    Build(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another `exec` has the name.
    #[error("process {pid} is named {name} already")]
    Named { name: String, pid: u32 },
    /// There is no such `exec` to join.
    #[error("{}", not_running(.target))]
    NotRunning { target: String },
    /// The namespaces of a running `exec` cannot be entered.
    #[error("cannot {step} the namespaces of process {pid}")]
    Join { step: &'static str, pid: u32, source: io::Error },
    /// CMD cannot be started; a shell would exit with 127 (not found) or 126.
    #[error("cannot run {program:?}")]
    Spawn { program: OsString, source: io::Error },
    /// Signals cannot be queued, or CMD cannot be waited for.
    #[error("cannot {step}")]
    Wait { step: &'static str, source: io::Error },
}

impl ExecError {
    /// The exit status that a shell would report, if the error concerns CMD itself.
    pub fn shell_status(&self) -> Option<u8> {
        match self {
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(127),
            Self::Spawn { .. } => Some(126),
            _ => None,
        }
    }
}

fn not_running(target: &str) -> String {
    match target.parse::<u32>() {
        Ok(pid) => format!("process {pid} is not inside a `wirerate exec`"),
        Err(_) => format!("no `wirerate exec` named {target} is running"),
    }
}

/// Runs CMD.
///
/// `build` makes the tree of the network namespace that it is called in: first that of CMD, before
/// any of our threads is started, and later those of other namespaces in which the files are looked
/// for. Call this from the main thread of a process that has no other threads yet: namespaces
/// belong to threads.
///
/// # Errors
/// [`ExecError`] when CMD could not be started or waited for.
pub fn run<E>(
    exec: &Exec,
    build: impl Fn() -> Result<Arc<dyn Tree>, E> + Send + Sync + 'static,
) -> Result<CommandEnd, ExecError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    run_with(exec, build, None)
}

/// Runs CMD with captures, if there are `slots`: CMD finds `ip mgcap`, and the device files of the
/// captures at `/dev/mgcap` from the first capture on.
///
/// `build` makes the tree of the network namespace that it is called in. Call this from the main
/// thread of a process that has no other threads yet: namespaces belong to threads.
///
/// # Errors
/// [`ExecError`] when CMD could not be started or waited for.
pub fn run_with<E>(
    exec: &Exec,
    build: impl Fn() -> Result<Arc<dyn Tree>, E> + Send + Sync + 'static,
    slots: Option<Arc<dyn SlotTree>>,
) -> Result<CommandEnd, ExecError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let name = exec.name.as_deref().unwrap_or_default();
    if let Some(pid) = exec.name.as_deref().and_then(running::owner) {
        return Err(ExecError::Named { name: name.to_owned(), pid });
    }
    let signals = queue_signals()?;
    if let Some(name) = &exec.netns {
        Netns::named(name)?.enter()?;
    }
    let private = MountNamespace::enter(&running::source(std::process::id(), name))?;
    if exec.netns.is_some() {
        MountNamespace::renew_sys()?;
    }
    private.add_programs(programs::OF_PKTGEN)?;
    if let Err(error) = private.add_module() {
        tracing::warn!(%error, "programs that look there find no pktgen");
    }
    let build = Box::new(move || build().map_err(Into::into));
    let trees = Trees::of_each_netns(build).map_err(ExecError::Build)?;
    let source = format!("wirerate:{}", std::process::id());
    let mounted = mount_and_then(Arc::clone(&trees), &private.net(), TreeShape::ProcNet, &source, || ())?;
    private.cover_proc_net()?;
    let slots = slots.map(|slots| offer(slots, &private, &source)).transpose()?;
    let child = start(&exec.program, &exec.args, &private, &signals);
    let status = child.and_then(|child| wait(child, &signals));
    trees.drain();
    let unread = trees.unread();
    if let Some((appearing, _)) = &slots {
        appearing.vanish();
    }
    for mounted in [Some(mounted), slots.map(|(_, mounted)| mounted)].into_iter().flatten() {
        if let Err(error) = mounted.unmount() {
            tracing::warn!(%error, "cannot unmount our files; they end with the last process of their namespace");
        }
    }
    Ok(CommandEnd { status: shell_status(status?), unread })
}

/// Runs a command in the private namespace that the calling thread is in, and waits for its end.
pub(crate) fn run_and_wait(
    program: &OsString,
    args: &[OsString],
    private: &MountNamespace,
) -> Result<u8, ExecError> {
    let signals = queue_signals()?;
    let child = start(program, args, private, &signals)?;
    wait(child, &signals).map(shell_status)
}

/// Puts the device files of captures where `ip mgcap` finds them.
fn offer(
    slots: Arc<dyn SlotTree>,
    private: &MountNamespace,
    source: &str,
) -> Result<(Arc<LazyMount>, Mounted), ExecError> {
    let dir = private.mgcap()?;
    private.add_programs(programs::OF_MGCAP)?;
    let appearing = Arc::new(LazyMount::new(slots, dir.clone()));
    let tree: Arc<dyn SlotTree> = appearing.clone();
    Ok((appearing, mount_slots(tree, &dir, source, OrderNetns::OfWriter)?))
}

fn queue_signals() -> Result<Signals, ExecError> {
    sys::heed_children();
    let all: Vec<_> = PASSED_ON.iter().copied().chain([Signal::SIGCHLD]).collect();
    Signals::queue(&all).map_err(|source| ExecError::Wait { step: "queue signals", source })
}

fn start(
    program: &OsString,
    args: &[OsString],
    private: &MountNamespace,
    signals: &Signals,
) -> Result<Child, ExecError> {
    let mut command = Command::new(program);
    let mut path = private.bin().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_else(|| PATH_IF_UNSET.into()));
    command.args(args).env("PATH", path);
    sys::prepare_child(&mut command, signals.mask_before());
    command.spawn().map_err(|source| ExecError::Spawn { program: program.clone(), source })
}

/// Waits for CMD's end and passes signals on meanwhile.
fn wait(mut child: Child, signals: &Signals) -> Result<ExitStatus, ExecError> {
    loop {
        let received = signals.next().map_err(|source| ExecError::Wait { step: "read signals", source })?;
        if received.signal == Signal::SIGCHLD {
            let ended = child
                .try_wait()
                .map_err(|source| ExecError::Wait { step: "wait for the command", source })?;
            if let Some(status) = ended {
                return Ok(status);
            }
        } else if is_passed_on(received) {
            // CMD is not reaped yet, so the number is still its own; a zombie takes the signal
            // silently.
            let _ = kill(Pid::from_raw(child.id().cast_signed()), received.signal);
        }
    }
}

/// Signals of the terminal go to the whole foreground group: CMD has them already.
fn is_passed_on(received: ReceivedSignal) -> bool {
    !received.is_from_kernel
}

fn shell_status(status: ExitStatus) -> u8 {
    let status = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(status).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_by_signal_reads_as_a_shell_says_it() {
        assert_eq!(shell_status(ExitStatus::from_raw(libc::SIGKILL)), 137);
        assert_eq!(shell_status(ExitStatus::from_raw(7 << 8)), 7);
    }

    #[test]
    fn a_key_on_the_terminal_is_not_doubled() {
        assert!(!is_passed_on(ReceivedSignal { signal: Signal::SIGINT, is_from_kernel: true }));
        assert!(is_passed_on(ReceivedSignal { signal: Signal::SIGTERM, is_from_kernel: false }));
    }

    #[test]
    fn a_missing_command_is_127() {
        let error = ExecError::Spawn { program: "nosuch".into(), source: io::ErrorKind::NotFound.into() };
        assert_eq!(error.shell_status(), Some(127));
    }
}
