//! The kernel's own pktgen as oracle: it and `wirerate exec` get the same commands, and everything
//! that a script or a receiver can see is compared.

mod compare;
mod generate;
mod older;
mod recorded;
pub mod replay;
mod samples;
mod step;

use super::nics::IGB;
use super::{Case, CaseReport, MachineType};
use crate::guest::{Background, load, sh, unload};
use anyhow::{Context, Result, bail, ensure};
use generate::Sequence;
use older::Older;
use replay::Answers;
use std::fs;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "oracle",
        what: "random command sequences: writes, read-outs and frames as the kernel's pktgen has them",
        modules: MODULES,
        devices: "",
        machine: MachineType::Single,
        run: oracle,
    },
    Case {
        name: "recorded",
        what: "what was recorded of pktgen on Linux 7.3, once more through this kernel's and through wirerate",
        modules: MODULES,
        devices: "",
        machine: MachineType::Single,
        run: recorded,
    },
    Case {
        name: "samples",
        what: "the kernel's sample scripts with this kernel's pktgen and with wirerate: results, counts and frames",
        modules: MODULES,
        devices: "",
        machine: MachineType::Common,
        run: samples::samples,
    },
    Case {
        name: "samples_igb",
        what: "the kernel's sample that binds a thread to each interrupt of an igb card: every frame arrives",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: samples::by_interrupt,
    },
];

const MODULES: &[&str] = &["pktgen", "dummy"];

pub(crate) use recorded::add as add_recorded;
pub(crate) use samples::add as add_samples;

/// Sequences of a run, unless `WIRERATE_ORACLE` asks for more: `SEED[,COUNT]`.
const COUNT: u64 = 500;
const SEED: u64 = 1;
/// Differences that are shown; the rest is counted.
const SHOWN: usize = 5;

/// The devices of all sequences; also where one has taken them away or set them down. The kernel
/// starts the queues of a link a moment after its carrier (linkwatch), and pktgen sends nothing
/// before.
const ADD_DEVICES: &str = "ip link show pgv0 >/dev/null 2>&1 || ip link add pgv0 type veth peer pgv1
    ip link show pgd0 >/dev/null 2>&1 || ip link add pgd0 type dummy
    ip link set pgv0 address 02:00:00:00:00:01; ip link set pgv1 address 02:00:00:00:00:02
    ip link set pgd0 address 02:00:00:00:00:03
    sysctl -qw net.ipv6.conf.pgv0.disable_ipv6=1 net.ipv6.conf.pgv1.disable_ipv6=1 net.ipv6.conf.pgd0.disable_ipv6=1
    ethtool -K pgv0 tx off >/dev/null
    ip address replace 198.18.7.1/24 dev pgv0; ip address replace 198.18.8.1/24 dev pgd0
    ip link set pgv0 up; ip link set pgv1 up; ip link set pgd0 up
    for i in $(seq 1000)
    do [ $(cat /sys/class/net/pgv0/operstate)$(cat /sys/class/net/pgv1/operstate) = upup ] && exit 0
    sleep 0.01; done; ip link; exit 1";

/// Those devices and the module; gone when dropped.
struct OracleLab {
    /// What its pktgen does otherwise than the newest.
    older: Vec<&'static Older>,
}

impl OracleLab {
    fn new() -> Result<Self> {
        load("dummy", "numdummies=0")?;
        sh(ADD_DEVICES)?;
        load("pktgen", "")?;
        Ok(Self { older: older()? })
    }

    /// With GRO the last frame can be handed on as the first; live frames need it.
    fn set_gro(&self, word: &str) -> Result<()> {
        sh(&format!("ethtool -K pgv1 gro {word} >/dev/null")).map(drop)
    }

    /// The answers of the module and of wirerate, to sequences that are changed to what this module
    /// knows.
    fn answers(&self, sequences: &mut [Sequence], is_watched: bool) -> Result<[Vec<Answers>; 2]> {
        sequences
            .iter_mut()
            .for_each(|sequence| self.older.iter().for_each(|older| older.leave_out(sequence)));
        fs::write("/tmp/sequences", serde_json::to_vec(&sequences)?)?;
        let answers = if is_watched { watched } else { replayed };
        load("pktgen", "")?;
        self.set_gro("off")?;
        let theirs = answers("/init replay", "theirs")?;
        unload("pktgen")?;
        self.set_gro("on")?;
        let mut both = [theirs, answers("wirerate exec -- /init replay", "ours")?];
        if self.older.iter().any(|older| older.name == older::ENOTSUPP) {
            both[0].iter_mut().for_each(|answers| answers.rename(older::ENOTSUPP_NUMBER, libc::EOPNOTSUPP));
        }
        for answers in both.iter_mut().flatten() {
            answers.change(|text| self.older.iter().fold(text, |text, older| older.even_out(&text)));
        }
        ensure!(both.iter().all(|all| all.len() == sequences.len()), "not all sequences were answered");
        Ok(both)
    }

    fn note(&self, finding: &mut CaseReport) {
        if !self.older.is_empty() {
            finding.note("older", self.older.iter().map(|older| older.name).collect::<Vec<_>>().join(", "));
        }
    }
}

impl Drop for OracleLab {
    fn drop(&mut self) {
        // What remains would be in the way of the next case, which says so then.
        let _ = unload("pktgen");
        let _ = sh("ip link del pgv0; ip link del pgd0");
    }
}

