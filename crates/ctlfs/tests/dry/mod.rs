//! The example `dry` as a command for tests.

use std::process::{Child, Command};

/// The example, or `None` where FUSE file systems cannot be mounted.
pub(crate) fn command() -> Option<Command> {
    testkit::needs!(testkit::can_mount_fuse(), None);
    let here = std::env::current_exe().unwrap();
    let path = here.parent().unwrap().with_file_name("examples").join("dry");
    assert!(path.exists(), "{} is missing: `cargo build -p ctlfs --examples` makes it", path.display());
    Some(Command::new(path))
}

/// Sends one signal to exactly this process.
pub(crate) fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}
