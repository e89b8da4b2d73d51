//! `wirerate analyze` on files that are made here: figures of each level of the signature and of
//! marks, forms of files, cut frames, errors.

use host::ClockOffset;
use measure::{AnnouncedEnd, FULL_LEN, FullFields, HEADER_LEN, Mark, SHORT_LEN, Signature};
use pcapng::{Interface, Packet, Section, Writer, pcap};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::Folder;

const FLOWS: u32 = 4;
const NUMBERS: u32 = 4000;
const SENT_NS: u64 = 1_800_000_000_000_000_000;
const GAP_NS: u64 = 10_000;
const LATENCY_NS: u64 = 5_000_000;

/// Where a frame has its number.
#[derive(Clone, Copy, Debug)]
enum Level {
    Pktgen,
    Short,
    Full,
    Mark,
}

/// A captured frame.
#[derive(Clone, Debug)]
struct Captured {
    time_ns: u64,
    bytes: Vec<u8>,
}

/// Number `number` of the run, as captured `late_ns` later than usual. `offset_ns` is that of the
/// clock in marks.
fn frame(level: Level, number: u32, late_ns: u64, offset_ns: i64) -> Captured {
    let sent_ns = SENT_NS + u64::from(number) * GAP_NS;
    let time_ns = sent_ns + LATENCY_NS + late_ns;
    let (flow, of_flow) = (number % FLOWS, number / FLOWS);
    let mut bytes = vec![0x5a; 42];
    let signature = Signature {
        seq_num: number,
        sec: (sent_ns / 1_000_000_000) as u32,
        usec: (sent_ns / 1000 % 1_000_000) as u32,
        full: Some(FullFields { flow, number: of_flow.into(), run: 7 }),
        ..Signature::default()
    };
    let mut front = |len| {
        let mut payload = vec![0; len];
        signature.emit(&mut payload);
        bytes.extend(payload);
    };
    match level {
        Level::Pktgen => front(HEADER_LEN),
        Level::Short => front(SHORT_LEN),
        Level::Full => front(FULL_LEN),
        Level::Mark => {
            let time_ns = sent_ns.wrapping_sub(offset_ns.cast_unsigned()) & ((1 << 48) - 1);
            bytes.extend(Mark { flow: flow as u16, run: 7, seq_num: of_flow, time_ns }.emit());
        }
    }
    Captured { time_ns, bytes }
}

/// Every 100th frame lost, every 40th captured twice, and every 200th later than the eight after
/// it, two of which are of its own flow.
fn faulty_run(level: Level, offset_ns: i64) -> Vec<Captured> {
    let mut frames = Vec::new();
    for number in (0..NUMBERS).filter(|number| number % 100 != 99) {
        let late_ns = if number % 200 == 10 { 8 * GAP_NS + 1000 } else { 0 };
        let captured = frame(level, number, late_ns, offset_ns);
        frames.extend((number % 40 == 5).then(|| captured.clone()));
        frames.push(captured);
    }
    frames.sort_by_key(|captured| captured.time_ns);
    frames
}

fn pcap_file(frames: &[Captured]) -> Vec<u8> {
    let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default()).unwrap();
    for Captured { time_ns, bytes } in frames {
        let frame_len = bytes.len() as u32;
        writer.record(&pcap::Record { time_ns: *time_ns, frame_len, data: bytes }).unwrap();
    }
    writer.finish().unwrap()
}

/// With the first `snaplen` bytes of each frame. All are of the second of two interfaces.
fn pcapng_file(frames: &[Captured], snaplen: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    for name in ["lo", "eth1"] {
        writer.add_interface(&Interface { name: Some(name.into()), ..Interface::default() }).unwrap();
    }
    for Captured { time_ns, bytes } in frames {
        let (frame_len, data) = (bytes.len() as u32, &bytes[..bytes.len().min(snaplen)]);
        let packet = Packet { interface: 1, time_ns: *time_ns, frame_len, data, ..Packet::default() };
        writer.packet(&packet).unwrap();
    }
    writer.finish().unwrap()
}

