//! How fast: `send` against trafgen, `capture` against tcpdump, in turns on one veth pair.
//!
//! `make bench` runs it; a tiny run is among the tests, so that it does not rot. The receiver's counters decide
//! how fast a sender is. A capture is as fast as the highest rate at which it misses no frame. Figures of one
//! machine say little; the ratios of one run are what to compare.

use crate::lab::{Lab, Peer, QUEUE_COUNT, RX_DEV, RX_MAC, TX_DEV, TX_MAC};
use crate::program::{Outcome, Running, in_netns, until, wirerate, wirerate_run, wirerate_start};
use crate::send::number;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// The tiny run.
pub(crate) const CASES: &[Case] =
    &[case("bench::runs_tiny", &["clang", "trafgen", "tcpdump", "taskset"], runs_tiny)];

/// How long and how often to measure.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    window: Duration,
    /// Steps of the search for the highest rate without loss.
    steps: u32,
}

const FULL: Effort = Effort { rounds: 5, window: Duration::from_secs(2), steps: 7 };
const TINY: Effort = Effort { rounds: 1, window: Duration::from_millis(200), steps: 2 };

/// The CPU that sends. Receiving happens there, too, and the reader of a capture has the other one.
const SEND_CPU: &str = "0";
/// Frames of the sending benchmark, as the issue of the first light asks.
const SEND_FRAME_LEN: u32 = 60;
/// Frames of the capture benchmark.
const CAPTURE_FRAME_LEN: u32 = 128;
/// Bounds of the search, in frames each second.
const CAPTURE_PPS: (f64, f64) = (300e3, 16e6);

/// Measures and prints; what `make bench` shows.
pub(crate) fn main() {
    measure(FULL);
}

fn runs_tiny() -> TestResult {
    measure(TINY);
    Ok(())
}

fn measure(effort: Effort) {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpu_count = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "kernel {}, {cpu_count} CPUs, veth with {QUEUE_COUNT} queues, native XDP at the receiver",
        kernel.trim()
    );
    println!("{} rounds in turns; median [least .. most]", effort.rounds);
    measure_senders(effort);
    measure_captures(effort);
}

// ---- senders ----

/// One way of sending for as long as it runs.
struct Sender {
    name: &'static str,
    command: fn(&Lab) -> Command,
}

const SENDERS: &[Sender] = &[
    Sender { name: "wirerate", command: |lab| sending(lab, "") },
    Sender { name: "wirerate again", command: |lab| sending(lab, "") },
    Sender { name: "wirerate, all on", command: |lab| sending(lab, ALL_ON) },
    Sender { name: "trafgen", command: trafgen },
];

/// Ranges, checksums and timestamps.
const ALL_ON: &str = "--dst 198.18.0.2-198.18.0.200 --udp-src 1000-40000 --random udp-src --csum";

fn sending(lab: &Lab, words: &str) -> Command {
    let mut command = wirerate();
    let stamp = if words.is_empty() { "--no-timestamp" } else { "" };
    let words = format!(
        "send {TX_DEV} --netns {} --dst-mac {RX_MAC} --count 0 --cpus {SEND_CPU} --size {SEND_FRAME_LEN} {stamp} {words}",
        lab.tx_netns
    );
    command.args(words.split_whitespace());
    command
}

fn trafgen(lab: &Lab) -> Command {
    let payload_len = SEND_FRAME_LEN - 42;
    let frame = format!(
        "{{ eth(da={RX_MAC}, sa={TX_MAC}), ipv4(ttl=32, sa=198.18.0.1, da=198.18.0.2), udp(sp=9, dp=9), fill(0, {payload_len}) }}"
    );
    let path = lab.file("trafgen.cfg");
    std::fs::write(&path, frame).expect("the lab's folder can be written");
    let mut command = in_netns(&lab.tx_netns, "taskset");
    // --no-sock-mem: the system's socket memory stays as it is. One process, on the same CPU as the others.
    command
        .args(["-c", SEND_CPU, "trafgen", "--no-sock-mem", "-Q", "-C", "-P", "1", "-o", TX_DEV, "-c"])
        .arg(path);
    command
}

fn measure_senders(effort: Effort) {
    println!(
        "\nsend: {SEND_FRAME_LEN}-byte frames from one CPU, counted by the receiver (an XDP program that drops)"
    );
    let lab = Lab::new(Peer::Sink);
    let mut rates = vec![Vec::new(); SENDERS.len()];
    for _ in 0..effort.rounds {
        for (sender, rates) in SENDERS.iter().zip(&mut rates) {
            rates.push(received_pps(&lab, (sender.command)(&lab), effort.window));
        }
    }
    for (sender, rates) in SENDERS.iter().zip(&rates) {
        show_rate(sender.name, rates);
    }
    show_ratio("wirerate : itself (the noise)", &rates[0], &rates[1], None);
    show_ratio("wirerate : trafgen", &rates[0], &rates[3], Some(12.0));
    show_ratio("wirerate, all on : trafgen", &rates[2], &rates[3], Some(9.0));
}

/// Frames each second that come to the receiver while `command` runs, start and end left out.
fn received_pps(lab: &Lab, command: Command, window: Duration) -> f64 {
    let before = lab.received();
    let mut sender = Running::start(command);
    until("the first frame arrives", || lab.received() > before || sender.has_ended());
    std::thread::sleep(window / 4);
    let (first, started) = (lab.received(), Instant::now());
    std::thread::sleep(window);
    let (last, elapsed) = (lab.received(), started.elapsed());
    if sender.has_ended() {
        panic!("a sender ended too early: {:?}", sender.wait(Duration::from_secs(1)));
    }
    sender.signal(Signal::SIGINT);
    sender.wait(Duration::from_secs(10));
    assert!(last > first, "no frame came in {elapsed:?}");
    (last - first) as f64 / elapsed.as_secs_f64()
}

