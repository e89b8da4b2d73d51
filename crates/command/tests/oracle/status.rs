//! The device file after each run of the frame oracle, with frames made by the plan.

use crate::sim::{Link, Sim, same};
use serde_json::Value;

/// The oracle's own names for what varies with the host.
const DEVICE: &str = "eth0";

/// Part of a line that is another one on purpose.
struct Change {
    case: &'static str,
    was: &'static str,
    is: &'static str,
}

/// Row 2 of `docs/pktgen.md`: exactly `count` frames are sent, where the kernel's burst
/// overshoots.
const CHANGES: &[Change] = &[
    Change { case: "burst-2", was: "pkts-sofar: 6 ", is: "pkts-sofar: 5 " },
    Change { case: "burst-2", was: "seq_num: 7 ", is: "seq_num: 6 " },
    Change { case: "burst-2", was: "usec, 6 (58byte", is: "usec, 5 (58byte" },
    Change { case: "burst-4", was: "pkts-sofar: 12 ", is: "pkts-sofar: 10 " },
    Change { case: "burst-4", was: "seq_num: 13 ", is: "seq_num: 11 " },
    Change { case: "burst-4", was: "usec, 12 (58byte", is: "usec, 10 (58byte" },
];

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().expect("an array").iter().map(|item| item.as_str().expect("a string")).collect()
}

fn expected_line(case: &str, line: &str) -> String {
    let mut line = line.replace("<dev>", DEVICE).replace("<src-ip>", "10.9.8.7");
    line = line.replace("<src-ip6>", "fe80::5054:ff:fe12:3456");
    for change in CHANGES.iter().filter(|change| change.case == case) {
        line = line.replace(change.was, change.is);
    }
    line
}

#[test]
fn read_outs_after_runs_are_those_of_linux_7_3() {
    let data = include_str!("../../../../lab/oracle/frames.json");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let mut failures = Vec::new();
    let cases = data["cases"].as_array().expect("cases");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let mut sim = Sim::new(1, vec![Link::new(DEVICE, 0x56, [10, 9, 8, 7])]);
        for command in case["commands"].as_array().expect("commands") {
            let pair = strings(command);
            let (file, command) = (pair[0].replace("DEV", DEVICE), pair[1].replace("DEV", DEVICE));
            assert_eq!(sim.write(&file, command.as_bytes()), Ok(command.len()), "{name}: {command}");
        }
        let content = sim.read(DEVICE).expect("the device file");
        let got: Vec<&str> = content.lines().collect();
        let expected: Vec<String> =
            strings(&case["status"]).iter().map(|line| expected_line(name, line)).collect();
        if got.len() != expected.len() || !expected.iter().zip(&got).all(|(line, got)| same(line, got)) {
            failures.push(format!("{name}: expected {expected:#?}, got {got:#?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() > 50);
}
