//! `wirerate capture` under load and after blows: what its files hold, what its lines say, how much
//! memory it takes.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::packet_count;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tests of captures into files.
pub(crate) const CASES: &[Case] = &[
    case("capture_files::killed_under_load_it_leaves_a_file_that_is_read", &["tshark"], killed_under_load),
    case(
        "capture_files::killed_while_files_follow_each_other_only_whole_ones_have_their_names",
        &["capinfos", "tshark"],
        killed_while_rotating,
    ),
    case("capture_files::an_io_error_is_counted_and_the_file_read", &["sh", "capinfos"], io_error),
    case(
        "capture_files::a_device_deleted_under_load_ends_it_with_a_whole_file",
        &["capinfos", "zstd"],
        device_deleted,
    ),
    case("capture_files::the_report_names_files_that_exist", &[], report_names_files_that_exist),
    case("capture_files::a_plain_name_needs_its_directory", &[], a_plain_name_needs_its_directory),
    case("capture_files::rotation_under_load_loses_nothing", &["capinfos"], rotation_under_load),
    case("capture_files::tshark_sees_frames_as_they_come", &["tshark"], tshark_sees_frames_as_they_come),
    case("capture_files::a_closed_pipe_ends_it", &[], a_closed_pipe_ends_it),
    case("capture_files::each_second_everything_is_accounted_for", &[], each_second),
    case("capture_files::memory_does_not_grow_with_the_run", &[], memory_does_not_grow),
    case("capture_files::every_command_reads_what_a_compressed_capture_wrote", &[], read_by_every_command),
    case("capture_files::names_say_format_and_compression", &["capinfos", "zstd"], names_say_format),
];

/// A capture at the receiver, that has begun; the rings hold what a busy machine lets wait.
fn capture(lab: &Lab, arguments: &str) -> Running {
    let running =
        wirerate_start(&format!("capture {RX_DEV} --netns {} --ring 64MiB {arguments}", lab.rx_netns));
    running.until_it_says("capturing on rx0 (XDP, native)");
    running
}

fn send(lab: &Lab, count: u32, more: &str) {
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count {count} {more}", lab.tx_netns);
    wirerate_run(&words).expect_paced();
}

/// The last line of JSON.
#[track_caller]
fn report(outcome: &Outcome) -> serde_json::Value {
    let last = outcome.stdout.lines().last().expect("there is a report");
    let report: serde_json::Value = serde_json::from_str(last).expect("one line of JSON");
    assert_eq!(report["schema"], "wirerate.capture/2");
    report
}

#[track_caller]
fn number(object: &serde_json::Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("no {field} in {object}"))
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    files
}

fn killed_under_load() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // However space is had and bytes go, there is nothing behind the last record.
    for (number, more) in ["", "--preallocate 64MiB", "--direct"].into_iter().enumerate() {
        killed_with(&lab, &lab.file(&format!("{number}.pcapng")), more)?;
    }
    Ok(())
}

fn killed_with(lab: &Lab, file: &Path, more: &str) -> TestResult {
    let running = capture(lab, &format!("-w {} {more}", file.display()));
    let sender = flood(lab);
    until("frames are in the file", || file.metadata().is_ok_and(|file| file.len() > 1_000_000));
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait(TIME_LIMIT).code, None);
    sender.signal(Signal::SIGINT);
    sender.wait(TIME_LIMIT).expect_paced();
    until("the device is free", || !lab.has_xdp());
    let path = file.to_str().expect("a plain path");
    // The last block may be cut in two: tshark says so when it has read all that is before.
    let read = Command::new("tshark").args(["-r", path, "-T", "fields", "-e", "frame.number"]).output()?;
    let (rows, said) = (String::from_utf8(read.stdout)?, String::from_utf8(read.stderr)?);
    assert!(read.status.success() || said.contains("cut short"), "{said}");
    let (count, len) = (rows.lines().count() as u64, file.metadata()?.len());
    // Blocks of 60 bytes are 112 long with head, options and end; the header has some hundred more.
    assert!(count * 112 + 1_000 > len && count * 112 < len, "{count} packets in {len} bytes");
    Ok(())
}

/// Frames without end, and the sender of them.
fn flood(lab: &Lab) -> Running {
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count 0 --pps 50k", lab.tx_netns);
    wirerate_start(&words)
}

