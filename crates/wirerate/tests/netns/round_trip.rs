//! `send` at one end, `capture` at the other: what is in the file is what was sent, and what is not
//! in it is in the report.

use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::{frames, packet_count, tshark};
use crate::send::{number, sending};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Tests of both commands together.
pub(crate) const CASES: &[Case] = &[
    case("round_trip::tshark_reads_every_frame_that_was_sent", &["tshark", "capinfos"], tshark_reads_all),
    case("round_trip::captured_bytes_are_those_of_the_plan", &["editcap"], same_bytes_as_plan),
    case("round_trip::a_snaplen_cuts_and_keeps_the_original_length", &["editcap"], snaplen_cuts),
    case(
        "round_trip::frames_are_whole_unless_a_snaplen_cuts_them_and_the_report_says_so",
        &["editcap"],
        whole_frames,
    ),
    case("round_trip::ten_million_and_one_frames_are_all_accounted_for", &[], ten_million_and_one),
    case("round_trip::a_full_disk_is_named_and_nothing_is_lost_in_silence", &["unshare", "mount"], full_disk),
    case("round_trip::ctrl_c_at_any_moment_leaves_a_whole_file_and_a_true_report", &["capinfos"], ctrl_c),
];

/// Starts a capture on the receiver with `words` added, and waits until it sees frames.
#[track_caller]
fn start(lab: &Lab, words: &str) -> Running {
    let capture = wirerate_start(&format!("capture {RX_DEV} --netns {} --json {words}", lab.rx_netns));
    until_attached(lab);
    capture
}

#[track_caller]
fn until_attached(lab: &Lab) {
    until("an XDP program is on the device", || lab.has_xdp());
}

/// Ends a capture politely; its report.
#[track_caller]
fn stop(capture: Running) -> Value {
    capture.signal(Signal::SIGINT);
    report(&capture.wait(TIME_LIMIT).expect_code(0))
}

/// The report that a capture printed. Checks what is true of each: every frame received is
/// somewhere.
#[track_caller]
fn report(outcome: &Outcome) -> Value {
    let report: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|error| panic!("{error}\nstdout:\n{}\nstderr:\n{}", outcome.stdout, outcome.stderr));
    let [received, written, after_limit, lost, lost_ring, lost_disk] =
        ["received", "written", "after_limit", "lost", "lost_ring", "lost_disk"]
            .map(|name| number(&report, name));
    assert_eq!(received, written + after_limit + lost, "{report}");
    assert_eq!(lost, lost_ring + lost_disk, "{report}");
    report
}

/// Sends, and waits until all of it has arrived.
#[track_caller]
fn send(lab: &Lab, words: &str) {
    let before = lab.received();
    let report = crate::send::report(&wirerate_run(&sending(lab, words)).expect_paced());
    let expected = before + number(&report, "sent");
    assert_eq!(lab.received_at_last(expected), expected);
}

fn tshark_reads_all() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let path = lab.file("seen.pcapng");
    let capture = start(&lab, &format!("-w {}", path.display()));
    send(&lab, "--count 5000 --csum --udp-src 1000-1999");
    let report = stop(capture);
    assert_eq!((number(&report, "received"), number(&report, "written")), (5000, 5000));
    assert_eq!(packet_count(&path), 5000);
    assert_eq!(tshark(&path, "_ws.malformed or ip.checksum.status == Bad", &["frame.number"]), [""; 0]);
    let good = tshark(&path, "udp.checksum.status == Good", &["pktgen.seqnum"]);
    assert_eq!(good, (1..=5000).map(|seq_num| seq_num.to_string()).collect::<Vec<_>>());
    Ok(())
}

/// Captures `words` being sent, and gives each frame with what the dry run says of it.
#[track_caller]
fn captured_and_planned(lab: &Lab, snaplen: u32, words: &str) -> Vec<(crate::readers::Frame, Vec<u8>)> {
    let [seen, plan] = [lab.file("seen.pcapng"), lab.file("plan.pcapng")];
    let capture = start(lab, &format!("-w {} --snaplen {snaplen}", seen.display()));
    send(lab, &format!("{words} --count 1000"));
    stop(capture);
    let dry = format!("{words} --count 1000 --dry-run=1000 --write {}", plan.display());
    wirerate_run(&sending(lab, &dry)).expect_code(0);
    let (seen, plan) = (frames(&seen), frames(&plan));
    assert_eq!((seen.len(), plan.len()), (1000, 1000), "{words}");
    seen.into_iter().zip(plan.into_iter().map(|frame| frame.bytes)).collect()
}

