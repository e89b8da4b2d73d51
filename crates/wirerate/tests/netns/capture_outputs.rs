//! `wirerate capture` with lines for people (`--print`), and with several outputs.

use crate::capture_runs::{adds_up, capture, command, number, send, send_with, text};
use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, until, wirerate_run, wirerate_start};
use crate::readers::{packet_count, tshark};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;

/// Tests of lines and outputs.
pub(crate) const CASES: &[Case] = &[
    case("capture_outputs::a_line_per_frame_while_it_writes", &["tshark"], lines),
    case("capture_outputs::lines_beyond_the_rate_are_counted_and_told", &["capinfos"], too_many_lines),
    case("capture_outputs::lines_need_no_file_and_end_with_their_reader", &[], lines_alone),
    case("capture_outputs::each_output_has_its_filter_and_snaplen", &["tshark", "capinfos"], split),
    case("capture_outputs::one_filter_or_none_is_for_all_outputs", &["capinfos"], alike),
    case("capture_outputs::a_count_is_of_frames_that_an_output_wants", &["capinfos"], count),
    case("capture_outputs::rotation_and_compression_are_for_all_outputs", &["capinfos"], rotation),
    case("capture_outputs::a_short_frame_does_not_hide_from_another_filter", &["capinfos"], short_frames),
    case("capture_outputs::outputs_that_cannot_be_are_refused", &[], refused),
];

/// The report in JSON.
fn report(outcome: &Outcome) -> Value {
    let last = outcome.stdout.lines().last().expect("there is a report");
    serde_json::from_str(last).expect("one line of JSON")
}

/// A number of an output in the report.
#[track_caller]
fn of_output(outcome: &Outcome, output: usize, field: &str) -> u64 {
    let report = report(outcome);
    report["outputs"][output][field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// Ends a capture without losses.
#[track_caller]
fn end(running: Running) -> Outcome {
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    adds_up(&outcome);
    outcome
}

fn lines() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let running = capture(&lab, &["-w", text(&file), "--print"]);
    send_with(&lab, 20, "--udp-src 5000-5019 --size 100");
    running.until_it_says(":5019 > ");
    let outcome = end(running);
    assert_eq!((number(&outcome, "printed"), number(&outcome, "not_printed")), (20, 0));
    let read = tshark(&file, "udp", &["ip.src", "udp.srcport", "ip.dst", "udp.dstport", "frame.len"]);
    assert_eq!(read.len(), 20);
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(" rx0 in  UDP ")).collect();
    assert_eq!(lines.len(), 20);
    for (line, read) in lines.iter().zip(read) {
        let words: Vec<&str> = read.split(' ').collect();
        let [src, src_port, dst, dst_port, len] = words[..] else { panic!("{read}") };
        let expected = format!(" rx0 in  UDP {src}:{src_port} > {dst}:{dst_port} length {len}");
        assert!(line.ends_with(&expected), "{line}, not {expected}");
    }
    Ok(())
}

fn too_many_lines() -> TestResult {
    const COUNT: u32 = 5_000;
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("x.pcapng");
    let running = capture(&lab, &["-w", text(&file), "--print", "--print-rate", "3"]);
    send(&lab, COUNT);
    let outcome = end(running);
    let [printed, not_printed] = ["printed", "not_printed"].map(|field| number(&outcome, field));
    // The default rate would print 1,000 at once.
    assert!((3..1_000).contains(&printed), "{printed} {not_printed}");
    assert_eq!((printed + not_printed, packet_count(&file)), (COUNT.into(), COUNT.into()));
    outcome.says(&["not printed: --print-rate)"]);
    Ok(())
}

