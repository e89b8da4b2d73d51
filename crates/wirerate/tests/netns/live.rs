//! `--tui`: the screen of running commands in tmux, its keys, and the terminal afterwards.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{TIME_LIMIT, until, wirerate, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Tests of the full screen.
pub(crate) const CASES: &[Case] = &[
    case("live::keys_pause_change_the_rate_and_stop", &["tmux"], keys_control_a_sender),
    case("live::signals_and_a_closed_terminal_end_the_view", &["tmux"], signals_end_the_view),
    case("live::receiver_capture_replay_and_search_have_a_view", &["tmux"], other_commands_have_a_view),
    case("live::runs_of_control_files_appear", &["tmux"], runs_of_control_files_appear),
    case("live::without_a_terminal_there_is_a_line_per_second", &[], lines_without_a_terminal),
];

/// Exit codes of a run that may have missed its rate, or lost frames, on a loaded machine.
const MISSED: [i32; 2] = [0, 1];

/// A shell in a terminal of tmux.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn new(lab: &Lab) -> Self {
        let terminal = Self { socket: lab.file("tmux.sock") };
        let shell = "env PS1=ready: ENV= NO_COLOR= sh";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        terminal.until_shows("ready:");
        terminal
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").arg("-u").arg("-S").arg(&self.socket).args(words);
        command
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("tmux is installed");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types a line into the shell.
    fn line(&self, line: &str) {
        self.keys(line);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", "-l", keys]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn until_shows(&self, text: &str) -> String {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < deadline, "no {text:?} on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the program under test in the shell, which then prints its exit code.
    fn wirerate(&self, arguments: &str) {
        let program = wirerate();
        let program = Path::new(program.get_program()).display().to_string();
        self.line("clear");
        self.line(&format!("{program} {arguments}; echo code=$?"));
    }

    /// Waits for the end with one of these exit codes. The terminal is as before: normal screen,
    /// cursor, lines and echo. Returns what is on it.
    #[track_caller]
    fn until_it_ends(&self, codes: &[i32]) -> String {
        let mut screen = self.until_shows("\ncode=");
        // The number follows at once.
        until(&format!("exit code {codes:?}"), || {
            screen = self.screen();
            codes.iter().any(|code| screen.contains(&format!("\ncode={code}\n")))
        });
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]), "0 1\n");
        self.line("clear; stty -a");
        let settings = self.until_shows("icanon");
        for on in [" icanon", " echo ", " isig", " opost"] {
            assert!(settings.replace('\n', " ").contains(on), "{on}: {settings}");
        }
        screen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that has failed may have ended it.
        let _ = self.command(&["kill-server"]).output();
    }
}

fn sends(lab: &Lab, more: &str) -> String {
    format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --size 60 {more}", lab.tx_netns)
}

/// Waits until the receiver has counted frames at this rate, within 2 %: from now on, because a
/// late sender catches up (`--catch-up max`: at once).
#[track_caller]
fn until_received_at(lab: &Lab, pps: f64) {
    let (start, before) = (Instant::now(), lab.received());
    until(&format!("{pps} frames per second arrive"), || {
        std::thread::sleep(Duration::from_millis(100));
        let measured = (lab.received() - before) as f64 / start.elapsed().as_secs_f64();
        (measured / pps - 1.0).abs() < 0.02
    });
}

/// No frame arrives any more.
#[track_caller]
fn assert_that_nothing_arrives(lab: &Lab) -> u64 {
    let before = lab.received();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.received(), before);
    before
}

