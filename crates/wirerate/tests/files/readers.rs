//! The commands that read capture files, and pcap files to give them.

use pcapng::pcap;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A time of day, in nanoseconds since 1970.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

/// Everything that a run of wirerate printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Ran {
    /// Its line of JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// Runs wirerate in `folder`.
pub(crate) fn wirerate(folder: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (code, stdout) = (output.status.code().expect("it was not killed"), text(output.stdout));
    testkit::check_json_lines(&stdout);
    Ran { stdout, stderr: text(output.stderr), code }
}

/// `replay --dry-run` without a device.
pub(crate) fn replay(folder: &Path, args: &[&str]) -> Ran {
    let words = ["replay", "no-device", "--dry-run", "--dst-mac", "02:00:00:00:00:02", "--json"];
    wirerate(folder, &[&words, args].concat())
}

/// The packets of a file, and the exit code, on which all commands agree.
pub(crate) fn packets(folder: &Path, file: &str) -> (u64, i32) {
    let replayed = replay(folder, &[file]);
    let packets = replayed.json()["read"].as_u64().unwrap();
    let analyzed = wirerate(folder, &["analyze", file, "--json"]);
    let source = analyzed.json()["source"].as_str().unwrap().replace(',', "");
    let found: u64 = source.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(found, packets, "analyze and replay, {file}: {analyzed:?}");
    let described = wirerate(folder, &["info", "-J", file]);
    assert_eq!(described.json()["packets"], packets, "info and replay, {file}: {described:?}");
    let output = format!("exported-{file}");
    let exported = wirerate(folder, &["export", file, "-o", &output, "--json"]);
    let report = exported.json();
    assert_eq!(report["packets"], packets, "export and replay, {file}: {exported:?}");
    assert_eq!(report["stored"], packets, "{exported:?}");
    let codes = [analyzed.code, described.code, exported.code];
    assert_eq!(codes, [replayed.code; 3], "{file}: {analyzed:?} {described:?} {exported:?}");
    if packets > 0 {
        let back = format!("back-{file}.pcapng");
        let stored = wirerate(folder, &["export", &output, "--to", "pcapng", "-o", &back, "--json"]);
        assert_eq!(stored.json()["packets"], packets, "export and back, {file}: {stored:?}");
        let described = wirerate(folder, &["info", "-J", &back]);
        assert_eq!((&described.json()["packets"], described.code), (&packets.into(), 0), "{described:?}");
    }
    (packets, replayed.code)
}

/// A frame of 60 bytes.
pub(crate) fn frame(number: u64) -> Vec<u8> {
    let head = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    [&head[..], &number.to_be_bytes(), &[0; 38]].concat()
}

/// A pcap file of this many frames, a microsecond apart.
pub(crate) fn pcap_of(frames: u64) -> Vec<u8> {
    let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default()).unwrap();
    for number in 0..frames {
        let (time_ns, data) = (START_NS + number * 1_000, frame(number));
        writer.record(&pcap::Record { time_ns, frame_len: 60, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

/// Copies a file of `inputs/` into `folder`; returns its bytes.
pub(crate) fn input(folder: &Path, name: &str) -> Vec<u8> {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/inputs");
    let bytes = std::fs::read(inputs.join(name)).unwrap();
    std::fs::write(folder.join(name), &bytes).unwrap();
    bytes
}