fn killed_while_rotating() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("files");
    let running = capture(&lab, &format!("-w {} --rotate-size 1MB", folder.join("x.pcapng").display()));
    let sender = flood(&lab);
    until("some files are complete", || folder.exists() && files_in(&folder).len() > 4);
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait(TIME_LIMIT).code, None);
    sender.signal(Signal::SIGINT);
    sender.wait(TIME_LIMIT).expect_paced();
    let (parts, whole): (Vec<PathBuf>, Vec<PathBuf>) =
        files_in(&folder).into_iter().partition(|file| file.extension().is_some_and(|end| end == "part"));
    assert!(parts.len() <= 1, "one is being written at a time: {parts:?}");
    for file in &whole {
        let facts = run(&["capinfos", "-M", file.to_str().expect("a plain path")]);
        assert!(facts.contains("Number of stat entries = 1"), "it has its end: {facts}");
        assert!(packet_count(file) > 1_000, "{}", file.display());
    }
    for part in &parts {
        let path = part.to_str().expect("a plain path");
        let read =
            Command::new("tshark").args(["-r", path, "-T", "fields", "-e", "frame.number"]).output()?;
        let said = String::from_utf8(read.stderr)?;
        assert!(read.status.success() || said.contains("cut short"), "{said}");
    }
    Ok(())
}

/// The system refuses what is beyond a length, as it refuses what a broken disk does not take.
fn io_error() -> TestResult {
    const COUNT: u32 = 5_000;
    let lab = Lab::new(Peer::Gro);
    for (on_error, code) in [("stop", 3), ("go-on", 1)] {
        let file = lab.file("x.pcapng");
        let mut command = Command::new("sh");
        // Blocks of 512 bytes. Without the trap the signal would be the end of the program.
        command.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]);
        command.arg(wirerate().get_program()).args(["capture", RX_DEV, "--netns", &lab.rx_netns, "--json"]);
        command.args(["--on-error", on_error, "-w"]).arg(&file);
        let running = Running::start(command);
        running.until_it_says("capturing on rx0 (XDP, native)");
        send(&lab, COUNT, "");
        if on_error == "go-on" {
            running.signal(Signal::SIGINT);
        }
        let outcome = running.wait(TIME_LIMIT).expect_code(code);
        outcome.says(&["File too large", "x.pcapng"]);
        let report = report(&outcome);
        let (written, lost_disk) = (number(&report, "written"), number(&report, "lost_disk"));
        assert!(written > 500 && lost_disk > 0, "{report}");
        assert_eq!(number(&report, "received"), written + number(&report, "lost"));
        assert_eq!(packet_count(&file), written);
        assert!(file.metadata()?.len() <= 200 * 512);
        let facts = run(&["capinfos", "-M", file.to_str().expect("a plain path")]);
        assert!(facts.contains("Number of stat entries = 1"), "{facts}");
    }
    Ok(())
}

/// The report of a rotation named `x.pcapng`, which was not there.
fn report_names_files_that_exist() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let name = lab.file("x.pcapng");
    for more in ["", "--rotate-size 2kB", "--per-cpu", "-C 1 -W 2"] {
        let running = capture(&lab, &format!("-w {} --json --count 100 {more}", name.display()));
        send(&lab, 100, "");
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        let report = report(&outcome);
        let names = report["file_names"].as_array().expect("names");
        assert_eq!(names.first(), Some(&report["file"]), "{report}");
        for name in names {
            assert!(Path::new(name.as_str().expect("a name")).exists(), "{more}: {report}");
        }
    }
    Ok(())
}

/// A mistyped directory was made without a word.
fn a_plain_name_needs_its_directory() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("missing");
    let words = |name: &str, more: &str| {
        let name = folder.join(name);
        format!("capture {RX_DEV} --netns {} --duration 10ms {more} -w {}", lab.rx_netns, name.display())
    };
    let refused = wirerate_run(&words("x.pcapng", "")).expect_code(3);
    refused.says(&["cannot create the capture file", "try: `mkdir -p "]);
    assert!(!folder.exists());
    wirerate_run(&words("%Y/x.pcapng", "")).expect_code(0);
    wirerate_run(&words("more/x.pcapng", "--rotate-size 1MB")).expect_code(0);
    assert!(folder.join("more").exists());
    wirerate_run(&words("x.pcap.gz", "")).expect_code(2).says(&["files are not compressed as .gz"]);
    Ok(())
}

