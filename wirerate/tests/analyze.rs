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
    assert_eq!(counts(&report, ["/unique", "/duplicate", "/too_old"]), [199, 0, 2]);
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
