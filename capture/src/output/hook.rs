//! The user's command for each complete file, on a separate thread so that no frame waits for it.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long commands may go on once the user has asked to end, and once more after SIGTERM.
const GRACE: Duration = Duration::from_millis(300);
/// Time between two looks at a command that runs and at the user's request.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the command for one file after the other.
pub(crate) struct CommandRunner {
    /// `None` only while it ends.
    names: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicU64>,
    /// No more files will come.
    is_last: Arc<AtomicBool>,
}

impl CommandRunner {
    /// `command` is run by `sh` with the file's name as one more word. At the end of the capture,
    /// commands that still run when the user asks to end (`interrupted`) are ended, and those that
    /// are left are not begun. `keeps_rights` is for a process that becomes another user soon.
    pub(crate) fn start(
        command: String,
        interrupted: Arc<AtomicBool>,
        keeps_rights: bool,
    ) -> io::Result<Self> {
        let (names, queue) = channel::<String>();
        let (failed, is_last) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counter, last) = (Arc::clone(&failed), Arc::clone(&is_last));
        let thread = thread::Builder::new().name("rotate-command".to_owned()).spawn(move || {
            if !keeps_rights {
                // What root starts gets root's rights all the same.
                let _ = host::keep_capabilities(&[]);
            }
            let mut asked: Option<Instant> = None;
            // True once commands must end: a moment after the end of a capture that the user has
            // ended.
            let mut is_late = || {
                let is_asked = last.load(Relaxed) && interrupted.load(Relaxed);
                is_asked && asked.get_or_insert_with(Instant::now).elapsed() >= GRACE
            };
            for name in queue {
                if is_late() || !run(&command, &name, &mut is_late) {
                    counter.fetch_add(1, Relaxed);
                }
            }
        })?;
        Ok(Self { names: Some(names), thread: Some(thread), failed, is_last })
    }

    /// A file is complete.
    pub(crate) fn finished(&self, name: &str) {
        if let Some(names) = &self.names {
            // The thread ends with the other end of the channel, which is here.
            let _ = names.send(name.to_owned());
        }
    }

    /// Waits for the commands that are left and says how many did not succeed.
    pub(crate) fn end(mut self) -> u64 {
        self.is_last.store(true, Relaxed);
        drop(self.names.take());
        let _ = self.thread.take().map(JoinHandle::join);
        self.failed.load(Relaxed)
    }
}

/// True when it succeeded. Its output goes to our stderr, because stdout may be the capture file.
/// It has a process group of its own, so that the Ctrl-C that ends a capture does not end it half
/// way; the whole group is ended when it is late.
fn run(command: &str, name: &str, is_late: &mut impl FnMut() -> bool) -> bool {
    let script = format!("{command} \"$1\" >&2");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh", name]).stdin(Stdio::null()).process_group(0);
    let Ok(mut child) = shell.spawn() else { return false };
    let mut told: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return status.success() && told.is_none(),
            Err(_) => return false,
        }
        match told {
            None if is_late() => {
                eprintln!("wirerate: ending the command for {name}: the capture was told to end");
                signal_group(&child, Signal::SIGTERM);
                told = Some(Instant::now());
            }
            Some(at) if at.elapsed() >= GRACE => signal_group(&child, Signal::SIGKILL),
            _ => {}
        }
        thread::sleep(LOOK);
    }
}

/// The child has not been waited for, so the group is its own.
fn signal_group(child: &Child, signal: Signal) {
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_for_the_capture_is_none_for_its_commands() {
        let folder = testkit::Folder::new("group");
        let told = folder.join("told");
        assert!(run(
            &format!("f() {{ cut -d' ' -f1,5 /proc/$$/stat > {}; }}; f", told.display()),
            "x",
            &mut || false
        ));
        let text = std::fs::read_to_string(&told).unwrap();
        let (pid, group) = text.trim().split_once(' ').unwrap();
        assert_eq!(pid, group, "it leads its own group");
    }

    #[test]
    fn each_file_is_a_word_whatever_its_name_and_failures_are_counted() {
        let folder = testkit::Folder::new("command");
        let names = ["a b", "c;d", "$e"].map(|name| folder.file(name));
        let runner = CommandRunner::start("touch".to_owned(), Arc::default(), true).unwrap();
        names.iter().for_each(|name| runner.finished(name));
        runner.finished("/nonexistent/folder/x");
        assert_eq!(runner.end(), 1);
        for name in names {
            assert!(std::path::Path::new(&name).exists(), "{name}");
        }
    }

    #[test]
    fn a_command_that_takes_long_does_not_hold_up_the_end_that_the_user_asked_for() {
        let interrupted = Arc::<AtomicBool>::default();
        let folder = testkit::Folder::new("late");
        let told = folder.join("told");
        let command =
            format!("f() {{ sleep 600 & echo $! > {0}.part; mv {0}.part {0}; wait; }}; f", told.display());
        let runner = CommandRunner::start(command, Arc::clone(&interrupted), true).unwrap();
        runner.finished("x");
        runner.finished("y");
        while !told.exists() {
            thread::sleep(LOOK);
        }
        interrupted.store(true, Relaxed);
        assert_eq!(runner.end(), 2, "one was ended, one never began");
        let pid = std::fs::read_to_string(&told).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let is_over = || !state().contains("(sleep)") || state().contains(") Z ");
        while !is_over() {
            thread::sleep(LOOK);
        }
        std::fs::remove_file(told).unwrap();
    }
}
