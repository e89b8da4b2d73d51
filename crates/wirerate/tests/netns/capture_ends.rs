//! How `wirerate capture` ends when a pipe, a filter, a command or a limit is in its way, and which
//! files it refuses.

use crate::capture_runs::{capture, command, number, send, text};
use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::{Running, TIME_LIMIT, run, until, wirerate};
use crate::readers::{packet_count, tshark};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::Read;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tests of ends and refusals.
pub(crate) const CASES: &[Case] = &[
    case("capture_ends::one_signal_ends_it_though_its_fifo_has_no_reader", &["mkfifo"], fifo_without_reader),
    case("capture_ends::one_signal_ends_it_though_its_reader_stopped_reading", &["mkfifo"], stuck_reader),
    case("capture_ends::a_list_of_2000_ports_is_refused_at_once", &[], long_filter),
    case("capture_ends::two_signals_abandon_its_rotate_commands", &["sleep"], slow_command),
    case("capture_ends::a_file_at_its_size_limit_is_a_full_disk", &["sh", "capinfos"], file_size_limit),
    case("capture_ends::a_second_capture_into_a_file_is_refused", &["capinfos"], second_capture),
    case("capture_ends::a_truncated_file_is_not_said_to_be_written", &[], truncated),
    case("capture_ends::a_reader_that_leaves_an_idle_line_ends_it", &["mkfifo", "bash"], reader_leaves),
    case("capture_ends::a_device_that_moves_to_another_namespace_ends_it", &[], device_moves),
    case(
        "capture_ends::times_are_those_of_the_day_in_a_time_namespace",
        &["unshare", "tshark"],
        time_namespace,
    ),
    case("capture_ends::a_restarted_rotation_keeps_the_files_of_the_run_before", &["capinfos"], restarted),
];

fn fifo_without_reader() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let fifo = lab.file("fifo");
    run(&["mkfifo", text(&fifo)]);
    let running = capture(&lab, &["-w", text(&fifo)]);
    send(&lab, 100);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(1);
    outcome.says(&[text(&fifo), "no program has opened it for reading"]);
    let counts = ["received", "written", "lost_disk"].map(|field| number(&outcome, field));
    assert_eq!(counts, [100, 0, 100]);
    let outcome = capture(&lab, &["-w", text(&fifo), "--duration", "10ms"]).wait(TIME_LIMIT).expect_code(1);
    assert_eq!(number(&outcome, "received"), 0);
    // A reader that comes later gets what came before it.
    let running = capture(&lab, &["-w", text(&fifo), "--count", "3"]);
    send(&lab, 3);
    let file = lab.file("late.pcapng");
    fs::write(&file, fs::read(&fifo)?)?;
    running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!(packet_count(&file), 3);
    Ok(())
}

fn stuck_reader() -> TestResult {
    const COUNT: u32 = 20_000;
    let lab = Lab::new(Peer::Gro);
    let fifo = lab.file("fifo");
    run(&["mkfifo", text(&fifo)]);
    let running = capture(&lab, &["-w", text(&fifo)]);
    let mut reader = File::open(&fifo)?;
    reader.read_exact(&mut [0; 8])?;
    send(&lab, COUNT);
    running.signal(Signal::SIGTERM);
    let outcome = running.wait(TIME_LIMIT).expect_code(1);
    outcome.says(&["its reader has stopped reading"]);
    let [received, written, lost] = ["received", "written", "lost_disk"].map(|field| number(&outcome, field));
    assert_eq!((received, written + lost), (COUNT.into(), COUNT.into()));
    assert!(lost > 0, "a pipe holds fewer");
    Ok(())
}

fn long_filter() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let ports: Vec<String> = (1..=2_000).map(|port| format!("port {port}")).collect();
    let outcome = Running::start(command(&lab, &["--filter", &ports.join(" or ")]));
    let outcome = outcome.wait(TIME_LIMIT).expect_code(2);
    outcome.says(&["port 1 or port 2", "is too long", "try: a range"]);
    Ok(())
}

fn slow_command() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (name, began) = (lab.file("x.pcapng"), lab.file("began"));
    let slow = format!("f() {{ touch {}; sleep 600; }}; f", began.display());
    let running = capture(&lab, &["-w", text(&name), "--rotate-size", "10kB", "--rotate-command", &slow]);
    send(&lab, 1_000);
    until("the command runs", || began.exists());
    running.signal(Signal::SIGINT);
    running.until_it_says("waiting for the rotate commands of");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(1);
    assert_eq!((number(&outcome, "received"), number(&outcome, "written")), (1_000, 1_000));
    assert_eq!(number(&outcome, "commands_failed"), number(&outcome, "files"));
    // Each of them is named.
    outcome.says(&["the rotate command did not finish for", "x_00001.pcapng", "x_00002.pcapng"]);
    Ok(())
}