fn keys_control_a_sender() -> TestResult {
    let (lab, file) = (Lab::new(Peer::Sink), "report.json");
    let terminal = Terminal::new(&lab);
    let report = lab.file(file);
    terminal.wirerate(&sends(&lab, "--pps 2k --catch-up max --count 0 --tui"));
    let screen = terminal.until_shows("2.000 kpps requested");
    assert!(screen.starts_with("send  running  00:00:"), "{screen}");
    assert!(screen.contains(&format!("requested  {TX_DEV} in {}", &lab.tx_netns[..8])), "{screen}");
    until_received_at(&lab, 2000.0);
    let screen = terminal.until_shows(" threads ");
    assert!(screen.lines().last().is_some_and(|line| line.starts_with("p pause  +/- r rate")), "{screen}");
    terminal.keys("p");
    terminal.until_shows("paused from ");
    terminal.until_shows("  0 pps  0 bit/s");
    let paused_at = assert_that_nothing_arrives(&lab);
    terminal.keys("p+");
    terminal.until_shows("2.200 kpps requested");
    until_received_at(&lab, 2200.0);
    assert!(lab.received() > paused_at);
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    until("the keys are on the last line", || {
        let screen = terminal.screen();
        screen.lines().count() == 40 && screen.lines().last().is_some_and(|line| line.contains("? help"))
    });
    terminal.keys("?");
    terminal.until_shows("Keys (any key ends the help)");
    terminal.keys("xr3k");
    terminal.until_shows("esc does not): 3k_");
    terminal.tmux(&["send-keys", "Enter"]);
    terminal.until_shows("3.000 kpps requested");
    terminal.keys("s");
    let screen = terminal.until_it_ends(&[0]);
    assert!(screen.contains("stopped\n") && screen.contains("  changed   paused from "), "{screen}");
    let sent = screen.lines().find_map(|line| line.trim().strip_prefix("sent ")).expect("the report");
    let sent: String = sent.split_whitespace().next().unwrap_or_default().replace(',', "");
    let sent = sent.parse::<u64>()?;
    assert_eq!(sent, lab.received_at_last(sent), "{screen}");
    // The report as JSON has the changes as well, and goes to a file here.
    terminal.wirerate(&format!(
        "{} > {}",
        sends(&lab, "--pps 1k --count 100 --json --tui"),
        report.display()
    ));
    terminal.until_it_ends(&MISSED);
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
    assert_eq!((report["sent"].as_u64(), report.get("changes")), (Some(100), None));
    Ok(())
}

/// The process that has written its number to `file`.
#[track_caller]
fn process(file: &Path) -> Pid {
    let mut id = None;
    until("the process has a number", || {
        id = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        id.is_some()
    });
    Pid::from_raw(id.expect("it was read"))
}

fn signals_end_the_view() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let terminal = Terminal::new(&lab);
    let number = lab.file("pid");
    let program = wirerate();
    let program = Path::new(program.get_program()).display().to_string();
    let command = format!("{program} {}", sends(&lab, "--pps 1k --count 0 --tui"));
    let line = format!("sh -c 'echo $$ > {}; exec {command}'; echo code=$?", number.display());
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        terminal.line("clear");
        terminal.line(&line);
        terminal.until_shows(" running ");
        kill(process(&number), signal)?;
        let screen = terminal.until_it_ends(&MISSED);
        // A long name of the namespace wraps the line.
        assert!(screen.replace('\n', "").contains(", stopped"), "{screen}");
        fs::remove_file(&number)?;
    }
    // An error is printed on the normal screen.
    terminal.wirerate(&format!("send nosuch0 --netns {} --dst 198.18.0.2 --tui", lab.tx_netns));
    assert!(terminal.until_it_ends(&[3]).contains("wirerate: cannot send on nosuch0"));
    // The end of the terminal is the end of the run.
    terminal.line("clear");
    terminal.line(&line);
    terminal.until_shows(" running ");
    let id = process(&number);
    terminal.tmux(&["kill-server"]);
    until("the process ends", || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // Its parent is gone too, so it may stay a zombie.
        stat.is_empty() || stat.contains(") Z ")
    });
    assert_that_nothing_arrives(&lab);
    Ok(())
}

/// The number and the unit behind the first `name` of the last line about latency.
#[track_caller]
fn words_behind(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().rfind(|line| line.contains("latency ") && line.contains(name));
    let line = line.unwrap_or_else(|| panic!("no {name:?} in:\n{text}"));
    let rest = line.split(name).nth(1).unwrap_or_default();
    rest.split_whitespace().take(2).map(|word| word.trim_end_matches(',').to_owned()).collect()
}

