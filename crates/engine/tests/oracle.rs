//! The frames of a real pktgen (Linux 7.3), sent by every engine that can carry them over a veth
//! pair, and compared by the oracle's own tool (`oracle/`).

mod lab;

use command::{Device, Facts};
use engine::{End, EngineError, EngineKind, Limits, Request, TxOptions};
use host::Lab;
use lab::tap::{Stamped, Tap};
use lab::{ENGINES, polling_lab, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Exactly `count` frames are sent, where the kernel's burst overshoots (`docs/pktgen.md`).
const DIFFERENT: [&str; 2] = ["burst-2", "burst-4"];

/// Cases that an engine leaves to others (`docs/engines.md`).
fn left_out(engine: EngineKind) -> &'static [&'static str] {
    match engine {
        EngineKind::Xdp => &["frags-2", "frags-5", "frags-17", "queue-xmit"],
        EngineKind::Skb => &["frags-2", "frags-5", "frags-17"],
        EngineKind::AfXdp => &["queue-xmit"],
        _ => &[],
    }
}

#[test]
fn frames_of_the_oracle_are_sent_by_every_engine_that_can() {
    let oracle = testkit::root().join("lab/oracle");
    let Some(lab) = polling_lab() else { return };
    let data = std::fs::read_to_string(oracle.join("frames.json")).expect("the cases can be read");
    let data: Value = serde_json::from_str(&data).expect("JSON");
    let cases = data["cases"].as_array().expect("cases");
    assert!(cases.len() > 60);
    // The kernel timestamps frames while a socket requests it, with a delay; other frames get the
    // time at which they are read. So one socket requests timestamps all the time.
    let _stamping = Tap::new(lab.rx.netns());
    for engine in ENGINES {
        let (mut frames, mut refused) = (Vec::new(), BTreeSet::new());
        for case in cases {
            let name = case["name"].as_str().expect("a name");
            match play(&lab, case, engine) {
                Ok(seen) => frames.extend(seen),
                Err(EngineError::Unable { .. }) => drop(refused.insert(name.to_owned())),
                Err(error) => panic!("{engine}, {name}: {error}"),
            }
        }
        let expected: BTreeSet<String> = left_out(engine).iter().map(|&name| name.to_owned()).collect();
        assert_eq!(refused, expected, "{engine}");
        let (failed, said) = compare(&oracle, &lab, &frames);
        let expected: BTreeSet<String> = expected.into_iter().chain(DIFFERENT.map(str::to_owned)).collect();
        assert_eq!(failed, expected, "{engine}:\n{said}");
    }
}

/// Plays the commands of a case on one engine and returns the frames that arrived.
fn play(lab: &Lab, case: &Value, engine: EngineKind) -> Result<Vec<Stamped>, EngineError> {
    let link = lab.tx.stack.facts(lab.tx.ifname).expect("the device can be asked");
    let facts = Facts { link, ..Facts::default() };
    let mut device = Device::new(lab.tx.ifname);
    let tap = Tap::new(lab.rx.netns());
    let mut sent = 0;
    for pair in case["commands"].as_array().expect("commands") {
        let [file, command] = [&pair[0], &pair[1]].map(|text| text.as_str().expect("text"));
        match (file, command) {
            ("DEV", command) => {
                device.write(command.as_bytes(), &facts).expect("a command that pktgen takes");
            }
            ("pgctrl", "start") => sent += start(lab, &mut device, &facts, engine)?,
            _ => assert!(command.starts_with("add_device"), "{file} {command}"),
        }
    }
    Ok(tap.stamped(sent as usize))
}

/// One run; frames sent.
fn start(lab: &Lab, device: &mut Device, facts: &Facts, engine: EngineKind) -> Result<u64, EngineError> {
    let plan = device.start(&facts.link, host::monotonic_ns(), 20).expect("a plan");
    let report = run(
        lab,
        Request {
            ifname: device.interface().to_owned(),
            plan,
            cursor: device.cursor.clone(),
            mode: device.config.xmit_mode,
            options: TxOptions::of(&device.config),
            limits: Limits {
                count: device.config.count,
                pace: engine::Pace::from_delay_ns(device.config.delay_ns),
                ..Limits::default()
            },
            engine: Some(engine),
            batch: None,
            next_ns: None,
        },
    );
    device.cursor = report.cursor;
    device.stop(host::monotonic_ns(), 0);
    match report.end {
        End::Failed(error) => Err(error),
        _ => Ok(report.total.sent),
    }
}

/// Has the oracle's tool look at all cases; the names of those that differ, and what it said.
fn compare(oracle: &Path, lab: &Lab, frames: &[Stamped]) -> (BTreeSet<String>, String) {
    let folder = testkit::Folder::new("oracle");
    let file = folder.join("x.pcap");
    std::fs::write(&file, pcap(frames)).expect("the capture can be written");
    let output = Command::new("python3")
        .arg(oracle.join("check_frames.py"))
        .args(["--case", "*", "--src-mac", &lab.tx.mac.to_string()])
        .args(["--src-ip", &lab.tx.v4.to_string(), "--src-ip6", "::", "--capture"])
        .arg(&file)
        .arg(oracle.join("frames.json"))
        .output()
        .expect("python3 can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(" passed, "), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // A line for each complaint, the case first, and a summary.
    let complaints = said.lines().filter(|line| !line.contains(" passed, "));
    let name = |line: &str| line.split([' ', ':']).next().unwrap_or_default().to_owned();
    (complaints.map(name).collect(), said.clone())
}

/// A classic pcap file with nanoseconds.
fn pcap(frames: &[Stamped]) -> Vec<u8> {
    let mut file = Vec::new();
    let head: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, 1];
    head.iter().for_each(|word| file.extend(word.to_le_bytes()));
    for Stamped { time_ns, frame } in frames {
        let len = frame.len() as u32;
        let words = [(time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32, len, len];
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.write_all(frame).expect("memory takes all");
    }
    file
}
