//! Every conversation of the oracle, answer by answer, against the tree in memory.

use crate::sim::{Link, Sim, same};
use serde_json::Value;

/// A step whose answer is another one on purpose.
struct Change {
    scenario: &'static str,
    /// From 1.
    step: usize,
    /// `docs/pktgen.md`, and why.
    reason: &'static str,
    answer: Answer,
}

/// What wirerate answers instead.
enum Answer {
    /// The write succeeds and stores this result.
    Says(&'static str),
    /// The write fails and this is the result.
    Fails(&'static str, &'static str),
    /// This line instead of that one.
    Line(&'static str, &'static str),
    /// Not this line.
    NoLine(&'static str),
    /// These names.
    Names(&'static [&'static str]),
    /// Another file is read.
    File(&'static str),
}

const RENAME: &str = "row 7: a rename is followed, the kernel loses track";
const VETH: &str =
    "row 8: clone_skb and burst are refused on loopback only; clone_skb then keeps netif_receive out";
const HOWTO: &str =
    "row 10: the HOWTO's spellings are accepted; `svlan` without a VLAN says nothing, as svlan_id does";

const CHANGES: &[Change] = &[
    Change {
        scenario: "thread/rename",
        step: 3,
        reason: RENAME,
        answer: Answer::Names(&["pgctrl", "pgv7@0"]),
    },
    Change {
        scenario: "thread/rename",
        step: 4,
        reason: RENAME,
        answer: Answer::Line("Stopped: pgv0@0 ", "Stopped: pgv7@0 "),
    },
    Change { scenario: "thread/rename", step: 5, reason: RENAME, answer: Answer::File("pgv7@0") },
    Change {
        scenario: "thread/rename",
        step: 5,
        reason: RENAME,
        answer: Answer::Line(
            "     frags: 0  delay: 0  clone_skb: 0  ifname: pgv0@0",
            "     frags: 0  delay: 0  clone_skb: 0  ifname: pgv7@0",
        ),
    },
    Change {
        scenario: "thread/rename",
        step: 7,
        reason: RENAME,
        answer: Answer::Says("OK: add_device=pgv7"),
    },
    Change {
        scenario: "thread/rename",
        step: 8,
        reason: RENAME,
        answer: Answer::Fails("EBUSY", "ERROR: can not add device pgv7@0"),
    },
    Change {
        scenario: "thread/rename",
        step: 9,
        reason: RENAME,
        answer: Answer::Line("Stopped: pgv7@0 ", "Stopped: pgv7 "),
    },
    Change {
        scenario: "thread/rename",
        step: 9,
        reason: RENAME,
        answer: Answer::Line("Result: OK: add_device=pgv7@0", "Result: ERROR: can not add device pgv7@0"),
    },
    Change { scenario: "xmit/veth", step: 2, reason: VETH, answer: Answer::Says("OK: clone_skb=1") },
    Change { scenario: "xmit/veth", step: 3, reason: VETH, answer: Answer::Says("OK: burst=2") },
    Change { scenario: "xmit/veth", step: 8, reason: VETH, answer: Answer::Says("OK: clone_skb=1") },
    Change {
        scenario: "xmit/veth",
        step: 9,
        reason: VETH,
        answer: Answer::Fails("EOPNOTSUPP", "OK: clone_skb=1"),
    },
    Change {
        scenario: "xmit/veth",
        step: 10,
        reason: VETH,
        answer: Answer::Fails("EOPNOTSUPP", "OK: clone_skb=1"),
    },
    Change { scenario: "xmit/veth", step: 11, reason: VETH, answer: Answer::Says("OK: clone_skb=1") },
    Change {
        scenario: "xmit/veth",
        step: 12,
        reason: VETH,
        answer: Answer::Line(
            "     frags: 0  delay: 0  clone_skb: 0  ifname: pgv0",
            "     frags: 0  delay: 0  clone_skb: 1  ifname: pgv0",
        ),
    },
    Change { scenario: "xmit/veth", step: 12, reason: VETH, answer: Answer::NoLine("     burst: 2") },
    Change {
        scenario: "xmit/veth",
        step: 12,
        reason: VETH,
        answer: Answer::Line("     xmit_mode: netif_receive", "     xmit_mode: xmit_queue"),
    },
    Change {
        scenario: "xmit/veth",
        step: 12,
        reason: VETH,
        answer: Answer::Line("Result: OK: burst=2", "Result: OK: clone_skb=1"),
    },
    Change { scenario: "flag/each", step: 22, reason: HOWTO, answer: Answer::Says("OK: flags=0x7fffe") },
    Change {
        scenario: "device/unknown",
        step: 9,
        reason: HOWTO,
        answer: Answer::Says("No such parameter \"help\""),
    },
    Change {
        scenario: "device/unknown",
        step: 12,
        reason: HOWTO,
        answer: Answer::Says("OK: dstmac 00:11:22:33:44:55"),
    },
    Change {
        scenario: "device/unknown",
        step: 13,
        reason: HOWTO,
        answer: Answer::Says("OK: srcmac 00:11:22:33:44:55"),
    },
    Change {
        scenario: "device/unknown",
        step: 14,
        reason: HOWTO,
        answer: Answer::Line(
            "     src_mac: 00:00:00:00:00:00 dst_mac: 00:00:00:00:00:00",
            "     src_mac: 00:11:22:33:44:55 dst_mac: 00:11:22:33:44:55",
        ),
    },
    Change {
        scenario: "device/unknown",
        step: 14,
        reason: HOWTO,
        answer: Answer::Line("Result: No such parameter \"srcmac\"", "Result: OK: srcmac 00:11:22:33:44:55"),
    },
];

struct Scenario {
    name: String,
    steps: Vec<Value>,
}

fn scenarios(text: &str) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("a line of JSON");
        match value["scenario"].as_str() {
            Some(name) => all.push(Scenario { name: name.to_owned(), steps: Vec::new() }),
            None => all.last_mut().expect("a scenario comes first").steps.push(value),
        }
    }
    all
}

