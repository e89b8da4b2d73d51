//! Generators: frames a second that reach the receiver, with a sink that drops them in the driver.
//!
//! The same contest serves all lists of generators: wirerate and its peers, and wirerate against itself with more to do.

use crate::bed::{AttachedSink, Bed};
use crate::facts::Ticks;
use crate::process::{Ended, Tool};
use crate::report::{self, Report, ResultRow, mpps};
use crate::samples::{Sample, rate_pps};
use crate::schedule::{Rounds, interleaved};
use crate::settings::{Deadline, Settings};
use crate::stats::Estimate;
use crate::tool::{Flood, Generator, Programs};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Without FCS; the shortest that Ethernet knows.
pub(crate) const FRAME_LEN: usize = 60;
/// How long a tool may take to its first frame, and to send the frames of its proof.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Who takes part in what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    /// In rows.
    pub(crate) case: &'static str,
    /// For people: where they run.
    pub(crate) place: &'static str,
    /// The first one is measured against itself before all take part.
    pub(crate) tools: &'static [Generator],
}

/// A generator that is installed.
struct Contender {
    case: &'static str,
    tool: &'static Generator,
    program: PathBuf,
}

/// All rounds.
struct Measured {
    /// Frames a second.
    rates: Rounds,
    /// CPU time of a frame, in nanoseconds. It moves less than a rate when others want the CPU, too.
    costs: Rounds,
}

/// One measured run.
#[derive(Debug, Serialize)]
struct Run<'a> {
    case: &'a str,
    /// `noise` or `rounds`.
    part: &'a str,
    round: usize,
    tool: &'a str,
    frame_len: usize,
    /// At the receiver, in the window.
    frames: u64,
    window_ns: u64,
    rate_pps: f64,
    /// Of the tool over its whole life, receive path included, for each frame of its life.
    cpu_ns_per_frame: f64,
    busy: f64,
    steal: f64,
}

#[derive(Debug, Serialize)]
struct Proof<'a> {
    case: &'a str,
    tool: &'a str,
    asked: u64,
    received: u64,
    sink: u64,
}

/// Measures all that are installed.
pub(crate) fn run(
    contest: &Contest,
    bed: &Bed,
    programs: &Programs,
    settings: &Settings,
    deadline: Deadline,
    report: &mut Report,
) -> Result<()> {
    report.say(&format!(
        "\n{}: {FRAME_LEN}-byte frames, {}, XDP_DROP at the receiver; \
         {} rounds of {} ms, counted at the receiver",
        contest.case,
        contest.place,
        settings.generate_rounds,
        settings.window.as_millis()
    ))?;
    let contenders = installed(contest, bed, programs, report)?;
    let sink = bed.sink()?;
    for contender in &contenders {
        prove(bed, &sink, contender, settings.proof_frames, report)?;
    }
    let itself = [&contenders[0], &contenders[0]];
    let noise = rounds(bed, &itself, "noise", settings, settings.generate_noise_rounds, deadline, report)?;
    if let Some(ratio) = Estimate::of_ratios(noise.rates.of(0), noise.rates.of(1)) {
        report.say(&format!("  {ratio} x  {} against itself: the noise", contenders[0].tool.title))?;
    }
    let all: Vec<&Contender> = contenders.iter().collect();
    let measured = rounds(bed, &all, "rounds", settings, settings.generate_rounds, deadline, report)?;
    conclude(&all, &measured, settings.generate_rounds, report)
}

fn installed(
    contest: &Contest,
    bed: &Bed,
    programs: &Programs,
    report: &mut Report,
) -> Result<Vec<Contender>> {
    let mut found = Vec::new();
    for tool in contest.tools.iter().filter(|tool| programs.wants(tool.name, tool.program)) {
        if tool.needs_two_cpus && bed.capture_cpu == bed.generator_cpu {
            report.complain(&format!("{} needs a second CPU, so it is left out", tool.title))?;
            continue;
        }
        match programs.find(tool.program) {
            Some(program) => found.push(Contender { case: contest.case, tool, program }),
            None => report.complain(&format!("{} is not installed, so it is left out", tool.title))?,
        }
    }
    Ok(found)
}

fn start(bed: &Bed, contender: &Contender, count: u64) -> Result<Tool> {
    let end = &bed.lab.tx;
    let flood =
        Flood { end, cpu: bed.generator_cpu, other_cpu: bed.capture_cpu, frame_len: FRAME_LEN, count };
    Tool::start(&contender.program, &(contender.tool.words)(&flood), end.netns(), bed.generator_cpu)
}

/// Lets it send a number of frames, which must arrive, all and no more.
fn prove(
    bed: &Bed,
    sink: &AttachedSink,
    contender: &Contender,
    asked: u64,
    report: &mut Report,
) -> Result<()> {
    let (before, dropped_before) = (bed.settled()?, sink.frames());
    let ended = start(bed, contender, asked)?.wait(PATIENCE, &bed.stop)?;
    let received = bed.settled()?.frames - before.frames;
    let name = contender.tool.name;
    let proof =
        Proof { case: contender.case, tool: name, asked, received, sink: sink.frames() - dropped_before };
    report.row("proof", &proof)?;
    check(contender, &ended)?;
    if (proof.received, proof.sink) != (asked, asked) {
        report.complain(&format!(
            "{name} was asked for {asked} frames: {received} were received, {} dropped by the sink",
            proof.sink
        ))?;
    }
    Ok(())
}

