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

/// How long a command may go on after SIGTERM.
const GRACE: Duration = Duration::from_millis(300);
/// Time between two looks at a command that runs and at the user's request.
const LOOK: Duration = Duration::from_millis(5);
/// Time after the last file, from which on a note names what is waited for.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Runs the command for one file after the other.
pub(crate) struct CommandRunner {
    /// `None` only while it ends.
    names: Option<Sender<String>>,
    thread: Option<JoinHandle<Vec<String>>>,
    failed: Arc<AtomicU64>,
    /// Files whose command has not ended.
    open: Arc<AtomicU64>,
    abandoned: Arc<AtomicBool>,
}

/// How the commands ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandsEnd {
    /// Commands that did not succeed or never began.
    pub(crate) failed: u64,
    /// Files whose command was ended or never began, because the user gave it up.
    pub(crate) not_handed_over: Vec<String>,
}

impl CommandRunner {
    /// `command` is run by `sh` with the file's name as one more word. All of them run to their
    /// end, also after the end of the capture. Once `abandoned` is set, the one that runs is ended
    /// and those that are left are not begun. `keeps_rights` is for a process that becomes another
    /// user soon.
    pub(crate) fn start(command: String, abandoned: Arc<AtomicBool>, keeps_rights: bool) -> io::Result<Self> {
        let (names, queue) = channel::<String>();
        let (failed, open) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (counter, done, given_up) = (Arc::clone(&failed), Arc::clone(&open), Arc::clone(&abandoned));
        let thread = thread::Builder::new().name("rotate-command".to_owned()).spawn(move || {
            if !keeps_rights {
                // What root starts gets root's rights all the same.
                let _ = host::keep_capabilities(&[]);
            }
            let mut not_handed_over = Vec::new();
            for name in queue {
                if given_up.load(Relaxed) || !run(&command, &name, &given_up) {
                    counter.fetch_add(1, Relaxed);
                    not_handed_over.extend(given_up.load(Relaxed).then_some(name));
                }
                done.fetch_sub(1, Relaxed);
            }
            not_handed_over
        })?;
        Ok(Self { names: Some(names), thread: Some(thread), failed, open, abandoned })
    }

    /// A file is complete.
    pub(crate) fn finished(&self, name: &str) {
        if let Some(names) = &self.names {
            self.open.fetch_add(1, Relaxed);
            // The thread ends with the other end of the channel, which is here.
            let _ = names.send(name.to_owned());
        }
    }

    /// Waits for the commands that are left.
    pub(crate) fn end(mut self) -> CommandsEnd {
        drop(self.names.take());
        let Some(thread) = self.thread.take() else { return CommandsEnd::default() };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < TELL_AFTER {
            thread::sleep(LOOK);
        }
        if !thread.is_finished() && !self.abandoned.load(Relaxed) {
            let open = self.open.load(Relaxed);
            let files = if open == 1 { "1 file".to_owned() } else { format!("{open} files") };
            eprintln!("wirerate: waiting for the rotate commands of {files}; Ctrl-C abandons them");
        }
        let not_handed_over = thread.join().unwrap_or_default();
        CommandsEnd { failed: self.failed.load(Relaxed), not_handed_over }
    }
}

/// True when it succeeded. Its output goes to our stderr, because stdout may be the capture file.
/// It has a process group of its own, so that the Ctrl-C that ends a capture does not end it half
/// way; the whole group is ended when it is given up.
fn run(command: &str, name: &str, abandoned: &AtomicBool) -> bool {
    let script = format!("{command} \"$1\" >&2");
    // Commands take a word that begins with a dash for an option.
    let own = name.starts_with('-').then(|| format!("./{name}"));
    let name = own.as_deref().unwrap_or(name);
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
            None if abandoned.load(Relaxed) => {
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
            &AtomicBool::new(false)
        ));
        let text = std::fs::read_to_string(&told).unwrap();
        let (pid, group) = text.trim().split_once(' ').unwrap();
        assert_eq!(pid, group, "it leads its own group");
    }

    #[test]
    fn a_name_that_begins_with_a_dash_is_no_option() {
        let folder = testkit::Folder::new("dash");
        let told = folder.join("told");
        let command = format!("f() {{ printf %s \"$1\" > {}; }}; f", told.display());
        let word = |name: &str| {
            assert!(run(&command, name, &AtomicBool::new(false)), "{name}");
            std::fs::read_to_string(&told).unwrap()
        };
        assert_eq!(["-n.pcapng", "a-n", "/tmp/-n"].map(word), ["./-n.pcapng", "a-n", "/tmp/-n"]);
    }

    #[test]
    fn each_file_is_a_word_whatever_its_name_and_failures_are_counted() {
        let folder = testkit::Folder::new("command");
        let names = ["a b", "c;d", "$e"].map(|name| folder.file(name));
        let runner = CommandRunner::start("touch".to_owned(), Arc::default(), true).unwrap();
        names.iter().for_each(|name| runner.finished(name));
        runner.finished("/nonexistent/folder/x");
        assert_eq!(runner.end(), CommandsEnd { failed: 1, not_handed_over: Vec::new() });
        for name in names {
            assert!(std::path::Path::new(&name).exists(), "{name}");
        }
    }

    #[test]
    fn commands_that_the_user_gives_up_are_ended_and_their_files_named() {
        let abandoned = Arc::<AtomicBool>::default();
        let folder = testkit::Folder::new("late");
        let told = folder.join("told");
        let command =
            format!("f() {{ sleep 600 & echo $! > {0}.part; mv {0}.part {0}; wait; }}; f", told.display());
        let runner = CommandRunner::start(command, Arc::clone(&abandoned), true).unwrap();
        runner.finished("x");
        runner.finished("y");
        while !told.exists() {
            thread::sleep(LOOK);
        }
        abandoned.store(true, Relaxed);
        let not_handed_over = ["x", "y"].map(str::to_owned).to_vec();
        assert_eq!(
            runner.end(),
            CommandsEnd { failed: 2, not_handed_over },
            "one was ended, one never began"
        );
        let pid = std::fs::read_to_string(&told).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let is_over = || !state().contains("(sleep)") || state().contains(") Z ");
        while !is_over() {
            thread::sleep(LOOK);
        }
        std::fs::remove_file(told).unwrap();
    }
}