// ---- captures ----

/// One way of capturing: the command, and how many frames its output says are in the file.
struct Capture {
    name: &'static str,
    start: fn(&Lab) -> Running,
    kept: fn(&Outcome) -> u64,
    peer: Peer,
}

const CAPTURES: &[Capture] = &[
    Capture {
        name: "wirerate, to /dev/null",
        start: |lab| capture(lab, "/dev/null"),
        kept: written,
        peer: Peer::Deaf,
    },
    Capture {
        name: "tcpdump, to /dev/null",
        start: |lab| tcpdump(lab, "/dev/null"),
        kept: captured,
        peer: Peer::Gro,
    },
    Capture {
        name: "wirerate, to tmpfs",
        start: |lab| capture(lab, &on_tmpfs(lab)),
        kept: written,
        peer: Peer::Deaf,
    },
    Capture {
        name: "tcpdump, to tmpfs",
        start: |lab| tcpdump(lab, &on_tmpfs(lab)),
        kept: captured,
        peer: Peer::Gro,
    },
];

fn on_tmpfs(lab: &Lab) -> String {
    format!("/dev/shm/{}.bench", lab.rx_netns)
}

fn capture(lab: &Lab, file: &str) -> Running {
    let words = format!("capture {RX_DEV} --netns {} --mode drop --json -w {file}", lab.rx_netns);
    let running = wirerate_start(&words);
    until("the program is on the device", || lab.has_xdp());
    running
}

fn tcpdump(lab: &Lab, file: &str) -> Running {
    let mut command = in_netns(&lab.rx_netns, "tcpdump");
    // 64 MiB of ring: a second of frames, more than wirerate takes. The same snaplen.
    command.args(["-i", RX_DEV, "-n", "-s", "96", "-B", "65536", "-w", file, "udp"]);
    let running = Running::start(command);
    running.until_it_says("listening on");
    running
}

fn written(outcome: &Outcome) -> u64 {
    let report: Value = serde_json::from_str(outcome.stdout.trim()).expect("a report in JSON");
    number(&report, "written")
}

fn captured(outcome: &Outcome) -> u64 {
    let line =
        outcome.stderr.lines().find(|line| line.contains("packets captured")).expect("tcpdump's counts");
    line.split(' ').next().and_then(|count| count.parse().ok()).expect("a number")
}

fn measure_captures(effort: Effort) {
    println!(
        "\ncapture: highest rate without loss, {CAPTURE_FRAME_LEN}-byte frames, snaplen 96, receiving on the sender's CPU"
    );
    let mut rates = vec![Vec::new(); CAPTURES.len()];
    for _ in 0..effort.rounds {
        for (capture, rates) in CAPTURES.iter().zip(&mut rates) {
            rates.push(lossless_pps(capture, effort));
        }
    }
    for (capture, rates) in CAPTURES.iter().zip(&rates) {
        show_rate(capture.name, rates);
    }
    show_ratio("wirerate : tcpdump, to /dev/null", &rates[0], &rates[1], Some(3.0));
    show_ratio("wirerate : tcpdump, to tmpfs", &rates[2], &rates[3], Some(1.5));
}

/// The highest rate at which every frame is kept, by halving the interval between a rate that is and one that
/// is not; 0 when even the lowest is too much.
fn lossless_pps(capture: &Capture, effort: Effort) -> f64 {
    let lab = Lab::new(capture.peer);
    let (mut low, mut high) = CAPTURE_PPS;
    let mut best = 0.0;
    for _ in 0..effort.steps {
        let middle = (low * high).sqrt();
        match rate_if_lossless(&lab, capture, middle, effort.window / 2) {
            Some(rate) => (low, best) = (middle, f64::max(best, rate)),
            None => high = middle,
        }
    }
    best
}

/// The rate really sent when `pps` was asked for, if every frame of it was kept.
fn rate_if_lossless(lab: &Lab, capture: &Capture, pps: f64, window: Duration) -> Option<f64> {
    let running = (capture.start)(lab);
    let words = format!(
        "send {TX_DEV} --netns {} --dst 198.18.0.2 --dst-mac 02:00:00:00:00:99 --size {CAPTURE_FRAME_LEN} --json \
         --cpus {SEND_CPU} --pps {pps:.0} --count {:.0}",
        lab.tx_netns,
        pps * window.as_secs_f64()
    );
    let report: Value = serde_json::from_str(wirerate_run(&words).stdout.trim()).expect("a report in JSON");
    // tcpdump looks at its ring only so often; what it has not read when it is told to stop is not lost yet.
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGINT);
    let outcome = running.wait(Duration::from_secs(30));
    let _ = std::fs::remove_file(on_tmpfs(lab));
    let is_all = (capture.kept)(&outcome) == number(&report, "offered");
    is_all.then(|| report["rate_pps"].as_f64().expect("a rate"))
}

// ---- words ----

fn show_rate(name: &str, rates: &[f64]) {
    let [least, median, most] = spread(rates).map(|rate| rate / 1e6);
    println!("  {name:<32} {median:>7.2} Mpps [{least:.2} .. {most:.2}]");
}

/// Prints the median of the ratios of neighbouring runs, and half of their range.
fn show_ratio(name: &str, ours: &[f64], theirs: &[f64], goal: Option<f64>) {
    if theirs.contains(&0.0) {
        println!("  {name:<32} not to be had: a rate of 0 is among them");
        return;
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    let [least, median, most] = spread(&ratios);
    let goal = goal.map(|goal| format!("  (goal {goal})")).unwrap_or_default();
    println!("  {name:<32} {median:>7.2} \u{b1} {:.2}{goal}", (most - least) / 2.0);
}

/// Least, median and most.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}
