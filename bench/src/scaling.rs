//! What more does to the rate: more flows, more time, more CPUs, more instances.
//!
//! Everything is wirerate against wirerate; the first row of the list is what the others are compared with.

use crate::bed::Bed;
use crate::frame;
use crate::generate::{self, Contest, FRAME_LEN, until_frames_come};
use crate::process::Tool;
use crate::report::{Report, mpps};
use crate::samples::{Sample, rate_pps};
use crate::settings::{Deadline, Settings};
use crate::stats::{Estimate, median};
use crate::tool::{Flood, Generator, Program, Programs, owned, rival, wirerate_by};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

const CASE: &str = "scaling";
/// Windows in each watched part of a long run.
const WINDOWS: u32 = 10;
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

/// What one long run did at its beginning and at its end.
#[derive(Clone, Copy, Debug, Serialize)]
struct Length {
    case: &'static str,
    run_ns: u64,
    /// At the beginning.
    first: Part,
    /// At the end, as long.
    last: Part,
    /// The best of the end in the best of the beginning: others take from a rate, now and then, but nobody adds to it.
    ratio: f64,
}

/// A part of a run, in windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Part {
    part_ns: u64,
    best_pps: f64,
    median_pps: f64,
}

impl Part {
    /// From the readings of a counter at the edges of the windows.
    fn of(samples: &[Sample]) -> Option<Self> {
        let rates: Vec<f64> = samples.windows(2).filter_map(|pair| rate_pps(pair[0], pair[1])).collect();
        Some(Self {
            part_ns: samples.last()?.time_ns - samples.first()?.time_ns,
            best_pps: rates.iter().copied().reduce(f64::max)?,
            median_pps: median(&rates)?,
        })
    }
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
    let program = programs.find(Program::Wirerate).context("there is no wirerate to measure")?;
    let length = length(bed, &program, settings.runs)?;
    drop(sink);
    report.row("length", &length)?;
    let text = |part: Part| {
        let rate = |pps| mpps(Estimate { median: pps, spread: 0.0, count: 1 });
        let seconds = part.part_ns as f64 / 1e9;
        format!("{seconds:.1} s {} at best, {} in the middle", rate(part.best_pps), rate(part.median_pps))
    };
    report.say(&format!(
        "  one run of {:.1} s: in its first {}; in its last {}: {:.2} x by the best",
        length.run_ns as f64 / 1e9,
        text(length.first),
        text(length.last),
        length.ratio
    ))
}

/// One run, watched from its first frame on.
fn length(bed: &Bed, program: &Path, [part, whole]: [Duration; 2]) -> Result<Length> {
    let before = bed.settled()?;
    let (end, cpu) = (&bed.lab.tx, bed.generator_cpu);
    let flood = Flood { end, cpu, other_cpu: cpu, frame_len: FRAME_LEN, count: PLENTY };
    let tool = Tool::start(program, &(SCALING[0].words)(&flood), end.netns(), cpu)?;
    until_frames_come(bed, &tool, before)?;
    let first = watch(bed, part)?;
    bed.stop.sleep(whole.saturating_sub(2 * part))?;
    let last = watch(bed, part)?;
    ensure!(!tool.has_ended()?, "it ended before it was asked to: {}", tool.last_words());
    let ended = tool.stop(&bed.stop)?;
    ensure!(ended.is_good(), "it ended with {}: {}", ended.status, ended.said.trim());
    let run_ns = last.last().context("no reading")?.time_ns - first.first().context("no reading")?.time_ns;
    let (first, last) = Part::of(&first).zip(Part::of(&last)).context("no time passed")?;
    Ok(Length { case: CASE, run_ns, first, last, ratio: last.best_pps / first.best_pps })
}

/// Reads the counter at the edges of windows, for a while.
fn watch(bed: &Bed, part: Duration) -> Result<Vec<Sample>> {
    let mut samples = vec![bed.sample()?];
    for _ in 0..WINDOWS {
        bed.stop.sleep(part / WINDOWS)?;
        samples.push(bed.sample()?);
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_a_best_window_and_one_in_the_middle() {
        let sample = |ms: u64, frames| Sample { time_ns: ms * 1_000_000, frames };
        let samples = [sample(0, 100), sample(1, 1_100), sample(2, 1_200), sample(3, 3_200)];
        let part = Part::of(&samples).expect("there are windows");
        assert_eq!(part, Part { part_ns: 3_000_000, best_pps: 2e6, median_pps: 1e6 });
        assert_eq!((Part::of(&samples[..1]), Part::of(&[])), (None, None));
    }
}