fn oracle(finding: &mut CaseReport) -> Result<()> {
    let (seed, count) = request()?;
    let lab = OracleLab::new()?;
    let mut sequences: Vec<Sequence> = (0..count).map(|number| generate::sequence(seed + number)).collect();
    let [theirs, ours] = lab.answers(&mut sequences, true)?;
    let differences = differences(&sequences, &theirs, &ours);
    finding.note("sequences", count);
    lab.note(finding);
    finding.note("frames", frame_count(&theirs));
    told(&differences, sequences.len(), "; a seed again: WIRERATE_ORACLE=SEED,1")
}

fn differences(sequences: &[Sequence], theirs: &[Answers], ours: &[Answers]) -> Vec<String> {
    let all = sequences.iter().zip(theirs).zip(ours);
    all.filter_map(|((sequence, theirs), ours)| compare::difference(sequence, theirs, ours)).collect()
}

fn frame_count(answers: &[Answers]) -> usize {
    answers.iter().map(|answers| answers.frames.len()).sum()
}

/// Fails with the first of them.
fn told(differences: &[String], of: usize, hint: &str) -> Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = differences.iter().take(SHOWN).cloned().collect();
    bail!("{} of {of} sequences differ{hint}\n{}", differences.len(), shown.join("\n"))
}

/// Steps of what is recorded that wirerate answers otherwise on purpose: scenario, steps, row of
/// docs/pktgen.md.
const OTHER_ANSWERS: &[(&str, &[usize], u32)] = &[
    ("thread/rename", &[3, 4, 5, 7, 8, 9], 7),
    ("xmit/veth", &[2, 3, 8, 9, 10, 11, 12], 8),
    // Where the flag SHARED is left out, the read-out shows this result.
    ("flag/each", &[22, 24], 10),
    ("device/unknown", &[9, 12, 13, 14], 10),
];
/// And cases of frames.
const OTHER_FRAMES: &[(&str, u32)] = &[("burst-2", 2), ("burst-4", 2)];

fn recorded(finding: &mut CaseReport) -> Result<()> {
    let lab = OracleLab::new()?;
    let (mut scenarios, mut frames) = (recorded::scenarios()?, recorded::frames()?);
    let [theirs, ours] = lab.answers(&mut scenarios, false)?;
    let mut wrong = Vec::new();
    for ((scenario, theirs), ours) in scenarios.iter().zip(&theirs).zip(&ours) {
        wrong.extend(unmeant(scenario, compare::steps(scenario, theirs, ours)));
    }
    let [theirs, ours] = lab.answers(&mut frames, true)?;
    wrong.extend(
        differences(&frames, &theirs, &ours)
            .into_iter()
            .filter(|text| !OTHER_FRAMES.iter().any(|(name, _)| text.starts_with(&format!("{name}: ")))),
    );
    finding.note("scenarios", scenarios.len());
    finding.note("steps", scenarios.iter().map(|scenario| scenario.steps.len()).sum::<usize>());
    finding.note("cases", frames.len());
    finding.note("frames", frame_count(&theirs));
    lab.note(finding);
    told(&wrong, scenarios.len() + frames.len(), "")
}

/// What differs and should not, and what should and does not.
fn unmeant(scenario: &Sequence, differ: Vec<(usize, String)>) -> Vec<String> {
    let name = scenario.called();
    let meant =
        OTHER_ANSWERS.iter().find(|(meant, ..)| *meant == name).map_or(&[][..], |(_, steps, _)| steps);
    differ
        .into_iter()
        .filter(|(at, _)| !meant.contains(at))
        .map(|(at, what)| format!("{name} step {at}: {what}"))
        .collect()
}

/// What this kernel does otherwise than the newest, of what docs/pktgen.md lists.
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
fn request() -> Result<(u64, u64)> {
    let words = fs::read_to_string("/proc/cmdline")?;
    let Some(value) = words.split_whitespace().find_map(|word| word.strip_prefix("wirerate_oracle=")) else {
        return Ok((SEED, COUNT));
    };
    let (seed, count) = value.split_once(',').unwrap_or((value, "1"));
    Ok((seed.parse().context("the seed")?, count.parse().context("the count")?))
}

/// Runs all sequences with one of the two.
fn replayed(command: &str, name: &str) -> Result<Vec<Answers>> {
    // A kernel thread that spins cannot be ended; the last lines say at which sequence.
    sh(&format!(
        "timeout 1000 {command} /tmp/sequences /tmp/{name}.json 2>/tmp/{name}.log || {{
             echo status $?; tail -n 3 /tmp/{name}.log; cat /proc/net/pktgen/*; dmesg | tail -n 30; exit 1; }}"
    ))?;
    Ok(serde_json::from_slice(&fs::read(format!("/tmp/{name}.json"))?)?)
}

/// Runs all sequences with pktgen or with wirerate, while tcpdump watches the far end; adds the
/// frames of tcpdump to the answers.
fn watched(command: &str, name: &str) -> Result<Vec<Answers>> {
    let pcap = format!("/tmp/{name}.pcap");
    let tcpdump = tcpdump(&pcap)?;
    let mut answers = replayed(command, name)?;
    // Without immediate mode the last frames would wait a second for company, and be lost at the
    // end.
    sh("sleep 0.5")?;
    tcpdump.interrupt()?;
    replay::add_frames(&mut answers, &pcap)?;
    Ok(answers)
}

/// tcpdump at the far end, which has begun. Its ring has a slot of the snaplen for each frame that
/// it has not read yet, so that thousands fit.
fn tcpdump(pcap: &str) -> Result<Background> {
    let tcpdump = Background::start(&format!(
        "exec tcpdump -Z root -i pgv1 -Q in -B 65536 -s 9216 --immediate-mode --time-stamp-precision=nano -U -w {pcap} 2>/tmp/tcpdump"
    ))?;
    sh("until grep -q 'listening on' /tmp/tcpdump; do sleep 0.1; done")?;
    Ok(tcpdump)
}
