//! The kernel's sample scripts, run with its own pktgen and with wirerate.
//! `tools/kernel-samples.sh` takes them from Debian's package of the kernel's source; they are only
//! in the archive of a machine.

use super::{OracleLab, compare, tcpdump};
use crate::archive::Archive;
use crate::cases::CaseReport;
use crate::cases::nics::{CardPair, IGB};
use crate::guest::{load, sh, try_sh, unload};
use anyhow::{Context, Result, ensure};
use pcapng::pcap::Reader;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

/// Where they are in a machine.
const FOLDER: &str = "/samples";
/// Other names of what busybox does, which they call.
const APPLETS: [&str; 4] = ["basename", "dirname", "egrep", "fgrep"];
/// Of Ethernet, IPv4 and UDP: places that the samples draw, and the checksums over them.
const DRAWN_V4: &[std::ops::Range<usize>] = &[24..34, 34..38, 40..42];
/// Bytes of Ethernet, IPv6 and UDP that the sample scripts draw, and the UDP checksum over them.
const DRAWN_V6: &[std::ops::Range<usize>] = &[38..54, 54..58, 60..62];

/// Lines about the last frame: most of it is drawn.
const LAST: &str = "     cur_";

/// At the end of the rates.
const ERRORS: &str = "errors: ";

/// One call.
struct SampleCall {
    script: &'static str,
    options: &'static str,
    device: &'static str,
    /// Frames that go out.
    frames: u64,
}

const fn sample(
    script: &'static str,
    options: &'static str,
    device: &'static str,
    frames: u64,
) -> SampleCall {
    SampleCall { script, options, device, frames }
}

/// pktgen may not repeat frames on a veth, so what does that is for the dummy device, which counts
/// them.
const SAMPLES: &[SampleCall] = &[
    sample("pktgen_sample01_simple.sh", "-n 1000 -d 198.18.7.2", "pgv0", 1000),
    sample("pktgen_sample01_simple.sh", "-n 500 -d 198.18.7.0/24 -p 9-109 -k -s 100", "pgv0", 500),
    sample("pktgen_sample01_simple.sh", "-n 200 -6 -d fd00::2 -v", "pgv0", 200),
    sample("pktgen_sample02_multiqueue.sh", "-n 500 -t 2 -v", "pgv0", 1000),
    sample("pktgen_sample03_burst_single_flow.sh", "-n 1024 -t 2", "pgd0", 2048),
    sample("pktgen_sample04_many_flows.sh", "-n 1000 -t 2 -d 198.18.7.0/24", "pgv0", 2000),
    sample("pktgen_sample05_flow_per_thread.sh", "-n 1000 -t 2 -b 4", "pgd0", 2000),
    sample("pktgen_bench_xmit_mode_queue_xmit.sh", "-n 500 -t 2 -p 9-109", "pgv0", 1000),
];

/// What a sample did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    /// All that it said, less times.
    said: Vec<String>,
    /// Frames of pktgen's at the far end; where they cannot be seen, all that the device counts.
    counted: u64,
    /// Frames at the far end, less what is drawn; none where several threads sent, or no one can
    /// see them.
    frames: Vec<Vec<u8>>,
    /// EtherTypes of what else arrived: the kernel's stack may have something to say as well.
    others: BTreeSet<String>,
}

/// Puts the scripts into an archive, if they can be had.
pub(crate) fn add(archive: &mut Archive) -> Result<()> {
    let tool = testkit::root().join("tools/kernel-samples.sh");
    let output = Command::new(tool).output().context("cannot run tools/kernel-samples.sh")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(!testkit::is_ci(), "cannot run: {why}");
        // The case then reports what is missing.
        return Ok(());
    }
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(Path::new(&folder).join(&name))?;
        archive.text(&format!("{}/{name}", &FOLDER[1..]), &text)?;
    }
    APPLETS.iter().try_for_each(|applet| archive.link(&format!("bin/{applet}"), "busybox"))
}

/// The case.
pub(super) fn samples(finding: &mut CaseReport) -> Result<()> {
    if !Path::new(FOLDER).exists() {
        finding.lacks = Some("the package with the scripts could not be had".to_owned());
        return Ok(());
    }
    let lab = OracleLab::new()?;
    let even_out = |text: String| lab.older.iter().fold(text, |text, older| older.even_out(&text));
    let (mut differences, mut others) = (Vec::new(), BTreeSet::new());
    for sample in SAMPLES {
        load("pktgen", "")?;
        lab.set_gro("off")?;
        let theirs = sample.run("", even_out)?;
        unload("pktgen")?;
        lab.set_gro("on")?;
        let ours = sample.run("wirerate exec --", even_out)?;
        let SampleCall { script, options, frames, .. } = sample;
        ensure!(ours.counted == *frames, "{script} {options}: {} of {frames} frames: {ours:?}", ours.counted);
        others.extend(theirs.others.iter().chain(&ours.others).cloned());
        differences.extend(theirs.difference(&ours).map(|what| format!("{script} {options}: {what}")));
    }
    finding.note("scripts", SAMPLES.len());
    if !others.is_empty() {
        finding.note("frames of the stack", others.into_iter().collect::<Vec<_>>().join(", "));
    }
    lab.note(finding);
    super::told(&differences, SAMPLES.len(), "")
}