fn file_size_limit() -> TestResult {
    const COUNT: u64 = 20_000;
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let mut shell = Command::new("sh");
    // In units of 512 bytes.
    shell.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""]);
    let capture = command(&lab, &["-w", text(&file), "--on-error", "go-on"]);
    shell.arg(capture.get_program()).args(capture.get_args());
    let running = Running::start(shell);
    running.until_it_says("capturing on rx0");
    send(&lab, COUNT as u32);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(1);
    outcome.says(&["File too large"]);
    let [received, written, lost] = ["received", "written", "lost_disk"].map(|field| number(&outcome, field));
    assert_eq!((received, written + lost), (COUNT, COUNT));
    assert_eq!(packet_count(&file), written);
    assert!(lost > 0 && written > 0, "{written} written, {lost} lost");
    Ok(())
}

fn second_capture() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let first = capture(&lab, &["-w", text(&file)]);
    let second = Running::start(command(&lab, &["-w", text(&file)])).wait(TIME_LIMIT).expect_code(3);
    second.says(&[text(&file), "another program is writing to it"]);
    send(&lab, 100);
    first.signal(Signal::SIGINT);
    let outcome = first.wait(TIME_LIMIT).expect_code(0);
    assert_eq!((number(&outcome, "written"), packet_count(&file)), (100, 100));
    Ok(())
}

fn truncated() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let running = capture(&lab, &["-w", text(&file)]);
    send(&lab, 100);
    until("they are in the file", || fs::metadata(&file).is_ok_and(|meta| meta.len() > 10_000));
    File::options().write(true).open(&file)?.set_len(0)?;
    send(&lab, 100);
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(3).says(&["another program truncated it"]);
    Ok(())
}

fn reader_leaves() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let fifo = lab.file("fifo");
    run(&["mkfifo", text(&fifo)]);
    let running = capture(&lab, &["-w", text(&fifo)]);
    let mut reader = File::open(&fifo)?;
    // The header comes without a frame.
    reader.read_exact(&mut [0; 8])?;
    drop(reader);
    running.wait(TIME_LIMIT).expect_code(0);
    let mut shell = Command::new("bash");
    shell.args(["-c", "set -o pipefail; \"$0\" \"$@\" | true"]);
    let capture = wirerate();
    shell.arg(capture.get_program()).args(["capture", RX_DEV, "--netns", &lab.rx_netns, "-w", "-"]);
    Running::start(shell).wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

fn device_moves() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for source in ["tpacket", "xdp"] {
        let running = capture(&lab, &["--source", source]);
        run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "netns", &lab.tx_netns]);
        running.wait(TIME_LIMIT).expect_code(1).says(&["rx0 went away"]);
        run(&["ip", "-n", &lab.tx_netns, "link", "set", RX_DEV, "netns", &lab.rx_netns]);
        run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "up"]);
    }
    Ok(())
}

fn time_namespace() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for offset in ["100000", "-100"] {
        let file = lab.file(&format!("{offset}.pcapng"));
        let mut unshared = Command::new("unshare");
        unshared.args(["-T", "--monotonic", offset, "--fork", "--kill-child"]);
        let capture = command(&lab, &["-w", text(&file), "--count", "3", "--source", "xdp"]);
        unshared.arg(capture.get_program()).args(capture.get_args());
        let running = Running::start(unshared);
        running.until_it_says("capturing on rx0 (XDP, native)");
        let before = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        send(&lab, 3);
        running.wait(TIME_LIMIT).expect_code(0);
        let after = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let times = tshark(&file, "frame", &["frame.time_epoch"]);
        assert_eq!(times.len(), 3);
        for time in times {
            let time: f64 = time.parse()?;
            assert!(before - 1.0 < time && time < after + 1.0, "{before} {time} {after}");
        }
    }
    Ok(())
}

fn restarted() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let name = lab.file("x.pcapng");
    let rotating = |more: &[&str]| {
        let words = [&["-w", text(&name), "--rotate-size", "10kB", "--count", "200"], more].concat();
        let running = capture(&lab, &words);
        send(&lab, 200);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert_eq!(number(&outcome, "written"), 200);
    };
    let files = || {
        let folder = fs::read_dir(name.parent().expect("a folder")).expect("it is there");
        let names = folder.map(|entry| entry.expect("readable").path());
        let mut names: Vec<_> = names.filter(|path| text(path).contains("/x_")).collect();
        names.sort();
        names
    };
    let packets = || files().iter().map(|path| packet_count(path)).sum::<u64>();
    rotating(&[]);
    let first = files();
    rotating(&[]);
    let both = files();
    assert_eq!((both.len(), packets()), (2 * first.len(), 400), "{both:?}");
    rotating(&["--files", "3"]);
    assert_eq!(files().len(), 3, "old files count");
    assert!(!files().contains(&both[both.len() - 1]), "the newest stay");
    Ok(())
}
