//! The first SIGINT or SIGTERM ends the input of every command that waits for it.

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Folder;

/// Longest wait for a program on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// True once the program has its handlers.
fn hears(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (signal as i32 - 1) & 1 == 1
}

/// True if the program has read this many bytes, and sleeps.
fn waits_after(child: &Child, len: usize) -> bool {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap_or_default();
    let is_asleep = read("stat").rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'));
    let io = read("io");
    let rchar = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    is_asleep && rchar.is_some_and(|rchar: usize| rchar >= len)
}

/// Sends one signal when the program can hear it; returns what it printed and its exit code.
fn end(mut child: Child, signal: Signal, name: &str) -> (String, i32) {
    let start = Instant::now();
    while !hears(&child, signal) {
        assert!(start.elapsed() < TIMEOUT, "{name}: it sets no handler for {signal}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, signal).unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("{name}: {signal} does not end it");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (text, output.status.code().unwrap_or_else(|| panic!("{name}: killed by {signal}")))
}

#[test]
fn one_signal_ends_a_command_that_waits_for_its_input() {
    let folder = Folder::new("waiting");
    mkfifo(&folder.join("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::write(folder.join("trafgen.cfg"), "{ pcap(\"pipe\", 1) }").unwrap();
    for words in [
        "analyze pipe",
        "analyze -",
        "replay no-device --dry-run --dst-mac 02:00:00:00:00:02 pipe",
        "replay no-device --dry-run --dst-mac 02:00:00:00:00:02 -",
        "export pipe -o out1",
        "export - -o out2",
        "trafgen -i pipe -o frames.pcap",
        "trafgen -i - -o frames.pcap",
        "trafgen -i trafgen.cfg -o frames.pcap",
        "trafgen --cpp -i pipe -o frames.pcap",
        "info pipe",
        "info -",
        "send no-device --dry-run --dst-mac 02:00:00:00:00:02 --frames pipe",
        "send no-device --dry-run --streams pipe",
        "report pipe",
        "report -",
        "otg run pipe",
        "agent --config pipe",
        "fleet hosts --hub pipe",
        "fleet run pipe --hub nats://127.0.0.1:9",
    ] {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let child = Command::new(env!("CARGO_BIN_EXE_wirerate"))
                .args(words.split(' '))
                .current_dir(&*folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary under test starts");
            let (text, code) = end(child, signal, words);
            // An input without a byte is an error of most commands, not the end by a second signal.
            assert!(code < 4, "{words}: exit code {code}: {text}");
        }
    }
}

/// `info` and `analyze` said that all was well.
#[test]
fn a_stream_that_the_signal_cuts_before_its_first_bytes_is_damaged() {
    let folder = Folder::new("waited-zstd");
    let file = zstd::stream::encode_all(&super::readers::pcap_of(300)[..], 1).unwrap();
    for words in ["info -", "analyze -"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wirerate"))
            .args(words.split(' '))
            .current_dir(&*folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary under test starts");
        let mut input = child.stdin.take().unwrap();
        input.write_all(&file[..file.len() - 20]).unwrap();
        let start = Instant::now();
        while !waits_after(&child, file.len() - 20) {
            assert!(start.elapsed() < TIMEOUT, "it does not read its input");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (text, code) = end(child, Signal::SIGINT, words);
        drop(input);
        assert!(code == 1 && text.contains("within a zstd frame"), "{words}: {code}: {text}");
    }
}

#[test]
fn what_was_read_before_the_signal_is_reported() {
    let folder = Folder::new("waited");
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(["export", "-", "-o", "out", "--json"])
        .current_dir(&*folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    let mut input = child.stdin.take().unwrap();
    let file = super::readers::pcap_of(800);
    input.write_all(&file).unwrap();
    let start = Instant::now();
    while !waits_after(&child, file.len()) {
        assert!(start.elapsed() < TIMEOUT, "it does not read its input");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (text, _) = end(child, Signal::SIGTERM, "export -");
    drop(input);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap();
    let report: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&report["packets"], &report["stored"]), (&800.into(), &800.into()), "{text}");
}
