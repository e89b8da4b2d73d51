//! Running programs: the one under test, with a time limit and signals, and the tools around it.

use crate::{Case, TestResult, case};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Children that run now, for [`stop_all`].
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote to stdout.
    pub(crate) stdout: String,
    /// What it wrote to stderr.
    pub(crate) stderr: String,
    /// Time from start to end.
    pub(crate) elapsed: Duration,
}

impl Outcome {
    /// This outcome, if the exit code is `code`.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A program that may still run; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    started: Instant,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts `command` with its output collected and nothing to read.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        RUNNING.lock().unwrap().push(child.id());
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, started: Instant::now(), stdout, stderr }
    }

    /// Sends `signal` to it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(pid(self.child.id()), signal).expect("it is our child, and we have not waited for it");
    }

    /// Waits for its end; panics if that takes longer than `limit`.
    #[track_caller]
    pub(crate) fn wait(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {limit:?}");
            std::thread::sleep(Duration::from_millis(2));
        };
        let elapsed = self.started.elapsed();
        let [stdout, stderr] =
            [self.stdout.take(), self.stderr.take()].map(|reader| reader.unwrap().join().unwrap());
        Outcome { code: status.code(), stdout, stderr, elapsed }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
        RUNNING.lock().unwrap().retain(|id| *id != self.child.id());
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.try_into().expect("pids are small"))
}

/// Asks every child that runs to stop, and gives it a moment to clean up.
pub(crate) fn stop_all() {
    let running = RUNNING.lock().map(|ids| ids.clone()).unwrap_or_default();
    for id in &running {
        let _ = kill(pid(*id), Signal::SIGTERM);
    }
    if !running.is_empty() {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Runs a tool that must succeed; its stdout.
#[track_caller]
pub(crate) fn run(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} ended with {}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// True when a command of that name is in the places where root's commands are.
pub(crate) fn is_installed(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|dir| std::path::Path::new(dir).join(tool).is_file())
}

/// Tests of this file itself.
pub(crate) const CASES: &[Case] = &[case("program::is_interrupted_and_its_output_kept", &[], is_interrupted)];

fn is_interrupted() -> TestResult {
    let mut command = Command::new("sh");
    command.args(["-c", "trap 'echo bye; exit 7' INT; echo up >&2; while :; do sleep 0.01; done"]);
    let running = Running::start(command);
    std::thread::sleep(Duration::from_millis(200));
    running.signal(Signal::SIGINT);
    let outcome = running.wait(Duration::from_secs(5)).expect_code(7);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("bye\n", "up\n"));
    assert!(outcome.elapsed < Duration::from_secs(4), "{:?}", outcome.elapsed);
    Ok(())
}
