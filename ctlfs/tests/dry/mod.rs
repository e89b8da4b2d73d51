//! The example `dry` as a command for tests.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};

/// The example, or `None` (said aloud) where mounts are not possible.
pub(crate) fn command(test: &str) -> Option<Command> {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 || !std::fs::exists("/dev/fuse").unwrap() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} needs root and /dev/fuse");
        println!("skip: {test} needs root and /dev/fuse");
        return None;
    }
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