fn analyze(folder: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .arg("analyze")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    // A command that ends before it has read everything closes the pipe.
    let _ = child.stdin.take().expect("it is a pipe").write_all(stdin);
    child.wait_with_output().expect("it ends")
}

#[track_caller]
fn report(output: &Output, code: i32) -> Value {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|why| panic!("{why}: {stdout}{stderr}"));
    assert_eq!(report["schema"], "wirerate.measure/1");
    testkit::check_json(&report);
    assert_eq!(report["broken"].as_array().map(Vec::len), Some(0), "{report}");
    report
}

#[track_caller]
fn counts<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| {
        report.pointer(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("{name}: {report}"))
    })
}

/// Loss, copies, order and latency of a known run, whatever the frames carry and the file is.
#[test]
fn each_level_and_each_form_of_file_gives_the_figures_that_were_made() {
    let folder = Folder::new("analyze");
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
    let here = ClockOffset::measure().offset_ns;
    let run = |level| faulty_run(level, here);
    let flows = ["--flows", "4"];
    for (name, bytes, options) in [
        ("pktgen.pcap", pcap_file(&run(Level::Pktgen)), &flows[..]),
        ("short.pcapng", pcapng_file(&run(Level::Short), 60), &flows[..]),
        ("full.pcapng.gz", gzip(&pcapng_file(&run(Level::Full), 96)), &["--run", "7"][..]),
        ("mark.pcap.zst", zstd(&pcap_file(&run(Level::Mark))), &["--sent-here", "--run", "7"][..]),
        ("-", pcap_file(&run(Level::Full)), &["--interface", "0"][..]),
    ] {
        if name != "-" {
            std::fs::write(folder.join(name), &bytes).unwrap();
        }
        let more = ["--json", "--sent", "4000", "--expect", "lost=40", "--flows-out", "flows.csv"];
        let args = [&[name][..], options, &more].concat();
        let report = report(&analyze(&folder, &args, &bytes), 0);
        let kinds =
            ["/unique", "/duplicate", "/reordered", "/held_max", "/too_old", "/flows", "/loss/lost_max"];
        assert_eq!(counts(&report, kinds), [3960, 100, 20, 2, 0, 4, 40], "{name}: {report}");
        let order = ["/order/unique", "/order/duplicate", "/order/reordered", "/order/extent_max", "/cut"];
        assert_eq!(counts(&report, order), [3960, 100, 20, 2, 0], "{name}");
        let n_reordered = report.pointer("/order/n_reordered").unwrap().as_array().unwrap();
        let n_reordered: Vec<_> = n_reordered.iter().map(|row| counts(row, ["/value", "/frames"])).collect();
        assert_eq!(n_reordered, [[1, 20], [2, 20]], "{name}");
        // The time in a mark depends on two measurements of the offset.
        let [min_ns, max_ns] = counts(&report, ["/latency/min_ns", "/latency/max_ns"]);
        assert!(min_ns.abs_diff(LATENCY_NS) < 50_000, "{name}: {report}");
        assert!(max_ns.abs_diff(LATENCY_NS + 8 * GAP_NS + 1000) < 50_000, "{name}: {report}");
        let text = std::fs::read_to_string(folder.join("flows.csv")).unwrap();
        let unique: Vec<_> = text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap()).collect();
        assert_eq!(unique, ["1000", "1000", "1000", "960"], "{name}");
    }
}

