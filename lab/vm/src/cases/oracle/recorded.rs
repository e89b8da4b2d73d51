//! Recordings of a real pktgen (`oracle/`) as sequences that run again. The answers of this
//! kernel's module and those of wirerate are compared with each other, not with the recording.

use super::generate::Sequence;
use super::step::{self, Call, OracleStep};
use crate::archive::Archive;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Where it is in a machine.
const FOLDER: &str = "/oracle";
const COMMANDS: &str = "commands.jsonl";
const FRAMES: &str = "frames.json";
/// What kinds of devices are called there: one that does not share skbs, and one that does.
pub(super) const VETH: &str = "pgv0";
pub(super) const DUMMY: &str = "pgd0";

/// Puts the recordings into an archive.
pub(crate) fn add(archive: &mut Archive) -> Result<()> {
    let folder = testkit::root().join("lab/oracle");
    [COMMANDS, FRAMES].into_iter().try_for_each(|name| {
        let text = fs::read_to_string(folder.join(name)).with_context(|| format!("cannot read {name}"))?;
        archive.text(&format!("{}/{name}", &FOLDER[1..]), &text)
    })
}

fn read(name: &str) -> Result<String> {
    let path: PathBuf = Path::new(FOLDER).join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The scenarios of commands, less one that needs an unwritten tree.
pub(super) fn scenarios() -> Result<Vec<Sequence>> {
    let mut all: Vec<Sequence> = Vec::new();
    let mut is_fresh = false;
    let mut cleanup = Vec::new();
    for line in read(COMMANDS)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        if let Some(name) = line["scenario"].as_str() {
            finish(&mut all, &mut cleanup);
            is_fresh = line["needs"] == "fresh";
            cleanup = line["cleanup"].as_array().cloned().unwrap_or_default();
            if !is_fresh {
                all.push(sequence(name, &device(&line)?));
            }
        } else if !is_fresh {
            let steps = &mut all.last_mut().context("a step without a scenario")?.steps;
            steps.push(step(&line).with_context(|| line.to_string())?);
        }
    }
    finish(&mut all, &mut cleanup);
    Ok(all)
}

/// What clears up behind a scenario. Some delete or rename the pair, which the next one finds as it
/// was.
fn finish(all: &mut [Sequence], cleanup: &mut Vec<Value>) {
    let Some(last) = all.last_mut() else { return };
    let reset = |_: &Value| OracleStep::write("pgctrl", "reset".to_owned());
    let of = |command: &Value| match command.as_str() {
        Some("reset") => reset(command),
        other => OracleStep::Shell(other.unwrap_or_default().to_owned()),
    };
    last.steps.extend(cleanup.drain(..).map(|command| of(&command)));
    if last.steps.iter().any(|step| matches!(step, OracleStep::Shell(_))) {
        last.steps.push(OracleStep::Shell(super::ADD_DEVICES.to_owned()));
    }
}

fn sequence(name: &str, device: &str) -> Sequence {
    let (name, device) = (Some(name.to_owned()), device.to_owned());
    Sequence { seed: 0, name, device, steps: Vec::new(), has_start: true, is_random: false }
}

fn device(scenario: &Value) -> Result<String> {
    Ok(match scenario["device"].as_str() {
        Some("lo") => "lo",
        Some("veth") => VETH,
        Some("shares_skb") => DUMMY,
        other => bail!("no kind of device is called {other:?}"),
    }
    .to_owned())
}

fn step(line: &Value) -> Result<OracleStep> {
    let word = |name: &str| line[name].as_str().map(str::to_owned);
    let flags = word("flags").map_or(Ok(libc::O_WRONLY), |flags| step::flags(&flags))?;
    Ok(match (word("write"), word("read"), word("sh"), word("descriptor"), word("call")) {
        (Some(file), ..) => OracleStep::Write { file, bytes: word("bytes").context("no bytes")?, flags },
        (_, Some(file), ..) => OracleStep::Read(file),
        (_, _, Some(script), ..) => OracleStep::Shell(script),
        (_, _, _, Some(file), _) => {
            let calls = line["ops"].as_array().context("no ops")?;
            OracleStep::Descriptor { file, flags, calls: calls.iter().map(call).collect::<Result<_>>()? }
        }
        // About the file itself, not about what is in it: whether it is there afterwards shows in
        // the list.
        (.., Some(_)) => OracleStep::List,
        _ if line.get("list").is_some() => OracleStep::List,
        _ => bail!("an unknown step"),
    })
}

fn call(op: &Value) -> Result<Call> {
    Ok(match (op["w"].as_str(), op["r"].as_u64(), op["seek"].as_u64()) {
        (Some(text), ..) => Call::Write(text.to_owned()),
        (_, Some(len), _) => Call::Read(len as usize),
        (_, _, Some(to)) => Call::Seek(to),
        _ if op.get("rest").is_some() => Call::Rest,
        _ => bail!("an unknown call: {op}"),
    })
}

/// The cases of frames; those that need shared skbs are on the dummy device, where no one sees
/// frames.
pub(super) fn frames() -> Result<Vec<Sequence>> {
    let data: Value = serde_json::from_str(&read(FRAMES)?)?;
    data["cases"].as_array().context("no cases")?.iter().map(case).collect()
}

fn case(case: &Value) -> Result<Sequence> {
    let shares = case["needs"].as_array().is_some_and(|needs| needs.iter().any(|need| need == "shares_skb"));
    let mut all = sequence(case["name"].as_str().context("no name")?, if shares { DUMMY } else { VETH });
    all.is_random = case["random"].as_object().is_some_and(|random| !random.is_empty());
    for pair in case["commands"].as_array().context("no commands")? {
        let [file, command] =
            [&pair[0], &pair[1]].map(|text| text.as_str().unwrap_or_default().replace("DEV", &all.device));
        all.steps.push(OracleStep::write(&file, format!("{command}\n")));
    }
    Ok(all)
}