fn bytes(value: &Value) -> Vec<u8> {
    text(value).chars().map(|c| u8::try_from(u32::from(c)).expect("one character a byte")).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string"))
}

/// What follows `Result: ` up to the last newline.
fn result_of(content: &str) -> Option<&str> {
    let start = if content.starts_with("Result: ") { 0 } else { content.find("\nResult: ")? + 1 };
    content[start + "Result: ".len()..].strip_suffix('\n')
}

fn shell(sim: &mut Sim, line: &str) {
    let mut up = |name: &str, is_up| {
        let link = sim.links.iter_mut().find(|link| link.name == name);
        link.expect("an interface of the simulation").is_up = is_up;
    };
    match line {
        "ip link set pgv0 down" => up("pgv0", false),
        "ip link set pgv0 up" => up("pgv0", true),
        "ip link set pgd0 down" => up("pgd0", false),
        "ip link set pgd0 up" => up("pgd0", true),
        "ip link set pgv7 up" => up("pgv7", true),
        "ip link del pgv0; sleep 0.5" => {
            sim.links.retain(|link| !link.name.starts_with("pgv"));
            names_on(sim, "pgv0").iter().for_each(|name| drop(sim.tree.remove_device(name)));
        }
        "ip link set pgv0 down; ip link set pgv0 name pgv7" => {
            up("pgv0", false);
            sim.links
                .iter_mut()
                .filter(|link| link.name == "pgv0")
                .for_each(|link| link.name = "pgv7".to_owned());
            let moves = names_on(sim, "pgv0").into_iter();
            let moves = moves.map(|name| (name.clone(), name.replacen("pgv0", "pgv7", 1))).collect();
            sim.tree.rename_devices(moves);
        }
        other => panic!("the simulation does not know `{other}`"),
    }
}

/// The device instances of one interface.
fn names_on(sim: &Sim, interface: &str) -> Vec<String> {
    let devices = sim.tree.devices().filter(|device| device.interface() == interface);
    devices.map(|device| device.name().to_owned()).collect()
}

/// One descriptor: a snapshot from the first read, until it is read from the start again.
fn descriptor(sim: &mut Sim, file: &str, operations: &[Value]) -> Result<(), String> {
    let (mut snapshot, mut at): (Option<String>, usize) = (None, 0);
    for operation in operations {
        if let Some(written) = operation.get("w") {
            check_write(operation, &sim.write(file, &bytes(written)))?;
        } else if let Some(place) = operation.get("seek") {
            at = place.as_u64().expect("a place") as usize;
            if at == 0 {
                snapshot = None;
            }
        } else {
            let content = snapshot.get_or_insert_with(|| sim.read(file).expect("a file"));
            let len_max =
                operation.get("r").map_or(usize::MAX, |len| len.as_u64().expect("a length") as usize);
            let end = content.len().min(at.saturating_add(len_max));
            let expected = operation.get("data").or(operation.get("rest")).expect("what is read");
            if !same(text(expected), &content[at..end]) {
                return Err(format!("{operation}: got {:?}", &content[at..end]));
            }
            at = end;
        }
    }
    Ok(())
}

fn check_write(step: &Value, got: &Result<usize, String>) -> Result<(), String> {
    let fits = match got {
        Ok(len) => step["ret"].as_u64() == Some(*len as u64),
        Err(errno) => step["errno"].as_str() == Some(errno),
    };
    if fits { Ok(()) } else { Err(format!("{step}: got {got:?}")) }
}