fn same_bytes_as_plan() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    for words in [
        "--size 60-1514 --random size,udp-src --udp-src 1000-40000 --csum",
        "--src 10.0.0.1-10.0.0.7 --udp-dst 20-29 --src-mac 02:00:00:00:01:00-02:00:00:00:01:05",
        // These wait inside the kernel, some frames of a call after others.
        "--dst 198.18.0.0/16 --random dst --vlan 100 --svlan 200 --csum --pps 100k",
        "--dst fd00::/112 --src fd00::1 --size 78-200 --csum --delay 9us",
    ] {
        let words = format!("{words} --no-timestamp --seed 3");
        let mut last_ns = 0;
        for (number, (seen, planned)) in captured_and_planned(&lab, 2048, &words).iter().enumerate() {
            assert_eq!(&seen.bytes, planned, "frame {} of {words}", number + 1);
            assert!(seen.time_ns >= last_ns, "frame {} is earlier than the one before", number + 1);
            last_ns = seen.time_ns;
        }
    }
    Ok(())
}

/// Each frame was cut to 96 bytes, and the report did not say it.
fn whole_frames() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let file = lab.file("seen.pcapng");
    for (more, snaplen, kept, cut) in [("", 0, 1514, 0), ("-s 96", 96, 96, 20), ("-s full", 0, 1514, 0)] {
        let capture = start(&lab, &format!("-w {} {more}", file.display()));
        send(&lab, "--count 20 --size 1514");
        let report = stop(capture);
        assert_eq!((number(&report, "snaplen"), number(&report, "cut")), (snaplen, cut), "{report}");
        assert!(frames(&file).iter().all(|frame| frame.bytes.len() == kept), "{more}");
    }
    let words = format!("capture {RX_DEV} --netns {} -s 96 -c 20 -w {}", lab.rx_netns, file.display());
    let capture = wirerate_start(&words);
    until_attached(&lab);
    send(&lab, "--count 20 --size 1514");
    let text = capture.wait(TIME_LIMIT).expect_code(0);
    text.says(&["keeping the first 96 bytes of each frame"]);
    assert!(
        text.stdout.contains("20 of 20 frames cut to 96 bytes (--snaplen 0 keeps all)"),
        "{}",
        text.stdout
    );
    Ok(())
}

fn snaplen_cuts() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let words = "--size 60-1514 --random size --no-timestamp --seed 4";
    for (seen, planned) in captured_and_planned(&lab, 96, words) {
        assert_eq!(seen.frame_len as usize, planned.len());
        assert_eq!(seen.bytes, planned[..planned.len().min(96)]);
    }
    Ok(())
}

fn ten_million_and_one() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let capture = start(&lab, "--mode drop -w /dev/null");
    send(&lab, "--count 10000001");
    capture.signal(Signal::SIGINT);
    let outcome = capture.wait(TIME_LIMIT);
    let report = report(&outcome);
    assert_eq!(number(&report, "received"), 10_000_001);
    // Whether the reader keeps up is a matter of the machine; that the exit code tells is not.
    assert_eq!(outcome.code, Some(i32::from(number(&report, "lost") > 0)), "{report}");
    Ok(())
}

/// A capture whose file is on a file system of one page, in a mount namespace of its own.
fn on_a_full_disk(lab: &Lab) -> Command {
    let disk = lab.file("disk");
    std::fs::create_dir_all(&disk).expect("the lab's folder can be written");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=4k none \"$0\" && exec \"$@\""]);
    command.arg(&disk).arg(wirerate().get_program());
    command.args(["capture", RX_DEV, "--netns", &lab.rx_netns, "--json", "-w"]).arg(disk.join("full.pcapng"));
    command
}

fn full_disk() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let capture = Running::start(on_a_full_disk(&lab));
    until_attached(&lab);
    let sender = wirerate_start(&sending(&lab, "--count 100000"));
    let outcome = capture.until_it_ends(Duration::from_secs(60)).wait(TIME_LIMIT);
    sender.wait(TIME_LIMIT);
    assert!(matches!(outcome.code, Some(1 | 3)), "{outcome:?}");
    outcome.says(&["full.pcapng", "No space left"]);
    let report = report(&outcome);
    assert!(number(&report, "lost_disk") > 0, "{report}");
    Ok(())
}

fn ctrl_c() -> TestResult {
    for (signal, after_ms) in
        [(Signal::SIGINT, 0), (Signal::SIGTERM, 7), (Signal::SIGINT, 90), (Signal::SIGTERM, 311)]
    {
        let lab = Lab::new(Peer::Gro);
        let path = lab.file("seen.pcapng");
        let capture = start(&lab, &format!("-w {}", path.display()));
        let sender = wirerate_start(&sending(&lab, "--count 0 --csum"));
        until("the first frame arrives", || lab.received() > 0);
        std::thread::sleep(Duration::from_millis(after_ms));
        capture.signal(signal);
        let outcome = capture.wait(TIME_LIMIT);
        sender.signal(Signal::SIGINT);
        sender.wait(TIME_LIMIT).expect_code(0);
        let report = report(&outcome);
        let moment = format!("{signal} after {after_ms} ms: {report}");
        assert_eq!(outcome.code, Some(i32::from(number(&report, "lost") > 0)), "{moment}");
        assert!(number(&report, "received") > 0, "{moment}");
        assert_eq!(packet_count(&path), number(&report, "written"), "{moment}");
        assert!(!lab.has_xdp(), "{moment}");
    }
    Ok(())
}