fn lines_alone() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = wirerate_start(&format!("capture {RX_DEV} --netns {} --print", lab.rx_netns));
    running.until_it_says("capturing on rx0");
    send(&lab, 7);
    running.until_it_prints("length 60");
    let rotate = format!("ctl {RX_DEV} --netns {} rotate", lab.rx_netns);
    wirerate_run(&rotate).expect_code(3).says(&["it writes no file"]);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!(outcome.stdout.matches(" rx0 in  UDP 198.18.0.1:").count(), 7, "{}", outcome.stdout);
    assert!(outcome.stdout.contains(": 7 frames received in"), "{}", outcome.stdout);
    // As `| head -1` does.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "\"$0\" \"$@\" | { read line; echo \"$line\"; }"]);
    let words = command(&lab, &["--print"]);
    let words: Vec<_> = words.get_args().filter(|word| *word != "--json").collect();
    shell.arg(crate::program::wirerate().get_program()).args(words);
    let mut running = Running::start(shell);
    running.until_it_says("capturing on rx0");
    until("the capture has ended", || {
        send(&lab, 1);
        running.has_ended()
    });
    Ok(())
}

fn split() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for source in ["xdp", "tpacket"] {
        let [low, high, all] = ["low.pcapng", "high.pcap", "all.pcapng.zst"].map(|name| lab.file(name));
        let filters = ["-f", "udp dst port 1000", "-f", "udp dst portrange 1000-2000", "-f", ""];
        let mut words = vec!["--source", source, "-w", text(&low), "-w", text(&high), "-w", text(&all)];
        words.extend(filters);
        words.extend(["-s", "0", "-s", "headers", "-s", "64"]);
        let running = capture(&lab, &words);
        send_with(&lab, 30, "--udp-dst 1000 --size 200");
        send_with(&lab, 50, "--udp-dst 2000 --size 200");
        send_with(&lab, 70, "--udp-dst 3000 --size 200");
        let outcome = end(running);
        assert_eq!(number(&outcome, "written"), 150);
        assert_eq!([0, 1, 2].map(|output| of_output(&outcome, output, "written")), [30, 80, 150]);
        assert_eq!([0, 1, 2].map(|output| of_output(&outcome, output, "not_matched")), [120, 70, 0]);
        assert_eq!([&low, &high, &all].map(|file| packet_count(file)), [30, 80, 150]);
        // The total has frames that no output has whole.
        assert_eq!([0, 1, 2].map(|output| of_output(&outcome, output, "cut")), [0, 80, 150]);
        assert_eq!(number(&outcome, "cut"), 120);
        for (file, filter, cap_len) in [(&low, "1000", "200"), (&high, "1000", "42"), (&all, "3000", "64")] {
            let lens = tshark(file, &format!("udp.dstport == {filter}"), &["frame.cap_len", "frame.len"]);
            assert!(!lens.is_empty(), "{file:?}");
            let expected = format!("{cap_len} 200");
            assert!(lens.iter().all(|lens| *lens == expected), "{file:?} {lens:?}");
        }
        // Frames that no output wants are filtered, and not printed.
        let [a, b] = ["a.pcapng", "b.pcapng"].map(|name| lab.file(name));
        let words = ["--source", source, "-w", text(&a), "-f", "udp dst port 1", "-w", text(&b), "-f", "tcp"];
        let running = capture(&lab, &[&words[..], &["--print"]].concat());
        send_with(&lab, 9, "--udp-dst 1-3");
        let outcome = end(running);
        let fields = ["filtered", "written", "printed", "not_printed"];
        assert_eq!(fields.map(|field| number(&outcome, field)), [6, 3, 3, 0]);
        assert_eq!([&a, &b].map(|file| packet_count(file)), [3, 0]);
    }
    Ok(())
}

fn alike() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [a, b] = ["a.pcapng", "b.pcap.lz4"].map(|name| lab.file(name));
    // The ports are behind the bytes that are kept.
    let words = ["-w", text(&a), "-w", text(&b), "-s", "30", "udp", "dst", "port", "7"];
    let running = capture(&lab, &words);
    send_with(&lab, 40, "--udp-dst 6-9");
    let outcome = end(running);
    assert_eq!(["filtered", "written", "cut"].map(|field| number(&outcome, field)), [30, 10, 10]);
    assert_eq!([&a, &b].map(|file| packet_count(file)), [10, 10]);
    Ok(())
}

