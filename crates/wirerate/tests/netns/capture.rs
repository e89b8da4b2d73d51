//! `wirerate capture`: what comes in is counted and written, however the capture ends.

use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::packet_count;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// As the kernel numbers it on the machines that this is built for.
const O_NONBLOCK: i32 = 0o4000;

/// Tests of the capture command.
pub(crate) const CASES: &[Case] = &[
    case("capture::ends_by_itself_after_count", &["bash", "capinfos"], ends_by_itself_after_count),
    case("capture::ends_by_itself_after_duration", &["bash"], ends_by_itself_after_duration),
    case("capture::writes_what_waits_on_ctrl_c", &["bash", "capinfos"], writes_what_waits_on_ctrl_c),
    case("capture::two_signals_at_once_end_it_with_its_report", &["bash", "capinfos"], two_signals_at_once),
    case("capture::a_later_second_signal_quits_what_is_stuck", &[], a_later_second_signal),
    case("capture::leaves_no_program_when_killed", &[], leaves_no_program_when_killed),
    case("capture::drop_mode_hides_frames_from_the_host", &["bash"], drop_mode_hides_frames_from_the_host),
    case("capture::streams_to_a_pipe", &["bash", "tshark"], streams_to_a_pipe),
    case("capture::full_disk_ends_it_and_names_the_file", &["bash", "mount", "tshark"], full_disk_ends_it),
    case("capture::says_who_has_the_device", &[], says_who_has_the_device),
    case("capture::says_that_there_is_no_such_device", &[], says_that_there_is_no_such_device),
    case("capture::at_a_program_needs_one_and_refuses_the_rest", &[], at_a_program),
    case("capture::words_about_files_need_a_file", &[], words_about_files_need_a_file),
    case("capture::the_report_has_the_true_size_of_rings", &[], true_size_of_rings),
    case("capture::json_and_frames_do_not_share_a_pipe", &[], json_and_frames_do_not_share_a_pipe),
];

/// A capture at the receiver, that has begun.
fn capture(lab: &Lab, arguments: &str) -> Running {
    let running = wirerate_start(&format!("capture {RX_DEV} --netns {} {arguments}", lab.rx_netns));
    running.until_it_says("capturing on rx0 (XDP, native)");
    running
}

/// Sends so many UDP frames of 46 bytes; they have arrived when it comes back.
fn send(lab: &Lab, count: u32) {
    let before = lab.received();
    let script = format!("for ((i = 100; i < 100 + {count}; i++)); do echo $i > /dev/udp/198.18.0.2/9; done");
    run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", &script]);
    assert_eq!(lab.received_at_last(before + u64::from(count)), before + u64::from(count));
}

/// A number of the report in JSON.
#[track_caller]
fn number(outcome: &Outcome, field: &str) -> u64 {
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one line of JSON");
    assert_eq!(report["schema"], "wirerate.capture/2");
    report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

fn ends_by_itself_after_count() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    for count in [1, 2, 63, 64, 65] {
        let running = capture(&lab, &format!("--count {count} --json -w {}", file.display()));
        send(&lab, 70);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert_eq!((number(&outcome, "written"), number(&outcome, "lost")), (count, 0));
        assert_eq!(number(&outcome, "received"), count + number(&outcome, "after_limit"));
        assert_eq!(packet_count(&file), count);
        assert_eq!(number(&outcome, "file_bytes"), std::fs::metadata(&file)?.len());
    }
    Ok(())
}

fn ends_by_itself_after_duration() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, "--duration 500ms --json");
    send(&lab, 10);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!((number(&outcome, "received"), number(&outcome, "written")), (10, 10));
    assert!(outcome.elapsed >= Duration::from_millis(500) && outcome.elapsed < Duration::from_secs(30));
    Ok(())
}

fn writes_what_waits_on_ctrl_c() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let file = lab.file("x.pcapng");
        let running = capture(&lab, &format!("-w {}", file.display()));
        send(&lab, 500);
        running.signal(signal);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert!(outcome.stdout.contains("received  500"), "{}", outcome.stdout);
        assert_eq!(packet_count(&file), 500);
    }
    Ok(())
}

