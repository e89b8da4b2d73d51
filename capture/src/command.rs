//! A command of the user's for each file that is complete, on a thread of its own so that no frame waits for it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Runs the command for one file after the other.
pub(crate) struct CommandRunner {
    /// `None` only while it ends.
    names: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicU64>,
}

impl CommandRunner {
    /// `command` is run by `sh` with the file's name as one more word.
    pub(crate) fn start(command: String) -> io::Result<Self> {
        let (names, queue) = channel::<String>();
        let failed = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&failed);
        let thread = thread::Builder::new().name("rotate-command".to_owned()).spawn(move || {
            for name in queue {
                if !run(&command, &name) {
                    counter.fetch_add(1, Relaxed);
                }
            }
        })?;
        Ok(Self { names: Some(names), thread: Some(thread), failed })
    }

    /// A file is complete.
    pub(crate) fn finished(&self, name: &str) {
        // Without a thread nobody listens, and its panic was told.
        let _ = self.names.as_ref().map(|names| names.send(name.to_owned()));
    }

    /// Waits for the commands that are left and says how many did not succeed.
    pub(crate) fn end(mut self) -> u64 {
        drop(self.names.take());
        let _ = self.thread.take().map(JoinHandle::join);
        self.failed.load(Relaxed)
    }
}

/// True when it succeeded. What it says goes to our stderr: stdout may be somebody's data. It has a process group of its
/// own, so that the Ctrl-C that ends a capture does not end it half way.
fn run(command: &str, name: &str) -> bool {
    let script = format!("{command} \"$1\" >&2");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh", name]).stdin(Stdio::null()).process_group(0);
    shell.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_for_the_capture_is_none_for_its_commands() {
        let told = std::env::temp_dir().join(format!("wrc-group-{}", std::process::id()));
        assert!(run(&format!("f() {{ cut -d' ' -f1,5 /proc/$$/stat > {}; }}; f", told.display()), "x"));
        let text = std::fs::read_to_string(&told).unwrap();
        let (pid, group) = text.trim().split_once(' ').unwrap();
        assert_eq!(pid, group, "it leads its own group");
        std::fs::remove_file(told).unwrap();
    }

    #[test]
    fn each_file_is_a_word_whatever_its_name_and_failures_are_counted() {
        let folder = std::env::temp_dir().join(format!("wrc-command-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names: Vec<String> =
            ["a b", "c;d", "$e"].map(|name| folder.join(name).display().to_string()).to_vec();
        let runner = CommandRunner::start("touch".to_owned()).unwrap();
        names.iter().for_each(|name| runner.finished(name));
        runner.finished("/nonexistent/folder/x");
        assert_eq!(runner.end(), 1);
        for name in names {
            assert!(std::path::Path::new(&name).exists(), "{name}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
