//! What more does to the rate: more flows, more time, more CPUs, more instances.
//!
//! Everything is wirerate against wirerate; the first row of the list is what the others are compared with.

use crate::bed::Bed;
use crate::frame;
use crate::generate::{self, Contest, FRAME_LEN, until_frames_come};
use crate::process::Tool;
use crate::report::{Report, mpps};
use crate::samples::rate_pps;
use crate::settings::{Deadline, Settings};
use crate::stats::Estimate;
use crate::tool::{Flood, Generator, Program, Programs, owned, rival, wirerate_by};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Duration;

const CASE: &str = "scaling";
/// Frames of a run without end.
const PLENTY: u64 = 4_000_000_000;
/// Destinations that flows are drawn from: more than there are flows.
const FLOWS: [&str; 4] = ["--dst", "198.18.0.0/15", "--flow-len", "16"];

/// A row that is compared with `plain`.
const fn row(
    name: &'static str,
    title: &'static str,
    goal: Option<f64>,
    words: fn(&Flood<'_>) -> Vec<String>,
) -> Generator {
    const PLAIN: [&[crate::tool::Rival]; 3] =
        [&[rival("plain", None)], &[rival("plain", Some(0.9))], &[rival("plain", Some(1.8))]];
    let rivals = match goal {
        None => PLAIN[0],
        Some(goal) if goal < 1.0 => PLAIN[1],
        Some(_) => PLAIN[2],
    };
    Generator {
        name,
        title,
        program: Program::Wirerate,
        plenty: PLENTY,
        words,
        rivals,
        needs_two_cpus: false,
    }
}

const fn on_two_cpus(row: Generator) -> Generator {
    Generator { needs_two_cpus: true, ..row }
}

/// All that are compared. The first one is measured against itself as well.
pub(crate) const SCALING: &[Generator] = &[
    Generator { rivals: &[], ..row("plain", "xdp, plain", None, |flood| send("xdp", flood, &[])) },
    row("flows-1", "xdp, 1 flow", Some(0.9), |flood| flows("xdp", flood, "1")),
    row("flows-1000", "xdp, 1,000 flows", Some(0.9), |flood| flows("xdp", flood, "1000")),
    row("flows-65536", "xdp, 65,536 flows", Some(0.9), |flood| flows("xdp", flood, "65536")),
    Generator { rivals: &[], ..row("skb", "skb, plain", None, |flood| send("skb", flood, &[])) },
    Generator {
        rivals: &[rival("skb", None)],
        ..row("skb-flows-65536", "skb, 65,536 flows", None, |flood| flows("skb", flood, "65536"))
    },
    on_two_cpus(row("two-cpus", "xdp, two CPUs", Some(1.8), two_cpus)),
    on_two_cpus(row("two-instances", "xdp, 2 instances on two CPUs", None, |flood| instances(flood, 2))),
    on_two_cpus(Generator {
        rivals: &[rival("two-instances", None)],
        ..row("eight-instances", "xdp, 8 instances on two CPUs", None, |flood| instances(flood, 8))
    }),
];

fn send(engine: &str, flood: &Flood<'_>, more: &[&str]) -> Vec<String> {
    let more: Vec<&str> = ["--no-timestamp"].iter().chain(more).copied().collect();
    wirerate_by(engine, &flood.cpu.to_string(), flood, &more)
}

fn flows(engine: &str, flood: &Flood<'_>, count: &str) -> Vec<String> {
    let more: Vec<&str> = FLOWS.iter().chain(&["--flows", count]).copied().collect();
    send(engine, flood, &more)
}

fn two_cpus(flood: &Flood<'_>) -> Vec<String> {
    let cpus = format!("{},{}", flood.cpu, flood.other_cpu);
    wirerate_by("xdp", &cpus, flood, &["--no-timestamp"])
}

/// Control files: so many instances of the device, spread over two threads, which share the count.
fn instances(flood: &Flood<'_>, number: u64) -> Vec<String> {
    let (dev, nobody, dst) = (flood.end.ifname, frame::NOBODY, frame::DST);
    let count = flood.count / number;
    let mut script = "set -eu; trap true INT; P=/proc/net/pktgen\n".to_owned();
    for instance in 0..number {
        let cpu = if instance % 2 == 0 { flood.cpu } else { flood.other_cpu };
        script += &format!("echo add_device {dev}@{instance} > $P/kpktgend_{cpu}\n");
        let size = flood.frame_len;
        for command in [
            format!("count {count}"),
            format!("pkt_size {size}"),
            format!("dst_mac {nobody}"),
            format!("dst {dst}"),
        ] {
            script += &format!("echo {command} > $P/{dev}@{instance}\n");
        }
        script += &format!("echo flag NO_TIMESTAMP > $P/{dev}@{instance}\n");
    }
    script += "echo start > $P/pgctrl\n";
    owned(&["exec", "--netns", &flood.end.netns_name, "--", "bash", "-c", &script])
}

/// A short run and a long one.
#[derive(Debug, Serialize)]
struct Lengths {
    case: &'static str,
    short_ns: u64,
    short_pps: f64,
    long_ns: u64,
    long_pps: f64,
    /// Rate of the long run in rates of the short one.
    ratio: f64,
}

/// Measures all of it.
pub(crate) fn run(
    bed: &Bed,
    programs: &Programs,
    settings: &Settings,
    deadline: Deadline,
    report: &mut Report,
) -> Result<()> {
    let contest =
        Contest { case: CASE, place: "senders on CPU 0, or on two CPUs where it says so", tools: SCALING };
    generate::run(&contest, bed, programs, settings, deadline, report)?;
    let sink = bed.sink()?;
    let lengths = lengths(bed, programs, settings.runs)?;
    drop(sink);
    report.row("lengths", &lengths)?;
    let rate = |pps: f64| mpps(Estimate { median: pps, spread: 0.0, count: 1 });
    report.say(&format!(
        "  one run: {} in its first {:.0} s, {} in {:.0} s: {:.3} x",
        rate(lengths.short_pps),
        lengths.short_ns as f64 / 1e9,
        rate(lengths.long_pps),
        lengths.long_ns as f64 / 1e9,
        lengths.ratio
    ))
}

/// One run, read after a while and after a long while.
fn lengths(bed: &Bed, programs: &Programs, [short, long]: [Duration; 2]) -> Result<Lengths> {
    let before = bed.settled()?;
    let (end, cpu) = (&bed.lab.tx, bed.generator_cpu);
    let flood = Flood { end, cpu, other_cpu: cpu, frame_len: FRAME_LEN, count: PLENTY };
    let program = programs.find(Program::Wirerate).context("there is no wirerate to measure")?;
    let tool = Tool::start(&program, &(SCALING[0].words)(&flood), end.netns(), cpu)?;
    until_frames_come(bed, &tool, before)?;
    let from = bed.sample()?;
    bed.stop.sleep(short)?;
    let middle = bed.sample()?;
    bed.stop.sleep(long.saturating_sub(short))?;
    let to = bed.sample()?;
    ensure!(!tool.has_ended()?, "it ended before it was asked to: {}", tool.last_words());
    let ended = tool.stop(&bed.stop)?;
    ensure!(ended.is_good(), "it ended with {}: {}", ended.status, ended.said.trim());
    let rate = |to| rate_pps(from, to).context("no time passed");
    let (short_pps, long_pps) = (rate(middle)?, rate(to)?);
    Ok(Lengths {
        case: CASE,
        short_ns: middle.time_ns - from.time_ns,
        short_pps,
        long_ns: to.time_ns - from.time_ns,
        long_pps,
        ratio: long_pps / short_pps,
    })
}
