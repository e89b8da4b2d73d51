//! Captures with faults: full disks, devices that go, a process that is stopped or gets little CPU
//! time or memory, rotation under load, and several of these at once.
//!
//! In each run every frame has one fate, and another program reads as many as were written.

use crate::capture_runs::{adds_up, command, number, text};
use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::readers::packet_count;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tests of captures with faults: 22 runs.
pub(crate) const CASES: &[Case] = &[
    case("capture_faults::a_full_disk_loses_what_it_says", &["mount", "capinfos"], full_disk),
    case("capture_faults::a_device_that_goes_ends_it_with_all_frames", &["capinfos"], device_gone),
    case("capture_faults::a_stopped_process_loses_in_its_rings", &["capinfos"], stopped),
    case("capture_faults::five_percent_of_a_cpu_is_enough_to_account", &["sh", "capinfos"], slow_cpu),
    case("capture_faults::rotation_under_load_keeps_every_frame", &["capinfos"], rotation),
    case("capture_faults::faults_at_once", &["sh", "mount", "capinfos"], combined),
    case("capture_faults::little_memory_is_enough_or_said", &["sh", "capinfos"], little_memory),
];

/// Frames of a run. A ring of 64 KiB holds some hundred.
const COUNT: u32 = 20_000;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The files are on a disk of 256 KiB.
    FullDisk,
    /// The device is deleted while frames come.
    DeviceGone,
    /// The process is stopped while frames come.
    Stopped,
    /// The process gets 5 % of a CPU.
    SlowCpu,
}

use Fault::{DeviceGone, FullDisk, SlowCpu, Stopped};

