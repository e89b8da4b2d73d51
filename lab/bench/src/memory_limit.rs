//! A control group with a limit of memory, for one tool at a time.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Where groups are made, and the file of their limit: cgroup v1, then v2.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// The group; dropping it removes it.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    folder: PathBuf,
}

impl MemoryLimit {
    /// A group whose processes get `bytes` of memory, with page cache and memory of the kernel.
    ///
    /// # Errors
    /// When this host has no such groups, or refuses one.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let name = format!("wirerate-bench-{}", std::process::id());
        for (root, file) in ROOTS {
            if !Path::new(root).join("cgroup.procs").exists() {
                continue;
            }
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let group = Self { folder };
            let limit = group.folder.join(file);
            if limit.exists() {
                fs::write(&limit, bytes.to_string())
                    .with_context(|| format!("cannot write {}", limit.display()))?;
                return Ok(group);
            }
        }
        bail!("there are no control groups of memory in /sys/fs/cgroup")
    }

    /// A program and its arguments that start `program` in the group.
    pub(crate) fn command(&self, program: &Path, words: &[String]) -> (PathBuf, Vec<String>) {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let head = ["-c".to_owned(), script.to_owned()];
        let names = [&self.folder, program].map(|path: &Path| path.display().to_string());
        ("/bin/sh".into(), head.into_iter().chain(names).chain(words.iter().cloned()).collect())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Its processes have ended. Not `unwrap`: this also runs in a panic.
        let _ = fs::remove_dir(&self.folder);
    }
}
