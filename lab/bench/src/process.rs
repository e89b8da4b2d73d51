//! Tools as child processes: started in a namespace on a CPU, stopped by a signal, and measured by
//! the kernel's counters.
//!
//! The output of a tool is kept for people to read. Results use the kernel's counts: bytes written
//! and CPU time used.

use crate::stop::StopFlag;
use crate::sys;
use anyhow::{Context, Result, bail};
use host::Netns;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::sys::time::TimeVal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where root's commands are; not everybody's PATH has them.
const MORE_PATH: &str = "/usr/sbin:/sbin";
/// How long a tool may take to end after it was asked to.
const TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The terminal of a tool.
const TERMINAL: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
/// How long the words of a tool that has ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The file of a command of that name, if it is installed.
pub(crate) fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(MORE_PATH.split(':'))
        .map(|dir| Path::new(dir).join(name))
        .find(|file| file.is_file())
}

/// The last line of `said` that is an object of that kind.
pub(crate) fn find_json<T: DeserializeOwned>(said: &str) -> Option<T> {
    said.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// A tool that may still run. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Tool {
    name: String,
    child: Child,
    is_reaped: bool,
    said: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// How a tool ended.
#[derive(Clone, Debug)]
pub(crate) struct ToolEnd {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// What it wrote to stdout and stderr.
    pub(crate) said: String,
    /// Bytes it wrote to anything else, by the kernel's count: its file.
    pub(crate) file_bytes: u64,
    /// CPU time that it and its children used, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl ToolEnd {
    /// True when it ended well, or by the Ctrl-C that it was sent.
    pub(crate) fn is_good(&self) -> bool {
        let is_interrupted = self.status.signal() == Some(Signal::SIGINT as i32);
        self.status.success() || is_interrupted || self.fell_short()
    }

    /// True for a wirerate that ended with a report of something that was not as asked: late, fewer
    /// frames, frames that the driver refused. The counter of the receiver decides what that means.
    fn fell_short(&self) -> bool {
        const TEXTS: [&str; 2] = ["the rate was missed", ", stopped after "];
        let reports =
            |line: &str| line.starts_with("{\"schema\":\"wirerate.") && !line.contains("\"wirerate.error/");
        self.status.code() == Some(1)
            && (self.said.lines().any(reports) || TEXTS.iter().any(|text| self.said.contains(text)))
    }
}

impl Tool {
    /// Starts `program` in `netns`, on `cpu` unless it chooses another one itself.
    pub(crate) fn start(program: &Path, words: &[String], netns: &Netns, cpu: u32) -> Result<Self> {
        Self::start_on(program, words, netns, Some(cpu))
    }

    /// Starts `program` in `netns`, on `cpu` unless it chooses another one itself; on any CPU if
    /// `cpu` is `None`.
    pub(crate) fn start_on(
        program: &Path,
        words: &[String],
        netns: &Netns,
        cpu: Option<u32>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut tool = Self::spawn(command, netns, cpu)?;
        let (stdout, stderr) = (tool.child.stdout.take(), tool.child.stderr.take());
        tool.readers = vec![
            reader(stdout.expect("it is piped"), &tool.said),
            reader(stderr.expect("it is piped"), &tool.said),
        ];
        Ok(tool)
    }

    /// Starts it as [`Tool::start`] does, on a terminal whose screen is what it says.
    pub(crate) fn start_on_terminal(
        program: &Path,
        words: &[String],
        netns: &Netns,
        cpu: u32,
    ) -> Result<Self> {
        let OpenptyResult { master, slave } =
            openpty(Some(&TERMINAL), None).context("cannot open a pseudo terminal")?;
        let mut command = Command::new(program);
        let [stdin, stdout] = [slave.try_clone()?, slave.try_clone()?];
        command.args(words).stdin(stdin).stdout(stdout).stderr(slave);
        let mut tool = Self::spawn(command, netns, Some(cpu))?;
        tool.readers.push(reader(File::from(master), &tool.said));
        Ok(tool)
    }

    /// Starts a command, whose output the caller reads.
    fn spawn(mut command: Command, netns: &Netns, cpu: Option<u32>) -> Result<Self> {
        let program = PathBuf::from(command.get_program());
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A group of its own: it is stopped as a whole, and Ctrl-C at the terminal is for us alone.
        command.process_group(0);
        let prepared = sys::prepare_child(&mut command, netns, cpu);
        let spawned = prepared.and_then(|()| command.spawn());
        let child = spawned.with_context(|| format!("cannot start {} in {netns}", program.display()))?;
        Ok(Self { name, child, is_reaped: false, said: Arc::default(), readers: Vec::new() })
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// What it has said, for an error that ends its story. Words of the dead may still be in the
    /// pipe.
    pub(crate) fn last_words(&self) -> String {
        let deadline = Instant::now() + LAST_WORDS;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.said().trim().to_owned()
    }

    /// Waits until it has said `text`.
    pub(crate) fn until_it_says(&self, text: &str, stop: &StopFlag) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.said().contains(text) {
            if self.has_ended()? || Instant::now() >= deadline {
                bail!("{} did not say \"{text}\", but: {}", self.name, self.last_words());
            }
            stop.sleep(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// True when it runs no more.
    pub(crate) fn has_ended(&self) -> Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(self.pid()), flags);
        Ok(status.with_context(|| format!("cannot look after {}", self.name))? != WaitStatus::StillAlive)
    }

    /// Resident memory of its first process at its highest, in bytes.
    pub(crate) fn memory_peak_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(number.with_context(|| format!("{path} says nothing of memory"))? * 1_024)
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        // It may have ended by itself, which is as good.
        let _ = killpg(self.pid(), Signal::SIGINT);
    }

    /// Waits for its end. What takes longer than `timeout` is killed, and that is an error.
    pub(crate) fn wait(mut self, timeout: Duration, stop: &StopFlag) -> Result<ToolEnd> {
        let deadline = Instant::now() + timeout;
        while !self.has_ended()? {
            if Instant::now() >= deadline {
                bail!("{} did not end within {timeout:?}; it said: {}", self.name, self.last_words());
            }
            stop.sleep(LOOK_EVERY)?;
        }
        // Dead but not buried: the kernel still shows what it did.
        let written = bytes_written(self.pid())?;
        let before_ns = cpu_of_children_ns()?;
        let status = self.child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        self.is_reaped = true;
        self.readers.drain(..).for_each(|reader| reader.join().expect("reading does not panic"));
        let said = self.said();
        Ok(ToolEnd {
            status,
            file_bytes: written.saturating_sub(said.len() as u64),
            said,
            cpu_ns: cpu_of_children_ns()? - before_ns,
        })
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(self, stop: &StopFlag) -> Result<ToolEnd> {
        self.interrupt();
        self.wait(TIMEOUT, stop)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        if !self.is_reaped {
            // Both fail when it has ended already, which is what we want.
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads in a thread of its own, so that the child never waits for us.
fn reader(mut pipe: impl Read + Send + 'static, said: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let said = Arc::clone(said);
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = pipe.read(&mut chunk) {
            said.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..len]);
        }
    })
}

/// Bytes that a process, with all its threads, gave to write(2) and its kin (`wchar`).
fn bytes_written(pid: Pid) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).with_context(|| format!("{path} says {text:?}"))
}