/// A `cut` with the option of GNU's that the sample uses; busybox spells it otherwise.
const CUT: &str = r#"mkdir -p /tmp/bin && cat >/tmp/bin/cut <<'END' && chmod +x /tmp/bin/cut
#!/bin/sh
for word; do
    case $word in
    --output-delimiter=*) set -- "$@" -O "${word#*=}" ;;
    *) set -- "$@" "$word" ;;
    esac
    shift
done
exec busybox cut "$@"
END"#;
/// Runs of the sample that binds threads to interrupts.
const ROUNDS: u64 = 5;

/// The sample that binds each queue of a card and its interrupt to a thread.
pub(super) fn by_interrupt(finding: &mut CaseReport) -> Result<()> {
    const SCRIPT: &str = "pktgen_sample06_numa_awared_queue_irq_affinity.sh";
    const FRAMES: u64 = 1_000;
    if !Path::new(FOLDER).exists() {
        finding.lacks = Some("the package with the scripts could not be had".to_owned());
        return Ok(());
    }
    sh(CUT)?;
    let pair = CardPair::new(&IGB)?;
    for round in 1..=ROUNDS {
        let before = pair.received()?;
        let text = sh(&format!(
            "PATH=/tmp/bin:$PATH timeout 100 wirerate exec --netns tx -- \
             bash {FOLDER}/{SCRIPT} -i tx0 -m {} -d 198.18.0.2 -n {} -t 2",
            pair.receiver_mac(),
            FRAMES / 2
        ))?;
        ensure!(text.matches("Result: OK: ").count() == 2, "round {round}: {text}");
        let arrived = pair.arrived(before, FRAMES)?;
        ensure!(arrived == FRAMES, "round {round}: {arrived} of {FRAMES} frames arrived: {text}");
    }
    finding.note("runs", ROUNDS);
    Ok(())
}

impl SampleCall {
    fn run(&self, before: &str, even_out: impl Fn(String) -> String) -> Result<Done> {
        let Self { script, options, device, frames } = self;
        let tcpdump = tcpdump("/tmp/sample.pcap")?;
        let counter = format!("/sys/class/net/{device}/statistics/tx_packets");
        let count = || -> Result<u64> { Ok(fs::read_to_string(&counter)?.trim().parse()?) };
        let earlier = count()?;
        let command =
            format!("timeout 100 {before} bash {FOLDER}/{script} -i {device} -m 02:00:00:00:00:02 {options}");
        let output = try_sh(&command)?;
        let text = |bytes: &[u8]| even_out(String::from_utf8_lossy(bytes).into_owned());
        let said = text(&output.stdout);
        ensure!(output.status.success(), "{command}: {}\n{said}\n{}", output.status, text(&output.stderr));
        let (is_seen, threads) = (*device == "pgv0", if options.contains("-t 2") { 2 } else { 1 });
        if is_seen {
            // They have arrived; tcpdump writes each at once.
            sh(&format!(
                "for i in $(seq 300); do [ $(tcpdump -Z root -r /tmp/sample.pcap 2>/dev/null | wc -l) -ge {frames} ] && break; sleep 0.1; done"
            ))?;
        }
        tcpdump.interrupt()?;
        let drawn = if options.contains("-6") { DRAWN_V6 } else { DRAWN_V4 };
        let seen = if is_seen { frames_of("/tmp/sample.pcap")? } else { Vec::new() };
        let (seen, others): (Vec<_>, Vec<_>) = seen.into_iter().partition(|frame| is_of_pktgen(frame));
        Ok(Done {
            said: said.lines().filter(|line| !line.starts_with(LAST)).map(without_errors).collect(),
            counted: if is_seen { seen.len() as u64 } else { count()? - earlier },
            // Several threads send in any order.
            frames: if threads == 1 {
                seen.iter().map(|frame| settled(frame, drawn)).collect()
            } else {
                Vec::new()
            },
            others: others.iter().map(|frame| compare::hex(&frame[12..14])).collect(),
        })
    }
}

/// A line without times, and without the frames that found the ring full: xdp makes others for
/// them, and pktgen does not count how often it waited.
fn without_errors(line: &str) -> String {
    let line = compare::without_times(line);
    match line.split_once(ERRORS) {
        Some((rates, count)) if count.parse::<u64>().is_ok() => format!("{rates}{ERRORS}#"),
        _ => line,
    }
}

fn is_of_pktgen(frame: &[u8]) -> bool {
    frame.windows(4).any(|word| word == compare::MAGIC)
}

fn frames_of(path: &str) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::new(BufReader::new(File::open(path)?))?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record()? {
        frames.push(record.data.to_vec());
    }
    Ok(frames)
}

/// A frame less what is drawn and times.
fn settled(frame: &[u8], drawn: &[std::ops::Range<usize>]) -> Vec<u8> {
    let mut frame = compare::without_stamp(frame);
    let places = drawn.iter().cloned().flatten();
    places.for_each(|at| frame.get_mut(at).into_iter().for_each(|byte| *byte = 0));
    frame
}

impl Done {
    /// The first thing in which they differ.
    fn difference(&self, ours: &Self) -> Option<String> {
        let lines = compare::lines("what it says", self.said.clone(), ours.said.clone());
        let counts = || {
            let differ = self.counted != ours.counted;
            differ.then(|| format!("frames\n  kernel   {}\n  wirerate {}", self.counted, ours.counted))
        };
        let hex = |frames: &[Vec<u8>]| frames.iter().map(|frame| compare::hex(frame)).collect();
        lines.or_else(counts).or_else(|| compare::lines("the frames", hex(&self.frames), hex(&ours.frames)))
    }
}