/// A folder on a disk of its own; dropping it takes the disk away.
pub(crate) struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    pub(crate) fn new(folder: &'a Path) -> Self {
        run(&["mount", "-t", "tmpfs", "-o", "size=256k", "wre-faults", text(folder)]);
        Self(folder)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A control group with a limit; dropping it removes the group.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None` if this machine has no such controller.
    fn new(controller: &str, limits: [(&str, &str); 2]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wre-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = Path::new("/sys/fs/cgroup");
        let folders = [root.join(controller).join(&name), root.join(&name)];
        // The first version of control groups has a folder for each controller.
        let limit = |(folder, (file, value)): (&PathBuf, (&str, &str))| {
            let made = fs::create_dir(folder).and_then(|()| fs::write(folder.join(file), value));
            if made.is_err() {
                let _ = fs::remove_dir(folder);
            }
            made.is_ok().then(|| Self(folder.clone()))
        };
        folders.iter().zip(limits).find_map(limit)
    }

    fn cpu() -> Option<Self> {
        Self::new("cpu", [("cpu.cfs_quota_us", "5000"), ("cpu.max", "5000 100000")])
    }

    fn memory(limit: &str) -> Option<Self> {
        Self::new("memory", [("memory.limit_in_bytes", limit), ("memory.max", limit)])
    }

    /// A shell command that enters this control group and then runs `command` in it.
    fn around(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        shell.args(["-c", &enter]).arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its process has ended and was waited for.
        let _ = fs::remove_dir(&self.0);
    }
}

/// One run: the options of the capture, and its faults. `-w` and the folder of files are added.
#[track_caller]
fn run_with(faults: &[Fault], files: &[&str], words: &str) -> Outcome {
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("files");
    fs::create_dir(&folder).expect("the folder of the lab can be written");
    let _disk = faults.contains(&FullDisk).then(|| SmallDisk::new(&folder));
    let group = faults.contains(&SlowCpu).then(ControlGroup::cpu);
    let names: Vec<PathBuf> = files.iter().map(|name| folder.join(name)).collect();
    let mut all: Vec<&str> = names.iter().flat_map(|name| ["-w", text(name)]).collect();
    all.extend(words.split(' '));
    let capture = command(&lab, &all);
    let running = match &group {
        Some(Some(group)) => Running::start(group.around(&capture)),
        Some(None) => {
            testkit::skip("needs the cpu controller of control groups");
            Running::start(capture)
        }
        None => Running::start(capture),
    };
    running.until_it_says("capturing on rx0");
    let ends_by_itself = frames_with(faults, &lab, &running);
    if !ends_by_itself {
        running.signal(Signal::SIGINT);
    }
    let outcome = running.wait(TIME_LIMIT);
    assert!(outcome.code.is_some_and(|code| [0, 1, 3].contains(&code)), "{outcome:?}");
    adds_up(&outcome);
    let has_ended_early = faults.contains(&FullDisk) && outcome.code == Some(3);
    if !faults.contains(&DeviceGone) && !has_ended_early {
        assert_eq!(number(&outcome, "received"), u64::from(COUNT), "{}", outcome.stdout);
    }
    are_in_files(&outcome, &folder, files);
    outcome
}

/// Sends the frames, and lets the faults happen. True if the capture ends by itself then.
fn frames_with(faults: &[Fault], lab: &Lab, running: &Running) -> bool {
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2", lab.tx_netns);
    if faults.contains(&Stopped) {
        running.signal(Signal::SIGSTOP);
    }
    if faults.contains(&DeviceGone) {
        let sender = wirerate_start(&format!("{words} --count 1M --pps 50k"));
        let before = lab.received();
        until("frames come", || lab.received() > before + 1_000);
        if faults.contains(&Stopped) {
            running.signal(Signal::SIGCONT);
        }
        run(&["ip", "-n", &lab.rx_netns, "link", "del", RX_DEV]);
        // It loses its device, too.
        sender.wait(TIME_LIMIT);
        return true;
    }
    let before = lab.received();
    wirerate_run(&format!("{words} --count {COUNT}")).expect_code(0);
    until("the receiver has them all", || lab.received() >= before + u64::from(COUNT));
    if faults.contains(&Stopped) {
        running.signal(Signal::SIGCONT);
    }
    false
}

/// capinfos reads in the files of each output what the report says; old files may be removed.
#[track_caller]
fn are_in_files(outcome: &Outcome, folder: &Path, files: &[&str]) {
    let last = outcome.stdout.lines().last().expect("there is a report");
    let report: serde_json::Value = serde_json::from_str(last).expect("one line of JSON");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    // What could not be completed is not a file of the report.
    paths.retain(|path| !text(path).ends_with(".part"));
    for (number, name) in files.iter().enumerate() {
        let stem = name.split('.').next().expect("a name");
        let is_of_output = |path: &&PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(stem))
        };
        let read: u64 = paths.iter().filter(is_of_output).map(|path| packet_count(path)).sum();
        let output = &report["outputs"][number];
        let written = output["written"].as_u64().expect("a count");
        match output["files_removed"].as_u64() {
            Some(0) | None => assert_eq!(read, written, "{name} {last}"),
            Some(_) => assert!(read <= written, "{name} has {read}: {last}"),
        }
    }
}

fn full_disk() -> TestResult {
    for (files, words) in [
        (["x.pcapng"], "--source xdp"),
        (["x.pcapng"], "--source tpacket"),
        (["x.pcap"], "--on-error go-on"),
        (["x.pcapng"], "--on-error go-on --rotate-size 50kB"),
    ] {
        let outcome = run_with(&[FullDisk], &files, words);
        assert!(number(&outcome, "lost_disk") > 0 && number(&outcome, "written") > 0, "{words}");
        assert_ne!(outcome.code, Some(0), "{words}");
    }
    Ok(())
}

fn device_gone() -> TestResult {
    for words in ["--source xdp", "--source tpacket", "--source xdp --rotate-size 100kB"] {
        let outcome = run_with(&[DeviceGone], &["x.pcapng"], words);
        assert_eq!(outcome.code, Some(1), "{words}");
        outcome.says(&["rx0 went away"]);
        assert!(number(&outcome, "written") > 0, "{words}");
    }
    Ok(())
}

fn stopped() -> TestResult {
    for words in [
        "--source xdp --ring 64KiB",
        "--source tpacket --ring 64KiB",
        "--source xdp --ring 64KiB --rotate-size 20kB",
    ] {
        let outcome = run_with(&[Stopped], &["x.pcapng"], words);
        assert_eq!(outcome.code, Some(1), "{words}");
        assert!(number(&outcome, "lost_ring") > 0 && number(&outcome, "written") > 0, "{words}");
    }
    Ok(())
}

fn slow_cpu() -> TestResult {
    for (file, words) in [
        ("x.pcapng", "--source xdp --ring 64KiB"),
        ("x.pcapng.zst", "--source tpacket --ring 64KiB"),
        ("x.pcap", "--source xdp --rotate-size 200kB"),
    ] {
        run_with(&[SlowCpu], &[file], words);
    }
    Ok(())
}

fn rotation() -> TestResult {
    for (file, words) in [
        ("x.pcapng", "--source xdp --rotate-size 20kB --ring 8MiB"),
        ("x.pcapng.lz4", "--source tpacket --rotate-size 50kB --ring 8MiB"),
        ("x.pcapng", "--source xdp --rotate-size 20kB --files 3 --ring 8MiB"),
    ] {
        let outcome = run_with(&[], &[file], words);
        assert!(number(&outcome, "files") > 10, "{words}");
    }
    Ok(())
}

fn combined() -> TestResult {
    let two = ["x.pcapng", "y.pcap.zst"];
    for (faults, files, words) in [
        (&[Stopped, DeviceGone][..], &["x.pcapng"][..], "--ring 64KiB"),
        (&[SlowCpu, FullDisk], &["x.pcapng"], "--on-error go-on"),
        (&[Stopped, FullDisk], &["x.pcapng"], "--ring 64KiB --on-error go-on --rotate-size 50kB --files 3"),
        (&[Stopped, SlowCpu], &["x.pcapng.zst"], "--ring 64KiB --rotate-size 20kB"),
        (&[Stopped], &two, "--ring 64KiB -f udp"),
        (&[FullDisk], &two, "--on-error go-on -f udp -f ip"),
    ] {
        run_with(faults, files, words);
    }
    Ok(())
}

fn little_memory() -> TestResult {
    let Some(group) = ControlGroup::memory("16777216") else {
        testkit::skip("needs the memory controller of control groups");
        return Ok(());
    };
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let running = Running::start(group.around(&command(&lab, &["-w", text(&file)])));
    running.until_it_says("capturing on rx0");
    frames_with(&[], &lab, &running);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT);
    assert!(outcome.code.is_some_and(|code| code < 2), "{outcome:?}");
    adds_up(&outcome);
    assert_eq!(number(&outcome, "received"), u64::from(COUNT));
    assert_eq!(packet_count(&file), number(&outcome, "written"));
    drop(group);
    // A program with symbols for debugging does not even start in much less.
    let group = ControlGroup::memory("7340032").expect("there was one of 16 MiB");
    let other = lab.file("y.pcapng");
    let words = ["-w", text(&other), "--duration", "100ms"];
    let outcome = Running::start(group.around(&command(&lab, &words))).wait(TIME_LIMIT).expect_code(3);
    outcome.says(&["7168 KiB of memory, and a capture needs at least 8 MiB", "MemoryMax=16M"]);
    assert!(!other.exists());
    Ok(())
}