fn other_commands_have_a_view() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let terminal = Terminal::new(&lab);
    let rx = format!("{RX_DEV} --netns {}", lab.rx_netns);
    // A receiver, with flows that are sorted and filtered.
    terminal.wirerate(&format!("receive {rx} --tui"));
    terminal.until_shows("wirerate: measuring frames of ");
    wirerate_run(&sends(&lab, "--size 100 --count 5000 --flows 20 --signature full --end-frames 0"))
        .expect_code(0);
    terminal.until_shows("received 5,000");
    terminal.until_shows(" flows (1 of 2) ");
    terminal.keys("o");
    let screen = terminal.until_shows("most received first");
    let first = screen.lines().skip_while(|line| !line.starts_with("device")).nth(1).unwrap_or_default();
    assert!(first.split_whitespace().nth(1) == Some("other"), "{screen}");
    terminal.keys("h");
    let screen = terminal.until_shows("latency of 5,000 frames");
    terminal.keys("q");
    let report = terminal.until_it_ends(&[0]);
    assert!(report.contains("received"));
    // The screen is as exact as the report.
    assert_eq!(words_behind(&screen, " p50 <= "), words_behind(&report, " p50 "), "{screen}\n{report}");
    // A capture, whose file is complete.
    let file = lab.file("frames.pcapng");
    terminal.wirerate(&format!("capture {rx} --mode drop -w {} --tui", file.display()));
    terminal.until_shows("capturing on ");
    wirerate_run(&sends(&lab, "--count 300")).expect_code(0);
    terminal.until_shows("received 300 ");
    terminal.keys("p");
    terminal.until_shows("nothing is being sent here");
    terminal.keys("q");
    terminal.until_it_ends(&[0]);
    // A replay of that file, which pauses.
    let tx = format!("{TX_DEV} --netns {}", lab.tx_netns);
    terminal.wirerate(&format!("replay {tx} {} --pps 2k --loop 0 --tui", file.display()));
    terminal.until_shows("packets of the files");
    terminal.keys("p");
    terminal.until_shows("  0 pps");
    terminal.until_shows(" paused ");
    terminal.keys("+");
    terminal.until_shows("2.200 kpps");
    terminal.keys("pq");
    terminal.until_it_ends(&MISSED);
    // Sender and receiver together.
    let devices = format!("--tx {TX_DEV}@{} --rx {RX_DEV}@{}", lab.tx_netns, lab.rx_netns);
    terminal.wirerate(&format!("measure {devices} --tui -- --dst 198.18.0.2 --size 100 --pps 5k --count 0"));
    let screen = terminal.until_shows("latency  p50 <= ");
    assert!(
        screen.contains(" sent ") && screen.contains(" received ") && screen.contains(" lost 0 "),
        "{screen}"
    );
    terminal.keys("-");
    terminal.until_shows("4.500 kpps requested");
    terminal.keys("q");
    terminal.until_it_ends(&MISSED);
    // A search shows its trials, and sets its rates itself.
    terminal.wirerate(&format!("search {devices} --method quick --max-pps 2000 --tui -- --dst 198.18.0.2"));
    terminal.until_shows(" received ");
    terminal.keys("+");
    terminal.until_shows("search sets the rates itself");
    terminal.keys("q");
    terminal.until_shows("code=");
    Ok(())
}

/// Runs that a script starts appear by themselves.
fn runs_of_control_files_appear() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let terminal = Terminal::new(&lab);
    let dir = lab.file("pktgen");
    terminal.wirerate(&format!("serve --netns {} --mount {} --tui", lab.tx_netns, dir.display()));
    until("the files are there", || dir.join("pgctrl").exists());
    terminal.until_shows("no frames yet");
    let write = |file: &str, text: &str| fs::write(dir.join(file), text);
    write("kpktgend_0", &format!("add_device {TX_DEV}"))?;
    for command in ["count 1000", "dst 198.18.0.2", "dst_mac 02:00:00:00:00:02", "delay 10000"] {
        write(TX_DEV, command)?;
    }
    write("pgctrl", "start")?;
    let screen = terminal.until_shows(" sent 1,000 ");
    assert!(screen.lines().any(|line| line.starts_with("tx0     0       0    ")), "{screen}");
    terminal.keys("q");
    terminal.until_it_ends(&[0]);
    assert!(!dir.join("pgctrl").exists());
    Ok(())
}

fn lines_without_a_terminal() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let running = wirerate_start(&sends(&lab, "--pps 1k --count 0 --tui"));
    running.until_it_says("--tui needs a terminal on standard output: a line per second instead\n");
    running.until_it_says(" running: sent ");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_paced();
    assert!(outcome.stdout.contains(", stopped\n"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains('\x1b') && !outcome.stderr.contains('\x1b'), "{}", outcome.stderr);
    Ok(())
}