fn device_deleted() -> TestResult {
    for more in ["", "--compress zstd", "--rotate-size 300kB"] {
        let lab = Lab::new(Peer::Gro);
        let folder = lab.file("files");
        std::fs::create_dir(&folder)?;
        let running = capture(&lab, &format!("-w {} --json {more}", folder.join("x.pcapng").display()));
        let sender = flood(&lab);
        until("frames have come", || lab.received() > 20_000);
        run(&["ip", "-n", &lab.rx_netns, "link", "delete", RX_DEV]);
        let outcome = running.wait(TIME_LIMIT).expect_code(1);
        sender.wait(TIME_LIMIT);
        outcome.says(&["rx0 went away"]);
        let report = report(&outcome);
        let written = number(&report, "written");
        assert!(written > 20_000, "{report}");
        assert_eq!(number(&report, "received"), written + number(&report, "lost"));
        let mut in_files = 0;
        for file in files_in(&folder) {
            let path = file.to_str().expect("a plain path");
            let plain = lab.file("plain.pcapng");
            if more.contains("zstd") {
                run(&["zstd", "-dqf", path, "-o", plain.to_str().expect("a plain path")]);
            } else {
                std::fs::copy(&file, &plain)?;
            }
            in_files += packet_count(&plain);
        }
        assert_eq!(in_files, written, "{more}");
    }
    Ok(())
}

fn rotation_under_load() -> TestResult {
    const COUNT: u32 = 300_000;
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("files");
    let name = folder.join("%H%M%S.pcapng");
    let words = "--rotate-size 2MB --rotate-every 1s --aligned --buffer 256MiB --json";
    let running = capture(&lab, &format!("-w {} {words} --count {COUNT}", name.display()));
    send(&lab, COUNT, "--size 60 --pps 200k");
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    let report = report(&outcome);
    let files = files_in(&folder);
    assert_eq!((number(&report, "written"), number(&report, "lost")), (COUNT.into(), 0));
    assert_eq!(number(&report, "files"), files.len() as u64);
    assert!(files.len() >= 16, "33.6 MB in files of 2 MB: {files:?}");
    assert_eq!(files.iter().map(|file| packet_count(file)).sum::<u64>(), u64::from(COUNT));
    Ok(())
}

fn stream(lab: &Lab, to: Stdio, more: &str) -> std::io::Result<std::process::Child> {
    let mut command = wirerate();
    command.args(["capture", RX_DEV, "--netns", &lab.rx_netns, "-w", "-"]);
    command.args(more.split_whitespace()).stdin(Stdio::null()).stdout(to).stderr(Stdio::piped()).spawn()
}

fn tshark_sees_frames_as_they_come() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut capture = stream(&lab, Stdio::piped(), "")?;
    let frames = capture.stdout.take().expect("it is piped");
    let mut reader = Command::new("tshark")
        .args(["-i", "-", "-l", "-c", "3", "-T", "fields", "-e", "udp.dstport"])
        .stdin(frames)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    until("it captures", || lab.has_xdp());
    let mut lines = BufReader::new(reader.stdout.take().expect("it is piped")).lines();
    for _ in 0..3 {
        // Each is seen before the next one is sent: nothing waits for a buffer to be full.
        send(&lab, 1, "--udp-dst 1234");
        assert_eq!(lines.next().expect("a line")?, "1234");
    }
    assert!(reader.wait()?.success());
    // tshark has gone; the next frame finds no reader, and that is an ordinary end.
    until("the capture has ended", || {
        send(&lab, 1, "");
        capture.try_wait().is_ok_and(|status| status.is_some())
    });
    let ended = capture.wait_with_output()?;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