/// As timeout(1) signals: the program, and then its group. The second one took the report away.
fn two_signals_at_once() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let running = capture(&lab, &format!("-w {}", file.display()));
    send(&lab, 500);
    running.signal(Signal::SIGINT);
    running.signal(Signal::SIGTERM);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert!(outcome.stdout.contains("received  500"), "{}", outcome.stdout);
    assert_eq!(packet_count(&file), 500);
    Ok(())
}

fn a_later_second_signal() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // A pipe that is full, and which is not read: the report does not get out.
    let (_reader, writer) = std::io::pipe()?;
    let mut filler = File::options()
        .write(true)
        .custom_flags(O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", writer.as_raw_fd()))?;
    while filler.write(&[0; 4096]).is_ok() {}
    let mut command = wirerate();
    command.args(["capture", RX_DEV, "--netns", &lab.rx_netns]);
    let mut capture = command.stdout(writer).stderr(Stdio::null()).spawn()?;
    until("it captures", || lab.has_xdp());
    let pid = nix::unistd::Pid::from_raw(capture.id().try_into()?);
    let first = Instant::now();
    until("it has quit", || {
        nix::sys::signal::kill(pid, Signal::SIGINT).expect("it is our child, and we have not waited for it");
        std::thread::sleep(Duration::from_millis(50));
        capture.try_wait().expect("it is our child").is_some()
    });
    assert_eq!(capture.wait()?.code(), Some(130));
    assert!(first.elapsed() >= Duration::from_millis(500), "{:?}", first.elapsed());
    Ok(())
}

fn leaves_no_program_when_killed() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, "");
    assert!(lab.has_xdp());
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait(TIME_LIMIT).code, None);
    until("the device is free", || !lab.has_xdp());
    Ok(())
}

fn drop_mode_hides_frames_from_the_host() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let udp_received = || {
        let text = run(&["ip", "netns", "exec", &lab.rx_netns, "cat", "/proc/net/snmp"]);
        let row = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).expect("the numbers of Ip");
        row.split(' ').nth(3).expect("InReceives").parse::<u64>().expect("a number")
    };
    for (mode, seen) in [("mirror", 20), ("drop", 0)] {
        let before = udp_received();
        let running = capture(&lab, &format!("--mode {mode} --count 20 --json"));
        send(&lab, 20);
        assert_eq!(number(&running.wait(TIME_LIMIT).expect_code(0), "written"), 20);
        assert_eq!(udp_received() - before, seen, "{mode}");
    }
    Ok(())
}

fn streams_to_a_pipe() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut command = wirerate();
    command.args(["capture", RX_DEV, "--netns", &lab.rx_netns, "--write", "-", "--count", "40"]);
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let frames = capture.stdout.take().expect("it is piped");
    let reader = Command::new("tshark")
        .args(["-r", "-", "-T", "fields", "-e", "udp.dstport"])
        .stdin(frames)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    until("it captures", || lab.has_xdp());
    send(&lab, 40);
    let read = String::from_utf8(reader.wait_with_output()?.stdout)?;
    assert_eq!(read, "9\n".repeat(40));
    let ended = capture.wait_with_output()?;
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stderr)?;
    assert!(
        said.contains("written   40  standard output, "),
        "the report is out of the way of the frames: {said}"
    );
    Ok(())
}

fn full_disk_ends_it() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let disk = lab.file("disk");
    std::fs::create_dir(&disk)?;
    let path = disk.to_str().expect("a plain path");
    run(&["mount", "-t", "tmpfs", "-o", "size=16k", "wre", path]);
    let result = std::panic::catch_unwind(|| {
        let file = disk.join("x.pcapng");
        let running = capture(&lab, &format!("--json -w {}", file.display()));
        send(&lab, 400);
        let outcome = running.wait(TIME_LIMIT).expect_code(3);
        let (written, lost_disk) = (number(&outcome, "written"), number(&outcome, "lost_disk"));
        assert!(lost_disk > 0 && written > 50, "{}", outcome.stdout);
        assert_eq!(number(&outcome, "received"), written + number(&outcome, "lost"));
        let said = format!("cannot capture on rx0 in {}: cannot write to {}", lab.rx_netns, file.display());
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        let read = run(&[
            "tshark",
            "-r",
            file.to_str().expect("a plain path"),
            "-T",
            "fields",
            "-e",
            "frame.number",
        ]);
        assert_eq!(read.lines().count() as u64, written);
        std::fs::write(disk.join("rest"), [0; 1 << 16]).expect_err("the disk is full");
        let refused = wirerate_run(&format!("capture {RX_DEV} --netns {} -w {path}/y.pcapng", lab.rx_netns));
        assert!(refused.expect_code(3).stderr.contains("y.pcapng after 0 bytes: No space left on device"));
    });
    run(&["umount", path]);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok(())
}

