//! Running programs: the one under test, with a time limit and signals, and the tools around it.

use crate::{Case, TestResult, case};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time that anything may take: a loaded machine does it late, but does it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

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

    /// This outcome, if it is that of a paced `wirerate send` without errors. On a loaded machine
    /// it may miss its rate, which is exit code 1.
    #[track_caller]
    pub(crate) fn expect_paced(self) -> Self {
        let has_missed =
            ["\"rate_missed\":true", "the rate was missed"].map(|text| self.stdout.contains(text));
        self.expect_code(has_missed.contains(&true).into())
    }

    /// Asserts that each of `words` is in what it wrote to stderr.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in:\n{}", self.stderr);
        }
    }
}

/// A program that may still run; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    started: Instant,
    stdout: Stream,
    stderr: Stream,
}

/// What a child writes, read by a thread of its own so that the child never waits for us.
#[derive(Debug)]
struct Stream {
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts `command` with its output collected and nothing to read.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that a signal reaches the processes it starts as well.
        command.process_group(0);
        let mut running = running();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        running.push(child.id());
        drop(running);
        let stdout = Stream::of(child.stdout.take().expect("it is piped"));
        let stderr = Stream::of(child.stderr.take().expect("it is piped"));
        Self { child, started: Instant::now(), stdout, stderr }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal` to it and to what it started.
    pub(crate) fn signal(&self, signal: Signal) {
        killpg(pid(self.child.id()), signal).expect("it is our child, and we have not waited for it");
    }

    /// Waits until `text` has come on stderr.
    #[track_caller]
    pub(crate) fn until_it_says(&self, text: &str) {
        until(text, || self.stderr.text().contains(text));
    }

    /// What it has written to stderr.
    pub(crate) fn said(&self) -> String {
        self.stderr.text()
    }

    /// What it has written to stdout.
    pub(crate) fn printed(&self) -> String {
        self.stdout.text()
    }

    /// Waits until `text` has come on stdout.
    #[track_caller]
    pub(crate) fn until_it_prints(&self, text: &str) {
        until(text, || self.stdout.text().contains(text));
    }

    /// True when it runs no more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Gives it `limit` to end of its own accord, then interrupts it.
    pub(crate) fn until_it_ends(mut self, limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline && !self.has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !self.has_ended() {
            self.signal(Signal::SIGINT);
        }
        self
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
        let [stdout, stderr] = [&mut self.stdout, &mut self.stderr].map(Stream::finish);
        crate::tries::check(&stderr);
        testkit::check_json_lines(&stdout);
        testkit::check_json_lines(&stderr);
        Outcome { code: status.code(), stdout, stderr, elapsed }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is what we want.
        let _ = killpg(pid(self.child.id()), Signal::SIGKILL);
        let _ = self.child.wait();
        running().retain(|id| *id != self.child.id());
    }
}

impl Stream {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                sink.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        Self { seen, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// All of it, once the child has closed its end.
    fn finish(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading does not panic");
        }
        self.text()
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.try_into().expect("pids are small"))
}

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks every child that runs to stop, and gives it a moment to clean up. While the caller keeps
/// what it returns, no test starts another one.
pub(crate) fn stop_all() -> MutexGuard<'static, Vec<u32>> {
    let running = running();
    for id in running.iter() {
        let _ = killpg(pid(*id), Signal::SIGTERM);
    }
    if !running.is_empty() {
        std::thread::sleep(Duration::from_secs(1));
    }
    running
}

/// The program under test, to be given arguments.
pub(crate) fn wirerate() -> Command {
    Command::new(std::env::var_os("WIRERATE").unwrap_or_else(|| env!("CARGO_BIN_EXE_wirerate").into()))
}

/// Starts the program under test with the words of `arguments`, which must not hold blanks
/// themselves.
#[track_caller]
pub(crate) fn wirerate_start(arguments: &str) -> Running {
    let mut command = wirerate();
    command.args(arguments.split_whitespace());
    Running::start(command)
}

/// Runs the program under test to its end.
#[track_caller]
pub(crate) fn wirerate_run(arguments: &str) -> Outcome {
    wirerate_start(arguments).wait(TIME_LIMIT)
}

/// A command that runs in a network namespace.
pub(crate) fn in_netns(netns: &str, tool: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns, tool]);
    command
}

/// Waits until `is_so`, for three minutes at most.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        assert!(Instant::now() < deadline, "never came about: {what}");
        std::thread::sleep(Duration::from_millis(5));
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
    running.until_it_says("up");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(7);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("bye\n", "up\n"));
    Ok(())
}
