//! The kernel's own pktgen as oracle, live: the same commands through its files and through `wirerate exec`, and
//! everything that a script or a receiver can see is compared.

mod compare;
mod generate;
mod older;
pub mod replay;

use super::{Case, Finding, Machine};
use crate::guest::{Background, load, sh};
use anyhow::{Context, Result, bail, ensure};
use generate::Sequence;
use older::Older;
use replay::Answers;
use std::fs;

pub(super) const CASES: &[Case] = &[Case {
    name: "oracle",
    what: "random command sequences: writes, read-outs and frames as the kernel's pktgen has them",
    modules: &["pktgen"],
    devices: &[],
    machine: Machine::Single,
    run: oracle,
}];

/// Sequences of a run, unless `WIRERATE_ORACLE` asks for more: `SEED[,COUNT]`.
const COUNT: u64 = 500;
const SEED: u64 = 1;
/// Differences that are shown; the rest is counted.
const SHOWN: usize = 5;

fn oracle(finding: &mut Finding) -> Result<()> {
    let (seed, count) = wish()?;
    sh("ip link add pgv0 type veth peer pgv1
        ip link set pgv0 address 02:00:00:00:00:01; ip link set pgv1 address 02:00:00:00:00:02
        sysctl -qw net.ipv6.conf.pgv0.disable_ipv6=1 net.ipv6.conf.pgv1.disable_ipv6=1
        ethtool -K pgv0 tx off >/dev/null;
        ip address add 198.18.7.1/24 dev pgv0
        ip link set pgv0 up; ip link set pgv1 up")?;
    load("pktgen", "")?;
    let older = older()?;
    let mut sequences: Vec<Sequence> = (0..count).map(|number| generate::sequence(seed + number)).collect();
    sequences.iter_mut().for_each(|sequence| older.iter().for_each(|older| older.leave_out(sequence)));
    fs::write("/tmp/sequences", serde_json::to_vec(&sequences)?)?;
    // With GRO the last frame can be handed on as the first; live frames need it.
    sh("ethtool -K pgv1 gro off >/dev/null")?;
    let mut theirs = answers("/init replay", "theirs")?;
    sh("rmmod pktgen 2>/dev/null || true; ethtool -K pgv1 gro on >/dev/null")?;
    let mut ours = answers("wirerate exec -- /init replay", "ours")?;
    sh("ip link del pgv0")?;
    for answers in theirs.iter_mut().chain(&mut ours) {
        answers.change(|text| older.iter().fold(text, |text, older| older.even_out(&text)));
    }
    ensure!(
        theirs.len() == sequences.len() && ours.len() == sequences.len(),
        "not all sequences were answered"
    );
    let mut differences = Vec::new();
    for ((sequence, theirs), ours) in sequences.iter().zip(&theirs).zip(&ours) {
        differences.extend(compare::difference(sequence, theirs, ours));
    }
    finding.note("sequences", count);
    if !older.is_empty() {
        finding.note("older", older.iter().map(|older| older.name).collect::<Vec<_>>().join(", "));
    }
    finding.note("frames", theirs.iter().map(|answers| answers.frames.len()).sum::<usize>());
    if differences.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = differences.iter().take(SHOWN).cloned().collect();
    bail!(
        "{} of {count} sequences differ; a seed again: WIRERATE_ORACLE=SEED,1\n{}",
        differences.len(),
        shown.join("\n")
    )
}

/// What this kernel does otherwise than the newest, of what docs/differences.md lists.
fn older() -> Result<Vec<&'static Older>> {
    let mut here = Vec::new();
    for (number, older) in older::ALL.iter().enumerate() {
        if older.is_here(&format!("pgv0@{number}"))? {
            here.push(older);
        }
    }
    Ok(here)
}

/// The first seed and how many of them.
fn wish() -> Result<(u64, u64)> {
    let words = fs::read_to_string("/proc/cmdline")?;
    let Some(wish) = words.split_whitespace().find_map(|word| word.strip_prefix("wirerate_oracle=")) else {
        return Ok((SEED, COUNT));
    };
    let (seed, count) = wish.split_once(',').unwrap_or((wish, "1"));
    Ok((seed.parse().context("the seed")?, count.parse().context("the count")?))
}

/// Runs all sequences with one of the two, while tcpdump watches the far end.
fn answers(command: &str, name: &str) -> Result<Vec<Answers>> {
    let pcap = format!("/tmp/{name}.pcap");
    let watch = format!(
        "exec tcpdump -Z root -i pgv1 -Q in -B 65536 -s 0 --immediate-mode --time-stamp-precision=nano -U -w {pcap} 2>/tmp/tcpdump"
    );
    let tcpdump = Background::start(&watch)?;
    sh("until grep -q 'listening on' /tmp/tcpdump; do sleep 0.1; done")?;
    // A kernel thread that spins is nobody's to end; the last lines say at which sequence.
    sh(&format!(
        "timeout 500 {command} /tmp/sequences /tmp/{name}.json 2>/tmp/{name}.log || {{
             echo status $?; tail -n 3 /tmp/{name}.log; cat /proc/net/pktgen/*; dmesg | tail -n 30; exit 1; }}"
    ))?;
    // Without immediate mode the last frames would wait a second for company, and be lost at the end.
    sh("sleep 0.5")?;
    tcpdump.interrupt()?;
    let mut answers: Vec<Answers> = serde_json::from_slice(&fs::read(format!("/tmp/{name}.json"))?)?;
    replay::add_frames(&mut answers, &pcap)?;
    Ok(answers)
}