fn count() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [a, b] = ["a.pcapng", "b.pcapng.zst"].map(|name| lab.file(name));
    let filters = ["-f", "udp dst port 1", "-f", "udp dst port 2"];
    let words = [&["-w", text(&a), "-w", text(&b), "-c", "10", "--print"][..], &filters].concat();
    let running = capture(&lab, &words);
    // Of ten frames two are wanted.
    send_with(&lab, 40, "--udp-dst 1-10");
    let still = wirerate_run(&format!("ctl {RX_DEV} --netns {} stats", lab.rx_netns)).expect_code(0);
    assert!(!still.stdout.is_empty(), "eight of ten are not enough");
    send_with(&lab, 60, "--udp-dst 1-10");
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    adds_up(&outcome);
    assert_eq!(number(&outcome, "written"), 10);
    assert_eq!([&a, &b].map(|file| packet_count(file)), [5, 5]);
    let lines = ["printed", "not_printed"].map(|field| number(&outcome, field));
    assert_eq!(lines, [10, 0], "only frames of a file have a line");
    Ok(())
}

/// The files of a rotation.
fn packets_of(lab: &Lab, prefix: &str) -> u64 {
    let folder = std::fs::read_dir(lab.file("").as_path()).expect("the folder is there");
    let names = folder.map(|entry| entry.expect("readable").path());
    let is_ours = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let files: Vec<_> = names.filter(is_ours).collect();
    assert!(files.len() > 3, "{files:?}");
    files.iter().map(|file: &std::path::PathBuf| packet_count(Path::new(file))).sum()
}

fn rotation() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [a, b] = ["a.pcapng", "b.pcap"].map(|name| lab.file(name));
    let words = ["-w", text(&a), "-w", text(&b), "-f", "udp dst portrange 1-4", "--rotate-size", "10kB"];
    let running = capture(&lab, &words);
    send_with(&lab, 1_000, "--udp-dst 1-5");
    let rotated = wirerate_run(&format!("ctl {RX_DEV} --netns {} rotate", lab.rx_netns)).expect_code(0);
    assert!(rotated.stdout.contains("/a_") && rotated.stdout.contains("/b_"), "{}", rotated.stdout);
    send_with(&lab, 1_000, "--udp-dst 1-5");
    let outcome = end(running);
    assert_eq!(number(&outcome, "written"), 2_000);
    assert_eq!((packets_of(&lab, "a_"), packets_of(&lab, "b_")), (1_600, 2_000));
    Ok(())
}

fn short_frames() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [a, b] = ["a.pcapng", "b.pcapng"].map(|name| lab.file(name));
    // The first filter looks behind the end of short frames.
    let words = ["-w", text(&a), "-f", "ether[300] = 1", "-w", text(&b), "-f", "udp"];
    let running = capture(&lab, &words);
    send(&lab, 20);
    let outcome = end(running);
    assert_eq!([&a, &b].map(|file| packet_count(file)), [0, 20]);
    assert_eq!(number(&outcome, "filtered"), 0);
    Ok(())
}

fn refused() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (words, why) in [
        (&["-w", "a", "-w", "a"][..], "it is named twice"),
        (&["-w", "a", "-w", "./a"], "it is named twice"),
        (&["--packet-ids"], "options about files need the name of one"),
        (&["--per-queue"], "options about files need the name of one"),
        (&["--format", "parquet"], "options about files need the name of one"),
        (&["-w", "a", "-f", "udp", "-f", "tcp"], "2 filters for 1 --write"),
        (&["-w", "a", "-w", "b", "--per-cpu"], "several outputs"),
        (&["-w", "a", "-w", "b", "--format", "parquet"], "several outputs"),
        (&["-w", "a_%s", "-w", "b", "--keep", "30s"], "several outputs"),
        (&["-w", "a", "-f", "inbound", "-w", "b", "-f", "udp"], "-Q inout"),
        (&["-w", "a", "-f", "udp prot 9", "-w", "b", "-f", "udp"], "udp prot 9"),
        (&["--print-rate", "5"], "--print"),
    ] {
        Running::start(command(&lab, words)).wait(TIME_LIMIT).expect_code(2).says(&[why]);
    }
    Ok(())
}