fn check(contender: &Contender, ended: &Ended) -> Result<()> {
    let name = contender.tool.name;
    ensure!(ended.is_good(), "{name} ended with {}: {}", ended.status, ended.said.trim());
    Ok(())
}

/// Everyone in turn, as often as asked for or as time allows.
fn rounds(
    bed: &Bed,
    contenders: &[&Contender],
    part: &str,
    settings: &Settings,
    count: usize,
    deadline: Deadline,
    report: &mut Report,
) -> Result<Measured> {
    let mut measured =
        Measured { rates: Rounds::new(contenders.len()), costs: Rounds::new(contenders.len()) };
    for turn in interleaved(contenders.len(), count) {
        if turn.contender == 0 && turn.round > 0 && deadline.is_over() {
            break;
        }
        let contender = contenders[turn.contender];
        let name = contender.tool.name;
        let run = measure(bed, contender, settings).with_context(|| format!("cannot measure {name}"))?;
        let run = Run { part, round: turn.round, ..run };
        report.row("run", &run)?;
        measured.rates.push(turn, run.rate_pps);
        measured.costs.push(turn, run.cpu_ns_per_frame);
    }
    Ok(measured)
}

/// Starts it, measures in mid-flight, stops it.
fn measure(bed: &Bed, contender: &Contender, settings: &Settings) -> Result<Run<'static>> {
    let before = bed.settled()?;
    let tool = start(bed, contender, contender.tool.plenty)?;
    until_frames_come(bed, &tool, before)?;
    bed.stop.sleep(settings.settle)?;
    let (ticks, from) = (Ticks::read()?, bed.sample()?);
    bed.stop.sleep(settings.window)?;
    let to = bed.sample()?;
    let shares = Ticks::read()?.since(ticks);
    ensure!(!tool.has_ended()?, "it ended before it was asked to: {}", tool.last_words());
    let ended = tool.stop(&bed.stop)?;
    check(contender, &ended)?;
    let life = bed.settled()?.frames - before.frames;
    Ok(Run {
        case: contender.case,
        part: "",
        round: 0,
        tool: contender.tool.name,
        frame_len: FRAME_LEN,
        frames: to.frames - from.frames,
        window_ns: to.time_ns - from.time_ns,
        rate_pps: rate_pps(from, to).context("no time passed")?,
        cpu_ns_per_frame: ended.cpu_ns as f64 / life.max(1) as f64,
        busy: shares.busy,
        steal: shares.steal,
    })
}

pub(crate) fn until_frames_come(bed: &Bed, tool: &Tool, before: Sample) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while bed.sample()?.frames == before.frames {
        if tool.has_ended()? || Instant::now() >= deadline {
            bail!("no frame of it arrived; it said: {}", tool.last_words());
        }
        bed.stop.sleep(LOOK_EVERY)?;
    }
    Ok(())
}

/// Medians of all, and the ratios of ours to theirs.
fn conclude(
    contenders: &[&Contender],
    measured: &Measured,
    wanted: usize,
    report: &mut Report,
) -> Result<()> {
    let whole = measured.rates.whole();
    if whole < wanted {
        report.say(&format!("  time is up after {whole} of {wanted} rounds"))?;
    }
    for (index, contender) in contenders.iter().enumerate() {
        let values = (Estimate::of(measured.rates.of(index)), Estimate::of(measured.costs.of(index)));
        let (Some(rate), Some(cost)) = values else { continue };
        let cost_text = format!("{cost} ns of CPU a frame");
        report.say(&format!("  {:>18}  {cost_text:>29}  {}", mpps(rate), contender.tool.title))?;
        report.row("result", &ResultRow::rate(contender.case, contender.tool.name, rate))?;
        report.row("result", &ResultRow::cost(contender.case, contender.tool.name, cost))?;
    }
    for (ours, contender) in contenders.iter().enumerate() {
        for (theirs, rival) in contenders.iter().enumerate() {
            if let Some(wish) = contender.tool.rivals.iter().find(|wish| wish.name == rival.tool.name) {
                compare((ours, contender), (theirs, rival.tool), wish.goal, measured, report)?;
            }
        }
    }
    Ok(())
}

fn compare(
    (ours, Contender { case, tool, .. }): (usize, &Contender),
    (theirs, rival): (usize, &Generator),
    goal: Option<f64>,
    measured: &Measured,
    report: &mut Report,
) -> Result<()> {
    let rate = Estimate::of_ratios(measured.rates.of(ours), measured.rates.of(theirs));
    // The other way round: less is better.
    let cost = Estimate::of_ratios(measured.costs.of(theirs), measured.costs.of(ours));
    let (Some(rate), Some(cost)) = (rate, cost) else { return Ok(()) };
    let goal_text = report::goal(goal);
    report
        .say(&format!("  {}: {rate} x of {}{goal_text} ({cost} x by CPU time)", tool.title, rival.title))?;
    report.row("result", &ResultRow::ratio(case, tool.name, rival.name, rate, goal))?;
    report.row("result", &ResultRow::cost_ratio(case, tool.name, rival.name, cost))
}