/// The file tells copies at any distance; a receiver has a window of 64 numbers.
#[test]
fn frames_below_the_window_are_told_apart() {
    let folder = Folder::new("analyze-old");
    let mut frames: Vec<Captured> = (1..200).map(|number| frame(Level::Full, number * FLOWS, 0, 0)).collect();
    frames.push(frame(Level::Full, 0, 0, 0));
    frames.push(frame(Level::Full, 4, 0, 0));
    let end = AnnouncedEnd { run: Some(7), sent: 201 };
    frames.push(Captured { time_ns: SENT_NS, bytes: [&[0; 42][..], &end.emit()].concat() });
    std::fs::write(folder.join("old.pcap"), pcap_file(&frames)).unwrap();
    let report = report(&analyze(&folder, &["old.pcap", "--json"], &[]), 1);
    let kinds = ["/unique", "/duplicate", "/reordered", "/missing", "/too_old"];
    assert_eq!(counts(&report, kinds), [200, 1, 1, 0, 0]);
    let exact =
        ["/order/unique", "/order/duplicate", "/order/extent_max", "/loss/lost_min", "/loss/lost_max"];
    assert_eq!(counts(&report, exact), [200, 1, 199, 1, 1]);
}

#[test]
fn cut_frames_are_counted_and_marks_need_the_clock_of_the_sender() {
    let folder = Folder::new("analyze-cut");
    let full = faulty_run(Level::Full, 0);
    std::fs::write(folder.join("cut.pcapng"), pcapng_file(&full, 60)).unwrap();
    let cut = report(&analyze(&folder, &["cut.pcapng", "--json"], &[]), 0);
    assert_eq!(counts(&cut, ["/received", "/cut", "/foreign"]), [0, 4060, 0]);
    let text = analyze(&folder, &["cut.pcapng"], &[]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("4,060  not measured: the file does not have all bytes"), "{text}");
    std::fs::write(folder.join("mark.pcap"), pcap_file(&faulty_run(Level::Mark, 0))).unwrap();
    let output = analyze(&folder, &["mark.pcap", "--json"], &[]);
    assert_eq!(report(&output, 0)["latency"], Value::Null);
    let note = String::from_utf8_lossy(&output.stderr);
    assert!(note.contains("--sent-here measures the latency if this host sent them"), "{note}");
}

/// The frame that came last of all was in no latency and in no count of late frames.
#[test]
fn the_most_delayed_frame_is_judged() {
    let folder = Folder::new("analyze-late");
    let mut frames: Vec<Captured> =
        (0..1000).filter(|number| *number != 700).map(|number| frame(Level::Full, number, 0, 0)).collect();
    frames.push(frame(Level::Full, 700, 200_000_000, 0));
    std::fs::write(folder.join("late.pcap"), pcap_file(&frames)).unwrap();
    let options = ["late.pcap", "--json", "--sent", "1000", "--deadline", "100ms"];
    let late = report(&analyze(&folder, &options, &[]), 0);
    assert_eq!(counts(&late, ["/late", "/reordered", "/unique", "/loss/lost_max"]), [1, 1, 1000, 0]);
    // Of its flow, those with the numbers 701 to 999.
    assert_eq!(counts(&late, ["/latency/max_ns", "/held_max"]), [205_000_000, 74]);
    let checks = [&options[..], &["--expect", "late=0", "--expect", "max<100ms"]].concat();
    assert_eq!(report(&analyze(&folder, &checks, &[]), 1)["failed_checks"].as_array().map(Vec::len), Some(2));
}