fn cpu_of_children_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask for the CPU time of children")?;
    let ns = |time: TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()).cast_unsigned() * 1_000;
    Ok(ns(usage.user_time()) + ns(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Tool {
        let words = ["-c".to_owned(), script.to_owned()];
        Tool::start(&find_tool("sh").unwrap(), &words, &Netns::current().unwrap(), first_cpu()).unwrap()
    }

    fn first_cpu() -> u32 {
        host::CpuList::allowed().unwrap().as_slice()[0]
    }

    /// Entering a namespace, even one's own, takes root.
    fn may_enter() -> bool {
        testkit::is_root("CAP_SYS_ADMIN")
    }

    #[test]
    fn the_kernel_counts_what_goes_into_the_file_and_not_what_is_said() {
        testkit::needs!(may_enter());
        let tool = start("echo hello; echo world >&2; exec head -c 100000 /dev/zero > /dev/null");
        let ended = tool.wait(TIMEOUT, &StopFlag::default()).unwrap();
        assert!(ended.status.success() && ended.said.len() == 12, "{ended:?}");
        assert_eq!(ended.file_bytes, 100_000);
    }

    #[test]
    fn is_stopped_politely_and_the_stubborn_are_killed() {
        testkit::needs!(may_enter());
        let polite = start("trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.01; done");
        polite.until_it_says("up", &StopFlag::default()).unwrap();
        assert!(polite.memory_peak_bytes().unwrap() > 4096);
        let ended = polite.stop(&StopFlag::default()).unwrap();
        assert!(ended.said.ends_with("bye\n") && ended.cpu_ns > 0, "{ended:?}");
        let stubborn = start("trap '' INT; echo up; sleep 60");
        stubborn.until_it_says("up", &StopFlag::default()).unwrap();
        stubborn.interrupt();
        let pid = stubborn.pid();
        let error = stubborn.wait(Duration::from_millis(100), &StopFlag::default()).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it is still there");
    }

    /// Killed by the kernel with the thread that started it, which for a bench is its main thread.
    #[test]
    fn no_tool_outlives_a_bench_that_is_killed() {
        testkit::needs!(may_enter());
        let pid = std::thread::scope(|scope| {
            let starter = scope.spawn(|| {
                let tool = start("echo up; exec sleep 60");
                tool.until_it_says("up", &StopFlag::default()).unwrap();
                let pid = tool.pid();
                // As after kill -9: nothing is dropped.
                std::mem::forget(tool);
                pid
            });
            starter.join().unwrap()
        });
        assert_eq!(nix::sys::wait::waitpid(pid, None), Ok(WaitStatus::Signaled(pid, Signal::SIGKILL, false)));
    }

    #[test]
    fn a_tool_that_ends_early_is_quoted() {
        testkit::needs!(may_enter());
        let error = start("echo no such device").until_it_says("ready", &StopFlag::default()).unwrap_err();
        assert!(error.to_string().contains("no such device"), "{error}");
        assert_eq!(find_tool("wirerate-bench-no-such-tool"), None);
    }
}