fn says_who_has_the_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let first = capture(&lab, "");
    let second =
        wirerate_run(&format!("capture {RX_DEV} --source xdp --netns {}", lab.rx_netns)).expect_code(3);
    assert!(
        second.stderr.contains("rx0 already runs the XDP program wr_capture_hw (id "),
        "{}",
        second.stderr
    );
    assert!(
        second.stderr.contains("\n  try: end the other capture on rx0, or --source tpacket, "),
        "{}",
        second.stderr
    );
    first.signal(Signal::SIGINT);
    first.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// What is recorded is tested in virtual machines: this needs a kernel that traces programs.
fn at_a_program() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let at = |more: &str| {
        wirerate_run(&format!("capture {RX_DEV} --netns {} --at both -t 1s {more}", lab.rx_netns))
    };
    at("").expect_code(3).says(&["no XDP program is on rx0", "try: the capture without --at"]);
    for (more, reason) in [
        ("--mode drop", "drop mode, since that program decides"),
        ("--source xdp", "another source cannot be combined with"),
        ("--source tpacket", "another source cannot be combined with"),
        ("-Q inout", "outgoing frames"),
        ("--fanout hash", "a fanout by flow hash"),
    ] {
        at(more).expect_code(2).says(&[reason, "--at"]);
    }
    at("--at elsewhere").expect_code(2);
    Ok(())
}

fn says_that_there_is_no_such_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let outcome = wirerate_run(&format!("capture rx7 --netns {}", lab.rx_netns)).expect_code(3);
    assert!(outcome.stderr.contains("cannot capture on rx7 in "), "{}", outcome.stderr);
    let outcome = wirerate_run("capture rx0 --netns wre-there-is-none").expect_code(3);
    assert!(outcome.stderr.contains("wre-there-is-none"), "{}", outcome.stderr);
    Ok(())
}

fn words_about_files_need_a_file() -> TestResult {
    let limits = ["-a filesize:100", "-a files:3"];
    let words = ["--rotate-every 10s", "--files 3 --rotate-size 1MB", "--compress zstd", "--direct"];
    for words in words.into_iter().chain(limits) {
        let refused = wirerate_run(&format!("capture lo --count 1 {words}")).expect_code(2);
        assert!(refused.stderr.contains("-w frames.pcapng"), "{words}: {}", refused.stderr);
    }
    Ok(())
}

fn true_size_of_rings() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // XDP rounds up to a power of two, packet sockets to what they have at least.
    for (source, asked, bytes, row) in [
        ("xdp", "10MiB", 16 << 20, Some("rings     16 MiB each; --ring was 10 MiB")),
        ("xdp", "1MiB", 1 << 20, None),
        ("tpacket", "1B", 256 << 10, Some("rings     256 KiB each; --ring was 1 byte")),
        ("xdp", "60GiB", 0, Some("each: together they take at most 1/")),
        ("tpacket", "60GiB", 0, Some("each: together they take at most 1/")),
    ] {
        let words = format!(
            "capture {RX_DEV} --netns {} --source {source} --snaplen 96 --ring {asked} --duration 1ms",
            lab.rx_netns
        );
        let ended = wirerate_run(&format!("{words} --json")).expect_code(0);
        let held = number(&ended, "ring_bytes");
        // The bound depends on the memory of this machine.
        assert!(held == bytes || (bytes == 0 && held < 60 << 30), "{held}");
        let text = wirerate_run(&words).expect_code(0).stdout;
        assert_eq!(text.contains("  rings "), row.is_some(), "{text}");
        assert!(row.is_none_or(|row| text.contains(row)), "{text}");
    }
    Ok(())
}

fn json_and_frames_do_not_share_a_pipe() -> TestResult {
    let outcome = wirerate_run("capture lo --json -w -").expect_code(2);
    assert!(outcome.stderr.contains("both want standard output"), "{}", outcome.stderr);
    Ok(())
}