/// A check of what was not measured passed: cut frames were lost by the network, and none was late.
#[test]
fn what_was_not_measured_is_not_judged() {
    let folder = Folder::new("analyze-unknown");
    let frames: Vec<Captured> = (0..100).map(|number| frame(Level::Full, number, 0, 0)).collect();
    std::fs::write(folder.join("cut.pcapng"), pcapng_file(&frames, 60)).unwrap();
    let cut = report(&analyze(&folder, &["cut.pcapng", "--json", "--sent", "100"], &[]), 1);
    assert_eq!(counts(&cut, ["/cut", "/loss/lost_min", "/loss/lost_max"]), [100, 0, 100]);
    std::fs::write(folder.join("mark.pcap"), pcap_file(&faulty_run(Level::Mark, 0))).unwrap();
    let late = ["mark.pcap", "--json", "--sent", "4000", "--deadline", "1us"];
    let options = [&late[..], &["--expect", "late=0", "--late-is-lost"]].concat();
    let failed = report(&analyze(&folder, &options, &[]), 1);
    let failed: Vec<&str> =
        failed["failed_checks"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(
        failed,
        ["check late=0 failed: it was not measured", "--late-is-lost failed: no frame has a latency"]
    );
}

#[test]
fn a_file_that_cannot_be_read_takes_nothing_from_the_others() {
    let folder = Folder::new("analyze-several");
    let frames: Vec<Captured> = (0..100).map(|number| frame(Level::Full, number, 0, 0)).collect();
    std::fs::write(folder.join("run.pcapng"), pcapng_file(&frames, 96)).unwrap();
    std::fs::write(folder.join("empty.pcap"), []).unwrap();
    let orders = [["run.pcapng", "empty.pcap"], ["empty.pcap", "run.pcapng"]];
    for files in [&orders[0][..], &orders[1], &[orders[1][0], orders[1][1], "--merge"]] {
        let report = report(&analyze(&folder, &[files, &["--json"]].concat(), &[]), 1);
        assert_eq!(counts(&report, ["/unique", "/damages/total"]), [100, 1], "{report}");
        assert_eq!(report["damages"]["places"][0], "empty.pcap: it is empty");
    }
    let refused = analyze(&folder, &["empty.pcap", "empty.pcap"], &[]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "none can be read");
    for name in ["eth2", "7"] {
        let refused = analyze(&folder, &["run.pcapng", "--interface", name], &[]);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{why}");
        assert!(why.contains("there are packets of eth1") && why.contains("try: --interface eth1"), "{why}");
    }
    // Before the run, not at its end.
    let refused = analyze(&folder, &["run.pcapng", "--flows-out", "none/flows.csv"], &[]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0));
}

/// The rate was that of all bytes over the whole file.
#[test]
fn the_rate_is_that_of_the_measured_frames() {
    let folder = Folder::new("analyze-rate");
    let mut frames: Vec<Captured> = (0..101).map(|number| frame(Level::Full, number, 0, 0)).collect();
    for at_ns in [0, 5_000_000_000] {
        frames.push(Captured { time_ns: SENT_NS + at_ns, bytes: vec![0; 1400] });
    }
    frames.sort_by_key(|captured| captured.time_ns);
    std::fs::write(folder.join("mixed.pcap"), pcap_file(&frames)).unwrap();
    let report = report(&analyze(&folder, &["mixed.pcap", "--json"], &[]), 0);
    let [pps, bps] = ["rate_pps", "rate_bps"].map(|name| report[name].as_f64().unwrap());
    let frame_len = frames[1].bytes.len() as f64;
    assert!((pps - 100_000.0).abs() < 1.0 && (bps - 8.0 * frame_len * 100_000.0).abs() < 1000.0, "{report}");
}

#[test]
fn a_report_of_a_file_reads_like_this() {
    let folder = Folder::new("analyze-golden");
    let frames = pcapng_file(&faulty_run(Level::Full, 0), 96);
    std::fs::write(folder.join("run.pcapng"), &frames).unwrap();
    std::fs::write(folder.join("short.pcapng"), &frames[..frames.len() / 2]).unwrap();
    std::fs::write(folder.join("empty.pcapng"), pcapng_file(&[], 96)).unwrap();
    std::fs::write(folder.join("text"), "no capture").unwrap();
    std::fs::write(folder.join("run.bz2"), b"BZh91AY").unwrap();
    let mut text = String::new();
    for args in [
        &["run.pcapng"][..],
        &["run.pcapng", "--sent", "4k", "--expect", "lost=0", "--expect", "p50<5ms"],
        &["run.pcapng", "--interface", "lo"],
        &["run.pcapng", "--interface", "eth2"],
        &["short.pcapng"],
        &["empty.pcapng"],
        &["missing.pcapng"],
        &["text"],
        &["run.bz2"],
        &[],
    ] {
        let output = analyze(&folder, args, &[]);
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let code = output.status.code().expect("it was not killed");
        text += &format!("$ wirerate analyze {}\n{stdout}{stderr}exit code {code}\n", args.join(" "));
    }
    testkit::golden("analyze.txt", &text);
}
