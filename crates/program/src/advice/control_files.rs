//! Errors of `exec` and `serve`.

use super::host_error::for_host;
use ctlfs::MountError;
use ctlfs::exec::ExecError;
use ctlfs::serve::ServeError;
use nix::libc;
use std::io;

/// What to try about an error of `exec`.
pub fn for_exec(error: &ExecError) -> Option<String> {
    match error {
        ExecError::Netns(error) => for_host(error),
        ExecError::Private(_) => {
            Some("run it as root: it needs CAP_SYS_ADMIN for mounts of its own".to_owned())
        }
        ExecError::Mount(error) => Some(for_mount(error).to_owned()),
        ExecError::Named { name, .. } => {
            Some(format!("`wirerate exec --join {name} -- CMD`, or another name"))
        }
        ExecError::NotRunning { .. } => {
            Some("start it with a name: `wirerate exec --name lab -- bash`".to_owned())
        }
        ExecError::Join { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("run it as root".to_owned())
        }
        _ => None,
    }
}

/// What to try about an error of `serve`.
pub fn for_serve(error: &ServeError) -> Option<String> {
    match error {
        ServeError::Owned { pid, .. } => {
            Some(format!("--mount DIR for another place, or `kill {pid}` to end that one"))
        }
        ServeError::NotEmpty { .. } => {
            Some("--mount DIR with a directory that is empty or missing".to_owned())
        }
        ServeError::Prepare { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("run it as root".to_owned())
        }
        ServeError::Covered { path } => {
            Some(format!("`umount {0}` removes that one; then `umount {0}` removes ours", path.display()))
        }
        ServeError::Netns(error) => for_host(error),
        ServeError::Mount(error) => Some(for_mount(error).to_owned()),
        _ => None,
    }
}

fn for_mount(error: &MountError) -> &'static str {
    let errno = match error {
        MountError::Threads(source) | MountError::NoFuse(source) | MountError::Mount { source, .. } => {
            source.raw_os_error()
        }
        _ => None,
    };
    match (error, errno) {
        (_, Some(libc::EMFILE | libc::ENFILE)) => "a larger `ulimit -n`",
        (MountError::NoFuse(_), Some(libc::EACCES)) => "run it as root",
        (MountError::NoFuse(_), _) => "`modprobe fuse`; for a container: start it with `--device /dev/fuse`",
        _ => "run it as root, with /dev/fuse (`modprobe fuse`)",
    }
}