/// The step with what wirerate is expected to answer.
fn changed(step: &Value, answer: &Answer) -> Value {
    let mut step = step.clone();
    let object = step.as_object_mut().expect("an object");
    match answer {
        Answer::Says(result) => {
            let len = text(&object["bytes"]).chars().count();
            object.remove("errno");
            object.insert("ret".to_owned(), len.into());
            object.insert("result".to_owned(), (*result).into());
        }
        Answer::Fails(errno, result) => {
            object.remove("ret");
            object.insert("errno".to_owned(), (*errno).into());
            object.insert("result".to_owned(), (*result).into());
        }
        Answer::Line(old, new) => {
            let lines = object["lines"].as_array_mut().expect("lines");
            let line = lines.iter_mut().find(|line| line.as_str() == Some(old));
            *line.unwrap_or_else(|| panic!("no line {old:?} to change")) = (*new).into();
        }
        Answer::NoLine(old) => {
            let lines = object["lines"].as_array_mut().expect("lines");
            let at = lines.iter().position(|line| line.as_str() == Some(old));
            lines.remove(at.unwrap_or_else(|| panic!("no line {old:?} to leave out")));
        }
        Answer::Names(names) => drop(object.insert("names".to_owned(), (*names).into())),
        Answer::File(name) => drop(object.insert("read".to_owned(), (*name).into())),
    }
    step
}

/// One step: an error says what differs; `false` for a step that asks the file system, not the
/// tree.
fn step(sim: &mut Sim, step: &Value) -> Result<bool, String> {
    if let Some(line) = step.get("sh") {
        shell(sim, text(line));
    } else if let Some(file) = step.get("write") {
        let answer = sim.write(text(file), &bytes(&step["bytes"]));
        check_write(step, &answer)?;
        let content = sim.read(text(file)).ok_or_else(|| format!("{file} is gone"))?;
        let result = result_of(&content);
        if !match (step["result"].as_str(), result) {
            (Some(expected), Some(got)) => same(expected, got),
            (expected, got) => expected == got,
        } {
            return Err(format!("{step}: got result {result:?}"));
        }
    } else if let Some(file) = step.get("read") {
        let content = sim.read(text(file)).ok_or_else(|| format!("{file} is no file"))?;
        let lines: Vec<&str> = content.strip_suffix('\n').expect("a last newline").split('\n').collect();
        let expected: Vec<&str> = step["lines"].as_array().expect("lines").iter().map(text).collect();
        if lines.len() != expected.len() || !lines.iter().zip(&expected).all(|(got, line)| same(line, got)) {
            return Err(format!("{file}: expected {expected:#?}, got {lines:#?}"));
        }
    } else if step.get("list").is_some() {
        let mut names = sim.tree.names();
        names.retain(|name| !name.starts_with("kpktgend_"));
        names.sort();
        if step["names"] != Value::from(names.clone()) {
            return Err(format!("{step}: got {names:?}"));
        }
    } else if let Some(file) = step.get("descriptor") {
        descriptor(sim, text(file), step["ops"].as_array().expect("operations"))?;
    } else {
        assert!(step.get("call").is_some(), "unknown step {step}");
        return Ok(false);
    }
    Ok(true)
}

#[test]
fn the_tree_answers_as_linux_7_3_did() {
    let (mut compared, mut calls, mut changes, mut failures) = (0, 0, 0, Vec::new());
    for scenario in scenarios(include_str!("../../../../lab/oracle/commands.jsonl")) {
        let links = vec![
            Link::loopback(),
            Link::new("pgv0", 0xa0, [198, 18, 0, 1]),
            Link::new("pgv1", 0xa1, [198, 18, 0, 2]),
            Link::new("pgd0", 0xd0, [198, 18, 1, 1]),
        ];
        let mut sim = Sim::new(2, links);
        for (index, recorded) in scenario.steps.iter().enumerate() {
            let mut expected = recorded.clone();
            let is_it = |change: &&Change| change.scenario == scenario.name && change.step == index + 1;
            for change in CHANGES.iter().filter(is_it) {
                assert!(!change.reason.is_empty());
                expected = changed(&expected, &change.answer);
                changes += 1;
            }
            match step(&mut sim, &expected) {
                Ok(true) => compared += 1,
                Ok(false) => calls += 1,
                Err(difference) => {
                    failures.push(format!("{} step {}: {difference}", scenario.name, index + 1))
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared} differ:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(changes, CHANGES.len(), "a change names a step that does not exist");
    assert!(compared > 500, "only {compared} steps");
    println!("{compared} steps compared, {changes} of them changed on purpose, {calls} calls left to ctlfs");
}