fn a_closed_pipe_ends_it() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for more in ["", "--on-error go-on", "--format pcap --unordered", "--compress lz4"] {
        let mut capture = stream(&lab, Stdio::piped(), more)?;
        until("it captures", || lab.has_xdp());
        drop(capture.stdout.take());
        until("the capture has ended", || {
            send(&lab, 1, "");
            capture.try_wait().is_ok_and(|status| status.is_some())
        });
        let ended = capture.wait_with_output()?;
        assert!(ended.status.success(), "{more}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    Ok(())
}

fn each_second() -> TestResult {
    const COUNT: u32 = 5_000;
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let words = format!("--every-second --json --duration 3500ms -w {}", file.display());
    let running = capture(&lab, &words);
    send(&lab, COUNT, "");
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    let lines: Vec<serde_json::Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (report, seconds) = lines.split_last().expect("there is a report");
    assert!((1..=3).contains(&seconds.len()), "{}", outcome.stdout);
    for second in seconds {
        assert_eq!(second["schema"], "wirerate.capture-second/1");
        let places = ["written", "waiting", "filtered", "after_limit", "lost_ring", "lost_disk"];
        let sum: u64 = places.iter().map(|place| number(second, place)).sum();
        assert_eq!(sum, number(second, "received"), "{second}");
        assert_eq!(number(second, "offered"), number(second, "received") + number(second, "lost_nic"));
        let cpus = second["cpus"].as_array().expect("CPUs");
        assert_eq!(cpus.iter().map(|cpu| number(cpu, "received")).sum::<u64>(), number(second, "received"));
    }
    assert!(number(report, "received") >= COUNT.into());
    let text = capture(&lab, "--every-second --duration 1500ms").wait(TIME_LIMIT).expect_code(0);
    for words in ["time           received", "lost_nic  lost_ring  lost_disk\n", "bit/s"] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    Ok(())
}

fn memory_does_not_grow() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!(
        "capture {RX_DEV} --netns {} --ring 512KiB --buffer 4MiB --mode drop --json -w /dev/null",
        lab.rx_netns
    );
    let mut command = wirerate();
    command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut capture = command.spawn()?;
    until("it captures", || lab.has_xdp());
    let status = format!("/proc/{}/status", capture.id());
    let peak_kb = || -> u64 {
        let text = std::fs::read_to_string(&status).expect("it runs");
        let row = text.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
        row.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    };
    send(&lab, 1_000_000, "--size 60");
    let early = peak_kb();
    for _ in 0..4 {
        send(&lab, 1_000_000, "--size 60");
    }
    let late = peak_kb();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(capture.id() as i32), Signal::SIGINT)?;
    capture.wait()?;
    // Every CPU may come to use its buffers at last: 4 MiB each, and what is put together for the
    // file.
    let cpus = std::thread::available_parallelism()?.get() as u64;
    assert!(late.saturating_sub(early) < (cpus * 6 + 4) * 1024, "{early} kB, then {late} kB");
    Ok(())
}

fn names_say_format() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (packed, plain) = (lab.file("x.pcap.zst"), lab.file("x.pcap"));
    let running = capture(&lab, &format!("--count 100 -w {}", packed.display()));
    send(&lab, 100, "");
    running.wait(TIME_LIMIT).expect_code(0);
    let [packed, unpacked] = [&packed, &plain].map(|path| path.to_str().expect("a plain path"));
    run(&["zstd", "-dqf", packed, "-o", unpacked]);
    assert_eq!(packet_count(&plain), 100);
    assert!(run(&["capinfos", "-t", unpacked]).contains("nanosecond"), "pcap with nanoseconds");
    Ok(())
}

/// Files of lz4 were read as empty: the first frame has only the header of the file.
fn read_by_every_command() -> TestResult {
    const COUNT: u32 = 20_000;
    let lab = Lab::new(Peer::Gro);
    for (index, compress) in ["", "--compress zstd", "--compress lz4"].into_iter().enumerate() {
        for format in ["pcapng", "pcap"] {
            let name = format!("{index}.{format}");
            let file = lab.file(&name);
            // Whole frames of 30 MB in all, which are several compressed frames.
            let words = format!(
                "--count {COUNT} --snaplen 262144 {compress} --format {format} --json -w {}",
                file.display()
            );
            let running = capture(&lab, &words);
            send(&lab, COUNT, "--size 1514");
            let written = number(&report(&running.wait(TIME_LIMIT).expect_code(0)), "written");
            assert_eq!(written, u64::from(COUNT), "{compress} {format}");
            let read = |words: &str, field: &str| {
                let outcome = wirerate_run(words).expect_code(0);
                let report: serde_json::Value =
                    serde_json::from_str(&outcome.stdout).expect("one line of JSON");
                number(&report, field)
            };
            let path = file.display();
            let folder = lab.file(&format!("set-{name}"));
            let back = lab.file(&format!("back-{name}.pcapng"));
            let found = [
                read(&format!("info --json {path}"), "packets"),
                read(&format!("analyze --json {path}"), "received"),
                read(&format!("replay lo --dry-run --json {path}"), "sent"),
                read(&format!("export --json {path} -o {}", folder.display()), "stored"),
                read(
                    &format!("export --to pcapng --json {} -o {}", folder.display(), back.display()),
                    "packets",
                ),
                read(&format!("info --json {}", back.display()), "packets"),
            ];
            assert_eq!(found, [written; 6], "{compress} {format}");
        }
    }
    Ok(())
}
